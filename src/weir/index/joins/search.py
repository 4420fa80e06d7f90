"""The select-join index: all strategies over one plane, and the search that takes one for each event.

Strategies answer the same question, which boxes an event affects, and give the same answer; they differ in what they
cost, and in which events they are good at (SSI, 4.1). `search` uses one of them for the batch, or for each event the
one that is expected to be cheapest. `estimates` shows what the router expects, `cycles` what one strategy really takes.

Sweep, join-first and select-first share their lists; ssi and hotspot share stabbing sets. Only the
strategies asked for are built, and an index built for some of them answers by any of these. An index that is to be
`thrifty` leaves out stabbing sets unless the cost model expects them to be clearly better for some kind of event.

Memory of a search: the result, and buffers of 12 bytes a box and 2 a partner row, of which only what is used is ever
touched. The output is made for what is expected, and made anew when that was too little; over budget the batch is
searched once more, and counted instead of written.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index.boxes import Int32s, Int64s, Matches, OverBudget, Uint8s, frozen, read_only
from weir.index.histograms import EqualWidth
from weir.index.joins.affected import (
    Events,
    Router,
    Scratch,
    Structures,
    count_affected,
    count_cycles,
    estimate_events,
    make_scratch,
    write_affected,
)
from weir.index.joins.codes import Codes, Points, build_codes, encode_plane, n_codes
from weir.index.joins.costs import (
    DEFAULT,
    HOTSPOT,
    JOIN_FIRST,
    SELECT_FIRST,
    SSI,
    SWEEP,
    Costs,
    Description,
    Groups,
    describe,
    describe_parts,
    prepare,
    worthwhile,
)
from weir.index.joins.hotspot import Hotspots, build_hotspots, is_hot
from weir.index.joins.lists import Lists, build_lists
from weir.index.joins.output import written
from weir.index.joins.planes import Plane, check
from weir.index.joins.stabbing_sets import StabbingSets, build_stabbing_sets, extent_of
from weir.index.stabbing import Partition, canonical

Floats = npt.NDArray[np.float64]

STRATEGIES = ("vanilla", "join-first", "select-first", "ssi", "hotspot", "sweep")  # a strategy's number is its place

_BUCKETS = 256  # of the histogram of a-intervals


class Found(NamedTuple):
    """The boxes that each event affects, and how they were found."""

    matches: Matches | OverBudget  # its slots are box numbers, ascending and unique within an event
    choices: Int64s  # int64[6]: events with partners that each strategy processed


class JoinIndex:
    """All strategies over one plane."""

    def __init__(self, built: Structures, allowed: int) -> None:
        self._built: Structures = _frozen(built)
        self._allowed = allowed

    @classmethod
    def build(
        cls, plane: Plane, *, alpha: float = 0.001, strategies: Sequence[str] = STRATEGIES, thrifty: bool = False
    ) -> Self:
        """An index with the strategies named; a group of at least alpha · n boxes is a hotspot.

        `thrifty`: without ssi and hotspot where these are not worth their memory.
        """
        plane = check(plane)
        numbers = {_number(name) for name in strategies}
        assert numbers, "an index has at least one strategy"
        every = np.arange(len(plane.a_lo))
        codes = build_codes(plane)
        coded = encode_plane(codes, plane)
        n_a, n_c = n_codes(codes.a), n_codes(codes.c)
        partition = Partition(np.empty(0, np.int32), np.empty(0, np.int64))
        if numbers & {SSI, HOTSPOT}:
            partition = canonical(plane.c_lo, plane.c_hi)
        hot = is_hot(partition, alpha)
        lists = build_lists(coded, every if numbers & {SWEEP, JOIN_FIRST, SELECT_FIRST} else every[:0], n_a, n_c)
        selected = EqualWidth.of_intervals(plane.a_lo, plane.a_hi, _BUCKETS)
        if thrifty and numbers & {SSI, HOTSPOT} and numbers - {SSI, HOTSPOT}:
            extent = extent_of(plane, every, partition.group_of_interval.astype(np.int64), len(hot))
            groups = Groups(**extent, hot=np.flatnonzero(hot).astype(np.int32))
            n_scattered = int(extent["sizes"][~hot].sum())
            known = describe_parts(plane, codes, lists, groups, n_scattered)
            heights = np.quantile(selected.heights, (0.25, 0.5, 0.75, 0.95))
            numbers -= {SSI, HOTSPOT} - worthwhile(DEFAULT, known, heights)
            if not numbers & {SSI, HOTSPOT}:
                partition = Partition(np.empty(0, np.int32), np.empty(0, np.int64))
                hot = is_hot(partition, alpha)
        in_sets = np.full(len(hot), True) if SSI in numbers else hot
        scattered = np.flatnonzero(~hot[partition.group_of_interval]) if HOTSPOT in numbers else every[:0]
        built = Structures(
            plane,
            codes,
            lists,
            build_stabbing_sets(plane, coded, partition, np.flatnonzero(in_sets), n_a),
            build_hotspots(plane, coded, np.flatnonzero(hot[in_sets]).astype(np.int32), scattered, n_a, n_c),
            selected,
        )
        return cls(built, sum(1 << number for number in numbers))

    def arrays(self) -> dict[str, np.ndarray]:
        found = _flat("", self._built)
        found["allowed"] = np.array([self._allowed], dtype=np.int64)
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        def part(kind: type[Any], name: str) -> Any:
            return kind(*(arrays[f"{name}_{field}"] for field in kind._fields))

        hotspots = Hotspots(
            arrays["hotspots_groups"],
            part(Lists, "hotspots_scattered"),
            arrays["hotspots_n_scattered"],
            part(EqualWidth, "hotspots_selected"),
        )
        built = Structures(
            part(Plane, "plane"),
            Codes(part(Points, "codes_a"), part(Points, "codes_c"), arrays["codes_doubt"]),
            part(Lists, "lists"),
            part(StabbingSets, "sets"),
            hotspots,
            part(EqualWidth, "selected"),
        )
        return cls(built, int(arrays["allowed"][0]))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def plane(self) -> Plane:
        return self._built.plane

    @property
    def built(self) -> Structures:
        """What it is made of, for an index that shares some of it."""
        return self._built

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that were built."""
        return tuple(name for number, name in enumerate(STRATEGIES) if self._allowed >> number & 1)

    def search(
        self,
        a: Int64s,
        begin: Int64s,
        end: Int64s,
        values: Int64s,
        muted: Uint8s,
        pairs_max: int,
        *,
        strategy: str = "auto",
        costs: Costs = DEFAULT,
    ) -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""
        events = _checked(a, begin, end, values)
        muted = read_only(np.ascontiguousarray(muted, dtype=np.uint8))
        assert muted.shape == (len(self.plane.a_lo),), f"muted has shape {muted.shape}, not {len(self.plane.a_lo)}"
        router = self._router(strategy, costs, len(values))
        scratch = self._scratch(events)
        choices = np.zeros(len(STRATEGIES), dtype=np.int64)
        matches: Matches | OverBudget | None = self._write(events, router, scratch, muted, pairs_max, choices)
        if matches is None:
            counts = np.zeros(len(muted), dtype=np.int64)
            choices[:] = 0
            count_affected(self._built, events, router, scratch, muted, counts, choices)
            matches = OverBudget(counts)
        return Found(matches, choices)

    def _write(
        self, events: Events, router: Router, scratch: Scratch, muted: Uint8s, pairs_max: int, choices: Int64s
    ) -> Matches | None:
        """All matches of a batch; None if there are more than `pairs_max`."""
        any_muted = bool(muted.any())

        def write(event: int, output: Int32s, used: int, per_event: Int64s) -> tuple[int, int]:
            found: tuple[int, int] = write_affected(
                self._built, events, router, scratch, muted, any_muted, event, output, used, per_event, choices
            )
            return found

        return written(write, len(events.a), len(muted), pairs_max)

    def estimates(self, a: Int64s, begin: Int64s, end: Int64s, *, costs: Costs = DEFAULT, m_rows: int = 0) -> Floats:
        """float64[e, 6]: what each strategy is expected to cost for each event, ns; inf for one that was not built.

        `m_rows` is the number of all partner rows; without it, the end of the last run.
        """
        m_rows = m_rows or int(np.max(end, initial=0))
        events = _checked(a, begin, end, np.empty(m_rows, dtype=np.int64))
        found = np.empty((len(events.a), len(STRATEGIES)), dtype=np.float64)
        estimate_events(self._built, events, self._router("auto", costs, m_rows), make_scratch(0, 0), found)
        for number in range(len(STRATEGIES)):
            if not self._allowed >> number & 1:
                found[:, number] = np.inf
        return found

    def cycles(self, a: Int64s, begin: Int64s, end: Int64s, values: Int64s, strategy: str) -> Int64s:
        """int64[e]: cycles that one strategy spends on each event; sorting and writing are left out.

        The first event that meets a partner pays for coding it, as in a search.
        """
        events = _checked(a, begin, end, values)
        router = self._router(strategy, DEFAULT, len(values))
        spent = np.zeros(len(events.a), dtype=np.int64)
        count_cycles(self._built, events, router.strategy, self._scratch(events), spent)
        return spent

    def _router(self, strategy: str, costs: Costs, m_rows: int) -> Router:
        number = -1
        if strategy != "auto":
            number = _number(strategy)
            assert self._allowed >> number & 1, f"strategy {strategy} was not built, only {self.strategies}"
        return Router(number, self._allowed, prepare(costs, self._description, m_rows))

    @functools.cached_property
    def _description(self) -> Description:
        return describe(self._built)

    def _scratch(self, events: Events) -> Scratch:
        return make_scratch(len(self.plane.a_lo), len(events.values))


