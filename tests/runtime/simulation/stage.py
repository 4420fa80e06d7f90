"""The stage of the simulation: a store that can fail its callers anywhere, and a Spark that is played.

`ShakyFiles` is the store as one process sees it: at every operation, before and after its effect, fate may strike
(`World.tick`). `SimulatedJobs` are the two jobs of a batch: small functions that write real files to the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weir.algebra.schema import BIGINT, TIMESTAMP, Catalog, Column, Stream, is_changes
from weir.errors import StoreError
from weir.runtime import faults
from weir.runtime.loop import IngestReport, Matched, MatchReport, SliceRows, UpkeepReport
from weir.settings import Settings
from weir.store.arrow import from_ipc
from weir.store.data_files import data_path
from weir.store.documents import read_document
from weir.store.files import Data, Entry, Files
from weir.store.inbox import ADVANCE, CLOCK, Inbox
from weir.store.ledger import MatchFile, Plan, RowFile
from weir.store.query_groups import GroupRef
from weir.store.registry import Ids, Registry, path_of

if TYPE_CHECKING:
    from tests.runtime.simulation.world import World

SECOND = 1_000_000
SETTINGS = replace(
    Settings(),
    pairs_per_batch_max=24,
    demote_pairs_min=4,
    demote_share=0.7,
    orphan_grace_s=30,
    vacuum_every_batches=0,
    fold_every_batches=3,
)
COLUMNS = (Column("uid", BIGINT), Column("value", BIGINT), Column("ts", TIMESTAMP))


class Violation(BaseException):
    """A promise was broken. Passes through the code under test, which may handle every Exception it likes."""


def require(truth: bool, what: str, *about: object) -> None:
    if not truth:
        raise Violation(" ".join([what, *map(repr, about)]))


@dataclass(frozen=True)
class Row:
    uid: int
    value: int
    t_us: int


# ── the store ──────────────────────────────────────────────────────────────────────────────────────


class ShakyFiles:
    """The store as one process sees it: a place to die or to fall asleep at every operation."""

    location = "memory:///"

    def __init__(self, world: World) -> None:
        self.world = world
        self.inner = world.inner

    def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
        self.world.tick()
        created = self.inner.create(path, data, durable=durable)
        if created:
            self.world.mtimes_s[path] = self.world.wall_us / SECOND
            self.world.model.created(path, bytes(data))
        self.world.tick()
        return created

    def write(self, path: str, data: Data) -> None:
        require(self.create(path, data), "a data file was overwritten", path)

    def read(self, path: str) -> bytes | None:
        self.world.tick()
        return self.inner.read(path)

    def exists(self, path: str) -> bool:
        self.world.tick()
        return self.inner.exists(path)

    def list(self, prefix: str) -> Iterator[Entry]:
        self.world.tick()
        found = [e._replace(mtime_s=self.world.mtimes_s[e.path]) for e in self.inner.list(prefix)]
        self.world.random.shuffle(found)
        return iter(found)

    def delete(self, path: str) -> None:
        self.world.tick()
        self.world.model.deleted(path)
        self.inner.delete(path)
        self.world.tick()

    def local_path(self, path: str) -> Path | None:
        self.world.tick()
        return self.inner.local_path(path)

    def has_copy(self, path: str) -> bool:
        return self.inner.has_copy(path)


# ── Spark's part ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class Checkpoint:
    """Spark's logs. Offsets and commits are created once each, by whoever is first."""

    offsets: dict[int, int] = field(default_factory=dict)  # batch → one past the last ticket it takes
    commits: set[int] = field(default_factory=set)

    @property
    def next_batch(self) -> int:
        return max(self.commits, default=-1) + 1


