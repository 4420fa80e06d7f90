"""The band-join index: boxes over an attribute of the event and a difference, and the ways to find the affected ones.

Seen from an event, a box is [a_lo, a_hi] × [lo, hi]: its own attribute a, and the difference d that it has with a
partner (SSI, 3.1, with local selections, which the paper does not have). A box is affected when it contains a and some
partner's d. The strategies give the same answer:

    query-outer   every box looks for its first partner: n searches, each one a few comparisons where there is a ladder
    data-outer    every partner looks for the boxes around its difference: m searches
    merge         boxes by lo and partners by d are merged: n + m steps
    ssi           boxes in stabbing groups; the two partners around a group's point decide for it: τ searches and k
    hotspot       ssi for groups of at least α·n boxes, query-outer for the rest

`auto` takes for each event the one whose estimate is least; the estimates are linear in n, m, τ and the like, with
weights that were measured (`_COSTS`). Boxes are in classes by the widths of their intervals, so that a few wide ones
do not make partners look at all narrow ones.

Size: 40 bytes a box and 16 more if any box constrains a, beside the plane.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index.bands.runs import Floats, Run, difference, first_above, first_not_below, is_whole, ladder, walk
from weir.index.boxes import Int32s, Int64s, Matches, OverBudget, Uint8s, frozen, read_only
from weir.index.jit import Scalar
from weir.index.joins.affected import OUTPUT_SLACK, Scratch, make_scratch, write_sorted
from weir.index.joins.instructions import cycles, double_of, word_at
from weir.index.joins.lean import lean
from weir.index.joins.planes import Plane, check
from weir.index.joins.search import Found
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.stabbing import Partition, canonical

STRATEGIES = ("query-outer", "data-outer", "merge", "ssi", "hotspot")  # a strategy's number is its place
QUERY_OUTER, DATA_OUTER, MERGE, SSI, HOTSPOT = range(5)

_MATCHES_EXPECTED = 16
_OUTPUT_MIN = 1 << 16
_SHORT = 56  # intervals shorter than this are looked for in one word of bits
# ns: a box that looks for its partner with a ladder, and a step of it without; a partner's search for boxes, a class of
# it; a step of a merge; a group's search, a group that is reached; a box of a hotspot's rest.
_LADDER_NS, _STEP_NS, _PARTNER_NS, _MERGE_NS, _GROUP_NS, _REACHED_NS = 1.2, 1.3, 40.0, 3.7, 18.0, 14.0


class Bands(NamedTuple):
    """Boxes by class of width and, within a class, by ascending lo; and in stabbing groups."""

    lo: Int64s  # int64[n]: least key of the difference
    hi: Int64s  # int64[n]: greatest
    aids: Int64s  # int64[n]: of doubles lo as a number, its bits; of whole numbers, bits for a short interval's
    boxes: Int32s  # int32[n]: the box
    a_lo: Int64s  # int64[n], or empty if no box constrains a
    a_hi: Int64s
    classes: Int64s  # int64[k+1]: the boxes of class i are classes[i] .. classes[i+1]
    longest: Int64s  # int64[k]: the longest interval of a class, in keys
    steps: Int32s  # int32[·]: ladders over the lo of each class: the first place of each cell, counted within the class
    step_offsets: Int64s  # int64[k+1]: where those of class i begin
    step_scale: Floats  # float64[k, 2]: cell = lo · scale[0] + scale[1]
    group_offsets: Int64s  # int64[g+1]
    low: Int32s  # int32[n]: places of the boxes of each group, by ascending lo
    high: Int32s  # int32[n]: the same by descending hi
    points: Int64s  # int64[g]: what stabs the group, ascending
    lowest: Int64s  # int64[g]: its least lo
    highest: Int64s  # int64[g]: its greatest hi
    numbers: Int32s  # int32[g]: 0, 1, …: all groups
    hot: Int32s  # int32[η]: the hotspots
    scattered: Int32s  # int32[·]: places of the boxes of other groups, ascending


class Meeting(NamedTuple):
    """A batch of events."""

    a: Int64s  # int64[e]
    offset: Int64s  # int64[e]: b, as `Run` has u
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]: its partners are the places begin .. end


class BandIndex:
    """All strategies over one plane whose c is a difference."""

    def __init__(self, plane: Plane, bands: Bands) -> None:
        self.plane = frozen(plane)
        self._bands = frozen(bands)

    @classmethod
    def build(cls, plane: Plane, *, is_double: bool, alpha: float = 0.001) -> Self:
        """The index of a plane; `is_double` says how the keys of differences are read as numbers."""
        plane = check(plane)
        width = _widths(plane.c_lo, plane.c_hi)
        class_of_box = _class_of(width)
        order = np.lexsort((plane.c_lo, class_of_box))
        lo, hi = plane.c_lo[order], plane.c_hi[order]
        constrained = bool(np.any(plane.a_lo > NULL_KEY) or np.any(plane.a_hi < KEY_MAX))
        kept = order if constrained else order[:0]
        numbers, first = np.unique(class_of_box[order], return_index=True)
        classes = np.append(first, len(lo)).astype(np.int64)
        numbers_of_lo = _hints(lo) if is_double else np.where(lo == KEY_MIN, -np.inf, lo.astype(np.float64))
        ladders = [ladder(numbers_of_lo[i:j]) for i, j in itertools.pairwise(classes.tolist())]
        partition = canonical(lo, hi)
        groups = _grouped(partition, lo, hi)
        sizes = np.diff(groups[0])
        hot = sizes >= alpha * len(lo)
        return cls(
            plane,
            Bands(
                lo,
                hi,
                _hints(lo).view(np.int64) if is_double else _masks(lo, hi),
                order.astype(np.int32),
                plane.a_lo[kept],
                plane.a_hi[kept],
                classes,
                np.array([width[order][class_of_box[order] == k].max() for k in numbers], np.int64),
                np.concatenate([np.empty(0, np.int32), *(cells for cells, _ in ladders)]),
                np.cumsum([0, *(len(cells) for cells, _ in ladders)]).astype(np.int64),
                np.array([scale for _, scale in ladders]).reshape(-1, 2),
                *groups,
                np.arange(len(sizes), dtype=np.int32),
                np.flatnonzero(hot).astype(np.int32),
                np.flatnonzero(~hot[partition.group_of_interval]).astype(np.int32),
            ),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        found = {f"plane_{name}": array for name, array in self.plane._asdict().items()}
        return found | {f"bands_{name}": array for name, array in self._bands._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(
            Plane(*(arrays[f"plane_{name}"] for name in Plane._fields)),
            Bands(*(arrays[f"bands_{name}"] for name in Bands._fields)),
        )

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def search(self, events: Meeting, run: Run, muted: Uint8s, pairs_max: int, *, strategy: str = "auto") -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""
        assert strategy == "auto" or strategy in STRATEGIES, f"strategy {strategy!r} is none of {STRATEGIES}"
        number = -1 if strategy == "auto" else STRATEGIES.index(strategy)
        events = frozen(Meeting(*(np.ascontiguousarray(array, dtype=np.int64) for array in events)))
        n_boxes, n_events = len(self._bands.lo), len(events.a)
        muted = read_only(np.ascontiguousarray(muted, dtype=np.uint8))
        assert muted.shape == (n_boxes,), f"muted has shape {muted.shape}, not {n_boxes}"
        any_muted = bool(muted.any())
        scratch = make_scratch(n_boxes, 0)
        choices = np.zeros(len(STRATEGIES), dtype=np.int64)
        per_event = np.zeros(n_events, dtype=np.int64)
        output = np.empty(0, dtype=np.int32)
        event = used = 0
        expected = max(_MATCHES_EXPECTED * n_events, _OUTPUT_MIN)
        while event < n_events:
            # Pages that nothing is written to cost nothing, so it is better to expect too much than to copy often.
            grown = np.empty(min(expected, pairs_max) + n_boxes + OUTPUT_SLACK, dtype=np.int32)
            grown[:used] = output[:used]
            output = grown
            event, used = _write(
                self._bands, events, run, number, scratch, muted, any_muted, event, output, used, per_event, choices
            )
            if used > pairs_max:
                counts = np.zeros(n_boxes, dtype=np.int64)
                choices[:] = 0
                _count(self._bands, events, run, number, scratch, muted, counts, choices)
                return Found(OverBudget(counts), choices)
            expected = max(int(1.1 * used / max(event, 1) * n_events), 2 * used)
        offsets = np.zeros(n_events + 1, dtype=np.int64)
        np.cumsum(per_event, out=offsets[1:])
        return Found(Matches(offsets, output[:used]), choices)

    def cycles(self, events: Meeting, run: Run, strategy: str, *, silent: bool = False) -> Int64s:
        """int64[e]: cycles that one strategy spends on each event; sorting and writing are left out.

        `silent`: ssi finds its stretches of boxes and does not report them.
        """
        events = frozen(Meeting(*(np.ascontiguousarray(array, dtype=np.int64) for array in events)))
        spent = np.zeros(len(events.a), dtype=np.int64)
        scratch = make_scratch(len(self._bands.lo), 0)
        _cycles(self._bands, events, run, STRATEGIES.index(strategy), silent, scratch, spent)
        return spent


def _widths(lo: Int64s, hi: Int64s) -> Int64s:
    """hi − lo in keys; an interval with an open end, or one too long for int64, is as long as any."""
    with np.errstate(over="ignore"):
        width = hi - lo
    return np.where((lo == KEY_MIN) | (hi == KEY_MAX) | (width < 0), KEY_MAX, width)


def _class_of(width: Int64s) -> Int64s:
    """Classes whose widths differ by a factor of four at most."""
    return (np.log2(width.astype(np.float64) + 1.0) / 2.0).astype(np.int64)


def _hints(lo: Int64s) -> Floats:
    """Keys of doubles as numbers; an open end is −inf, NaN is beyond everything."""
    bits = np.where(lo < 0, lo ^ KEY_MAX, lo)
    with np.errstate(invalid="ignore"):
        numbers = np.where(lo == KEY_MIN, -np.inf, bits.view(np.float64))
    return np.where(np.isnan(numbers), np.inf, numbers)


def _masks(lo: Int64s, hi: Int64s) -> Int64s:
    """A bit for each number of an interval, from the lowest on; 0 for a long one."""
    width = _widths(lo, hi)
    return np.where(width < _SHORT, (np.int64(2) << np.minimum(width, _SHORT)) - 1, 0)


def _grouped(partition: Partition, lo: Int64s, hi: Int64s) -> tuple[Int64s, Int32s, Int32s, Int64s, Int64s, Int64s]:
    """Offsets of groups, their boxes in both orders, points, least lo and greatest hi."""
    group = partition.group_of_interval
    offsets = np.zeros(len(partition.points) + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=len(partition.points)), out=offsets[1:])
    low = np.lexsort((lo, group)).astype(np.int32)
    high = np.lexsort((~hi, group)).astype(np.int32)  # ~x is −x − 1, which is there for every x
    return offsets, low, high, partition.points, lo[low[offsets[:-1]]], hi[high[offsets[:-1]]]


@lean
def _write(
    bands: Bands,
    events: Meeting,
    run: Run,
    strategy: Scalar,
    scratch: Scratch,
    muted: Uint8s,
    any_muted: Scalar,
    event: Scalar,
    output: Int32s,
    used: Scalar,
    per_event: Int64s,
    choices: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the boxes of the events from `event` on until one does not fit; returns that event and what is used."""
    while event < len(events.a):
        per_event[event] = 0
        if events.begin[event] < events.end[event]:
            chosen = strategy if strategy >= 0 else _cheapest(bands, run, events.end[event] - events.begin[event])
            n = _stab(bands, events, run, chosen, scratch, event, False)
            if any_muted:
                n = _unmuted(scratch.found, n, muted)
            if used + n + OUTPUT_SLACK > len(output):
                return event, used
            used = write_sorted(scratch, n, output, used)
            per_event[event] = n
            choices[chosen] += 1
        event += 1
    return event, used


