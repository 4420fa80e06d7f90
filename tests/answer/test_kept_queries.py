"""Registering with `kept=True`: what is refused, what users see of it, and that answers stay right whatever happens.

Two shapes stand for the two ways in which answers are kept: alerts, whose groups are added up, and rows, whose answers
are made anew for the queries that something came for. What they have to say is counted in plain Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from tests.keeping import changes_in, rows_of
from weir.answer.fetch import kept_answer
from weir.errors import QueryError, RegisterError
from weir.store.ledger import Done
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
WINDOW_S = 10
ALERTS = (
    "SELECT symbol, count(*) AS n FROM trade WHERE price > :low GROUP BY symbol HAVING count(*) > :n "
    "BEGIN NOW - INTERVAL 10 SECONDS END NOW"
)
ROWS = "SELECT symbol, price FROM trade WHERE price > :low BEGIN NOW - INTERVAL 10 SECONDS END NOW"
WISHES = {"low": [0, 5, 8], "n": [1, 0, 2]}


class Market:
    """A weir with trades and a clock that another stream moves, its batches, and all trades that were taken."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.weir = weir.open(folder, settings=settings)
        self.weir.stream("trade", "symbol string, price bigint, ts timestamp", time="ts", keep="1 minute")
        self.weir.stream("clock", "area string, ts timestamp", time="ts", keep="1 minute")
        self.weir.table("stock", "symbol string, company string null", key="symbol")
        self.direct = DirectWeir(self.weir, wall_us=10_000 * SECOND)
        self.trades: list[tuple[int, str, int]] = []  # second, symbol, price
        self.now_s = 0
        self.told: dict[int, Counter[str]] = {}  # by query, what came less what went

    def alerts(self, **wishes: list[int]) -> weir.handles.Queries:
        return self.weir.register_many(ALERTS, wishes or WISHES, kept=True)

    def batch(self, *trades: tuple[int, str, int]) -> Done:
        """Trades come, and the clock is at least where they are."""
        self.trades += trades
        at = [pa.scalar(second * SECOND, pa.timestamp("us", "UTC")) for second, _, _ in trades]
        columns = {"symbol": [s for _, s, _ in trades], "price": pa.array([p for _, _, p in trades], pa.int64())}
        rows = pa.table(columns | {"ts": pa.array([t.as_py() for t in at], pa.timestamp("us", "UTC"))})
        self.now_s = max([self.now_s, *(second for second, _, _ in trades)])
        return self._done({"trade": rows} if trades else {})

    def passes(self, until_s: int) -> Done:
        """Nothing but time passes."""
        self.now_s = until_s
        times = pa.array([until_s * SECOND], pa.timestamp("us", "UTC"))
        return self._done({"clock": pa.table({"area": ["x"], "ts": times})})

    def _done(self, rows: dict[str, pa.Table]) -> Done:
        done = self.direct.batch(rows)
        for id, came, row in changes_in(self.weir, done):
            self.told.setdefault(id, Counter())[row] += 1 if came else -1
        return done

    def fired(self, low: int, n: int) -> list[dict[str, Any]]:
        """What an alert has to say."""
        counts = Counter(s for t, s, p in self.trades if self.now_s - WINDOW_S < t <= self.now_s and p > low)
        return [{"symbol": s, "n": count} for s, count in sorted(counts.items()) if count > n]

    def is_kept(self, id: int) -> bool:
        """Whether an answer is read from what the last batch has kept."""
        w = self.weir
        w.registry.refresh()
        w.state.refresh(w.ledger)
        return kept_answer(w._library.standing(id), w.files, w.state) is not None

    def check(self, alerts: Iterable[weir.Query], wishes: dict[str, list[int]] | None = None) -> None:
        """Alerts are kept, say what they have to, and what was told adds up to it."""
        given = wishes or WISHES
        for query, low, n in zip(alerts, given["low"], given["n"], strict=True):
            answer = query.fetch()
            assert self.is_kept(query.id), query.id
            assert sorted(answer.to_pylist(), key=lambda row: row["symbol"]) == self.fired(low, n), query.sql
            left = Counter({row: count for row, count in self.told.get(query.id, Counter()).items() if count})
            assert left == Counter(rows_of(answer)), query.sql


def said_of(text: str) -> str:
    """What `explain` says of keeping."""
    (line,) = (line for line in text.splitlines() if line.startswith("kept: "))
    return line.removeprefix("kept: ")


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path / "weir")


