"""What a table holds, said as plainly as can be: at a moment, each key has what its last change until then says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weir.algebra.schema import ENDLESS_US


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


def versions_of(changes: Sequence[Change], batch: int) -> list[tuple[tuple[object, ...], int, int]]:
    """Every row that a key had, since when and until when, from changes of batches <= `batch`."""
    found = []
    known = [change for change in changes if change.batch <= batch]
    for key in dict.fromkeys(change.key for change in known):
        mine = [change for change in known if change.key == key]
        times = sorted({change.since_us for change in mine})
        for since, until in zip(times, [*times[1:], ENDLESS_US], strict=True):
            last = [change for change in mine if change.since_us == since][-1]
            if last.row is not None:
                found.append((last.row, since, until))
    return found
