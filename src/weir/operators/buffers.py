"""State buffers behind one contract: insert a tuple, pop what has expired, probe by key, find and delete one tuple.

A buffer's order says how its tuples expire (UPA, section 5.3.2):

    FIFO       one list; what expires is at its head                         O(1) a tuple
    ARRIVAL    one list in order of arrival; expiring scans all of it        O(n) a scan
    SORTED     partitions by expiration, each sorted by expiration           an insertion looks at part of one partition
    LOOSE      partitions by expiration, each in order of insertion          expiring looks at one partition
    UNORDERED  no list: tuples are deleted one by one, through their key     O(1) a tuple

Partition k holds tuples whose expiration divided by the partition's span leaves k: a circular array with one partition
more than asked for, so that what expires now and what comes next are never together, and if a late expiration mixes
them, nothing is wrong, because each tuple's own expiration is looked at. Unless their number was given, a buffer asks
for more partitions when insertions and searches have walked too far in them (`strain`). A buffer with keys has a chain
of tuples for each key too, in order of insertion.

Two tuples are the same to `find_tuple` if all attributes agree, and in an EXACT buffer the expiration: which of two
same tuples is deleted cannot be seen from outside. Where every end is told, expirations say nothing any more. Whoever
calls `insert` has seen that there is a free slot and a free entry.
"""

from __future__ import annotations

from weir.index.jit import Scalar, kernel
from weir.index.meeting.lean import lean, thin
from weir.operators.layout import (
    AFTER,
    ARITY,
    ARRIVAL,
    BEFORE,
    BUCKET,
    BUFFER,
    CHUNK,
    CLEAN,
    COUNT,
    CROWDED,
    DISTINCT,
    ENTRY,
    EXACT,
    EXPIRES,
    FIFO,
    FIRST,
    FIXED,
    FLAG,
    FORGET,
    FREE,
    FREE_ENTRIES,
    FREE_ENTRY,
    FREE_SLOT,
    FREE_SLOTS,
    HASH,
    HEAD,
    KEY,
    KEY_AT,
    KEYS,
    LAST,
    LINK,
    LIST,
    LISTS,
    LOOSE,
    MARKED,
    MASK,
    MORE,
    NEXT,
    NONE,
    ORDER,
    OWNER,
    PREVIOUS,
    ROLE,
    ROW,
    SHOWN,
    SIZE,
    SORTED,
    SPAN,
    STRAIN,
    STRAINED,
    TAIL,
    UNORDERED,
    WALKED,
    Memory,
    Table,
)

_BITS = (1 << 31) - 1
_WALK = 8  # tuples that an insertion or a search may walk over in a partition


@thin
def hash_of(table: Table, row: Scalar, at: Scalar, n: Scalar) -> Scalar:
    """A number below 2³¹ for n attributes of a row; products stay below 2⁶², so nothing wraps."""
    mixed = 40503
    for k in range(n):
        value = table[row, at + k]
        mixed = (mixed ^ ((value ^ (value >> 31)) & _BITS)) * 1103515245
        mixed = (mixed ^ (mixed >> 29)) & _BITS
    return mixed


@lean
def find_entry(m: Memory, b: Scalar, table: Table, row: Scalar, at: Scalar) -> Scalar:
    """The entry of buffer `b` whose key is in `table[row, at:]`, or NONE."""
    n = m.buffers[b, KEYS]
    mixed = hash_of(table, row, at, n)
    e = m.buckets[m.buffers[b, BUCKET] + (mixed & m.buffers[b, MASK])]
    while e >= 0:
        if m.entries[e, HASH] == mixed:
            k = 0
            while k < n and m.entries[e, KEY + k] == table[row, at + k]:
                k += 1
            if k == n:
                return e
        e = m.entries[e, LINK]
    return NONE


@lean
def entry_of(m: Memory, b: Scalar, table: Table, row: Scalar, at: Scalar) -> Scalar:
    """The entry of a key, which is made if there is none."""
    e = find_entry(m, b, table, row, at)
    if e >= 0:
        return e
    n = m.buffers[b, KEYS]
    mixed = hash_of(table, row, at, n)
    e = m.state[FREE_ENTRY]
    m.state[FREE_ENTRY] = m.entries[e, LINK]
    m.state[FREE_ENTRIES] -= 1
    bucket = m.buffers[b, BUCKET] + (mixed & m.buffers[b, MASK])
    m.entries[e, LINK] = m.buckets[bucket]
    m.buckets[bucket] = e
    m.entries[e, OWNER] = b
    m.entries[e, HASH] = mixed
    m.entries[e, FIRST] = m.entries[e, LAST] = m.entries[e, MARKED] = NONE
    m.entries[e, COUNT] = m.entries[e, MORE] = m.entries[e, SHOWN] = 0
    for k in range(n):
        m.entries[e, KEY + k] = table[row, at + k]
    m.buffers[b, DISTINCT] += 1
    if m.buffers[b, DISTINCT] > m.buffers[b, MASK]:
        m.state[CROWDED] = b
    return e


