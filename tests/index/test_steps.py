"""Searches in steps, and indexes that boxes are put into and taken out of, are what the plain twins say.

An index whose `search` takes `steps` may go through an event's attributes in parts, and remember what earlier events
with the same keys left over: its answers are those of a search in one go. An index with `insert` and `delete` has
after each of them the answers of one that was built of the boxes that stand. Every strategy that can do either is
taken up by itself.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.index.random_tables import Case, draw, draw_wide
from tests.marks import few_are_quick
from tests.oracle import naive_boxes, naive_steps
from weir.index.box_tables import BoxTable, Matches, OverBudget
from weir.index.strategies import STRATEGIES

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(40 * SCALE), 6))
STEPS_MAX = 4
STEPPED = [name for name, index in STRATEGIES.items() if "steps" in inspect.signature(index.search).parameters]
CHANGED = [name for name, index in STRATEGIES.items() if hasattr(index, "insert") and hasattr(index, "delete")]


def drawn(seed: int) -> Case:
    return draw_wide(seed, SCALE) if seed % 2 else draw(seed, SCALE)


def random_steps(rng: np.random.Generator, n_attributes: int) -> np.ndarray:
    """int32[attributes]: the step of each; 1 to 4 steps, none of them empty."""
    count = int(rng.integers(1, min(STEPS_MAX, max(n_attributes, 1)) + 1))
    steps = rng.integers(0, count, n_attributes)
    steps[rng.permutation(n_attributes)[:count]] = np.arange(count)[: min(count, n_attributes)]
    return steps.astype(np.int32)


def groups(rng: np.random.Generator, steps: np.ndarray) -> list[list[int]]:
    """The attributes of each step in any order; some of the last step may be left out, and a step may be empty."""
    found = [rng.permutation(np.flatnonzero(steps == step)).tolist() for step in range(int(steps.max(initial=0)) + 1)]
    if rng.random() < 0.3:
        found[-1] = found[-1][: int(rng.integers(0, len(found[-1]) + 1))]
    if rng.random() < 0.1:
        found.insert(int(rng.integers(0, len(found))), [])
    return found


def with_prefixes(rng: np.random.Generator, keys: np.ndarray, steps: np.ndarray, runs: int) -> np.ndarray:
    """Events of which about `runs` in a row have the keys of the first step, fewer those of the second, and so on."""
    count = int(steps.max(initial=0)) + 1
    found = keys.copy()
    for step in range(count):
        length = max(1, round(runs ** (1 - step / count)))
        source = np.arange(keys.shape[1]) // length * length
        found[steps == step] = keys[steps == step][:, source]
    order = rng.permutation(-(-keys.shape[1] // runs))  # runs anywhere, so that a prefix comes back later
    places = np.concatenate([np.arange(k * runs, min((k + 1) * runs, keys.shape[1])) for k in order])
    return np.ascontiguousarray(found[:, places])


def in_order(keys: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The same events, ascending by the keys of the first step, then by those of the second, and so on."""
    attributes = np.argsort(steps, kind="stable")
    return np.ascontiguousarray(keys[:, np.lexsort(keys[attributes[::-1]])])