@lean
def _count(
    bands: Bands,
    events: Meeting,
    run: Run,
    strategy: Scalar,
    scratch: Scratch,
    muted: Uint8s,
    counts: Int64s,
    choices: Int64s,
) -> None:
    """Add all events to the counts of the boxes that they affect."""
    for event in range(len(events.a)):
        if events.begin[event] == events.end[event]:
            continue
        chosen = strategy if strategy >= 0 else _cheapest(bands, run, events.end[event] - events.begin[event])
        n = _unmuted(scratch.found, _stab(bands, events, run, chosen, scratch, event, False), muted)
        for i in range(n):
            counts[scratch.found[i]] += 1
        choices[chosen] += 1


@lean
def _unmuted(found: Int32s, n: Scalar, muted: Uint8s) -> Scalar:
    kept = 0
    for i in range(n):
        box = found[i]
        found[kept] = box
        kept += 1 - muted[box]
    return kept


@lean
def _cheapest(bands: Bands, run: Run, m: Scalar) -> Scalar:
    """The strategy that is expected to be cheapest for an event with m partners."""
    n, n_groups, n_hot = np.float64(len(bands.lo)), len(bands.points), len(bands.hot)
    log_m = np.log2(m + 1.0)
    look_up = _LADDER_NS if len(run.cells) > 0 else _STEP_NS * log_m
    best, least = QUERY_OUTER, n * look_up
    cost = m * _PARTNER_NS * len(bands.longest)
    if cost < least:
        best, least = DATA_OUTER, cost
    cost = (n + m * len(bands.longest)) * _MERGE_NS
    if cost < least:
        best, least = MERGE, cost
    cost = n_groups * _GROUP_NS + min(np.float64(n_groups), np.float64(m)) * _REACHED_NS
    if cost < least:
        best, least = SSI, cost
    cost = n_hot * _GROUP_NS + min(np.float64(n_hot), np.float64(m)) * _REACHED_NS + len(bands.scattered) * look_up
    if cost < least:
        best = HOTSPOT
    return best


