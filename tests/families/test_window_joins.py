"""Window joins with a window for each query: every strategy, from both sides, in and out of time order, over tiers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.schema import BIGINT, TIMESTAMP, Catalog, Column, Stream
from weir.families.joins.join_family import joined
from weir.families.joins.join_matching import JoinMatches
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.families.members import Group
from weir.index.joining import pairs, routing
from weir.index.joining.kinds import SELECT_STRATEGIES as STRATEGIES
from weir.index.joining.kinds import STRATEGIES as CHOICES
from weir.index.joining.kinds import WINDOW_STRATEGIES as FORCED
from weir.index.meeting.index_contract import Tuning
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings

SETTINGS = Settings()
SECOND_US = 1_000_000
ALL_PAIRS = 1 << 40
WAYS = ("auto", *STRATEGIES, *FORCED)

_R = Stream("r", (Column("a", BIGINT), Column("b", BIGINT), Column("ts", TIMESTAMP)), time="ts", keep_us=None)
_S = Stream("s", (Column("b", BIGINT), Column("c", BIGINT), Column("ts", TIMESTAMP)), time="ts", keep_us=None)
CATALOG = Catalog({"r": _R, "s": _S})
SQL = (
    "SELECT r.a FROM r, s WHERE r.b = s.b AND abs(r.ts - s.ts) <= :w "
    "AND r.a BETWEEN :a_lo AND :a_hi AND s.c BETWEEN :c_lo AND :c_hi"
)

Triples = list[tuple[int, int, int]]  # query, row of r, row of s


class Rows(NamedTuple):
    """Rows of one stream; a row's id is its position."""

    key: np.ndarray  # b
    value: np.ndarray  # a, or c
    times: np.ndarray

    def table(self, of: str) -> pa.Table:
        stamps = pa.array(self.times, pa.timestamp("us", tz="UTC"))
        return pa.table({"b": self.key, "a" if of == "r" else "c": self.value, "ts": stamps})


def draw_rows(rng: np.random.Generator, n: int, begin_s: int, end_s: int) -> Rows:
    times = rng.integers(begin_s * SECOND_US, end_s * SECOND_US, n)
    return Rows(rng.integers(0, 4, n), rng.integers(0, 60, n), times)


