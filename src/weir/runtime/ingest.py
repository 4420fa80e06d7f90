"""The ingest job: one stage; each task checks its rows and writes one row file a stream.

A task sees references to pushed files, rows of Spark streams, or both. Rows that cannot be taken go to a
`late` file with a reason, never to an error: one bad row must not stop a stream, and one row stamped far in
the future must not empty all windows. The checks use only what the plan pinned, so a replay decides the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import CHANGE_DELETES, ENDLESS_US, Catalog, Kind, Stream
from weir.runtime import faults
from weir.runtime.reports import schema_of
from weir.runtime.sources import struct_name
from weir.store.files import Files, open_files
from weir.store.inbox import ADVANCE, CLOCK
from weir.store.ledger import Plan
from weir.store.row_files import REASON, arrow_schema, read_table, times_us, write_table

REPORT_DDL = (
    "slice int, stream string, path string, count bigint, t_min bigint, t_max bigint, "
    "late_path string, late_count bigint, reasons string, ticket bigint, now_us bigint"
)
REPORT = schema_of(REPORT_DDL)
RESERVED = -(2**63)
REASONS = ("", "late", "future", "null time", "reserved value", "not UTF-8", "null key", "unknown operation")
NOT_UTF8 = REASONS.index("not UTF-8")
LOOKED_THROUGH = 64  # texts that are looked at one by one, once Arrow has said that some of them are wrong


@dataclass(frozen=True)
class IngestTask:
    """Everything a task needs, pinned by the plan; travels to the workers."""

    location: str
    batch: int
    streams: Mapping[str, Stream]  # by lower-case name
    floors_us: Mapping[str, int | None]
    wall_us: int
    stamps_us: Mapping[str, int]  # by stream: the time that every row gets; of other streams rows bring theirs
    dropped: frozenset[str] = frozenset()  # streams whose rows are not wanted any more, in lower case
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by stream: of tables' changes, the table's key


def stamps_us(plan: Plan, catalog: Catalog, clock: str, before_us: int | None) -> dict[str, int]:
    """By stream, the time that the batch gives to all its rows, from what its plan pinned.

    On the arrival clock rows of streams have that of the batch. Changes of a table without a time hold from there,
    too. Rows with the time `now` have come before on the event clock, and where the wall clock was set back, so that
    `now` is what it was `before_us`, in the batch before: only retroactive tables change what they meet. Before any
    row came, changes have always held.
    """
    stamps = {}
    if clock == "arrival" and plan.now_us is not None:
        stamps = {s.name: plan.now_us for s in catalog.streams.values()}
    for table in catalog.tables.values():
        if table.time is None:
            is_after = (clock == "event" or plan.now_us == before_us) and not table.retroactive
            stamps[table.changes.name] = -ENDLESS_US if plan.now_us is None else plan.now_us + is_after
    return stamps


def judge(
    rows: pa.Table, stream: Stream, task: IngestTask, *, is_checked: bool = False
) -> tuple[pa.Table, pa.Table | None, dict[str, int]]:
    """Split rows into accepted ones and rejected ones with a reason; also the count of each reason.

    `is_checked`: all texts are known to be UTF-8, as those of pushes are.
    """
    stamp_us = task.stamps_us.get(stream.name)
    if stamp_us is not None:
        stamp = pa.repeat(pa.scalar(stamp_us, pa.int64()).cast(pa.timestamp("us", "UTC")), rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index(stream.time), rows.schema.field(stream.time), stamp)
    times = times_us(rows, stream)
    unknown = pc.is_null(times).to_numpy(zero_copy_only=False)
    t = pc.fill_null(times, 0).to_numpy()
    floor = task.floors_us.get(stream.name)
    reasons = np.zeros(rows.num_rows, np.int8)
    if stamp_us is None:  # a row stamped on arrival is neither late nor early
        if floor is not None:
            reasons[t < floor] = 1
        reasons[t > task.wall_us + stream.future_us] = 2
    reasons[unknown] = 3
    for column in stream.columns:
        if column.type.kind in (Kind.BIGINT, Kind.TIMESTAMP):  # both have 64-bit keys, of which the least is NULL's
            values = rows.column(column.name).cast(pa.int64())
            low = pc.min(values).as_py()
            if low == RESERVED:
                reserved = pc.fill_null(pc.equal(values, RESERVED), False)
                reasons[reserved.to_numpy()] = 4
        elif column.type.kind in (Kind.STRING, Kind.PAYLOAD) and not is_checked:
            for chunk, first in _chunks(rows.column(column.name)):
                reasons[[first + k for k in _not_utf8(chunk, 0)]] = NOT_UTF8
    if stream.name in task.keys and not is_checked:
        _judge_changes(rows, t, stamp_us is None, task.keys[stream.name], reasons)
    if not reasons.any():
        return rows, None, {}
    rejected = reasons != 0
    late = rows.filter(pa.array(rejected))
    if (reasons == NOT_UTF8).any():
        late = _readable(late)
    late = late.append_column(REASON, pa.array(np.array(REASONS)[reasons[rejected]]))
    counts = {reason: int((reasons == k).sum()) for k, reason in enumerate(REASONS) if k and (reasons == k).any()}
    return rows.filter(pa.array(~rejected)), late, counts


def _judge_changes(
    rows: pa.Table, times: np.ndarray, has_own_times: bool, key: tuple[str, ...], reasons: np.ndarray
) -> None:
    """Note the changes of a table that `upsert` and `delete` would have refused."""
    if has_own_times:
        reasons[times >= ENDLESS_US] = REASONS.index("future")
        reasons[(reasons == 0) & (times <= -ENDLESS_US)] = REASONS.index("late")
    for name in key:
        reasons[rows.column(name).is_null().to_numpy()] = REASONS.index("null key")
    reasons[rows.column(CHANGE_DELETES).is_null().to_numpy()] = REASONS.index("unknown operation")


def _chunks(column: pa.ChunkedArray) -> Iterator[tuple[pa.Array, int]]:
    """The chunks of a column, each with the row that it begins at."""
    first = 0
    for chunk in column.chunks:
        yield chunk, first
        first += len(chunk)


def _not_utf8(texts: pa.Array, first: int) -> Iterator[int]:
    """Where texts are that are not UTF-8, counted from `first`. Spark takes any bytes for a text; no query can read
    them. Halves without any are left at once, so one such text among a million costs twice a look at all of them."""
    try:
        texts.validate(full=True)
        return
    except pa.ArrowInvalid:
        if len(texts) > LOOKED_THROUGH:
            half = len(texts) // 2
            yield from _not_utf8(texts.slice(0, half), first)
            yield from _not_utf8(texts.slice(half), first + half)
            return
    yield from (first + k for k, value in enumerate(texts) if not _is_readable(value))


def _is_readable(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _readable(rows: pa.Table) -> pa.Table:
    """Rows whose texts can be read: bytes that are not UTF-8 are shown as U+FFFD, payloads with such texts as NULL."""
    for at, column in enumerate(rows.schema):
        if pa.types.is_string(column.type):
            data = rows.column(at).cast(pa.binary()).to_pylist()
            texts = [None if one is None else one.decode(errors="replace") for one in data]
            rows = rows.set_column(at, column, pa.array(texts, pa.string()))
        elif pa.types.is_nested(column.type):
            values = [value.as_py() if _is_readable(value) else None for value in rows.column(at)]
            rows = rows.set_column(at, column, pa.array(values, column.type))
    return rows


def conform(rows: pa.Table, stream: Stream) -> pa.Table:
    """Rows with exactly the stream's columns and types, in order (widening casts only; types were checked)."""
    schema = arrow_schema(stream.columns)
    columns = [rows.column(c.name).cast(schema.field(c.name).type) for c in stream.columns]
    return pa.table(columns, schema=schema)


