"""One loop over all arrivals: time passes, what has expired is dealt with, the tuple comes, its deltas are processed.

When time moves, buffers expire in turn, inputs before what is above them: eager ones each time, lazy ones when their
interval has passed. Only then are deltas processed, so that an operator has expired all that it stores before anything
of the new moment comes to it. Each arrival is processed by the whole plan before the next (UPA, section 2).

The loop stops where room may get short, and is called again with larger arrays; all it knows is in `state`. Room is
looked at before each step for the most that the step can take, so a step is never left half done.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index.jit import Scalar, kernel
from weir.index.meeting.lean import lean
from weir.operators.buffers import delete, delist, find_tuple, give_back, insert, pop_expired
from weir.operators.deltas import miss, tell
from weir.operators.distinct import distinct_classic, distinct_star, follow, follow_star
from weir.operators.grouping import group, ungroup
from weir.operators.joins import meet, meet_later
from weir.operators.layout import (
    ARRIVED,
    AT,
    CHUNK,
    COUNTED,
    CROWDED,
    DELTAS,
    DISTINCT_ROWS,
    DISTINCT_STAR,
    DONE,
    DUE,
    ENDS,
    EVERY,
    EXPIRES,
    FILTER,
    FOREVER,
    FREE_ENTRIES,
    FREE_SLOTS,
    GROUP,
    HEAD,
    INTERSECT,
    JOIN,
    KIND,
    LANDMARK,
    LAST_ROWS,
    LATER_JOIN,
    LEFT,
    LEFT_ENDS,
    LIST,
    MORE_BUCKETS,
    MORE_ENTRIES,
    MORE_PARTITIONS,
    MORE_RING,
    MORE_SLOTS,
    NEGATE,
    NEGATIVES,
    NODE,
    NOW,
    OUT,
    P0,
    P1,
    P2,
    P3,
    PARENT,
    PHASE,
    PORT,
    POSITION,
    PROJECT,
    RIGHT,
    RIGHT_ENDS,
    RING_COUNT,
    RING_FIRST,
    ROLE,
    ROW,
    SHOW_AUXILIARY,
    SHOW_OTHER,
    SIDE,
    SIGN,
    SIGNED_IN,
    SIZE,
    STRAINED,
    TELL,
    UNGROUP,
    UNION,
    VALUES,
    VIEW,
    WINDOW,
    Memory,
    Table,
)
from weir.operators.negation import left_ends, negate, right_ends

Numbers = npt.NDArray[np.int64]
_SPARE = 8  # what any step may take beside what it takes for each tuple that it meets


@lean
def through(m: Memory, q: Scalar) -> Scalar:
    """Take the delta in place `q` through filters, projections and unions, up to a node with state; NONE: dropped."""
    n = m.ring[q, AT]
    while True:
        kind = m.nodes[n, KIND]
        if kind == FILTER:
            value = m.ring[q, VALUES + m.nodes[n, P0]]
            if (m.nodes[n, P1] <= value <= m.nodes[n, P2]) != (m.nodes[n, P3] == 1):
                return -1
        elif kind == PROJECT:
            # Picked attributes are written behind the tuple first, because they may be picked in any order.
            first, count = m.nodes[n, P0], m.nodes[n, P1]
            spare = m.ring.shape[1] - count
            for k in range(count):
                m.ring[q, spare + k] = m.ring[q, VALUES + m.picks[first + k]]
            for k in range(count):
                m.ring[q, VALUES + k] = m.ring[q, spare + k]
        elif kind != UNION:
            return n
        m.ring[q, SIDE] = m.nodes[n, PORT]
        n = m.nodes[n, PARENT]


@lean
def process(m: Memory, n: Scalar, q: Scalar) -> None:
    """Let a delta come to a node with state."""
    kind = m.nodes[n, KIND]
    m.state[DELTAS] += 1
    if m.ring[q, SIGN] < 0:
        m.state[NEGATIVES] += 1
    if kind == VIEW:
        view, expires = m.nodes[n, LEFT], m.ring[q, ENDS]
        if m.ring[q, SIGN] > 0:
            insert(m, view, m.ring, q, VALUES, expires)
        else:
            s = find_tuple(m, view, m.ring, q, VALUES, expires)
            if s < 0:
                miss(m)
            else:
                delete(m, view, s)
    elif kind in (JOIN, INTERSECT):
        meet(m, n, q)
    elif kind == DISTINCT_STAR:
        distinct_star(m, n, q)
    elif kind == DISTINCT_ROWS:
        distinct_classic(m, n, q)
    elif kind == GROUP:
        group(m, n, q)
    elif kind == NEGATE:
        negate(m, n, q)
    else:
        meet_later(m, n, q)


@lean
def expire(m: Memory, b: Scalar) -> Scalar:
    """Deal with tuples of a buffer that have expired; whether these were all."""
    found = pop_expired(m, b, m.state[NOW])
    role, n = m.buffers[b, ROLE], m.buffers[b, NODE]
    for k in range(found):
        s = m.popped[k]
        if role == TELL:
            tell(m, n, -1, m.slots, s, ROW, m.slots[s, EXPIRES])
            give_back(m, s)
        elif role == SHOW_OTHER:
            follow(m, n, s)
        elif role == SHOW_AUXILIARY:
            follow_star(m, n, s)
        elif role == LEFT_ENDS:
            left_ends(m, n, s)
        elif role == RIGHT_ENDS:
            right_ends(m, n, s)
        elif role == UNGROUP:
            ungroup(m, n, s)
    return found < CHUNK


@lean
def arrive(m: Memory, source: Scalar, sign: Scalar, time: Scalar, rows: Table, row: Scalar) -> None:
    """Let a tuple of a stream come to its windows, or a change of a table to its joins."""
    for k in range(len(m.leaves)):
        n = m.leaves[k]
        if m.nodes[n, P0] != source:
            continue
        kind, window, expires = m.nodes[n, KIND], m.nodes[n, LEFT], FOREVER
        if kind == LANDMARK and time <= m.nodes[n, P1]:
            continue
        if kind == WINDOW:
            expires = time + m.nodes[n, P1]
        elif kind == LAST_ROWS:
            m.state[ARRIVED] += 1
            expires = COUNTED + m.state[ARRIVED]
        if window >= 0:
            insert(m, window, rows, row, 0, expires)
        tell(m, n, sign, rows, row, 0, expires)
        if kind == LAST_ROWS and m.buffers[window, SIZE] > m.nodes[n, P1]:
            s = m.lists[m.buffers[window, LIST], HEAD]
            delist(m, window, s)
            tell(m, n, -1, m.slots, s, ROW, m.slots[s, EXPIRES])
            give_back(m, s)


@lean
def shortage(m: Memory, slots: Scalar, entries: Scalar, deltas: Scalar) -> Scalar:
    """What has to grow before a step that takes at most so many; DONE if nothing."""
    if m.state[CROWDED] >= 0:
        return MORE_BUCKETS
    if m.state[STRAINED] >= 0:
        return MORE_PARTITIONS
    if m.state[FREE_SLOTS] < slots:
        return MORE_SLOTS
    if m.state[FREE_ENTRIES] < entries:
        return MORE_ENTRIES
    if m.ring.shape[0] - m.state[RING_COUNT] < deltas:
        return MORE_RING
    return DONE


@kernel
def run(m: Memory, times: Numbers, sources: Numbers, signs: Numbers, rows: Table, until: Scalar) -> Scalar:
    """Process arrivals from POSITION on, then let time pass until `until`; DONE, or what has to grow first."""
    n_arrivals = len(times)
    n_turns = len(m.turns)
    at_arrival = 2 * len(m.leaves) + _SPARE
    while True:
        short = DONE
        while short == DONE and m.state[PHASE] < n_turns:
            b = m.turns[m.state[PHASE]]
            if m.buffers[b, EVERY] == 0 or m.state[NOW] >= m.buffers[b, DUE]:
                short = shortage(m, 2 * CHUNK, 2 * CHUNK, 4 * CHUNK)
                if short == DONE and expire(m, b):
                    m.buffers[b, DUE] = m.state[NOW] + m.buffers[b, EVERY]
                    m.state[PHASE] += 1
            else:
                m.state[PHASE] += 1
        while short == DONE and m.state[RING_COUNT] > 0:
            q = m.state[RING_FIRST]
            n = through(m, q)
            if n >= 0:
                results = 0
                kind = m.nodes[n, KIND]
                if kind in (JOIN, INTERSECT):
                    results = m.buffers[m.nodes[n, RIGHT - m.ring[q, SIDE]], SIZE]
                elif kind == LATER_JOIN:
                    results = m.buffers[m.nodes[n, RIGHT], SIZE]
                    if m.nodes[n, SIGNED_IN] == 1:
                        results += m.buffers[m.nodes[n, OUT], SIZE]
                short = shortage(m, _SPARE + (results if kind == LATER_JOIN else 0), _SPARE, _SPARE + results)
                if short != DONE:
                    m.ring[q, AT] = n  # it has come this far
                    break
                process(m, n, q)
            m.state[RING_FIRST] = (q + 1) & (m.ring.shape[0] - 1)
            m.state[RING_COUNT] -= 1
        if short != DONE:
            return short
        k = m.state[POSITION]
        time = times[k] if k < n_arrivals else until
        if time > m.state[NOW]:
            m.state[NOW] = time
            m.state[PHASE] = 0
        elif k < n_arrivals:
            short = shortage(m, at_arrival, at_arrival, at_arrival)
            if short != DONE:
                return short
            arrive(m, sources[k], signs[k], time, rows, k)
            m.state[POSITION] += 1
        else:
            return DONE
