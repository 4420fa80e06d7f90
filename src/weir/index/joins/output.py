"""The output of a search over a batch: made for what is expected, and made anew when that was too little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weir.index.boxes import Int32s, Int64s, Matches
from weir.index.joins.affected import OUTPUT_SLACK

_MATCHES_EXPECTED = 16  # boxes an event for which the first output has room
_OUTPUT_MIN = 1 << 16  # boxes that an output has room for at least

Write = Callable[[int, Int32s, int, Int64s], tuple[int, int]]


def written(write: Write, n_events: int, n_boxes: int, pairs_max: int) -> Matches | None:
    """All matches of a batch; None if there are more than `pairs_max`.

    `write(event, output, used, per_event)` writes the boxes of the events from `event` on behind what is used, until
    one does not fit, and returns that event and what is used then; one event has at most all boxes.
    """
    per_event = np.zeros(n_events, dtype=np.int64)
    output = np.empty(0, dtype=np.int32)
    event = used = 0
    expected = max(_MATCHES_EXPECTED * n_events, _OUTPUT_MIN)
    while event < n_events:
        # Pages that nothing is written to cost nothing, so it is better to expect too much than to copy often.
        grown = np.empty(min(expected, pairs_max) + n_boxes + OUTPUT_SLACK, dtype=np.int32)
        grown[:used] = output[:used]
        output = grown
        event, used = write(event, output, used, per_event)
        if used > pairs_max:
            return None
        expected = max(int(1.1 * used / max(event, 1) * n_events), 2 * used)
    offsets = np.zeros(n_events + 1, dtype=np.int64)
    np.cumsum(per_event, out=offsets[1:])
    return Matches(offsets, output[:used])
