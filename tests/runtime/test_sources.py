"""The embedded source: offsets inside tickets, limits, slices, and runs that take what is there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from weir.runtime.sources import InboxReader, Reference, Slice, cut
from weir.store.files import LocalFiles
from weir.store.inbox import CLOCK, Inbox


def reader(folder: Path, pushes: list[int], slices: int = 2) -> InboxReader:
    inbox = Inbox(LocalFiles(folder))
    for rows in pushes:
        inbox.push("s", pa.table({"a": list(range(rows))}))
    return InboxReader(str(folder), slices, 10)


def taken(source: InboxReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[int, int, int]]:
    return [
        (r.ticket, r.start, r.count)
        for part in source.partitions(start, end)
        if isinstance(part, Slice)
        for r in part.references
    ]


def test_a_large_push_is_spread_over_batches(tmp_path: Path) -> None:
    source = reader(tmp_path, [3, 25, 1])
    offset, seen = source.initialOffset(), []
    for _ in range(4):
        end = source.latestOffset(offset, ReadMaxRows(10))
        seen.append([(t, s, n) for t, s, n in taken(source, offset, end)])
        offset = end
    merged = [sum(n for _, _, n in batch) for batch in seen]
    assert merged == [10, 10, 9, 0]
    rows = [(t, k) for batch in seen for t, s, n in batch for k in range(s, s + n)]
    assert rows == [(t, k) for t, count in enumerate([3, 25, 1]) for k in range(count)], "each row once, in order"
    assert source.latestOffset(offset, ReadMaxRows(10)) == offset


def test_changes_of_a_table_are_not_spread(tmp_path: Path) -> None:
    source = reader(tmp_path, [3])
    inbox = Inbox(LocalFiles(tmp_path))
    for stream, rows in (("t changes", 4), ("t changes", 4), ("t changes", 25), ("s", 12), ("t changes", 1), ("s", 1)):
        inbox.push(stream, pa.table({"a": list(range(rows))}))
    offset, seen = source.initialOffset(), []
    for _ in range(6):
        end = source.latestOffset(offset, ReadMaxRows(10))
        seen.append([(t, s, n) for t, s, n in taken(source, offset, end)])
        offset = end
    counted = [{t: sum(n for u, _, n in batch if u == t) for t, _, _ in batch} for batch in seen]
    assert counted == [{0: 3, 1: 4}, {2: 4}, {3: 25}, {4: 10}, {4: 2, 5: 1, 6: 1}, {}]
    assert source.latestOffset({"ticket": 0, "row": 0}, ReadAllAvailable()) == {"ticket": 7, "row": 0}


def test_everything_at_once_if_spark_asks_for_it(tmp_path: Path) -> None:
    source = reader(tmp_path, [30, 30])
    assert source.latestOffset({"ticket": 0, "row": 0}, ReadAllAvailable()) == {"ticket": 2, "row": 0}


def test_available_now_ends_where_it_began_also_after_a_release(tmp_path: Path) -> None:
    source = reader(tmp_path, [5, 5, 5])
    inbox = Inbox(LocalFiles(tmp_path))
    inbox.release(2)
    source.prepareForTriggerAvailableNow()
    inbox.push("s", pa.table({"a": [1]}))
    assert source.latestOffset({"ticket": 2, "row": 0}, ReadMaxRows(100)) == {"ticket": 3, "row": 0}


def test_advances_come_in_their_place_and_count_as_a_row(tmp_path: Path) -> None:
    source = reader(tmp_path, [9])
    inbox = Inbox(LocalFiles(tmp_path))
    for number in (1, 2, 4):
        inbox.advance(number)
        if number == 2:
            inbox.push("s", pa.table({"a": [1, 2]}))
    offset, seen = source.initialOffset(), []
    for _ in range(3):
        end = source.latestOffset(offset, ReadMaxRows(10))
        references = [r for part in source.partitions(offset, end) if isinstance(part, Slice) for r in part.references]
        seen.append({(r.ticket, r.stream) for r in references})
        offset = end
    assert seen == [{(0, "s"), (1, CLOCK)}, {(2, CLOCK), (3, "s"), (4, CLOCK)}, set()]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_cut_keeps_order_and_every_row(parts: int) -> None:
    references = [Reference(t, "s", f"p{t}", 4, n) for t, n in enumerate([1, 10, 2, 5])]
    pieces = cut(references, parts)
    assert len(pieces) <= parts
    rows = [(r.ticket, k) for piece in pieces for r in piece for k in range(r.start, r.start + r.count)]
    assert rows == [(r.ticket, k) for r in references for k in range(r.start, r.start + r.count)]
    assert max(sum(r.count for r in p) for p in pieces) <= -(-18 // parts)