@lean
def _stab(
    bands: Bands, events: Meeting, run: Run, strategy: Scalar, scratch: Scratch, event: Scalar, silent: Scalar
) -> Scalar:
    """The event's boxes by one strategy into scratch.found; returns how many they are.

    `silent`: where stretches of boxes are reported, only find them; for measuring what finding costs.
    """
    a, offset, begin, end = events.a[event], events.offset[event], events.begin[event], events.end[event]
    found = scratch.found
    if strategy == DATA_OUTER:
        return _data_outer(bands, run, a, offset, begin, end, scratch.bits, found)
    if strategy == MERGE:
        return _merge(bands, run, a, offset, begin, end, found)
    if strategy == SSI:
        return _stabbed(bands, bands.numbers, run, a, offset, begin, end, silent, found)
    if strategy == HOTSPOT:
        used = _stabbed(bands, bands.hot, run, a, offset, begin, end, silent, found)
        for place in bands.scattered:
            found[used] = bands.boxes[place]
            used += _has_partner(bands, run, place, offset, begin, end) and _selects(bands, place, a)
        return used
    if is_whole(run, begin, end, offset):
        return _climb(bands, run, a, offset, begin, end, found)
    used = 0
    for place in range(len(bands.lo)):
        found[used] = bands.boxes[place]
        used += _has_partner(bands, run, place, offset, begin, end) and _selects(bands, place, a)
    return used


