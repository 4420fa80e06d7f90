"""The registry: which queries stand, as numbered groups of registrations and drops.

    registry/000000000012   one Arrow IPC file; what it is stands in the schema's metadata under `weir`
       register             a shape (SQL with its constants taken out) and a column c0, c1, … for each
                            constant; row i is one query. Also the text as it was written, tags and an owner; a column
                            `name` if queries have names, and a column `replaces` of queries that go at the same moment
       drop                 a column `id` of the queries that go
       retry                a column `id` of the queries that are to be matched again, though a batch gave them up
       label                a column `id` of queries that get other tags and another owner

Documents form a chain (`weir.store.documents`). The number of a document orders it: a batch whose plan says
`registry = n` sees documents 0 … n − 1. Ids are not stored: a group's first id is the number of ids given out before
it, so ids are the same for every reader and never reused, because documents are never changed or deleted (a drop is one
more document).

A query of several *cores* (select-join blocks, see `weir.plan.cores`) has an id for each. In a group of n queries the
first n ids are those of the queries and of their first cores, the next n those of their second cores, and so on.
Matches, budgets and demotions are about cores; users see queries.

In memory: one GroupRef a group, never an object a query; constants are memory-mapped when they are asked for. Names,
tags, owners and texts are not read here at all: `weir.store.labels` reads them for whoever asks.
Cost: `refresh` reads new documents only (one probe if there are none), `group_of` is a binary search. The
directory is kept as a cache file every `CACHE_EVERY` documents, so that opening 100,000 groups reads one
file; the file is ignored if it is damaged or not about the documents that are there.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.ddl import parse_type
from weir.errors import QueryError, StoreError
from weir.store import caches
from weir.store.arrow import DAMAGED, from_ipc, to_ipc
from weir.store.documents import (
    HEAD,
    RESTORE,
    ROOT,
    Document,
    before_of_bytes,
    create_document,
    read_document,
    seal_of_bytes,
    unsealed,
)
from weir.store.files import Files, unique
from weir.store.mapped import Mapped
from weir.store.query_groups import NAME, REPLACES, Draft, GroupRef, KeptAs, NewQueries, draft_of

FORMAT = 6
READS = (5, FORMAT)  # in documents of format 5 queries have no names, and nobody knows how they were written
CACHE_EVERY = 1_000  # documents …
CACHE_BYTES = 1 << 20  # … or so many bytes of them: a million queries may be one document
Ids = npt.NDArray[np.int64]
_mapped: Mapped[pa.Table] = Mapped(1024)  # the constants of groups
_RETRIES = pa.schema([("number", pa.int64()), ("ids", pa.list_(pa.int64()))])


class Registry:
    """The standing queries of one weir; any number of processes may register and drop, and threads share one."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.lock = threading.RLock()  # over all that follows, and over what readers make of it
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
        self._relabellings: list[int] = []  # documents that change labels
        self._head = ROOT  # the seal of the newest document
        self._checked: set[int] = set()  # documents whose seal was looked at, of groups that a cache told of
        self._arrays: tuple[Ids, Ids, Ids] = (np.empty(0, np.int64),) * 3  # see `_layout`
        self._opened = False  # whether a cache file was looked for
        self._cached = 0  # documents in the newest cache file we know of …
        self._read_bytes = 0  # … and the bytes of those that were read since

    # ── writing ──

    def register(self, new: NewQueries) -> GroupRef:
        """Add queries without names; durable when it returns."""
        number = self.append(lambda: draft_of(new))
        assert number is not None, "there is a draft"
        return self.group_at(number)

    def drop(self, ids: Ids) -> int:
        """Drop queries, all or none; returns the number of the document. Unknown and dropped ids are refused."""
        return self._about_queries("drop", lambda: ids)

    def drop_chosen(self, choose: Callable[[], Ids]) -> Ids:
        """Drop the queries that `choose` gives as of the document, which it may be asked for several times."""
        number = self._about_queries("drop", choose)
        with self.lock:
            chosen: Ids = self._dropped[self._drop_numbers == number]
            return chosen

    def retry(self, ids: Ids) -> int:
        """Ask for queries to be matched again, all or none; returns the number of the document."""
        return self._about_queries("retry", lambda: ids)

    def _about_queries(self, kind: str, choose: Callable[[], Ids]) -> int:
        """A document about queries that stand."""

        def draft() -> Draft:
            chosen = np.unique(np.asarray(choose(), np.int64))
            self.expect_standing(chosen)
            if len(chosen) == 0:
                raise QueryError(f"no ids to {kind} were given")
            return Draft({"kind": kind, "count": len(chosen)}, pa.table({"id": chosen}))

        number = self.append(draft)
        assert number is not None, "there is a draft"
        return number

    def expect_standing(self, ids: Ids) -> None:
        """A QueryError unless all of these are ids of queries that stand, as of the last refresh."""
        unknown = (ids < 0) | (ids >= self._next_id)
        unknown[~unknown] = self.queries_of(ids[~unknown]) != ids[~unknown]
        for one in ids[unknown]:
            self.group_of(int(one))  # which says what is wrong with it
        for one in ids[~self.stand(ids)]:
            raise QueryError(f"query {one} was dropped already, in registry document {self.drop_number(int(one))}")

    def append(self, draft: Callable[[], Draft | None]) -> int | None:
        """Create the next document, and return its number; None if there is nothing to write.

        `draft` is asked when all documents before it are known, and again if another process or thread was quicker with
        its own. So whatever it decides is right at that place of the chain.
        """
        while True:
            with self.lock:
                self.refresh()
                number, head = self._count, self._head
                made = draft()
            if made is None:
                return None
            metadata = {b"weir": json.dumps({"format": FORMAT, "token": unique(), **made.about}).encode()}
            if create_document(self.files, path_of(number), head, to_ipc(made.body, metadata)) is not None:
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
        with self.lock:
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
        with self.lock:
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
        with self.lock:
            if upto is None:
                return tuple(self._groups)
            self._require(upto)
            return tuple(self._groups[: bisect_left(self._group_numbers, upto)])

    def groups_since(self, place: int) -> Sequence[GroupRef]:
        """The groups from a place on, counted from 0, as of the last refresh."""
        with self.lock:
            return self._groups[place:]

    def group_at(self, number: int) -> GroupRef:
        """The group that a document registered."""
        with self.lock:
            return self._groups[bisect_left(self._group_numbers, number)]

    def is_registration(self, number: int) -> bool:
        """Whether a document registered queries."""
        with self.lock:
            at = bisect_left(self._group_numbers, number)
            return at < len(self._group_numbers) and self._group_numbers[at] == number

    def places_of(self, ids: Ids) -> Ids:
        """Which groups, counted from 0, these queries belong to."""
        first, _, _ = self._layout()
        places: Ids = np.searchsorted(first, ids, side="right") - 1
        return places

    def relabellings(self) -> Sequence[int]:
        """The numbers of documents that change labels, as of the last refresh."""
        with self.lock:
            return tuple(self._relabellings)

    def group_of(self, query: int) -> GroupRef:
        """The group a query belongs to."""
        group = self.group_of_core(query)
        if group.core_of(query):
            raise QueryError(f"there is no query {query}", hint="it is the number of a part of another query")
        return group

    def groups_of(self, queries: Ids) -> tuple[tuple[GroupRef, ...], Ids]:
        """The groups that some queries belong to, and for each query the place of its group among them."""
        with self.lock:
            first, count, _ = self._layout()
            at = np.searchsorted(first, queries, side="right") - 1
            known = (at >= 0) & (queries - first[at] < count[at]) if len(first) else np.zeros(len(queries), bool)
            for unknown in queries[~known]:
                self.group_of(int(unknown))  # which says what is wrong with it
            places, group = np.unique(at, return_inverse=True)
            return tuple(self._groups[place] for place in places.tolist()), group

    def group_of_core(self, id: int) -> GroupRef:
        """The group that the query of a core belongs to."""
        with self.lock:
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
        with self.lock:
            known = len(self._arrays[0])
            if known < len(self._groups):
                rows = [(g.first_id, g.count, g.cores) for g in self._groups[known:]]
                new = np.array(rows, np.int64).T
                first, count, cores = (np.concatenate(each) for each in zip(self._arrays, new, strict=True))
                self._arrays = first, count, cores
            return self._arrays

    def constants(self, group: GroupRef) -> pa.Table:
        """The constants of a group, memory-mapped; row i belongs to query first_id + i."""
        table = _mapped.get(self.files, path_of(group.number), lambda: self._constants(group.number))
        if table.num_rows != group.count:
            raise StoreError(f"{path_of(group.number)} has {table.num_rows} rows, expected {group.count}", hint=RESTORE)
        return table

    def _constants(self, number: int) -> pa.Table:
        table = self.body(number).read_all()
        beside = [name for name in (NAME, REPLACES) if name in table.column_names]
        return table.drop_columns(beside).replace_schema_metadata(None)

    def body(self, number: int) -> Any:
        """An Arrow reader of a document, memory-mapped."""
        path = path_of(number)
        local = self.files.local_path(path)
        if local is None:
            raise StoreError(f"{path} is missing, though it was written", hint=RESTORE)
        try:
            data = pa.memory_map(str(local)).read_buffer()
            if number not in self._checked:
                seal = unsealed(path, data).seal
                if number < self._count and seal != self._followed_seal(number):  # tasks know no other documents
                    raise StoreError(f"{path} is not the document that the next one follows", hint=RESTORE)
                self._checked.add(number)
            return pa.ipc.open_file(pa.BufferReader(data.slice(HEAD)))
        except DAMAGED as error:
            raise StoreError(f"{path} is damaged: {error}", hint=RESTORE) from error

    def _followed_seal(self, number: int) -> str:
        """The seal of a document as the next one has it, or as it was when we read it."""
        with self.lock:
            if number + 1 == self._count:
                return self._head
        following = self.files.local_path(path_of(number + 1))
        if following is None:
            raise StoreError(f"{path_of(number + 1)} is missing, though it was written", hint=RESTORE)
        return before_of_bytes(_head_of(following))

    def stand(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which of these queries were not dropped, as of the last refresh."""
        with self.lock:
            at = np.searchsorted(self._dropped, ids)
            found: npt.NDArray[np.bool_] = np.append(self._dropped, -1)[at] != ids
            return found

    def dropped(self, upto: int | None = None) -> Ids:
        """The ids dropped by documents 0 … upto − 1, or by all known ones; sorted."""
        with self.lock:
            if upto is None:
                return self._dropped
            self._require(upto)
            return self._dropped[self._drop_numbers < upto]

    def retried(self, first: int, upto: int) -> Ids:
        """The queries that documents first … upto − 1 want to be matched again; sorted."""
        with self.lock:
            self._require(upto)
            found = [ids for number, ids in self._retries if first <= number < upto]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def standing(self, among: Ids | None = None) -> Ids:
        """The ids of queries that stand, ascending, or those of them among some ids, which ascend."""
        first, count, _ = self._layout()
        if among is None:
            before = np.cumsum(count) - count
            ids: Ids = np.repeat(first - before, count) + np.arange(count.sum())
        else:
            ids = among[(among >= 0) & (among < self._next_id)]
            ids = ids[self.queries_of(ids) == ids]
        return ids[self.stand(ids)]

    def drop_number(self, query: int) -> int | None:
        """The document that dropped a query, or None while it stands."""
        with self.lock:
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
            if about["format"] not in READS:
                reads = " and ".join(map(str, READS))
                raise StoreError(f"{path} has format {about['format']}, this version reads {reads}")
            if about["kind"] == "register":
                group = self._group(number, about)
                gone = reader.read_all()[REPLACES].drop_null().to_numpy() if REPLACES in reader.schema.names else None
                self._add_group(group)  # when nothing can fail any more, or it would be there without its drops
                if gone is not None:
                    drops.append((number, gone))
            elif about["kind"] == "drop":
                drops.append((number, reader.read_all()["id"].to_numpy()))
            elif about["kind"] == "retry":
                self._retries.append((number, reader.read_all()["id"].to_numpy()))
            elif about["kind"] == "label":
                self._relabellings.append(number)
            else:
                raise StoreError(f"{path} is a '{about['kind']}', expected register, drop, retry or label")
            self._head = document.seal
        except (*DAMAGED, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged: {error!r}", hint=RESTORE) from error

    def _group(self, number: int, about: dict[str, Any]) -> GroupRef:
        """The next group, as its document describes it."""
        return GroupRef(
            number,
            self._first_id(),
            about["count"],
            about["shape"],
            tuple(parse_type(t) for t in about["types"]),
            tuple(about["families"]),
            tuple(about["channels"]),
            about["catalog"],
            _kept_as(about["kept"]),
        )

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
            "relabellings": self._relabellings,
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
        newest = path_of(number - 1)
        local = self.files.local_path(newest) if self.files.exists(newest) else None
        if local is None or seal_of_bytes(_head_of(local)) != about["head"]:
            return False
        kinds = [(tuple(parse_type(t) for t in ts), tuple(f), tuple(c)) for ts, f, c in about["kinds"]]
        columns = from_ipc(parts[1], "a cache").to_pydict()
        # What registers is looked at when its constants are; the rest, which nobody reads again, here and now.
        if columns["number"][-1:] != [number - 1] and read_document(self.files, newest) is None:
            return False
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
        self._relabellings = about["relabellings"]
        self._head = about["head"]
        self._count = number
        return True


def _head_of(path: Path) -> bytes:
    """The head of a document; whether it has its seal is looked at when the document is used."""
    with open(path, "rb") as file:
        return file.read(HEAD)


def _kept_as(said: Any) -> KeptAs | None:
    return None if said is None else KeptAs(said[0], tuple(said[1]))


def path_of(number: int) -> str:
    return f"registry/{number:012d}"
