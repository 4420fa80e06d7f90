"""What a sink gets: the matches of a done batch with their rows, as a Spark DataFrame.

    query           the query's id
    core            the number of the query's core that it is a result of, from 0; a query without UNION has one core
    stream, row     the event: a new row of the batch
    time            the event's time; of a version of a table, since when it holds (NULL: always)
    partner_stream, partner_row    the row that the event was joined with, the first of several; NULL for a selection
    partners        all rows that the event was joined with (stream, row), by side; NULL for a selection
    <stream>        a struct for each stream that occurs, with the columns of its row; NULL where it has no part. A
                    table is a stream of its versions here: they come when they are put in, and are partners of rows
    <stream>_partner    the second row of the same stream, there if a join of a stream with itself matched; then
                    <stream>_partner2, … for a third and further ones. The event comes first, partners by side

Where such a name is taken, in any case of letters (a stream `row`, or streams `t` and `t_partner`), it ends in `_`. The
frame is lazy: until the sink asks for more, only the directories of the match files are read. Events are in the row
files of the batch; partners may be of any batch, so the row files of their streams are looked up by row id. A partner
that expired in the meantime is NULL. Match files are read piece by piece and handed on in blocks of `BLOCK_ROWS`
matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.ddl import spark_type
from weir.algebra.schema import ENDLESS_US, Stream, called
from weir.runtime.loop import Context
from weir.store.files import Files, open_files
from weir.store.ledger import Done
from weir.store.lifetimes import lifetimes_of
from weir.store.matches import CHANNEL, channels_of, read_matches
from weir.store.query_groups import GroupRef
from weir.store.row_files import arrow_schema, times_us
from weir.store.row_places import RowPlaces
from weir.store.table_history import lifetimes_file, paths_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_ROWS = 100_000
HEAD = {
    "query": "bigint",
    "core": "int",
    "stream": "string",
    "row": "bigint",
    "time": "timestamp",
    "partner_stream": "string",
    "partner_row": "bigint",
    "partners": "array<struct<stream:string,row:bigint>>",
}  # the columns before the structs, and their types


@dataclass(frozen=True)
class Owners:
    """Which query a core belongs to: for each group of registrations its first id and how many queries it has."""

    first: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, groups: Sequence[GroupRef]) -> Owners:
        """Neighbouring groups whose queries have one core each are one entry, where a core's id is its query's."""
        wanted = [(0, 1 << 62)]
        for group in groups:
            if group.cores > 1:
                wanted += [(group.first_id, group.count), (group.end_id, 1 << 62)]
        first, count = np.array(wanted, np.int64).T
        return cls(first, count)

    def split(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The query of each core, and the core's number in it."""
        group = np.searchsorted(self.first, ids, side="right") - 1
        inside = ids - self.first[group]
        return self.first[group] + inside % self.count[group], inside // self.count[group]


@dataclass(frozen=True)
class Block:
    """Some matches: ids of cores, events and (of joins) partners, by side."""

    cores: np.ndarray
    stream: str
    rows: np.ndarray
    partner_streams: tuple[str, ...] = ()
    partners: tuple[np.ndarray, ...] = ()

    @property
    def sides(self) -> list[tuple[str, np.ndarray]]:
        """The event's stream and rows, then those of the partners."""
        return [(self.stream, self.rows), *zip(self.partner_streams, self.partners, strict=True)]

    def where(self, holds: np.ndarray) -> Block:
        """Some of the matches."""
        partners = tuple(rows[holds] for rows in self.partners)
        return replace(self, cores=self.cores[holds], rows=self.rows[holds], partners=partners)


def matches_frame(session: SparkSession, context: Context, done: Done, slices: int) -> DataFrame:
    """The matches of a done batch, with the columns that the head of this file lists."""
    paths = [m.path for m in done.matches]
    location = context.files.location
    channels = set().union(*(channels_of(context.files, path) for path in paths))
    places = _places(context, done, channels)
    structs = structs_of(places, channels)
    owners = Owners.of(context.registry.groups())

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(location)
        for batch in batches:
            for k in batch.column(0).to_pylist():
                opened: dict[str, pa.Table] = {}
                for block in blocks(files, paths[k]):
                    yield with_rows(files, block, owners, places, structs, opened)

    head = ", ".join(f"{name} {type_}" for name, type_ in HEAD.items())
    fields = {name: ",".join(f"`{c.name}`:{spark_type(c.type)}" for c in rows.columns) for name, rows in places.items()}
    ddl = head + "".join(f", `{column}` struct<{fields[name]}>" for (name, _), column in structs.items())
    n = max(1, min(slices, len(paths)))
    return session.range(0, len(paths), 1, n).mapInArrow(read, ddl)


def structs_of(
    streams: Iterable[str], channels: Iterable[str], head: Iterable[str] = HEAD
) -> dict[tuple[str, int], str]:
    """The names of struct columns, by stream and by which of the stream's rows in a match a column holds.

    `head` are the columns that stand before them.
    """
    wanted = [(name, 0) for name in streams]
    most: dict[str, int] = {}
    for channel in sorted(channels):
        for name, count in Counter(channel.split(CHANNEL)).items():
            most[name] = max(most.get(name, 1), count)
    wanted += [(name, k) for name, count in most.items() for k in range(1, count)]
    taken, found = set(head), {}
    for name, k in wanted:
        column = called(name) + ("" if k == 0 else "_partner" if k == 1 else f"_partner{k}")
        while column.lower() in taken:
            column += "_"
        taken.add(column.lower())
        found[name, k] = column
    return found


