"""Pairs that the partial index finds itself are those of nested loops, whoever else writes pairs of the same batch.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest

from tests.index.joins.test_pairs import Box, Case, PlainIndex, arrays, csr, draw, inside, nested_loops, side, triples
from tests.marks import few_are_quick
from weir.index.box_tables import BoxTable, Int64s, OverBudget, Uint8s, frozen
from weir.index.joining import pairs, routing
from weir.index.joining.pairs import Pairs, match_pairs
from weir.index.joining.routing import EitherIndex, RoutedIndex
from weir.index.joins.join_index import JoinIndex
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.index_contract import AUTO, TAKEN, Found, Meeting, PairFinder, Tuning, plain_meeting
from weir.index.trees import byte_boxes, partial_index, partial_pairs
from weir.index.trees.partial_index import PartialIndex
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_layout import Ages

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(160 * SCALE), 20))
PARTIAL = Tuning("partial")
ANYTHING = (KEY_MIN, KEY_MAX)


def table_of(case: Case) -> BoxTable:
    """All attributes of boxes: the event's, that of the plane first, then the partners'."""
    n_event, boxes = len(case.event_columns), case.boxes
    found: list[dict[int, tuple[int, int]]] = []
    for box in boxes:
        asked = {0: box.a, n_event + 1: box.c}
        asked |= {1 + k: bounds for k, bounds in box.event.items()}
        asked |= {n_event + 2 + k: bounds for k, bounds in box.partner.items()}
        found.append({k: bounds for k, bounds in asked.items() if bounds[0] > NULL_KEY})
    left = csr(found)
    return BoxTable(np.arange(len(boxes), dtype=np.int32), left.offsets, left.attribute, left.lo, left.hi)


def built(case: Case) -> PartialIndex:
    n_event, n_partner = len(case.event_columns), len(case.place_columns)
    plane, _ = arrays(case)
    made = PartialIndex.build(plane, table_of(case), n_event + 1, n_event + n_partner + 2)
    return PartialIndex.restored(plane, {name: array.copy() for name, array in made.arrays().items()})


def meeting_of(case: Case) -> Meeting:
    runs = np.array(case.runs, dtype=np.int64).reshape(-1, 2)
    a, values = np.array(case.a, dtype=np.int64), np.array(case.values, dtype=np.int64)
    return plain_meeting(a, runs[:, 0], runs[:, 1], values)._replace(
        events=side(case.event_times, case.event_columns), partners=side(case.place_times, case.place_columns)
    )


class Mixed(EitherIndex):
    """Takes events at random, so that neighbours are found in different ways."""

    def __init__(self, by_two: PlainIndex | JoinIndex, partial: PartialIndex, seed: int) -> None:
        super().__init__(by_two, partial)
        self._rng = np.random.default_rng(seed)
        self.taken = 0

    def takes(self, meeting: Meeting, tuning: Tuning) -> Uint8s:
        found = np.where(self._rng.random(len(meeting.a)) < 0.5, np.uint8(TAKEN), np.uint8(0))
        self.taken += np.count_nonzero(found)
        return found


class NoBoxes(PlainIndex):
    """An index that must not be asked."""

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        raise AssertionError("boxes are searched of events that are taken")


class Run(NamedTuple):
    """What came of a case."""

    found: Pairs | OverBudget
    choices: Int64s


def matched(case: Case, pairs_max: int, index: EitherIndex | RoutedIndex, tuning: Tuning = PARTIAL) -> Run:
    muted = np.array(case.muted, np.uint8)
    return Run(*match_pairs(index, meeting_of(case), arrays(case)[1], muted, pairs_max, tuning))


def check(case: Case, seed: int, *, others_write: bool = False) -> int:
    """Pairs, order and counts of a case: found by the tree alone, and mixed with what boxes give."""
    expected = nested_loops(case)
    plane, _ = arrays(case)
    plain, partial = (PlainIndex if others_write else NoBoxes)(plane), built(case)
    with_partners = sum(begin < end for begin, end in case.runs)
    for index in (EitherIndex(plain, partial), Mixed(PlainIndex(plane), partial, seed)):
        run = matched(case, len(expected), index)
        assert triples(run.found) == expected, f"seed {seed}"
        if isinstance(index, Mixed):
            assert with_partners <= run.choices.sum() <= len(case.a), f"seed {seed}"
        elif not others_write:
            assert run.choices.tolist() == [0, with_partners], f"seed {seed}"
        if expected:
            over, _ = matched(case, len(expected) - 1, index)
            assert isinstance(over, OverBudget), f"seed {seed}: {len(expected)} pairs are one over budget"
            counts = np.bincount([slot for _, slot, _ in expected], minlength=case.n_slots)
            assert over.counts.tolist() == counts.tolist(), f"seed {seed}"
    return len(expected)


def spread_out(case: Case, seed: int) -> Case:
    """The same with keys far apart, and bounds between them: cells are long, and places in them matter."""
    rng = np.random.default_rng(seed)
    scale = int(rng.choice([7, 10**6, 10**16]))

    def key(k: int, shift: int) -> int:
        return k if k in (NULL_KEY, KEY_MIN, KEY_MAX) else k * scale + shift

    def bounds(of: tuple[int, int]) -> tuple[int, int]:
        low, high = (key(k, int(rng.integers(0, scale // 2))) for k in of)
        return low, max(low, high)

    def column(of: list[int]) -> list[int]:
        return [key(k, int(rng.integers(0, scale // 2))) for k in of]

    boxes = [
        b._replace(
            a=bounds(b.a) if b.a[0] > NULL_KEY else b.a,
            c=bounds(b.c) if b.c[0] > NULL_KEY else b.c,
            event={k: bounds(of) for k, of in b.event.items()},
            partner={k: bounds(of) for k, of in b.partner.items()},
        )
        for b in case.boxes
    ]
    values = column(case.values)
    for begin, end in sorted(set(case.runs)):
        values[begin:end] = sorted(values[begin:end])
    return case._replace(
        boxes=boxes,
        a=column(case.a),
        values=values,
        event_columns=[column(of) for of in case.event_columns],
        place_columns=[column(of) for of in case.place_columns],
    )


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=20))
def test_pairs_are_those_of_nested_loops(seed: int) -> None:
    check(draw(seed), seed)


@pytest.mark.parametrize("cuts", [1, 3, 254])
@pytest.mark.parametrize("seed", few_are_quick(SEEDS[: len(SEEDS) // 4 or 1], quick=8))
def test_what_codes_leave_in_doubt_keys_decide(seed: int, cuts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_boxes, "CUTS_MAX", cuts)
    for case in (draw(seed), spread_out(draw(seed), seed)):
        check(case, seed)


@pytest.mark.slow
def test_the_cases_have_something_to_find() -> None:
    sizes = [len(nested_loops(spread_out(draw(seed), seed))) for seed in SEEDS]
    assert sum(size > 50 for size in sizes) > len(sizes) / 4


@pytest.mark.parametrize("output", [1, 7])
def test_small_buffers_are_resumed(output: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost when the buffer is emptied in mid-block, nor when an event does not fit at all."""
    monkeypatch.setattr(pairs, "OUTPUT", output)
    for seed in list(SEEDS)[::4]:
        check(draw(seed), seed, others_write=True)


