"""Group-by: count, sum, avg, min or max of an attribute for each group (UPA, section 2.1).

A group is an entry of the node's OUT buffer: COUNT tuples, their sum in MORE, and for min and max the root of a heap of
its tuples in MARKED. The entries are the result: a new value of a group replaces the old one in place, and a group
without tuples has no entry. The input is stored to know when its tuples end; if negative tuples say so, only min and
max need it, and count, sum and avg are kept without.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.operators.buffers import delist, entry_of, find_entry, find_tuple, forget, free_if_empty, insert
from weir.operators.deltas import miss
from weir.operators.heaps import add_to_heap, take_from_heap
from weir.operators.layout import (
    A_MAX,
    A_MIN,
    COUNT,
    ENDS,
    FLAG,
    LEFT,
    MARKED,
    MORE,
    NONE,
    OUT,
    P0,
    P1,
    P2,
    ROW,
    SIGN,
    VALUES,
    Memory,
    Table,
)

# What P0 to P2 of a group-by say: the group's attribute, the aggregated one, and the aggregate.


@lean
def group(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let a delta come to a group-by."""
    own, sign, expires = m.nodes[n, LEFT], m.ring[q, SIGN], m.ring[q, ENDS]
    aggregate = m.nodes[n, P2]
    if sign > 0:
        s = insert(m, own, m.ring, q, VALUES, expires) if own >= 0 else NONE
        e = entry_of(m, m.nodes[n, OUT], m.ring, q, VALUES + m.nodes[n, P0])
        value = m.ring[q, VALUES + m.nodes[n, P1]]
        m.entries[e, COUNT] += 1
        m.entries[e, MORE] += value
        if aggregate in (A_MIN, A_MAX):
            m.slots[s, FLAG] = value if aggregate == A_MIN else -value
            m.entries[e, MARKED] = add_to_heap(m, m.entries[e, MARKED], s)
        return
    s = NONE
    if own >= 0:
        s = find_tuple(m, own, m.ring, q, VALUES, expires)
        if s < 0:
            miss(m)
            return
        delist(m, own, s)
    take_out(m, n, s, m.ring, q, VALUES)


@lean
def ungroup(m: Memory, n: Scalar, s: Scalar) -> None:
    """An input tuple has expired, and is in no order list any more."""
    take_out(m, n, s, m.slots, s, ROW)


@lean
def take_out(m: Memory, n: Scalar, s: Scalar, table: Table, row: Scalar, at: Scalar) -> None:
    """Take the tuple in `table[row, at:]`, which may be stored in slot `s`, out of its group."""
    e = find_entry(m, m.nodes[n, OUT], table, row, at + m.nodes[n, P0])
    aggregate = m.nodes[n, P2]
    m.entries[e, COUNT] -= 1
    m.entries[e, MORE] -= table[row, at + m.nodes[n, P1]]
    if aggregate in (A_MIN, A_MAX):
        m.entries[e, MARKED] = take_from_heap(m, m.entries[e, MARKED], s)
    if s >= 0:
        forget(m, m.nodes[n, LEFT], s)
    if m.entries[e, COUNT] == 0:
        m.entries[e, MORE] = 0
        free_if_empty(m, e)
