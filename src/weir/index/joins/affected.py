"""Affected boxes of a batch: for each event a strategy is taken, its boxes are found, sorted and written.

The strategy is given, or the one whose estimated cost is least for this event (SSI, 4.1): m' is the length of its run,
n' and n" come from histograms of the a-intervals of all boxes and of the scattered ones. Partners are coded when the
first event meets them.

A strategy leaves an event's boxes in any order, each once. Very few are sorted by insertion, the others by a set of
bits, one bit a box, which is read off in order: all its words if boxes are many, else those that a second set, of words
that are not 0, leads to. Muted boxes are dropped before. Nothing grows: an event whose boxes do not fit into the output
is left for the next call.

Invariant: the sets of bits are empty between events. Cost: 1 to 2 ns a box beyond what the strategy takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.boxes import Int32s, Int64s, Uint8s
from weir.index.histograms import EqualWidth, height_at
from weir.index.jit import Scalar
from weir.index.joins.codes import Codes, Points, Uint16s, code_of
from weir.index.joins.costs import (
    HOTSPOT,
    JOIN_FIRST,
    N_STRATEGIES,
    SELECT_FIRST,
    SSI,
    SWEEP,
    VANILLA,
    cheapest,
    event_costs,
)
from weir.index.joins.hotspot import Hotspots, stab_hotspots
from weir.index.joins.instructions import cycles, lowest_bit, n_bits, without_lowest_bit
from weir.index.joins.join_first import stab_join_first
from weir.index.joins.lean import lean
from weir.index.joins.lists import Lists
from weir.index.joins.planes import Plane
from weir.index.joins.select_first import stab_select_first
from weir.index.joins.stabbing_sets import StabbingSets, stab_stabbing_sets
from weir.index.joins.sweep import stab_sweep
from weir.index.joins.vanilla import stab_vanilla

Floats = npt.NDArray[np.float64]
Uint64s = npt.NDArray[np.uint64]

_CODED_MAX = 256  # partners of a run that is coded so that boxes can be looked up in it
_FEW_MAX = 8  # boxes of an event that are sorted by insertion
_DENSE = 3  # boxes a word of the set from which on all its words are read
_AT_ONCE = 8  # boxes that are written for a word of the set without a branch
_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)


OUTPUT_SLACK = _AT_ONCE


class Structures(NamedTuple):
    """Everything that an index over one plane consists of; strategies that were not built are empty."""

    plane: Plane
    codes: Codes
    lists: Lists  # of sweep, join-first and select-first
    sets: StabbingSets  # of all groups; of hotspots only if ssi was not built
    hotspots: Hotspots
    selected: EqualWidth  # a-intervals of all boxes


class Events(NamedTuple):
    """A batch."""

    a: Int64s  # int64[e]
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]: partners of event i are the places begin[i] .. end[i]
    values: Int64s  # int64[m]: ascending within a run


class Router(NamedTuple):
    """How the strategy of an event is chosen."""

    strategy: int  # the strategy of all events, or −1
    allowed: int  # bit s is set if strategy s was built
    prepared: Floats  # float64[.]: what is the same for all events (weir.index.joins.costs)


class Scratch(NamedTuple):
    """Buffers of a search."""

    found: Int32s  # int32[2n + 1]: boxes of one event as a strategy leaves them
    doubtful: Int32s  # int32[n + 1]: boxes whose codes do not decide
    codes: Uint16s  # uint16[m]: codes of partners plus one, 0 for those that no event met yet
    bits: Uint64s  # uint64[n / 64]: set of boxes
    bit_words: Uint64s  # uint64[n / 4096]: set of the words of `bits` that are not 0
    estimates: Floats  # float64[6]


def make_scratch(n_boxes: int, m_rows: int) -> Scratch:
    words = n_boxes // 64 + 1
    return Scratch(
        np.empty(2 * n_boxes + 1, dtype=np.int32),
        np.empty(n_boxes + 1, dtype=np.int32),
        np.zeros(m_rows, dtype=np.uint16),  # pages that nothing is written to cost nothing
        np.zeros(words, dtype=np.uint64),
        np.zeros(words // 64 + 1, dtype=np.uint64),
        np.zeros(N_STRATEGIES, dtype=np.float64),
    )


@lean
def write_affected(
    built: Structures,
    events: Events,
    router: Router,
    scratch: Scratch,
    muted: Uint8s,
    any_muted: Scalar,
    event: Scalar,
    output: Int32s,
    used: Scalar,
    per_event: Int64s,
    choices: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the boxes of the events from `event` on until one does not fit; returns that event and what is used.

    An event whose boxes are all boxes fits into an output of OUTPUT_SLACK more.
    """
    while event < len(events.a):
        begin, end = events.begin[event], events.end[event]
        if begin == end:
            per_event[event] = 0
            event += 1
            continue
        strategy = _choose(built, events, router, scratch, event)
        n = _stab(built, strategy, events.a[event], begin, end, events.values, scratch)
        if any_muted:
            n = drop_muted(scratch.found, n, muted)
        if used + n + _AT_ONCE > len(output):
            return event, used
        used = write_sorted(scratch, n, output, used)
        per_event[event] = n
        choices[strategy] += 1
        event += 1
    return event, used


