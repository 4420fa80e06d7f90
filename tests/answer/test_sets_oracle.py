"""IN of long lists, everywhere that a condition stands: answers equal the oracle's at every batch boundary."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from weir.api import Weir
from weir.errors import RegisterError
from weir.handles import Query
from weir.index.strategies import STRATEGIES
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

COLUMNS = "name string, n int, v bigint, d double, m decimal(9,2), f boolean, day date, ts timestamp"
START = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
# What may stand in a column, and what in a list beside it; some of the latter equal nothing there is.
VALUES: dict[str, list[Any]] = {
    "name": [*(f"n{k}" for k in range(40)), "", "O'Hare", "é"],
    "n": list(range(-30, 30)),
    "v": [*range(-30, 30), 2**53, 2**53 + 1, 2**63 - 1, 1 - 2**63],
    "d": [*(k / 4 for k in range(-60, 60)), -0.0, float("nan"), float("inf")],
    "m": [Decimal(k) / 4 for k in range(-60, 60)],
    "day": [START.date() + dt.timedelta(days=k) for k in range(-30, 30)],
}
FORMS = (
    "SELECT name, n FROM a WHERE {a.x} IN ({x})",
    "SELECT name, n FROM a WHERE {a.x} NOT IN ({x}) AND f",
    "SELECT n FROM a WHERE {a.x} IN ({x}) AND {a.y} NOT IN ({y})",
    "SELECT n FROM a WHERE {a.x} IN ({x}) OR n > 20",
    "SELECT {a.x} IN ({x}) AS found, CASE WHEN {a.y} NOT IN ({y}) THEN n END AS other FROM a WHERE n < 0",
    "SELECT n FROM a WHERE (n + 1) IN ({x:n}) AND upper(name) NOT IN ({x:name})",
    "SELECT n FROM a WHERE (CASE WHEN {a.x} IN ({x}) THEN n ELSE v END) > 5",
    "SELECT DISTINCT name FROM a WHERE {a.x} IN ({x}) UNION SELECT name FROM b WHERE {b.y} IN ({y})",
    "SELECT a.n, b.n AS o FROM a JOIN b ON a.name = b.name WHERE {a.x} IN ({x}) AND {b.y} NOT IN ({y})",
    "SELECT a.n FROM a JOIN b ON a.name = b.name WHERE a.n + b.n IN ({x:n})",
    "SELECT a.n FROM a, b WHERE b.d - a.d BETWEEN 0 AND 0.5 AND {a.x} IN ({x})",
    "SELECT a.n FROM a JOIN b ON a.n = b.n JOIN a c ON b.name = c.name WHERE {b.x} IN ({x}) AND {a.y} NOT IN ({y})",
)


def rows(rng: random.Random, count: int, start: dt.datetime) -> pa.Table:
    def of(name: str) -> list[Any]:
        return [None if rng.random() < 0.08 else rng.choice(VALUES[name]) for _ in range(count)]

    columns: dict[str, pa.Array] = {
        "name": pa.array(of("name")),
        "n": pa.array(of("n"), pa.int32()),
        "v": pa.array(of("v"), pa.int64()),
        "d": pa.array(of("d"), pa.float64()),
        "m": pa.array(of("m"), pa.decimal128(9, 2)),
        "f": pa.array([rng.random() < 0.7 for _ in range(count)]),
        "day": pa.array(of("day"), pa.date32()),
        "ts": pa.array([start + dt.timedelta(seconds=k) for k in range(count)], pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def written(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.date):
        return f"'{value}'"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "1e300"
    return str(value)


def drawn(rng: random.Random, name: str, low: int) -> list[Any]:
    found = rng.choices(VALUES[name], k=rng.randint(low, 45))
    if name in ("n", "v", "m") and rng.random() < 0.3:
        found[0] = Decimal("5.5") if rng.random() < 0.5 and name != "m" else found[0]
    return [*found, None] if rng.random() < 0.2 else found


def query(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A form with columns and lists put in; some lists are parameters, the others stand in the text."""
    form = rng.choice(FORMS)
    columns = {"x": rng.choice(list(VALUES)), "y": rng.choice(list(VALUES))}
    params: dict[str, Any] = {}
    for side in "ab":
        for letter, name in columns.items():
            form = form.replace(f"{{{side}.{letter}}}", f"{side}.{name}")
    for k, (slot, name) in enumerate(
        [("{x}", columns["x"]), ("{y}", columns["y"]), ("{x:n}", "n"), ("{x:name}", "name")]
    ):
        if slot not in form:
            continue
        if rng.random() < 0.5:
            items = drawn(rng, name, 1)
            params[f"p{k}"] = [v if not isinstance(v, Decimal) or name == "m" else float(v) for v in items]
            if name in ("n", "v"):
                params[f"p{k}"] = [None if v is None else int(v) for v in items]
            form = form.replace(slot, f":p{k}")
        else:
            form = form.replace(slot, ", ".join(map(written, drawn(rng, name, 17))))
    return form, params


