"""Sets of ids as ascending arrays do what Python's sets do."""

from __future__ import annotations

import numpy as np
import pytest

from weir.store.ascending import by_bytes, common, distinct, inside, numbered, together, without


@pytest.mark.parametrize("seed", range(200))
def test_they_are_sets(seed: int) -> None:
    random = np.random.default_rng(seed)
    reach = int(random.choice([3, 20, 1_000, 10**12]))

    def drawn() -> np.ndarray:
        if random.random() < 0.3:
            return np.arange(random.integers(0, 5), random.integers(0, 20))
        return np.array(sorted(set(random.integers(-reach, reach, random.integers(0, 30)).tolist())), np.int64)

    a, b, c = drawn(), drawn(), drawn()
    if random.random() < 0.2:
        b = a.copy()
    one, other = set(a.tolist()), set(b.tolist())
    assert common(a, b).tolist() == sorted(one & other)
    assert without(a, b).tolist() == sorted(one - other)
    assert together(a, b, c).tolist() == sorted(one | other | set(c.tolist()))
    values = random.integers(-reach, reach, 50)
    assert inside(values, a).tolist() == [value in one for value in values.tolist()]
    found, position = numbered(values)
    assert found.tolist() == sorted(set(values.tolist()))
    assert found[position].tolist() == values.tolist()
    assert distinct(np.sort(values)).tolist() == sorted(set(values.tolist()))


@pytest.mark.parametrize("largest", [0, 1, 300, 70_000, 2**33, 2**50])
def test_places_are_put_in_order(largest: int) -> None:
    places = np.random.default_rng(largest).integers(0, largest + 1, 2_000)
    assert by_bytes(places).tolist() == np.argsort(places, kind="stable").tolist()
    assert by_bytes(np.sort(places)).tolist() == list(range(2_000))
    assert by_bytes(places[:0]).tolist() == []