@lean
def count_affected(
    built: Structures,
    events: Events,
    router: Router,
    scratch: Scratch,
    muted: Uint8s,
    counts: Int64s,
    choices: Int64s,
) -> None:
    """Add all events to the counts of the boxes that they affect."""
    for event in range(len(events.a)):
        begin, end = events.begin[event], events.end[event]
        if begin == end:
            continue
        strategy = _choose(built, events, router, scratch, event)
        n = _stab(built, strategy, events.a[event], begin, end, events.values, scratch)
        for i in range(n):
            box = scratch.found[i]
            counts[box] += 1 - muted[box]
        choices[strategy] += 1


@lean
def count_cycles(built: Structures, events: Events, strategy: Scalar, scratch: Scratch, spent: Int64s) -> None:
    """Cycles that one strategy spends on each event, a run's codes included where the strategy needs them."""
    for event in range(len(events.a)):
        begin, end = events.begin[event], events.end[event]
        spent[event] = 0
        if begin == end:
            continue
        started = cycles()
        n = _stab(built, strategy, events.a[event], begin, end, events.values, scratch)
        spent[event] = cycles() - started + (0 if n >= 0 else 1)


@lean
def estimate_events(built: Structures, events: Events, router: Router, scratch: Scratch, out: Floats) -> None:
    """out[event, strategy] = what the router thinks it costs, ns."""
    for event in range(len(events.a)):
        _estimate(built, events, router, scratch, event)
        for strategy in range(N_STRATEGIES):
            out[event, strategy] = scratch.estimates[strategy]


@lean
def _estimate(built: Structures, events: Events, router: Router, scratch: Scratch, event: Scalar) -> None:
    a = events.a[event]
    n_selected = height_at(built.selected.span, built.selected.scale, built.selected.heights, a)
    scattered = built.hotspots.selected
    n_scattered = height_at(scattered.span, scattered.scale, scattered.heights, a)
    m_run = events.end[event] - events.begin[event]
    event_costs(router.prepared, m_run, n_selected, n_scattered, scratch.estimates)


@lean
def _choose(built: Structures, events: Events, router: Router, scratch: Scratch, event: Scalar) -> Scalar:
    """The number of the event's strategy."""
    if router.strategy >= 0:
        return router.strategy
    _estimate(built, events, router, scratch, event)
    return cheapest(scratch.estimates, router.allowed)


@lean
def _code_run(points: Points, strategy: Scalar, begin: Scalar, end: Scalar, values: Int64s, codes: Uint16s) -> Scalar:
    """Whether the event's run is coded, and if not, code it if its strategy wants that."""
    if strategy in (VANILLA, SSI) or (end - begin > _CODED_MAX and strategy in (SELECT_FIRST, HOTSPOT)):
        return False
    for i in range(np.uint64(begin), np.uint64(end)):
        if codes[i] == 0:
            codes[i] = code_of(points, values[i]) + 1
    return True


