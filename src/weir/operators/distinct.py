"""Duplicate elimination: the classic one, and δ* (UPA, sections 2.1, 5.3.1).

The classic one stores its input, by value, and its output, one tuple a value. When an output tuple ends, the youngest
living input tuple with the value follows it.

δ* is for inputs without premature ends. It stores for each value the output tuple and one more, the *auxiliary*: of all
others the one that expires last. The paper calls it the youngest, which is the same if the input expires in order;
after a join the youngest may go before an older one, so expiration decides here. A tuple that expires no later than
the output tuple will never be needed.

In both, output tuples that expire are looked for whenever time moves, since others may have to follow them.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.operators.buffers import (
    delete,
    enlist,
    find_entry,
    find_tuple,
    forget,
    free_if_empty,
    give_back,
    insert,
    take_slot,
)
from weir.operators.deltas import miss, tell
from weir.operators.layout import (
    BEFORE,
    BUFFER,
    ENDS,
    ENTRY,
    EXPIRES,
    FIRST,
    FLAG,
    LAST,
    LEFT,
    MARKED,
    NONE,
    NOW,
    OUT,
    ROW,
    SIGN,
    SIGNED_IN,
    SIGNED_OUT,
    VALUES,
    Memory,
)


@lean
def show_youngest(m: Memory, n: Scalar, e: Scalar) -> None:
    """Let the youngest living tuple of a value into the output; without any the value's entry may go."""
    s = m.entries[e, LAST]
    if m.nodes[n, SIGNED_IN] == 0:
        while s >= 0 and m.slots[s, EXPIRES] <= m.state[NOW]:
            s = m.slots[s, BEFORE]
    if s < 0:
        free_if_empty(m, e)
        return
    shown = insert(m, m.nodes[n, OUT], m.slots, s, ROW, m.slots[s, EXPIRES])
    m.slots[shown, ENTRY] = e
    m.entries[e, MARKED] = shown
    tell(m, n, 1, m.slots, s, ROW, m.slots[s, EXPIRES])


@lean
def distinct_classic(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let a delta come to the classic duplicate elimination."""
    own, expires = m.nodes[n, LEFT], m.ring[q, ENDS]
    if m.ring[q, SIGN] > 0:
        e = m.slots[insert(m, own, m.ring, q, VALUES, expires), ENTRY]
        if m.entries[e, MARKED] < 0:
            show_youngest(m, n, e)
        return
    s = find_tuple(m, own, m.ring, q, VALUES, expires)
    if s < 0:
        miss(m)
        return
    e = m.slots[s, ENTRY]
    shown = m.entries[e, MARKED]
    if m.slots[shown, EXPIRES] != expires:
        delete(m, own, s)
        return
    tell(m, n, -1, m.slots, shown, ROW, expires)
    delete(m, own, s)  # the entry stays, because a tuple is marked
    delete(m, m.nodes[n, OUT], shown)
    m.entries[e, MARKED] = NONE
    show_youngest(m, n, e)


@lean
def follow(m: Memory, n: Scalar, shown: Scalar) -> None:
    """An output tuple of the classic one has expired: another follows it."""
    e = m.slots[shown, ENTRY]
    if m.nodes[n, SIGNED_OUT] == 1:
        tell(m, n, -1, m.slots, shown, ROW, m.slots[shown, EXPIRES])
    give_back(m, shown)
    m.entries[e, MARKED] = NONE
    show_youngest(m, n, e)


@lean
def distinct_star(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let a delta come to δ*."""
    own, expires = m.nodes[n, LEFT], m.ring[q, ENDS]
    e = find_entry(m, own, m.ring, q, VALUES)
    if e < 0:
        insert(m, own, m.ring, q, VALUES, expires)
        tell(m, n, 1, m.ring, q, VALUES, expires)
        return
    if expires <= m.slots[m.entries[e, FIRST], EXPIRES]:
        return
    auxiliary = m.entries[e, MARKED]
    if auxiliary < 0:
        m.entries[e, MARKED] = take_slot(m, m.nodes[n, OUT], expires)
    elif expires > m.slots[auxiliary, EXPIRES]:
        m.slots[auxiliary, EXPIRES] = expires


@lean
def follow_star(m: Memory, n: Scalar, shown: Scalar) -> None:
    """An output tuple of δ* has expired: the auxiliary follows it, in its slot, for their attributes are equal."""
    e, own = m.slots[shown, ENTRY], m.slots[shown, BUFFER]
    auxiliary, expired = m.entries[e, MARKED], m.slots[shown, EXPIRES]
    if m.nodes[n, SIGNED_OUT] == 1:
        tell(m, n, -1, m.slots, shown, ROW, expired)
    expires = m.state[NOW]
    if auxiliary >= 0:
        expires = m.slots[auxiliary, EXPIRES]
        give_back(m, auxiliary)
        m.entries[e, MARKED] = NONE
    if expires <= m.state[NOW]:
        forget(m, own, shown)
        return
    m.slots[shown, EXPIRES] = expires
    m.slots[shown, FLAG] = 0
    enlist(m, own, shown)
    tell(m, n, 1, m.slots, shown, ROW, expires)
