"""The band-join index against a plain twin: every strategy, whole numbers and doubles, one run and many.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from tests.marks import few_are_quick
from weir.index.bands.band_index import BandIndex
from weir.index.bands.band_strategies import NAMES as STRATEGIES
from weir.index.box_tables import Matches, OverBudget
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_doubles
from weir.index.meeting.collector import Events
from weir.index.meeting.index_contract import Tuning, band_meeting
from weir.index.meeting.partner_runs import climb, make_run
from weir.index.meeting.planes import Plane

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -1e300, 5e-324]


def key(number: float) -> int:
    return int(encode_doubles(np.array([number]))[0])


class World:
    """Boxes, partners in runs by key, and events, with the answer found by comparing everything with everything."""

    def __init__(self, seed: int, *, is_double: bool, n_boxes: int, n_rows: int, n_keys: int, placement: str) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.is_double = rng, is_double
        span = 50.0 if placement == "dense" else 4_000.0
        centre = (
            rng.choice([-20.0, 0.0, 30.0], n_boxes) if placement == "clustered" else rng.uniform(-span, span, n_boxes)
        )
        width = np.abs(rng.normal(6, 4, n_boxes)) * np.where(rng.random(n_boxes) < 0.05, 100, 1)
        lo, hi = centre - width / 2, centre + width / 2
        if is_double:
            odd = rng.random(n_boxes) < 0.03
            hi[odd] = rng.choice([math.nan, math.inf, 1e300], odd.sum())
            self.lo, self.hi = encode_doubles(lo), encode_doubles(hi)
        else:
            self.lo, self.hi = lo.astype(np.int64), hi.astype(np.int64)
        open_lo, open_hi = rng.random(n_boxes) < 0.06, rng.random(n_boxes) < 0.06
        self.lo[open_lo], self.hi[open_hi] = KEY_MIN, KEY_MAX
        selected = rng.random(n_boxes) < 0.5
        a_lo = rng.integers(0, 80, n_boxes)
        self.a_lo = np.where(selected, a_lo, NULL_KEY)
        self.a_hi = np.where(selected, a_lo + rng.integers(0, 40, n_boxes), KEY_MAX)
        numbers = rng.uniform(0, span, n_rows).round(1)
        if is_double and n_rows:
            numbers[rng.integers(0, n_rows, n_rows // 10)] = rng.choice(SPECIAL, n_rows // 10)
        self.keys = np.sort(rng.integers(0, n_keys, n_rows))
        self.numbers = numbers if is_double else numbers.astype(np.int64)
        order = np.lexsort((encode_doubles(numbers) if is_double else self.numbers, self.keys))
        self.numbers = self.numbers[order]
        self.n_keys = n_keys

    def events(self, count: int) -> tuple[Events, np.ndarray, list[float]]:
        rng = self.rng
        b = rng.uniform(-10, 60, count).round(1)
        if self.is_double:
            b[rng.random(count) < 0.15] = rng.choice([math.nan, math.inf, 0.0, 1e300])
        offset = b.view(np.int64) if self.is_double else b.astype(np.int64)
        of_key = rng.integers(0, self.n_keys + 1, count)
        begin, end = np.searchsorted(self.keys, of_key), np.searchsorted(self.keys, of_key, side="right")
        a = np.where(rng.random(count) < 0.1, NULL_KEY, rng.integers(-5, 120, count))
        return Events(a, begin, end), offset, (b if self.is_double else b.astype(np.int64)).tolist()

    def expected(self, events: Events, b: list[float]) -> list[list[int]]:
        found = []
        for e in range(len(events.a)):
            stretch = self.numbers[events.begin[e] : events.end[e]].tolist()
            with np.errstate(all="ignore"):
                d = np.array([key(u - b[e]) if self.is_double else u - b[e] for u in stretch], np.int64)
            inside = (self.lo[:, None] <= d) & (d <= self.hi[:, None])
            a = events.a[e]
            found.append(np.flatnonzero(inside.any(axis=1) & (self.a_lo <= a) & (a <= self.a_hi)).tolist())
        return found


@pytest.mark.parametrize("placement", few_are_quick(["dense", "clustered", "scattered"], quick=1))
@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("n_keys", [1, 7])
def test_all_strategies_find_what_comparing_everything_finds(placement: str, is_double: bool, n_keys: int) -> None:
    n_boxes, n_events = max(int(400 * SCALE), 60), max(int(60 * SCALE), 12)
    for seed in range(4):
        n_rows = (0, 3, 300, max(int(700 * SCALE), 256))[seed]
        world = World(seed, is_double=is_double, n_boxes=n_boxes, n_rows=n_rows, n_keys=n_keys, placement=placement)
        plane = Plane(world.a_lo, world.a_hi, world.lo, world.hi)
        index = BandIndex.from_arrays(BandIndex.build(plane, is_double=is_double, alpha=0.02).arrays())
        events, offset, b = world.events(n_events)
        expected = world.expected(events, b)
        raw = world.numbers.view(np.int64)
        muted = np.zeros(n_boxes, np.uint8)
        for is_one in (True, False) if n_keys == 1 else (False,):
            run = make_run(raw, is_double, is_one=is_one)
            assert (len(run.cells) > 0) == (is_one and n_rows >= 256)
            meeting = band_meeting(events.a, offset, events.begin, events.end, run)
            for strategy in ("auto", *STRATEGIES):
                found = index.search(meeting, muted, 10**9, Tuning(strategy))
                assert isinstance(found.matches, Matches)
                assert listed(found.matches) == expected, f"{strategy}, seed {seed}, one run: {is_one}"
                assert found.choices.sum() == np.count_nonzero(events.end > events.begin)
        total = sum(map(len, expected))
        muted = (world.rng.random(n_boxes) < 0.3).astype(np.uint8)
        run = make_run(raw, is_double, is_one=n_keys == 1)
        meeting = band_meeting(events.a, offset, events.begin, events.end, run)
        some = index.search(meeting, muted, total)
        assert isinstance(some.matches, Matches)
        assert listed(some.matches) == [[box for box in boxes if not muted[box]] for boxes in expected]
        if total > 1:
            over = index.search(meeting, np.zeros(n_boxes, np.uint8), total - 1)
            assert isinstance(over.matches, OverBudget)
            counts = np.bincount(np.concatenate([np.array(boxes, np.int64) for boxes in expected]), minlength=n_boxes)
            assert over.matches.counts.tolist() == counts.tolist()


def listed(matches: Matches) -> list[list[int]]:
    ends = zip(matches.offsets[:-1], matches.offsets[1:], strict=True)
    return [matches.slots[first:last].tolist() for first, last in ends]


def test_an_index_without_local_selections_is_smaller() -> None:
    lo = np.arange(1000, dtype=np.int64) * 10
    everything = np.full(1000, NULL_KEY), np.full(1000, KEY_MAX)
    free = BandIndex.build(Plane(*everything, lo, lo + 3), is_double=False)
    bound = BandIndex.build(Plane(lo, lo + 5, lo, lo + 3), is_double=False)
    assert 16 * 1000 <= bound.nbytes - free.nbytes < 32 * 1000
    assert free.nbytes / 1000 < 140, "also where every box is a group of its own"


@pytest.mark.parametrize("n_boxes", few_are_quick([400, 5_000], quick=1))
def test_selective_boxes_are_reached_through_their_own_attribute(n_boxes: int) -> None:
    """Every cell of a, its marks, what lies beyond them, and NULL: as comparing everything says."""
    rng = np.random.default_rng(n_boxes)
    a_lo = rng.integers(0, 10_000, n_boxes)
    a_hi = a_lo + rng.integers(0, 20, n_boxes)
    free = rng.random(n_boxes) < 0.02
    a_lo[free], a_hi[free] = NULL_KEY, KEY_MAX
    lo = rng.integers(-500, 500, n_boxes)
    index = BandIndex.build(Plane(a_lo, a_hi, lo, lo + 30), is_double=False)
    partners = np.sort(rng.integers(0, 400, 300))
    edges = np.unique(np.concatenate([a_lo, a_hi, a_lo - 1, a_hi + 1]))[: int(600 * SCALE)]
    a = np.concatenate([[NULL_KEY, KEY_MAX, -7], rng.integers(-10, 10_050, int(300 * SCALE)), edges])
    b = rng.integers(-100, 500, len(a))
    begin, end = np.zeros(len(a), np.int64), np.full(len(a), len(partners))
    run = make_run(partners, False, is_one=True)
    d = partners[None, :] - b[:, None]
    holds = []
    for e in range(len(a)):
        near = ((lo[:, None] <= d[e]) & (d[e] <= lo[:, None] + 30)).any(axis=1)
        holds.append(np.flatnonzero(near & (a_lo <= a[e]) & (a[e] <= a_hi)))
    for strategy in ("auto", "select-first"):
        meeting = band_meeting(a, b, begin, end, run)
        found = index.search(meeting, np.zeros(n_boxes, np.uint8), 10**9, Tuning(strategy))
        assert isinstance(found.matches, Matches)
        assert listed(found.matches) == [one.tolist() for one in holds]
        if n_boxes > 1_000:
            assert found.choices[STRATEGIES.index("select-first")] > 0.9 * len(a)


def compared(
    numbers: np.ndarray, b: np.ndarray, lo: np.ndarray, hi: np.ndarray, begin: int, end: int
) -> list[list[list[int]]]:
    """The boxes of each event by every strategy, and by comparing everything with everything."""
    is_double = numbers.dtype == np.float64
    keys = encode_doubles if is_double else lambda x: x
    n = len(lo)
    index = BandIndex.build(Plane(np.full(n, NULL_KEY), np.full(n, KEY_MAX), keys(lo), keys(hi)), is_double=is_double)
    run = make_run(numbers.view(np.int64), is_double, is_one=True)
    assert len(run.cells) > 0
    first, last = np.full(len(b), begin), np.full(len(b), end)
    events = band_meeting(np.zeros(len(b), np.int64), b.view(np.int64), first, last, run)
    found = []
    for strategy in ("auto", *STRATEGIES):
        matches = index.search(events, np.zeros(n, np.uint8), 10**9, Tuning(strategy)).matches
        assert isinstance(matches, Matches)
        found.append(listed(matches))
    expected = []
    for offset in b:
        d = keys(numbers[begin:end] - offset)
        expected.append(np.flatnonzero(((keys(lo)[:, None] <= d) & (d <= keys(hi)[:, None])).any(axis=1)).tolist())
        for place in range(0, n, 7):
            at = climb(run, begin, end, int(keys(lo)[place]), offset.view(np.int64))
            assert at == begin + np.searchsorted(d, keys(lo)[place]), "climbing leads to the first not below"
    return [*found, expected]


def test_events_that_are_much_larger_than_partners() -> None:
    """The cell of lo + b must be found although both are large and their sum is small."""
    rng = np.random.default_rng(5)
    for span, base in ((2_000_000, 1_790_000_000_000_000_000), (5_000, 9_000_000_000_000_000_000)):
        partners = np.sort(rng.integers(0, span, 1_000))
        b = base + rng.integers(0, span, 20)
        lo = -base + rng.integers(-span, span, 400)
        *found, expected = compared(partners, b, lo, lo + rng.integers(0, 300, 400), 0, 1_000)
        assert sum(map(len, expected)) > 200
        assert all(each == expected for each in found)
    doubles = np.sort(rng.uniform(0, 8, 1_000))
    lo = -1e16 + 2.0 * rng.integers(-10, 10, 200)
    *found, expected = compared(doubles, np.array([1e15, 1e16, 1e16 + 4, 1e17]), lo, lo + 2, 0, 1_000)
    assert sum(map(len, expected)) > 50
    assert all(each == expected for each in found)


@pytest.mark.parametrize("step", [1, 1_000_003])
def test_a_part_of_a_run_with_a_ladder(step: int) -> None:
    """Events whose differences would leave int64 with some partners meet the others only."""
    partners = np.arange(-150, 150, dtype=np.int64) * step
    lo = KEY_MIN + 1 + np.arange(400, dtype=np.int64) * step
    b = np.full(3, KEY_MAX - 40 * step, np.int64)
    begin = int(np.searchsorted(partners, KEY_MIN + int(b[0])))
    assert 0 < begin < 300
    *found, expected = compared(partners, b, lo, lo + step, begin, 300)
    assert sum(map(len, expected)) > 10
    assert all(each == expected for each in found)
    *found, expected = compared(partners, np.zeros(2, np.int64), partners[:250] - 1, partners[:250], 20, 200)
    assert all(each == expected for each in found)


def test_partners_that_are_all_the_same() -> None:
    *found, expected = compared(
        np.zeros(300), np.array([100.0, 0.0]), np.array([-101.0, -1.0]), np.array([-99.0, 1.0]), 0, 300
    )
    assert expected == [[0], [1]]
    assert all(each == expected for each in found)


def test_boxes_without_a_lower_bound_beside_others_that_begin_at_the_least_numbers() -> None:
    """A ladder over the others must not lead past those without a bound."""
    lo = np.concatenate([np.full(20, KEY_MIN), KEY_MIN + 1 + np.arange(20), np.arange(20) * 10**17])
    hi = np.concatenate([KEY_MIN + np.arange(20), np.full(40, KEY_MAX)])
    *found, expected = compared(np.full(300, KEY_MIN + 3), np.zeros(1, np.int64), lo, hi, 0, 300)
    assert expected == [[*range(3, 20), 20, 21, 22]]
    assert all(each == expected for each in found)
