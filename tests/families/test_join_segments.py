"""Join segments of random queries, under every strategy and from both sides, against the plain twin."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import (
    COLUMNS,
    NOW_US,
    Writer,
    pool,
    random_rows,
    table_of,
    to_arrow,
)
from tests.generators.queries import random_query
from tests.generators.schemas import random_catalog
from tests.generators.streams import random_rows as rows_of_stream
from tests.marks import few_are_quick
from tests.oracle.naive_join_segments import plain_condition, results
from weir.algebra.nodes import (
    And,
    Arithmetic,
    Bound,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Join,
    Like,
    Literal,
    Or,
    Param,
    Project,
    Query,
    Scan,
    Window,
    conjunction,
)
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import (
    BIGINT,
    DATE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    Kind,
    Stream,
)
from weir.errors import RegisterError
from weir.families.joins import join_segments
from weir.families.joins.join_family import joined
from weir.families.joins.join_matching import JoinMatches
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.families.members import Group
from weir.index.bands.band_costs import N_STRATEGIES as N_BAND_STRATEGIES
from weir.index.box_tables import OverBudget
from weir.index.joining.kinds import BAND_STRATEGIES, DEFAULT, make_costs
from weir.index.joining.kinds import SELECT_STRATEGIES as STRATEGIES
from weir.index.joining.kinds import STRATEGIES as CHOICES
from weir.index.joining.kinds import WINDOW_STRATEGIES as FORCED
from weir.index.meeting.index_contract import Tuning
from weir.plan.registration import constant_value, constants_table, plan_registration
from weir.settings import Settings
from weir.store.row_files import times_us
from weir.store.segment_files import map_arrays, write_arrays
from weir.values.evaluate import truth

SETTINGS = Settings()
ALL_PAIRS = 1 << 40
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
WAYS = ("auto", *STRATEGIES, *FORCED)

_COLUMNS = (*(Column(n, t) for n, t in COLUMNS.items()), Column("ts", TIMESTAMP))
TRADE = Stream("trade", _COLUMNS, time="ts", keep_us=HOUR_US)
QUOTE = Stream("Quote", _COLUMNS, time="ts", keep_us=None)
CATALOG = Catalog({"trade": TRADE, "quote": QUOTE})

Triples = list[tuple[int, int, int]]  # (query id, row id of side 0, row id of side 1)


def column(source: int, name: str) -> ColumnRef:
    return ColumnRef(source, name, COLUMNS.get(name, TIMESTAMP))


class TwoSources(Writer):
    """Random predicates whose atoms are over one of two sources each."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, params=True)
        self.source = 0
        self.edges: dict[str, Sequence[int]] = {}  # params of windows, and their values

    def atom(self) -> Expression:
        self.source = self.rng.choice((0, 1))
        return super().atom()

    def column(self, *kinds: Kind) -> ColumnRef:
        found = super().column(*kinds)
        return ColumnRef(self.source, found.name, found.type)

    def window(self) -> Window:
        """Sliding, lagging, without edges, by rows; offsets are literals or params."""
        kind = self.rng.choice(("none", "rows", "sliding", "sliding", "lagging", "ahead"))
        if kind == "none":
            return Window()
        if kind == "rows":
            return Window(rows=Literal(3, BIGINT))
        begin = Bound(True, self.constant_length([-MINUTE_US, -10 * MINUTE_US, -HOUR_US, -5]))
        if kind == "sliding":
            return Window(begin, None if self.rng.random() < 0.5 else Bound(True, self.constant_length([0])))
        lengths = [-1, -2] if kind == "lagging" else [MINUTE_US, 1]
        return Window(begin, Bound(True, self.constant_length(lengths)))

    def constant_length(self, lengths: Sequence[int]) -> Literal | Param:
        found = self.constant(INTERVAL, lengths)
        if isinstance(found, Literal):
            return Literal(lengths[0], INTERVAL)
        self.edges[found.name] = lengths
        return found

    def constants(self) -> dict[str, Any]:
        """As they may be registered: a window has no NULL edge."""
        made = super().constants()
        return made | {name: self.rng.choice(lengths) for name, lengths in self.edges.items()}


def query_of(streams: tuple[Stream, Stream], condition: Expression | None, windows: tuple[Window, Window]) -> Query:
    scans = tuple(Scan(k, s.name, False, f"s{k}", w) for k, (s, w) in enumerate(zip(streams, windows, strict=True)))
    columns = (("x", column(0, "i")), ("y", column(1, "s")))
    return Query(Project(Join(scans, condition), columns), scans, (Column("x", COLUMNS["i"]),), "")


