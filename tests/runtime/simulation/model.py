"""What must hold: an account of the truth that is kept beside the code under test, and readers that compare.

`Model` sees every successful creation and every deletion, at the moment it happens, and recomputes what documents
say from plans, tickets and registry documents alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.runtime.simulation.stage import (
    SECOND,
    SETTINGS,
    Row,
    ShakyFiles,
    Violation,
    decode,
    judge,
    require,
    rows_of,
    stamp,
)
from weir.algebra.schema import Stream, is_changes
from weir.store.arrow import from_ipc
from weir.store.documents import unsealed
from weir.store.inbox import ADVANCE, CLOCK
from weir.store.ledger import Ledger, Plan, RowFile
from weir.store.state import State

if TYPE_CHECKING:
    from tests.runtime.simulation.world import World


@dataclass
class Document:
    """A registry document, read by the model itself."""

    kind: str
    first_id: int  # of a register document
    stream: str
    catalog: int  # documents there were
    values: list[int]  # constants, or dropped ids
    replaces: list[int]  # ids that go when a register document comes

    @property
    def gone(self) -> list[int]:
        return self.values if self.kind == "drop" else self.replaces


class Model:
    """Sees every effect on the store and keeps its own account of what the truth must be."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.streams: dict[str, Stream] = {}  # those of tables' changes too, in the order of the catalog
        self.documents: list[Document] = []
        self.queries = 0
        self.plans: dict[int, Plan] = {}
        self.dones: list[dict[str, Any]] = []
        self.tickets: dict[int, tuple[str, list[Row], str]] = {}  # every one that ever counted: stream, rows, data
        self.data: dict[str, list[Row]] = {}
        self.advances: dict[str, list[int]] = {}  # by data file of the clock's tickets: where it is at least
        self.pushed: set[int] = set()  # uids of all rows in them
        self.named: dict[str, tuple[str, int]] = {}  # row file → stream and largest time
        self.rows_of_batch: list[list[str]] = []  # row files of streams
        self.batches_with_changes: set[int] = set()  # of tables
        self.match_batch: dict[str, int] = {}
        self.late_paths: set[str] = set()
        self.row_counts: dict[str, int] = {}
        self.late: dict[str, dict[str, int]] = {}
        self.demoted: dict[int, int] = {}
        self.now_us: int | None = None
        self.inbox_next = 0
        self.active_from: list[int] = []  # of registry documents
        self.acknowledged_pushes: dict[int, list[int]] = {}  # ticket → uids
        self.matches = 0
        self.advanced = 0  # batches whose clock is where it is because of an advance
        self.folds: list[int] = []  # batches
        self.releases: list[int] = []  # of the inbox

    # every successful creation and every deletion comes through here

    def created(self, path: str, data: bytes) -> None:
        folder, _, name = path.partition("/")
        if folder in ("registry", "ledger") or (folder == "inbox" and name.isdigit()):
            data = bytes(unsealed(path, data).body)
        if folder == "registry":
            self._registered(int(name), data)
        elif folder == "ledger" and name.endswith(".plan"):
            self._planned(Plan.from_json(data))
        elif path.startswith("ledger/folds/"):
            self._folded(int(name.removeprefix("folds/")), json.loads(data))
        elif folder == "ledger":
            self._finished(int(name.removesuffix(".done")), json.loads(data))
        elif path.startswith("inbox/data/"):
            table = from_ipc(data, path)
            if table.column_names == [ADVANCE]:
                self.data[path], self.advances[path] = [], table.column(0).drop_null().to_pylist()
            else:
                self.data[path] = rows_of(table)
        elif path.startswith("inbox/released/"):
            self.releases.append(int(name.removeprefix("released/")))
        elif folder == "inbox" and name.isdigit():
            self._pushed(int(name), json.loads(data))

    def _folded(self, batch: int, content: dict[str, Any]) -> None:
        require(batch == content["last"] < len(self.dones), "a fold of a batch that is not done", batch)
        require(content["inbox_next"] == self.dones[batch]["inbox_next"], "what a fold says", batch)
        require(content["row_counts"] == self.dones[batch]["row_counts"], "what a fold says", batch)
        self.folds.append(batch)

    def deleted(self, path: str) -> None:
        world = self.world
        require(not path.startswith(("registry/", "catalog/", "weir.json")), "a document was deleted", path)
        if path.startswith("ledger/"):
            number = int(path.rpartition("/")[2].partition(".")[0])
            newer = sum(fold > number for fold in self.folds)
            require(newer >= 2, "a document was deleted that is not covered twice", path, self.folds)
        committed = max(world.checkpoint.commits, default=-1)
        gone_tickets = world.checkpoint.offsets.get(committed, 0)
        if path in self.named:
            require(self._is_expired(path), "a row file in use was deleted", path)
        elif path in self.match_batch:
            require(self.match_batch[path] not in self.batches_shown(), "a match file in use was deleted", path)
        elif path in self.late_paths:
            raise Violation(f"a late file was deleted: {path}")
        elif path.startswith("inbox/data/"):
            for number, (_, _, data) in self.tickets.items():
                require(data != path or number < gone_tickets, "data that Spark may ask for was deleted", number)
        elif path.startswith("inbox/released/"):
            newer = sum(release > int(path[-12:]) for release in self.releases)
            require(newer >= 2, "a release was deleted that is not followed by two", path, self.releases)
        elif path.startswith("inbox/") and path[6:].isdigit():
            require(int(path[6:]) < gone_tickets, "a ticket that Spark may ask for was deleted", path)

    def batches_shown(self) -> set[int]:
        """Batches whose matches may be shown. Changes of tables match rows of their batch or of ones before."""
        rows = {b for b, paths in enumerate(self.rows_of_batch) if not all(map(self._is_expired, paths))}
        return rows | {b for b in self.batches_with_changes if b >= min(rows, default=len(self.dones))}

    def _is_expired(self, path: str) -> bool:
        stream, t_max_us = self.named[path]
        floor = self.plans[len(self.dones) - 1].read_floors.get(stream)
        return floor is not None and t_max_us < floor

    def _pushed(self, number: int, ticket: dict[str, Any]) -> None:
        path = str(ticket["path"])
        if number not in self.tickets:  # otherwise a dead number, created again by somebody who slept
            require(self.world.inner.exists(path), "a ticket was created without its data", number)
            require(number == len(self.tickets), "tickets have a gap", number)
            uids = {row.uid for row in self.data[path]}
            require(not uids & self.pushed, "a push was taken twice", number)
            require((path in self.advances) == (ticket["stream"] == CLOCK), "a ticket of another kind", number)
            self.pushed |= uids
            self.tickets[number] = (str(ticket["stream"]), self.data[path], path)

    def _registered(self, number: int, data: bytes) -> None:
        require(number == len(self.documents), "registry documents have a gap", number)
        table = from_ipc(data, "a document")
        about = json.loads(table.schema.metadata[b"weir"])
        values = table.column(0).to_pylist()
        replaces = table.column("replaces").drop_null().to_pylist() if "replaces" in table.column_names else []
        channels, catalog = "".join(about.get("channels", ())), about.get("catalog", 0)
        self.documents.append(Document(about["kind"], self.queries, channels, catalog, values, replaces))
        self.queries += len(values) if about["kind"] == "register" else 0

    def _planned(self, plan: Plan) -> None:
        require(plan.batch == len(self.dones), "a batch was planned before the one before it was done", plan.batch)
        require(plan.batch not in self.plans, "a batch has two plans", plan.batch)
        before = self.plans.get(plan.batch - 1)
        now = self.now_us
        if self.world.clock == "arrival":
            now = plan.wall_us if now is None else max(now, plan.wall_us)
        require(plan.now_us == now, "the plan's clock", plan.now_us, now)
        streams = [s for s in list(self.streams.values())[: plan.catalog] if not is_changes(s.name)]
        require(sorted(plan.floors) == sorted(s.name for s in streams), "floors of other streams", plan.floors)
        for s in streams:
            for floors, extra, old in (
                (plan.floors, 0, before.floors if before else {}),
                (plan.read_floors, max((s.keep_us or 0) // 4, SECOND), before.read_floors if before else {}),
            ):
                expected = None if s.keep_us is None or now is None else now - s.keep_us - extra
                require(floors[s.name] == expected, "a floor", s.name, floors[s.name], expected)
                require(old.get(s.name) is None or (expected or 0) >= (old[s.name] or 0), "a floor went back", s.name)
        require(plan.registry <= len(self.documents), "a plan includes documents that do not exist", plan.registry)
        known = max((d.catalog for d in self.documents[: plan.registry]), default=0)
        require(known <= plan.catalog, "a plan has queries on a stream that it does not have", plan.batch)
        self.plans[plan.batch] = plan

    def _finished(self, number: int, done: dict[str, Any]) -> None:
        """All that a done document says, recomputed from plans, tickets and registry documents."""
        require(number == len(self.dones), "done documents are no prefix", number)
        plan = self.plans.get(number)
        require(plan is not None and plan.token == done["plan_token"], "a batch is done without its plan", number)
        assert plan is not None
        rows_named = [RowFile(*fields) for fields in done["rows"]]
        match_paths = [fields[0] for fields in done["matches"]]
        late_paths = [fields[1] for fields in done["late"]]
        for path in [*(f.path for f in rows_named), *match_paths, *late_paths]:
            require(self.world.inner.exists(path), "a done document names a file that is not there", number, path)
        taken = range(self.inbox_next, self.world.checkpoint.offsets[number])
        said = [time for ticket in taken for time in self.advances.get(self.tickets[ticket][2], ())]
        self._check_rows(number, plan, done, rows_named)
        self._check_matches(number, plan, done, rows_named, match_paths)
        times = [f.t_max_us for f in rows_named if not is_changes(f.stream)] + (
            [] if plan.now_us is None else [plan.now_us]
        )
        self.advanced += bool(said) and max(said) > max(times, default=0)
        times += said
        require(done["now_us"] == (max(times) if times else None), "the clock after a batch", done["now_us"])
        for f in rows_named:
            self.named[f.path] = (f.stream, f.t_max_us)
        self.match_batch.update(dict.fromkeys(match_paths, number))
        self.late_paths.update(late_paths)
        self.rows_of_batch.append([f.path for f in rows_named if not is_changes(f.stream)])
        if any(is_changes(f.stream) for f in rows_named):
            self.batches_with_changes.add(number)
        self.active_from += [number] * (plan.registry - len(self.active_from))
        self.now_us = done["now_us"]
        self.dones.append(done)

    def _check_rows(self, number: int, plan: Plan, done: dict[str, Any], named: list[RowFile]) -> None:
        end = self.world.checkpoint.offsets[number]
        require(done["inbox_next"] == max(end, self.inbox_next), "inbox_next", done["inbox_next"], end)
        expected: dict[str, list[Row]] = {}
        reasons: dict[str, dict[str, int]] = {}
        late_expected: list[int] = []
        for ticket in range(self.inbox_next, end):
            stream, rows, _ = self.tickets[ticket]
            for row in rows:
                stamped = stamp(row, plan, self.world.clock, stream)
                reason = judge(stamped, plan, stream, self.streams[stream])
                if reason:
                    counters = reasons.setdefault(stream, {})
                    counters[reason] = counters.get(reason, 0) + 1
                    late_expected.append(row.uid)
                else:
                    expected.setdefault(stream, []).append(stamped)
        found: dict[str, list[Row]] = {}
        counts = dict(self.row_counts)
        for f in named:
            rows = decode(self.world.inner.read(f.path) or b"")
            require(f.first_row == counts.get(f.stream, 0), "row ids have a gap or overlap", number, f)
            require(f.count == len(rows), "a row file's count", f)
            require((f.t_min_us, f.t_max_us) == (min(r.t_us for r in rows), max(r.t_us for r in rows)), "times", f)
            counts[f.stream] = f.first_row + f.count
            found.setdefault(f.stream, []).extend(rows)
        require(found == expected, "the rows of a batch", number, found, expected)
        require(done["row_counts"] == counts, "row counts", done["row_counts"], counts)
        late_found = []
        for fields in done["late"]:
            late_found += [row.uid for row in decode(self.world.inner.read(fields[1]) or b"")]
            for reason, count in fields[3].items():
                reasons[fields[0]][reason] -= count
                counters = self.late.setdefault(fields[0], {})
                counters[reason] = counters.get(reason, 0) + count
        require(sorted(late_found) == sorted(late_expected), "late rows", late_found, late_expected)
        require(not any(c for r in reasons.values() for c in r.values()), "late counters", reasons)
        self.row_counts, self.inbox_next = counts, max(end, self.inbox_next)

    def _check_matches(
        self, number: int, plan: Plan, done: dict[str, Any], named: list[RowFile], paths: list[str]
    ) -> None:
        dropped = {q for d in self.documents[: plan.registry] for q in d.gone}
        standing = [
            (d.stream, d.first_id + i, k)
            for d in self.documents[: plan.registry]
            if d.kind == "register"
            for i, k in enumerate(d.values)
            if d.first_id + i not in dropped and d.first_id + i not in self.demoted
        ]
        expected: dict[tuple[str, int], set[int]] = {}
        counts: dict[int, int] = {}
        new_rows: dict[str, int] = {}
        for f in (f for f in named if not is_changes(f.stream)):
            new_rows[f.stream] = new_rows.get(f.stream, 0) + f.count
            for at, row in enumerate(decode(self.world.inner.read(f.path) or b"")):
                hit = {q for stream, q, k in standing if stream == f.stream and row.value % k == 0}
                expected[(f.stream, f.first_row + at)] = hit
                for q in hit:
                    counts[q] = counts.get(q, 0) + 1
        over: set[int] = set()
        by_weight = sorted(counts, key=lambda q: (-counts[q], q))
        while sum(c for q, c in counts.items() if q not in over) > SETTINGS.pairs_per_batch_max:
            over.add(by_weight[len(over)])
        stream_of = {q: stream for stream, q, _ in standing}
        heavy = {
            q
            for q, c in counts.items()
            if c >= SETTINGS.demote_pairs_min and c > SETTINGS.demote_share * new_rows[stream_of[q]]
        }
        require(done["demoted"] == sorted(over | heavy), "demoted queries", done["demoted"], over, heavy)
        found: dict[tuple[str, int], set[int]] = {}
        for path in paths:
            stream, lines = json.loads(self.world.inner.read(path) or b"")
            for row_id, queries in lines:
                require(len(set(queries)) == len(queries), "a match came twice", number, row_id)
                require((stream, row_id) not in found, "a row was matched twice", number, row_id)
                found[(stream, row_id)] = set(queries)
                self.matches += len(queries)
        require(found == {row: hit - over for row, hit in expected.items()}, "matches", number, found, expected, over)
        for q in over | heavy:
            self.demoted[q] = number

    # what acknowledgements promise

    def acknowledge_push(self, number: int, stream: str, rows: list[Row]) -> None:
        require(self.tickets.get(number, ("", [], ""))[:2] == (stream, rows), "another push's ticket", number)
        require(number not in self.acknowledged_pushes, "a ticket was given out twice", number)
        self.acknowledged_pushes[number] = [row.uid for row in rows]

    def acknowledge_advance(self, number: int, time_us: int | None) -> None:
        stream, _, path = self.tickets.get(number, ("", [], ""))
        given = [] if time_us is None else [time_us]
        require(stream == CLOCK and self.advances[path] == given, "another advance's ticket", number)
        require(number not in self.acknowledged_pushes, "a ticket was given out twice", number)
        self.acknowledged_pushes[number] = []

    def check_everything(self) -> None:
        """At the end, when all is drained: each acknowledged row is in rows or late, once."""
        seen: dict[int, int] = {}
        for done in self.dones:
            paths = [fields[1] for fields in [*done["rows"], *done["late"]]]
            for path in paths:
                data = self.world.inner.read(path)
                require(data is not None or self._is_expired(path), "a file that is not expired is gone", path)
                for row in decode(data or b"[]"):
                    seen[row.uid] = seen.get(row.uid, 0) + 1
        require(all(times == 1 for times in seen.values()), "a row came twice", seen)
        for ticket in self.acknowledged_pushes:
            require(ticket < self.inbox_next, "an acknowledged push was never read", ticket)


class Reader:
    """A process that only reads: never behind what it saw, and of the same mind as the model."""

    def __init__(self, world: World) -> None:
        self.state = State()
        self.ledger = Ledger(ShakyFiles(world))
        self.first_batches: dict[int, int] = {}
        self.last = -1

    def look(self, model: Model) -> None:
        state = self.state
        before = self.last
        self.last = state.refresh(self.ledger)
        require(self.last >= before, "a reader went back", before, self.last)
        if self.last != len(model.dones) - 1 or self.last < 0:
            return  # somebody died or slept inside the refresh: look again another time
        plan = model.plans[self.last]
        require(state.now_us == model.now_us, "a reader's clock", state.now_us)
        require(state.row_counts == model.row_counts, "a reader's row counts", state.row_counts)
        require(state.inbox_next == model.inbox_next, "a reader's inbox_next", state.inbox_next)
        require(state.demoted == model.demoted, "a reader's demotions", state.demoted, model.demoted)
        require(state.late == model.late, "a reader's late counters", state.late, model.late)
        require((state.floors, state.read_floors) == (plan.floors, plan.read_floors), "a reader's floors")
        for number in range(len(model.documents)):
            first = state.active_from(number)
            expected = model.active_from[number] if number < len(model.active_from) else None
            require(first == expected, "the first batch of a registration", number, first, expected)
            if first is not None:
                require(self.first_batches.setdefault(number, first) == first, "a first batch changed", number)
        live = {p for p in model.named if not model._is_expired(p)}
        require({p for s in model.streams for p in state.row_files(s).paths} == live, "a reader's row files")
        shown = model.batches_shown()
        matched = {p for p, b in model.match_batch.items() if b in shown}
        require({f.path for _, f in state.match_files()} == matched, "a reader's match files")
        for stream, count in model.row_counts.items():
            files = state.row_files(stream)
            for row, at in enumerate(state.file_of_row(stream, np.arange(count)).tolist()):
                if at >= 0:
                    inside = files.first_row[at] <= row < files.first_row[at] + files.count[at]
                    require(bool(inside), "the file of a row", stream, row, at)