@lean
def _stab(
    built: Structures, strategy: Scalar, a: Scalar, begin: Scalar, end: Scalar, values: Int64s, scratch: Scratch
) -> Scalar:
    """The event's boxes by one strategy into scratch.found; returns how many they are."""
    plane, points = built.plane, built.codes.c
    codes, doubtful, found = scratch.codes, scratch.doubtful, scratch.found
    if strategy == VANILLA:
        return stab_vanilla(plane, a, begin, end, values, found, 0)
    doubt = built.codes.doubt[0]
    a_code = code_of(built.codes.a, a)
    coded = _code_run(points, strategy, begin, end, values, codes)
    if strategy == JOIN_FIRST:
        return stab_join_first(
            built.lists, plane, doubt, a, a_code, begin, end, values, codes, scratch.bits, doubtful, found, 0
        )
    if strategy == SELECT_FIRST:
        none = np.int64(0)  # of the type that hotspots pass, so that it is compiled once
        return stab_select_first(built.lists, plane, doubt, a, a_code, begin, end, values, codes, coded, found, none)
    if strategy == SSI:
        sets = built.sets
        return stab_stabbing_sets(
            sets, sets.numbers, plane, points, doubt, a, a_code, begin, end, values, doubtful, found, 0
        )
    if strategy == HOTSPOT:
        hotspots, sets = built.hotspots, built.sets
        return stab_hotspots(
            hotspots, sets, plane, points, doubt, a, a_code, begin, end, values, codes, coded, doubtful, found, 0
        )
    assert strategy == SWEEP
    return stab_sweep(built.lists, plane, doubt, a, a_code, begin, end, values, codes, doubtful, found, 0)


@lean
def drop_muted(found: Int32s, n: Scalar, muted: Uint8s) -> Scalar:
    kept = 0
    for i in range(n):
        box = found[i]
        found[kept] = box
        kept += 0 if muted[box] else 1
    return kept


@lean
def write_sorted(scratch: Scratch, n: Scalar, output: Int32s, used: Scalar) -> Scalar:
    """Write the n boxes found to `output` in ascending order; returns how much is used then."""
    if n > _FEW_MAX:
        return _write_many(scratch, n, output, used)
    for i in range(n):
        box = scratch.found[i]
        place = used + i
        while place > used and output[place - 1] > box:
            output[place] = output[place - 1]
            place -= 1
        output[place] = box
    return used + n


@lean
def _write_many(scratch: Scratch, n: Scalar, output: Int32s, used: Scalar) -> Scalar:
    """The same for many boxes, through a set of bits."""
    found, bits, bit_words = scratch.found, scratch.bits, scratch.bit_words
    if n > _DENSE * len(bits):
        for i in range(np.uint64(n)):
            box = np.uint64(found[i])
            bits[box >> _WORD] |= _ONE << (box & _BIT)
        return _write_all_words(bits, output, used)
    for i in range(np.uint64(n)):
        box = np.uint64(found[i])
        word = box >> _WORD
        bits[word] |= _ONE << (box & _BIT)
        bit_words[word >> _WORD] |= _ONE << (word & _BIT)
    at = np.uint64(used)
    for group in range(np.uint64(len(bit_words))):
        of_group = bit_words[group]
        bit_words[group] = 0
        while of_group:
            word = (group << _WORD) + np.uint64(lowest_bit(of_group))
            of_group = without_lowest_bit(of_group)
            of_word = bits[word]
            bits[word] = 0
            while of_word:
                output[at] = np.int64(word << _WORD) + lowest_bit(of_word)
                of_word = without_lowest_bit(of_word)
                at += _ONE
    return np.int64(at)


@lean
def _write_all_words(bits: Uint64s, output: Int32s, used: Scalar) -> Scalar:
    """Write the boxes of a set with several boxes a word, and empty it.

    _AT_ONCE places are written for every word, whatever it holds, and the next word's go over those that are too many:
    a loop over the bits of a word would mispredict its end for most words.
    """
    at = np.uint64(used)
    for word in range(np.uint64(len(bits))):
        of_word = bits[word]
        bits[word] = 0
        number = np.int64(word << _WORD)
        end = at + np.uint64(n_bits(of_word))
        for i in range(_AT_ONCE):
            output[at + np.uint64(i)] = number + lowest_bit(of_word)
            of_word = without_lowest_bit(of_word)
        at += np.uint64(_AT_ONCE)
        while of_word:
            output[at] = number + lowest_bit(of_word)
            of_word = without_lowest_bit(of_word)
            at += _ONE
        at = end
    return np.int64(at)