def _places(context: Context, done: Done, channels: set[str]) -> dict[str, RowPlaces]:
    """Where the rows of every stream that occurs are: those of the batch, and the kept ones of joined streams."""
    joined = {name for channel in channels for name in channel.split(CHANNEL)}
    found = {}
    # The plan's catalog, not the newest: a stream of this batch may have been dropped since.
    catalog = context.catalog_log.read(context.state.catalog)
    tables = [t for t in catalog.tables.values() if t.changes.name in joined]
    for stream in (*catalog.streams.values(), *(t.changes for t in tables)):
        files = {f.path: (f.first_row, f.first_row + f.count) for f in done.rows if f.stream == stream.name}
        if stream.name in joined:
            kept = context.state.row_files(stream.name)
            ends = kept.first_row + kept.count
            files.update(zip(kept.paths, zip(kept.first_row.tolist(), ends.tolist(), strict=True), strict=True))
        if files or stream.name in joined:
            ordered = sorted(files, key=lambda path: files[path])
            spans = np.array([files[path] for path in ordered], np.int64).reshape(-1, 2)
            found[stream.name] = RowPlaces(stream, tuple(ordered), spans[:, 0].copy(), spans[:, 1].copy())
    for table in tables:
        paths = paths_of(table, context.state, done.batch)
        if paths:
            lifetimes = lifetimes_file(context.files, table, paths)
            found[table.changes.name] = replace(found[table.changes.name], lifetimes=lifetimes)
    return found


def blocks(files: Files, path: str) -> Iterator[Block]:
    """The matches of one file, at most `BLOCK_ROWS` at once."""
    for piece in read_matches(files, path):
        sides = piece.channel.split(CHANNEL)
        others = tuple(sides[: piece.side] + sides[piece.side + 1 :])
        rows = np.repeat(piece.events, np.diff(piece.offsets))
        for at in range(0, len(rows), BLOCK_ROWS):
            part = slice(at, at + BLOCK_ROWS)
            yield Block(piece.items[part], sides[piece.side], rows[part], others, tuple(piece.partners[:, part]))


def with_rows(
    files: Files,
    block: Block,
    owners: Owners,
    places: Mapping[str, RowPlaces],
    structs: Mapping[tuple[str, int], str],
    opened: dict[str, pa.Table],
) -> pa.RecordBatch:
    """A block with its rows beside it."""
    taken = [places[name].take(files, rows, opened) for name, rows in block.sides]
    holds = _met(files, block, places, taken)
    if holds is not None:
        block, taken = block.where(holds), [rows.filter(pa.array(holds)) for rows in taken]
    count = len(block.rows)
    filled: dict[tuple[str, int], pa.Table] = {}
    seen: Counter[str] = Counter()
    for (name, _), rows in zip(block.sides, taken, strict=True):
        filled[name, seen[name]] = rows
        seen[name] += 1
    first = called(block.partner_streams[0]) if block.partner_streams else None
    queries, cores = owners.split(block.cores)
    columns = [
        pa.array(queries),
        pa.array(cores, pa.int32()),
        pa.repeat(called(block.stream), count),
        pa.array(block.rows),
        _times(taken[0], places[block.stream].stream),
        pa.repeat(pa.scalar(first, pa.string()), count),
        pa.array(block.partners[0]) if block.partners else pa.nulls(count, pa.int64()),
        _partners(block),
    ]
    for name, k in structs:
        columns.append(_struct(filled.get((name, k)), places[name], count))
    return pa.RecordBatch.from_arrays(columns, names=[*HEAD, *structs.values()])


def _times(rows: pa.Table, stream: Stream) -> pa.Array:
    """When events were; NULL for a version of a table that has always held."""
    times = times_us(rows, stream)
    always = pc.equal(times, -ENDLESS_US)
    return pc.if_else(always, pa.scalar(None, pa.int64()), times).cast(pa.timestamp("us", "UTC"))


def _met(files: Files, block: Block, places: Mapping[str, RowPlaces], taken: Sequence[pa.Table]) -> np.ndarray | None:
    """In which matches rows of streams meet versions of tables, as far as the batch knows; None: in all."""
    sides = [(places[name], rows) for name, rows in block.sides]
    dated = [(lifetimes_of(files, of.lifetimes), rows) for of, rows in sides if of.lifetimes is not None]
    if not dated:
        return None
    of_streams = [(of, table) for (of, _), table in zip(sides, taken, strict=True) if of.lifetimes is None]
    # A row that expired in the meantime is older than the others.
    times = [times_us(table, of.stream).fill_null(-ENDLESS_US).to_numpy() for of, table in of_streams]
    newest = np.maximum.reduce(times)
    holds = np.ones(len(block.rows), bool)
    for lifetimes, rows in dated:
        holds &= lifetimes.meet(rows, newest)
    return None if holds.all() else holds


def _partners(block: Block) -> pa.Array:
    """For each match the list of its partners."""
    count, width = len(block.rows), len(block.partners)
    fields = [pa.field("stream", pa.string()), pa.field("row", pa.int64())]
    if not width:
        return pa.nulls(count, pa.list_(pa.struct(fields)))
    names = pa.array([called(name) for name in block.partner_streams]).take(pa.array(np.tile(np.arange(width), count)))
    rows = pa.array(np.stack(block.partners, axis=1).ravel())
    ends = np.arange(count + 1, dtype=np.int32) * width
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.StructArray.from_arrays([names, rows], fields=fields)
    )


def _struct(table: pa.Table | None, of: RowPlaces, count: int) -> pa.Array:
    """Rows as one column; NULL where there is none. Every row has a time, so a row without a time is none."""
    fields = list(arrow_schema(of.columns))
    if table is None:
        return pa.nulls(count, pa.struct(fields))
    gone = table.column(of.stream.time).combine_chunks().is_null()
    arrays = [table.column(c.name).combine_chunks() for c in of.columns]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=gone)
