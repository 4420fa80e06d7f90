"""Skylines: of a run of partners the few that decide which window joins an event affects (SSI, 3.3.2).

Partners of a join key are points (c, time). Going outward from a stabbing point p, a partner is on the skyline of p if
it is newer than all between p and itself. A c-interval around p that holds any partner of a window holds one on a
skyline that is at least as new; so for events that no partner is too young for, skylines may stand for the run.

As in the paper a skyline ends at the next stabbing point: the points cut a run into segments, (p_i, p_i+1], and a
partner is on the right skyline of p_i if it is newer than all before it in its segment, on the left one of p_i+1 if
newer than all behind it. So a partner is on two skylines at most, and membership is two bits of its place. The union of
skylines of all segments a range covers contains those of the whole range: the newest partner of a range is in some
segment, which the range covers from one of its stabbing points up to that partner.

Everything is lazy. A run is looked at when it is first asked for, and then only its partners that are not older than a
floor, the time of the events less the longest window: what is nearer and newer is within any window that the older one
is within, so skylines do not depend on it otherwise. A floor that rises, because time goes on or the longest window
shrinks, drops partners from the list; one that falls makes the run be looked at again. A stabbing point knows the
version of the points at which it, or what is beside it, changed last, which is its stale mark; a run knows the version
it was made for, and only segments beside points that changed since are marked again. Where segments have few partners,
skylines would leave out next to none, and all that are young enough are listed: the list is not `thin` then.

Runs are places of immutable partner segments; they are known by their first place.
Invariant: after `ask`, the items of a run are exactly its places that are not older than the floor and, if it is thin,
on a skyline of the current points; they ascend.
Cost of a run: O(m' + s log τ) when asked first, s segments that are not empty; O(1) while neither points nor floor
change.
Size: 53 bytes a place, of which runs that nobody asks for touch none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Uint8s, read_only
from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.index.searches import galloped

# Columns of `about`: how many places are listed; whether they are on skylines; the version of the points that they are
# for, 0 for none; the oldest time that is listed, and that marks are right for; the newest time of the run.
COUNT, IS_THIN, MADE, FLOOR, MARKED, LATEST = range(6)
_LEFT, _RIGHT = 1, 2  # bits of a mark
SHORT = 4  # lists shorter than so many segments are not thinned
_NEVER: Scalar = np.int64(np.iinfo(np.int64).min)  # no partner is as old
_ALWAYS: Scalar = np.int64(np.iinfo(np.int64).max)  # none is as young


class StabbingPoints(NamedTuple):
    """The stabbing points of a partition, and when each one's surroundings changed last."""

    keys: Int64s  # int64[g]: strictly ascending
    changed: Int64s  # int64[g]: version
    version: Int64s  # int64[1]: the current version, from 1 on


class Skylines(NamedTuple):
    """Skylines of the runs of partners; what is said of a run stands at its first place."""

    marks: Uint8s  # uint8[m]: whether the place is on a left, on a right skyline
    items: Int32s  # int32[m]: from a run's first place on, the listed places
    about: Int64s  # int64[m, 6]: of a run, by the columns below

    def listed(self, begin: int) -> Int32s:
        """The listed places of a run that was asked for."""
        return self.items[begin : begin + int(self.about[begin, COUNT])]


class Stretch(NamedTuple):
    """A run of partners among all places."""

    values: Int64s  # int64[m]: c
    times: Int64s  # int64[m]
    begin: Scalar
    end: Scalar


def make_points(keys: Int64s) -> StabbingPoints:
    """Points of version 1."""
    keys = np.ascontiguousarray(keys, dtype=np.int64)
    assert bool(np.all(keys[1:] > keys[:-1])), "stabbing points ascend"
    return _frozen_points(keys, np.ones(len(keys), dtype=np.int64), 1)


def change_points(points: StabbingPoints, keys: Int64s) -> StabbingPoints:
    """The next version: points that are new, or whose neighbour is gone, are stale."""
    keys = np.ascontiguousarray(keys, dtype=np.int64)
    assert bool(np.all(keys[1:] > keys[:-1])), "stabbing points ascend"
    version = int(points.version[0]) + 1
    before = np.searchsorted(points.keys, keys)
    known = before < len(points.keys)
    known[known] = points.keys[before[known]] == keys[known]
    changed = np.full(len(keys), version, dtype=np.int64)
    changed[known] = points.changed[before[known]]
    gone = np.searchsorted(keys, points.keys[~np.isin(points.keys, keys)])
    changed[gone[gone < len(keys)]] = version
    changed[gone[gone > 0] - 1] = version
    return _frozen_points(keys, changed, version)


def _frozen_points(keys: Int64s, changed: Int64s, version: int) -> StabbingPoints:
    return StabbingPoints(read_only(keys), read_only(changed), read_only(np.array([version], dtype=np.int64)))