def check(indexes: Mapping[str, Any], case: Case, keys: np.ndarray, about: str, **steps: list[list[int]]) -> int:
    """Compare searches within their budget and one beyond it with the twin; returns how many pairs there are."""
    offsets, slots, counts = naive_boxes.search(case.table, case.n_slots, keys, case.muted)
    for name, index in indexes.items():
        found = index.search(keys, case.muted, len(slots), **steps)
        assert isinstance(found, Matches), f"{name}, {about}: {len(slots)} pairs are within a budget of {len(slots)}"
        assert (found.offsets.dtype, found.slots.dtype) == (np.int64, np.int32)
        assert np.array_equal(found.offsets, offsets), f"{name}, {about}"
        assert np.array_equal(found.slots, slots), f"{name}, {about}"
        if len(slots):
            over = index.search(keys, case.muted, len(slots) - 1, **steps)
            assert isinstance(over, OverBudget), f"{name}, {about}: {len(slots)} pairs are one over budget"
            assert np.array_equal(over.counts, counts), f"{name}, {about}"
    return len(slots)


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=4))
def test_candidates_shrink_to_the_matches(seed: int) -> None:
    """The twin of steps holds against itself and against the twin of searches."""
    rng = np.random.default_rng(seed)
    case = drawn(seed)
    boxes = case.table.slot_of_box[:200]
    offsets = case.table.constraint_offsets[: len(boxes) + 1]
    table = BoxTable(boxes, offsets, *(values[: offsets[-1]] for values in case.table[2:]))
    keys = case.keys[:, :20]
    steps = random_steps(rng, case.n_attributes)
    after = [naive_steps.candidates(table, case.n_slots, keys, steps, k) for k in range(int(steps.max(initial=0)) + 1)]
    for earlier, later in pairwise(after):
        assert not (later & ~earlier).any()
    assert np.array_equal(after[-1], naive_boxes.contains(table, case.n_slots, keys))
    assert list(zip(*(part.tolist() for part in np.nonzero(after[-1])), strict=True)) == naive_steps.matches(
        table, case.n_slots, keys
    )


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=6))
def test_steps_change_no_answer(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    case = drawn(seed)
    indexes = {name: STRATEGIES[name].build(case.table, case.n_slots, case.n_attributes) for name in STEPPED}
    found = 0
    for _ in range(2):
        steps = random_steps(rng, case.n_attributes)
        repeated = with_prefixes(rng, case.keys, steps, int(rng.choice([2, 5, 20])))
        orders = {"as they come": case.keys, "with repeated prefixes": repeated, "in order": in_order(repeated, steps)}
        orders["twice"] = np.ascontiguousarray(np.repeat(case.keys, 2, axis=1))
        for order, keys in orders.items():
            given = groups(rng, steps)
            found += check(indexes, case, keys, f"seed {seed}, steps {given}, events {order}", steps=given)
    if case.n_slots > 300 * SCALE and case.keys.shape[1] > 30:
        assert found, f"seed {seed}: a search without matches proves nothing"


class History:
    """Boxes in the order in which they came, and which of them stand."""

    def __init__(self, table: BoxTable, n_slots: int) -> None:
        self.n_slots = n_slots
        self.boxes: list[tuple[int, list[tuple[int, int, int]]]] = []
        self.stands: list[bool] = []
        self.insert(table)

    def insert(self, table: BoxTable) -> None:
        slot_of_box, offsets, attribute, lo, hi = (part.tolist() for part in table)
        for box, slot in enumerate(slot_of_box):
            which = slice(offsets[box], offsets[box + 1])
            self.boxes.append((slot, list(zip(attribute[which], lo[which], hi[which], strict=True))))
            self.stands.append(True)
            self.n_slots = max(self.n_slots, slot + 1)

    def delete(self, boxes: np.ndarray) -> None:
        for box in boxes.tolist():
            assert self.stands[box], f"box {box} is deleted twice"
            self.stands[box] = False

    @property
    def standing(self) -> np.ndarray:
        return np.flatnonzero(self.stands)

    def table(self) -> BoxTable:
        """The boxes that stand, by slot."""
        kept = sorted((box for box, stands in zip(self.boxes, self.stands, strict=True) if stands), key=lambda b: b[0])
        return table_of(kept)


def table_of(boxes: list[tuple[int, list[tuple[int, int, int]]]]) -> BoxTable:
    columns = np.array([c for _, box in boxes for c in box], dtype=np.int64).reshape(-1, 3)
    return BoxTable(
        np.array([slot for slot, _ in boxes], dtype=np.int32),
        np.cumsum([0] + [len(box) for _, box in boxes], dtype=np.int64),
        columns[:, 0].astype(np.int32),
        columns[:, 1].copy(),
        columns[:, 2].copy(),
    )


def cut(rng: np.random.Generator, case: Case, parts: int) -> list[BoxTable]:
    """The boxes of a table dealt out among tables; one may get none, and slots are part of several."""
    whole = History(case.table, case.n_slots)
    shares = rng.random(parts) ** 2
    shares[0] *= rng.random() > 0.15  # else everything is inserted
    of_part = rng.choice(parts, len(whole.boxes), p=shares / shares.sum())
    late = rng.random() < 0.5  # slots that nobody has heard of come with later tables
    if late:
        of_part = np.sort(of_part)
    return [
        table_of([box for box, at in zip(whole.boxes, of_part, strict=True) if at == part]) for part in range(parts)
    ]


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=6))
def test_after_inserts_and_deletes_it_is_the_index_of_what_stands(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    case = draw_wide(seed, SCALE / 3) if seed % 2 else draw(seed, SCALE / 3)
    tables = cut(rng, case, int(rng.integers(2, 6)))
    n_slots = case.n_slots if rng.random() < 0.5 else int(tables[0].slot_of_box.max(initial=-1)) + 1
    history = History(tables[0], n_slots)
    indexes: dict[str, Any] = {name: STRATEGIES[name].build(tables[0], n_slots, case.n_attributes) for name in CHANGED}
    left = tables[1:]
    log = [f"build {len(history.boxes)}"]
    while left or rng.random() < 0.7:
        if left and rng.random() < 0.5:
            table = left.pop(0)
            for index in indexes.values():
                index.insert(table)
            history.insert(table)
            log.append(f"insert {len(table.slot_of_box)}")
        else:
            share = rng.choice([0.0, 0.05, 0.5, 1.0], p=[0.1, 0.4, 0.4, 0.1])
            boxes = rng.permutation(history.standing)[: int(np.ceil(share * len(history.standing)))].astype(np.int64)
            for index in indexes.values():
                index.delete(boxes)
            history.delete(boxes)
            log.append(f"delete {len(boxes)}")
        if rng.random() < 0.2:
            indexes = {name: STRATEGIES[name].from_arrays(index.arrays()) for name, index in indexes.items()}
            log.append("from arrays")
        muted = (rng.random(history.n_slots) < rng.choice([0.0, 0.3])).astype(np.uint8)
        now = Case(history.table(), history.n_slots, case.n_attributes, case.keys, muted)
        about = f"seed {seed}: {', '.join(log)}"
        check(indexes, now, case.keys, about)
        steps = random_steps(rng, case.n_attributes)
        keys, given = with_prefixes(rng, case.keys, steps, 5), groups(rng, steps)
        stepped = {name: index for name, index in indexes.items() if name in STEPPED}
        check(stepped, now, keys, f"{about}; steps {given}", steps=given)


@pytest.mark.parametrize("name", CHANGED)
def test_a_tree_that_shrank_can_be_stored_and_changed(name: str) -> None:
    """The stored tree has no room for nodes that it no longer needs, and none that is left over from before."""
    boxes = [(slot, [(0, 10 * slot, 10 * slot + 5)]) for slot in range(20)]
    index: Any = STRATEGIES[name].build(table_of(boxes), 20, 1)
    index.delete(np.arange(18))
    index = STRATEGIES[name].from_arrays(index.arrays())
    index.delete(np.array([18]))
    index.insert(table_of(boxes[:3]))
    keys = np.array([[5, 15, 183, 193]])
    found = index.search(keys, np.zeros(20, np.uint8), 99)
    assert isinstance(found, Matches)
    assert (found.offsets.tolist(), found.slots.tolist()) == ([0, 1, 2, 2, 3], [0, 1, 19])


def test_what_is_tested_is_there() -> None:
    """The trees can do both; an index that can do neither is none of this file's."""
    assert {"rtree", "grid-file"} <= set(STEPPED)
    assert {"rtree", "grid-file"} <= set(CHANGED)
