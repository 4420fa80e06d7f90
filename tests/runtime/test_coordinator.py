"""The coordinator under accidents: thousands of random histories, and broken copies that must be caught.

See `simulation/world.py` for what a history is and what is checked. A failure prints its seed and steps; run it alone
with `simulate(seed)`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import integers

from tests.marks import few_are_quick
from tests.runtime.simulation.model import Reader
from tests.runtime.simulation.stage import SimulatedJobs, Violation
from tests.runtime.simulation.world import Outcome, Parts, World, simulate, simulated_time
from weir.errors import WeirError
from weir.runtime import faults
from weir.store import inbox as inbox_module
from weir.store.files import Files
from weir.store.ledger import Ledger, Plan
from weir.store.registry import Ids, Registry

SEEDS = 2_000
STEPS = 50
PARTS = 40  # so that a failure is seen before all seeds are through


@pytest.mark.parametrize("part", few_are_quick(range(PARTS), quick=1, tested=12))
def test_every_promise_holds_in_random_histories(part: int) -> None:
    outcomes = [simulate(seed, STEPS) for seed in range(part, SEEDS, PARTS)]
    # A simulator that does nothing would find nothing wrong.
    said = Counter(
        word for o in outcomes for word in ("died", "fenced", "failed", "vacuum", "lose") if word in " ".join(o.log)
    )
    assert sum(o.batches for o in outcomes) > 10 * len(outcomes)
    assert sum(o.matches for o in outcomes) > 10 * len(outcomes)
    on_arrival = part % 4 == 0  # the seeds of a part have one clock; that of arrivals nobody advances
    assert on_arrival or sum(o.advanced for o in outcomes) > len(outcomes) // 4
    assert min(said.values()) > len(outcomes) // 4, said
    assert len(said) == 5


def test_a_seed_is_one_history() -> None:
    assert simulate(7) == simulate(7)
    assert simulate(7) != simulate(8)


# ── broken on purpose ──────────────────────────────────────────────────────────────────────────────


class MatchFilesLast(SimulatedJobs):
    """Reports match files that are written only after the done document."""

    def __init__(self, world: World, files: Files, registry: Registry, number: int) -> None:
        super().__init__(world, files, registry, number)
        self.pending: list[tuple[str, bytes]] = []

    def write_matches(self, path: str, data: bytes) -> None:
        self.pending.append((path, data))


def write_pending(jobs: SimulatedJobs) -> None:
    assert isinstance(jobs, MatchFilesLast)
    for path, data in jobs.pending:
        jobs.files.write(path, data)


class RegistryReadAgain(Ledger):
    """A replay that takes the registry as it is now instead of what the plan has pinned."""

    def __init__(self, files: Files, registry: Registry) -> None:
        super().__init__(files)
        self.registry = registry

    def plan(self, batch: int) -> Plan | None:
        pinned = super().plan(batch)
        if pinned is None or self.done(batch) is not None:
            return pinned
        self.registry.refresh()
        return replace(pinned, registry=self.registry.count, registry_head=self.registry.head)


class IdsReused(Registry):
    """A registry that fills the ids of dropped queries again."""

    def _first_id(self) -> int:
        return self.queries - len(self.dropped())


class ReplacedStay(Registry):
    """A registry in which queries stay that others took the place of."""

    def dropped(self, upto: int | None = None) -> Ids:
        ids = super().dropped(upto)
        return ids[[not self.is_registration(self.drop_number(id) or 0) for id in ids.tolist()]]


class AdvancesForgotten(SimulatedJobs):
    """Consumes advances, and does not tell anybody."""

    def now_of(self, advances: list[int]) -> int | None:
        return None


BROKEN = {
    "done is created before the match files": Parts(jobs=MatchFilesLast, after=write_pending),
    "a replay reads the registry again": Parts(ledger=RegistryReadAgain),
    "ids are reused after a drop": Parts(registry=IdsReused),
    "who is replaced stays": Parts(registry=ReplacedStay),
    "advances are forgotten": Parts(jobs=AdvancesForgotten),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_copy_is_caught(broken: str) -> None:
    caught = [seed for seed in range(60) if notices(seed, BROKEN[broken])]
    assert len(caught) >= 3, f"only {caught} of 60 histories noticed"
    with pytest.raises(Violation) as raised:
        simulate(caught[0], STEPS, BROKEN[broken])
    assert f"seed {caught[0]}, steps:" in raised.value.__notes__[0]


@pytest.mark.slow
def test_a_release_that_forgets_who_waits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pusher that slept while its ticket was consumed would push its rows a second time."""
    remember = inbox_module.Release

    def forget(index: int, end: int, waiting: dict[int, str], forgotten: int) -> inbox_module.Release:
        return remember(index, end, {}, forgotten)

    monkeypatch.setattr(inbox_module, "Release", forget)
    assert any(notices(seed, Parts()) for seed in range(SEEDS)), "no history noticed"


def notices(seed: int, parts: Parts) -> bool:
    try:
        simulate(seed, STEPS, parts)
    except Violation:
        return True
    except WeirError:  # it fails, which is no wrong answer
        return False
    return False


# ── the same world, with Hypothesis choosing the steps and shrinking what fails ──────────────────────


class Coordinator(RuleBasedStateMachine):
    """Each rule is one step; Hypothesis picks the order and the dice."""

    def __init__(self) -> None:
        super().__init__()
        self.time = simulated_time(0)
        self.time.__enter__()
        self.world = World(1)
        self.armed = faults.arm(self.world.tick)
        self.armed.__enter__()
        self.reader = Reader(self.world)

    def teardown(self) -> None:
        try:
            self.world.settle()
        finally:
            self.armed.__exit__(None, None, None)
            self.time.__exit__(None, None, None)

    @rule(dice=integers(0, 2**16))
    def batch(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.batch()

    @rule(dice=integers(0, 2**16))
    def push(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.push()

    @rule(dice=integers(0, 2**16))
    def advance(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.advance()

    @rule(dice=integers(0, 2**16))
    def register(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.register()

    @rule(dice=integers(0, 2**16))
    def drop(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.drop()

    @rule(dice=integers(0, 2**16))
    def vacuum(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.vacuum()

    @rule(dice=integers(0, 2**16))
    def turn_clock(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.turn_clock()

    @rule(dice=integers(0, 2**16))
    def lose_caches(self, dice: int) -> None:
        self.world.random.seed(dice)
        self.world.lose_caches()

    @invariant()
    def a_reader_agrees(self) -> None:
        self.reader.look(self.world.model)


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_an_outcome_tells_its_steps() -> None:
    outcome = simulate(3, 10)
    assert isinstance(outcome, Outcome)
    assert outcome.log[-1] == "settle"
