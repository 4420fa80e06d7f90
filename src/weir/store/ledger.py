"""The ledger: for each batch one plan, pinned before any work, and one done document, its only commit point.

    ledger/000000000007.plan   which queries, which clock, which floors: everything a replay must see again
    ledger/000000000007.done   the manifest: row files with their row ids, match files, late files, decisions

Both are created with put-if-absent and never change, and form one chain (`weir.store.documents`): a plan follows the
done document before it, a done document its plan. Invariants: the done documents form a prefix 0..n of the
numbers (batch n+1 is planned only after n is done); at most one plan beyond that prefix exists; a row, match
or late file is part of the truth exactly if a done document names it. Old documents are folded into one and removed
(`weir.store.folds`). They hold because `create` has one
winner, and because the loop (`weir.runtime.loop`) creates `done` only when every file it names is durable.

Data files carry the number of their batch, their size and their checksum in their names (`data_path`). So a done
document, which names them, says what is in them: readers check it once (`weir.store.data_files`). And a file of a batch
that is done and that its done document does not name can never be named any more, which is what lets vacuum remove it.

Cost: a document is about 0.5 kB and 150 bytes a file; finding the last done batch takes O(log n) probes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from weir.errors import FencedError, StoreError
from weir.store.documents import RESTORE, ROOT, create_document, exists_document, read_document
from weir.store.files import Files, unique
from weir.store.folds import folds

FORMAT = 4  # of both documents; a reader refuses any other number


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch must see, however often it is run."""

    batch: int
    engine: str  # whose ledger this is: Identity.engine
    registry: int  # registry documents 0 … registry − 1 are included
    catalog: int  # catalog documents 0 … catalog − 1 are included
    wall_us: int  # the wall clock when the plan was made
    now_us: int | None  # the weir's clock before the batch; None: no row was ever accepted
    floors: dict[str, int | None]  # per stream: rows older than this are late; None: no limit
    read_floors: dict[str, int | None]  # per stream: files whose rows are all older may be gone; None: none are
    frontiers: dict[str, int]  # reserved for deferred refresh: how far each (family, source) has got
    token: str  # unique; tells the plans of two drivers apart
    registry_head: str = ROOT  # the seal of the last registry document that is included
    catalog_head: str = ROOT  # likewise of the catalog
    late_floor_us: int = 0  # rejected rows of batches that were planned before this moment are gone
    seal: str = field(default="", compare=False)  # of this document, once it is stored
    before: str = field(default="", compare=False)  # the seal of the done document that it follows

    def to_json(self) -> bytes:
        return _dump(
            {
                "batch": self.batch,
                "engine": self.engine,
                "registry": self.registry,
                "catalog": self.catalog,
                "wall_us": self.wall_us,
                "now_us": self.now_us,
                "floors": self.floors,
                "read_floors": self.read_floors,
                "frontiers": self.frontiers,
                "token": self.token,
                "registry_head": self.registry_head,
                "catalog_head": self.catalog_head,
                "late_floor_us": self.late_floor_us,
            }
        )

    @staticmethod
    def from_json(data: bytes) -> Plan:
        return _load("plan", data, lambda d: Plan(**d))


@dataclass(frozen=True, slots=True)
class RowFile:
    """Accepted rows of one stream: row ids first_row … first_row + count − 1, in the order of the file."""

    stream: str
    path: str
    first_row: int
    count: int
    t_min_us: int
    t_max_us: int


@dataclass(frozen=True, slots=True)
class LateFile:
    """Rejected rows of one stream, counted by reason."""

    stream: str
    path: str
    count: int
    reasons: dict[str, int]


