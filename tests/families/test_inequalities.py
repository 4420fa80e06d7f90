"""Joins by inequalities of doubles and bigints: reached by differences, decided as SQL rounds, or given up."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.schema import BIGINT, DOUBLE, TIMESTAMP, Catalog, Column, Stream
from weir.boxes.guards import BEYOND
from weir.families.joins.join_family import joined
from weir.families.joins.join_matching import JoinMatches
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.families.many import many_family
from weir.families.many.many_rows import EventRows, ManyRows, Pool
from weir.families.many.many_segments import ManySegment
from weir.families.members import Group
from weir.index.box_tables import OverBudget
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.index_contract import Tuning
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings

SETTINGS = Settings()
ALL_PAIRS = 1 << 40
STREAMS = {
    name: Stream(name, (Column("k", BIGINT), Column("x", DOUBLE), Column("ts", TIMESTAMP)), time="ts", keep_us=None)
    for name in "rst"
}
CATALOG = Catalog(STREAMS)
BETWEEN = "SELECT r.k FROM r, s WHERE s.x BETWEEN r.x - :a AND r.x + :b"
STRATEGIES = ("auto", "query-outer", "data-outer", "merge", "ssi", "hotspot", "select-first")


def rows_of(x: np.ndarray, k: np.ndarray | None = None) -> pa.Table:
    stamps = pa.array(np.zeros(len(x), np.int64), pa.timestamp("us", tz="UTC"))
    return pa.table({"k": np.zeros(len(x), np.int64) if k is None else k, "x": x, "ts": stamps})


def groups_of(texts: list[tuple[str, dict[str, np.ndarray]]]) -> list[Group]:
    groups, first = [], 0
    for sql, params in texts:
        planned = plan_registration(sql, pa.table(params), CATALOG, SETTINGS)
        constants = constants_table(planned, pa.table(params))
        planned.check(constants)
        groups.append(Group(planned.shape.query, constants, first))
        first += constants.num_rows
    return groups


def segment_of(texts: list[tuple[str, dict[str, np.ndarray]]]) -> JoinSegment:
    groups = groups_of(texts)
    segment = JoinSegment.build(joined(groups[0].query, CATALOG).family, groups, CATALOG, settings=SETTINGS)
    return JoinSegment.from_arrays(segment.arrays(), segment.meta())


def match(
    segment: JoinSegment, side: int, tables: tuple[pa.Table, pa.Table], strategy: str = "auto", muted: int = 0
) -> JoinMatches | OverBudget:
    others = tables[1 - side]
    times = np.zeros(others.num_rows, np.int64)
    rows = PartnerRows.build(
        segment.family,
        1 - side,
        others,
        np.arange(others.num_rows, dtype=np.int64),
        times,
        accesses=segment.accesses(1 - side),
        columns=segment.asked(1 - side),
    )
    quiet = np.zeros(len(segment.ids), np.uint8)
    quiet[:muted] = 1
    own = np.zeros(tables[side].num_rows, np.int64)
    return segment.match(side, tables[side], own, rows, quiet, ALL_PAIRS, Tuning(strategy))


def triples(found: JoinMatches | OverBudget, side: int) -> set[tuple[int, int, int]]:
    assert isinstance(found, JoinMatches)
    events = np.repeat(found.events, np.diff(found.offsets)).tolist()
    pairs = zip(found.slots.tolist(), events, found.partners[0].tolist(), strict=True)
    made = [(q, e, p) if side == 0 else (q, p, e) for q, e, p in pairs]
    assert len(set(made)) == len(made)
    return set(made)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("side", [0, 1])
def test_bands_of_doubles_are_decided_as_they_round(side: int, strategy: str) -> None:
    """Cents, so that many sums are equal but for their last bits; the difference alone would say otherwise."""
    rng = np.random.default_rng(side)
    r, s = (rng.integers(0, 400, n) / 100 for n in (60, 80))
    a, b = (rng.integers(-5, 60, 50) / 100 for _ in range(2))
    found = match(segment_of([(BETWEEN, {"a": a, "b": b})]), side, (rows_of(r), rows_of(s)), strategy)
    low, high = r[:, None] - a, r[:, None] + b  # by row of r and query
    holds = (s[:, None, None] >= low) & (s[:, None, None] <= high)  # s, r, query
    expected = {(int(q), int(i), int(j)) for j, i, q in zip(*np.nonzero(holds), strict=True)}
    assert triples(found, side) == expected
    apart = s[:, None, None] - r[:, None]
    assert np.count_nonzero(((apart >= -a) & (apart <= b)) != holds) > 50, "rounding makes a difference here"


ONE_BOUND = "SELECT r.k FROM r, s WHERE s.x <= r.x + :a"
WIDTH = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("of_r", "of_s", "is_between_too"),
    [
        (5.0, math.nan, False),
        (-math.inf, 5.0, False),
        (5.0, 1e300, True),
        (math.nan, math.inf, True),
        (math.nan, math.nan, True),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_queries_are_given_up_for_rows_beyond_their_reach(
    side: int, of_r: float, of_s: float, is_between_too: bool
) -> None:
    native = "SELECT r.k FROM r, s WHERE s.x - r.x BETWEEN :a AND :b"
    segment = segment_of(
        [(ONE_BOUND, {"a": WIDTH}), (BETWEEN, {"a": WIDTH, "b": WIDTH}), (native, {"a": -WIDTH, "b": WIDTH})]
    )
    tables = rows_of(np.array([1.0, of_r])), rows_of(np.array([of_s, 2.0]))
    found = match(segment, side, tables)
    assert isinstance(found, OverBudget)
    assert found.counts.tolist() == [BEYOND] * (4 if is_between_too else 2) + [0] * (2 if is_between_too else 4)
    assert found.is_shared, "all of them are reported"
    # Without them the others go on, and a difference that was written as one is what it always was.
    left = [4, 5] if is_between_too else [2, 3, 4, 5]
    expected = {(q, 0, 1) for q in left}
    assert triples(match(segment, side, tables, muted=6 - len(left)), side) == expected


def test_bigints_have_a_guard_too() -> None:
    large = np.array([2**62, 5])
    sql = "SELECT r.k FROM r, s WHERE r.k < s.k + :c"
    segment = segment_of([(sql, {"c": np.array([1, 2])})])
    x = np.zeros(2)
    small = rows_of(x, np.array([3, 4]))
    assert triples(match(segment, 0, (small, rows_of(x, np.array([2, 3])))), 0) == {
        (q, i, j) for q, c in enumerate((1, 2)) for i, r in enumerate((3, 4)) for j, s in enumerate((2, 3)) if r < s + c
    }
    assert isinstance(match(segment, 0, (small, rows_of(x, large))), OverBudget)


def test_with_a_key_no_row_is_odd() -> None:
    """Queries are reached through their key, so nothing but the comparison itself is asked of a pair."""
    sql = "SELECT r.k FROM r, s WHERE r.k = s.k AND r.x <= s.x + :c"
    segment = segment_of([(sql, {"c": np.array([0.5, 1e-320])})])
    assert not segment.guards
    values = [math.nan, math.inf, -math.inf, 0.0, 1e300, 1.0]
    tables = rows_of(np.array(values)), rows_of(np.array(values))

    def at_most(x: float, y: float) -> bool:  # NaN is equal to itself, and above all
        return math.isnan(y) or x <= y

    expected = {
        (q, i, j)
        for q, c in enumerate((0.5, 1e-320))
        for i, x in enumerate(values)
        for j, y in enumerate(values)
        if at_most(x, y + c)
    }
    for side in (0, 1):
        assert triples(match(segment, side, tables), side) == expected


def test_joins_of_many_streams_connect_by_inequalities() -> None:
    rng = np.random.default_rng(3)
    c = np.array([-0.3, 0.1, 0.7])
    sql = "SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.x <= t.x + :c AND t.x <= s.x + 0.5e0"
    groups = groups_of([(sql, {"c": c})])
    many = many_family.joined(groups[0].query, CATALOG)
    assert many.is_connected
    segment = ManySegment.build(many.family, groups, CATALOG, strategy="grid")
    segment = ManySegment.from_arrays(segment.arrays(), segment.meta())
    x = {name: rng.integers(0, 300, 30) / 100 for name in "rst"}
    k = {name: rng.integers(0, 3, 30) for name in "rst"}
    expected = {
        (q, a, b, d)
        for q in range(3)
        for a in range(30)
        for b in range(30)
        for d in range(30)
        if k["r"][a] == k["s"][b] and x["s"][b] <= x["t"][d] + c[q] and x["t"][d] <= x["s"][b] + 0.5
    }
    assert expected
    names = many.family.streams
    for side, name in enumerate(names):
        found = _matched(segment, side, {n: rows_of(x[n], k[n]) for n in names})
        assert isinstance(found, JoinMatches), name
        events = np.repeat(found.events, np.diff(found.offsets))
        columns = np.insert(found.partners, side, events, axis=0)
        by_name = {n: columns[s].tolist() for s, n in enumerate(names)}
        got = set(zip(found.slots.tolist(), by_name["r"], by_name["s"], by_name["t"], strict=True))
        assert got == expected
    x["t"][7] = math.nan
    assert isinstance(_matched(segment, 0, {n: rows_of(x[n], k[n]) for n in names}), JoinMatches), "it has two bounds"
    x["s"][7] = math.nan
    over = _matched(segment, 0, {n: rows_of(x[n], k[n]) for n in names})
    assert isinstance(over, OverBudget)
    assert over.counts.tolist() == [BEYOND] * 3


def _matched(segment: ManySegment, side: int, tables: dict[str, pa.Table]) -> JoinMatches | OverBudget:
    pools = {}
    ids, times = np.arange(30, dtype=np.int64), np.zeros(30, np.int64)
    for other, name in enumerate(segment.family.streams):
        if other != side:
            made = ManyRows.build(segment.family, other, tables[name], ids, times, columns=segment.asked(other))
            pools[other] = Pool([made])
    events = EventRows(tables[segment.family.streams[side]], ids, times)
    return segment.match(side, events, pools, np.zeros(len(segment.ids), np.uint8), ALL_PAIRS)


@pytest.mark.parametrize("column", ["k", "x"])
def test_bands_of_a_stream_with_itself_are_limits_while_rows_are_joined(column: str) -> None:
    """Boxes have differences by side, whichever way round the query's sources are; the family's bands must too."""
    sql = f"SELECT a.k FROM r a, r b, s c WHERE b.ts = c.ts AND b.{column} BETWEEN a.{column} - 1 AND a.{column} + 1"
    planned = plan_registration(sql, None, CATALOG, SETTINGS)
    groups = [Group(planned.shape.query, constants_table(planned, None), 0)]
    segment = ManySegment.build(many_family.joined(groups[0].query, CATALOG).family, groups, CATALOG, strategy="grid")
    ((lo, hi),) = segment.limits.bands
    assert lo > KEY_MIN
    assert hi < KEY_MAX
    turned = plan_registration(sql.replace("r a, r b", "r b, r a"), None, CATALOG, SETTINGS)
    assert many_family.joined(turned.shape.query, CATALOG).family == segment.family