def test_an_event_with_too_many_pairs_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_pairs, "PAIRS_MAX", 40)
    refused = 0
    for seed in list(SEEDS)[::2]:
        case = draw(seed)
        check(case, seed, others_write=True)
        run = matched(case, 10**6, EitherIndex(PlainIndex(arrays(case)[0]), built(case)))
        refused += int(run.choices[0])
    assert refused, "some event has more"


def test_blocks_of_mixed_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EVENTS_FIRST", 3)
    monkeypatch.setattr(pairs, "CANDIDATES", 60)
    monkeypatch.setattr(pairs, "CANDIDATES_MAX", 100)
    taken = 0
    for seed in list(SEEDS)[::3]:
        case = draw(seed)
        index = Mixed(PlainIndex(arrays(case)[0]), built(case), seed)
        assert triples(matched(case, 10**6, index).found) == nested_loops(case), f"seed {seed}"
        taken += index.taken
    assert taken


def test_a_null_is_in_no_interval_and_in_what_is_not_asked() -> None:
    null = NULL_KEY
    boxes = [
        Box(0, (NULL_KEY, KEY_MAX), (NULL_KEY, KEY_MAX), {}, {}, ANYTHING),
        Box(1, (KEY_MIN, 3), (KEY_MIN, KEY_MAX), {}, {}, ANYTHING),
        Box(2, (NULL_KEY, KEY_MAX), (NULL_KEY, KEY_MAX), {0: (KEY_MIN, KEY_MAX)}, {0: (KEY_MIN, 9)}, ANYTHING),
    ]
    case = Case(
        boxes, 3, [null, 3], [(0, 3)] * 2, [null, 3, 9], [0, 0], [[null, 1]], [0] * 3, [[null, 1, null]], [0] * 3
    )
    assert check(case, 0) == len(nested_loops(case)) > 5