@dataclass(frozen=True, slots=True)
class MatchFile:
    """What one slice of the match job wrote."""

    path: str
    slice: int
    pairs: int
    events: int


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Cores first … first + count − 1, which could not be matched: recomputed at fetch from now on."""

    first: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class KeptPart:
    """What is known of a part of the kept queries from this batch on (`weir.store.maintained`)."""

    part: int
    of: int  # how many parts there are; never another number
    path: str  # of the newest file, "" if nothing is kept any more
    files: tuple[str, ...]  # that one and all that it needs
    due_us: int  # when an answer changes next, though nothing comes


@dataclass(frozen=True, slots=True)
class Eviction:
    """Reserved for memory limits: rows below `row` of a stream are given up early."""

    stream: str
    row: int


@dataclass(frozen=True, slots=True)
class Done:
    """The manifest of a finished batch."""

    batch: int
    plan_token: str
    now_us: int | None  # the weir's clock after the batch
    rows: tuple[RowFile, ...]
    late: tuple[LateFile, ...]
    matches: tuple[MatchFile, ...]
    demoted: tuple[int, ...]  # queries recomputed at fetch from now on
    evictions: tuple[Eviction, ...]
    inbox_next: int  # tickets below this are consumed
    row_counts: dict[str, int]  # per stream: the next row id after the batch
    wall_us: int
    attempt: str = field(default_factory=unique)  # unique; tells two drivers with one plan apart
    quarantined: tuple[Quarantine, ...] = ()
    restored: tuple[tuple[int, int], ...] = ()  # (first core, count): demoted or quarantined before, matched again now
    kept: tuple[KeptPart, ...] = ()  # the parts of kept queries of which something has changed
    given_up: tuple[Quarantine, ...] = ()  # kept queries, by query: their answers are computed from now on
    resumed: tuple[tuple[int, int], ...] = ()  # (first query, count): given up before, their answers are kept again
    seal: str = field(default="", compare=False)  # of this document, once it is stored
    before: str = field(default="", compare=False)  # the seal of the plan that it follows

    def to_json(self) -> bytes:
        return _dump(
            {
                "batch": self.batch,
                "plan_token": self.plan_token,
                "now_us": self.now_us,
                "rows": [[r.stream, r.path, r.first_row, r.count, r.t_min_us, r.t_max_us] for r in self.rows],
                "late": [[f.stream, f.path, f.count, f.reasons] for f in self.late],
                "matches": [[m.path, m.slice, m.pairs, m.events] for m in self.matches],
                "demoted": self.demoted,
                "evictions": [[e.stream, e.row] for e in self.evictions],
                "inbox_next": self.inbox_next,
                "row_counts": self.row_counts,
                "wall_us": self.wall_us,
                "attempt": self.attempt,
                "quarantined": [[q.first, q.count, q.reason] for q in self.quarantined],
                "restored": self.restored,
                "kept": [[p.part, p.of, p.path, p.files, p.due_us] for p in self.kept],
                "given_up": [[q.first, q.count, q.reason] for q in self.given_up],
                "resumed": self.resumed,
            }
        )

    @staticmethod
    def from_json(data: bytes) -> Done:
        def build(d: dict[str, Any]) -> Done:
            d["rows"] = tuple(RowFile(*r) for r in d["rows"])
            d["late"] = tuple(LateFile(*f) for f in d["late"])
            d["matches"] = tuple(MatchFile(*m) for m in d["matches"])
            d["evictions"] = tuple(Eviction(*e) for e in d["evictions"])
            d["demoted"] = tuple(d["demoted"])
            d["quarantined"] = tuple(Quarantine(*q) for q in d["quarantined"])
            for name in ("restored", "resumed"):
                d[name] = tuple((first, count) for first, count in d[name])
            d["kept"] = tuple(KeptPart(part, of, path, tuple(files), due) for part, of, path, files, due in d["kept"])
            d["given_up"] = tuple(Quarantine(*q) for q in d["given_up"])
            return Done(**d)

        return _load("done document", data, build)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that this document names."""
        kept = (path for part in self.kept for path in part.files)
        return (*(r.path for r in self.rows), *(f.path for f in self.late), *(m.path for m in self.matches), *kept)


T = TypeVar("T")
D = TypeVar("D", Plan, Done)


def _dump(content: Mapping[str, object]) -> bytes:
    return json.dumps({"format": FORMAT, **content}, separators=(",", ":")).encode()


def _load(what: str, data: bytes, build: Callable[[dict[str, Any]], T]) -> T:
    try:
        content = json.loads(data)
        found = content.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"a {what} is not readable: {error!r}", hint=RESTORE) from error
    if found != FORMAT:
        hint = "it was written by another version of Weir; use that one"
        raise StoreError(f"a {what} has format {found}, this version reads {FORMAT}", hint=hint)
    try:
        return build(content)
    except (TypeError, KeyError, ValueError) as error:
        raise StoreError(f"a {what} lacks a field: {error}", hint=RESTORE) from error


def plan_path(batch: int) -> str:
    return f"ledger/{batch:012d}.plan"


def done_path(batch: int) -> str:
    return f"ledger/{batch:012d}.done"


class Ledger:
    """The plan and done documents of one weir."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def plan(self, batch: int) -> Plan | None:
        return self._read(plan_path(batch), batch, Plan.from_json)

    def done(self, batch: int) -> Done | None:
        return self._read(done_path(batch), batch, Done.from_json)

    def create_plan(self, plan: Plan) -> bool:
        done = self.done(plan.batch - 1) if plan.batch else None
        if plan.batch and done is None:
            raise FencedError(f"batch {plan.batch - 1} is folded already: another driver has gone on, this one stops")
        return self._create(plan_path(plan.batch), ROOT if done is None else done.seal, plan)

    def create_done(self, done: Done) -> bool:
        if self.is_folded(done.batch):
            return False
        plan = self.plan(done.batch)
        if plan is None:
            raise StoreError(f"{plan_path(done.batch)} is missing, though its batch was run", hint=RESTORE)
        return self._create(done_path(done.batch), plan.seal, done)

    def is_folded(self, batch: int) -> bool:
        """Whether a fold covers a batch: it was done, by whomever."""
        return any(number >= batch for number in folds(self.files))

    def last_done(self, hint: int = -1) -> int:
        """The number of the newest done batch, −1 if there is none. `hint`: a batch known to be done."""
        known = max([hint, *folds(self.files)])  # documents before a fold may be gone
        return last_number(lambda n: exists_document(self.files, done_path(n)), known)

    def _create(self, path: str, before: str, document: Plan | Done) -> bool:
        return create_document(self.files, path, before, document.to_json()) is not None

    def _read(self, path: str, batch: int, parse: Callable[[bytes], D]) -> D | None:
        found = read_document(self.files, path)
        if found is None:
            return None
        document = _checked(path, batch, bytes(found.body), parse)
        return replace(document, seal=found.seal, before=found.before)


def last_number(exists: Callable[[int], bool], known: int) -> int:
    """The last number of a gap-free sequence, from one that is known to be in it (−1: none).

    Gallops, then halves: one probe when nothing is new, O(log distance) otherwise.
    """
    step = 1
    while exists(known + step):
        known += step
        step *= 2
    while step > 1:
        step //= 2
        if exists(known + step):
            known += step
    return known


def _checked(path: str, batch: int, data: bytes, parse: Callable[[bytes], D]) -> D:
    try:
        document = parse(data)
    except StoreError as error:
        raise StoreError(f"{path}: {str(error).removeprefix('store: ')}") from error
    if document.batch != batch:
        raise StoreError(f"{path} is the document of batch {document.batch}", hint=RESTORE)
    return document
