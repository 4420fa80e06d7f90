"""Skylines are those of their definition, after any history of stabbing points and floors."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.marks import few_are_quick
from tests.oracle import naive_windows as naive
from weir.index.box_tables import read_only
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.windows.newest import build_newest, has_age
from weir.index.windows.skylines import (
    IS_THIN,
    LATEST,
    Skylines,
    StabbingPoints,
    Stretch,
    ask,
    change_points,
    make_points,
    make_skylines,
)

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(150 * SCALE), 8))

Run = list[tuple[int, int]]


def draw_keys(rng: np.random.Generator, n: int, kind: int = -1) -> np.ndarray:
    match kind if kind >= 0 else rng.integers(0, 4):
        case 0:
            return rng.integers(-3, 4, n)
        case 1:
            return rng.integers(-1_000, 1_000, n)
        case 2:
            return rng.choice([NULL_KEY, KEY_MIN, -(2**62), 0, 2**62, KEY_MAX - 1, KEY_MAX], n)
        case _:
            return (np.exp(rng.uniform(0, 42, n)) * rng.choice([-1, 1], n)).astype(np.int64)


def draw_runs(rng: np.random.Generator) -> list[Run]:
    times = int(rng.choice([3, 50, 10_000]))
    sizes = rng.choice([0, 1, 2, 9, 40, 300], rng.integers(1, 6))
    return [
        sorted(zip(draw_keys(rng, n).tolist(), rng.integers(0, times, n).tolist(), strict=True), key=lambda row: row[0])
        for n in sizes
    ]


def listed(
    skylines: Skylines,
    points: StabbingPoints,
    values: np.ndarray,
    times: np.ndarray,
    begin: int,
    end: int,
    floor: int,
    segment_min: int = 0,
) -> list[int]:
    ask(skylines, points, Stretch(values, times, begin, end), floor, segment_min)
    return [] if begin == end else (skylines.listed(begin) - begin).tolist()


@pytest.mark.parametrize("segment_min", [0, 4])
@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=15))
def test_after_any_history_skylines_are_those_of_the_definition(seed: int, segment_min: int) -> None:
    rng = np.random.default_rng(seed)
    runs = draw_runs(rng)
    rows = [row for run in runs for row in run]
    values, times = (read_only(np.array([row[k] for row in rows], dtype=np.int64)) for k in (0, 1))
    ends = np.cumsum([len(run) for run in runs])
    skylines = make_skylines(len(rows))
    keys = np.unique(draw_keys(rng, rng.integers(0, 12)))
    points = make_points(keys)
    for step in range(12):
        # Some runs are asked now, others only after several changes.
        for k in np.flatnonzero(rng.random(len(runs)) < 0.6).tolist():
            for floor in rng.choice([-1, 0, 1, 2, 20, 5_000], rng.integers(1, 4)).tolist():
                begin, end = int(ends[k]) - len(runs[k]), int(ends[k])
                found = listed(skylines, points, values, times, begin, end, floor, segment_min)
                expected = naive.skyline(points.keys.tolist(), runs[k], floor)
                if runs[k] and not skylines.about[begin, IS_THIN]:
                    assert segment_min or not expected, "all are thin"
                    expected = [i for i, (_, time) in enumerate(runs[k]) if time >= floor]
                assert found == expected, f"seed {seed}, step {step}, run {k}, floor {floor}"
                if expected:
                    assert skylines.about[begin, LATEST] == max(time for _, time in runs[k])
        kept = keys[rng.random(len(keys)) < rng.choice([0.0, 0.6, 0.9, 1.0])]
        added = draw_keys(rng, rng.integers(0, 4))
        keys = np.unique(np.concatenate((kept, added)))
        points = change_points(points, keys)


def test_only_what_is_beside_a_changed_point_is_made_again() -> None:
    values = read_only(np.arange(100, dtype=np.int64))
    times = read_only(np.arange(100, dtype=np.int64)[::-1].copy())
    points = make_points(np.array([20, 40, 60, 80]))
    skylines = make_skylines(100)
    listed(skylines, points, values, times, 0, 100, 0)
    marks = skylines.marks.copy()
    skylines.marks[:] = 77  # what is not made again stays
    listed(skylines, change_points(points, np.array([20, 40, 65, 80])), values, times, 0, 100, 0)
    assert np.flatnonzero(skylines.marks != 77).tolist() == list(range(21, 81)), "as far as the point before and behind"
    skylines.marks[:] = marks
    twice = change_points(change_points(points, np.array([20, 40, 65, 80])), np.array([40, 65, 80]))
    listed(skylines, twice, values, times, 0, 100, 0)
    run = list(zip(values.tolist(), times.tolist(), strict=True))
    assert listed(skylines, twice, values, times, 0, 100, 0) == naive.skyline([40, 65, 80], run, 0)


def test_all_skylines_together_are_no_more_than_twice_the_run() -> None:
    rng = np.random.default_rng(1)
    values, times = np.sort(rng.integers(0, 10**6, 5_000)), rng.integers(0, 10**6, 5_000)
    few, many = (make_points(np.unique(rng.integers(0, 10**6, n))) for n in (20, 4_000))
    sizes = []
    for points in (few, many):
        skylines = make_skylines(5_000)
        n = ask(skylines, points, Stretch(read_only(values), read_only(times), 0, 5_000), 0, 0)
        assert np.count_nonzero(skylines.marks & 1) + np.count_nonzero(skylines.marks & 2) <= 2 * 5_000
        sizes.append(n)
    assert sizes[0] < 20 * 2 * np.log(5_000 / 20) * 1.3, "a few of each segment"
    assert sizes[0] < sizes[1] < 5_000


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=15))
def test_a_stretch_has_an_age_exactly_if_a_place_has(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = rng.integers(0, rng.choice([5, 1_000]), rng.choice([0, 1, 15, 300, 2_000]))
    newest = build_newest(times)
    for _ in range(30):
        low, high = np.sort(rng.integers(0, len(times) + 1, 2)).tolist()
        time = int(rng.integers(-5, 1_200))
        least, most = np.sort(rng.integers(-10, 1_000, 2)).tolist()
        least = int(rng.choice([least, KEY_MIN, 0]))
        most = int(rng.choice([most, KEY_MAX]))
        expected = any(least <= time - int(t) <= most for t in times[low:high])
        assert has_age(newest, low, high, time, least, most) == expected, f"seed {seed}"
