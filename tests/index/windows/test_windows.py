"""All strategies of window joins find what the plain twin does, whatever the boxes, windows, times and partners.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

from tests.index.windows.test_skylines import draw_keys
from tests.marks import few_are_quick
from tests.oracle import naive_windows as naive
from weir.index.box_tables import Matches, OverBudget
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting import codes
from weir.index.meeting.index_contract import Listed, Meeting, Tuning, timed_meeting
from weir.index.meeting.planes import Plane
from weir.index.windows.window_costs import HOTSPOT, JOIN_FIRST, SELECT_FIRST, SSI
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_layout import Ages
from weir.index.windows.window_strategies import NAMES as STRATEGIES

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(120 * SCALE), 8))
WAYS = ("auto", *STRATEGIES)
ANY = 1 << 40

everywhere = pytest.mark.parametrize("strategy", WAYS)


class Case(NamedTuple):
    """Boxes, events with their runs, and muted boxes."""

    plane: Plane
    ages: Ages
    a: np.ndarray
    times: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    values: np.ndarray
    place_times: np.ndarray
    muted: np.ndarray

    @property
    def meeting(self) -> Meeting:
        return timed_meeting(self.a, self.times, self.begin, self.end, self.values, self.place_times)

    def expected(self) -> list[list[int]]:
        bounds = [array.tolist() for array in (*self.plane, *self.ages)]
        boxes = [((p, q), (r, s), (x, y)) for p, q, r, s, x, y in zip(*bounds, strict=True)]
        found = []
        for a, time, begin, end in zip(self.a, self.times, self.begin, self.end, strict=True):
            run = list(zip(self.values[begin:end].tolist(), self.place_times[begin:end].tolist(), strict=True))
            affected = naive.affected(boxes, int(a), int(time), run)
            found.append([box for box in affected if not self.muted[box]])
        return found


def draw_intervals(rng: np.random.Generator, n: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    middle = draw_keys(rng, n, kind).astype(object)
    half = rng.integers(0, rng.choice([2, 300, 2_000]), n).astype(object)
    lo, hi = (np.clip(ends, KEY_MIN, KEY_MAX).astype(np.int64) for ends in (middle - half, middle + half))
    odds = rng.choice([0.0, 0.1])
    free = rng.random(n) < odds
    lo[free], hi[free] = NULL_KEY, KEY_MAX
    return lo, hi


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 20, 200, 200, 200]) * min(2 * SCALE, 1))
    a_kind, c_kind = rng.choice([0, 0, 0, 1, 1, 2, 3], 2).tolist()
    plane = Plane(*draw_intervals(rng, n, a_kind), *draw_intervals(rng, n, c_kind))
    span = int(rng.choice([5, 1_000, 10**9]))
    window = (rng.random(n) ** rng.choice([1, 6]) * 2 * span).astype(np.int64)
    kind = rng.choice(["both", "older", "lag", "any", "open"])
    least = {"both": -window, "older": 0 * window, "lag": window // 3, "any": -rng.integers(0, span, n)}.get(kind)
    ages = Ages(np.full(n, KEY_MIN) if least is None else least, window)
    ages.most[rng.random(n) < rng.choice([0.0, 0.05])] = KEY_MAX
    sizes = rng.choice([0, 1, 3, 30, 300, 300], rng.integers(1, 5))
    values = [np.sort(draw_keys(rng, size, c_kind)) for size in sizes]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    n_events = int(rng.choice([1, 25, 25]))
    which = rng.integers(0, len(sizes), n_events)
    # In time order, out of order, or all long ago.
    first = rng.choice([span, span, 0, 3 * span])
    return Case(
        plane,
        ages,
        draw_keys(rng, n_events, a_kind),
        first + rng.integers(0, span, n_events),
        offsets[which],
        offsets[which + 1],
        np.concatenate(values).astype(np.int64),
        rng.integers(0, span + 1, int(offsets[-1])),
        (rng.random(n) < rng.choice([0.0, 0.2])).astype(np.uint8),
    )


def lists_of(matches: Matches | OverBudget) -> list[list[int]]:
    assert isinstance(matches, Matches)
    return [part.tolist() for part in np.split(matches.slots, matches.offsets[1:-1])]


@everywhere
@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=12))
def test_boxes_are_those_of_the_twin(strategy: str, seed: int) -> None:
    case = draw(seed)
    expected = case.expected()
    index = WindowIndex.build(case.plane, case.ages, alpha=0.05)
    found = index.search(case.meeting, case.muted, ANY, Tuning(strategy))
    assert lists_of(found.matches) == expected, f"seed {seed}"
    assert found.choices.sum() == np.count_nonzero(case.begin < case.end)
    total = sum(map(len, expected))
    if total:
        over = index.search(case.meeting, case.muted, total - 1, Tuning(strategy)).matches
        assert isinstance(over, OverBudget)
        counts = np.bincount([box for of in expected for box in of], minlength=len(case.muted))
        assert over.counts.tolist() == counts.tolist(), f"seed {seed}"


def test_the_cases_have_something_to_find() -> None:
    found = [sum(map(len, draw(seed).expected())) for seed in SEEDS]
    assert sum(n > 0 for n in found) > len(found) / 3, f"{sorted(found)}"


@everywhere
def test_bounds_in_doubt_are_decided_by_keys(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "POINTS_MAX", 6)
    for seed in list(SEEDS)[:20]:
        case = draw(seed)
        index = WindowIndex.build(case.plane, case.ages, alpha=0.05)
        found = index.search(case.meeting, case.muted, ANY, Tuning(strategy))
        assert lists_of(found.matches) == case.expected(), f"seed {seed}"


@pytest.mark.parametrize("strategy", few_are_quick(WAYS, quick=1))
def test_skylines_that_stand_serve_later_batches(strategy: str) -> None:
    """Time goes on, and goes back: floors rise and fall over the same runs."""
    for seed in list(SEEDS)[:25]:
        case = draw(seed)
        index = WindowIndex.build(case.plane, case.ages, alpha=0.05).keeping(case.place_times)
        span = int(case.place_times.max(initial=0))
        for later in (0, span // 4, span, -span // 2, 0):
            moved = case._replace(times=case.times + later)
            found = index.search(moved.meeting, case.muted, ANY, Tuning(strategy))
            assert lists_of(found.matches) == moved.expected(), f"seed {seed}, later {later}"


@pytest.mark.parametrize("strategy", ["auto", "join-first", "select-first", "ssi"])
def test_over_the_lists_of_another_index(strategy: str) -> None:
    for seed in list(SEEDS)[:25]:
        case = draw(seed)
        built = WindowIndex.build(case.plane, case.ages)._boxes
        listed = Listed(built.plane, built.codes, built.lists, built.selected)
        index = WindowIndex.sharing(listed, built.points.keys, Ages(*case.ages))
        assert index.strategies == STRATEGIES[:3]
        found = index.search(case.meeting, case.muted, ANY, Tuning(strategy))
        assert lists_of(found.matches) == case.expected(), f"seed {seed}"


def test_a_strategy_that_is_not_there_is_refused() -> None:
    case = draw(3)
    built = WindowIndex.build(case.plane, case.ages)._boxes
    listed = Listed(built.plane, built.codes, built.lists, built.selected)
    index = WindowIndex.sharing(listed, built.points.keys, case.ages)
    for name, reason in (("hotspot", "was not built"), ("luck", "is none of")):
        with pytest.raises(AssertionError, match=reason):
            index.search(case.meeting, case.muted, ANY, Tuning(name))


def test_events_out_of_time_order_take_the_exact_path() -> None:
    """A partner that is too young for one box hides, on a skyline, an older one that is not."""
    plane = Plane(*(np.array(bounds, dtype=np.int64) for bounds in ([0], [9], [0], [50])))
    ages = Ages(np.array([0]), np.array([10]))
    values = np.arange(40, dtype=np.int64)
    place_times = np.full(40, 1_000)
    place_times[0] = 95  # far from the stabbing point, and older than all others
    zero = np.zeros(1, dtype=np.int64)
    index = WindowIndex.build(plane, ages)
    for time, affected in ((100, [[0]]), (1_005, [[0]]), (90, [[]]), (2_000, [[]])):
        for strategy in WAYS:
            at = timed_meeting(zero, np.array([time]), zero, zero + 40, values, place_times)
            found = index.search(at, np.zeros(1, np.uint8), ANY, Tuning(strategy))
            assert lists_of(found.matches) == affected, f"{strategy} at {time}"


def test_numbers_are_places_of_the_rows() -> None:
    names = {JOIN_FIRST: "join-first", SELECT_FIRST: "select-first", SSI: "ssi", HOTSPOT: "hotspot"}
    assert tuple(names[s] for s in range(len(names))) == STRATEGIES
