"""Where a plan under way keeps everything: a few flat arrays of int64, and the names of their columns.

All state of a plan is in *slots*, one stored tuple each. A slot belongs to one *buffer* (a window, an input of a join,
a view) and is in up to two doubly linked lists: the buffer's *order list*, by which tuples expire, and the chain of
tuples with its key. An *entry* is one distinct key of a buffer; it heads the chain and holds counts of the key. Buckets
are a hash table of entries for each buffer that is reached by key. A *delta* is a tuple on its way to a node, positive
or negative; deltas wait in a ring.

All executions use these arrays and the kernels over them; they differ only in which lists a buffer has. A kernel never
makes an array: `weir.operators.engine.run` stops where room may get short, and the caller makes arrays larger.

Invariant: a free slot or entry is in the free list and nowhere else; a slot's buffer is FREE exactly then. Cost: 8
numbers a slot beside its row, and 9 an entry beside its key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]  # two dimensions, C order

NONE = -1  # no slot, no entry, no node, no buffer
FREE = -1  # the buffer of a slot or an entry that nobody has
FIXED = -1  # the strain of a buffer whose partitions stay as many as they are
FOREVER = 1 << 60  # when a tuple of a table expires
COUNTED = 1 << 59  # when a row of a window of the last rows does, and its number: no time comes so late

# Columns of `slots`.
EXPIRES, BUFFER, NEXT, PREVIOUS, AFTER, BEFORE, ENTRY, FLAG, ROW = range(
    9
)  # FLAG: shown, joined, batch or ranked value
# Columns of `entries`: COUNT tuples in the chain; MORE and SHOWN are further counts, MARKED a slot, as the operator
# has it.
LINK, OWNER, FIRST, LAST, COUNT, MORE, SHOWN, MARKED, HASH, KEY = range(10)
# Columns of `lists`.
HEAD, TAIL = range(2)
# Columns of `buffers`; lists and buckets are consecutive, CLEAN is the time up to which tuples were expired, and EXACT
# says whether expirations tell equal tuples apart. STRAIN is how many tuples were walked over in vain in partitions,
# beyond what one step may, since they were cut; FIXED: their number stays.
ORDER, LIST, LISTS, SPAN, KEY_AT, KEYS, BUCKET, MASK, SIZE, DISTINCT, CLEAN, EVERY, DUE, NODE, ROLE, ARITY = range(16)
EXACT, STRAIN = 16, 17
BUFFER_COLUMNS = 18
# Columns of `nodes`.
KIND, PARENT, PORT, WIDTH, LEFT, RIGHT, OUT, SIGNED_IN, SIGNED_OUT, P0, P1, P2, P3 = range(13)
NODE_COLUMNS = 13
# Columns of `ring`.
AT, SIDE, SIGN, ENDS, VALUES = range(5)
# Places of `state`.
(
    NOW,
    RING_FIRST,
    RING_COUNT,
    FREE_SLOT,
    FREE_SLOTS,
    FREE_ENTRY,
    FREE_ENTRIES,
    CROWDED,  # a buffer whose buckets are too few, or NONE
    STRAINED,  # a buffer whose partitions are too few, or NONE
    PHASE,  # the buffer whose turn it is to expire
    POSITION,  # the next arrival
    ARRIVED,  # number of the newest row that came to a window of the last rows
    BATCH,  # number of a batch of results with a non-retroactive table
    DELTAS,  # counted: deltas processed
    NEGATIVES,  # counted: negative ones among them
    RESULTS,  # counted: tuples that negations have shown
    PREMATURE,  # counted: results that negations took away before their time
    LOST,  # counted: negative tuples whose tuple was not there; always 0
    WALKED,  # counted: tuples looked at in lists and chains
    STATE_PLACES,
) = range(20)

# Orders of a buffer's lists.
UNORDERED = 0  # no order list: expired by negative tuples only
FIFO = 1  # one list, expired from its head
ARRIVAL = 2  # one list, expired by a scan
SORTED = 3  # partitions by expiration, each in order of expiration
LOOSE = 4  # partitions by expiration, each in order of insertion

# What happens to a tuple of a buffer that has expired.
FORGET, TELL, SHOW_OTHER, SHOW_AUXILIARY, LEFT_ENDS, RIGHT_ENDS, UNGROUP = range(7)

# Kinds of nodes.
(
    WINDOW,
    LAST_ROWS,
    LANDMARK,
    TABLE,
    FILTER,
    PROJECT,
    UNION,
    JOIN,
    INTERSECT,
    LATER_JOIN,
    DISTINCT_ROWS,
    DISTINCT_STAR,
    GROUP,
    NEGATE,
    VIEW,
) = range(15)

# Aggregates.
AGGREGATES = ("count", "sum", "avg", "min", "max")
A_COUNT, A_SUM, A_AVG, A_MIN, A_MAX = range(5)

CHUNK = 256  # tuples that expire between two looks at the room that is left

# What `run` says.
DONE, MORE_SLOTS, MORE_ENTRIES, MORE_RING, MORE_BUCKETS, MORE_PARTITIONS = range(6)


class Memory(NamedTuple):
    """All arrays of one plan under way."""

    slots: Table  # a row a slot: links, then the tuple's attributes
    heap: Table  # three links a slot (child, next sibling, previous) for least and greatest; empty if no group needs it
    entries: Table  # a row a distinct key of a buffer, then the key's attributes
    lists: Table  # head and tail of each order list
    buckets: npt.NDArray[np.int64]  # first entry of each bucket
    buffers: Table  # a row a buffer
    nodes: Table  # a row a node, children before parents
    picks: npt.NDArray[np.int64]  # attributes that projections keep
    turns: npt.NDArray[np.int64]  # buffers that expire by time, inputs before what is above them
    leaves: npt.NDArray[np.int64]  # nodes that take arrivals
    ring: Table  # deltas on their way
    popped: npt.NDArray[np.int64]  # slots that have just expired
    state: npt.NDArray[np.int64]  # numbers that change: see the places above


def linked(table: Table, begin: int, link: int, owner: int) -> None:
    """Make the rows from `begin` on a free list."""
    table[begin:, link] = np.arange(begin + 1, len(table) + 1)
    table[-1, link] = NONE
    table[begin:, owner] = FREE


def with_more_slots(memory: Memory) -> Memory:
    """The same with twice as many slots."""
    n = len(memory.slots)
    heap = memory.heap
    if len(heap):
        heap = np.full((2 * n, 3), NONE, np.int64)
        heap[:n] = memory.heap
    slots = _doubled(memory.slots, NEXT, BUFFER, memory.state, FREE_SLOT, FREE_SLOTS)
    return memory._replace(slots=slots, heap=heap)


def with_more_entries(memory: Memory) -> Memory:
    """The same with room for twice as many keys."""
    return memory._replace(entries=_doubled(memory.entries, LINK, OWNER, memory.state, FREE_ENTRY, FREE_ENTRIES))


def _doubled(
    table: Table, link: int, owner: int, state: npt.NDArray[np.int64], first_free: int, free_count: int
) -> Table:
    """A table with twice as many rows; the new ones come before the others in its free list, which `state` knows."""
    n = len(table)
    larger = np.zeros((2 * n, table.shape[1]), np.int64)
    larger[:n] = table
    linked(larger, n, link, owner)
    larger[-1, link] = state[first_free]
    state[first_free] = n
    state[free_count] += n
    return larger


def with_longer_ring(memory: Memory) -> Memory:
    """The same with twice as many places for deltas; those that wait keep their order."""
    n = len(memory.ring)
    ring = np.zeros((2 * n, memory.ring.shape[1]), np.int64)
    ring[:n] = np.roll(memory.ring, -int(memory.state[RING_FIRST]), axis=0)
    memory.state[RING_FIRST] = 0
    return memory._replace(ring=ring)


def with_more_buckets(memory: Memory) -> Memory:
    """The same with four times the buckets for the buffer that asked, at the end of all buckets."""
    buffer = int(memory.state[CROWDED])
    n = 4 * (int(memory.buffers[buffer, MASK]) + 1)
    buckets = np.concatenate((memory.buckets, np.full(n, NONE, np.int64)))
    old = int(memory.buffers[buffer, BUCKET])
    buckets[old : old + n // 4] = NONE  # nobody's any more
    memory.buffers[buffer, BUCKET] = len(memory.buckets)
    memory.buffers[buffer, MASK] = n - 1
    memory.state[CROWDED] = NONE
    mine = np.flatnonzero(memory.entries[:, OWNER] == buffer)
    at = len(memory.buckets) + (memory.entries[mine, HASH] & (n - 1))
    # Entries of one bucket follow each other: each links to the one before it, and the last is the first to be found.
    order = np.argsort(at, kind="stable")
    mine, at = mine[order], at[order]
    starts = np.append(True, at[1:] != at[:-1])[: len(at)]
    memory.entries[mine, LINK] = np.where(starts, NONE, np.roll(mine, 1))
    buckets[at] = mine
    return memory._replace(buckets=buckets)
