"""What an index of joins is: boxes over one plane, found for the events of a meeting by one of several strategies.

Events arrive on one side of a join and meet the rows of the other side that they may join with, their partners. A
`Meeting` says all that any index asks of a batch of events and of its partners; an index answers which boxes each event
affects. Joining pairs are enumerated from these by whoever knows the plane (`weir.index.joining`), so an index may
report boxes that turn out to have no pair, but must not leave one out.

The contract, which a battery of tests holds for every index, and a toy that lives in the tests:

- `search` gives for each event the affected boxes that are not muted, ascending and unique; over budget it gives, for
  each box, the number of events that affect it. All strategies give the same answer.
- `choices` counts by strategy, in the order of `names`, the events with partners that each one processed.
- `arrays` and `from_arrays` round-trip, also through read-only memory maps.
- `finder` is for indexes that know more than boxes: it finds the joining pairs of the events that it takes itself
  (`PairFinder`). `search` is not asked about these.

`meeting.offset` tells enumeration how to see partners: a plain join compares the values of places with a box's bounds,
a band join compares their differences with what the event brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from weir.index.box_tables import Int64s, Matches, OverBudget, Uint8s, read_only
from weir.index.histograms import EqualWidth, Floats
from weir.index.meeting.checks import Checks, PairBuffer
from weir.index.meeting.codes import Codes
from weir.index.meeting.lists import Lists
from weir.index.meeting.partner_runs import PartnerRun, plain_run
from weir.index.meeting.planes import Plane

TAKEN, REFUSED = 1, 2  # of an event whose pairs an index finds itself, or would have found
_NOTHING: Int64s = np.empty(0, np.int64)


class Side(NamedTuple):
    """What is known of the events, or of the partners by place."""

    times: Int64s  # int64[e]: µs
    columns: Int64s  # int64[k, e]: keys of the attributes that checks name; NULL_KEY for NULL


def plain_side(count: int) -> Side:
    """Rows of which nothing is known."""
    return Side(np.zeros(count, np.int64), np.empty((0, count), np.int64))


class Meeting(NamedTuple):
    """A batch of events and the partners that they meet."""

    a: Int64s  # int64[e]: key of each event's own attribute
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]: the partners of event i are the places begin[i] .. end[i]
    run: PartnerRun  # the values of places
    offset: Int64s  # int64[e]: what events bring to differences; empty unless boxes are about these
    events: Side
    partners: Side

    def at(self, which: slice | Int64s) -> Meeting:
        """Some of the events with the same partners."""
        events = Side(self.events.times[which], self.events.columns[:, which])
        own = self.a[which], self.begin[which], self.end[which]
        offset = self.offset[which] if len(self.offset) else self.offset
        return Meeting(*own, self.run, offset, events, self.partners)

    def laid_out(self) -> Meeting:
        """The same with one layout of arrays, so that kernels are compiled once; broken invariants are our mistakes."""
        a, begin, end, offset, times = (
            read_only(np.ascontiguousarray(array, dtype=np.int64))
            for array in (self.a, self.begin, self.end, self.offset, self.events.times)
        )
        assert len(a) == len(begin) == len(end), "an a, a begin and an end for every event"
        assert len(offset) in (0, len(a)), "an offset for every event, or none"
        assert len(times) == len(a), "a time for every event"
        assert bool(np.all(begin <= end)), "a run does not end before it begins"
        if len(a):
            m = len(self.run.values)
            assert begin.min() >= 0, "places are not negative"
            assert end.max() <= m, f"a run ends at {end.max()} of {m} places"
        return Meeting(a, begin, end, self.run, offset, self.events._replace(times=times), self.partners)


def plain_meeting(a: Int64s, begin: Int64s, end: Int64s, values: Int64s) -> Meeting:
    """Events whose partners have values; nothing else is known of either."""
    return Meeting(a, begin, end, plain_run(values), _NOTHING, plain_side(len(a)), plain_side(len(values)))


def band_meeting(a: Int64s, offset: Int64s, begin: Int64s, end: Int64s, run: PartnerRun) -> Meeting:
    """The same of events that make differences with a run of partners."""
    return Meeting(a, begin, end, run, offset, plain_side(len(a)), plain_side(len(run.values)))


def timed_meeting(a: Int64s, times: Int64s, begin: Int64s, end: Int64s, values: Int64s, place_times: Int64s) -> Meeting:
    """Events whose partners have values; both have times."""
    met = plain_meeting(a, begin, end, values)
    return met._replace(events=met.events._replace(times=times), partners=met.partners._replace(times=place_times))


class Costs(NamedTuple):
    """Fitted weights of the cost models."""

    terms: Floats  # float64[strategy, term]: of select joins, ns for one unit of the term (`weir.index.joins`)
    bands: Floats  # the same of band joins, whose strategies and terms are others (`weir.index.bands`)
    batches: Floats  # the same of selections, for whole batches (`weir.index.by_batch`)


class Tuning(NamedTuple):
    """By what the strategy of an event is chosen."""

    strategy: str = "auto"  # one for all events; auto: for each the one that is expected to be cheapest
    costs: Costs | None = None  # None: those that the index was delivered with


AUTO = Tuning()


class Indexing(NamedTuple):
    """How a plane is indexed."""

    alpha: float = 0.001  # a stabbing group of at least this share of all boxes is a hotspot
    strategies: Sequence[str] | None = None  # those of select joins that are built; None: all
    thrifty: bool = False  # without structures that are not worth their memory
    partial: bool | None = None  # whether select joins have a partial index; None: where it is expected to pay
    is_double: bool = False  # how the keys of differences are read as numbers


class Listed(NamedTuple):
    """Boxes in lists, as an index by age shares them with the index that built them."""

    plane: Plane
    codes: Codes
    lists: Lists
    selected: EqualWidth  # a-intervals of all boxes


class Found(NamedTuple):
    """The boxes that each event affects, and how they were found."""

    matches: Matches | OverBudget  # its slots are box numbers, ascending and unique within an event
    choices: Int64s  # int64[s]: events with partners that each strategy processed


class Pairing(NamedTuple):
    """All that whoever writes pairs reads: the boxes, the events with their runs, and the partners."""

    plane: Plane
    checks: Checks
    a: Int64s  # int64[e]
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]
    offset: Int64s  # int64[e]: what events bring to differences; empty of a plain join
    run: PartnerRun
    events: Side
    partners: Side


class PairWriter(Protocol):
    """A search for pairs over all events of a meeting."""

    def write(self, taken: Uint8s, first: int, event: int, counting: bool, out: PairBuffer) -> tuple[int, int]:
        """Write or count the pairs of the events `first` … that are taken, from `event` on, until the buffer is full.

        Slots ascend within an event, places ascend within (event, slot), no triple is written twice. Returns the event
        to go on with, `first` + len(taken) if none is left, and how many pairs were written. An event that has more
        pairs than there is room for at all becomes REFUSED, and nothing of it is written.
        """


class PairFinder(Protocol):
    """An index that finds the joining pairs of events itself."""

    @property
    def name(self) -> str:
        """As what its events are counted: one of the strategies."""

    def takes(self, meeting: Meeting, tuning: Tuning) -> Uint8s:
        """uint8[e]: TAKEN for the events whose pairs it should find, else 0."""

    def writer(self, of: Pairing, muted: Uint8s) -> PairWriter:
        """A search for the pairs of these events; `muted` is by box."""


class PlaneIndex(Protocol):
    """Boxes over one plane, ready to be searched."""

    @property
    def plane(self) -> Plane: ...

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies, in the order in which `choices` counts them."""

    @property
    def listed(self) -> Listed | None:
        """Its lists, for an index by age; None if it has none."""

    @property
    def finder(self) -> PairFinder | None:
        """Finds pairs itself; None: boxes are all it finds."""

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> Floats:
        """float64[e, s]: what each strategy is expected to cost for each event, ns; inf for one that was not built."""


class StoredIndex(PlaneIndex, Protocol):
    """One that segments keep: it is built from a plane and comes back from its arrays.

    Among its arrays are those of the plane, named plane_a_lo and so on: two directions of a join share them.
    """

    @classmethod
    def over(cls, plane: Plane, how: Indexing) -> Self: ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self: ...

    def arrays(self) -> dict[str, Any]: ...
