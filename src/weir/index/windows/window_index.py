"""The window-join index: boxes over an attribute of the event, one of its partners and their age, searched four ways.

`WindowIndex.build` makes everything, for boxes that stand alone. `WindowIndex.sharing` takes codes and lists of a
select-join index that is there anyway and adds the ages and the stabbing points; it has no hotspots, whose lists are a
copy of the boxes. What the strategies are and cost is said in `weir.index.windows.window_strategies`, how the router
compares them in `window_costs`. A meeting must say the times of its events and of its partners.

`keeping` is the same index for searches that meet the same partners: it keeps their skylines from one to the next.
Otherwise they are made for a search and live as long as it.

Size beside the lists: 16 bytes a box, 16 a stabbing point; the hotspots' and scattered lists if they are built.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from weir.index.box_tables import Int32s, Int64s, frozen, read_only
from weir.index.flat_arrays import flat
from weir.index.histograms import EqualWidth
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.codes import build_codes, encode_plane, n_codes
from weir.index.meeting.collector import CollectedIndex
from weir.index.meeting.index_contract import AUTO, Listed, Meeting, Tuning
from weir.index.meeting.lists import build_lists
from weir.index.meeting.planes import Plane, check
from weir.index.stabbing import canonical, is_hot
from weir.index.windows.newest import build_newest
from weir.index.windows.skylines import make_points, make_skylines
from weir.index.windows.window_costs import HOTSPOT, describe
from weir.index.windows.window_layout import Ages, KeptPartners, WindowBoxes, WindowSearch
from weir.index.windows.window_strategies import STRATEGIES, walked_in_vain

_BUCKETS = 256
_FAR = 1 << 62  # no two times are further apart
_ALL = (1 << len(STRATEGIES)) - 1


class WindowIndex(CollectedIndex):
    """All strategies over one set of window joins."""

    kind = "window"
    rows = STRATEGIES

    def __init__(self, boxes: WindowBoxes, allowed: int, kept: KeptPartners | None = None) -> None:
        self._boxes = frozen(boxes)
        super().__init__(self._boxes.plane, allowed)
        self._shape = describe(self._boxes)
        self.kept = kept

    @classmethod
    def build(cls, plane: Plane, ages: Ages, *, alpha: float = 0.001) -> Self:
        """An index with all strategies; a stabbing group of at least alpha · n boxes is a hotspot."""
        plane = check(plane)
        codes = build_codes(plane)
        coded = encode_plane(codes, plane)
        sizes = n_codes(codes.a), n_codes(codes.c)
        partition = canonical(plane.c_lo, plane.c_hi)
        hot = is_hot(partition, alpha)
        in_hot = hot[partition.group_of_interval]
        every, scattered = np.arange(len(plane.a_lo)), np.flatnonzero(~in_hot)
        boxes = WindowBoxes(
            plane,
            _checked(ages, len(plane.a_lo)),
            _extremes(ages),
            codes,
            build_lists(coded, every, *sizes),
            EqualWidth.of_intervals(plane.a_lo, plane.a_hi, _BUCKETS),
            make_points(partition.points),
            build_lists(coded, np.flatnonzero(in_hot), *sizes),
            make_points(partition.points[hot]),
            build_lists(coded, scattered, *sizes),
            EqualWidth.of_intervals(plane.a_lo[scattered], plane.a_hi[scattered], _BUCKETS),
        )
        return cls(boxes, _ALL)

    @classmethod
    def sharing(cls, listed: Listed, points: Int64s, ages: Ages) -> Self:
        """The same without hotspots, over the lists of another index; `points` stab all c-intervals."""
        nothing = np.empty(0, dtype=np.int64)
        none = build_lists(encode_plane(listed.codes, Plane(nothing, nothing, nothing, nothing)), nothing, 1, 1)
        no_points, unselected = make_points(nothing), EqualWidth.of_intervals(nothing, nothing, 1)
        ages = _checked(ages, len(listed.plane.a_lo))
        of_hotspots = none, no_points, none, unselected
        plane, codes, lists, selected = listed
        boxes = WindowBoxes(plane, ages, _extremes(ages), codes, lists, selected, make_points(points), *of_hotspots)
        return cls(boxes, _ALL - (1 << HOTSPOT))

    @property
    def ages(self) -> Ages:
        return self._boxes.ages

    @property
    def points(self) -> Int64s:
        """The stabbing points."""
        return self._boxes.points.keys

    def arrays(self) -> dict[str, np.ndarray]:
        return flat(self._boxes)

    def keeping(self, place_times: Int64s) -> WindowIndex:
        """The same for searches that all meet the partners with these times."""
        m = len(place_times)
        recent, skylines, hot = (make_skylines(of) for of in (m, m, m if self._allowed >> HOTSPOT & 1 else 0))
        kept = KeptPartners(build_newest(place_times), recent, skylines, hot, np.zeros(1, dtype=np.int64))
        return WindowIndex(self._boxes, self._allowed, kept)

    def walked_in_vain(self, meeting: Meeting, event_of: Int64s, boxes: Int32s) -> tuple[int, int]:
        """How many of some boxes of events have no partner of their age, and how many they have by c alone."""
        search, events, _ = self._prepared(meeting, AUTO)
        found: tuple[int, int] = walked_in_vain(search, events, read_only(event_of), read_only(boxes))
        return found

    def _searched(self, meeting: Meeting, tuning: Tuning) -> WindowSearch:
        times, values = meeting.events.times, meeting.run.values
        kept = self.kept or self.keeping(meeting.partners.times).kept
        assert kept is not None
        assert len(times) == len(meeting.a), "a time for every event"
        assert len(values) == len(kept.newest.times), "a value and a time for every place"
        # One floor for the batch: its events may be in any order, and lists are not cut and filled again between them.
        if len(times):
            kept.floor[0] = max(min(int(times.min()) - int(self._boxes.extremes[2]), _FAR), -_FAR)
        return WindowSearch(self._boxes, values, times, kept, self._shape)


def _checked(ages: Ages, count: int) -> Ages:
    made = Ages(*(np.ascontiguousarray(array, dtype=np.int64) for array in ages))
    assert len(made.least) == len(made.most) == count, "a least and a greatest age for every box"
    return made


def _extremes(ages: Ages) -> Int64s:
    """Of no boxes, ages that no partner has."""
    if not len(ages.least):
        return np.array([KEY_MAX, KEY_MAX, KEY_MIN], dtype=np.int64)
    return np.array([ages.least.min(), ages.least.max(), ages.most.max()], dtype=np.int64)
