"""Searching in blocks: a kernel fills a buffer until an event does not fit, and is resumed behind it.

For strategies whose kernel takes one event after the other. Nothing grows, and nothing is searched twice but the one
event that did not fit. Over budget, what was written is counted by slot and thrown away, so memory stays bounded by one
buffer and the matches within the budget.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Matches, OverBudget

OUTPUT_MIN = 1 << 20  # ids that a buffer holds at least

# (first event, buffer, counts by event) → (the event behind the last one that fitted, ids written)
SearchBlock = Callable[[int, Int32s, Int64s], tuple[int, int]]


def search_blocks(
    search: SearchBlock, n_events: int, n_slots: int, pairs_max: int, n_boxes: int = 0
) -> Matches | OverBudget:
    """All matches of a batch; their counts by slot if there are more than `pairs_max`.

    One event always fits into the buffer, also if the kernel needs room for as many ids as there are boxes.
    """
    output = np.empty(max(OUTPUT_MIN, n_slots, n_boxes), dtype=np.int32)
    per_event = np.zeros(n_events, dtype=np.int64)
    done: list[Int32s] = []
    counts: Int64s | None = None
    event = total = 0
    while event < n_events:
        event, written = search(event, output, per_event)
        total += written
        if counts is None and total > pairs_max:
            counts = np.zeros(n_slots, dtype=np.int64)
            for part in done:
                counts += np.bincount(part, minlength=n_slots)
            done.clear()
        if counts is None:
            done.append(output[:written].copy())  # the buffer is used again
        else:
            counts += np.bincount(output[:written], minlength=n_slots)
    if counts is not None:
        return OverBudget(counts)
    offsets = np.zeros(n_events + 1, dtype=np.int64)
    np.cumsum(per_event, out=offsets[1:])
    return Matches(offsets, np.concatenate(done) if done else np.empty(0, dtype=np.int32))
