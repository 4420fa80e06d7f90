"""The collector: for each event of a meeting it takes a strategy, finds the boxes, and writes, counts or times them.

It is the one loop of all indexes of joins. What an index consists of during a search is a NamedTuple, its *search*; the
class of that tuple says which strategies there are (`collects`). The strategy of an event is given, or it is the one
whose estimated cost is least (SSI, 4.1). Muted boxes are dropped before boxes are sorted and written. Nothing grows: an
event whose boxes do not fit into the output is left for the next call, which brings a larger output. Over budget the
batch is searched once more, and counted instead of written.

A kind's strategies are rows, and a strategy's number is the place of its row. Compiled, `stab` becomes a chain of
comparisons over the rows of the search's class, so that the collector is compiled once for each class and cached like
any kernel; uncompiled it looks the row up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from numba.extending import overload

from weir.index.box_tables import Int32s, Int64s, Matches, OverBudget, Uint8s, read_only
from weir.index.histograms import Floats
from weir.index.jit import Scalar, config
from weir.index.meeting.index_contract import AUTO, Found, Listed, Meeting, PairFinder, Tuning
from weir.index.meeting.instructions import cycles
from weir.index.meeting.lean import THIN, lean, thin
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import OUTPUT_SLACK, Scratch, make_scratch, write_sorted

MATCHES_EXPECTED = 16  # boxes an event for which the first output has room
OUTPUT_MIN = 1 << 16  # boxes that an output has room for at least

Kernel = Callable[..., Any]


class StrategyRow(NamedTuple):
    """A way to find the boxes that an event affects: one row of a kind's table."""

    name: str
    weights: tuple[float, ...]  # of the terms of the kind's cost model, as fitted; none: it is counted instead
    stab: Kernel  # (search, events, scratch, event) → how many boxes are in scratch.found, in any order, each once


class Events(NamedTuple):
    """The events of a search."""

    a: Int64s  # int64[e]
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]


class Router(NamedTuple):
    """How the strategy of an event is chosen."""

    strategy: int  # this one for all events; −1: for each the one that is expected to be cheapest
    allowed: int  # bit s is set if strategy s was built


class Collected(NamedTuple):
    """What a search writes, and what it must not write."""

    boxes: Int32s  # int32[·]: of one event behind the other
    per_event: Int64s  # int64[e]
    choices: Int64s  # int64[s]
    muted: Uint8s  # uint8[n]: boxes that are left out
    any_muted: bool


_STABS: dict[Any, tuple[Kernel, ...]] = {}
_ESTIMATES: dict[Any, Kernel] = {}


def collects(search: type[tuple[Any, ...]], strategies: Sequence[StrategyRow], estimate: Kernel) -> None:
    """Have searches of this class collected by these strategies.

    `estimate` (search, events, scratch, event) leaves in scratch.estimates what each strategy costs, ns; inf: never.
    """
    _STABS[search] = tuple(strategy.stab for strategy in strategies)
    _ESTIMATES[search] = estimate


def stab(search: Any, events: Events, strategy: Scalar, scratch: Scratch, event: Scalar) -> Scalar:
    """The event's boxes by one strategy into scratch.found; returns how many they are."""
    return _STABS[type(search)][strategy](search, events, scratch, event)


def estimate(search: Any, events: Events, scratch: Scratch, event: Scalar) -> None:
    """What each strategy costs for the event, into scratch.estimates."""
    _ESTIMATES[type(search)](search, events, scratch, event)


def _chain(kernels: tuple[Kernel, ...]) -> Kernel:
    """`stab` for these rows; each link passes on what is not its own.

    Links of three rows are compiled sooner, and cost each event a tenth of a microsecond.
    """
    first = kernels[0]
    if len(kernels) == 1:

        def last_link(search: Any, events: Any, strategy: Any, scratch: Any, event: Any) -> Any:
            return first(search, events, scratch, event)

        return last_link
    others: Any = numba.njit(_chain(kernels[1:]))
    others.targetoptions |= {"_nrt": False, "no_cfunc_wrapper": True, **THIN}

    def link(search: Any, events: Any, strategy: Any, scratch: Any, event: Any) -> Any:
        if strategy == 0:
            return first(search, events, scratch, event)
        return others(search, events, strategy - 1, scratch, event)

    return link


