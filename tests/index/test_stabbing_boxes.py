"""Stabbing groups in several dimensions: answers of the plain definition, whatever the number of dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from weir.index.papers.stabbing_boxes import build_stabbing_boxes, search_stabbing_boxes


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_those_that_contain_the_event(seed: int, dims: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 300)), 4
    lo = rng.integers(0, 50, (n, d))
    hi = lo + rng.integers(0, int(rng.choice([2, 20, 60])), (n, d))
    keys = rng.integers(-5, 110, (d, 40))
    boxes = build_stabbing_boxes(lo, hi, dims)
    found, looked = search_stabbing_boxes(boxes, keys)
    expected = [np.flatnonzero(((lo <= v) & (v <= hi)).all(axis=1)).tolist() for v in keys.T]
    got = [found.slots[b:e].tolist() for b, e in zip(found.offsets[:-1], found.offsets[1:], strict=True)]
    assert got == expected
    assert looked >= len(found.slots)


def test_every_group_has_a_common_point() -> None:
    rng = np.random.default_rng(7)
    lo = rng.integers(0, 1_000, (500, 3))
    hi = lo + rng.integers(0, 200, (500, 3))
    boxes = build_stabbing_boxes(lo, hi, 2)
    for g in range(len(boxes.points)):
        mine = boxes.by_lo[0, boxes.offsets[g] : boxes.offsets[g + 1]]
        for d in range(2):
            assert np.all(lo[mine, d] <= boxes.points[g, d])
            assert np.all(boxes.points[g, d] <= hi[mine, d])
