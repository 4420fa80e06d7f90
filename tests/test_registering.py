"""Queries as things that people own: names, tags, owners, filters, and one query in the place of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir
from tests.keeping import changes_in, rows_of
from tests.marks import few_are_quick
from weir.errors import FetchError, QueryError, RegisterError
from weir.store import registry as registry_module
from weir.store.query_groups import NewQueries
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
CHEAP = "SELECT symbol, price FROM trade WHERE price < :top BEGIN NOW - INTERVAL 10 SECONDS END NOW"
COUNT = "SELECT count(*) AS n FROM trade WHERE price < :top BEGIN NOW - INTERVAL 10 SECONDS END NOW"
JOIN = (
    "SELECT t.price, n.word FROM trade t JOIN news n ON t.symbol = n.symbol WHERE t.price < :top "
    "BEGIN NOW - INTERVAL 10 SECONDS END NOW"
)
SAID = ["id", "name", "sql", "tags", "owner"]
COLUMNS = [*SAID, "shape", "stream", "family", "first_batch", "demoted", "kept", "reason"]


def opened(folder: Path) -> weir.Weir:
    w = weir.open(folder)
    w.stream("trade", "symbol string, price bigint, ts timestamp", time="ts", keep="1 minute")
    w.stream("news", "symbol string, word string, ts timestamp", time="ts", keep="1 minute")
    return w


@pytest.fixture
def w(tmp_path: Path) -> weir.Weir:
    return opened(tmp_path / "w")


# ── names ──


def test_the_same_registration_under_a_name_is_the_same_query(w: weir.Weir) -> None:
    first = w.register(CHEAP, {"top": 5}, name="cheap")
    count = w.registry.count
    assert w.register(CHEAP, {"top": 5}, name="cheap").id == first.id
    assert w.register(CHEAP.replace(" FROM", "\n  FROM"), {"top": 5}, name="cheap").id == first.id, "only white space"
    assert w.registry.count == count, "nothing is written"
    assert w.query("cheap").id == first.id
    assert w.query(first.id).name == "cheap"
    assert w.register(CHEAP, {"top": 5}).id != first.id, "without a name it is another query"


@pytest.mark.parametrize(
    ("sql", "top", "kept"),
    [(CHEAP, 6, False), (CHEAP, 5, True), (CHEAP.replace("10 S", "9 S"), 5, False), (COUNT, 5, False)],
)
def test_another_registration_under_a_name_replaces_the_query(w: weir.Weir, sql: str, top: int, kept: bool) -> None:
    first = w.register(CHEAP, {"top": 5}, name="cheap")
    second = w.register(sql, {"top": top}, name="cheap", kept=kept)
    assert (second.id, w.query("cheap").id) == (1, 1)
    assert w.queries()["id"].to_pylist() == [1]
    for call in (first.fetch, first.token, first.explain, first.drop, lambda: first.change({"top": 1})):
        with pytest.raises(
            QueryError, match="query 0 was (replaced by query 1; ask for it by its name, 'cheap'|dropped)"
        ):
            call()


def test_names_are_texts_as_they_are(w: weir.Weir) -> None:
    for name in ("a b", "Ä", "ä", "A", "a", "x" * 128, "SELECT", "'; drop", "1a"):
        assert w.query(w.register(CHEAP, {"top": 1}, name=name).name or "").name == name
    assert w.queries().num_rows == 9


def test_many_names_at_once(w: weir.Weir) -> None:
    params = {"top": [1, 2, 3], "user": ["a", "b", "c"]}
    assert w.register_many(CHEAP, params, names="user").ids == range(3)
    again = w.register_many(CHEAP, {"top": [1, 9, 3, 4]}, names=["a", "b", "c", "d"])
    assert list(again.ids) == [0, 3, 2, 4]
    assert [q.id for q in again] == [0, 3, 2, 4] == [q.id for q in again[:]]
    assert repr(again).startswith("<weir.Queries 0 … 4; the first is 0: SELECT")
    assert w.queries().select(["id", "name"]).to_pydict() == {"id": [0, 2, 3, 4], "name": ["a", "c", "b", "d"]}
    assert w.register_many(CHEAP, params, names=pa.array(["a", "x", "c"]).dictionary_encode()).ids.tolist() == [0, 5, 2]  # type: ignore[union-attr]  # they are no range


def test_nothing_is_registered_if_anything_is_wrong(w: weir.Weir) -> None:
    w.register(CHEAP, {"top": 5}, name="cheap")
    for call in (
        lambda: w.register("SELECT nothing FROM trade", name="cheap"),
        lambda: w.replace("cheap", "SELECT nothing FROM trade"),
        lambda: w.replace("cheap", params={"bottom": 5}),
        lambda: w.register_many(CHEAP, {"top": [1, 2]}, names=["cheap", "cheap"]),
    ):
        with pytest.raises(RegisterError):
            call()
    assert w.queries()["id"].to_pylist() == [0]


# ── constants of a live query ──


def test_constants_are_changed_in_place_of_the_query(w: weir.Weir) -> None:
    w.register(CHEAP, {"top": 5}, name="cheap", tags=["a"], owner="me", kept=True)
    changed = w.query("cheap").change({"top": 7})
    assert (changed.id, changed.name, changed.tags, changed.owner) == (1, "cheap", ("a",), "me")
    assert changed.text == CHEAP.replace(":top", "7")
    assert w.queries()["kept"].to_pylist() == [True]
    assert w.replace("cheap", params={"top": 7}).id == 1, "nothing changes"
    replaced = w.replace("cheap", COUNT, {"top": 1})
    assert (replaced.id, replaced.name, replaced.text) == (2, "cheap", COUNT.replace(":top", "1"))
    assert w.replace("cheap", COUNT.replace(":top", "2")).id == 3
    with pytest.raises(RegisterError, match="the text of query 3 has no parameters; give the whole new text"):
        w.query("cheap").change({"top": 2})
    without = w.register(CHEAP, {"top": 5})
    assert without.change({"top": 6}).name is None
    assert w.queries(id=[4, 5])["id"].to_pylist() == [5]
    with pytest.raises(QueryError, match="query 4 was replaced by query 5; ask for query 5"):
        w.replace(without.id, COUNT, {"top": 1})


def test_who_loses_a_race_replaces_the_winner_by_name_and_is_told_by_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, other = opened(tmp_path / "w"), opened(tmp_path / "w")
    w.register(CHEAP, {"top": 1}, name="cheap")
    create = w.files.create

    def after(first: Callable[[], object]) -> None:
        """Have another process be quicker with its document."""

        def slowly(path: str, data: Any, *, durable: bool = True) -> bool:
            monkeypatch.setattr(w.files, "create", create)
            first()
            return create(path, data, durable=durable)

        monkeypatch.setattr(w.files, "create", slowly)

    after(lambda: other.replace("cheap", params={"top": 2}))
    assert w.replace("cheap", params={"top": 3}).id == 2
    assert w.registry.dropped().tolist() == [0, 1]
    after(lambda: other.replace("cheap", params={"top": 4}))
    with pytest.raises(QueryError, match="query 2 was replaced by query 3; ask for it by its name, 'cheap'"):
        w.replace(2, params={"top": 5})
    after(lambda: other.replace("cheap", params={"top": 6}))
    assert w.drop(name="cheap") == 1
    assert w.registry.dropped().tolist() == [0, 1, 2, 3, 4], "whoever had the name by then"
    after(lambda: other.register(CHEAP, {"top": 7}, name="new"))
    assert w.register(CHEAP, {"top": 7}, name="new").id == 5, "it stood before"


def test_a_token_is_of_one_query(w: weir.Weir) -> None:
    direct = DirectWeir(w)
    cheap = w.register(CHEAP, {"top": 5}, name="cheap")
    direct.batch({"trade": trades((1, "a", 3))})
    token = cheap.token()
    changed = cheap.change({"top": 9})
    with pytest.raises(FetchError, match=r"token '0:1000000:0' is of query 0, not of query 1; fetch the whole answer"):
        changed.changes(after=token)
    assert changed.changes().came.num_rows == 1
    assert changed.changes(after="0:1000000").came.num_rows == 0, "a moment is no query's own"


# ── filters ──


def test_the_list_says_what_people_said(w: weir.Weir) -> None:
    w.register(CHEAP, {"top": 5}, name="cheap", tags=("b", "a", "b"), owner="me")
    w.register_many(COUNT, {"top": [1, 2]}, tags=["a"])
    listed = w.queries()
    assert listed.column_names == COLUMNS
    assert listed.select(SAID).to_pylist() == [
        {"id": 0, "name": "cheap", "sql": CHEAP.replace(":top", "5"), "tags": ["a", "b"], "owner": "me"},
        {"id": 1, "name": None, "sql": COUNT.replace(":top", "1"), "tags": ["a"], "owner": None},
        {"id": 2, "name": None, "sql": COUNT.replace(":top", "2"), "tags": ["a"], "owner": None},
    ]
    query = w.query("cheap")
    assert (query.name, query.tags, query.owner) == ("cheap", ("a", "b"), "me")
    assert query.sql != query.text, "one is canonical, the other as it was written"


def test_an_empty_weir_has_an_empty_list(w: weir.Weir) -> None:
    for listed in (w.queries(), w.queries(name="a"), w.queries(tag="a", text="b"), w.queries(id=3), w.queries(id=[])):
        assert (listed.num_rows, listed.column_names) == (0, COLUMNS)


def test_queries_of_an_earlier_version_are_listed_with_their_canonical_text(
    w: weir.Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote documents of format 5, without texts and labels."""
    about = NewQueries.about
    with monkeypatch.context() as earlier:
        earlier.setattr(registry_module, "FORMAT", 5)
        earlier.setattr(
            NewQueries,
            "about",
            lambda new: {key: value for key, value in about(new).items() if key not in ("written", "label")},
        )
        old = w.register_many(CHEAP, {"top": [1, 2]})
    new = w.register(CHEAP, {"top": 1}, name="new")
    assert w.queries()["sql"].to_pylist() == [old[0].sql, old[1].sql, new.text]
    assert w.queries(text="price < 2")["id"].to_pylist() == [1]
    with pytest.raises(RegisterError, match="the text of query 0 has no parameters"):
        old[0].change({"top": 5})
    assert w.replace(0, CHEAP, {"top": 5}).text == CHEAP.replace(":top", "5")


