"""Runs: the partners of a band join in the order of what their differences with an event are made of.

A band join compares d = u − b, where u belongs to a partner and b to the event. Partners are sorted by u, so for one
event their differences ascend too, and "the first partner with d >= lo" is a search. Two kinds of numbers are told
apart by `is_double`: whole ones (numbers, decimals, times: u and b are int64, and nobody asks for a difference that
leaves int64), and doubles, which are kept as their bits. A difference of doubles is the rounded one, as SQL has it;
rounding is monotone, so the order holds, and keys (`weir.index.keys`) put NaN above all.

A long run has a *ladder*: cells of equal width over u that lead to the first partner of each, so that most searches
end after one comparison. Whole numbers that lie close enough have a cell each, which says all there is to say. Other
cells are found by floating point, which may be off by rounding; a search goes on from there in either direction, and
comparing differences decides. Beside cells for each number there is a bit for each number, set if a partner has it:
whether a short interval holds a partner is one look at these, which stay in the cache where cells would not.

Size: 64 bytes a partner for a ladder, but at most 16 MB, made for a batch. Cost: a pass over the run to build it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s, frozen, read_only
from weir.index.histograms import Floats
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.instructions import bits_of, double_of, pick
from weir.index.meeting.lean import lean

NAN_KEY = np.int64(0x7FF8_0000_0000_0000)  # the key of NaN
_MAGNITUDE = np.int64(KEY_MAX)
_CELLS_PER_PARTNER = 16
_CELLS_MAX = 1 << 22
_LADDER_MIN = 256  # partners from which on a run has a ladder
_EXACT = 2.0**-44  # a cell is at least this share of the largest number wide, so that rounding stays within one


class PartnerRun(NamedTuple):
    """The partners that events meet, each event a stretch of them."""

    values: Int64s  # int64[m+1]: u, as a number or as the bits of a double; ascending within a stretch, none is NULL
    is_double: bool
    cells: Int32s  # int32[c+1]: the first place of each cell of the whole run; empty: there is no ladder
    scale: Floats  # float64[2]: cell = u · scale[0] + scale[1]
    units: Int64s  # int64[2]: the number of cell 0, and 1 if each number has a cell of its own, else 0
    bits: npt.NDArray[np.uint64]  # uint64[·]: with cells for each number, bit k is set if the number of cell k occurs


_NO_CELLS, _NO_SCALE, _NO_UNITS = np.empty(0, np.int32), np.zeros(2), np.zeros(2, np.int64)
_NO_BITS = np.empty(0, np.uint64)


def plain_run(values: Int64s) -> PartnerRun:
    """Partners of a join that compares no differences."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    return frozen(PartnerRun(values, False, _NO_CELLS, _NO_SCALE, _NO_UNITS, _NO_BITS))


