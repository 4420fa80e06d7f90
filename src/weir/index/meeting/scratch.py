"""Scratch: the buffers of one search, and the set of bits that an event's boxes are sorted by.

A strategy leaves an event's boxes in any order, each once. Very few are sorted by insertion, the others by a set of
bits, one bit a box, which is read off in order: all its words if boxes are many, else those that a second set, of words
that are not 0, leads to.

Invariant: the sets of bits are empty between events. Size: 12 bytes a box and 2 a partner row, of which only what is
used is ever touched. Cost: 1 to 2 ns a box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s
from weir.index.histograms import Floats
from weir.index.jit import Scalar
from weir.index.meeting.codes import Uint16s
from weir.index.meeting.instructions import lowest_bit, n_bits, without_lowest_bit
from weir.index.meeting.lean import lean

Uint64s = npt.NDArray[np.uint64]

_FEW_MAX = 8  # boxes of an event that are sorted by insertion
_DENSE = 3  # boxes a word of the set from which on all its words are read
_AT_ONCE = 8  # boxes that are written for a word of the set without a branch
_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)

OUTPUT_SLACK = _AT_ONCE  # places behind the boxes of an event that may be written


class Scratch(NamedTuple):
    """Buffers of a search."""

    found: Int32s  # int32[2n + 1]: boxes of one event as a strategy leaves them
    doubtful: Int32s  # int32[n + 1]: boxes whose codes do not decide
    codes: Uint16s  # uint16[m]: codes of partners plus one, 0 for those that no event met yet
    bits: Uint64s  # uint64[n / 64]: set of boxes
    bit_words: Uint64s  # uint64[n / 4096]: set of the words of `bits` that are not 0
    estimates: Floats  # float64[s]: of one event, by strategy


def make_scratch(n_boxes: int, m_rows: int, n_strategies: int) -> Scratch:
    words = n_boxes // 64 + 1
    return Scratch(
        np.empty(2 * n_boxes + 1, dtype=np.int32),
        np.empty(n_boxes + 1, dtype=np.int32),
        np.zeros(m_rows, dtype=np.uint16),  # pages that nothing is written to cost nothing
        np.zeros(words, dtype=np.uint64),
        np.zeros(words // 64 + 1, dtype=np.uint64),
        np.zeros(n_strategies, dtype=np.float64),
    )


@lean
def keep_unmarked(marks: Uint64s, out: Int32s, used: Scalar, stabbed: Scalar) -> Scalar:
    """Keep of the boxes out[used .. stabbed] those that are not marked, and mark them."""
    at = np.uint64(used)
    for j in range(np.uint64(used), np.uint64(stabbed)):
        box = out[j]
        number = np.uint64(box)
        bit = _ONE << (number & _BIT)
        before = marks[number >> _WORD]
        marks[number >> _WORD] = before | bit
        out[at] = box
        at += np.uint64((before & bit) == 0)
    return np.int64(at)


@lean
def write_sorted(scratch: Scratch, n: Scalar, output: Int32s, used: Scalar) -> Scalar:
    """Write the n boxes found to `output` in ascending order; returns how much is used then."""
    if n > _FEW_MAX:
        return _write_many(scratch, n, output, used)
    for i in range(n):
        box = scratch.found[i]
        place = used + i
        while place > used and output[place - 1] > box:
            output[place] = output[place - 1]
            place -= 1
        output[place] = box
    return used + n


@lean
def _write_many(scratch: Scratch, n: Scalar, output: Int32s, used: Scalar) -> Scalar:
    """The same for many boxes, through a set of bits."""
    found, bits, bit_words = scratch.found, scratch.bits, scratch.bit_words
    if n > _DENSE * len(bits):
        for i in range(np.uint64(n)):
            box = np.uint64(found[i])
            bits[box >> _WORD] |= _ONE << (box & _BIT)
        return _write_all_words(bits, output, used)
    for i in range(np.uint64(n)):
        box = np.uint64(found[i])
        word = box >> _WORD
        bits[word] |= _ONE << (box & _BIT)
        bit_words[word >> _WORD] |= _ONE << (word & _BIT)
    at = np.uint64(used)
    for group in range(np.uint64(len(bit_words))):
        of_group = bit_words[group]
        bit_words[group] = 0
        while of_group:
            word = (group << _WORD) + np.uint64(lowest_bit(of_group))
            of_group = without_lowest_bit(of_group)
            of_word = bits[word]
            bits[word] = 0
            while of_word:
                output[at] = np.int64(word << _WORD) + lowest_bit(of_word)
                of_word = without_lowest_bit(of_word)
                at += _ONE
    return np.int64(at)


@lean
def _write_all_words(bits: Uint64s, output: Int32s, used: Scalar) -> Scalar:
    """Write the boxes of a set with several boxes a word, and empty it.

    _AT_ONCE places are written for every word, whatever it holds, and the next word's go over those that are too many:
    a loop over the bits of a word would mispredict its end for most words.
    """
    at = np.uint64(used)
    for word in range(np.uint64(len(bits))):
        of_word = bits[word]
        bits[word] = 0
        number = np.int64(word << _WORD)
        end = at + np.uint64(n_bits(of_word))
        for i in range(_AT_ONCE):
            output[at + np.uint64(i)] = number + lowest_bit(of_word)
            of_word = without_lowest_bit(of_word)
        at += np.uint64(_AT_ONCE)
        while of_word:
            output[at] = number + lowest_bit(of_word)
            of_word = without_lowest_bit(of_word)
            at += _ONE
        at = end
    return np.int64(at)