def _compiled_stab(search: Any, events: Any, strategy: Any, scratch: Any, event: Any) -> Kernel:
    return _chain(_STABS[search.instance_class])


def _compiled_estimate(search: Any, events: Any, scratch: Any, event: Any) -> Kernel:
    made = _ESTIMATES[search.instance_class]

    def one(search: Any, events: Any, scratch: Any, event: Any) -> Any:
        return made(search, events, scratch, event)

    return one


if not config.DISABLE_JIT:
    overload(stab, jit_options={"forceinline": True})(_compiled_stab)
    overload(estimate, jit_options={"forceinline": True})(_compiled_estimate)


@lean
def cheapest(costs: Floats, allowed: Scalar) -> Scalar:
    """The strategy of least cost among those whose bit is set in `allowed`; −1 if none is."""
    best = -1
    for s in range(len(costs)):
        if (allowed >> s) & 1 and (best < 0 or costs[s] < costs[best]):
            best = s
    return best


@thin
def _choose(search: Any, events: Events, router: Router, scratch: Scratch, event: Scalar) -> Scalar:
    """The number of the event's strategy."""
    if router.strategy >= 0:
        return router.strategy
    estimate(search, events, scratch, event)
    return cheapest(scratch.estimates, router.allowed)


@lean
def _write(
    search: Any, events: Events, router: Router, scratch: Scratch, output: Collected, event: Scalar, used: Scalar
) -> tuple[Scalar, Scalar]:
    """Write the boxes of the events from `event` on until one does not fit; returns that event and what is used.

    An event whose boxes are all boxes fits into an output of OUTPUT_SLACK more.
    """
    while event < len(events.a):
        output.per_event[event] = 0
        if events.begin[event] < events.end[event]:
            strategy = _choose(search, events, router, scratch, event)
            n = stab(search, events, strategy, scratch, event)
            if output.any_muted:
                n = _drop_muted(scratch.found, n, output.muted)
            if used + n + OUTPUT_SLACK > len(output.boxes):
                return event, used
            used = write_sorted(scratch, n, output.boxes, used)
            output.per_event[event] = n
            output.choices[strategy] += 1
        event += 1
    return event, used


@lean
def _count(search: Any, events: Events, router: Router, scratch: Scratch, output: Collected, counts: Int64s) -> None:
    """Add all events to the counts of the boxes that they affect."""
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            strategy = _choose(search, events, router, scratch, event)
            n = stab(search, events, strategy, scratch, event)
            for i in range(n):
                box = scratch.found[i]
                counts[box] += 1 - output.muted[box]
            output.choices[strategy] += 1


@lean
def _cycles(search: Any, events: Events, strategy: Scalar, scratch: Scratch, spent: Int64s) -> None:
    """Cycles that one strategy spends on each event, a run's codes included where the strategy needs them."""
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            started = cycles()
            n = stab(search, events, strategy, scratch, event)
            spent[event] = cycles() - started + (0 if n >= 0 else 1)


@lean
def _estimates(search: Any, events: Events, scratch: Scratch, out: Floats) -> None:
    """out[event, strategy] = what the router thinks it costs, ns."""
    for event in range(len(events.a)):
        estimate(search, events, scratch, event)
        for strategy in range(len(scratch.estimates)):
            out[event, strategy] = scratch.estimates[strategy]


@lean
def _drop_muted(found: Int32s, n: Scalar, muted: Uint8s) -> Scalar:
    kept = 0
    for i in range(n):
        box = found[i]
        found[kept] = box
        kept += 0 if muted[box] else 1
    return kept


