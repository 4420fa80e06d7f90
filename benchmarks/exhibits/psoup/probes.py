"""Step 5 of a new join query (PSoup 3.2.2 and 5.4): hybrid structs probe the data of S, one by one or as a composite.

The query is (R.a RELOP1 c1) AND (R.a RELOP2 S.b) AND (S.b RELOP3 c2). Its probe of R has left a hybrid struct for each
row that RELOP1 lets through: that row's a, which makes of RELOP2 a factor over S.b alone (its *own* factor), and the
factor S.b RELOP3 c2, which all hybrids *share*. R is probed through an index over a, so hybrids ascend by a.

S is kept as a SteM keeps it: its rows in the order of b. A factor is then a stretch of that order, and so is what two
factors leave. All probes give the same answer, the rows of S for each hybrid:

    separate     nested loops: every hybrid probes the order with both its factors, the more selective one first (the
                 shared one if that is an equality, else its own) and the other within what is left
    shared once  the shared factor probes once, and every hybrid looks for its own within what that left: what there is
                 to gain without a merge
    composite    the shared factor probes once; then hybrids and what it left are merged, both from left to right:
                 n + m steps

A probe is a binary search, and for an equality a gallop from there. All write rows by one function, and none makes use
of what other factors imply: that S.b = R.a and S.b < 5 mean R.a < 5 is found out by looking at S.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.meeting.instructions import cycles

EQ, LT, LE, GT, GE = range(5)
FLIPPED = (EQ, GT, GE, LT, LE)  # x op y is y FLIPPED[op] x

PROBES = ("separate", "composite", "shared once")  # a probe's number is its place

_compiled = numba.njit(nogil=True)  # not kernels of the library, so they are not among those that are warmed


class Ordered(NamedTuple):
    """The rows of S in the order of b."""

    values: Int64s  # int64[m]: b, ascending
    rows: Int32s  # int32[m]: the row that has it


class Factors(NamedTuple):
    """What is left of the query when R has been probed: S.b own_op a for each hybrid, and S.b shared_op shared."""

    a: Int64s  # int64[h]: ascending
    own_op: int
    shared_op: int
    shared: int


class Rows(NamedTuple):
    """The rows of S for each hybrid; CSR."""

    offsets: Int64s  # int64[h+1]
    items: Int32s  # int32[p]: rows of S


def ordered(values: Int64s) -> Ordered:
    """The order of b of the given rows."""
    order = np.argsort(values, kind="stable")
    return Ordered(values[order], order.astype(np.int32))


def probe(name: str, data: Ordered, factors: Factors) -> Rows:
    """The rows for each hybrid, by the named probe."""
    offsets = np.zeros(len(factors.a) + 1, np.int64)
    spent(name, data, factors, offsets, np.empty(0, np.int32), silent=True)
    items = np.empty(offsets[-1], np.int32)
    spent(name, data, factors, offsets, items, silent=False)
    return Rows(offsets, items)


def spent(name: str, data: Ordered, factors: Factors, offsets: Int64s, items: Int32s, *, silent: bool) -> int:
    """Cycles of one probe, which leaves its answer in `offsets` and `items`; `silent`: rows are only counted."""
    taken: int = _spent(PROBES.index(name), *data, *factors, silent, offsets, items)
    return taken


@_compiled
def _spent(
    number: Scalar,
    values: Int64s,
    rows: Int32s,
    a: Int64s,
    own_op: Scalar,
    shared_op: Scalar,
    shared: Scalar,
    silent: Scalar,
    offsets: Int64s,
    items: Int32s,
) -> Scalar:
    begun = cycles()
    if number == 0:
        _separate(values, rows, a, own_op, shared_op, shared, silent, offsets, items)
    elif number == 1:
        _composite(values, rows, a, own_op, shared_op, shared, silent, offsets, items)
    else:
        _shared_once(values, rows, a, own_op, shared_op, shared, silent, offsets, items)
    return cycles() - begun


@_compiled
def _separate(
    values: Int64s,
    rows: Int32s,
    a: Int64s,
    own_op: Scalar,
    shared_op: Scalar,
    shared: Scalar,
    silent: Scalar,
    offsets: Int64s,
    items: Int32s,
) -> None:
    used = 0
    for h in range(len(a)):
        if shared_op == EQ:
            first, last = _stretch(values, 0, len(values), shared_op, shared)
            first, last = _stretch(values, first, last, own_op, a[h])
        else:
            first, last = _stretch(values, 0, len(values), own_op, a[h])
            first, last = _stretch(values, first, last, shared_op, shared)
        used = _hand_out(rows, first, last, silent, items, used)
        offsets[h + 1] = used


@_compiled
def _shared_once(
    values: Int64s,
    rows: Int32s,
    a: Int64s,
    own_op: Scalar,
    shared_op: Scalar,
    shared: Scalar,
    silent: Scalar,
    offsets: Int64s,
    items: Int32s,
) -> None:
    begin, end = _stretch(values, 0, len(values), shared_op, shared)
    used = 0
    for h in range(len(a)):
        first, last = _stretch(values, begin, end, own_op, a[h])
        used = _hand_out(rows, first, last, silent, items, used)
        offsets[h + 1] = used


@_compiled
def _composite(
    values: Int64s,
    rows: Int32s,
    a: Int64s,
    own_op: Scalar,
    shared_op: Scalar,
    shared: Scalar,
    silent: Scalar,
    offsets: Int64s,
    items: Int32s,
) -> None:
    first, last = _stretch(values, 0, len(values), shared_op, shared)
    used = 0
    below = above = first  # the first places whose value is not below a, and above a
    for h in range(len(a)):
        key = a[h]
        if own_op in (EQ, LT, GE):
            while below < last and values[below] < key:
                below += 1
        if own_op == EQ:
            above = max(above, below)
        if own_op in (EQ, LE, GT):
            while above < last and values[above] <= key:
                above += 1
        if own_op == EQ:
            used = _hand_out(rows, below, above, silent, items, used)
        elif own_op == LT:
            used = _hand_out(rows, first, below, silent, items, used)
        elif own_op == LE:
            used = _hand_out(rows, first, above, silent, items, used)
        elif own_op == GT:
            used = _hand_out(rows, above, last, silent, items, used)
        else:
            used = _hand_out(rows, below, last, silent, items, used)
        offsets[h + 1] = used


@_compiled
def _stretch(values: Int64s, first: Scalar, last: Scalar, op: Scalar, key: Scalar) -> tuple[Scalar, Scalar]:
    """The part of first .. last whose values satisfy a factor."""
    if op == LT:
        return first, _not_below(values, first, last, key)
    if op == LE:
        return first, _not_below(values, first, last, key + 1)
    if op == GT:
        return _not_below(values, first, last, key + 1), last
    first = _not_below(values, first, last, key)
    if op == GE:
        return first, last
    return first, _first_above(values, first, last, key)


@_compiled
def _not_below(values: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The first place whose value is not below `key`; without a branch that depends on the values."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if values[first + half - 1] < key else first
        n -= half
    return first


@_compiled
def _first_above(values: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The same for `key` + 1, which is near: galloping."""
    step = 1
    while first + step <= last and values[first + step - 1] <= key:
        first += step
        step *= 2
    return _not_below(values, first, min(first + step - 1, last), key + 1)


@_compiled
def _hand_out(rows: Int32s, first: Scalar, last: Scalar, silent: Scalar, items: Int32s, used: Scalar) -> Scalar:
    """Append a stretch of rows; returns what is used then."""
    if silent:
        return used + last - first
    for k in range(first, last):
        items[used] = rows[k]
        used += 1
    return used