def weir_of(folder: Path, strategy: str) -> tuple[Weir, DirectWeir]:
    w = weir.open(folder, settings={"strategy": strategy, "tail_queries_max": 5})
    for name in "ab":
        w.stream(name, COLUMNS, time="ts", keep="forever")
    return w, DirectWeir(w, slices=2, wall_us=int(START.timestamp() * 1_000_000) + 10**12)


def agrees(w: Weir, found: Query, text: str, params: Mapping[str, Any], given: dict[str, pa.Table]) -> int:
    got = found.fetch()
    expected = answer(text, params, w.catalog, given, w.state.now_us or 0)
    difference = differ(expected, got)
    assert difference is None, f"{text} {params}\nas {found.sql}\n{difference}"
    return got.num_rows


@pytest.mark.parametrize("seed", few_are_quick(range(8), quick=1, tested=2))
def test_lists_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"lists {seed}")
    w, direct = weir_of(tmp_path, tuple(STRATEGIES)[seed % len(STRATEGIES)])
    standing: list[tuple[Query, str, dict[str, Any]]] = []
    given: dict[str, pa.Table] = {}
    compared = shown = 0
    for number in range(3):
        for _ in range(9):
            text, params = query(rng)
            standing.append((w.register(text, params or None), text, params))
        lists = pa.table({"p": pa.array([[1, 2, None], [3], [7, 7]]), "low": [0, 5, -5]})
        text = "SELECT name FROM a WHERE v IN (:p) AND n > :low"
        for one, row in zip(w.register_many(text, lists), lists.to_pylist(), strict=True):
            standing.append((one, text, row))
        batch = {name: rows(rng, 60, START + dt.timedelta(seconds=100 * number)) for name in "ab"}
        direct.batch(batch)
        given = {n: pa.concat_tables([given[n], t]) if n in given else t for n, t in batch.items()}
        w.state.refresh(w.ledger)
        for found, of, params in standing:
            shown += agrees(w, found, of, params, given)
            compared += 1
    assert compared == 12 * 6
    assert shown > 500


def test_a_hundred_thousand_constants(tmp_path: Path) -> None:
    """They are one query that is matched as rows come; its explanation cuts the list."""
    w, direct = weir_of(tmp_path, "auto")
    found = w.register("SELECT n FROM a WHERE name IN (:names)", {"names": [f"n{k}" for k in range(1, 100_001)]})
    direct.batch({"a": rows(random.Random(1), 200, START)})
    w.state.refresh(w.ledger)
    assert found.fetch().num_rows > 100
    said = found.explain()
    assert "name IN ('n1', 'n2', " in said
    assert "99,992 more" in said
    assert "lists: s0.name: 100,000 values, one box for each value" in said
    assert len(said) < 10_000


def test_a_long_list_in_the_text(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"sql_chars_max": 1_000_000, "set_items_max": 5_000})
    w.stream("a", COLUMNS, time="ts", keep="forever")
    text = "SELECT n FROM a WHERE v IN ({})"
    assert (
        "v IN (0, 1, 2, 3, 4, 5, 6, 7, … 4,992 more)"
        in w.register(text.format(", ".join(map(str, range(5_000))))).explain()
    )
    with pytest.raises(RegisterError, match=r"a list behind IN has 5,001 values, at most 5,000 are taken"):
        w.register(text.format(", ".join(map(str, range(5_001)))))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "parameter ':p' of query 0 (counted from 0) is an empty list; a list holds one value or more"),
        ([[1]], "a parameter column has type list<item: list<item: int64>>, a list holds single values"),
        (["a"], "'v' (bigint) cannot be compared with :p (string), line 1, column 23"),
        ([True], "'v' (bigint) cannot be compared with :p (boolean), line 1, column 23"),
    ],
)
def test_bad_lists(tmp_path: Path, value: object, message: str) -> None:
    w, _ = weir_of(tmp_path, "auto")
    with pytest.raises(RegisterError) as caught:
        w.register("SELECT n FROM a WHERE v IN (:p)", {"p": value})
    assert message in str(caught.value)


def test_lists_stand_behind_in_alone(tmp_path: Path) -> None:
    w, _ = weir_of(tmp_path, "auto")
    with pytest.raises(RegisterError, match=r"parameter ':p' is a list, line 1, column 27; a list stands behind IN"):
        w.register("SELECT n FROM a WHERE v = :p", {"p": [1, 2]})
    lists = pa.table({"p": pa.array([[1], None])})
    with pytest.raises(RegisterError, match=r"parameter ':p' of query 1 \(counted from 0\) is NULL"):
        w.register_many("SELECT n FROM a WHERE v IN (:p)", lists)
