"""Window join, intersection, and joins with a table (UPA, sections 2.1, 4.1).

Both sides are buffers; a delta goes into (or out of) its own side's and meets the tuples of the other side with its
key. A result lasts as long as the shorter-lived of its two. An intersection is the join on all attributes that shows
its left tuple: equal tuples meet pair by pair, as in the paper, so it is the intersection of sets where its inputs
are sets.

A table is a side whose tuples last forever; a retroactive one is a side like any other. What a *later*
(non-retroactive) table joined with a tuple is what it held when the tuple came: the tuple is not stored, and updates
meet nobody. Only if ends come as negative tuples must the results be kept, in batches of one tuple, because the table
may have changed.

A side may be the output of a duplicate elimination, shared instead of stored twice: then nothing is inserted here,
and a tuple counts from when its delta has come (FLAG), so that each pair is met once.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.operators.buffers import delete, find_entry, find_tuple, insert
from weir.operators.deltas import miss, place_for
from weir.operators.layout import (
    AFTER,
    ARITY,
    BATCH,
    ENDS,
    EXPIRES,
    FIRST,
    FLAG,
    HEAD,
    INTERSECT,
    KEY_AT,
    KEYS,
    KIND,
    LEFT,
    LIST,
    LISTS,
    NEXT,
    NONE,
    NOW,
    OUT,
    P0,
    P1,
    P2,
    P3,
    RIGHT,
    ROW,
    SIDE,
    SIGN,
    SIGNED_IN,
    SIGNED_OUT,
    VALUES,
    WALKED,
    WIDTH,
    Memory,
)

# What P0 to P3 of a join say: the key's first attribute on either side, which sides are shared (a bit each), and how
# many attributes a key has.


@lean
def meet(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let the delta in place `q` of the ring come to a join or an intersection."""
    side, sign, expires = m.ring[q, SIDE], m.ring[q, SIGN], m.ring[q, ENDS]
    own, other = m.nodes[n, LEFT + side], m.nodes[n, RIGHT - side]
    key = VALUES + m.nodes[n, P0 + side]
    if (m.nodes[n, P2] >> side) & 1:
        e = find_entry(m, own, m.ring, q, key)
        m.slots[m.entries[e, FIRST], FLAG] = 1
    elif sign > 0:
        insert(m, own, m.ring, q, VALUES, expires)
    else:
        s = find_tuple(m, own, m.ring, q, VALUES, expires)
        if s < 0:
            miss(m)
            return
        delete(m, own, s)
    if m.buffers[other, KEYS] >= 0:
        e = find_entry(m, other, m.ring, q, key)
        if e >= 0:
            pair(m, n, q, m.entries[e, FIRST], AFTER)
    else:
        for part in range(m.buffers[other, LISTS]):
            pair(m, n, q, m.lists[m.buffers[other, LIST] + part, HEAD], NEXT)


@lean
def pair(m: Memory, n: Scalar, q: Scalar, first: Scalar, link: Scalar) -> None:
    """Make the results of a delta with the tuples from slot `first` on, which follow each other by `link`."""
    side, sign, expires = m.ring[q, SIDE], m.ring[q, SIGN], m.ring[q, ENDS]
    other = m.nodes[n, RIGHT - side]
    n_other, n_keys = m.buffers[other, ARITY], m.nodes[n, P3]
    key, key_there = VALUES + m.nodes[n, P0 + side], ROW + m.nodes[n, P1 - side]
    is_shared = (m.nodes[n, P2] >> (1 - side)) & 1
    alive_after = m.state[NOW] if m.nodes[n, SIGNED_OUT] == 0 else -(1 << 62)
    is_join = m.nodes[n, KIND] != INTERSECT
    n_own = m.nodes[n, WIDTH] - n_other if is_join else m.nodes[n, WIDTH]
    # What comes first in a result: the left tuple's attributes.
    own_at, other_at = (VALUES, VALUES + n_own) if side == 0 else (VALUES + n_other, VALUES)
    s, walked = first, 0
    while s >= 0:
        walked += 1
        following = m.slots[s, link]
        takes = m.slots[s, EXPIRES] > alive_after and (is_shared == 0 or m.slots[s, FLAG] == 1)
        if takes and link == NEXT:
            for k in range(n_keys):
                takes = takes and m.slots[s, key_there + k] == m.ring[q, key + k]
        if takes:
            made = place_for(m, n, sign, min(expires, m.slots[s, EXPIRES]))
            if is_join:
                for k in range(n_own):
                    m.ring[made, own_at + k] = m.ring[q, VALUES + k]
                for k in range(n_other):
                    m.ring[made, other_at + k] = m.slots[s, ROW + k]
            else:
                for k in range(n_own):
                    m.ring[made, VALUES + k] = m.ring[q, VALUES + k]
        s = following
    m.state[WALKED] += walked


@lean
def meet_later(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let the delta in place `q` of the ring come to a join with a non-retroactive table."""
    sign, expires = m.ring[q, SIGN], m.ring[q, ENDS]
    table = m.nodes[n, RIGHT]
    if m.ring[q, SIDE] == 1:
        if sign > 0:
            insert(m, table, m.ring, q, VALUES, expires)
        else:
            s = find_tuple(m, table, m.ring, q, VALUES, expires)
            if s < 0:
                miss(m)
            else:
                delete(m, table, s)
    elif sign > 0:
        e = find_entry(m, table, m.ring, q, VALUES + m.nodes[n, P0])
        s = m.entries[e, FIRST] if e >= 0 else NONE
        keeps = m.nodes[n, SIGNED_IN] == 1
        n_right = m.buffers[table, ARITY]
        n_left = m.nodes[n, WIDTH] - n_right
        m.state[BATCH] += 1
        while s >= 0:
            made = place_for(m, n, 1, expires)
            for k in range(n_left):
                m.ring[made, VALUES + k] = m.ring[q, VALUES + k]
            for k in range(n_right):
                m.ring[made, VALUES + n_left + k] = m.slots[s, ROW + k]
            if keeps:
                kept = insert(m, m.nodes[n, OUT], m.ring, made, VALUES, expires)
                m.slots[kept, FLAG] = m.state[BATCH]
            s = m.slots[s, AFTER]
    else:
        end_batch(m, n, q)


@lean
def end_batch(m: Memory, n: Scalar, q: Scalar) -> None:
    """End the results of one tuple: the oldest batch that it can have made."""
    out, expires = m.nodes[n, OUT], m.ring[q, ENDS]
    e = find_entry(m, out, m.ring, q, VALUES + m.buffers[out, KEY_AT])
    s = m.entries[e, FIRST] if e >= 0 else NONE
    batch, walked = -1, 0
    while s >= 0:
        walked += 1
        after = m.slots[s, AFTER]
        if m.slots[s, EXPIRES] == expires and (batch < 0 or m.slots[s, FLAG] == batch):
            batch = m.slots[s, FLAG]
            made = place_for(m, n, -1, expires)
            for k in range(m.nodes[n, WIDTH]):
                m.ring[made, VALUES + k] = m.slots[s, ROW + k]
            delete(m, out, s)
        elif batch >= 0:
            break  # one batch is one stretch of the chain
        s = after
    m.state[WALKED] += walked
