"""The registry: which queries stand, as numbered groups of registrations and drops.

    registry/000000000012   one Arrow IPC file; what it is stands in the schema's metadata under `weir`
       register             a shape (SQL with its constants taken out) and a column c0, c1, … for each
                            constant; row i is one query
       drop                 a column `id` of the queries that go
       retry                a column `id` of the queries that are to be matched again, though a batch gave them up

Documents form a chain (`weir.store.documents`). The number of a document orders it: a batch whose plan says
`registry = n` sees documents 0 … n − 1. Ids are not stored: a group's first id is the number of ids given out before
it, so ids are the same for every reader and never reused, because documents are never changed or deleted (a drop is one
more document).

A query of several *cores* (select-join blocks, see `weir.plan.cores`) has an id for each. In a group of n queries the
first n ids are those of the queries and of their first cores, the next n those of their second cores, and so on.
Matches, budgets and demotions are about cores; users see queries.

In memory: one GroupRef a group, never an object a query; constants are memory-mapped when they are asked for.
Cost: `refresh` reads new documents only (one probe if there are none), `group_of` is a binary search. The
directory is kept as a cache file every `CACHE_EVERY` documents, so that opening 100,000 groups reads one
file; the file is ignored if it is damaged or not about the documents that are there.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.ddl import parse_type
from weir.algebra.schema import DataType
from weir.errors import QueryError, StoreError
from weir.store import caches
from weir.store.arrow import DAMAGED, from_ipc, to_ipc
from weir.store.documents import HEAD, RESTORE, ROOT, Document, create_document, read_document, seal_of_bytes, unsealed
from weir.store.files import Files, unique
from weir.store.mapped import Mapped

FORMAT = 5
CACHE_EVERY = 1_000  # documents …
CACHE_BYTES = 1 << 20  # … or so many bytes of them: a million queries may be one document
Ids = npt.NDArray[np.int64]
_mapped: Mapped[pa.Table] = Mapped(1024)  # the constants of groups
_RETRIES = pa.schema([("number", pa.int64()), ("ids", pa.list_(pa.int64()))])


class KeptAs(NamedTuple):
    """With which queries the answers of a group are maintained."""

    shape: str  # what all of these are called together
    fixed: tuple[str, ...] = ()  # constants that are the same for all of them, and make cores of them the same


@dataclass(frozen=True, slots=True)
class GroupRef:
    """One group of registrations of one shape: queries first_id … first_id + count − 1."""

    number: int  # of its document
    first_id: int
    count: int
    shape_text: str
    types: tuple[DataType, ...]  # of the constants c0, c1, …
    families: tuple[str, ...]  # by core, the form of query that it is
    channels: tuple[str, ...]  # by core, the streams of its sides: trade~weather
    catalog: int  # how many catalog documents there were when it was registered
    kept_as: KeptAs | None = None  # if the answers are maintained as rows come

    @property
    def is_kept(self) -> bool:
        """Whether the answers are maintained."""
        return self.kept_as is not None

    @property
    def cores(self) -> int:
        """A query of tables alone has none, and an id all the same."""
        return max(1, len(self.channels))

    @property
    def end_id(self) -> int:
        """The first id that is not its own."""
        return self.first_id + self.count * self.cores

    def core_of(self, id: int) -> int:
        """Which core of its query an id stands for."""
        return (id - self.first_id) // self.count


class Registry:
    """The standing queries of one weir; any number of processes may register and drop, and threads share one."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._lock = threading.RLock()  # over all that follows
        self._count = 0  # documents known
        self._queries = 0  # queries in them
        self._next_id = 0
        self._is_several = False  # whether any group has several cores
        self._groups: list[GroupRef] = []
        self._group_numbers: list[int] = []
        self._group_first_ids: list[int] = []
        self._dropped: Ids = np.empty(0, np.int64)  # sorted, unique
        self._drop_numbers: Ids = np.empty(0, np.int64)  # of _dropped: the first document that drops it
        self._retries: list[tuple[int, Ids]] = []  # documents that ask for retries, and the queries
        self._head = ROOT  # the seal of the newest document
        self._checked: set[int] = set()  # documents whose seal was looked at, of groups that a cache told of
        self._arrays: tuple[Ids, Ids, Ids] | None = None  # see `_layout`
        self._opened = False  # whether a cache file was looked for
        self._cached = 0  # documents in the newest cache file we know of …
        self._read_bytes = 0  # … and the bytes of those that were read since

    # ── writing ──

    def register(
        self,
        shape_text: str,
        types: Sequence[DataType],
        constants: pa.Table,
        families: Sequence[str],
        channels: Sequence[str],
        catalog: int,
        *,
        kept_as: KeptAs | None = None,
    ) -> GroupRef:
        """Add one query for each row of `constants`; durable when it returns.

        Its columns are c0, c1, … as `types` says. A shape without constants has one column of any name and
        type, since a table without columns has no rows either.
        """
        if constants.num_rows == 0:
            raise StoreError("a group of registrations has no rows")
        if constants.column_names != [f"c{i}" for i in range(len(types))] and types:
            raise StoreError(f"constants are {constants.column_names}, expected c0 … c{len(types) - 1}")
        about = {
            "kind": "register",
            "shape": shape_text,
            "types": [str(t) for t in types],
            "families": list(families),
            "channels": list(channels),
            "catalog": catalog,
            "count": constants.num_rows,
            "kept": kept_as,
        }
        number = self._append(about, constants)
        return self._groups[bisect_left(self._group_numbers, number)]

    def drop(self, ids: Ids) -> int:
        """Drop queries, all or none; returns the number of the document. Unknown ids are refused."""
        return self._about_queries("drop", ids)

    def retry(self, ids: Ids) -> int:
        """Ask for queries to be matched again, all or none; returns the number of the document."""
        return self._about_queries("retry", ids)

    def _about_queries(self, kind: str, ids: Ids) -> int:
        """A document about queries that stand."""
        wanted = np.unique(np.asarray(ids, np.int64))
        self.refresh()
        unknown = (wanted < 0) | (wanted >= self._next_id)
        unknown[~unknown] = self.queries_of(wanted[~unknown]) != wanted[~unknown]
        for one in wanted[unknown]:
            self.group_of(int(one))  # which says what is wrong with it
        for one in wanted[np.isin(wanted, self._dropped)]:
            raise QueryError(f"query {one} was dropped already, in registry document {self.drop_number(int(one))}")
        if len(wanted) == 0:
            raise QueryError(f"no ids to {kind} were given")
        return self._append({"kind": kind, "count": len(wanted)}, pa.table({"id": wanted}))

    def _append(self, about: dict[str, object], body: pa.Table) -> int:
        token = unique()
        metadata = {b"weir": json.dumps({"format": FORMAT, "token": token, **about}).encode()}
        data = to_ipc(body, metadata)
        while True:
            self.refresh()
            number = self._count
            if create_document(self.files, path_of(number), self._head, data) is not None:
                self.refresh()
                return number

    # ── reading ──

    @property
    def count(self) -> int:
        """Documents known, as of the last refresh."""
        return self._count

    @property
    def head(self) -> str:
        """The seal of the newest document, as of the last refresh."""
        return self._head

    def require(self, count: int, head: str) -> None:
        """StoreError unless the documents 0 … count − 1 are there and the last of them has this seal."""
        with self._lock:
            self._require(count)
            found = self._head if count == self._count else ROOT
            if 0 < count < self._count:
                document = read_document(self.files, path_of(count - 1))
                found = ROOT if document is None else document.seal
        if found != head:
            raise StoreError(f"{path_of(count - 1)} is not the document that a plan includes", hint=RESTORE)

    @property
    def queries(self) -> int:
        """Queries ever registered, dropped ones included, as of the last refresh."""
        return self._queries

    def refresh(self) -> None:
        """Take in the documents that are new."""
        with self._lock:
            if not self._opened:
                found = (n for n, parts in caches.load(self.files, "registry") if self._restore(n, parts))
                self._cached = next(found, 0)
                self._opened = True
            before = self._count
            drops: list[tuple[int, Ids]] = []
            try:
                while (document := read_document(self.files, path_of(self._count), self._head)) is not None:
                    self._take(self._count, document, drops)
                    self._count += 1
                    self._read_bytes += len(document.body)
            finally:  # also when a read fails: the documents before it are counted, so their drops must be
                if drops:
                    self._merge_drops(drops)
            is_much = self._count - self._cached >= CACHE_EVERY or self._read_bytes >= CACHE_BYTES
            if self._count > before and is_much:
                self._save_cache()

    def groups(self, upto: int | None = None) -> Sequence[GroupRef]:
        """The groups of documents 0 … upto − 1, or of all known ones, in order."""
        with self._lock:
            if upto is None:
                return tuple(self._groups)
            self._require(upto)
            return tuple(self._groups[: bisect_left(self._group_numbers, upto)])

    def group_of(self, query: int) -> GroupRef:
        """The group a query belongs to."""
        group = self.group_of_core(query)
        if group.core_of(query):
            raise QueryError(f"there is no query {query}", hint="it is the number of a part of another query")
        return group

    def groups_of(self, queries: Ids) -> tuple[tuple[GroupRef, ...], Ids]:
        """The groups that some queries belong to, and for each query the place of its group among them."""
        with self._lock:
            first, count, _ = self._layout()
            at = np.searchsorted(first, queries, side="right") - 1
            known = (at >= 0) & (queries - first[at] < count[at]) if len(first) else np.zeros(len(queries), bool)
            for unknown in queries[~known]:
                self.group_of(int(unknown))  # which says what is wrong with it
            places, group = np.unique(at, return_inverse=True)
            return tuple(self._groups[place] for place in places.tolist()), group

    def group_of_core(self, id: int) -> GroupRef:
        """The group that the query of a core belongs to."""
        with self._lock:
            if id >= self._next_id:
                self.refresh()
            if not 0 <= id < self._next_id:
                raise QueryError(f"there is no query {id}", hint=f"ids go from 0 to {self._next_id - 1}")
            return self._groups[bisect_left(self._group_first_ids, id + 1) - 1]

    def cores_of(self, queries: Ids) -> Ids:
        """The ids of all cores of these queries, ascending."""
        if not len(queries) or not self._is_several:
            return queries
        first, count, cores = self._layout()
        group = np.searchsorted(first, queries, side="right") - 1
        found = [queries]
        for core in range(1, int(cores[group].max())):
            has = cores[group] > core
            found.append(queries[has] + core * count[group[has]])
        return np.sort(np.concatenate(found))

    def queries_of(self, ids: Ids) -> Ids:
        """The id of each core's query."""
        if not len(ids) or not self._is_several:
            return ids
        first, count, _ = self._layout()
        group = np.searchsorted(first, ids, side="right") - 1
        queries: Ids = first[group] + (ids - first[group]) % count[group]
        return queries

    def _layout(self) -> tuple[Ids, Ids, Ids]:
        """For each group its first id, and how many queries it has, and cores a query."""
        with self._lock:
            if self._arrays is None or len(self._arrays[0]) != len(self._groups):
                rows = [(g.first_id, g.count, g.cores) for g in self._groups]
                first, count, cores = np.array(rows, np.int64).reshape(-1, 3).T
                self._arrays = first, count, cores
            return self._arrays

    def constants(self, group: GroupRef) -> pa.Table:
        """The constants of a group, memory-mapped; row i belongs to query first_id + i."""
        path = path_of(group.number)
        table = _mapped.get(self.files, path, lambda: self._mapped_constants(path, group))
        if table.num_rows != group.count:
            raise StoreError(f"{path} has {table.num_rows} rows, expected {group.count}", hint=RESTORE)
        return table

    def _mapped_constants(self, path: str, group: GroupRef) -> pa.Table:
        local = self.files.local_path(path)
        if local is None:
            raise StoreError(f"{path} is missing, though it was written", hint=RESTORE)
        try:
            data = pa.memory_map(str(local)).read_buffer()
            if group.number not in self._checked:
                unsealed(path, data)
                self._checked.add(group.number)
            table = pa.ipc.open_file(pa.BufferReader(data.slice(HEAD))).read_all()
        except DAMAGED as error:
            raise StoreError(f"{path} is damaged: {error}", hint=RESTORE) from error
        return table.replace_schema_metadata(None)

    def dropped(self, upto: int | None = None) -> Ids:
        """The ids dropped by documents 0 … upto − 1, or by all known ones; sorted."""
        with self._lock:
            if upto is None:
                return self._dropped
            self._require(upto)
            return self._dropped[self._drop_numbers < upto]

    def retried(self, first: int, upto: int) -> Ids:
        """The queries that documents first … upto − 1 want to be matched again; sorted."""
        with self._lock:
            self._require(upto)
            found = [ids for number, ids in self._retries if first <= number < upto]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def drop_number(self, query: int) -> int | None:
        """The document that dropped a query, or None while it stands."""
        with self._lock:
            at = int(np.searchsorted(self._dropped, query))
            if at < len(self._dropped) and self._dropped[at] == query:
                return int(self._drop_numbers[at])
            return None

    def _require(self, upto: int) -> None:
        if upto > self._count:
            self.refresh()
        if upto > self._count:
            raise StoreError(f"{path_of(self._count)} is missing, though document {upto - 1} exists", hint=RESTORE)

    def _take(self, number: int, document: Document, drops: list[tuple[int, Ids]]) -> None:
        """Add one document to the directory."""
        path = path_of(number)
        try:
            reader = pa.ipc.open_file(pa.BufferReader(document.body))
            about = json.loads(reader.schema.metadata[b"weir"])
            if about["format"] != FORMAT:
                raise StoreError(f"{path} has format {about['format']}, this version reads {FORMAT}")
            if about["kind"] == "register":
                types = tuple(parse_type(t) for t in about["types"])
                self._add_group(
                    GroupRef(
                        number,
                        self._first_id(),
                        about["count"],
                        about["shape"],
                        types,
                        tuple(about["families"]),
                        tuple(about["channels"]),
                        about["catalog"],
                        _kept_as(about["kept"]),
                    )
                )
            elif about["kind"] == "drop":
                drops.append((number, reader.read_all()["id"].to_numpy()))
            elif about["kind"] == "retry":
                self._retries.append((number, reader.read_all()["id"].to_numpy()))
            else:
                raise StoreError(f"{path} is a '{about['kind']}', expected register, drop or retry")
            self._head = document.seal
        except (*DAMAGED, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged: {error!r}", hint=RESTORE) from error

    def _first_id(self) -> int:
        return self._next_id

    def _add_group(self, group: GroupRef) -> None:
        self._groups.append(group)
        self._group_numbers.append(group.number)
        self._group_first_ids.append(group.first_id)
        self._queries += group.count
        self._next_id = group.end_id
        self._is_several |= group.cores > 1

    def _merge_drops(self, drops: list[tuple[int, Ids]]) -> None:
        ids = np.concatenate([self._dropped, *(i for _, i in drops)])
        numbers = np.concatenate([self._drop_numbers, *(np.full(len(i), n, np.int64) for n, i in drops)])
        # unique() keeps the first occurrence, and documents come in order: the first drop of an id counts.
        self._dropped, first = np.unique(ids, return_index=True)
        self._drop_numbers = numbers[first]
        self._dropped.flags.writeable = False

    # ── the directory's cache ──

    def _save_cache(self) -> None:
        """Keep the directory as one file. A cache: failing to write it is no error."""
        shapes = list({g.shape_text: None for g in self._groups})
        kinds = list({(g.types, g.families, g.channels): None for g in self._groups})
        shape_at = {shape: i for i, shape in enumerate(shapes)}
        kind_at = {kind: i for i, kind in enumerate(kinds)}
        about = {
            "format": FORMAT,
            "count": self._count,
            "head": self._head,
            "shapes": shapes,
            "kinds": [[[str(t) for t in types], families, channels] for types, families, channels in kinds],
        }
        groups = self._groups
        body = pa.table(
            {
                "number": pa.array(self._group_numbers, pa.int64()),
                "count": pa.array([g.count for g in groups], pa.int64()),
                "catalog": pa.array([g.catalog for g in groups], pa.int64()),
                "shape": pa.array([shape_at[g.shape_text] for g in groups], pa.int32()),
                "kind": pa.array([kind_at[(g.types, g.families, g.channels)] for g in groups], pa.int32()),
                "kept": pa.array([json.dumps(g.kept_as) for g in groups], pa.string()),
            }
        )
        drops = pa.table({"id": self._dropped, "number": self._drop_numbers})
        retries = pa.table({"number": [n for n, _ in self._retries], "ids": [ids.tolist() for _, ids in self._retries]},
                           schema=_RETRIES)  # fmt: skip
        parts = [json.dumps(about).encode(), *(bytes(to_ipc(table)) for table in (body, drops, retries))]
        caches.save(self.files, "registry", self._count, parts, ".arrow")
        self._cached, self._read_bytes = self._count, 0

    def _restore(self, number: int, parts: list[bytes]) -> bool:
        """Start from a cache file, if it is about the documents that are there."""
        about = json.loads(parts[0])
        if about["format"] != FORMAT or about["count"] != number:
            return False
        local = self.files.local_path(path_of(number - 1))
        if local is None or _seal_at(local) != about["head"]:
            return False
        kinds = [(tuple(parse_type(t) for t in ts), tuple(f), tuple(c)) for ts, f, c in about["kinds"]]
        columns = from_ipc(parts[1], "a cache").to_pydict()
        for at, count, catalog, shape, kind, kept in zip(*columns.values(), strict=True):
            types, families, channels = kinds[kind]
            text = about["shapes"][shape]
            kept_as = _kept_as(json.loads(kept))
            self._add_group(GroupRef(at, self._first_id(), count, text, types, families, channels, catalog, kept_as))
        drops = from_ipc(parts[2], "a cache")
        self._dropped = drops["id"].to_numpy()
        self._drop_numbers = drops["number"].to_numpy()
        retries = from_ipc(parts[3], "a cache").to_pydict()
        self._retries = [(n, np.array(i, np.int64)) for n, i in zip(retries["number"], retries["ids"], strict=True)]
        self._head = about["head"]
        self._count = number
        return True


def _seal_at(path: Path) -> str:
    """The seal that stands in a document; whether it has it is looked at when the document is used."""
    with open(path, "rb") as file:
        return seal_of_bytes(file.read(HEAD))


def _kept_as(said: Any) -> KeptAs | None:
    return None if said is None else KeptAs(said[0], tuple(said[1]))


def path_of(number: int) -> str:
    return f"registry/{number:012d}"