@dataclass(slots=True)
class _Gathered:
    """What a slice of the batch brought."""

    rows: dict[str, list[pa.Table]] = field(default_factory=dict)  # of each stream, in arrival order
    sparks: set[str] = field(default_factory=set)  # streams of which Spark brought some
    ticket: int = -1  # the highest one seen
    now_us: int | None = None  # how far the clock was advanced

    def add(self, stream: str, rows: pa.Table) -> None:
        self.rows.setdefault(stream, []).append(rows)

    def advance(self, times: pa.ChunkedArray) -> None:
        latest = pc.max(times).as_py()
        if latest is not None:
            self.now_us = latest if self.now_us is None else max(self.now_us, latest)


def _gather(files: Files, batches: Iterator[pa.RecordBatch], task: IngestTask) -> _Gathered:
    """Read what the references name, and take out what Spark brings by itself."""
    found = _Gathered()
    for batch in batches:
        table = pa.Table.from_batches([batch])
        refs = table.column("ref").combine_chunks()
        for ref in refs.filter(refs.is_valid()).to_pylist():
            found.ticket = max(found.ticket, ref["ticket"])
            if ref["stream"].lower() in task.dropped:
                continue
            rows = read_table(files, ref["path"]).slice(ref["start"], ref["count"])
            if ref["stream"] == CLOCK:
                found.advance(rows.column(ADVANCE))
            else:
                found.add(ref["stream"].lower(), rows)
        claimed = {"ref", *(struct_name(name) for name in (*task.streams, *task.dropped))}
        assert claimed >= set(table.schema.names), "rows of a stream that the plan's catalog does not have"
        for name in task.streams:
            if struct_name(name) in table.schema.names:
                structs = table.column(struct_name(name)).combine_chunks()
                structs = structs.filter(structs.is_valid())
                if len(structs):
                    rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])
                    found.add(name, conform(rows, task.streams[name]))
                    found.sparks.add(name)
    return found


def ingest_task(task: IngestTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs: rows in, one report row a stream out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        files = open_files(task.location)
        found = _gather(files, batches, task)
        faults.reach("ingest worker, mid-file")
        reports = []
        for name in sorted(found.rows):
            stream, given = task.streams[name], pa.concat_tables(found.rows[name])
            rows, late, reasons = judge(given, stream, task, is_checked=name not in found.sparks)
            report = {
                "slice": number, "stream": stream.name, "path": None, "count": rows.num_rows, "t_min": 0, "t_max": 0,
                "late_path": None, "late_count": 0, "reasons": json.dumps(reasons), "ticket": found.ticket,
                "now_us": found.now_us,
            }  # fmt: skip
            if rows.num_rows:
                times = times_us(rows, stream)
                report["path"] = write_table(files, "rows", task.batch, rows)
                report["t_min"], report["t_max"] = pc.min(times).as_py(), pc.max(times).as_py()
            if late is not None:
                report["late_path"], report["late_count"] = write_table(files, "late", task.batch, late), late.num_rows
            reports.append(report)
        if not reports and found.ticket >= 0:  # all of dropped streams, or advances: they are consumed all the same
            consumed = {"ticket": found.ticket, "now_us": found.now_us}
            reports.append({"slice": number, "stream": "", "count": 0, "reasons": "{}", **consumed})
        faults.reach("row file written, task result lost")
        yield pa.RecordBatch.from_pylist(reports, schema=REPORT)

    return run
