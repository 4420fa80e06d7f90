"""Ranges of ids against a plain dict."""

from __future__ import annotations

import numpy as np
import pytest

from weir.store.range_map import RangeMap, ranges_of


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_dict(seed: int) -> None:
    random = np.random.default_rng(seed)
    ranges: RangeMap[int] = RangeMap()
    plain: dict[int, int] = {}
    for step in range(200):
        first, count = int(random.integers(0, 60)), int(random.integers(1, 12))
        if random.random() < 0.6:
            ranges.put(first, count, step)
            plain |= dict.fromkeys(range(first, first + count), step)
        else:
            ranges.remove(first, count)
            plain = {id: value for id, value in plain.items() if not first <= id < first + count}
        assert ranges.ids().tolist() == sorted(plain)
        assert len(ranges) == len(plain)
        assert [ranges.get(id) for id in range(-1, 80)] == [plain.get(id) for id in range(-1, 80)]
        assert RangeMap(ranges).ids().tolist() == sorted(plain)


def test_ids_as_ranges() -> None:
    assert ranges_of(np.array([1, 2, 3, 7, 9, 10])) == [(1, 3), (7, 1), (9, 2)]
    assert ranges_of(np.empty(0, np.int64)) == []
