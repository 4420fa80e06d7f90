"""Narrow tables are smaller, and are what they were when they are wide again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from weir.store.narrow_tables import narrowed, widened


@pytest.mark.parametrize("reach", [0, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62])
@pytest.mark.parametrize("first", [-(2**62), -5, 0, 10**15])
def test_they_are_what_they_were(first: int, reach: int) -> None:
    values = np.array([first + reach, first, first + reach // 2])
    table = pa.table({"id": values, "text": ["a", None, "b"], "some": pa.array([1, None, 3]), "last": values[::-1]})
    narrow = narrowed(table)
    assert widened(narrow).equals(table)
    assert (narrow.nbytes < table.nbytes) == (reach < 2**32)


def test_a_table_without_rows_stays() -> None:
    table = pa.table({"id": pa.array([], pa.int64())})
    assert narrowed(table) is table
    assert widened(table).equals(table)