def make_run(values: Int64s, is_double: bool, *, is_one: bool) -> PartnerRun:
    """`is_one`: all events meet all partners, so that a ladder over them serves."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    cells, scale, units, bits = _NO_CELLS, _NO_SCALE, _NO_UNITS, _NO_BITS
    if is_one and len(values) >= _LADDER_MIN:
        first, last = int(values[0]), int(values[-1])
        n_cells = min(_CELLS_PER_PARTNER * len(values), _CELLS_MAX)
        if not is_double and last - first < n_cells:
            cells, units = np.empty(last - first + 3, dtype=np.int32), np.array([first - 1, 1], np.int64)
            _fill_units(read_only(values), first - 1, cells)
            bits = np.zeros((len(cells) >> 6) + 3, dtype=np.uint64)
            _set_bits(read_only(values), first - 1, bits)
        else:
            numbers = values.view(np.float64) if is_double else values.astype(np.float64)
            finite = numbers[np.isfinite(numbers)]
            if len(finite):
                cells, scale = _ladder(numbers, float(finite[0]), float(finite[-1]), _CELLS_PER_PARTNER * len(numbers))
    padded = np.append(values, KEY_MAX)  # a place behind the last may be read, though nothing follows from it
    return frozen(PartnerRun(padded, is_double, cells, scale, units, bits))


def ladder(numbers: Floats) -> tuple[Int32s, Floats]:
    """A cell a number, over ascending ones; empty if there is none."""
    finite = numbers[np.isfinite(numbers)]
    if len(finite) == 0:
        return _NO_CELLS, _NO_SCALE
    return _ladder(numbers, float(finite[0]), float(finite[-1]), len(numbers))


def _ladder(numbers: Floats, first: float, last: float, n_cells: int) -> tuple[Int32s, Floats]:
    with np.errstate(over="ignore"):
        width = max((last - first) / n_cells, max(abs(first), abs(last)) * _EXACT, np.finfo(np.float64).tiny)
    if not np.isfinite(width):
        return _NO_CELLS, _NO_SCALE
    scale = np.array([1.0 / width, 2.0 - first / width])  # two cells before the first number, so that none is cut off
    n_cells = int((last - first) / width) + 4
    if not np.all(np.isfinite(scale)):
        return _NO_CELLS, _NO_SCALE
    cells = np.empty(n_cells + 1, dtype=np.int32)
    _fill(read_only(numbers), read_only(scale), cells)
    return cells, scale


@kernel
def _fill_units(values: Int64s, first: Scalar, cells: Int32s) -> None:
    """cells[k] is the first place whose value is not below first + k."""
    filled = 0
    for place in range(len(values)):
        while filled <= values[place] - first:
            cells[filled] = place
            filled += 1
    while filled < len(cells):
        cells[filled] = len(values)
        filled += 1


@kernel
def _set_bits(values: Int64s, first: Scalar, bits: npt.NDArray[np.uint64]) -> None:
    for value in values:
        cell = np.uint64(value - first)
        bits[cell >> np.uint64(6)] |= np.uint64(1) << (cell & np.uint64(63))


@kernel
def _fill(numbers: Floats, scale: Floats, cells: Int32s) -> None:
    """cells[k] is the first place whose number lies in cell k or after it."""
    filled = 0
    last = np.float64(len(cells) - 1)
    for place in range(len(numbers)):
        at = numbers[place] * scale[0] + scale[1]
        cell = np.int64(min(max(at, 0.0), last)) if at == at else len(cells) - 1
        while filled <= cell:
            cells[filled] = place
            filled += 1
    while filled < len(cells):
        cells[filled] = len(numbers)
        filled += 1


def bits_of_keys(keys: Int64s) -> Int64s:
    """The bits of the doubles that have these keys."""
    return np.where(keys < 0, keys ^ _MAGNITUDE, keys)


@kernel
def cut(values: Int64s, offset: Int64s, begin: Int64s, end: Int64s) -> None:
    """Leave out the partners of each event whose difference, of whole numbers, is no key: those at one of the ends."""
    for e in range(len(offset)):
        b = offset[e]
        while begin[e] < end[e] and b > 0 and values[begin[e]] < KEY_MIN + b:
            begin[e] += 1
        while begin[e] < end[e] and b < 0 and values[end[e] - 1] > KEY_MAX + b:
            end[e] -= 1


@lean
def key_of_double(number: Scalar) -> Scalar:
    """The key of one double (`weir.index.keys`)."""
    if number != number:
        return NAN_KEY
    bits = bits_of(number + 0.0)
    return bits ^ _MAGNITUDE if bits < 0 else bits


@lean
def difference(value: Scalar, offset: Scalar, is_double: Scalar) -> Scalar:
    """The key of u − b."""
    if is_double:
        return key_of_double(double_of(value) - double_of(offset))
    return value - offset


@lean
def first_not_below(run: PartnerRun, begin: Scalar, end: Scalar, key: Scalar, offset: Scalar) -> Scalar:
    """The first place whose difference is not below `key`; as many steps for all keys."""
    values, is_double = run.values, run.is_double
    low, n = begin, end - begin
    while n > 0:
        half = (n + 1) >> 1
        low = low + half if difference(values[low + half - 1], offset, is_double) < key else low
        n -= half
    return low


@lean
def is_finite(offset: Scalar, is_double: Scalar) -> Scalar:
    """Whether cells say anything about differences with it."""
    number = double_of(offset) if is_double else 0.0
    return number - number == 0.0


@lean
def is_whole(run: PartnerRun, begin: Scalar, end: Scalar, offset: Scalar) -> Scalar:
    """Whether the ladder serves: there is one, it is of these partners, and cells say something about differences."""
    return len(run.cells) > 0 and begin == 0 and end == len(run.values) - 1 and is_finite(offset, run.is_double)


@lean
def climb(run: PartnerRun, begin: Scalar, end: Scalar, key: Scalar, offset: Scalar) -> Scalar:
    """`first_not_below` by the ladder, where it serves."""
    if not is_whole(run, begin, end, offset):
        return first_not_below(run, begin, end, key, offset)
    if run.is_double:
        number = double_of(key ^ _MAGNITUDE if key < 0 else key) + double_of(offset)
    else:
        moved = key + offset
        if (key ^ moved) & (offset ^ moved) < 0:  # key + b leaves int64, as no partner does
            return end if offset > 0 else begin
        if run.units[1] == 1:
            if moved <= run.units[0]:
                return begin
            cell = np.uint64(moved) - np.uint64(run.units[0])
            return np.int64(run.cells[min(cell, np.uint64(len(run.cells) - 1))])
        number = np.float64(moved)
    at = number * run.scale[0] + run.scale[1]
    if at != at:
        return first_not_below(run, begin, end, key, offset)
    return walk(run, np.int64(run.cells[np.int64(min(max(at, 0.0), np.float64(len(run.cells) - 1)))]), end, key, offset)


@lean
def walk(run: PartnerRun, place: Scalar, end: Scalar, key: Scalar, offset: Scalar) -> Scalar:
    """The first place whose difference is not below `key`, from a place near it; the run begins at 0."""
    values, is_double = run.values, run.is_double
    while place > 0 and difference(values[place - 1], offset, is_double) >= key:
        place -= 1
    while place < end and difference(values[place], offset, is_double) < key:
        place += 1
    return place


@lean
def first_above(run: PartnerRun, low: Scalar, end: Scalar, key: Scalar, offset: Scalar) -> Scalar:
    """The first place from `low` on whose difference is above `key`: galloping, as it is near."""
    values, is_double = run.values, run.is_double
    if low >= end or difference(values[low], offset, is_double) > key:
        return low
    step = 1
    while low + step < end and difference(values[low + step], offset, is_double) <= key:
        low += step
        step *= 2
    n = min(step, end - low) - 1
    low += 1
    while n > 0:
        half = (n + 1) >> 1
        low = low + half if difference(values[low + half - 1], offset, is_double) <= key else low
        n -= half
    return low


@lean
def stretch(values: Int64s, begin: Scalar, end: Scalar, lo: Scalar, hi: Scalar) -> tuple[Scalar, Scalar]:
    """The places of the run whose values are within lo .. hi: as begin and end.

    Two binary searches side by side, whose steps depend on the length of the run alone and not on what is found: no
    branch is mispredicted, and neither search waits for the other.
    """
    low, high, n = begin, begin, end - begin
    while n > 1:
        half = n >> 1
        low = pick(values[low + half - 1] < lo, low + half, low)
        high = pick(values[high + half - 1] <= hi, high + half, high)
        n -= half
    if n == 1:
        low = pick(values[low] < lo, low + 1, low)
        high = pick(values[high] <= hi, high + 1, high)
    return low, high