def test_no_boxes_no_events_no_partners() -> None:
    empty = Case([], 2, [1, 2], [(0, 1), (0, 0)], [5], [0, 0], [], [0], [], [0, 0])
    assert check(empty, 0) == 0
    box = Box(0, (0, 9), (0, 9), {}, {}, ANYTHING)
    assert check(Case([box], 1, [], [], [5], [], [], [0], [], [0]), 0) == 0
    assert check(Case([box], 1, [3], [(1, 1)], [5], [0], [], [0], [], [0]), 0) == 0


def test_many_boxes_fill_groups_of_leaves() -> None:
    """More than one group, leaves that are not full, slots with several boxes that lie far apart."""
    rng = np.random.default_rng(3)
    n = 4_500 if SCALE >= 1 else 150
    boxes = []
    for k in range(n):
        a, c, e, p = (int(low) for low in rng.integers(0, 900, 4))
        more = {0: (e, e + 300)} if k % 3 else {}
        boxes.append(Box(k // 3, (a, a + 400), (c, c + 400), more, {1: (p, p + 500)} if k % 5 else {}, ANYTHING))
    keys = rng.integers(0, 1_000, (6, 20)).tolist()
    values = sorted(keys[0])
    case = Case(
        boxes, n // 3, keys[1][:6], [(0, 20)] * 3 + [(5, 9)] * 3, values, [0] * 6,
        [keys[2][:6]], [0] * 20, [keys[3], keys[4]], (rng.random(n // 3) < 0.1).astype(int).tolist(),
    )  # fmt: skip
    assert check(case, 3) > n // 10


def test_doubles_of_any_size() -> None:
    """Keys of doubles are as far apart as keys can be."""
    from weir.index.keys import encode_doubles

    rng = np.random.default_rng(8)
    numbers = np.array([-np.inf, -1e300, -1.0, -1e-300, 0.0, 1e-300, 0.5, 1.0, 1e300, np.inf, np.nan])
    ends = encode_doubles(rng.choice(numbers, (400, 2, 2)) * rng.choice([1.0, 1.1], (400, 2, 2)))
    ends.sort(axis=2)
    boxes = [Box(k, tuple(a), tuple(c), {}, {}, ANYTHING) for k, (a, c) in enumerate(ends.tolist())]  # type: ignore[arg-type]  # pairs
    keys = encode_doubles(np.concatenate([numbers, numbers * 1.05]))
    values = np.sort(keys).tolist()
    case = Case(
        boxes, 400, keys.tolist(), [(0, len(values))] * len(keys), values, [0] * len(keys), [], [0] * len(values), [],
        [0] * 400,
    )  # fmt: skip
    assert check(case, 8) > 1_000


@pytest.mark.parametrize("n_dims", [1, 4, 5, 8, 9, 13])
def test_any_number_of_attributes(n_dims: int) -> None:
    rng = np.random.default_rng(n_dims)
    boxes = []
    for slot in range(90):
        lows = rng.integers(-2, 6, (2, n_dims)).tolist()
        own, other = ({k: (low, low + 8) for k, low in enumerate(of[1:])} for of in lows)
        boxes.append(Box(slot, (lows[0][0], lows[0][0] + 8), (lows[1][0], lows[1][0] + 8), own, other, ANYTHING))
    columns = rng.integers(0, 10, (2, n_dims, 12)).tolist()
    values = sorted(columns[1][0])
    case = Case(
        boxes, 90, columns[0][0], [(0, 12)] * 12, values, [0] * 12, columns[0][1:], [0] * 12, columns[1][1:], [0] * 90
    )
    assert check(case, n_dims) > 0


def test_codes_are_monotone_and_exact_where_they_say_so() -> None:
    rng = np.random.default_rng(5)
    for scale in (1, 40, 10**15):
        n = 3_000
        lo = rng.integers(-100, 100, n) * scale + rng.integers(0, scale, n)
        table = BoxTable(
            np.arange(n, dtype=np.int32),
            np.arange(n + 1),
            np.zeros(n, np.int32),
            lo,
            lo + rng.integers(0, 9, n) * scale,
        )
        cuts = byte_boxes.find_cuts(table, 1)
        assert cuts.is_exact[0] == (scale == 1)
        keys = np.sort(np.concatenate([lo, lo + 1, [KEY_MIN, KEY_MAX]]))
        codes, fine = byte_boxes.coded(frozen(cuts), 0, keys)
        both = codes.astype(int) * byte_boxes.PLACES + fine
        assert codes.min() >= 1
        assert np.all(np.diff(both) >= 0)
        assert [codes.tolist() for codes in byte_boxes.coded(frozen(cuts), 0, np.array([NULL_KEY]))] == [[0], [1]]
        if scale == 1:
            box, key = rng.integers(0, n, (2, 2_000))
            of = [byte_boxes.coded(frozen(cuts), 0, end[box])[0] for end in (table.constraint_lo, table.constraint_hi)]
            inside_codes = (of[0] <= codes[key]) & (codes[key] <= of[1])
            exactly = [
                inside(int(keys[k]), (int(lo[b]), int(table.constraint_hi[b]))) for b, k in zip(box, key, strict=True)
            ]
            assert inside_codes.tolist() == exactly


def test_the_router_takes_events_by_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in list(SEEDS)[:12]:
        case = draw(seed)
        index = EitherIndex(JoinIndex.build(arrays(case)[0]), built(case))
        expected = nested_loops(case)
        run = matched(case, len(expected), index, AUTO)
        assert triples(run.found) == expected, f"seed {seed}"
        monkeypatch.setattr(routing, "CHECKED_NS", 1e9)
        costs = index.estimates(meeting_of(case))
        assert costs.shape == (len(case.a), len(index.names))
        taken = matched(case, len(expected), index, AUTO)
        assert triples(taken.found) == expected, f"seed {seed}"
        monkeypatch.setattr(routing, "CHECKED_NS", partial_index.CHECKED_NS)
        for name in ("vanilla", "sweep"):
            assert triples(matched(case, len(expected), index, Tuning(name)).found) == expected, f"seed {seed}"


def test_beside_an_index_by_age() -> None:
    """A routed search asks the same finder; a strategy of windows is never the finder's."""
    for seed in list(SEEDS)[:12]:
        case = draw(seed)
        plane, checks = arrays(case)
        expected = nested_loops(case)
        windows = WindowIndex.build(plane, Ages(checks.apart_lo, checks.apart_hi)) if len(case.boxes) else None
        if windows is None:
            continue
        index = RoutedIndex(EitherIndex(JoinIndex.build(plane), built(case)), windows)
        finder: PairFinder | None = index.finder
        assert finder is not None
        for tuning in (AUTO, PARTIAL, Tuning(windows.names[0])):
            assert triples(matched(case, len(expected), index, tuning).found) == expected, f"seed {seed}, {tuning}"
        assert not finder.takes(meeting_of(case), Tuning(windows.names[0])).any()
