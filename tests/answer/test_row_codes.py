"""The differences of two bags of rows, beside Python's counters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from weir.answer.row_codes import differences, less


def drawn(random: np.random.Generator) -> pa.Table:
    count = int(random.integers(0, 40))
    return pa.table(
        {
            "n": pa.array(random.integers(0, 3, count), mask=random.random(count) < 0.2),
            "x": pa.array(random.choice([0.0, -0.0, 1.5, float("nan")], count), mask=random.random(count) < 0.2),
            "s": pa.array(random.choice(["a", "b", ""], count).tolist(), pa.string()),
        }
    )


def bag(table: pa.Table) -> Counter[str]:
    return Counter(
        repr([0.0 if v == 0 and isinstance(v, float) else v for v in row.values()]) for row in table.to_pylist()
    )


@pytest.mark.parametrize("seed", range(60))
def test_differences_are_those_of_bags(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = drawn(random), drawn(random)
    more, fewer = differences(one, other)
    assert bag(more) == bag(one) - bag(other)
    assert bag(fewer) == bag(other) - bag(one)
    assert bag(more) == bag(less(one, other))