def draw_constants(rng: np.random.Generator, n: int, longest_s: float) -> dict[str, np.ndarray]:
    middle, half = rng.integers(0, 60, (2, n)), rng.integers(0, 12, (2, n))
    window = (10.0 ** rng.uniform(-3, np.log10(longest_s), n) * SECOND_US).astype(np.int64)
    window[: n // 10] = 0
    lo, hi = middle - half, middle + half
    return {"w": window, "a_lo": lo[0], "a_hi": hi[0], "c_lo": lo[1], "c_hi": hi[1]}


def segment_of(constants: dict[str, np.ndarray]) -> JoinSegment:
    params = pa.table({n: pa.array(v, pa.duration("us") if n == "w" else pa.int64()) for n, v in constants.items()})
    planned = plan_registration(SQL, params, CATALOG, SETTINGS)
    query = planned.shape.query
    group = Group(query, constants_table(planned, params), 0)
    family = joined(query, CATALOG).family
    assert family.streams == ("r", "s")
    return JoinSegment.build(family, [group], CATALOG, settings=SETTINGS, strategies=STRATEGIES)


def expected(constants: dict[str, np.ndarray], r: Rows, s: Rows) -> Triples:
    """Each query with each pair of rows."""
    same = r.key[:, None] == s.key
    apart = np.abs(r.times[:, None] - s.times)
    found: Triples = []
    for q in range(len(constants["w"])):
        of_r = (constants["a_lo"][q] <= r.value) & (r.value <= constants["a_hi"][q])
        of_s = (constants["c_lo"][q] <= s.value) & (s.value <= constants["c_hi"][q])
        holds = same & (apart <= constants["w"][q]) & of_r[:, None] & of_s
        found += [(q, int(i), int(j)) for i, j in zip(*np.nonzero(holds), strict=True)]
    return sorted(found)


def match(
    segment: JoinSegment, side: int, events: Rows, others: Rows, tiers: list[np.ndarray], strategy: str
) -> tuple[Triples, np.ndarray]:
    names = ("r", "s")
    found: Triples = []
    choices = np.zeros(len(CHOICES), np.int64)
    table = events.table(names[side])
    for ids in tiers:
        tier = Rows(*(array[ids] for array in others))
        rows = PartnerRows.build(
            segment.family,
            1 - side,
            tier.table(names[1 - side]),
            ids,
            tier.times,
            accesses=segment.accesses(1 - side) or [None],
            columns=segment.asked(1 - side),
        )
        unmuted = np.zeros(len(segment.ids), np.uint8)
        matches = segment.match(side, table, events.times, rows, unmuted, ALL_PAIRS, Tuning(strategy))
        assert isinstance(matches, JoinMatches)
        event = np.repeat(matches.events, np.diff(matches.offsets)).tolist()
        queries = segment.ids[matches.slots].tolist()
        pairs_found = zip(event, matches.partners[0].tolist(), strict=True)
        found += [(q, *((e, p) if side == 0 else (p, e))) for q, (e, p) in zip(queries, pairs_found, strict=True)]
        choices += matches.choices
    return sorted(found), choices


@pytest.mark.parametrize("order", ["in time order", "out of order", "long after"])
@pytest.mark.parametrize("side", [0, 1])
def test_every_strategy_finds_what_the_definition_says(side: int, order: str) -> None:
    rng = np.random.default_rng([side, len(order)])
    constants = draw_constants(rng, 80, 3_000)
    segment = segment_of(constants)
    assert len(segment.parts) > 3, "windows of very different lengths are apart"
    others = draw_rows(rng, 400, 0, 1_000)
    begin = {"in time order": 1_000, "out of order": 0, "long after": 1_800}[order]
    events = draw_rows(rng, 60, begin, begin + 500)
    rows = (events, others) if side == 0 else (others, events)
    wanted = expected(constants, *rows)
    assert len(wanted) > 20
    by_age = np.argsort(others.times, kind="stable")
    for tiers in ([np.arange(400)], np.array_split(by_age, 3)):
        for strategy in WAYS:
            found, choices = match(segment, side, events, others, list(tiers), strategy)
            assert found == wanted, f"{strategy} over {len(tiers)} tiers"
            if strategy in FORCED:
                assert choices[CHOICES.index("window join-first") :].sum() > 0


@pytest.mark.slow
def test_the_router_turns_to_ages_where_boxes_are_fruitless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EVENTS_FIRST", 16)
    monkeypatch.setattr(routing, "_BOXES_MIN", 1)
    rng = np.random.default_rng(5)
    constants = draw_constants(rng, 300, 100)
    constants["w"][:] = 2 * SECOND_US
    constants["w"][0] = 30 * SECOND_US  # all others pay for the partners that only this one sees
    segment = segment_of(constants)
    assert len(segment.parts) == 1
    others, events = draw_rows(rng, 600, 970, 1_000), draw_rows(rng, 200, 1_000, 1_001)
    wanted = expected(constants, events, others)
    for clearly, is_used in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(routing, "_CLEARLY", clearly)
        found, choices = match(segment, 0, events, others, [np.arange(600)], "auto")
        assert found == wanted
        assert (choices[CHOICES.index("window join-first") :].sum() > 0) == is_used
        assert choices.sum() == len(events.times)


def test_partners_beyond_all_windows_are_not_met() -> None:
    """A tier that spans much more than the windows is cut to what is near the events."""
    rng = np.random.default_rng(6)
    constants = draw_constants(rng, 50, 10)
    constants["w"][:] = 10 * SECOND_US
    segment = segment_of(constants)
    others, events = draw_rows(rng, 3_000, 0, 1_000), draw_rows(rng, 50, 995, 1_010)
    wanted = expected(constants, events, others)
    for strategy in WAYS:
        assert match(segment, 0, events, others, [np.arange(3_000)], strategy)[0] == wanted, strategy
