"""The strategies of window joins: one row each, which find boxes by the event's own attribute, by c and by age.

A box is [a_lo, a_hi] × [c_lo, c_hi] × [least, most]: what an event must have, what a partner must have, and how much
older than the event the partner may be (SSI, 3.3; `least` is negative where partners may be younger). It is affected if
one partner has both c and age. The strategies give the same answer:

    join-first     every partner within the longest window makes a point (a, c, age) that stabs the lists of boxes
    select-first   every box that contains a looks its stretch of partners up: whether one there has its age
    ssi            only partners on skylines make points; all of them, if skylines would leave out next to none
    hotspot        ssi over the boxes of large stabbing groups and their points alone, select-first for the rest

Skylines tell nothing of partners that are too young for a box. Where the run has one that might be, ssi and hotspot
take all partners that are not too old, as join-first does, which is exact for any event.

Cost of an event as in theorem 4 of the paper: join-first m_b probes, select-first n' lookups of O(log m'), ssi as many
probes as partners are on skylines, and O(m') more when it is the first to ask for its run. Lists, codes and cells are
those of select joins (`weir.index.meeting.lists`): a probe is some 20 ns, a box within it 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.meeting.codes import FLIP, code_of
from weir.index.meeting.collector import Events, StrategyRow, collects
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.lists import LOW_FIELDS, LOW_PASSES, Lists, list_of, point_of, stab_list
from weir.index.meeting.partner_runs import stretch
from weir.index.meeting.scratch import Scratch
from weir.index.windows.newest import has_age
from weir.index.windows.skylines import COUNT, IS_THIN, LATEST, Skylines, StabbingPoints, Stretch, ask
from weir.index.windows.window_costs import estimate_event
from weir.index.windows.window_layout import SEGMENT_MIN, Ages, WindowSearch, list_recent

_WORD, _BIT = np.uint64(6), np.uint64(63)


@thin
def _join_first(search: WindowSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    list_recent(search, events, event)
    return _probe(search, search.boxes.lists, search.kept.recent, events, scratch, event)


@thin
def _select_first(search: WindowSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    return _look_up(search, search.boxes.lists, events, scratch, event, np.int64(0))


@thin
def _ssi(search: WindowSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    skylines = search.kept.skylines
    if _stands(search, search.boxes.points, skylines, events, event):
        return _probe(search, search.boxes.lists, skylines, events, scratch, event)
    return _join_first(search, events, scratch, event)


@thin
def _hotspot(search: WindowSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    boxes, skylines = search.boxes, search.kept.hot
    if not _stands(search, boxes.hot_points, skylines, events, event):
        list_recent(search, events, event)
        skylines = search.kept.recent
    used = _probe(search, boxes.hot, skylines, events, scratch, event)
    return _look_up(search, boxes.scattered, events, scratch, event, used)


@thin
def _stands(search: WindowSearch, points: StabbingPoints, skylines: Skylines, events: Events, event: Scalar) -> Scalar:
    """Whether the listed partners stand for the event's run: all that are young enough, or none is too young."""
    kept, begin = search.kept, events.begin[event]
    stretch_of = Stretch(search.values, kept.newest.times, begin, events.end[event])
    n_listed = ask(skylines, points, stretch_of, kept.floor[0], np.int64(SEGMENT_MIN))
    if n_listed == 0 or skylines.about[begin, IS_THIN] == 0:
        return True
    return search.times[event] - skylines.about[begin, LATEST] >= search.boxes.extremes[1]


