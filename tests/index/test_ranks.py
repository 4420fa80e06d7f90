"""Ranks against their definition: 2k + 1 on the k-th end point, 2k in the gap below it, −1 for NULL."""

from __future__ import annotations

import numpy as np
import pytest

from weir.index import ranks
from weir.index.box_tables import BoxTable, read_only
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

SHAPES = ["uniform", "clustered", "dense", "extreme", "few", "powers"]


def points_of(shape: str, rng: np.random.Generator) -> np.ndarray:
    match shape:
        case "uniform":
            return rng.integers(-(10**12), 10**12, 3000)
        case "clustered":
            return np.concatenate(
                [rng.integers(0, 50, 40), 10**15 + rng.integers(0, 500, 900), rng.integers(0, 10**18, 90)]
            )
        case "dense":
            return np.arange(2500) * 2 + 1
        case "extreme":
            return np.array([KEY_MIN, KEY_MIN + 1, -1, 0, 1, KEY_MAX - 1, KEY_MAX])
        case "few":
            return rng.integers(0, 9, 3)
    return np.concatenate([2 ** np.arange(62), -(2 ** np.arange(62)), 2 ** np.arange(62) + 1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_the_definition(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = np.unique(points_of(shape, rng)).astype(np.int64)
    n = len(points)
    other = np.unique(points_of(SHAPES[seed], rng)).astype(np.int64)  # an attribute behind it in the same arrays
    both = np.concatenate([points, other])
    table = BoxTable(
        np.arange(n + len(other), dtype=np.int32),
        np.arange(n + len(other) + 1),
        np.repeat([0, 2], [n, len(other)]).astype(np.int32),
        both,
        both,
    )
    space = ranks.build(table, 3)
    near = np.concatenate([points, points[points < KEY_MAX] + 1, points[points > KEY_MIN] - 1])
    keys = np.concatenate([near, rng.integers(KEY_MIN, KEY_MAX, 500), [KEY_MIN, KEY_MAX, 0, NULL_KEY]]).astype(np.int64)
    found = np.empty((len(keys), 3), dtype=np.int32)
    ranks.rank_events(space, read_only(np.stack([keys, keys, keys])), 0, len(keys), found)
    # KEY_MIN as a lower and KEY_MAX as an upper bound are open ends, but here they are also the other end of a point.
    for attribute, ends in ((0, points), (2, other)):
        k = np.searchsorted(ends, keys)
        known = (k < len(ends)) & (ends[np.minimum(k, len(ends) - 1)] == keys)
        assert np.array_equal(found[:, attribute], np.where(keys == NULL_KEY, -1, 2 * k + known))
    assert np.array_equal(found[:, 1], np.where(keys == NULL_KEY, -1, 0)), "an attribute without constraints"
