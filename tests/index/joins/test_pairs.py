"""Joining pairs are those of nested loops, whatever the boxes, checks, times, NULLs, budgets and buffers.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.marks import few_are_quick
from weir.index.box_tables import Matches, OverBudget
from weir.index.joining import pairs
from weir.index.joining.pairs import Pairs, match_pairs
from weir.index.joins.join_index import JoinIndex
from weir.index.joins.join_strategies import NAMES as STRATEGIES
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.checks import Checks, Remaining, make_checks
from weir.index.meeting.index_contract import AUTO, Found, Meeting, Side, Tuning, plain_meeting
from weir.index.meeting.planes import Plane

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(120 * SCALE), 15))


class Box(NamedTuple):
    """One box in plain Python: everything that must hold of an event and a partner."""

    slot: int
    a: tuple[int, int]
    c: tuple[int, int]
    event: dict[int, tuple[int, int]]
    partner: dict[int, tuple[int, int]]
    apart: tuple[int, int]


class Case(NamedTuple):
    """Boxes, events with their runs, partners."""

    boxes: list[Box]
    n_slots: int
    a: list[int]
    runs: list[tuple[int, int]]
    values: list[int]
    event_times: list[int]
    event_columns: list[list[int]]  # by attribute
    place_times: list[int]
    place_columns: list[list[int]]
    muted: list[int]


def inside(key: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= key <= bounds[1]


def nested_loops(case: Case) -> list[tuple[int, int, int]]:
    """Every (event, slot, place) that joins, in order."""
    found = set()
    for e, a in enumerate(case.a):
        for box in case.boxes:
            if case.muted[box.slot] or not inside(a, box.a):
                continue
            keys = {k: column[e] for k, column in enumerate(case.event_columns)}
            if any(keys[k] == NULL_KEY or not inside(keys[k], bounds) for k, bounds in box.event.items()):
                continue
            for p in range(*case.runs[e]):
                if not inside(case.values[p], box.c) or not inside(
                    case.event_times[e] - case.place_times[p], box.apart
                ):
                    continue
                of_place = {k: column[p] for k, column in enumerate(case.place_columns)}
                if all(of_place[k] != NULL_KEY and inside(of_place[k], bounds) for k, bounds in box.partner.items()):
                    found.add((e, box.slot, p))
    return sorted(found)


class PlainIndex:
    """Stands in for an index: affected boxes by looking at all of them."""

    names = ("plain",)
    listed = None
    finder = None

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.calls: list[int] = []  # events of each search

    def search(self, meeting: Meeting, muted: np.ndarray, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        a, begin, end, values = meeting.a, meeting.begin, meeting.end, meeting.run.values
        self.calls.append(len(a))
        lists = []
        for e in range(len(a)):
            run = values[begin[e] : end[e]]
            low = np.searchsorted(run, self.plane.c_lo, side="left")
            high = np.searchsorted(run, self.plane.c_hi, side="right")
            affected = (low < high) & (self.plane.a_lo <= a[e]) & (a[e] <= self.plane.a_hi) & (muted == 0)
            lists.append(np.flatnonzero(affected).astype(np.int32))
        slots = np.concatenate(lists) if lists else np.empty(0, np.int32)
        choices = np.array([len(a)])
        if len(slots) > pairs_max:
            return Found(OverBudget(np.bincount(slots, minlength=len(muted)).astype(np.int64)), choices)
        offsets = np.concatenate([[0], np.cumsum([len(found) for found in lists])]).astype(np.int64)
        return Found(Matches(offsets, slots), choices)

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> np.ndarray:
        return np.zeros((len(meeting.a), 1))


def csr(dicts: list[dict[int, tuple[int, int]]]) -> Remaining:
    flat = np.array([(k, *d[k]) for d in dicts for k in sorted(d)], dtype=np.int64).reshape(-1, 3)
    offsets = np.cumsum([0] + [len(d) for d in dicts], dtype=np.int64)
    return Remaining(offsets, flat[:, 0].astype(np.int32), flat[:, 1].copy(), flat[:, 2].copy())


def arrays(case: Case) -> tuple[Plane, Checks]:
    boxes = case.boxes
    plane = Plane(*(np.array([b[f][i] for b in boxes], dtype=np.int64) for f in (1, 2) for i in (0, 1)))
    checks = make_checks(
        csr([b.event for b in boxes]),
        csr([b.partner for b in boxes]),
        np.array([b.slot for b in boxes], dtype=np.int32),
        (np.array([b.apart[0] for b in boxes], np.int64), np.array([b.apart[1] for b in boxes], np.int64)),
    )
    return plane, checks


def side(times: list[int], columns: list[list[int]]) -> Side:
    return Side(np.array(times, dtype=np.int64), np.array(columns, dtype=np.int64).reshape(len(columns), len(times)))


def matched(
    case: Case, pairs_max: int, index: PlainIndex | JoinIndex | None = None, tuning: Tuning = AUTO
) -> tuple[Pairs | OverBudget, np.ndarray]:
    plane, checks = arrays(case)
    runs = np.array(case.runs, dtype=np.int64).reshape(-1, 2)
    a, values = np.array(case.a, dtype=np.int64), np.array(case.values, dtype=np.int64)
    meeting = plain_meeting(a, runs[:, 0], runs[:, 1], values)._replace(
        events=side(case.event_times, case.event_columns), partners=side(case.place_times, case.place_columns)
    )
    return match_pairs(index or PlainIndex(plane), meeting, checks, np.array(case.muted, np.uint8), pairs_max, tuning)


def triples(found: Pairs | OverBudget) -> list[tuple[int, int, int]]:
    """(event, slot, place) in the order in which they stand, so that a wrong order is seen."""
    assert isinstance(found, Pairs)
    assert (found.offsets.dtype, found.slots.dtype, found.places.dtype) == (np.int64, np.int32, np.int32)
    event = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
    return list(zip(event.tolist(), found.slots.tolist(), found.places.tolist(), strict=True))


def draw(seed: int, *, checked: bool = True, many: bool = True) -> Case:
    """A small random case: several boxes a slot, equal values, NULLs, empty runs, muted slots."""
    rng = np.random.default_rng(seed)
    domain = int(rng.choice([4, 15, 60]))

    def interval(all_share: float = 0.15) -> tuple[int, int]:
        if rng.random() < all_share:
            return NULL_KEY, KEY_MAX
        low, high = np.sort(rng.integers(0, domain, 2)).tolist()
        return (KEY_MIN if rng.random() < 0.1 else low), (KEY_MAX if rng.random() < 0.1 else high)

    def checks(share: float) -> dict[int, tuple[int, int]]:
        if not checked or rng.random() > share:
            return {}
        return {k: interval(0) for k in range(2) if rng.random() < 0.6}

    n_slots = int(rng.integers(1, 25))
    boxes = []
    for slot in range(n_slots):
        n = int(rng.choice([0, 1, 1, 1, 2, 5, 40])) if many else 1
        a = interval()
        for _ in range(n):
            apart = (KEY_MIN, KEY_MAX)
            if checked and rng.random() < 0.3:
                bounds = np.sort(rng.integers(-30, 30, 2)).tolist()
                apart = (KEY_MIN if rng.random() < 0.2 else bounds[0], KEY_MAX if rng.random() < 0.2 else bounds[1])
            boxes.append(
                Box(slot, a if rng.random() < 0.7 else interval(), interval(), checks(0.4), checks(0.4), apart)
            )

    def keys(n: int) -> list[int]:
        return np.where(rng.random(n) < 0.15, NULL_KEY, rng.integers(0, domain, n)).tolist()

    lengths = rng.choice([0, 1, 3, 12, 50], size=6)
    ends = np.cumsum(lengths).tolist()
    runs_of_key = list(zip([0, *ends[:-1]], ends, strict=True))
    values = [v for begin, end in runs_of_key for v in sorted(keys(end - begin))]
    n_events = int(rng.integers(0, 40 if SCALE >= 1 else 15))
    return Case(
        boxes,
        n_slots,
        keys(n_events),
        [runs_of_key[k] for k in rng.integers(0, 6, n_events)],
        values,
        rng.integers(0, 60, n_events).tolist(),
        [keys(n_events), keys(n_events)],
        rng.integers(0, 60, len(values)).tolist(),
        [keys(len(values)), keys(len(values))],
        (rng.random(n_slots) < rng.choice([0, 0.2])).astype(int).tolist(),
    )


def check_against_loops(case: Case, seed: int) -> int:
    expected = nested_loops(case)
    found, choices = matched(case, len(expected))
    assert triples(found) == expected, f"seed {seed}"
    assert choices.sum() == len(case.a), f"seed {seed}: every event is processed once"
    if expected:
        over, choices = matched(case, len(expected) - 1)
        assert isinstance(over, OverBudget), f"seed {seed}: {len(expected)} pairs are one over budget"
        counts = np.bincount([slot for _, slot, _ in expected], minlength=case.n_slots)
        assert over.counts.tolist() == counts.tolist(), f"seed {seed}"
        assert choices.sum() == len(case.a), f"seed {seed}"
    return len(expected)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=20))
def test_pairs_are_those_of_nested_loops(seed: int) -> None:
    check_against_loops(draw(seed), seed)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS[: len(SEEDS) // 4 or 1], quick=8))
def test_without_checks_and_with_one_box_a_slot(seed: int) -> None:
    check_against_loops(draw(seed, checked=False, many=False), seed)


@pytest.mark.slow
def test_the_cases_have_something_to_find() -> None:
    sizes = [len(nested_loops(draw(seed))) for seed in SEEDS]
    assert sum(size > 50 for size in sizes) > len(sizes) / 3


@pytest.mark.parametrize("output", [1, 7])
def test_small_buffers_are_resumed(output: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "OUTPUT", output)
    for seed in list(SEEDS)[::4]:
        check_against_loops(draw(seed), seed)


def test_blocks_follow_the_number_of_affected_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EVENTS_FIRST", 8)
    monkeypatch.setattr(pairs, "CANDIDATES", 60)
    monkeypatch.setattr(pairs, "CANDIDATES_MAX", 100)
    for seed in list(SEEDS)[::3]:
        case = draw(seed)
        found, choices = matched(case, 10**6)
        assert triples(found) == nested_loops(case), f"seed {seed}"
        assert choices.sum() == len(case.a), f"seed {seed}: a block that was cut counts once"
    for n_slots, sizes in ((2, [8, 30, 12]), (50, [8, 2, 1, 1])):
        boxes = [Box(slot, (0, 9), (0, 9), {}, {}, (KEY_MIN, KEY_MAX)) for slot in range(n_slots)]
        case = Case(boxes, n_slots, [1] * 50, [(0, 1)] * 50, [4], [0] * 50, [], [0], [], [0] * n_slots)
        index = PlainIndex(arrays(case)[0])
        matched(case, 10**6, index)
        assert index.calls[: len(sizes)] == sizes, f"blocks of {n_slots} affected boxes an event"


def test_one_event_may_affect_more_boxes_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EVENTS_FIRST", 4)
    monkeypatch.setattr(pairs, "CANDIDATES", 10)
    monkeypatch.setattr(pairs, "CANDIDATES_MAX", 20)
    boxes = [Box(slot, (0, 9), (0, 9), {}, {}, (KEY_MIN, KEY_MAX)) for slot in range(50)]
    case = Case(boxes, 50, [1, 2, 3], [(0, 2)] * 3, [4, 5], [0] * 3, [], [0, 0], [], [0] * 50)
    assert check_against_loops(case, 0) == 3 * 50 * 2


def test_overlapping_boxes_of_a_slot_give_a_pair_once_and_in_order() -> None:
    anything: Any = ({}, {}, (KEY_MIN, KEY_MAX))
    boxes = [Box(0, (0, 9), c, *anything) for c in ((6, 8), (0, 3), (2, 7), (2, 2), (NULL_KEY, KEY_MAX))]
    case = Case(boxes, 1, [5], [(0, 6)], [NULL_KEY, 2, 2, 3, 7, 9], [0], [], [0] * 6, [], [0])
    found, _ = matched(case, 100)
    assert triples(found) == [(0, 0, p) for p in range(6)]
    without_all, _ = matched(case._replace(boxes=boxes[:4]), 100)
    assert triples(without_all) == [(0, 0, p) for p in range(1, 5)]


def test_a_place_that_one_box_refuses_may_be_accepted_by_another() -> None:
    boxes = [
        Box(0, (0, 9), (0, 9), {}, {0: (1, 1)}, (KEY_MIN, KEY_MAX)),
        Box(0, (0, 9), (0, 9), {}, {}, (0, 5)),
        Box(0, (0, 9), (0, 9), {0: (7, 7)}, {}, (KEY_MIN, KEY_MAX)),  # accepts all, but the event is refused
    ]
    case = Case(boxes, 1, [5], [(0, 4)], [1, 2, 3, 4], [10], [[6]], [10, 4, 12, 3], [[0, 1, NULL_KEY, 2]], [0])
    found, _ = matched(case, 100)
    assert triples(found) == [(0, 0, 0), (0, 0, 1)]
    assert nested_loops(case) == [(0, 0, 0), (0, 0, 1)]


def test_many_boxes_of_one_slot_in_any_order() -> None:
    rng = np.random.default_rng(12)
    starts = rng.permutation(300).tolist()
    boxes = [Box(0, (0, 9), (c, c + 2), {}, {} if c % 3 else {0: (0, 4)}, (KEY_MIN, KEY_MAX)) for c in starts]
    values = sorted(rng.integers(0, 320, 200).tolist())
    keys = rng.integers(0, 10, 200).tolist()
    case = Case(boxes, 1, [5, 6], [(0, 200), (50, 90)], values, [0, 0], [], [0] * 200, [keys], [0])
    assert check_against_loops(case, 12) > 100


@pytest.mark.parametrize("sign", [-1, 1])
def test_times_far_apart_do_not_overflow(sign: int) -> None:
    far = sign * 300_000_000_000_000_000  # µs: as far from 1970 as Spark's timestamps go
    bounds = [
        (KEY_MIN, 0),
        (0, KEY_MAX),
        (-5, 5),
        (KEY_MIN, -abs(far)),
        (abs(far), KEY_MAX),
        (2 * far - 1, 2 * far + 1),
    ]
    boxes = [Box(slot, (0, 9), (0, 9), {}, {}, apart) for slot, apart in enumerate(bounds)]
    boxes += [Box(6, (0, 9), (0, 9), {}, {}, apart) for apart in ((KEY_MIN, -1), (1, KEY_MAX))]
    times = [-far, -far + 4, 0, far - 4, far, far]
    case = Case(boxes, 7, [5, 5], [(0, 6)] * 2, [1, 2, 3, 4, 5, 6], [far, 0], [], times, [], [0] * 7)
    check_against_loops(case, 0)


def test_null_satisfies_no_check_even_one_that_begins_at_null() -> None:
    boxes = [
        Box(0, (NULL_KEY, KEY_MAX), (NULL_KEY, KEY_MAX), {0: (NULL_KEY, KEY_MAX)}, {}, (KEY_MIN, KEY_MAX)),
        Box(1, (NULL_KEY, KEY_MAX), (NULL_KEY, KEY_MAX), {}, {0: (NULL_KEY, KEY_MAX)}, (KEY_MIN, KEY_MAX)),
        Box(2, (NULL_KEY, KEY_MAX), (NULL_KEY, KEY_MAX), {}, {}, (KEY_MIN, KEY_MAX)),
    ]
    null = NULL_KEY
    case = Case(boxes, 3, [null, null], [(0, 2)] * 2, [null, 3], [0, 0], [[null, 1]], [0, 0], [[null, 1]], [0] * 3)
    found, _ = matched(case, 100)
    of_first = [(0, 1, 1), (0, 2, 0), (0, 2, 1)]
    of_second = [(1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 2, 0), (1, 2, 1)]
    assert triples(found) == of_first + of_second


@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES])
def test_with_an_index(strategy: str) -> None:
    for seed in list(SEEDS)[: max(int(12 * SCALE), 3)]:
        case = draw(seed)
        expected = nested_loops(case)
        found, choices = matched(case, len(expected), JoinIndex.build(arrays(case)[0]), Tuning(strategy))
        assert triples(found) == expected, f"seed {seed}"
        assert choices.sum() == sum(begin < end for begin, end in case.runs), f"seed {seed}"


def test_nothing_to_match() -> None:
    empty = Case([], 0, [], [], [], [], [], [], [], [])
    found, choices = matched(empty, 0)
    assert triples(found) == []
    assert choices.tolist() == [0]
    no_slots = Case([], 3, [1, 2], [(0, 1), (0, 0)], [5], [0, 0], [], [0], [], [0, 0, 0])
    found, _ = matched(no_slots, 0)
    assert triples(found) == []
    assert isinstance(found, Pairs)
    assert found.offsets.tolist() == [0, 0, 0]
