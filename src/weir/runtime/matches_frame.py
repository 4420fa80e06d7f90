"""What a sink gets: the matches of a done batch with their rows, as a Spark DataFrame.

    query           the query's id
    stream, row     the event: a new row of the batch
    time            the event's time
    partner_stream, partner_row    the row that the event was joined with; NULL for a selection
    <stream>        a struct for each stream that occurs, with the columns of its row; NULL where it has no part
    <stream>_partner    the partner of an event of the same stream; there if a join of a stream with itself matched

Where such a name is taken, in any case of letters (a stream `row`, or streams `t` and `t_partner`), it ends in `_`.
Lazy: nothing but the directories of the match files is read unless the sink asks. Events are in the row files of the
batch; partners may be of any batch, so the row files of their streams are looked up by row id. A partner that
expired in the meantime is NULL. Match files are read piece by piece and handed on in blocks of `BLOCK_ROWS` matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.runtime.loop import Context
from weir.store.files import Files, open_files
from weir.store.ledger import Done
from weir.store.matches import CHANNEL, channels_of, read_joins, read_matches
from weir.store.rows import arrow_schema, read_table, times_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK_ROWS = 100_000
HEAD = {
    "query": "bigint",
    "stream": "string",
    "row": "bigint",
    "time": "timestamp",
    "partner_stream": "string",
    "partner_row": "bigint",
}  # the columns before the structs, and their types


@dataclass(frozen=True)
class _Rows:
    """Where the rows of one stream are: its row files by ascending first row id. Travels to the workers."""

    stream: Stream
    paths: tuple[str, ...]
    first_rows: np.ndarray  # int64[files]
    end_rows: np.ndarray  # int64[files]

    def take(self, files: Files, rows: np.ndarray, opened: dict[str, pa.Table]) -> pa.Table:
        """The rows with these ids, in this order; all NULL where a row is gone."""
        distinct, position = np.unique(rows, return_inverse=True)
        starts, stops = np.searchsorted(distinct, self.first_rows), np.searchsorted(distinct, self.end_rows)
        tables = [arrow_schema(self.stream.columns).empty_table()]
        place = np.full(len(distinct), -1, np.int64)  # in all tables together
        count = 0
        for k in np.flatnonzero(stops > starts):
            path = self.paths[k]
            if path not in opened:
                opened[path] = read_table(files, path)
            here = slice(starts[k], stops[k])
            tables.append(opened[path].take(pa.array(distinct[here] - self.first_rows[k])))
            place[here] = np.arange(count, count + stops[k] - starts[k])
            count += int(stops[k] - starts[k])
        whole = pa.concat_tables(tables).combine_chunks()
        return whole.take(pa.array(place[position], mask=place[position] < 0)).combine_chunks()


@dataclass(frozen=True)
class _Block:
    """Some matches: query ids, events and (of joins) partners."""

    queries: np.ndarray
    stream: str
    rows: np.ndarray
    partner_stream: str | None = None
    partners: np.ndarray | None = None


def matches_frame(session: SparkSession, context: Context, done: Done, slices: int) -> DataFrame:
    """The matches of a done batch: query, stream, row, time, partner_stream, partner_row, and structs."""
    paths = [m.path for m in done.matches]
    location = context.files.location
    channels = set().union(*(channels_of(context.files, path) for path in paths))
    places = _places(context, done, channels)
    structs = _structs(places, channels)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(location)
        for batch in batches:
            for k in batch.column(0).to_pylist():
                opened: dict[str, pa.Table] = {}
                for block in _blocks(files, paths[k]):
                    yield _with_rows(files, block, places, structs, opened)

    head = ", ".join(f"{name} {type_}" for name, type_ in HEAD.items())
    fields = {name: ",".join(f"`{c.name}`:{c.type}" for c in rows.stream.columns) for name, rows in places.items()}
    ddl = head + "".join(f", `{column}` struct<{fields[name]}>" for (name, _), column in structs.items())
    n = max(1, min(slices, len(paths)))
    return session.range(0, len(paths), 1, n).mapInArrow(read, ddl)


def _structs(streams: Iterable[str], channels: Iterable[str]) -> dict[tuple[str, bool], str]:
    """By stream, and whether it holds partners of the same stream: how a struct column is called."""
    wanted = [(name, False) for name in streams]
    wanted += [(one, True) for one, other in (c.split(CHANNEL) for c in sorted(channels)) if one == other]
    taken, found = set(HEAD), {}
    for name, is_partner in wanted:
        column = f"{name}_partner" if is_partner else name
        while column.lower() in taken:
            column += "_"
        taken.add(column.lower())
        found[name, is_partner] = column
    return found


def _places(context: Context, done: Done, channels: set[str]) -> dict[str, _Rows]:
    """Where the rows of every stream that occurs are: those of the batch, and the kept ones of joined streams."""
    joined = {name for channel in channels for name in channel.split(CHANNEL)}
    found = {}
    for stream in context.catalog_log.read().streams.values():
        files = {f.path: (f.first_row, f.first_row + f.count) for f in done.rows if f.stream == stream.name}
        if stream.name in joined:
            kept = context.state.row_files(stream.name)
            ends = kept.first_row + kept.count
            files.update(zip(kept.paths, zip(kept.first_row.tolist(), ends.tolist(), strict=True), strict=True))
        if files or stream.name in joined:
            ordered = sorted(files, key=lambda path: files[path])
            spans = np.array([files[path] for path in ordered], np.int64).reshape(-1, 2)
            found[stream.name] = _Rows(stream, tuple(ordered), spans[:, 0].copy(), spans[:, 1].copy())
    return found


def _blocks(files: Files, path: str) -> Iterator[_Block]:
    """The matches of one file, at most so many at once."""
    for piece in read_matches(files, path):
        rows = np.repeat(np.arange(len(piece.offsets) - 1) + piece.first_row, np.diff(piece.offsets))
        for at in range(0, len(rows), BLOCK_ROWS):
            part = slice(at, at + BLOCK_ROWS)
            yield _Block(piece.items[part], piece.stream, rows[part])
    for join in read_joins(files, path):
        sides = join.channel.split(CHANNEL)
        stream, partner_stream = sides[join.side], sides[1 - join.side]
        rows = np.repeat(join.events, np.diff(join.offsets))
        for at in range(0, len(rows), BLOCK_ROWS):
            part = slice(at, at + BLOCK_ROWS)
            yield _Block(join.items[part], stream, rows[part], partner_stream, join.partners[part])


def _with_rows(
    files: Files,
    block: _Block,
    places: Mapping[str, _Rows],
    structs: Mapping[tuple[str, bool], str],
    opened: dict[str, pa.Table],
) -> pa.RecordBatch:
    """A block with its rows beside it."""
    count = len(block.rows)
    events = places[block.stream].take(files, block.rows, opened)
    filled = {(block.stream, False): events}
    partners = pa.nulls(count, pa.int64())
    if block.partner_stream is not None and block.partners is not None:
        at = block.partner_stream, block.partner_stream == block.stream
        filled[at] = places[block.partner_stream].take(files, block.partners, opened)
        partners = pa.array(block.partners)
    columns = [
        pa.array(block.queries),
        pa.repeat(block.stream, count),
        pa.array(block.rows),
        times_us(events, places[block.stream].stream).cast(pa.timestamp("us", "UTC")),
        pa.repeat(pa.scalar(block.partner_stream, pa.string()), count),
        partners,
    ]
    for name, is_partner in structs:
        columns.append(_struct(filled.get((name, is_partner)), places[name].stream, count))
    return pa.RecordBatch.from_arrays(columns, names=[*HEAD, *structs.values()])


def _struct(table: pa.Table | None, stream: Stream, count: int) -> pa.Array:
    """Rows as one column; NULL where there is none. Every row has a time, so one without is none."""
    fields = list(arrow_schema(stream.columns))
    if table is None:
        return pa.nulls(count, pa.struct(fields))
    arrays = [c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in table.columns]
    gone = arrays[table.column_names.index(stream.time)].is_null()
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=gone)