@lean
def _probe(
    search: WindowSearch, lists: Lists, skylines: Skylines, events: Events, scratch: Scratch, event: Scalar
) -> Scalar:
    """The boxes of some lists that contain one of the listed partners."""
    boxes, values, times = search.boxes, search.values, search.kept.newest.times
    codes, items, found, marks = scratch.codes, skylines.items, scratch.found, scratch.bits
    youngest, oldest = boxes.extremes[0], boxes.extremes[2]
    begin, time = events.begin[event], search.times[event]
    point = point_of(boxes.codes, events.a[event], begin, events.end[event], values)
    used = np.int64(0)
    for k in range(len(lists.classes)):
        at = list_of(lists, k, point.a_code)
        if at.first == at.last:
            continue
        for i in range(begin, begin + skylines.about[begin, COUNT]):
            place = items[i]
            age = time - times[place]
            if age > oldest or age < youngest:
                continue
            if codes[place] == 0:
                codes[place] = code_of(boxes.codes.c, values[place]) + 1
            c_code = np.int64(codes[place]) - 1
            stabbed = stab_list(lists, at, boxes.plane, point, values[place], c_code, scratch, used)
            used = _keep(boxes.ages, age, marks, found, used, stabbed)
    for j in range(used):
        marks[found[j] >> 6] = 0
    return used


@lean
def _keep(ages: Ages, age: Scalar, marks: npt.NDArray[np.uint64], out: Int32s, used: Scalar, stabbed: Scalar) -> Scalar:
    """Keep of the boxes out[used .. stabbed] those that the age is within and that are not marked, and mark them."""
    least, most = ages.least, ages.most
    at = np.uint64(used)
    for j in range(np.uint64(used), np.uint64(stabbed)):
        box = out[j]
        number = np.uint64(box)
        within = np.uint64((least[number] <= age) & (age <= most[number]))
        bit = within << (number & _BIT)
        before = marks[number >> _WORD]
        marks[number >> _WORD] = before | bit
        out[at] = box
        at += within & np.uint64((before & bit) == 0)
    return np.int64(at)


@lean
def _look_up(
    search: WindowSearch, lists: Lists, events: Events, scratch: Scratch, event: Scalar, used: Scalar
) -> Scalar:
    """Append the boxes of some lists that contain a and, in their stretch of the run, a partner of their age."""
    plane, ages, newest, out = search.boxes.plane, search.boxes.ages, search.kept.newest, scratch.found
    a, time, begin, end = events.a[event], search.times[event], events.begin[event], events.end[event]
    a_code, doubt = code_of(search.boxes.codes.a, a), search.boxes.codes.doubt[0]
    of_a, words, numbers = (a_code << 16) | (FLIP - a_code) | LOW_PASSES, lists.words, lists.boxes
    kept = np.int64(used)
    for k in range(len(lists.classes)):
        at = list_of(lists, k, a_code)
        chosen = np.uint64(kept)
        for entry in range(np.uint64(at.first), np.uint64(at.last)):
            out[chosen] = numbers[entry]
            chosen += np.uint64(((of_a - (words[entry] & LOW_FIELDS)) & LOW_PASSES) == LOW_PASSES)
        for j in range(kept, np.int64(chosen)):
            box = np.uint64(out[j])
            if doubt > 0 and (a < plane.a_lo[box] or a > plane.a_hi[box]):
                continue
            low, high = stretch(search.values, begin, end, plane.c_lo[box], plane.c_hi[box])
            if low < high and has_age(newest, low, high, time, ages.least[box], ages.most[box]):
                out[kept] = box
                kept += 1
    return kept


@lean
def walked_in_vain(search: WindowSearch, events: Events, event_of: Int64s, boxes: Int32s) -> tuple[Scalar, Scalar]:
    """How many of some boxes of events have no partner of their age, and how many they have by c alone."""
    plane, ages, newest = search.boxes.plane, search.boxes.ages, search.kept.newest
    fruitless = walked = 0
    for i in range(len(boxes)):
        event, box = event_of[i], boxes[i]
        begin, end = events.begin[event], events.end[event]
        low, high = stretch(search.values, begin, end, plane.c_lo[box], plane.c_hi[box])
        if not has_age(newest, low, high, search.times[event], ages.least[box], ages.most[box]):
            fruitless += 1
            walked += high - low
    return fruitless, walked


STRATEGIES = (
    StrategyRow("join-first", (), _join_first),
    StrategyRow("select-first", (), _select_first),
    StrategyRow("ssi", (), _ssi),
    StrategyRow("hotspot", (), _hotspot),
)
NAMES = tuple(row.name for row in STRATEGIES)

collects(WindowSearch, STRATEGIES, estimate_event)