@lean
def _selects(bands: Bands, place: Scalar, a: Scalar) -> Scalar:
    """Whether a box contains the event's own attribute."""
    if len(bands.a_lo) == 0:
        return True
    return bands.a_lo[place] <= a and a <= bands.a_hi[place]


@lean
def _has_partner(bands: Bands, run: Run, place: Scalar, offset: Scalar, begin: Scalar, end: Scalar) -> Scalar:
    at = first_not_below(run, begin, end, bands.lo[place], offset)
    return at < end and difference(run.values[at], offset, run.is_double) <= bands.hi[place]


@lean
def _climb(bands: Bands, run: Run, a: Scalar, offset: Scalar, begin: Scalar, end: Scalar, found: Int32s) -> Scalar:
    """Query-outer with a ladder: each box goes to the cell of its lo, or to the one before, and on from there.

    Of each class only boxes are looked at that can reach the partners at all.
    """
    least = difference(run.values[begin], offset, run.is_double)
    greatest = difference(run.values[end - 1], offset, run.is_double)
    used = np.int64(0)
    for k in range(len(bands.longest)):
        first, last = bands.classes[k], bands.classes[k + 1]
        longest = bands.longest[k]
        if longest < KEY_MAX and least >= KEY_MIN + longest:
            first = _first_lo(bands.lo, first, last, least - longest)
        if greatest < KEY_MAX:
            last = _first_lo(bands.lo, first, last, greatest + 1)
        if run.units[1] == 1 and longest < _SHORT:
            used = _look_at_bits(bands, run, offset, least, first, last, found, used)
        elif run.units[1] == 1:
            used = _climb_units(bands, run, offset, least, end, first, last, found, used)
        else:
            used = _climb_cells(bands, run, offset, end, first, last, found, used)
    if len(bands.a_lo) == 0:
        for i in range(used):
            found[i] = bands.boxes[found[i]]
        return used
    kept = 0
    for i in range(used):
        place = found[i]
        found[kept] = bands.boxes[place]
        kept += bands.a_lo[place] <= a and a <= bands.a_hi[place]
    return kept