def batch_order(keys: Int64s, a: Int64s) -> Int64s:
    """A permutation of events by a, then by join key: neighbours meet the same lists.

    Lists are larger than runs of partners, so they are what is worth finding in the cache again.
    """
    return np.lexsort((keys, a)).astype(np.int64, copy=False)


def _number(name: str) -> int:
    assert name in STRATEGIES, f"strategy {name!r} is none of {STRATEGIES}"
    return STRATEGIES.index(name)


def _checked(a: Int64s, begin: Int64s, end: Int64s, values: Int64s) -> Events:
    """The arguments of a search with one layout, so that kernels are compiled once."""
    made = Events(*(np.ascontiguousarray(array, dtype=np.int64) for array in (a, begin, end, values)))
    assert len(made.a) == len(made.begin) == len(made.end), "an a, a begin and an end for every event"
    assert bool(np.all(made.begin <= made.end)), "a run does not end before it begins"
    if len(made.a):
        assert made.begin.min() >= 0, "places are not negative"
        assert made.end.max() <= len(made.values), f"a run ends at {made.end.max()} of {len(made.values)} places"
    return frozen(made)


def _frozen(structure: Any) -> Any:
    """Nested tuples of arrays with every array read-only."""
    if isinstance(structure, np.ndarray):
        return read_only(structure)
    return type(structure)(*(_frozen(part) for part in structure))


def _flat(name: str, structure: Any) -> dict[str, np.ndarray]:
    """Nested tuples of arrays by the path of their names."""
    found: dict[str, np.ndarray] = {}
    for field, part in structure._asdict().items():
        path = f"{name}_{field}" if name else field
        found |= {path: part} if isinstance(part, np.ndarray) else _flat(path, part)
    return found