@lean
def free_if_empty(m: Memory, e: Scalar) -> None:
    """Give an entry back that counts nothing and marks nothing."""
    if m.entries[e, COUNT] != 0 or m.entries[e, MORE] != 0 or m.entries[e, MARKED] >= 0:
        return
    b = m.entries[e, OWNER]
    bucket = m.buffers[b, BUCKET] + (m.entries[e, HASH] & m.buffers[b, MASK])
    if m.buckets[bucket] == e:
        m.buckets[bucket] = m.entries[e, LINK]
    else:
        other = m.buckets[bucket]
        while m.entries[other, LINK] != e:
            other = m.entries[other, LINK]
        m.entries[other, LINK] = m.entries[e, LINK]
    m.entries[e, OWNER] = FREE
    m.entries[e, LINK] = m.state[FREE_ENTRY]
    m.state[FREE_ENTRY] = e
    m.state[FREE_ENTRIES] += 1
    m.buffers[b, DISTINCT] -= 1


@thin
def list_of(m: Memory, b: Scalar, expires: Scalar) -> Scalar:
    """The order list of buffer `b` for tuples with this expiration."""
    if m.buffers[b, LISTS] == 1:
        return m.buffers[b, LIST]
    return m.buffers[b, LIST] + (expires // m.buffers[b, SPAN]) % m.buffers[b, LISTS]


@thin
def strain(m: Memory, b: Scalar, walked: Scalar) -> None:
    """Count tuples that were walked over in vain; whether there are too few partitions.

    To cut a buffer anew costs a step for each tuple and partition. So it is done once as many steps were wasted.
    """
    m.state[WALKED] += walked
    if m.buffers[b, STRAIN] == FIXED or walked <= _WALK:
        return
    m.buffers[b, STRAIN] += walked - _WALK
    if m.buffers[b, STRAIN] > m.buffers[b, SIZE] + m.buffers[b, LISTS] and m.buffers[b, SPAN] > 1:
        m.state[STRAINED] = b


@lean
def enlist(m: Memory, b: Scalar, s: Scalar) -> None:
    """Put a slot into the order list of its buffer."""
    order = m.buffers[b, ORDER]
    if order == UNORDERED:
        return
    expires = m.slots[s, EXPIRES]
    at = list_of(m, b, expires)
    before = m.lists[at, TAIL]
    if order == SORTED:
        walked = 0
        while before >= 0 and m.slots[before, EXPIRES] > expires:
            before = m.slots[before, PREVIOUS]
            walked += 1
        strain(m, b, walked)
    after = m.lists[at, HEAD] if before < 0 else m.slots[before, NEXT]
    m.slots[s, PREVIOUS] = before
    m.slots[s, NEXT] = after
    if before < 0:
        m.lists[at, HEAD] = s
    else:
        m.slots[before, NEXT] = s
    if after < 0:
        m.lists[at, TAIL] = s
    else:
        m.slots[after, PREVIOUS] = s


@lean
def delist(m: Memory, b: Scalar, s: Scalar) -> None:
    """Take a slot out of the order list of its buffer."""
    if m.buffers[b, ORDER] == UNORDERED:
        return
    before, after = m.slots[s, PREVIOUS], m.slots[s, NEXT]
    if before < 0 or after < 0:
        at = list_of(m, b, m.slots[s, EXPIRES])
        if before < 0:
            m.lists[at, HEAD] = after
        if after < 0:
            m.lists[at, TAIL] = before
    if before >= 0:
        m.slots[before, NEXT] = after
    if after >= 0:
        m.slots[after, PREVIOUS] = before


@thin
def take_slot(m: Memory, b: Scalar, expires: Scalar) -> Scalar:
    """A free slot, for buffer `b`; it is in no list yet."""
    s = m.state[FREE_SLOT]
    m.state[FREE_SLOT] = m.slots[s, NEXT]
    m.state[FREE_SLOTS] -= 1
    m.slots[s, BUFFER] = b
    m.slots[s, EXPIRES] = expires
    m.slots[s, FLAG] = 0
    m.slots[s, ENTRY] = NONE
    m.buffers[b, SIZE] += 1
    return s


@thin
def give_back(m: Memory, s: Scalar) -> None:
    """Make a slot free that is in no list."""
    m.buffers[m.slots[s, BUFFER], SIZE] -= 1
    m.slots[s, BUFFER] = FREE
    m.slots[s, NEXT] = m.state[FREE_SLOT]
    m.state[FREE_SLOT] = s
    m.state[FREE_SLOTS] += 1


@lean
def insert(m: Memory, b: Scalar, table: Table, row: Scalar, at: Scalar, expires: Scalar) -> Scalar:
    """Store the tuple in `table[row, at:]`; its slot."""
    s = take_slot(m, b, expires)
    for k in range(m.buffers[b, ARITY]):
        m.slots[s, ROW + k] = table[row, at + k]
    enlist(m, b, s)
    if m.buffers[b, KEYS] >= 0:
        e = entry_of(m, b, table, row, at + m.buffers[b, KEY_AT])
        last = m.entries[e, LAST]
        m.slots[s, ENTRY] = e
        m.slots[s, BEFORE] = last
        m.slots[s, AFTER] = NONE
        if last < 0:
            m.entries[e, FIRST] = s
        else:
            m.slots[last, AFTER] = s
        m.entries[e, LAST] = s
        m.entries[e, COUNT] += 1
    return s


@lean
def unchain(m: Memory, s: Scalar) -> None:
    """Take a slot out of the chain of its key; the entry stays."""
    e, before, after = m.slots[s, ENTRY], m.slots[s, BEFORE], m.slots[s, AFTER]
    if before < 0:
        m.entries[e, FIRST] = after
    else:
        m.slots[before, AFTER] = after
    if after < 0:
        m.entries[e, LAST] = before
    else:
        m.slots[after, BEFORE] = before
    m.entries[e, COUNT] -= 1


@lean
def forget(m: Memory, b: Scalar, s: Scalar) -> None:
    """Drop a tuple that is in no order list any more."""
    if m.buffers[b, KEYS] >= 0:
        unchain(m, s)
        free_if_empty(m, m.slots[s, ENTRY])
    give_back(m, s)


@lean
def delete(m: Memory, b: Scalar, s: Scalar) -> None:
    """Drop a tuple."""
    delist(m, b, s)
    forget(m, b, s)


@lean
def find_tuple(m: Memory, b: Scalar, table: Table, row: Scalar, at: Scalar, expires: Scalar) -> Scalar:
    """A slot with the same tuple, or NONE: looked for through its key, else in the one list for its expiration."""
    n = m.buffers[b, ARITY]
    keyed = m.buffers[b, KEYS] >= 0
    if keyed:
        e = find_entry(m, b, table, row, at + m.buffers[b, KEY_AT])
        s = m.entries[e, FIRST] if e >= 0 else NONE
    else:
        s = m.lists[list_of(m, b, expires), HEAD]
    is_exact = m.buffers[b, EXACT] == 1
    walked = 0
    while s >= 0:
        walked += 1
        if not is_exact or m.slots[s, EXPIRES] == expires:
            k = 0
            while k < n and m.slots[s, ROW + k] == table[row, at + k]:
                k += 1
            if k == n:
                break
        s = m.slots[s, AFTER if keyed else NEXT]
    if keyed:
        m.state[WALKED] += walked
    else:
        strain(m, b, walked)
    return s


@lean
def pop_expired(m: Memory, b: Scalar, now: Scalar) -> Scalar:
    """Take what has expired by now out of the order list.

    Tuples that are only to be forgotten are; others are put into `popped`, and it says how many: CHUNK of them means
    that there may be more.
    """
    order, forgets = m.buffers[b, ORDER], m.buffers[b, ROLE] == FORGET
    found = walked = over = first = last = 0
    if order in (SORTED, LOOSE):
        span = m.buffers[b, SPAN]
        last = now // span
        first = max(m.buffers[b, CLEAN] // span, last - m.buffers[b, LISTS] + 1)
    for part in range(first, last + 1):
        s = m.lists[m.buffers[b, LIST] + part % m.buffers[b, LISTS], HEAD]
        while s >= 0 and found < CHUNK:
            after = m.slots[s, NEXT]
            walked += 1
            if m.slots[s, EXPIRES] <= now:
                over += 1
                delist(m, b, s)
                if forgets:
                    forget(m, b, s)
                else:
                    m.popped[found] = s
                    found += 1
            elif order in (SORTED, FIFO):
                break
            s = after
    m.state[WALKED] += over
    strain(m, b, walked - over)
    if found < CHUNK:
        m.buffers[b, CLEAN] = now
    return found


@kernel
def cut_anew(m: Memory, b: Scalar, first: Scalar, count: Scalar) -> None:
    """Move the tuples of a buffer from `count` old lists into its new ones; equal expirations stay in their order."""
    for at in range(first, first + count):
        s = m.lists[at, HEAD]
        m.lists[at, HEAD] = m.lists[at, TAIL] = NONE
        while s >= 0:
            after = m.slots[s, NEXT]
            enlist(m, b, s)
            s = after


ORDER_NAMES = {
    UNORDERED: "no order",
    FIFO: "first in, first out",
    ARRIVAL: "a list in order of arrival",
    SORTED: "partitions sorted by expiration",
    LOOSE: "partitions in order of insertion",
}
