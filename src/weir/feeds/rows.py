"""Rows of a stream, and matches, as feeds: both are files that the batches have written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.errors import FeedError, did_you_mean
from weir.feeds.contents import PARTS_MAX, beside
from weir.feeds.folder import START, Folder, Place, open_folder, pieces
from weir.runtime.matches_frame import HEAD, Block, Owners, blocks, structs_of, with_rows
from weir.store.matches import CHANNEL
from weir.store.row_files import arrow_schema, read_table
from weir.store.row_places import RowPlaces
from weir.store.state import State
from weir.store.table_history import history_of, paths_of

NO_ROWS = np.empty(0, np.int64)
ROW_REF = pa.struct([pa.field("stream", pa.string()), pa.field("row", pa.int64())])
COLUMNS = {
    "query": pa.int64(),
    "batch": pa.int64(),
    "core": pa.int32(),
    "stream": pa.string(),
    "row": pa.int64(),
    "time": pa.timestamp("us", "UTC"),
    "partner_stream": pa.string(),
    "partner_row": pa.int64(),
    "partners": pa.list_(ROW_REF),
}  # of matches: what a sink gets (`weir.runtime.matches_frame`), and the batch
assert set(COLUMNS) == {*HEAD, "batch"}


@dataclass(frozen=True)
class StreamRows:
    """The rows that a stream keeps, with the batch that brought each and its number."""

    location: str
    stream: Stream
    seen: Place
    schema: pa.Schema

    @classmethod
    def of(cls, folder: Folder, name: str, seen: Place) -> StreamRows:
        streams = folder.catalog_log.read().streams
        stream = streams.get(name.lower())
        if stream is None:
            known = [s.name for s in streams.values()]
            hint = did_you_mean(name, known) or f"streams: {', '.join(known) or 'none yet'}"
            raise FeedError(f"there is no stream '{name}'", hint=hint)
        own = list(arrow_schema(stream.columns))
        head = [pa.field(n, pa.int64()) for n in beside(["batch", "row"], [f.name for f in own])]
        return cls(folder.files.location, stream, seen, pa.schema([*head, *own]))

    def parts(self) -> Sequence[Sequence[tuple[int, int, str]]]:
        return self.steps(START, self.seen)

    def steps(self, after: Place, upto: Place) -> Sequence[Sequence[tuple[int, int, str]]]:
        """(batch, first row, file) of the files of these batches."""
        folder = open_folder(self.location)
        return pieces(folder.read(upto.batch, self._files, after, upto), PARTS_MAX)

    def _files(self, state: State, after: Place, upto: Place) -> list[tuple[int, int, str]]:
        require_kept(state, [self.stream.name], after, upto)
        files = state.row_files(self.stream.name)
        first, last = np.searchsorted(files.batch, [after.batch, upto.batch], side="right").tolist()
        return [(int(files.batch[k]), int(files.first_row[k]), files.paths[k]) for k in range(first, last)]

    def read(self, part: Sequence[tuple[int, int, str]]) -> Iterator[pa.Table]:
        folder = open_folder(self.location)
        for batch, first_row, path in part:
            rows = read_table(folder.files, path)
            head = [pa.repeat(batch, rows.num_rows), pa.array(first_row + np.arange(rows.num_rows))]
            yield pa.table([*head, *rows.columns], names=self.schema.names)


def require_kept(state: State, streams: Sequence[str], after: Place, upto: Place) -> None:
    """FeedError if rows that came between two places have expired; a reader that begins takes what there is."""
    if after.batch < 0:
        return
    for name in streams:
        first, end = after.rows.get(name, 0), upto.rows.get(name, 0)
        files = state.row_files(name)
        inside = (files.first_row >= first) & (files.first_row < end)
        if int(files.count[inside].sum()) != end - first:
            raise FeedError(
                f"rows of stream '{name}' that came after batch {after.batch} have expired",
                hint="begin with a new checkpoint; to read more rarely, define the stream with a longer keep",
            )


@dataclass(frozen=True)
class Matches:
    """The matches of some queries with their rows, or those of all queries without."""

    location: str
    streams: Mapping[str, Stream]  # of the channels, and the changes of their tables; one may be dropped by now
    ids: tuple[int, ...]  # none: of all
    channels: frozenset[str]  # none: all
    seen: Place
    schema: pa.Schema

    @classmethod
    def of(cls, folder: Folder, ids: tuple[int, ...], seen: Place) -> Matches:
        folder.registry.refresh()
        groups = {group.number: group for group in map(folder.library.group_of, ids)}
        channels = frozenset(channel for group in groups.values() for channel in group.channels)
        streams = _streams_in(folder, channels)
        fields = [*COLUMNS.items()]
        for (name, _), column in structs_of(streams, channels, COLUMNS).items():
            own = RowPlaces(streams[name], (), NO_ROWS, NO_ROWS).columns
            fields.append((column, pa.struct(list(arrow_schema(own)))))
        return cls(folder.files.location, streams, ids, channels, seen, pa.schema(fields))

    def parts(self) -> Sequence[Sequence[tuple[int, str]]]:
        return self.steps(START, self.seen)

    def steps(self, after: Place, upto: Place) -> Sequence[Sequence[tuple[int, str]]]:
        """(batch, match file) of these batches."""
        folder = open_folder(self.location)
        return pieces(folder.read(upto.batch, self._files, folder, after, upto), PARTS_MAX)

    def _files(self, state: State, folder: Folder, after: Place, upto: Place) -> list[tuple[int, str]]:
        # A batch has its matches for as long as one of its rows is kept.
        known = {n.lower() for n in folder.catalog_log.read().streams}
        names = self.streams if self.channels else upto.rows
        require_kept(state, [name for name in names if name.lower() in known], after, upto)
        return [(batch, file.path) for batch, file in state.match_files(after.batch + 1, upto.batch)]

    def read(self, part: Sequence[tuple[int, str]]) -> Iterator[pa.Table]:
        folder = open_folder(self.location)
        folder.registry.refresh()
        owners = Owners.of(folder.registry.groups())
        structs = structs_of(self.streams, self.channels, COLUMNS)
        nowhere = {name: RowPlaces(stream, (), NO_ROWS, NO_ROWS) for name, stream in self.streams.items()}
        for batch, path in part:
            places = folder.read(batch, places_at, folder, batch)
            opened: dict[str, pa.Table] = {}
            for block in blocks(folder.files, path):
                wanted = self._wanted(block, owners, places)
                if wanted is not None:
                    rows = with_rows(folder.files, wanted, owners, nowhere | places, structs, opened)
                    rows = rows.append_column("batch", pa.repeat(batch, rows.num_rows))
                    yield pa.Table.from_batches([rows]).select(self.schema.names)

    def _wanted(self, block: Block, owners: Owners, places: dict[str, RowPlaces]) -> Block | None:
        """The matches of the queries that were asked for; those of a stream that was dropped, or of an event that has
        expired, are gone.
        """
        if any(name not in places for name, _ in block.sides):
            return None
        asked = places[block.stream].has(block.rows)
        if self.ids:
            asked &= np.isin(owners.split(block.cores)[0], np.array(self.ids))
        return block.where(asked) if asked.any() else None


def _streams_in(folder: Folder, channels: Iterable[str]) -> dict[str, Stream]:
    """The streams of channels, and the changes of their tables, by name in the order of names."""
    catalog = folder.catalog_log.read()
    fed = {s.name: s for s in (*catalog.streams.values(), *(t.changes for t in catalog.tables.values()))}
    names = {name for channel in channels for name in channel.split(CHANNEL)}
    return {name: fed[name] for name in sorted(names)}


def places_at(state: State, folder: Folder, batch: int) -> dict[str, RowPlaces]:
    """Where the rows of all streams are, and how long versions of tables hold as far as a batch knows."""
    catalog = folder.catalog_log.read()
    found = {}
    for stream in (*catalog.streams.values(), *(t.changes for t in catalog.tables.values())):
        files = state.row_files(stream.name)
        found[stream.name] = RowPlaces(stream, files.paths, files.first_row, files.first_row + files.count)
    for table in catalog.tables.values():
        paths = paths_of(table, state, batch)
        if paths:
            lifetimes = history_of(folder.files, table, paths).lifetimes  # not the job's file, which may go
            found[table.changes.name] = replace(found[table.changes.name], lifetimes=lifetimes)
    return found
