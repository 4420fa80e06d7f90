"""A whole weir in one thread: drivers, clients, readers and vacuums against a store in memory and a manual clock.

The code under test is the real one: loop, ledger, registry, catalog, inbox, state, vacuum. Only Spark is played:
its checkpoint is two dictionaries, and the two jobs are small functions that write real files to the store.

A `World` takes random steps from a seed. Every call on the store passes through `ShakyFiles`, which can let the
caller die there (before or after the effect), meet an error there and go on with what it remembers, or fall asleep
there: then other steps happen inside, and the caller wakes up as a zombie. So crashes, errors and interleavings
happen at every store operation, not only at the named points (which are armed as well).

`Model` watches every effect on the store and says at once when one breaks a promise:
done documents form a prefix, each names only files that exist; rows of a batch are the rows of its tickets, each
row once, row ids gap-free in arrival order, late rows by the plan's floors, changes of tables never late and without
a part in clock, floors and matches; the clock is where rows and advances have moved it; matches are those of the
plan's queries by a computation of its own; plans include what was acknowledged before, clocks and floors never go back;
nothing is deleted that a document names, unless it is expired, or that Spark may still ask for; acknowledged pushes,
registrations, replacements and drops are there in the end, once; readers never go back and agree with the model.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from obstore.store import MemoryStore

from tests.runtime.simulation.model import Model, Reader
from tests.runtime.simulation.stage import (
    COLUMNS,
    SECOND,
    SETTINGS,
    Checkpoint,
    Row,
    ShakyFiles,
    SimulatedJobs,
    require,
)
from weir.algebra.schema import BIGINT, Stream, Table, is_changes
from weir.errors import FencedError, QueryError, StoreError
from weir.runtime import faults
from weir.runtime.loop import Context, run_batch
from weir.store import registry as registry_module
from weir.store import state as state_module
from weir.store.catalog import CatalogLog, identity
from weir.store.files import Files, ObjectFiles
from weir.store.inbox import Inbox
from weir.store.labels import Labels
from weir.store.ledger import Ledger
from weir.store.naming import replace_query
from weir.store.query_groups import NewQueries
from weir.store.registry import Registry
from weir.store.state import State
from weir.store.vacuum import vacuum


@dataclass
class Parts:
    """What a driver is made of; the broken copies replace one."""

    registry: Callable[[Files], Registry] = Registry
    ledger: Callable[[Files, Registry], Ledger] = lambda files, registry: Ledger(files)
    jobs: Callable[[World, Files, Registry, int], SimulatedJobs] = SimulatedJobs
    after: Callable[[SimulatedJobs], None] = lambda jobs: None


class Driver:
    """One process that runs the job."""

    def __init__(self, world: World) -> None:
        self.world = world
        files = ShakyFiles(world)
        registry = world.parts.registry(files)
        self.context = Context(
            files=files,
            ledger=world.parts.ledger(files, registry),
            registry=registry,
            catalog_log=CatalogLog(files),
            state=State(),
            settings=SETTINGS,
            identity=identity(files, world.clock),
            wall_us=lambda: world.wall_us,
        )

    def batch(self) -> None:
        """One micro-batch as Spark would run it: offsets, our function, commit."""
        world, checkpoint = self.world, self.world.checkpoint
        number = checkpoint.next_batch
        if number not in checkpoint.offsets:
            start = checkpoint.offsets.get(number - 1, 0)
            latest = min(Inbox(self.context.files).next(start), start + world.random.randint(0, 4))
            checkpoint.offsets.setdefault(number, latest)
        faults.reach("offsets logged")
        acknowledged = world.registered, world.defined
        planned_before = number in world.model.plans
        jobs = world.parts.jobs(world, self.context.files, self.context.registry, number)
        done = run_batch(self.context, number, jobs)
        require(
            done.attempt == world.model.dones[number]["attempt"], "a batch returned what is not the ledger's", number
        )
        world.parts.after(jobs)
        plan = world.model.plans[number]
        if not planned_before and number not in world.plans_of_others:
            require(plan.registry >= acknowledged[0], "an acknowledged registration is not in the next plan", number)
            require(plan.catalog >= acknowledged[1], "an acknowledged definition is not in the next plan", number)
        faults.reach("done, Spark's commit missing")
        checkpoint.commits.add(number)


class Host:
    """Processes that live for more than one step, so that what they remember gets old."""

    def __init__(self, world: World) -> None:
        self.driver: Driver | None = None
        self.registry = world.parts.registry(world.files)
        self.inboxes = [Inbox(world.files), Inbox(world.files)]
        self.readers = [Reader(world), Reader(world)]


class World:
    """Everything there is, and the dice."""

    def __init__(self, seed: int, parts: Parts | None = None) -> None:
        self.random = random.Random(seed)
        self.parts = parts or Parts()
        copies = tempfile.mkdtemp(prefix="weir-simulation-")
        weakref.finalize(self, shutil.rmtree, copies, ignore_errors=True)
        self.inner = ObjectFiles(MemoryStore(), cache=Path(copies))
        self.mtimes_s: dict[str, float] = {}
        self.wall_us = 1_000_000 * SECOND
        self.clock = "arrival" if seed % 4 == 0 else "event"
        self.model = Model(self)
        self.checkpoint = Checkpoint()
        self.constants: dict[int, list[int]] = {}
        self.plans_of_others: set[int] = set()
        self.registered = 0  # registry documents up to the newest acknowledged one
        self.defined = 0
        self.uids = 0
        self.steps = 0  # those that happened while somebody slept included
        self.depth = 0  # how many sleepers are on the stack
        self.fuse: int | None = None  # store operations and points until something happens …
        self.fuse_point = ""  # … or until this point is reached …
        self.on_fuse: Callable[[], None] = lambda: None  # … namely this
        self.log: list[str] = []
        self.files = ShakyFiles(self)
        self.host = Host(self)
        self.define()

    # ── fate ──

    def tick(self, point: str = "") -> None:
        """Every store operation and every named point passes here."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0 or (point and point == self.fuse_point):
                self.fuse = None
                self.on_fuse()

    def die(self) -> None:
        raise faults.Crash

    def fail(self) -> None:
        raise StoreError("the network is down for a moment")

    def sleep(self) -> None:
        """The caller falls asleep; other things happen; it wakes up and goes on."""
        self.depth += 1
        asleep, self.host = self.host, Host(self)  # what the sleeper holds nobody else can use
        for _ in range(self.random.randint(1, 6)):
            self.step()
        self.host = asleep
        self.depth -= 1
        self.fuse = None

    def attempt(self, what: str, action: Callable[[], None]) -> None:
        """Do something, perhaps dying, sleeping or failing in the middle. Who died has forgotten everything."""
        dice = self.random.random()
        fate = ""
        soon = self.random.randint(1, self.random.choice([5, 15, 50]))
        self.fuse_point = ""
        if what.startswith("batch") and self.random.random() < 0.4:
            soon, self.fuse_point = 1_000, self.random.choice(BATCH_POINTS)
        if dice < 0.22:
            self.fuse, self.on_fuse, fate = soon, self.die, " may die"
        elif dice < 0.40 and self.depth < 3:
            self.fuse, self.on_fuse, fate = soon, self.sleep, " may sleep"
        elif dice > 0.92:
            self.fuse, self.on_fuse, fate = soon, self.fail, " may fail"
        self.log.append("  " * self.depth + what + fate)
        try:
            action()
        except faults.Crash:
            self.host = Host(self)
            self.log.append("  " * self.depth + "… died")
        except FencedError:
            self.host = Host(self)
            self.log.append("  " * self.depth + "… fenced")
        except StoreError:
            require(fate == " may fail", "an error that nobody made")
            self.log.append("  " * self.depth + "… failed")  # and goes on with what it remembers
        self.fuse = None

    # ── steps ──

    def step(self) -> None:
        self.steps += 1
        what = self.random.choices(list(STEPS), STEP_WEIGHTS)[0]
        STEPS[what](self)

    def define(self) -> None:
        name = f"s{len(self.model.streams)}"
        keep_us = self.random.choice([20 * SECOND, 20 * SECOND, 3 * SECOND, None])
        stream = Stream(name, COLUMNS, "ts", keep_us, 10 * SECOND)
        self.model.streams[name] = stream
        CatalogLog(self.files).define_stream(stream)
        self.defined += 1

    def define_table(self) -> None:
        name = f"t{len(self.model.streams)}"
        table = Table(name, COLUMNS, ("uid",), "ts", retroactive=self.random.random() < 0.5)
        self.model.streams[table.changes.name] = table.changes
        CatalogLog(self.files).define_table(table)
        self.defined += 1

    def define_another(self) -> None:
        if len(self.model.streams) < 4:
            self.log.append("  " * self.depth + "define")
            self.random.choice([self.define, self.define_table])()

    def register(self) -> None:
        stream = self.random.choice([name for name in self.model.streams if not is_changes(name)])
        constants = [self.random.choice([1, 2, 2, 3, 5]) for _ in range(self.random.randint(1, 3))]
        registry = self.host.registry if self.random.random() < 0.7 else self.parts.registry(self.files)

        def action() -> None:
            table = pa.table({"c0": constants})
            group = registry.register(NewQueries(stream, (BIGINT,), table, ["selection"], [stream], self.defined))
            document = self.model.documents[group.number]
            require(document.values == constants, "another registration's document", group.number)
            require(document.first_id == group.first_id, "query ids", group, document)
            self.registered = max(self.registered, group.number + 1)

        self.attempt(f"register {stream} {constants}", action)

    def drop(self) -> None:
        if not self.model.queries:
            return
        ids = np.array(self.random.sample(range(self.model.queries), k=min(2, self.model.queries)))
        registry = self.host.registry if self.random.random() < 0.7 else self.parts.registry(self.files)

        def action() -> None:
            try:
                number = registry.drop(ids)
            except QueryError:
                gone = self.gone()
                require(any(q in gone for q in ids.tolist()), "a drop was refused", ids)
                return
            require(self.model.documents[number].values == sorted(ids.tolist()), "another drop's document", number)
            self.registered = max(self.registered, number + 1)

        self.attempt(f"drop {ids}", action)

    def gone(self) -> set[int]:
        return {q for d in self.model.documents for q in d.gone}

    def replace(self) -> None:
        """Another constant for a query, or another stream."""
        if not self.model.queries:
            return
        id, constant = self.random.randrange(self.model.queries), self.random.choice([1, 2, 3])
        stream = self.random.choice([name for name in self.model.streams if not is_changes(name)])
        registry = self.host.registry if self.random.random() < 0.7 else self.parts.registry(self.files)

        def action() -> None:
            table = pa.table({"c0": [constant]})
            new = NewQueries(stream, (BIGINT,), table, ["selection"], [stream], self.defined)
            try:
                named = replace_query(Labels(registry), new, id)
            except QueryError:
                require(id in self.gone(), "a replacement was refused", id)
                return
            if named.group is None:
                require(named.ids.tolist() == [id], "a query that would be the same is another one", named.ids)
                return
            document = self.model.documents[named.group.number]
            require((document.values, document.replaces) == ([constant], [id]), "another replacement", document)
            require(named.ids.tolist() == [document.first_id], "query ids", named, document)
            self.registered = max(self.registered, named.group.number + 1)

        self.attempt(f"replace {id} by {stream} {constant}", action)

    def push(self) -> None:
        stream = self.random.choice(list(self.model.streams))
        rows = []
        for _ in range(self.random.randint(1, 4)):
            self.uids += 1
            ahead_s = self.random.choice([-40, -25, -8, -3, -1, 0, 0, 0, 1, 5, 60])
            t_us = self.wall_us + ahead_s * SECOND + self.random.randrange(SECOND)
            rows.append(Row(self.uids, self.random.randrange(12), t_us))
        table = pa.table({name: [getattr(row, name) for row in rows] for name in ("uid", "value", "t_us")})
        inbox = self.random.choice([*self.host.inboxes, Inbox(self.files)])

        def action() -> None:
            self.model.acknowledge_push(inbox.push(stream, table), stream, rows)

        self.attempt(f"push {stream} {len(rows)} rows", action)

    def advance(self) -> None:
        """Idle jobs tick on the arrival clock; on the event clock somebody says a time, which may be an old one."""
        time_us = None
        if self.clock == "event":
            time_us = self.wall_us + self.random.choice([-40, -10, -3, -1, 0, 2, 9]) * SECOND
        inbox = self.random.choice([*self.host.inboxes, Inbox(self.files)])

        def action() -> None:
            self.model.acknowledge_advance(inbox.advance(time_us), time_us)

        self.attempt(f"advance to {time_us}", action)

    def batch(self) -> None:
        def action() -> None:
            if self.host.driver is None or self.random.random() < 0.1:
                self.host.driver = Driver(self)
            self.host.driver.batch()

        if self.depth:
            self.plans_of_others.add(self.checkpoint.next_batch)
        self.attempt(f"batch {self.checkpoint.next_batch}", action)

    def read(self) -> None:
        if self.random.random() < 0.2:
            self.host.readers[self.random.randrange(2)] = Reader(self)
        reader = self.random.choice(self.host.readers)
        self.attempt("read", lambda: reader.look(self.model))

    def vacuum(self) -> None:
        def action() -> None:
            state = State()
            state.refresh(Ledger(self.files))
            committed = self.checkpoint.offsets.get(max(self.checkpoint.commits, default=-1), 0)
            vacuum(self.files, state, self.wall_us / SECOND, SETTINGS, inbox_committed=committed)

        self.attempt("vacuum", action)

    def lose_caches(self) -> None:
        """Delete, cut or garble cache files."""
        for entry in list(self.inner.list("cache")):
            self.log.append(f"lose {entry.path}")
            data = self.inner.read(entry.path) or b""
            self.inner.delete(entry.path)
            kind = self.random.randrange(3)
            if kind and data:
                at = self.random.randrange(len(data))
                broken = data[:at] if kind == 1 else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                self.inner.create(entry.path, broken)

    def turn_clock(self) -> None:
        seconds = self.random.choice([1, 1, 2, 5, 10, 30, 100, 4000, -5, -3600])
        self.log.append(f"clock {seconds:+} s")
        self.wall_us += seconds * SECOND

    # ── the end ──

    def settle(self) -> None:
        """No more accidents: drain the inbox, then look at everything."""
        self.log.append("settle")
        self.fuse = None
        self.host.driver = Driver(self)
        while True:
            self.host.driver.batch()
            if self.model.inbox_next == len(self.model.tickets):
                break
        for reader in (*self.host.readers, Reader(self)):
            reader.look(self.model)
        state = State()
        state.refresh(Ledger(self.files))
        committed = self.checkpoint.offsets[max(self.checkpoint.commits)]
        vacuum(self.files, state, max(self.mtimes_s.values()) + 10_000, SETTINGS, inbox_committed=committed)
        Reader(self).look(self.model)
        self.model.check_everything()
        left = {e.path for folder in ("rows", "matches", "late") for e in self.inner.list(folder)}
        require(left == state.named(), "orphans are left after a vacuum", left - state.named())
        waiting = f"inbox/data/{len(self.model.tickets):012d}"  # of a pusher that may only be asleep
        left = {e.path for e in self.inner.list("inbox/data") if e.path < waiting}
        require(not left, "pushed data is left after a vacuum", left)
        left = {e.path for e in self.inner.list("inbox/released")}
        require(len(left) <= 2, "releases are left after a vacuum", left)