def test_dropping_by_what_people_said(w: weir.Weir) -> None:
    w.register_many(CHEAP, {"top": [1, 2, 3]}, names=["a", "b", "c"], tags=["x"], owner="me")
    w.register_many(CHEAP, {"top": [1, 2]}, tags=["x", "y"], owner="you")
    assert w.drop(name="b") == 1
    assert w.drop(tag="x", owner="me") == 2
    assert w.queries()["id"].to_pylist() == [3, 4]
    with pytest.raises(QueryError, match="there is no query with the tag 'x' and with the owner 'me'"):
        w.drop(tag="x", owner="me")
    with pytest.raises(QueryError, match="there is no query with the name 'b'"):
        w.drop(name="b")
    with pytest.raises(QueryError, match="query 1 was dropped already"):
        w.drop([1, 3])
    assert w.drop(owner="you") == 2


# ── random histories ──


@dataclass
class Owned:
    """What a plain dict knows of a query."""

    sql: str
    top: int
    kept: bool
    name: str | None
    tags: tuple[str, ...]
    owner: str | None

    @property
    def text(self) -> str:
        return self.sql.replace(":top", str(self.top))

    def is_same(self, other: Owned) -> bool:
        return (self.sql, self.top, self.kept) == (other.sql, other.top, other.kept)