def make_skylines(m_places: int) -> Skylines:
    """Skylines of so many places, none made yet; pages that nobody writes to cost nothing."""
    # Zeros that nobody reads or writes take no memory; a run's numbers are in one line of the cache.
    return Skylines(
        np.empty(m_places, dtype=np.uint8),
        np.empty(m_places, dtype=np.int32),
        np.zeros((m_places, 6), dtype=np.int64),
    )


@lean
def ask(skylines: Skylines, points: StabbingPoints, of: Stretch, floor: Scalar, segment_min: Scalar) -> Scalar:
    """How many places of a run are listed for this floor; makes what is not made yet, or stale.

    The list is thin if there are at least `segment_min` partners a segment on average, and not very few in all.
    """
    values, times, begin, end = of
    if begin == end:
        return 0
    items, about, version = skylines.items, skylines.about, points.version[0]
    if about[begin, MADE] == version and about[begin, FLOOR] <= floor:
        listed = about[begin, COUNT]
        if about[begin, FLOOR] < floor:
            listed = _drop_old(items, times, begin, listed, floor)
    else:
        listed, about[begin, LATEST] = _list_recent(items, times, begin, end, floor)
        is_thin = False
        if listed > 0 and listed >= SHORT * segment_min:
            n_segments = segments_of(points, values[items[begin]], values[items[begin + listed - 1]])
            is_thin = n_segments * segment_min <= listed
        if is_thin:
            all_stale = about[begin, MADE] == 0 or about[begin, MARKED] > floor
            listed = _thin(skylines, points, of, listed, all_stale)
        about[begin, MARKED] = floor if is_thin else _ALWAYS
        about[begin, IS_THIN], about[begin, MADE] = is_thin, version
    about[begin, COUNT], about[begin, FLOOR] = listed, floor
    return listed


@lean
def segments_of(points: StabbingPoints, least: Scalar, greatest: Scalar) -> Scalar:
    """Into how many segments the points cut least .. greatest."""
    keys = points.keys
    first = first_not_below(keys, 0, len(keys), least)
    return first_not_below(keys, first, len(keys), greatest) - first + 1


@lean
def _list_recent(items: Int32s, times: Int64s, begin: Scalar, end: Scalar, floor: Scalar) -> tuple[Scalar, Scalar]:
    """List the places that are not older than the floor; returns how many they are, and the newest time."""
    at, latest = np.uint64(begin), _NEVER
    for place in range(np.uint64(begin), np.uint64(end)):
        items[at] = place
        at += np.uint64(times[place] >= floor)
        latest = max(latest, times[place])
    return np.int64(at) - begin, latest


@lean
def _drop_old(items: Int32s, times: Int64s, begin: Scalar, listed: Scalar, floor: Scalar) -> Scalar:
    """Keep of the places listed those that are not older than the floor."""
    kept = np.int64(begin)
    for i in range(begin, begin + listed):
        items[kept] = items[i]
        kept += times[items[i]] >= floor
    return kept - begin


@lean
def _thin(skylines: Skylines, points: StabbingPoints, of: Stretch, listed: Scalar, all_stale: Scalar) -> Scalar:
    """Keep of the places listed those on skylines, whose marks are made again as far as they are stale."""
    values, times, begin = of.values, of.times, of.begin
    marks, items, keys, changed = skylines.marks, skylines.items, points.keys, points.changed
    made, n_points, end = skylines.about[begin, MADE], len(keys), begin + listed
    first, kept, g = begin, begin, np.int64(0)
    while first < end:
        g = first_not_below(keys, g, n_points, values[items[first]])  # the point that the segment ends at
        is_stale = all_stale or n_points == 0
        is_stale = is_stale or (g > 0 and changed[g - 1] > made) or (g < n_points and changed[g] > made)
        last, latest = first, _NEVER
        while last < end and (g == n_points or values[items[last]] <= keys[g]):
            place = items[last]
            if is_stale:
                marks[place] = _RIGHT if g > 0 and times[place] > latest else 0
                latest = max(latest, times[place])
            last += 1
        if is_stale and g < n_points:
            latest = _NEVER
            for k in range(last - first):
                place = items[last - 1 - k]
                if times[place] > latest:
                    marks[place] |= np.uint8(_LEFT)
                    latest = times[place]
        for i in range(first, last):
            place = items[i]
            items[kept] = place
            kept += np.int64(marks[place] != 0)
        first = last
    return kept - begin


@lean
def first_not_below(keys: Int64s, low: Scalar, end: Scalar, key: Scalar) -> Scalar:
    """The first of keys[low .. end] that is not below `key`: galloping, as it is near."""
    return galloped(keys, low, end, key, False)
