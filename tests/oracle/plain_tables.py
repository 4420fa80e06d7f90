"""What a table holds, said as plainly as can be: at a moment, each key has what its last change until then says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """One row that was put in, or one key that was taken out; changes are in order of arrival."""

    batch: int
    key: tuple[object, ...]
    row: tuple[object, ...] | None  # None: the key is taken out
    since_us: int


def table_at(changes: Sequence[Change], moment_us: int, batch: int) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The rows by key at a moment, from changes of batches <= `batch`."""
    last: dict[tuple[object, ...], Change] = {}
    for change in changes:
        if change.batch <= batch and change.since_us <= moment_us:
            before = last.get(change.key)
            if before is None or before.since_us <= change.since_us:
                last[change.key] = change
    return {key: change.row for key, change in last.items() if change.row is not None}
