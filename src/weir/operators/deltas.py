"""Deltas: tuples on their way to a node, positive or negative, first come first served.

An edge is *signed* if every end of a tuple is told by a negative delta, and *timed* if its expiration says it. On a
timed edge what has expired is not worth a word: such deltas are dropped where they are made, and whoever still stores
the tuple sees its expiration.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean, thin
from weir.operators.layout import (
    AT,
    ENDS,
    LOST,
    NOW,
    PARENT,
    PORT,
    RING_COUNT,
    RING_FIRST,
    SIDE,
    SIGN,
    SIGNED_OUT,
    VALUES,
    WIDTH,
    Memory,
    Table,
)


@thin
def place_for(m: Memory, n: Scalar, sign: Scalar, expires: Scalar) -> Scalar:
    """The next place of the ring, for a delta from node `n` to its parent; the caller writes the attributes."""
    q = (m.state[RING_FIRST] + m.state[RING_COUNT]) & (m.ring.shape[0] - 1)
    m.state[RING_COUNT] += 1
    m.ring[q, AT] = m.nodes[n, PARENT]
    m.ring[q, SIDE] = m.nodes[n, PORT]
    m.ring[q, SIGN] = sign
    m.ring[q, ENDS] = expires
    return q


@lean
def tell(m: Memory, n: Scalar, sign: Scalar, table: Table, row: Scalar, at: Scalar, expires: Scalar) -> None:
    """Send the tuple in `table[row, at:]` from node `n` to its parent, if it has one that has to know."""
    if m.nodes[n, PARENT] < 0 or (m.nodes[n, SIGNED_OUT] == 0 and expires <= m.state[NOW]):
        return
    q = place_for(m, n, sign, expires)
    for k in range(m.nodes[n, WIDTH]):
        m.ring[q, VALUES + k] = table[row, at + k]


@thin
def miss(m: Memory) -> None:
    """Count a negative tuple whose tuple was not there, which is our mistake or a table's unknown row."""
    m.state[LOST] += 1