class History:
    """A weir that two processes have open, and its twin."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(seed)
        self.weirs = [opened(folder), opened(folder)]
        self.twin: dict[int, Owned] = {}
        self.next_id = 0

    def step(self) -> None:
        w = self.weirs[self.rng.integers(2)]
        steps = [self.register, self.register, self.register_many, self.replace, self.drop]
        steps[self.rng.integers(len(steps))](w)

    def drawn(self) -> Owned:
        pick = self.rng.integers
        name = f"n{pick(6)}" if pick(4) else None
        tags = tuple(sorted({f"t{k}" for k in pick(0, 4, pick(3)).tolist()}))
        return Owned([CHEAP, COUNT][pick(2)], int(pick(3)), not pick(4), name, tags, [None, "me", "you"][pick(3)])

    def named(self, name: str | None) -> int | None:
        return next((id for id, of in self.twin.items() if of.name == name and name is not None), None)

    def put(self, ids: list[int], owned: list[Owned]) -> None:
        """What the twin makes of registrations in one step, and the ids that it expects."""
        fresh = 0
        for id, one in zip(ids, owned, strict=True):
            old = self.named(one.name)
            if old is not None and self.twin[old].is_same(one):
                assert id == old
                self.twin[old] = one
                continue
            if old is not None:
                del self.twin[old]
            assert id == self.next_id + fresh
            fresh += 1
            self.twin[id] = one
        self.next_id += fresh

    def register(self, w: weir.Weir) -> None:
        one = self.drawn()
        made = w.register(one.sql, {"top": one.top}, name=one.name, tags=one.tags, owner=one.owner, kept=one.kept)
        self.put([made.id], [one])

    def register_many(self, w: weir.Weir) -> None:
        first = self.drawn()
        names = [f"n{k}" for k in self.rng.choice(6, self.rng.integers(1, 5), replace=False)]
        given = None if first.name is None else names
        owned = [
            Owned(first.sql, int(self.rng.integers(3)), first.kept, given and name, first.tags, first.owner)
            for name in names
        ]
        params = {"top": [one.top for one in owned]}
        made = w.register_many(first.sql, params, names=given, tags=first.tags, owner=first.owner, kept=first.kept)
        self.put([int(id) for id in made.ids], owned)

    def replace(self, w: weir.Weir) -> None:
        if not self.twin:
            return
        old = int(self.rng.choice(sorted(self.twin)))
        before, drawn = self.twin[old], self.drawn()
        by = before.name if before.name is not None and self.rng.integers(2) else old
        sql = drawn.sql if self.rng.integers(2) else None
        made = w.replace(by, sql, {"top": drawn.top})
        after = Owned(sql or before.sql, drawn.top, before.kept, before.name, before.tags, before.owner)
        if before.is_same(after):
            assert made.id == old
            return
        assert made.id == self.next_id
        self.next_id += 1
        del self.twin[old]
        self.twin[made.id] = after

    def drop(self, w: weir.Weir) -> None:
        if not self.twin:
            return
        one = self.twin[old := int(self.rng.choice(sorted(self.twin)))]
        ways: list[dict[str, Any]] = [{"ids": old}]
        ways += [{"name": one.name}] if one.name else []
        ways += [{"tag": one.tags[0]}] if one.tags else []
        ways += [{"owner": one.owner, "name": one.name}] if one.owner else []
        way = ways[self.rng.integers(len(ways))]
        gone = [
            id
            for id, of in self.twin.items()
            if way.get("ids", id) == id
            and (way.get("name") is None or of.name == way["name"])
            and (way.get("tag") is None or way["tag"] in of.tags)
            and (way.get("owner") is None or of.owner == way["owner"])
        ]
        assert w.drop(**way) == len(gone)
        for id in gone:
            del self.twin[id]

    def check(self, w: weir.Weir) -> None:
        assert self.listed(w) == self.expected()
        for tag, owner, text in (
            (None, "me", None),
            ("t1", None, None),
            ("t2", "you", "PRICE < 1"),
            (None, None, "< 2"),
        ):
            fits = [
                row
                for row in self.expected()
                if (tag is None or tag in row[3])
                and (owner is None or row[4] == owner)
                and (text is None or text.lower() in row[2].lower())
            ]
            assert self.listed(w, tag=tag, owner=owner, text=text) == fits
        for name in (f"n{k}" for k in range(6)):
            id = self.named(name)
            assert self.listed(w, name=name) == [row for row in self.expected() if row[0] == id]
            if id is not None:
                assert w.query(name).id == id

    def expected(self) -> list[tuple[object, ...]]:
        return [(id, of.name, of.text, list(of.tags), of.owner, of.kept) for id, of in sorted(self.twin.items())]

    def listed(self, w: weir.Weir, **filters: Any) -> list[tuple[object, ...]]:
        columns = w.queries(**filters).select([*SAID, "kept"]).to_pydict().values()
        return list(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=2, tested=6))
def test_histories_are_what_a_dict_would_have(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "w", seed)
    for step in range(40):
        history.step()
        if step % 8 == 7:
            for w in history.weirs:
                history.check(w)
    history.check(opened(tmp_path / "w"))


# ── replacing while rows come ──


def trades(*rows: tuple[int, str, int]) -> pa.Table:
    """Trades: second, symbol, price."""
    times = pa.array([second * SECOND for second, _, _ in rows], pa.timestamp("us", "UTC"))
    columns = {"symbol": [s for _, s, _ in rows], "price": pa.array([p for _, _, p in rows], pa.int64())}
    return pa.table(columns | {"ts": times})


def news(*rows: tuple[int, str, str]) -> pa.Table:
    times = pa.array([second * SECOND for second, _, _ in rows], pa.timestamp("us", "UTC"))
    return pa.table({"symbol": [s for _, s, _ in rows], "word": [word for _, _, word in rows], "ts": times})


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("seed", few_are_quick(range(4), quick=1))
def test_a_query_in_the_place_of_another_is_as_one_that_is_registered_then(w: weir.Weir, seed: int, kept: bool) -> None:
    """Beside each query under a name there is one without, dropped and registered anew when that is replaced."""
    rng = np.random.default_rng(seed)
    direct = DirectWeir(w, wall_us=1_000 * SECOND)
    texts = [CHEAP, COUNT, JOIN]
    names = ["a", "b", "c"]
    plain: dict[str, weir.Query] = {}
    told: dict[int, Counter[str]] = {}
    for second in range(1, 14):
        for name in names:
            if second == 1 or rng.random() < 0.3:
                sql, top = texts[rng.integers(3)], int(rng.integers(2, 9))
                before = w.query(name).id if name in plain else None
                query = w.register(sql, {"top": top}, name=name, kept=kept)
                if query.id != before:
                    if name in plain:
                        plain[name].drop()
                    plain[name] = w.register(sql, {"top": top}, kept=kept)
        rows = [(second, str(rng.choice(["x", "y"])), int(rng.integers(0, 10))) for _ in range(rng.integers(1, 6))]
        done = direct.batch({"trade": trades(*rows), "news": news((second, "x", f"w{second}"))})
        for id, came, row in changes_in(w, done):
            told.setdefault(id, Counter())[row] += 1 if came else -1
        for name in names:
            query, fresh = w.query(name), plain[name]
            answer = Counter(rows_of(query.fetch()))
            assert answer == Counter(rows_of(fresh.fetch()))
            earlier = (second - 1) * SECOND
            assert Counter(rows_of(query.fetch(at=earlier))) == Counter(rows_of(fresh.fetch(at=earlier)))
            if kept:
                for id in (query.id, fresh.id):
                    assert Counter({row: n for row, n in told.get(id, Counter()).items() if n}) == answer
        listed = {row["id"]: row for row in w.queries().to_pylist()}
        for name in names:
            first = [listed[q.id]["first_batch"] for q in (w.query(name), plain[name])]
            assert first[0] == first[1]


def test_no_batch_sees_both_or_neither(tmp_path: Path) -> None:
    """Every batch that is planned while names change hands, by plans of any number of documents."""
    w, other = opened(tmp_path / "w"), opened(tmp_path / "w")
    direct = DirectWeir(w)
    for step in range(12):
        (w, other)[step % 2].register_many(CHEAP, {"top": [step, step // 2]}, names=["a", "b"], kept=step % 3 == 0)
        direct.batch({"trade": trades((step + 1, "x", 0))})
    w.registry.refresh()
    names = w._library.labels.names_of(np.arange(w.registry.queries)).to_pylist()
    for number in range(1, w.registry.count + 1):
        end = max(group.end_id for group in w.registry.groups(number))
        gone = set(w.registry.dropped(number).tolist())
        assert sorted(names[id] for id in range(end) if id not in gone) == ["a", "b"]
    for name in ("a", "b"):
        assert w.query(name).fetch().num_rows == 10, "trades of the last ten seconds, all of them cheap"


def test_what_was_told_of_a_replaced_query_ends_and_the_new_one_begins_with_its_answer(w: weir.Weir) -> None:
    direct = DirectWeir(w)
    old = w.register(COUNT, {"top": 5}, name="alert", kept=True)
    told = changes_in(w, direct.batch({"trade": trades((1, "x", 3))}))
    assert [(id, came) for id, came, _ in told if id == old.id] == [(old.id, True)]
    new = old.change({"top": 9})
    told = changes_in(w, direct.batch({"trade": trades((2, "x", 7))}))
    assert [(id, came, row) for id, came, row in told] == [(new.id, True, "2")]
    assert new.fetch().to_pylist() == [{"n": 2}]


def test_half_a_character_is_refused_and_spoils_nothing(w: weir.Weir) -> None:
    w.register(CHEAP, {"top": 3}, name="good", tags=["fine"])
    for more in ({"tags": ["\ud800"]}, {"owner": "\udfff"}, {"name": "a\ud800"}):
        with pytest.raises(weir.WeirError):
            w.register(CHEAP, {"top": 4}, **more)
    with pytest.raises(weir.WeirError, match="no Unicode text"):
        w.queries(text="\ud800")
    assert w.queries()["name"].to_pylist() == ["good"]


def test_lists_and_lengths_of_any_size_are_listed_and_compared(w: weir.Weir) -> None:
    numbers = "SELECT price FROM trade WHERE price + 0.0e0 IN (:p)"
    first = w.register(numbers, {"p": [1.0, float("nan")]}, name="nan")
    assert w.register(numbers, {"p": [1.0, float("nan")]}, name="nan").id == first.id
    assert w.register(numbers, {"p": [1.0, 2.0]}, name="nan").id != first.id
    late = w.register("SELECT price FROM trade WHERE ts > ts - INTERVAL :n DAY", {"n": 200_000})
    assert "200000" in late.text
    assert w.queries().num_rows == 2