@lean
def _look_at_bits(
    bands: Bands, run: Run, offset: Scalar, least: Scalar, first: Scalar, last: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """Places of the boxes first .. last with a partner, where every number has a bit, and intervals are short."""
    lo, hi, masks, bits = bands.lo, bands.hi, bands.aids, run.bits
    shift = offset - run.units[0]
    whole = _first_lo(lo, first, last, least)
    for place in range(first, whole):  # they begin below all partners
        ahead = word_at(bits, np.uint64(0)) >> np.uint64(1)  # cell 0 is that of the number before the first
        reach = hi[place] - least
        found[used] = place
        used += reach >= 0 and (ahead & ((np.uint64(2) << np.uint64(max(reach, 0))) - np.uint64(1))) != np.uint64(0)
    out = np.uint64(used)
    for place in range(np.uint64(whole), np.uint64(last)):
        cell = np.uint64(lo[place] + shift)
        ahead = word_at(bits, cell >> np.uint64(3)) >> (cell & np.uint64(7))
        found[out] = place
        out += np.uint64((ahead & np.uint64(masks[place])) != np.uint64(0))
    return np.int64(out)


@lean
def _climb_units(
    bands: Bands,
    run: Run,
    offset: Scalar,
    least: Scalar,
    end: Scalar,
    first: Scalar,
    last: Scalar,
    found: Int32s,
    used: Scalar,
) -> Scalar:
    """The same for intervals of any length, by the cells of their lo."""
    lo, hi, cells, values = bands.lo, bands.hi, run.cells, run.values
    shift = offset - run.units[0]
    at_end = np.uint32(end)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        at = np.uint32(cells[np.uint64(max(lo[place], least) + shift)])
        found[out] = place
        out += np.uint64((at < at_end) & (values[np.uint64(at)] - offset <= hi[place]))
    return np.int64(out)


@lean
def _climb_cells(
    bands: Bands, run: Run, offset: Scalar, end: Scalar, first: Scalar, last: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """The same where cells are found by floating point."""
    lo, hi, aids = bands.lo, bands.hi, bands.aids
    values, cells, is_double = run.values, run.cells, run.is_double
    number = double_of(offset) if is_double else 0.0
    factor, shift = run.scale[0], run.scale[1]
    top = np.float64(len(cells) - 1)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        least = lo[place]
        if is_double:
            near = (double_of(aids[place]) + number) * factor + shift
        else:  # whole numbers are added before they are rounded; a sum that leaves int64 is beyond all partners
            moved = least + offset
            left = (least ^ moved) & (offset ^ moved) < 0
            near = np.float64(moved) * factor + shift if not left else top if offset > 0 else 0.0
        at = np.int64(cells[np.uint64(min(max(near, 0.0), top))]) if near == near else np.int64(0)
        if at > 0 and difference(values[np.uint64(at - 1)], offset, is_double) >= least:
            at = walk(run, at, end, least, offset)
        d = difference(values[np.uint64(at)], offset, is_double)
        while d < least and at < end:
            at += 1
            d = difference(values[np.uint64(at)], offset, is_double)
        found[out] = place
        out += np.uint64((at < end) & (d <= hi[place]))
    return np.int64(out)


@lean
def _merge(bands: Bands, run: Run, a: Scalar, offset: Scalar, begin: Scalar, end: Scalar, found: Int32s) -> Scalar:
    """Boxes of a class by lo and partners by difference, both from left to right."""
    values, is_double = run.values, run.is_double
    used = 0
    for k in range(len(bands.longest)):
        at = begin
        for place in range(bands.classes[k], bands.classes[k + 1]):
            while at < end and difference(values[at], offset, is_double) < bands.lo[place]:
                at += 1
            if at == end:
                break
            found[used] = bands.boxes[place]
            used += difference(values[at], offset, is_double) <= bands.hi[place] and _selects(bands, place, a)
    return used


@lean
def _data_outer(
    bands: Bands,
    run: Run,
    a: Scalar,
    offset: Scalar,
    begin: Scalar,
    end: Scalar,
    marks: npt.NDArray[np.uint64],
    found: Int32s,
) -> Scalar:
    """For every partner the boxes of each class whose lo is near enough below its difference; each box once."""
    used = 0
    for i in range(begin, end):
        if i > begin and run.values[i] == run.values[i - 1]:
            continue
        d = difference(run.values[i], offset, run.is_double)
        for k in range(len(bands.longest)):
            last, longest = bands.classes[k + 1], bands.longest[k]
            # The class of the longest has intervals with open ends, and such that are too long for int64.
            least = d - longest if longest < KEY_MAX and d >= KEY_MIN + longest else np.int64(KEY_MIN)
            place = _climb_to(bands, k, least, run.is_double)
            while place < last and bands.lo[place] <= d:
                box = np.uint64(bands.boxes[place])
                bit = np.uint64(1) << (box & np.uint64(63))
                if bands.hi[place] >= d and not marks[box >> np.uint64(6)] & bit and _selects(bands, place, a):
                    marks[box >> np.uint64(6)] |= bit
                    found[used] = box
                    used += 1
                place += 1
    for j in range(used):
        marks[found[j] >> 6] = 0
    return used


@lean
def _climb_to(bands: Bands, k: Scalar, key: Scalar, is_double: Scalar) -> Scalar:
    """The first place of class k whose lo is not below `key`, by the ladder of the class."""
    first, last = bands.classes[k], bands.classes[k + 1]
    begin, end = bands.step_offsets[k], bands.step_offsets[k + 1]
    number = double_of(key ^ np.int64(KEY_MAX) if key < 0 else key) if is_double else np.float64(key)
    at = number * bands.step_scale[k, 0] + (bands.step_scale[k, 1] - 1.0)
    if begin == end or at != at:
        return _first_lo(bands.lo, first, last, key)
    place = first + bands.steps[begin + np.int64(min(max(at, 0.0), np.float64(end - begin - 1)))]
    while place < last and bands.lo[place] < key:
        place += 1
    return place


@lean
def _first_lo(lo: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The first place of a class whose lo is not below `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if lo[first + half - 1] < key else first
        n -= half
    return first


@lean
def _stabbed(
    bands: Bands,
    groups: Int32s,
    run: Run,
    a: Scalar,
    offset: Scalar,
    begin: Scalar,
    end: Scalar,
    silent: Scalar,
    found: Int32s,
) -> Scalar:
    """The boxes of the given groups: those that reach the partner just below the point or at it, or the one above."""
    values, is_double = run.values, run.is_double
    used = 0
    above = begin
    for g in groups:
        above = first_above(run, above, end, bands.points[g], offset)
        first, last = bands.group_offsets[g], bands.group_offsets[g + 1]
        below = np.int64(NULL_KEY)  # the difference of the partner at or below the point
        if above > begin:
            below = difference(values[above - 1], offset, is_double)
            reached = _prefix(bands.low, bands.lo, first, last, below) if below < bands.points[g] else last
            if not silent:
                used = _append(bands, bands.low, first, reached, a, np.int64(NULL_KEY), found, used)
            if reached == last:
                continue  # it is in all of them
        if above < end:
            beyond = difference(values[above], offset, is_double)
            if beyond <= bands.highest[g]:
                reached = _suffix(bands.high, bands.hi, first, last, beyond)
                if not silent:
                    used = _append(bands, bands.high, first, reached, a, below, found, used)
    return used


@lean
def _prefix(low: Int32s, lo: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The end of the boxes of a group, by ascending lo, whose lo is not above `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if lo[low[first + half - 1]] <= key else first
        n -= half
    return first


@lean
def _suffix(high: Int32s, hi: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The end of the boxes of a group, by descending hi, whose hi is not below `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if hi[high[first + half - 1]] >= key else first
        n -= half
    return first


@lean
def _append(
    bands: Bands, places: Int32s, first: Scalar, last: Scalar, a: Scalar, below: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """Append the boxes at places[first .. last] that contain a, and whose lo is above `below`."""
    boxes, lo = bands.boxes, bands.lo
    if len(bands.a_lo) == 0 and below == NULL_KEY:
        for k in range(first, last):
            found[used] = boxes[places[k]]
            used += 1
        return used
    for k in range(first, last):
        place = places[k]
        found[used] = boxes[place]
        used += (lo[place] > below) & _selects(bands, place, a)
    return used


@lean
def _cycles(
    bands: Bands, events: Meeting, run: Run, strategy: Scalar, silent: Scalar, scratch: Scratch, spent: Int64s
) -> None:
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            started = cycles()
            n = _stab(bands, events, run, strategy, scratch, event, silent)
            spent[event] = cycles() - started + (0 if n >= 0 else 1)
