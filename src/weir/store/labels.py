"""Labels: what people call their queries, how they sort them, and what they wrote to get them.

Names, tags, owners and texts as they were written stand in registry documents. They are read when somebody asks for a
name or a list, never by the job, and only of documents that are new since then. Nothing is kept an object a query:
names are Arrow arrays, and so is what groups have in common, a row for each group.

A name belongs to the newest query that got it, if that stands: a later one can only have got it when the one before was
dropped. So a name is looked for in the newest block first. Blocks are merged while neighbours are of similar size, like
runs; in each of them a permutation orders the names.

Cost: a name is found by a binary search in a logarithm of n blocks, many names by a hash join with each block; a new
document is read once (0.1 ms). The whole is kept as a cache file every `CACHE_EVERY` documents.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.errors import StoreError
from weir.store import caches
from weir.store.arrow import DAMAGED, from_ipc, to_ipc
from weir.store.documents import RESTORE, read_document
from weir.store.query_groups import NAME, REPLACES, GroupRef, Label, Slot, Written
from weir.store.registry import Ids, Registry, path_of

CACHE_EVERY = 1_000  # documents
GROUPS = pa.schema(
    [
        ("sql", pa.string()),  # as it was written; NULL if nobody knows
        ("slots", pa.string()),  # JSON: where its parameters are; NULL if it has none
        ("text", pa.string()),  # with values in the place of parameters, if that is known
        ("tags", pa.list_(pa.string())),
        ("owner", pa.string()),
    ]
)
RELABELLED = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string())), ("owner", pa.string())])
_NAMES = pa.schema([("id", pa.int64()), ("name", pa.string())])


class _Block(NamedTuple):
    """Names of queries, in the order of ids."""

    ids: Ids
    names: pa.Array
    order: Ids  # by name; of equal names the newest query is last

    @classmethod
    def of(cls, ids: Ids, names: pa.Array) -> _Block:
        return cls(ids, names, pc.array_sort_indices(names).to_numpy().astype(np.int64))

    def merged(self, later: _Block) -> _Block:
        return _Block.of(np.concatenate([self.ids, later.ids]), pa.concat_arrays([self.names, later.names]))

    def find(self, name: str) -> int | None:
        at = bisect_right(self.order, name, key=lambda row: self.names[row].as_py())
        row = int(self.order[at - 1]) if at else -1
        return int(self.ids[row]) if at and self.names[row].as_py() == name else None

    def find_many(self, names: pa.Array) -> Ids:
        """By name the newest query of it, −1 if there is none."""
        newest_first = self.names.take(pa.array(np.arange(len(self.names) - 1, -1, -1)))
        at = pc.index_in(names, value_set=newest_first).fill_null(-1).to_numpy()
        return np.where(at < 0, -1, self.ids[::-1][np.maximum(at, 0)])


class Labels:
    """The labels of one weir's queries."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._count = 0  # registry documents that the rest is about
        self._groups: list[pa.Table] = []  # a row a group
        self._relabelled: list[pa.Table] = []  # a row for each time that a query got another label
        self._relabellings = 0
        self._blocks: list[_Block] = []
        self._cached = 0
        self._opened = False

    # ── names ──

    def find(self, name: str) -> int | None:
        """The standing query of this name, as of the registry's last refresh."""
        with self.registry.lock:
            self._follow()
            found = next((id for block in reversed(self._blocks) if (id := block.find(name)) is not None), None)
            return found if found is not None and self.registry.stand(np.array([found]))[0] else None

    def find_many(self, names: pa.Array) -> Ids:
        """The standing queries of these names; −1 where there is none."""
        if len(names) == 1:
            one = self.find(names[0].as_py())
            return np.array([-1 if one is None else one])
        with self.registry.lock:
            self._follow()
            found = np.full(len(names), -1, np.int64)
            for block in reversed(self._blocks):
                open_ = np.flatnonzero(found < 0)
                found[open_] = block.find_many(names.take(pa.array(open_)))
            known = found >= 0
            found[known] = np.where(self.registry.stand(found[known]), found[known], -1)
            return found

    def names_of(self, ids: Ids) -> pa.Array:
        """The names of queries; NULL of those without."""
        with self.registry.lock:
            self._follow()
            blocks = list(self._blocks)
        if not blocks or not len(ids):
            return pa.nulls(len(ids), pa.string())
        offsets = np.cumsum([0, *(len(block.ids) for block in blocks)])
        places = np.full(len(ids), -1, np.int64)
        for block, offset in zip(blocks, offsets, strict=False):
            at = np.minimum(np.searchsorted(block.ids, ids), len(block.ids) - 1)
            places = np.where(block.ids[at] == ids, at + offset, places)
        names = pa.chunked_array([block.names for block in blocks])
        return names.take(pa.array(places, mask=places < 0)).combine_chunks()

    # ── what groups have in common ──

    def groups(self) -> pa.Table:
        """A row for each group of the registry, in their order, with the columns of `GROUPS`."""
        with self.registry.lock:
            self._follow()
            if len(self._groups) != 1:
                self._groups = [_joined(self._groups)]
            return self._groups[0]

    def labels_of(self, ids: Ids) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """Labels (tags, owner), and for each of these queries the row of its own."""
        with self.registry.lock:
            self._follow()
            if len(self._relabelled) != 1:
                self._relabelled = [_newest(self._relabelled)]
            of_queries = self._relabelled[0]
            table = pa.concat_tables([part.select(["tags", "owner"]) for part in (*self._groups, of_queries)])
            rows = self.registry.places_of(ids)
        changed = of_queries["id"].to_numpy()
        at = np.minimum(np.searchsorted(changed, ids), max(len(changed) - 1, 0))
        is_changed = changed[at] == ids if len(changed) else np.zeros(len(ids), bool)
        return table, np.where(is_changed, table.num_rows - len(changed) + at, rows)

    def label_of(self, id: int) -> Label:
        """The label of a query."""
        table, (row,) = self.labels_of(np.array([id]))
        return Label(tuple(table["tags"][row].as_py()), table["owner"][row].as_py())

    def written(self, id: int) -> Written | None:
        """The text with which a query was registered; None if nobody knows."""
        with self.registry.lock:
            (place,) = self.registry.places_of(np.array([id]))
            return self.written_at(int(place))

    def written_at(self, place: int) -> Written | None:
        """The text with which a group was registered, the groups counted from 0."""
        with self.registry.lock:
            self._follow()
            for groups in self._groups:
                if place < groups.num_rows:
                    break
                place -= groups.num_rows
        sql, slots, text = (groups[name][place].as_py() for name in ("sql", "slots", "text"))
        return None if sql is None else Written(sql, tuple(Slot(*slot) for slot in json.loads(slots or "[]")), text)

    def replaced_by(self, id: int) -> int | None:
        """The query that took the place of one that was dropped; None if it went by itself."""
        number = self.registry.drop_number(id)
        if number is None or not self.registry.is_registration(number):
            return None
        body = self.registry.body(number).read_all()
        return self.registry.group_at(number).first_id + int(pc.index(body[REPLACES], id).as_py())

    # ── following the registry ──

    def _follow(self) -> None:
        """Read the documents that the registry knows and we do not."""
        if not self._opened:
            found = (n for n, parts in caches.load(self.registry.files, "labels") if self._restore(n, parts))
            self._cached = next(found, 0)
            self._opened = True
        count = self.registry.count
        if count == self._count:
            return
        groups = self.registry.groups_since(sum(table.num_rows for table in self._groups))
        relabellings = self.registry.relabellings()[self._relabellings :]
        read = [self._read(group) for group in groups]
        changed = [self._read_relabelling(number) for number in relabellings]
        if groups:
            self._groups.append(pa.Table.from_pylist([row for row, _ in read], GROUPS))
            while len(self._groups) > 1 and 2 * self._groups[-1].num_rows >= self._groups[-2].num_rows:
                self._groups[-2:] = [_joined(self._groups[-2:])]
        named = [block for _, block in read if block is not None]
        if named:
            ids = np.concatenate([ids for ids, _ in named])
            names = pa.concat_arrays([names for _, names in named])
            self._add(_Block.of(ids, names))
        self._relabelled += changed
        self._relabellings += len(changed)
        self._count = count
        if count - self._cached >= CACHE_EVERY:
            self._save()

    def _add(self, block: _Block) -> None:
        """Add a block, and merge the last ones while they are of similar size."""
        self._blocks.append(block)
        while len(self._blocks) > 1 and 2 * len(self._blocks[-1].ids) >= len(self._blocks[-2].ids):
            last = self._blocks.pop()
            self._blocks[-1] = self._blocks[-1].merged(last)

    def _read(self, group: GroupRef) -> tuple[dict[str, object], tuple[Ids, pa.Array] | None]:
        """The row of a group, and the names of its queries if they have some."""
        path = path_of(group.number)
        try:
            reader = self.registry.body(group.number)
            about = json.loads(reader.schema.metadata[b"weir"])
            sql, slots, text = about.get("written") or (None, None, None)
            tags, owner = about.get("label") or ([], None)
            row: dict[str, object] = {
                "sql": sql,
                "slots": json.dumps(slots) if slots else None,
                "text": sql if sql is not None and not slots else text,
                "tags": tags,
                "owner": owner,
            }
            if NAME not in reader.schema.names:
                return row, None
            # A copy, or the whole document would stay mapped.
            names = reader.read_all()[NAME].combine_chunks().take(pa.array(np.arange(group.count)))
        except (*DAMAGED, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged: {error!r}", hint=RESTORE) from error
        return row, (group.first_id + np.arange(group.count), names)

    def _read_relabelling(self, number: int) -> pa.Table:
        path = path_of(number)
        try:
            reader = self.registry.body(number)
            tags, owner = json.loads(reader.schema.metadata[b"weir"])["label"]
            ids = reader.read_all()["id"].to_numpy()
        except (*DAMAGED, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged: {error!r}", hint=RESTORE) from error
        rows = np.zeros(len(ids), np.int64)
        label = pa.table({"tags": pa.array([tags], pa.list_(pa.string())), "owner": pa.array([owner], pa.string())})
        return label.take(pa.array(rows)).add_column(0, "id", pa.array(ids))

    # ── the cache ──

    def _save(self) -> None:
        """Keep all of it as one file. A cache: failing to write it is no error."""
        names = [pa.table({"id": block.ids, "name": block.names}) for block in self._blocks]
        joined = pa.concat_tables([_NAMES.empty_table(), *names])
        tables = (_joined(self._groups), _newest(self._relabelled), joined)
        about = {"count": self._count, "head": self.registry.head, "relabellings": self._relabellings}
        parts = [json.dumps(about).encode(), *(bytes(to_ipc(table)) for table in tables)]
        caches.save(self.registry.files, "labels", self._count, parts, ".arrow")
        self._cached = self._count

    def _restore(self, number: int, parts: list[bytes]) -> bool:
        """Start from a cache file, if it is about the documents that are there."""
        about = json.loads(parts[0])
        if about["count"] != number or number > self.registry.count:
            return False
        newest = read_document(self.registry.files, path_of(number - 1))
        if newest is None or newest.seal != about["head"]:
            return False
        groups, relabelled, names = (from_ipc(part, "a cache") for part in parts[1:])
        if (groups.schema, relabelled.schema, names.schema) != (GROUPS, RELABELLED, _NAMES):
            return False  # another version wrote it
        self._groups, self._relabelled = [groups], [relabelled]
        if names.num_rows:
            self._blocks = [_Block.of(names["id"].to_numpy(), names["name"].combine_chunks())]
        self._count, self._relabellings = number, about["relabellings"]
        return True


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([GROUPS.empty_table(), *tables]).combine_chunks()


def _newest(tables: Sequence[pa.Table]) -> pa.Table:
    """The newest label of each query, by id."""
    table = pa.concat_tables([RELABELLED.empty_table(), *tables]).combine_chunks()
    ids = table["id"].to_numpy()
    _, last = np.unique(ids[::-1], return_index=True)
    return table.take(pa.array(len(ids) - 1 - last))