STEPS: dict[str, Callable[[World], None]] = {
    "batch": World.batch,
    "push": World.push,
    "register": World.register,
    "drop": World.drop,
    "replace": World.replace,
    "clock": World.turn_clock,
    "read": World.read,
    "vacuum": World.vacuum,
    "lose caches": World.lose_caches,
    "define": World.define_another,
    "advance": World.advance,
}
STEP_WEIGHTS = [30, 20, 12, 5, 5, 10, 10, 7, 3, 3, 6]


BATCH_POINTS = [
    point
    for point in faults.POINTS
    if not point.startswith(("half", "mid-"))  # those are reached outside batches
]


@dataclass(frozen=True)
class Outcome:
    """What a simulated history contained, to show that it was worth simulating."""

    batches: int
    matches: int
    advanced: int  # batches that an advance moved the clock of
    log: tuple[str, ...]


@contextlib.contextmanager
def simulated_time(seed: int) -> Iterator[None]:
    """Tokens from a seed, and caches that are written every few documents."""
    tokens = random.Random(seed)

    def token() -> uuid.UUID:
        return uuid.UUID(int=tokens.getrandbits(128))

    with (
        mock.patch.object(uuid, "uuid4", token),
        mock.patch.object(state_module, "CACHE_EVERY", 3),
        mock.patch.object(state_module, "PRUNE_EVERY", 2),
        mock.patch.object(registry_module, "CACHE_EVERY", 4),
    ):
        yield


def simulate(seed: int, steps: int = 50, parts: Parts | None = None) -> Outcome:
    """One history. A broken promise is a Violation with the seed and the steps that led to it."""
    with simulated_time(seed):
        world = World(seed, parts)
        with faults.arm(world.tick):
            try:
                while world.steps < steps:
                    world.step()
                world.settle()
            except BaseException as error:
                error.add_note(f"seed {seed}, steps:\n" + "\n".join(world.log))
                raise
    return Outcome(len(world.model.dones), world.model.matches, world.model.advanced, tuple(world.log))
