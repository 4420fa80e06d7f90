"""Spread: the events of a batch of band joins as stretches of partners whose differences with them ascend.

From keys (`weir.index.keys`) of what events and partners bring to differences. Left out are events and partners that
bring NULL, and of whole numbers the partners whose difference leaves int64, which SQL calls NULL too; they lie at the
ends of a stretch. Of doubles one case does not ascend: −inf − (−inf) is NaN, above all others, though −inf comes first.
Such events get two entries, one without these partners and one with them alone, in which every difference is NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int64s, read_only
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_doubles
from weir.index.meeting.partner_runs import bits_of_keys, cut

_MINUS_INFINITY = int(encode_doubles(np.array([-np.inf]))[0])
_NAN_BITS = np.array([np.nan]).view(np.int64)[0]


class Spread(NamedTuple):
    """Entries, each one an event with a stretch of partners, in the order of what the events bring."""

    event: Int64s  # int64[n]: the event of each entry
    offset: Int64s  # int64[n]: what it brings, as runs have it
    begin: Int64s  # int64[n]
    end: Int64s  # int64[n]
    values: Int64s  # int64[m]: what partners bring, as runs have it
    nulls: int  # partners at the beginning that were taken off: places count from there


def spread(values: Int64s, offset: Int64s, begin: Int64s, end: Int64s, *, is_double: bool) -> Spread:
    """The entries of events with keys `offset` and the partners begin .. end among those with keys `values`."""
    event = np.flatnonzero(offset != NULL_KEY)
    event = event[np.argsort(offset[event], kind="stable")]
    offset, begin, end = offset[event], begin[event], end[event]
    is_null = values == NULL_KEY
    before = np.concatenate([[0], np.cumsum(is_null)])
    begin = begin + (before[end] - before[begin])  # within a stretch NULL comes first
    nulls = int(np.argmin(is_null)) if len(is_null) and not is_null.all() else len(is_null)
    # A stretch of NULLs only ends before the places that are left: it is empty, wherever it is.
    values, begin, end = values[nulls:], np.maximum(begin - nulls, 0), np.maximum(end - nulls, 0)
    if not is_double:
        if len(values) and len(offset):
            widest = max(abs(int(values.min(where=values != NULL_KEY, initial=0))), abs(int(values.max())))
            if widest + max(abs(int(offset.min())), abs(int(offset.max()))) > KEY_MAX:
                begin, end = begin.copy(), end.copy()
                cut(read_only(values), read_only(offset), begin, end)
        return Spread(event, offset, begin, end, values, nulls)
    if len(offset) and offset[0] == _MINUS_INFINITY:
        least = before_first(values, begin, end, _MINUS_INFINITY + 1)
        lowest = offset == _MINUS_INFINITY
        at = np.flatnonzero(lowest & (least > begin))
        event, offset = np.append(event, event[at]), np.append(offset, np.full(len(at), KEY_MIN))
        begin, end = np.append(np.where(lowest, least, begin), begin[at]), np.append(end, least[at])
    bits = np.where(offset == KEY_MIN, _NAN_BITS, bits_of_keys(offset))
    return Spread(event, bits, begin, end, bits_of_keys(values), nulls)


def before_first(values: Int64s, begin: Int64s, end: Int64s, key: int) -> Int64s:
    """For each stretch, its first place that is not below `key`."""
    below = np.concatenate([[0], np.cumsum(values < key)])
    found: Int64s = begin + (below[end] - below[begin])
    return found
