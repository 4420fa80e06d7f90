"""Partners: the rows of one side of a join by join key, and within a key by one access attribute.

What a B-tree on S(B, C) is to SSI 3.2: `offsets` leads from a key to its run, within which `values` ascend, so the
partners of an event with c in a range are one stretch of places. Rows with a NULL key are not there, because NULL
equals nothing; a NULL in the access attribute sorts first.

Invariants: keys ascend strictly; every run is non-empty; within a run values ascend, and rows where values are equal.
Cost: a sort to build; a lookup is O(log k) key comparisons, of which sorted events share most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, frozen, read_only
from weir.index.jit import kernel
from weir.index.keys import NULL_KEY


class Partners(NamedTuple):
    """Rows of one side, in the order of (join key, access attribute)."""

    keys: Int64s  # int64[k]: distinct join keys, ascending
    offsets: Int64s  # int64[k+1]: the places of key i are offsets[i] .. offsets[i+1]
    values: Int64s  # int64[m]: access attribute of each place, ascending within a key
    rows: Int32s  # int32[m]: position of each place's row in its segment


def build_partners(keys: Int64s, values: Int64s) -> Partners:
    """The rows in order; those whose key is NULL_KEY are left out."""
    known = np.flatnonzero(keys != NULL_KEY)
    keys, values = keys[known], values[known]
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else np.empty(0, np.int64)
    offsets = np.append(begins, len(keys)).astype(np.int64)
    return frozen(Partners(keys[begins], offsets, values, known[order].astype(np.int32)))


def locate(partners: Partners, keys: Int64s) -> tuple[Int64s, Int64s]:
    """Begin and end of each event's run of places; equal where there is none."""
    begin, end = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    _locate(read_only(partners.keys), read_only(partners.offsets), read_only(np.ascontiguousarray(keys)), begin, end)
    return begin, end


@kernel
def _locate(known: Int64s, offsets: Int64s, keys: Int64s, begin: Int64s, end: Int64s) -> None:
    """Binary search of every key; an event with the key of the one before has its run too."""
    n = len(known)
    for e in range(len(keys)):
        key = keys[e]
        if e > 0 and key == keys[e - 1]:
            begin[e], end[e] = begin[e - 1], end[e - 1]
            continue
        low, high = 0, n
        while low < high:
            middle = (low + high) >> 1
            if known[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low < n and known[low] == key:
            begin[e], end[e] = offsets[low], offsets[low + 1]
        else:
            begin[e] = end[e] = 0
