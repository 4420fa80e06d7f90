"""Entries of band joins: NULL left out, overflow left out, −inf − (−inf) on its own."""

from __future__ import annotations

import numpy as np

from weir.index.bands.spread import spread
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_doubles


def test_nulls_are_left_out_at_the_beginning_of_each_stretch() -> None:
    values = np.array([NULL_KEY, NULL_KEY, 3, 5, NULL_KEY, 1, 7], np.int64)
    found = spread(values, np.array([9, NULL_KEY, 2]), np.array([0, 0, 4]), np.array([4, 4, 7]), is_double=False)
    assert found.nulls == 2
    assert found.event.tolist() == [2, 0], "by what events bring, those without it left out"
    stretches = [found.values[b:e].tolist() for b, e in zip(found.begin, found.end, strict=True)]
    assert stretches == [[1, 7], [3, 5]]


def test_differences_beyond_int64_are_left_out() -> None:
    values = np.array([KEY_MIN, KEY_MIN + 5, 0, KEY_MAX - 5, KEY_MAX], np.int64)
    offset = np.array([-5, 0, 5, -6], np.int64)
    begin, end = np.zeros(4, np.int64), np.full(4, 5)
    found = spread(values, offset, begin, end, is_double=False)
    by_event = {
        int(offset[e]): found.values[b:x].tolist() for e, b, x in zip(found.event, found.begin, found.end, strict=True)
    }
    assert by_event[0] == values.tolist()
    assert by_event[5] == values[1:].tolist()
    assert by_event[-5] == values[:4].tolist()
    assert by_event[-6] == values[:3].tolist()


def test_minus_infinity_from_minus_infinity_is_an_entry_of_its_own() -> None:
    numbers = np.array([-np.inf, -np.inf, 0.5, np.inf, np.nan])
    own = encode_doubles(np.array([1.0, -np.inf]))
    found = spread(encode_doubles(numbers), own, np.zeros(2, np.int64), np.full(2, 5), is_double=True)
    assert np.array_equal(found.values.view(np.float64), numbers, equal_nan=True)
    entries = [
        (int(e), float(b), first, last)
        for e, b, first, last in zip(
            found.event, found.offset.view(np.float64), found.begin.tolist(), found.end.tolist(), strict=True
        )
    ]
    assert entries[:2] == [(1, -np.inf, 2, 5), (0, 1.0, 0, 5)]
    event, offset, first, last = entries[2]
    assert (event, first, last) == (1, 0, 2)
    assert np.isnan(offset), "every difference of this entry is NaN"


def test_a_stretch_of_nulls_before_another_that_begins_with_one() -> None:
    values = np.array([NULL_KEY, NULL_KEY, 7], dtype=np.int64)
    made = spread(values, np.array([7, 7]), np.array([0, 1]), np.array([1, 3]), is_double=False)
    assert made.nulls == 2
    assert made.values.tolist() == [7]
    stretches = sorted((e, b, n) for e, b, n in zip(made.event, made.begin, made.end, strict=True))
    assert stretches == [(0, 0, 0), (1, 0, 1)]