class SimulatedJobs:
    """The two jobs of one batch: real files, trivial matching (a query with constant k matches values k divides)."""

    def __init__(self, world: World, files: Files, registry: Registry, number: int) -> None:
        self.world, self.files, self.registry, self.number = world, files, registry, number

    def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
        start, end = self.world.checkpoint.offsets.get(self.number - 1, 0), self.world.checkpoint.offsets[self.number]
        inbox = Inbox(self.files)
        gathered: list[tuple[str, Row]] = []
        advances: list[int] = []
        for number in range(start, end):
            ticket = inbox.ticket(number)
            data = None if ticket is None else self.files.read(ticket.path)
            if ticket is None or data is None:
                taken = self.number in self.world.checkpoint.commits
                require(taken, "a ticket that no batch has taken is gone", number)
                raise StoreError("a zombie asks for rows that are consumed")
            table = from_ipc(data, "pushed data")
            if ticket.stream == CLOCK:
                advances += table.column(ADVANCE).drop_null().to_pylist()
            else:
                gathered += [(ticket.stream, row) for row in rows_of(table)]
        # Spark may cut the batch differently at each attempt.
        pieces = max(1, min(len(gathered), self.world.random.randint(1, 3)))
        cut = [gathered[len(gathered) * i // pieces : len(gathered) * (i + 1) // pieces] for i in range(pieces)]
        slices = tuple(tuple(self._slice(plan, catalog, piece)) for piece in cut)
        return IngestReport(slices, end, self.now_of(advances))

    def now_of(self, advances: list[int]) -> int | None:
        return max(advances, default=None)

    def _slice(self, plan: Plan, catalog: Catalog, rows: list[tuple[str, Row]]) -> Iterator[SliceRows]:
        for name in dict.fromkeys(stream for stream, _ in rows):
            taken: list[Row] = []
            late: list[Row] = []
            reasons: dict[str, int] = {}
            stamped = [stamp(row, plan, self.world.clock, name) for stream, row in rows if stream == name]
            for row in stamped:
                reason = judge(row, plan, name, catalog.fed()[name])
                if reason:
                    reasons[reason] = reasons.get(reason, 0) + 1
                (late if reason else taken).append(row)
            paths: list[str | None] = [None, None]
            for i, (folder, part) in enumerate((("rows", taken), ("late", late))):
                if part:
                    data = encode(part)
                    path = paths[i] = data_path(folder, plan.batch, data, "json")
                    faults.reach("ingest worker, mid-file")
                    self.files.write(path, data)
            faults.reach("row file written, task result lost")
            times = [row.t_us for row in taken] or [0]
            yield SliceRows(name, paths[0], len(taken), min(times), max(times), paths[1], reasons)

    def maintain(self, matched: Matched) -> UpkeepReport:
        return UpkeepReport()

    def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: Ids) -> MatchReport:
        excluded = {*demoted.tolist(), *self.registry.dropped(plan.registry).tolist()}
        queries = [
            (group.channels[0], group.first_id + i, k)
            for group in self.registry.groups(plan.registry)
            for i, k in enumerate(self.constants(group))
            if group.first_id + i not in excluded
        ]
        counts: dict[int, int] = {}
        outputs = []
        for number, file in enumerate(f for f in rows if not is_changes(f.stream)):
            lines: list[tuple[int, list[int]]] = []
            for at, row in enumerate(decode(self.files.read(file.path) or b"[]")):
                found = [q for stream, q, k in queries if stream == file.stream and row.value % k == 0]
                lines.append((file.first_row + at, found))
                for q in found:
                    counts[q] = counts.get(q, 0) + 1
            outputs.append((number, file.stream, lines))
        pairs = sum(counts.values())
        if pairs > SETTINGS.pairs_per_batch_max:
            return MatchReport((), pairs, counts, over_budget=True)
        files = []
        for number, stream, lines in outputs:
            data = json.dumps([stream, lines]).encode()
            path = data_path("matches", plan.batch, data, "json")
            faults.reach("match worker, mid-file")
            self.write_matches(path, data)
            files.append(MatchFile(path, number, sum(len(found) for _, found in lines), len(lines)))
        return MatchReport(tuple(files), pairs, counts)

    def write_matches(self, path: str, data: bytes) -> None:
        self.files.write(path, data)

    def constants(self, group: GroupRef) -> list[int]:
        known = self.world.constants.get(group.number)
        if known is None:
            document = read_document(self.files, path_of(group.number))
            assert document is not None
            known = from_ipc(bytes(document.body), "a group")["c0"].to_pylist()
            self.world.constants[group.number] = known
        return known


def stamp(row: Row, plan: Plan, clock: str, name: str) -> Row:
    """A row as it is taken; the tables here bring their own times."""
    brings = clock == "event" or plan.now_us is None or is_changes(name)
    return row if brings else replace(row, t_us=plan.now_us)


def judge(row: Row, plan: Plan, name: str, stream: Stream) -> str:
    if is_changes(name):
        return ""
    floor = plan.floors.get(name)
    if floor is not None and row.t_us < floor:
        return "late"
    return "future" if row.t_us > plan.wall_us + stream.future_us else ""


def encode(rows: list[Row]) -> bytes:
    return json.dumps([[row.uid, row.value, row.t_us] for row in rows]).encode()


def decode(data: bytes) -> list[Row]:
    return [Row(*fields) for fields in json.loads(data)]


def rows_of(table: pa.Table) -> list[Row]:
    columns = (table[name].to_pylist() for name in ("uid", "value", "t_us"))
    return [Row(*fields) for fields in zip(*columns, strict=True)]
