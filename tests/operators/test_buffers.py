"""State buffers against a plain list: every order, with and without keys, under insertions, deletions and time."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from weir.operators import layout
from weir.operators.buffers import delete, find_entry, find_tuple, forget, insert, pop_expired
from weir.operators.execution import Execution
from weir.operators.layout import Memory
from weir.operators.plans import StreamWindow

SCALE = float(os.environ.get("WEIR_OPERATORS_SCALE", "1"))
STEPS = max(40, round(400 * SCALE))
LASTS = 40
ORDERS = {
    "FIFO": layout.FIFO,
    "ARRIVAL": layout.ARRIVAL,
    "SORTED": layout.SORTED,
    "LOOSE": layout.LOOSE,
    "UNORDERED": layout.UNORDERED,
}
Stored = tuple[tuple[int, int], int]  # a row, and when it expires


def add(m: Memory, row: layout.Table, expires: int) -> None:
    """Insert into the view."""
    insert(m, 0, row, 0, 0, expires)


def remove(m: Memory, row: layout.Table, expires: int) -> bool:
    """Delete one tuple; whether it was there."""
    s = find_tuple(m, 0, row, 0, 0, expires)
    if s >= 0:
        delete(m, 0, s)
    return bool(s >= 0)


def expired(m: Memory, now: int) -> int:
    """What has just expired is dropped, and is in `popped` still."""
    found = pop_expired(m, 0, now)
    for k in range(found):
        forget(m, 0, m.popped[k])
    return int(found)


def chain(m: Memory, row: layout.Table) -> list[int]:
    """The slots with a key, in order of insertion."""
    e = find_entry(m, 0, row, 0, 0)
    slots = []
    s = int(m.entries[e, layout.FIRST]) if e >= 0 else layout.NONE
    while s >= 0:
        slots.append(s)
        s = int(m.slots[s, layout.AFTER])
    return slots


def prepared(order: int, partitions: int, keys: int, *, forgets: bool) -> Memory:
    """The memory of a plan whose view has been made another buffer."""
    execution = Execution(StreamWindow(0, LASTS, 2), "DIRECT")
    m = execution._memory
    m.buffers[0, layout.ORDER], m.buffers[0, layout.KEYS] = order, keys
    m.buffers[0, layout.ROLE] = layout.FORGET if forgets else layout.TELL
    m.buffers[0, layout.EXACT] = 1
    lists = partitions + 1 if order in (layout.SORTED, layout.LOOSE) else 1
    m.buffers[0, layout.LISTS], m.buffers[0, layout.SPAN] = lists, -(-LASTS // partitions)
    return m._replace(lists=np.full((lists, 2), layout.NONE, np.int64))


def held(m: Memory) -> list[Stored]:
    """All tuples of the buffer, in the order of their slots."""
    mine = m.slots[m.slots[:, layout.BUFFER] == 0]
    return [((int(row[layout.ROW]), int(row[layout.ROW + 1])), int(row[layout.EXPIRES])) for row in mine]


def check_lists(m: Memory, order: int) -> None:
    """Lists are linked both ways, hold each tuple once, and are ordered as they should be."""
    seen: list[int] = []
    for head, tail in m.lists.tolist():
        before, s = layout.NONE, head
        while s >= 0:
            assert m.slots[s, layout.PREVIOUS] == before
            if before >= 0 and order in (layout.SORTED, layout.FIFO):
                assert m.slots[before, layout.EXPIRES] <= m.slots[s, layout.EXPIRES]
            seen.append(s)
            before, s = s, int(m.slots[s, layout.NEXT])
        assert tail == before
    mine = np.flatnonzero(m.slots[:, layout.BUFFER] == 0).tolist()
    assert sorted(seen) == (mine if order != layout.UNORDERED else [])
    assert len(mine) == m.buffers[0, layout.SIZE]
    assert m.state[layout.FREE_SLOTS] == np.sum(m.slots[:, layout.BUFFER] == layout.FREE)


@pytest.mark.parametrize("forgets", [False, True], ids=["handed out", "forgotten"])
@pytest.mark.parametrize("keys", [-1, 1, 2], ids=["no key", "one attribute", "all attributes"])
@pytest.mark.parametrize("order", list(ORDERS))
def test_a_buffer_is_a_list_of_tuples(order: str, keys: int, forgets: bool) -> None:
    if order == "UNORDERED" and keys < 0:
        return  # nothing leads to its tuples
    random = np.random.default_rng(len(order) + 7 * (keys + 1) + forgets)
    m = prepared(ORDERS[order], int(random.integers(1, 7)), keys, forgets=forgets)
    plain: list[Stored] = []
    now = int(random.integers(-100, 100))
    for step in range(STEPS):
        said = f"{order}, step {step}"
        now += int(random.integers(0, 4)) if step % 50 else 5 * LASTS
        row = random.integers(-2, 3, (1, 2))
        if random.random() < 0.6:
            lasts = LASTS if order == "FIFO" else int(random.integers(1, LASTS + 1))
            plain.append(((int(row[0, 0]), int(row[0, 1])), now + lasts))
            add(m, row, now + lasts)
        elif random.random() < 0.5 and plain and order != "FIFO":
            gone = plain[int(random.integers(len(plain)))]
            plain.remove(gone)  # the first of equal ones, as the chain has them
            assert remove(m, np.array([gone[0]]), gone[1]), said
            assert not remove(m, np.array([gone[0]]), gone[1] + 10 * LASTS), "it never was there"
        if order != "UNORDERED" and random.random() < 0.5:
            before = Counter(held(m))
            over = [tuple_ for tuple_ in plain if tuple_[1] <= now]
            plain = [tuple_ for tuple_ in plain if tuple_[1] > now]
            count = expired(m, now)
            assert count == (0 if forgets else len(over)), said
            assert before - Counter(held(m)) == Counter(over), said
        assert Counter(held(m)) == Counter(plain), said
        check_lists(m, ORDERS[order])
        if keys >= 0:
            of_key = m.slots[chain(m, row)]
            probed = [((int(r[layout.ROW]), int(r[layout.ROW + 1])), int(r[layout.EXPIRES])) for r in of_key]
            assert probed == [t for t in plain if t[0][:keys] == tuple(row[0, :keys].tolist())], said
            assert m.buffers[0, layout.DISTINCT] == len({t[0][:keys] for t in plain}), said


def test_arrays_grow_while_a_plan_runs() -> None:
    """Slots, entries, the ring and buckets begin small and become larger; the result stays what it is."""
    n = max(300, round(5_000 * SCALE))
    execution = Execution(StreamWindow(0, n, 1), "NT")
    rows = np.arange(n)[:, None] % (n // 2)
    execution.push(np.arange(n), np.zeros(n), rows)
    assert Counter(execution.rows()[:, 0].tolist()) == Counter(rows[:, 0].tolist())
    execution.advance(3 * n)
    assert len(execution.rows()) == 0
    assert execution.stored == 0
    memory = execution._memory
    assert memory.state[layout.FREE_SLOTS] == len(memory.slots)
    assert memory.state[layout.FREE_ENTRIES] == len(memory.entries)
    assert np.all(memory.buckets == layout.NONE)