def equal(left: Expression, right: Expression) -> Expression:
    """An equality as lowering writes it: a date that meets an instant is cast."""
    if {left.type.kind, right.type.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        left, right = (Cast(e, TIMESTAMP) if e.type.kind is Kind.DATE else e for e in (left, right))
    return Comparison("=", left, right)


KEYS: dict[str, list[tuple[Expression, Expression]]] = {
    "whole numbers": [(column(0, "i"), column(1, "b"))],
    "strings": [(column(0, "s"), column(1, "s2"))],
    "doubles": [(column(0, "d"), column(1, "d2"))],
    "double and bigint": [(column(0, "b"), column(1, "d"))],
    "double and decimal": [(column(0, "d"), column(1, "m2"))],
    "decimals": [(column(0, "m"), column(1, "m2"))],
    "decimal and int": [(column(0, "m2"), column(1, "i"))],
    "date and timestamp": [(column(0, "day"), column(1, "t"))],
    "booleans": [(column(0, "f"), column(1, "f"))],
    "sums": [(Arithmetic("+", column(0, "i"), column(0, "i2"), BIGINT), column(1, "i"))],
    "two": [(column(0, "f"), column(1, "f")), (column(0, "i"), column(1, "i2"))],
    "three of mixed types": [
        (column(0, "f"), column(1, "f")),
        (column(0, "day"), column(1, "day2")),
        (column(0, "s"), column(1, "s")),
    ],
}


def random_groups(
    rng: random.Random, streams: tuple[Stream, Stream], keys: Sequence[tuple[Expression, Expression]], count: int
) -> Iterator[tuple[Group, list[dict[str, Any]]]]:
    """Groups of one family: sources in either order, equalities too, in any order among the rest."""
    for k in range(count):
        writer = TwoSources(rng)
        turned = streams[0] is not streams[1] and rng.random() < 0.4
        pairs = [_turned(a, b) if turned else (a, b) for a, b in keys]
        terms = [equal(*(pair if rng.random() < 0.5 else pair[::-1])) for pair in pairs]
        if rng.random() < 0.9:
            terms.append(writer.predicate(rng.randint(0, 2)))
        rng.shuffle(terms)
        windows = (writer.window(), writer.window())
        query = query_of(streams[::-1] if turned else streams, conjunction(terms), windows)
        rows = [writer.constants() for _ in range(rng.choice((1, 1, 3, 12)))]
        columns = {n: to_arrow([row[n] for row in rows], t) for n, t in writer.types.items()}
        yield Group(query, pa.table({"none": pa.nulls(len(rows), pa.bool_()), **columns}), 1000 * k), rows


def _turned(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The same two keys when their sources have changed places."""

    def moved(e: Expression, to: int) -> Expression:
        if isinstance(e, ColumnRef):
            return ColumnRef(to, e.name, e.type)
        assert isinstance(e, Arithmetic)
        return Arithmetic(e.op, moved(e.left, to), moved(e.right, to), e.type)

    return moved(b, 0), moved(a, 1)


class Rows:
    """Rows of one stream, as dicts and as Arrow; row ids are far from positions."""

    def __init__(self, rng: random.Random, count: int, first_id: int) -> None:
        self.rows = random_rows(rng, count)
        times = [NOW_US + rng.choice((0, 1, 5, MINUTE_US, 20 * MINUTE_US, HOUR_US, 3 * HOUR_US)) for _ in range(count)]
        self.times = np.array([t + rng.randint(0, 3) for t in times], np.int64)
        for row, time in zip(self.rows, self.times.tolist(), strict=True):
            row["ts"] = time
        self.table = table_of(self.rows).append_column("ts", to_arrow(self.times.tolist(), TIMESTAMP))
        self.ids = np.arange(first_id, first_id + count, dtype=np.int64)[::-1].copy()


def partner_rows(segment: JoinSegment, side: int, table: pa.Table, ids: np.ndarray, times: np.ndarray) -> PartnerRows:
    accesses = segment.accesses(side) or [None]
    return PartnerRows.build(segment.family, side, table, ids, times, accesses=accesses, columns=segment.asked(side))


def triples(segment: JoinSegment, side: int, found: JoinMatches | OverBudget, ids: np.ndarray) -> Triples:
    """What a match found, checked for what its contract promises besides."""
    assert isinstance(found, JoinMatches)
    assert found.slots.dtype == np.int32
    assert len(found.offsets) == len(found.events) + 1
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.slots) == found.partners.shape[1]
    assert bool(np.all(np.diff(found.offsets) > 0)), "only events with pairs are listed"
    for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True):
        assert bool(np.all(np.diff(found.slots[a:b]) >= 0)), "slots ascend within an entry"
    queries = segment.ids[found.slots].tolist()
    events = ids[np.repeat(found.events, np.diff(found.offsets))].tolist()
    pairs = zip(events, found.partners[0].tolist(), strict=True)
    made = sorted((q, *(p if side == 0 else p[::-1])) for q, p in zip(queries, pairs, strict=True))
    assert len(set(made)) == len(made), "no pair twice"
    return made


def reopened(segment: JoinSegment) -> JoinSegment:
    """As a worker has it: description through JSON, arrays read-only."""
    arrays = {name: array.copy() for name, array in segment.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return JoinSegment.from_arrays(arrays, json.loads(json.dumps(segment.meta())))


def expected_of(
    groups: Sequence[tuple[Group, list[dict[str, Any]]]], sides: tuple[Rows, Rows], catalog: Catalog = CATALOG
) -> Triples:
    expected: Triples = []
    for group, constants in groups:
        found = joined(group.query, catalog)
        own = sides[::-1] if found.swapped else sides
        keeps = tuple(catalog.streams[s.relation.lower()].keep_us for s in group.query.sources)
        for k, values in enumerate(constants):
            pairs = results(group.query, values, (own[0].rows, own[1].rows), (own[0].times, own[1].times), keeps)
            for i, j in pairs:
                ids = (int(own[0].ids[i]), int(own[1].ids[j]))
                expected.append((int(group.id_of_row()[k]), *(ids[::-1] if found.swapped else ids)))
    return sorted(expected)


@pytest.mark.parametrize("keys", few_are_quick(list(KEYS), quick=1))
@pytest.mark.parametrize("streams", [(TRADE, QUOTE), (TRADE, TRADE)], ids=["two streams", "self-join"])
def test_every_strategy_and_side_finds_what_the_twin_says(keys: str, streams: tuple[Stream, Stream]) -> None:
    seed = f"join {keys} {streams[1].name} 2"
    rng = random.Random(seed)
    groups = list(random_groups(rng, streams, KEYS[keys], 12))
    families = {joined(g.query, CATALOG).family for g, _ in groups}
    assert len(families) == 1, "queries that differ in order only are of one family"
    family = families.pop()
    sides = (Rows(rng, 30, 500), Rows(rng, 32, 9_000))
    expected = expected_of(groups, sides)
    ids = sorted({int(i) for g, _ in groups for i in g.id_of_row()})
    excluded = np.array(sorted(rng.sample(ids, len(ids) // 10)), np.int64)
    hidden = set(excluded.tolist())
    expected = [t for t in expected if t[0] not in hidden]
    segment = JoinSegment.build(
        family, [g for g, _ in groups], CATALOG, settings=SETTINGS, excluded=excluded, strategies=STRATEGIES
    )
    assert segment.ids.tolist() == sorted(set(ids) - hidden)
    unmuted = np.zeros(len(segment.ids), np.uint8)
    muted = np.array([rng.random() < 0.3 for _ in segment.ids], np.uint8)
    quiet = set(segment.ids[muted == 1].tolist())
    versions = {False: segment, True: reopened(segment)}
    for side in (0, 1):
        events, others = sides[side], sides[1 - side]
        rows = partner_rows(segment, 1 - side, others.table, others.ids, others.times)
        for strategy in WAYS:
            version = versions[rng.random() < 0.5]
            found = version.match(side, events.table, events.times, rows, unmuted, ALL_PAIRS, Tuning(strategy))
            got = triples(version, side, found, events.ids)
            assert got == expected, (seed, side, strategy, _difference(got, expected))
        found = segment.match(side, events.table, events.times, rows, muted, ALL_PAIRS)
        assert triples(segment, side, found, events.ids) == [t for t in expected if t[0] not in quiet]
    assert expected, f"{seed}: the twin finds pairs"


def _difference(got: Triples, expected: Triples) -> tuple[Triples, Triples]:
    return sorted(set(got) - set(expected))[:5], sorted(set(expected) - set(got))[:5]


@pytest.mark.parametrize("seed", few_are_quick(range(10), quick=1, tested=5))
def test_random_sql_finds_what_its_condition_says(seed: int) -> None:
    """From text to pairs: random equi-joins through registration, by family; conditions by the evaluator."""
    catalog = random_catalog(seed, streams=1 + seed % 3, tables=0, columns_max=5)
    by_family: dict[Any, list[tuple[Group, list[dict[str, Any]]]]] = {}
    first, refused = 0, 0
    for k in range(40):
        drawn = random_query(catalog, 1000 * seed + k, ["join"])
        params = pa.table({n: pa.array([v]) for n, v in drawn.params.items()}) if drawn.params else None
        try:
            planned = plan_registration(drawn.text, params, catalog, SETTINGS)
            constants = constants_table(planned, params)
            planned.check(constants)
        except RegisterError as refusal:
            words = ("boxes_per_query_max", "parameter", "nor a bounded difference")
            assert any(word in str(refusal) for word in words), (drawn.text, str(refusal))
            refused += 1
            continue
        assert planned.classified.parts is not None
        (query,), types = planned.classified.parts.cores, planned.shape.types
        family = joined(query, catalog).family
        assert planned.classified.family == "join"
        assert planned.channels == (family.channel,)
        assert [s.name for s in planned.classified.seen[0].streams] == list(family.streams)
        values = {f"c{i}": constant_value(constants.column(f"c{i}")[0], t) for i, t in enumerate(types)}
        by_family.setdefault(family, []).append((Group(query, constants, first), [values]))
        first += 1
    assert refused < 30, "most random joins are taken"
    tables = {s.name: rows_of_stream(s, 40, seed, order="clustered") for s in catalog.streams.values()}
    found_any = 0
    for family, groups in by_family.items():
        segment = JoinSegment.build(family, [g for g, _ in groups], catalog, settings=SETTINGS, strategies=STRATEGIES)
        expected = _expected_of_sql(groups, catalog, tables)
        found_any += len(expected)
        for side in (0, 1):
            streams = [catalog.streams[n.lower()] for n in family.streams]
            times = [times_us(tables[s.name], s).to_numpy() for s in streams]
            ids = np.arange(40, dtype=np.int64)
            other = tables[streams[1 - side].name]
            rows = partner_rows(segment, 1 - side, other, ids, times[1 - side])
            unmuted = np.zeros(len(segment.ids), np.uint8)
            for strategy in ("auto", STRATEGIES[(seed + side) % len(STRATEGIES)]):
                found = segment.match(
                    side, tables[streams[side].name], times[side], rows, unmuted, ALL_PAIRS, Tuning(strategy)
                )
                got = triples(segment, side, found, ids)
                assert got == expected, (seed, family.name, side, strategy, _difference(got, expected))
    assert found_any


def test_the_given_costs_choose_the_strategy_of_a_band_join() -> None:
    text = "SELECT t.i AS x FROM trade t, quote q WHERE q.b - t.b BETWEEN :lo AND :hi"
    params = pa.table({"lo": [-40, -3, 5], "hi": [-10, 4, 60]})
    planned = plan_registration(text, params, CATALOG, SETTINGS)
    group = Group(planned.shape.query, constants_table(planned, params), 0)
    segment = JoinSegment.build(joined(planned.shape.query, CATALOG).family, [group], CATALOG, settings=SETTINGS)
    rng = random.Random(3)
    sides = (Rows(rng, 30, 500), Rows(rng, 40, 9_000))
    unmuted = np.zeros(len(segment.ids), np.uint8)
    for side in (0, 1):
        events, others = sides[side], sides[1 - side]
        rows = partner_rows(segment, 1 - side, others.table, others.ids, others.times)
        expected = segment.match(side, events.table, events.times, rows, unmuted, ALL_PAIRS)
        pairs = triples(segment, side, expected, events.ids)
        assert pairs
        for number, name in enumerate(BAND_STRATEGIES[:N_BAND_STRATEGIES]):
            weights = np.full(DEFAULT.bands.shape, 1e6)
            weights[number] = 1e-6
            tuning = Tuning(costs=make_costs(DEFAULT.terms, weights))
            found = segment.match(side, events.table, events.times, rows, unmuted, ALL_PAIRS, tuning)
            assert triples(segment, side, found, events.ids) == pairs, name
            assert isinstance(found, JoinMatches)
            chosen = {CHOICES[k] for k in np.flatnonzero(found.choices)}
            assert chosen == {name}, side


def _expected_of_sql(
    groups: Sequence[tuple[Group, list[dict[str, Any]]]], catalog: Catalog, tables: dict[str, pa.Table]
) -> Triples:
    """All pairs of all rows, each condition evaluated over the product of the tables."""
    expected: Triples = []
    for group, (values,) in groups:
        query = group.query
        streams = [catalog.streams[s.relation.lower()] for s in query.sources]
        own = [tables[s.name] for s in streams]
        counts = [t.num_rows for t in own]
        spread = [np.repeat(np.arange(counts[0]), counts[1]), np.tile(np.arange(counts[1]), counts[0])]
        product = pa.table(
            {
                f"{k}.{n}": table.column(n).take(pa.array(at))
                for k, (table, at) in enumerate(zip(own, spread, strict=True))
                for n in table.column_names
            }
        )
        condition = query.root.child.predicate  # type: ignore[union-attr]  # a projection of a join
        true = truth(_qualified(condition), product, values).reshape(counts)
        times = tuple(times_us(t, s).to_pylist() for t, s in zip(own, streams, strict=True))
        numbers = tuple([{"": k} for k in range(n)] for n in counts)
        keeps = tuple(s.keep_us for s in streams)

        def holds(first: Any, second: Any, true: np.ndarray = true) -> bool:
            return bool(true[first[""], second[""]])

        swapped = joined(query, catalog).swapped
        for pair in results(query, values, numbers, times, keeps, holds):  # type: ignore[arg-type]  # pairs of two
            expected.append((int(group.id_of_row()[0]), *(pair[::-1] if swapped else pair)))
    return sorted(expected)


def _qualified(e: Expression) -> Expression:
    return rebuild(e, lambda n: replace(n, name=f"{n.source}.{n.name}") if isinstance(n, ColumnRef) else n)


def small_rows(values: Sequence[dict[str, Any]], first_id: int) -> Rows:
    made = Rows(random.Random(0), len(values), first_id)
    made.rows = [dict.fromkeys([*COLUMNS, "ts"]) | v for v in values]
    made.times = np.array([r["ts"] for r in made.rows], np.int64)
    made.table = table_of(made.rows).append_column("ts", to_arrow([r["ts"] for r in made.rows], TIMESTAMP))
    made.ids = np.arange(first_id, first_id + len(values), dtype=np.int64)
    return made


def matched(group: Group, sides: tuple[Rows, Rows], side: int = 0) -> Triples:
    family = joined(group.query, CATALOG).family
    segment = JoinSegment.build(family, [group], CATALOG, settings=SETTINGS)
    events, others = sides[side], sides[1 - side]
    rows = partner_rows(segment, 1 - side, others.table, others.ids, others.times)
    found = segment.match(side, events.table, events.times, rows, np.zeros(len(segment.ids), np.uint8), ALL_PAIRS)
    return triples(segment, side, found, events.ids)


def test_a_join_by_hand() -> None:
    """Trades and quotes of one string, with conditions on both: side 0 is the quote, whatever the query says."""
    condition = And(
        (
            Comparison("=", column(0, "s"), column(1, "s")),
            Comparison("<", column(0, "i"), Param("c0", BIGINT)),
            Comparison(">", column(1, "d"), Literal(2.0, COLUMNS["d"])),
        )
    )
    ten_minutes = Window(Bound(True, Literal(-10 * MINUTE_US, INTERVAL)))
    query = query_of((TRADE, QUOTE), condition, (ten_minutes, ten_minutes))
    trades = small_rows(
        [
            {"s": "a", "i": 1, "ts": NOW_US},
            {"s": "a", "i": 7, "ts": NOW_US},
            {"s": None, "i": 1, "ts": NOW_US},
            {"s": "b", "i": None, "ts": NOW_US},
            {"s": "a", "i": 1, "ts": NOW_US + 10 * MINUTE_US},
        ],
        100,
    )
    quotes = small_rows(
        [
            {"s": "a", "d": 3.0, "ts": NOW_US},
            {"s": "a", "d": 2.0, "ts": NOW_US},
            {"s": "a", "d": float("nan"), "ts": NOW_US + 1},
            {"s": None, "d": 9.0, "ts": NOW_US},
            {"s": "b", "d": 9.0, "ts": NOW_US},
        ],
        700,
    )
    group = Group(query, pa.table({"c0": [5, 9]}), np.array([31, 30]))
    # A trade ten minutes after a quote is never seen with it, one a microsecond nearer is.
    expected = [(30, 700, 100), (30, 700, 101), (30, 702, 100), (30, 702, 101), (30, 702, 104)]
    expected += [(31, 700, 100), (31, 702, 100), (31, 702, 104)]
    for side in (0, 1):
        assert matched(group, (quotes, trades), side) == expected
    assert joined(query, CATALOG).swapped
    assert joined(query, CATALOG).family.channel == "Quote~trade"


def test_an_or_across_sources_finds_a_pair_once() -> None:
    key = Comparison("=", column(0, "i"), column(1, "i"))
    either = Or(
        (
            And(
                (
                    Comparison("<", column(0, "b"), Literal(5, BIGINT)),
                    Comparison(">", column(1, "b"), Literal(0, BIGINT)),
                )
            ),
            Comparison("<", column(0, "b"), Literal(9, BIGINT)),
            Like(column(1, "s"), Literal("%x%", STRING)),
        )
    )
    rows = small_rows([{"i": 1, "b": 3, "s": "x", "ts": NOW_US}, {"i": 1, "b": 20, "s": "", "ts": NOW_US}], 0)
    group = Group(query_of((TRADE, TRADE), And((key, either)), (Window(), Window())), pa.table({"none": [None]}), 4)
    for side in (0, 1):
        assert matched(group, (rows, rows), side) == [(4, 0, 0), (4, 0, 1), (4, 1, 0)]


@pytest.mark.parametrize("apart_us", [0, 10 * MINUTE_US - 1, 10 * MINUTE_US, 30 * MINUTE_US, 3 * HOUR_US])
@pytest.mark.parametrize("turned", [False, True])
def test_times_are_checked_whether_all_some_or_no_pairs_are_near(apart_us: int, turned: bool) -> None:
    """Two windows in one part: whole batches inside of both, between them, or outside of both."""
    key = Comparison("=", column(0, "i"), column(1, "i"))
    groups = []
    for k, minutes in enumerate((10, 30)):
        window = Window(Bound(True, Literal(-minutes * MINUTE_US, INTERVAL)))
        groups.append((Group(query_of((QUOTE, QUOTE), key, (window, window)), pa.table({"none": [None]}), k), [{}]))
    near, far = NOW_US, NOW_US + apart_us
    left = small_rows([{"i": 1, "ts": far if turned else near}], 0)
    right = small_rows([{"i": 1, "ts": near if turned else far}], 0)
    expected = [(k, 0, 0) for k, minutes in enumerate((10, 30)) if apart_us < minutes * MINUTE_US]
    assert expected_of(groups, (left, right)) == expected
    family = joined(groups[0][0].query, CATALOG).family
    segment = reopened(JoinSegment.build(family, [g for g, _ in groups], CATALOG, settings=SETTINGS))
    assert len(segment.parts) == 1
    for side, (events, others) in enumerate(((left, right), (right, left))):
        rows = partner_rows(segment, 1 - side, others.table, others.ids, others.times)
        found = segment.match(side, events.table, events.times, rows, np.zeros(2, np.uint8), ALL_PAIRS)
        assert triples(segment, side, found, events.ids) == expected


def test_nan_equals_nan_and_minus_zero_zero() -> None:
    key = Comparison("=", column(0, "d"), column(1, "d2"))
    left = small_rows([{"d": d, "ts": NOW_US} for d in (float("nan"), -0.0, None)], 0)
    right = small_rows([{"d2": d, "ts": NOW_US} for d in (float("nan"), 0.0, None)], 0)
    group = Group(query_of((TRADE, TRADE), key, (Window(), Window())), pa.table({"none": [None]}), 4)
    for side in (0, 1):
        assert matched(group, (left, right), side) == [(4, 0, 0), (4, 1, 1)]


@pytest.mark.parametrize("keys_bytes", [8 * 3, 1 << 30])
def test_over_budget_counts_pairs_by_slot_over_all_parts(keys_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_segments, "KEYS_BYTES_MAX", keys_bytes)
    key = Comparison("=", column(0, "f"), column(1, "f"))
    shapes = [
        Comparison("<", column(0, "i"), Param("c0", BIGINT)),
        Comparison(">=", column(1, "b"), Param("c0", BIGINT)),
        And((Comparison(">", column(0, "m"), Param("c0", BIGINT)), IsNull(column(1, "s")))),
        Comparison("<>", column(1, "i2"), Param("c0", BIGINT)),
    ]
    groups = []
    for k, shape in enumerate(shapes):
        constants = [{"c0": c} for c in (-3, 0, 4)]
        query = query_of((TRADE, TRADE), And((key, shape)), (Window(), Window()))
        groups.append((Group(query, pa.table({"c0": [c["c0"] for c in constants]}), 10 * k), constants))
    rng = random.Random("budget")
    sides = (Rows(rng, 40, 0), Rows(rng, 40, 100))
    expected = expected_of(groups, sides)
    family = joined(groups[0][0].query, CATALOG).family
    segment = JoinSegment.build(family, [g for g, _ in groups], CATALOG, settings=SETTINGS)
    assert len(segment.parts) >= 3
    counts = np.bincount(np.searchsorted(segment.ids, [t[0] for t in expected]), minlength=len(segment.ids))
    unmuted = np.zeros(len(segment.ids), np.uint8)
    muted = np.arange(len(segment.ids)).astype(np.uint8) % 2
    for side in (0, 1):
        events, others = sides[side], sides[1 - side]
        rows = partner_rows(segment, 1 - side, others.table, others.ids, others.times)

        def match(
            quiet: np.ndarray, budget: int, side: int = side, events: Rows = events, rows: PartnerRows = rows
        ) -> Any:
            return segment.match(side, events.table, events.times, rows, quiet, budget)

        assert triples(segment, side, match(unmuted, len(expected)), events.ids) == expected
        for budget in (0, 1, len(expected) // 2, len(expected) - 1):
            found = match(unmuted, budget)
            assert isinstance(found, OverBudget)
            assert found.counts.tolist() == counts.tolist()
        found = match(muted, 0)
        assert isinstance(found, OverBudget)
        assert found.counts.tolist() == np.where(muted, 0, counts).tolist()


def test_a_mapped_segment_is_the_same_one(tmp_path: Path) -> None:
    rng = random.Random("mapped")
    groups = list(random_groups(rng, (TRADE, QUOTE), KEYS["strings"], 8))
    family = joined(groups[0][0].query, CATALOG).family
    segment = JoinSegment.build(family, [g for g, _ in groups], CATALOG, settings=SETTINGS)
    write_arrays(tmp_path / "join.seg", segment.arrays(), segment.meta())
    mapped = JoinSegment.from_arrays(*map_arrays(tmp_path / "join.seg", verify=True))
    assert mapped.family == family
    assert mapped.ids.tolist() == segment.ids.tolist()
    sides = (Rows(rng, 30, 0), Rows(rng, 30, 100))
    for side in (0, 1):
        assert mapped.columns(side) == segment.columns(side)
        assert mapped.accesses(side) == segment.accesses(side)
        events, others = sides[side], sides[1 - side]
        built = partner_rows(segment, 1 - side, others.table, others.ids, others.times)
        write_arrays(tmp_path / f"{side}.rows", built.arrays(), built.meta())
        rows = PartnerRows.from_arrays(*map_arrays(tmp_path / f"{side}.rows"))
        unmuted = np.zeros(len(segment.ids), np.uint8)
        found = mapped.match(side, events.table, events.times, rows, unmuted, ALL_PAIRS)
        assert triples(mapped, side, found, events.ids) == expected_of(groups, sides)


def test_an_empty_segment_and_empty_sides_match_nothing() -> None:
    key = Comparison("=", column(0, "s"), column(1, "s"))
    query = query_of((TRADE, TRADE), key, (Window(), Window()))
    family = joined(query, CATALOG).family
    nothing, some = Rows(random.Random(1), 0, 0), Rows(random.Random(1), 5, 0)
    never = query_of((TRADE, TRADE), And((key, Literal(False, COLUMNS["f"]))), (Window(), Window()))
    groups = [[], [Group(query, pa.table({"none": [None]}), 3)], [Group(never, pa.table({"none": [None]}), 3)]]
    for chosen in groups:
        segment = reopened(JoinSegment.build(family, chosen, CATALOG, settings=SETTINGS))
        assert segment.columns(0) == segment.columns(1) == []
        for events, others in ((nothing, some), (some, nothing), (nothing, nothing)):
            rows = partner_rows(segment, 1, others.table, others.ids, others.times)
            unmuted = np.zeros(len(segment.ids), np.uint8)
            assert triples(segment, 0, segment.match(0, events.table, events.times, rows, unmuted, 0), events.ids) == []
    assert segment.ids.tolist() == [3]


def test_access_attributes_are_few_and_common_to_all_boxes_of_a_slot() -> None:
    key = Comparison("=", column(0, "s"), column(1, "s"))
    names = ("i", "i2", "b", "b2", "d", "d2", "m", "m2")
    groups = []
    for k, name in enumerate(names):
        constants = pa.table({"c0": pa.array(range(40 - k))})
        local = Comparison("<", column(0, name), Param("c0", BIGINT))
        groups.append(Group(query_of((TRADE, TRADE), And((key, local)), (Window(), Window())), constants, 100 * k))
    both = Or((local, Comparison("<", column(0, "i"), Param("c0", BIGINT))))
    groups.append(Group(query_of((TRADE, TRADE), And((key, both)), (Window(), Window())), pa.table({"c0": [1]}), 900))
    family = joined(groups[0].query, CATALOG).family
    segment = JoinSegment.build(family, groups, CATALOG, settings=SETTINGS)
    assert segment.accesses(0) == [None, *(column(0, n) for n in names[:4])]
    assert segment.accesses(1) == [None]
    assert segment.columns(0) == [column(0, n) for n in names]
    (rest,) = (p for p in segment.parts if p.access == (-1, -1))
    assert len(rest.slot_of_box) == sum(40 - k for k in range(4, 8)) + 2


def test_an_equality_is_reached_before_a_wide_interval() -> None:
    key = Comparison("=", column(0, "s"), column(1, "s"))
    local = And(
        (
            Comparison("<", column(0, "d"), Param("c0", COLUMNS["d"])),
            Comparison("=", column(0, "i"), Param("c1", BIGINT)),
            Comparison("=", column(0, "f"), Literal(True, COLUMNS["f"])),
        )
    )
    constants = pa.table({"c0": np.linspace(0, 100, 200), "c1": np.arange(200)})
    group = Group(query_of((TRADE, TRADE), And((key, local)), (Window(), Window())), constants, 0)
    segment = JoinSegment.build(joined(group.query, CATALOG).family, [group], CATALOG, settings=SETTINGS)
    assert segment.accesses(0) == [column(0, "i")]


def test_many_groups_of_one_query_are_one_table() -> None:
    key = Comparison("=", column(0, "s"), column(1, "s"))
    query = query_of(
        (TRADE, TRADE), And((key, Comparison("<", column(1, "i"), Param("c0", BIGINT)))), (Window(), Window())
    )
    groups = [Group(query, pa.table({"c0": [k]}), 5 * k) for k in range(500)]
    segment = JoinSegment.build(joined(query, CATALOG).family, groups, CATALOG, settings=SETTINGS)
    assert len(segment.parts) == 1
    row = small_rows([{"s": "a", "i": 497, "ts": NOW_US}], 0)
    rows = partner_rows(segment, 1, row.table, row.ids, row.times)
    found = segment.match(0, row.table, row.times, rows, np.zeros(500, np.uint8), ALL_PAIRS)
    assert triples(segment, 0, found, row.ids) == [(2490, 0, 0), (2495, 0, 0)]


def test_the_twin_agrees_with_a_few_cases_by_hand() -> None:
    """The twin is code too: what it says of windows and of equality, written out."""
    sliding = Window(Bound(True, Literal(-10, INTERVAL)))
    lagging = Window(Bound(True, Literal(-30, INTERVAL)), Bound(True, Literal(-20, INTERVAL)))
    everything = query_of((QUOTE, QUOTE), None, (sliding, lagging))
    times = ([100], [70, 71, 80, 89, 90, 91])
    rows = tuple([dict.fromkeys([*COLUMNS, "ts"])] * len(t) for t in times)
    # At τ = 100 … 109 the first is seen, and of the other those with τ − 30 < t <= τ − 20.
    assert [j for _, j in results(everything, {}, rows, times, (None, None))] == [1, 2, 3]  # type: ignore[arg-type]  # rows of two
    equal_days = plain_condition(equal(column(0, "day"), column(1, "t")), {})
    day = pool(DATE)[4]
    assert equal_days({"day": day}, {"t": NOW_US})
    assert not equal_days({"day": day}, {"t": NOW_US + 1})
    assert not equal_days({"day": None}, {"t": NOW_US})