class CollectedIndex(ABC):
    """An index whose events the collector goes through; a subclass says what is searched."""

    kind: ClassVar[str]  # stands before the names of strategies where kinds meet; "" for select joins
    rows: ClassVar[tuple[StrategyRow, ...]]
    aliases: ClassVar[Mapping[str, str]] = {}  # names of select joins' strategies that stand for others here

    def __init__(self, plane: Plane, allowed: int) -> None:
        self.plane = plane
        self._allowed = allowed  # bit s is set if strategy s was built

    @abstractmethod
    def _searched(self, meeting: Meeting, tuning: Tuning) -> Any:
        """All that strategies read during a search: a NamedTuple of a class that `collects` knows."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.kind} {row.name}".strip() for row in self.rows)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that were built."""
        return tuple(row.name for number, row in enumerate(self.rows) if self._allowed >> number & 1)

    @property
    def listed(self) -> Listed | None:
        return None

    @property
    def finder(self) -> PairFinder | None:
        return None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]: ...

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""
        n_boxes = len(self.plane.a_lo)
        muted = read_only(np.ascontiguousarray(muted, dtype=np.uint8))
        assert muted.shape == (n_boxes,), f"muted has shape {muted.shape}, not {n_boxes}"
        router = Router(self._number(tuning.strategy), self._allowed)
        search, events, scratch = self._prepared(meeting, tuning)
        choices = np.zeros(len(self.rows), dtype=np.int64)
        per_event = np.zeros(len(events.a), dtype=np.int64)
        output = Collected(np.empty(0, dtype=np.int32), per_event, choices, muted, bool(muted.any()))
        matches: Matches | OverBudget | None = _written(search, events, router, scratch, output, pairs_max)
        if matches is None:
            counts = np.zeros(n_boxes, dtype=np.int64)
            choices[:] = 0
            _count(search, events, router, scratch, output, counts)
            matches = OverBudget(counts)
        return Found(matches, choices)

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> Floats:
        """float64[e, s]: what each strategy is expected to cost for each event, ns; inf for one that was not built."""
        search, events, scratch = self._prepared(meeting, tuning)
        found = np.empty((len(events.a), len(self.rows)), dtype=np.float64)
        _estimates(search, events, scratch, found)
        found[:, [not self._allowed >> number & 1 for number in range(len(self.rows))]] = np.inf
        return found

    def cycles(self, meeting: Meeting, strategy: str) -> Int64s:
        """int64[e]: cycles that one strategy spends on each event; sorting and writing are left out.

        The first event that meets a partner pays for coding it, as in a search.
        """
        tuning = Tuning(strategy)
        search, events, scratch = self._prepared(meeting, tuning)
        spent = np.zeros(len(events.a), dtype=np.int64)
        _cycles(search, events, self._number(strategy), scratch, spent)
        return spent

    def _prepared(self, meeting: Meeting, tuning: Tuning) -> tuple[Any, Events, Scratch]:
        meeting = meeting.laid_out()
        scratch = make_scratch(len(self.plane.a_lo), len(meeting.run.values), len(self.rows))
        return self._searched(meeting, tuning), Events(meeting.a, meeting.begin, meeting.end), scratch

    def _number(self, strategy: str) -> int:
        """The number of a strategy; −1, whichever is cheapest, for auto and for the name of another kind."""
        kind, _, name = strategy.rpartition(" ")
        name = self.aliases.get(name, name)
        if name == "auto" or kind not in ("", self.kind):
            return -1
        names = [row.name for row in self.rows]
        assert name in names, f"strategy {name!r} is none of {names}"
        assert name in self.strategies, f"strategy {name} was not built, only {self.strategies}"
        return names.index(name)


def _written(
    search: Any, events: Events, router: Router, scratch: Scratch, output: Collected, pairs_max: int
) -> Matches | None:
    """All matches of a batch; None if there are more than `pairs_max`.

    The output is made for what is expected, and made anew when that was too little.
    """
    n_events = len(events.a)
    event = used = 0
    expected = max(MATCHES_EXPECTED * n_events, OUTPUT_MIN)
    while event < n_events:
        # Pages that nothing is written to cost nothing, so it is better to expect too much than to copy often.
        grown = np.empty(min(expected, pairs_max) + len(output.muted) + OUTPUT_SLACK, dtype=np.int32)
        grown[:used] = output.boxes[:used]
        output = output._replace(boxes=grown)
        event, used = _write(search, events, router, scratch, output, event, used)
        if used > pairs_max:
            return None
        expected = max(int(1.1 * used / max(event, 1) * n_events), 2 * used)
    offsets = np.zeros(n_events + 1, dtype=np.int64)
    np.cumsum(output.per_event, out=offsets[1:])
    return Matches(offsets, output.boxes[:used])
