"""Recent rows decide by which attributes joins are reached: of each side its own rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.nodes import Arithmetic, ColumnRef
from weir.algebra.schema import BIGINT
from weir.boxes.instances import RowBoxes
from weir.families.joins.join_accesses import choose_accesses, digest_of, foreseen
from weir.families.recent import ATTRIBUTES_MAX, sample_of
from weir.index.keys import NULL_KEY
from weir.index.samples import Sample

DOMAIN, WIDTH = 10**6, 10**4
SIDES = np.array([0, 0, 1, 1])  # of four attributes
EVERY = np.ones(4, bool)


def boxes_of(n: int, seed: int = 1) -> RowBoxes:
    """One box a slot, an interval of one width for each of four attributes."""
    lo = np.random.default_rng(seed).integers(0, DOMAIN - WIDTH, (n, 4))
    return RowBoxes(
        np.arange(n), np.arange(0, 4 * n + 1, 4), np.tile(np.arange(4), n), lo.reshape(-1), lo.reshape(-1) + WIDTH
    )


def rows_of(seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, DOMAIN, (4, 4_000))


def met(boxes: RowBoxes, chosen: np.ndarray, side: int, keys: np.ndarray) -> float:
    """Boxes whose interval of the side's access attribute holds an event, on average."""
    n = len(chosen)
    lo, hi = boxes.constraint_lo.reshape(n, 4), boxes.constraint_hi.reshape(n, 4)
    total = 0
    for attribute in np.unique(chosen[:, side]):
        mine = chosen[:, side] == attribute
        own = keys[attribute][:, None]
        total += int(((lo[mine, attribute] <= own) & (own <= hi[mine, attribute])).sum())
    return total / keys.shape[1]


def test_rows_that_fall_as_constants_do_change_nothing() -> None:
    boxes = boxes_of(2_000)
    by_constants = choose_accesses(boxes, 2_000, SIDES)
    by_rows = choose_accesses(boxes, 2_000, SIDES, Sample(rows_of(), EVERY))
    assert np.array_equal(by_constants, by_rows)
    assert by_constants[:, 0].max() == 0
    assert set(by_constants[:, 1].tolist()) == {2}


def test_of_a_skewed_attribute_only_the_slots_where_rows_are_rare_make_use() -> None:
    boxes, keys = boxes_of(4_000), rows_of()
    keys[0] = 500_000 + keys[0] // 20  # all rows of side 0 in one place
    sample = Sample(keys[:, :2_000].copy(), EVERY)
    chosen = choose_accesses(boxes, 4_000, SIDES, sample)
    by_constants = choose_accesses(boxes, 4_000, SIDES)
    assert 0 < np.count_nonzero(chosen[:, 0] == 1) < 800, "the slots in that place are reached through the other one"
    events = keys[:, 2_000:]
    assert met(boxes, chosen, 0, events) * 5 < met(boxes, by_constants, 0, events)
    assert met(boxes, chosen, 1, events) == met(boxes, by_constants, 1, events), "the other side is as it was"


def test_an_attribute_that_rows_hardly_have_is_chosen_and_a_digest_says_so() -> None:
    boxes, keys = boxes_of(4_000), rows_of()
    keys[3, np.arange(4_000) % 50 > 0] = NULL_KEY
    sample = Sample(keys, EVERY)
    before = choose_accesses(boxes, 4_000, SIDES)
    after = choose_accesses(boxes, 4_000, SIDES, sample)
    assert set(before[:, 1].tolist()) == {2}
    assert set(after[:, 1].tolist()) == {3}
    old = foreseen(digest_of(boxes, before, 4, None), SIDES, sample)
    new = foreseen(digest_of(boxes, after, 4, sample), SIDES, sample)
    assert old is not None
    assert new is not None
    assert old.now > 1.5 * old.anew, "side 1 costs next to nothing, side 0 what it did"
    assert new.now == new.anew


@pytest.mark.parametrize("rows", [0, 10, 63])
def test_few_rows_are_no_sample(rows: int) -> None:
    attribute = ColumnRef(0, "a", BIGINT)
    assert sample_of((pa.table({"a": range(rows)}),), [attribute], [0], {}, np.ones(1, np.int64)) is None
    assert sample_of((None,), [attribute], [0], {}, np.ones(1, np.int64)) is None


def test_what_cannot_be_evaluated_is_not_measured() -> None:
    a, b = ColumnRef(0, "a", BIGINT), ColumnRef(0, "missing", BIGINT)
    rows = pa.table({"a": pa.array(range(100), pa.int64())})
    both = Arithmetic("+", a, ColumnRef(1, "a", BIGINT), BIGINT)
    attributes = [a, b, both, *[a] * ATTRIBUTES_MAX]
    sides = [0, 0, -1, *[1] * ATTRIBUTES_MAX]
    weights = np.array([3, 2, 1, *[0] * ATTRIBUTES_MAX])
    sample = sample_of((rows, rows.slice(0, 70)), attributes, sides, {}, weights)
    assert sample is not None
    assert sample.keys.shape == (ATTRIBUTES_MAX + 3, 100)
    assert sample.measured.tolist() == [True, False, False, *[True] * (ATTRIBUTES_MAX - 3), False, False, False]
    assert sorted(sample.keys[0].tolist()) == list(range(100))
    assert set(sample.keys[3].tolist()) == set(range(70)), "rows of a shorter side come again"