# ── registering ──


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (
            "SELECT symbol FROM trade WHERE ts > current_timestamp() - INTERVAL 3 SECONDS",
            "it compares with current_timestamp, so its answer changes at every moment",
        ),
        (
            "SELECT symbol, now() AS seen FROM trade",
            "it compares with current_timestamp, so its answer changes at every moment",
        ),
        (
            "SELECT symbol FROM trade t, clock c WHERE t.price * length(c.area) > 3",
            "nothing that is matched as rows come connects its sources (clock, trade)",
        ),
        ("SELECT symbol FROM trade, clock", "nothing that is matched as rows come connects its sources (clock, trade)"),
        ("SELECT company FROM stock", "it reads no stream"),
        ("SELECT count(*) FROM stock s JOIN stock t ON s.company = t.company", "it reads no stream"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_registered_without(market: Market, sql: str, why: str) -> None:
    with pytest.raises(RegisterError) as refused:
        market.weir.register(sql, kept=True)
    hint = "register it without kept=True: its answer is computed when it is asked for"
    assert str(refused.value) == f"register: the query's answer cannot be kept: {why}; {hint}"
    assert market.weir.queries().num_rows == 0, "nothing is registered then"
    assert said_of(market.weir.explain(sql)) == f"cannot be: {why}"
    assert said_of(market.weir.register(sql).explain()) == "no: it is computed when it is asked for"


def test_a_refused_group_registers_none(market: Market) -> None:
    sql = "SELECT symbol FROM trade WHERE ts > current_timestamp() - INTERVAL :s SECONDS"
    with pytest.raises(RegisterError, match="current_timestamp"):
        market.weir.register_many(sql, {"s": [1, 2]}, kept=True)
    assert market.weir.queries().num_rows == 0


@pytest.mark.parametrize("kept", ["yes", 1, 0, None])
def test_kept_is_true_or_false(market: Market, kept: Any) -> None:
    named = type(kept).__name__
    with pytest.raises(RegisterError, match=f"^register: kept is True or False, got a {named}$"):
        market.weir.register("SELECT symbol FROM trade", kept=kept)
    with pytest.raises(RegisterError, match=f"got a {named}$"):
        market.weir.register_many(ROWS, {"low": [1]}, kept=kept)


def test_the_list_of_queries_and_explain_say_what_is_kept(market: Market) -> None:
    w = market.weir
    kept, plain = w.register(ROWS, {"low": 3}, kept=True), w.register(ROWS, {"low": 3})
    assert w.queries().select(["id", "kept", "reason"]).to_pylist() == [
        {"id": kept.id, "kept": True, "reason": None},
        {"id": plain.id, "kept": False, "reason": None},
    ]
    assert said_of(w.explain(ROWS)) == "can be (kept=True)"
    assert said_of(plain.explain()) == "no: it is computed when it is asked for"
    assert said_of(kept.explain()) == "from its first batch on"
    market.batch((1, "a", 4))
    assert said_of(kept.explain()) == "yes: part 1 of 2, in 1 file"
    market.batch((2, "b", 5))
    assert said_of(kept.explain()) == "yes: part 1 of 2, in 2 files"
    assert said_of(plain.explain()) == "no: it is computed when it is asked for"
    assert not market.is_kept(plain.id)


# ── answers ──


def test_alerts_fire_and_clear_because_only_time_passes(market: Market) -> None:
    alerts = market.alerts()
    done = market.batch((1, "a", 9), (1, "a", 9), (2, "a", 9), (2, "b", 6))
    assert {(id, came) for id, came, _ in changes_in(market.weir, done)} == {(0, True), (1, True), (2, True)}
    market.check(alerts)
    done = market.passes(11)  # the trades of the first second are over, those of the second are not
    assert (2, False) in {(id, came) for id, came, _ in changes_in(market.weir, done)}
    market.check(alerts)
    done = market.passes(12)
    assert {(id, came) for id, came, _ in changes_in(market.weir, done)} == {(1, False)}
    market.check(alerts)
    done = market.passes(40)
    assert not changes_in(market.weir, done), "nothing was left that could go"
    assert not done.kept, "so nothing is written"
    market.check(alerts)


def test_queries_over_rows_that_came_before_them(market: Market) -> None:
    market.batch((1, "a", 9), (1, "a", 9), (9, "b", 9))
    alerts = market.alerts()
    assert [said_of(query.explain()) for query in alerts] == ["from its first batch on"] * 3
    market.passes(10)
    market.check(alerts)
    assert market.fired(0, 1)
    market.passes(12)
    market.check(alerts)
    assert not market.fired(0, 1)


def test_rows_that_stand_in_another_order_are_another_answer(market: Market) -> None:
    """A row goes and an equal one comes: nothing is told, but the order is another one."""
    ordered = "SELECT symbol FROM trade WHERE price > :low ORDER BY ts DESC BEGIN NOW - INTERVAL 10 SECONDS END NOW"
    newest_first = market.weir.register_many(ordered, {"low": [5, 8, 20]}, kept=True)
    in_arrival = market.weir.register(ROWS, {"low": 5}, kept=True)
    market.batch((1, "a", 9), (2, "b", 9))
    assert [query.fetch()["symbol"].to_pylist() for query in newest_first] == [["b", "a"], ["b", "a"], []]
    done = market.batch((11, "a", 9))
    assert not changes_in(market.weir, done)
    assert [query.fetch()["symbol"].to_pylist() for query in newest_first] == [["a", "b"], ["a", "b"], []]
    assert in_arrival.fetch()["symbol"].to_pylist() == ["b", "a"]
    assert all(market.is_kept(query.id) for query in (*newest_first, in_arrival))


# ── given up ──


def is_right(market: Market, query: weir.Query, sql: str, low: int) -> bool:
    """Whether an answer is what the trades say."""
    if sql == ALERTS:
        return query.fetch().to_pylist() == market.fired(low, 1)
    shown = [(s, p) for t, s, p in market.trades if market.now_s - WINDOW_S < t <= market.now_s and p > low]
    return [tuple(row.values()) for row in query.fetch().to_pylist()] == shown


@pytest.mark.parametrize("sql", [ALERTS, ROWS])
def test_too_many_results_are_given_up_and_tried_again(tmp_path: Path, sql: str) -> None:
    market = Market(tmp_path, kept_results_max=5)
    wishes = {"low": [0, 8]} | ({"n": [1, 1]} if sql == ALERTS else {})
    many, few = market.weir.register_many(sql, wishes, kept=True)
    market.batch((1, "a", 7), (1, "a", 9))
    assert market.is_kept(many.id)
    before = Counter(rows_of(many.fetch()))
    assert before == market.told[many.id]

    done = market.batch(*((2, "a", price) for price in range(1, 7)))
    why = "more than 5 results are in its windows (kept_results_max)"
    assert [(given.first, given.count, given.reason) for given in done.given_up] == [(many.id, 1, why)]
    assert said_of(many.explain()) == f"given up in batch 1, computed when it is asked for: {why}"
    assert market.weir.queries().select(["kept", "demoted", "reason"]).to_pylist() == [
        {"kept": False, "demoted": False, "reason": why},
        {"kept": True, "demoted": False, "reason": None},
    ]
    assert [market.is_kept(query.id) for query in (many, few)] == [False, True]
    assert is_right(market, many, sql, 0), "it is computed"

    market.weir.retry(many.id)
    done = market.passes(11)  # six of the eight are still there
    assert [given.reason for given in done.given_up] == [why]
    assert not done.resumed
    assert market.told[many.id] == before, "nobody was told anything since"

    market.passes(12)
    market.weir.retry(many.id)
    assert not market.is_kept(many.id)
    done = market.batch((12, "b", 4), (12, "b", 5))
    assert not done.given_up
    assert done.resumed == ((many.id, 1),)
    assert said_of(many.explain()).startswith("yes: ")
    assert market.weir.queries().select(["kept", "reason"]).to_pylist() == [{"kept": True, "reason": None}] * 2
    assert is_right(market, many, sql, 0)
    left = Counter({row: n for row, n in market.told[many.id].items() if n})
    assert left == Counter(rows_of(many.fetch())), "what was told before it was given up has gone"
    market.passes(22)
    assert is_right(market, many, sql, 0)
    assert not any(market.told[many.id].values())
    with pytest.raises(QueryError, match=f"query {many.id} is neither demoted nor given up"):
        market.weir.retry(many.id)


@pytest.mark.parametrize("sql", [ALERTS, ROWS])
@pytest.mark.parametrize("others", [0, 3])
def test_what_was_told_is_known_while_nothing_is_kept(tmp_path: Path, sql: str, others: int) -> None:
    """Many batches pass, all is merged, nobody of the shape or of its part may be kept: changes add up all the same."""
    market = Market(tmp_path, kept_results_max=5)
    wishes = {"low": [0] + [8] * others} | ({"n": [1] * (1 + others)} if sql == ALERTS else {})
    many = market.weir.register_many(sql, wishes, kept=True)[0]
    market.batch((1, "a", 7), (1, "a", 9))
    before = Counter(rows_of(many.fetch()))
    market.batch(*((2, "a", price) for price in range(1, 7)))
    assert not market.is_kept(many.id)
    for second in range(3, 40):
        market.batch((second, f"s{second}", 9))
    assert market.told[many.id] == before
    market.passes(60)
    market.weir.retry(many.id)
    market.batch((61, "b", 9), (61, "b", 9))
    assert market.is_kept(many.id)
    assert is_right(market, many, sql, 0)
    left = Counter({row: n for row, n in market.told[many.id].items() if n})
    assert left == Counter(rows_of(many.fetch()))


def test_who_is_demoted_for_matching_too_much_is_kept_no_more(tmp_path: Path) -> None:
    market = Market(tmp_path, demote_pairs_min=3, demote_share=0.5)
    broad, narrow = market.weir.register_many(ALERTS, {"low": [0, 8], "n": [1, 0]}, kept=True)
    market.batch((1, "a", 1), (1, "a", 2), (1, "a", 3), (1, "a", 9))
    reasons = {row["id"]: (row["kept"], row["demoted"]) for row in market.weir.queries().to_pylist()}
    assert reasons == {broad.id: (False, True), narrow.id: (True, False)}
    market.batch((2, "a", 9))
    assert broad.fetch().to_pylist() == market.fired(0, 1)
    assert narrow.fetch().to_pylist() == market.fired(8, 0)
    assert market.is_kept(narrow.id)


# ── queries, processes and caches come and go ──


def test_dropped_queries_are_told_of_no_more(market: Market) -> None:
    alerts = market.alerts()
    market.batch((1, "a", 9), (1, "a", 9))
    alerts[0].drop()
    done = market.passes(20)
    assert {id for id, _, _ in changes_in(market.weir, done)} == {1}
    with pytest.raises(QueryError):
        alerts[0].fetch()
    market.check(alerts[1:], {"low": WISHES["low"][1:], "n": WISHES["n"][1:]})
    market.weir.drop(alerts.ids[1:])
    done = market.batch((21, "a", 9))
    assert [part.path for part in done.kept] == [""] * len(done.kept)
    again = market.alerts()
    market.batch((22, "a", 9), (22, "b", 9))
    market.check(again)


OTHER_PROCESS = """
import sys, weir
from tests.answer.test_kept_queries import SECOND
from tests.keeping import changes_in
from weir.testing.direct import DirectWeir
import pyarrow as pa

w = weir.open(sys.argv[1])
times = pa.array([int(sys.argv[2]) * SECOND], pa.timestamp("us", "UTC"))
done = DirectWeir(w, wall_us=10_000 * SECOND).batch({"clock": pa.table({"area": ["x"], "ts": times})})
print(sorted((id, came) for id, came, _ in changes_in(w, done)), [q["kept"] for q in w.queries().to_pylist()])
"""


def test_another_process_goes_on_with_what_is_kept(market: Market) -> None:
    """A shape is called the same in every process, so nothing begins anew there: only what is over is told."""
    alerts = market.alerts()
    market.batch((1, "a", 9), (2, "a", 9), (2, "a", 9), (9, "b", 9))
    words = [sys.executable, "-c", OTHER_PROCESS, str(market.weir.files.location), "12"]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=240).stdout
    assert said == "[(0, False), (1, False), (2, False)] [True, True, True]\n", "b stays, and is not told again"
    market.now_s = 12
    assert [query.fetch().to_pylist() for query in alerts] == [
        market.fired(0, 1),
        market.fired(5, 0),
        market.fired(8, 2),
    ]


def test_without_its_caches_a_weir_keeps_the_same_answers(tmp_path: Path) -> None:
    whole, cut = Market(tmp_path / "whole"), Market(tmp_path / "cut")
    both = [(market, market.alerts(), market.weir.register(ROWS, {"low": 5}, kept=True)) for market in (whole, cut)]
    changes = 0
    for second in range(1, 30, 3):
        shutil.rmtree(tmp_path / "cut" / "cache", ignore_errors=True)
        told = []
        for market, alerts, rows in both:
            trades = [(second, symbol, price) for symbol, price in (("a", 9), ("a", second % 7), ("b", second % 9))]
            done = market.passes(second) if second % 4 == 0 else market.batch(*trades)
            told.append(sorted(changes_in(market.weir, done)))
            market.check(alerts)
            assert market.is_kept(rows.id)
            assert is_right(market, rows, ROWS, 5)
        assert told[0] == told[1]
        changes += len(told[0])
    assert changes > 30
