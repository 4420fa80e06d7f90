"""Negation: of each value as many tuples of the left input as it has more than the right one (UPA, equation 1).

The left tuples of a value are a chain in order of arrival; its entry counts them (v₁, COUNT), those of the right input
(v₂, MORE) and those in the result (SHOWN), and marks the oldest one in the result. The oldest is taken away, the
youngest comes back, so those not shown are always the beginning of the chain, and either is one step. Why the
beginning: taking the oldest shown makes the beginning longer, bringing back the youngest hidden makes it shorter, and
a new tuple is shown if v₁ > v₂ and otherwise finds nothing shown.

Equation 1 holds after each delta. The paper leaves out one case: when a hidden tuple leaves the left window, v₁ − v₂
falls while nothing shown has gone, so the oldest shown is taken away then too.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.operators.buffers import delist, entry_of, find_entry, find_tuple, free_if_empty, give_back, insert, unchain
from weir.operators.deltas import miss, tell
from weir.operators.layout import (
    AFTER,
    BEFORE,
    COUNT,
    ENDS,
    ENTRY,
    EXPIRES,
    FLAG,
    LAST,
    LEFT,
    MARKED,
    MORE,
    NOW,
    P0,
    PREMATURE,
    RESULTS,
    RIGHT,
    ROW,
    SHOWN,
    SIDE,
    SIGN,
    VALUES,
    Memory,
)

# What P0 of a negation says: the attribute of the right input that is compared.


@lean
def balance(m: Memory, n: Scalar, e: Scalar) -> None:
    """Take away or bring back until as many of a value are shown as equation 1 says."""
    wanted = max(m.entries[e, COUNT] - m.entries[e, MORE], 0)
    while m.entries[e, SHOWN] > wanted:
        s = m.entries[e, MARKED]
        m.entries[e, MARKED] = m.slots[s, AFTER]
        m.entries[e, SHOWN] -= 1
        m.slots[s, FLAG] = 0
        if m.slots[s, EXPIRES] > m.state[NOW]:
            m.state[PREMATURE] += 1
        tell(m, n, -1, m.slots, s, ROW, m.slots[s, EXPIRES])
    while m.entries[e, SHOWN] < wanted:
        oldest = m.entries[e, MARKED]
        show(m, n, e, m.slots[oldest, BEFORE] if oldest >= 0 else m.entries[e, LAST])
    free_if_empty(m, e)


@lean
def show(m: Memory, n: Scalar, e: Scalar, s: Scalar) -> None:
    """Show a tuple; it becomes the oldest that is shown unless there are older ones."""
    if m.entries[e, MARKED] < 0 or m.slots[s, AFTER] == m.entries[e, MARKED]:
        m.entries[e, MARKED] = s
    m.entries[e, SHOWN] += 1
    m.slots[s, FLAG] = 1
    m.state[RESULTS] += 1
    tell(m, n, 1, m.slots, s, ROW, m.slots[s, EXPIRES])


@lean
def left_ends(m: Memory, n: Scalar, s: Scalar) -> None:
    """Drop a left tuple that is in no order list any more, and say so if its end has to be told."""
    e = m.slots[s, ENTRY]
    if m.slots[s, FLAG] == 1:
        if m.entries[e, MARKED] == s:
            m.entries[e, MARKED] = m.slots[s, AFTER]
        m.entries[e, SHOWN] -= 1
        tell(m, n, -1, m.slots, s, ROW, m.slots[s, EXPIRES])
    unchain(m, s)
    give_back(m, s)
    balance(m, n, e)


@lean
def right_ends(m: Memory, n: Scalar, s: Scalar) -> None:
    """A right tuple has expired, and is in no order list any more."""
    e = find_entry(m, m.nodes[n, LEFT], m.slots, s, ROW + m.nodes[n, P0])
    give_back(m, s)
    m.entries[e, MORE] -= 1
    balance(m, n, e)


@lean
def negate(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let a delta come to a negation."""
    left, right, sign, expires = m.nodes[n, LEFT], m.nodes[n, RIGHT], m.ring[q, SIGN], m.ring[q, ENDS]
    if m.ring[q, SIDE] == 0:
        if sign > 0:
            s = insert(m, left, m.ring, q, VALUES, expires)
            e = m.slots[s, ENTRY]
            if m.entries[e, COUNT] > m.entries[e, MORE]:
                show(m, n, e, s)
            return
        s = find_tuple(m, left, m.ring, q, VALUES, expires)
        if s < 0:
            miss(m)
            return
        delist(m, left, s)
        left_ends(m, n, s)
        return
    e = entry_of(m, left, m.ring, q, VALUES + m.nodes[n, P0])
    m.entries[e, MORE] += sign
    if right >= 0:  # without negative tuples the right input is kept to know when its tuples end
        if sign > 0:
            insert(m, right, m.ring, q, VALUES, expires)
        else:
            s = find_tuple(m, right, m.ring, q, VALUES, expires)
            if s < 0:
                miss(m)
                m.entries[e, MORE] += 1
            else:
                delist(m, right, s)
                give_back(m, s)
    balance(m, n, e)
