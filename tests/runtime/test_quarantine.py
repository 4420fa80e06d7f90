"""A query that cannot be matched is taken out, with a reason; everybody's answers stay right, and it can come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.marks import few_are_quick
from tests.poison import FORMS, PLACES, VICTIMS, World, poisoned
from weir.errors import QueryError
from weir.runtime.quarantine import TRIALS_MAX, culprits
from weir.store.state import State
from weir.testing.direct import DirectWeir


def make(folder: Path) -> tuple[World, DirectWeir]:
    world = World(folder)
    return world, DirectWeir(world.weir, wall_us=10**16)


CASES = [(place, form) for place in PLACES for form in FORMS if (place, form) != ("encoding", "selection")]


@pytest.mark.parametrize("case", few_are_quick(CASES, quick=1))
def test_only_the_victim_goes_and_it_comes_back(tmp_path: Path, case: tuple[str, str]) -> None:
    place, form = case
    world, direct = make(tmp_path)
    direct.batch(world.new_rows())
    others = world.many(VICTIMS[form], range(0, 20, 2)) if place in ("building", "matching") else []
    victim = world.one(VICTIMS[form], 30)
    with poisoned(PLACES[place], frozenset({victim})):
        done = direct.batch(world.new_rows())
        assert [(q.first, q.count, q.reason) for q in done.quarantined] == [(victim, 1, f"PoisonError: {place}")]
        world.check()
        assert world.demoted() == {victim: f"PoisonError: {place}"}
        assert (
            f"quarantined in batch 1: recomputed at fetch. PoisonError: {place}" in world.weir.query(victim).explain()
        )
        assert not direct.batch(world.new_rows()).quarantined, "once is enough"
        world.one(VICTIMS[form], 35)
        again = direct.batch(world.new_rows()).quarantined
        assert bool(again) == (place in ("reading", "encoding")), "the poison is in the shape, not in the id"
        world.check()
        # Tried again too early: it fails again, and nobody else does.
        world.weir.retry(victim)
        assert [q.first for q in direct.batch(world.new_rows()).quarantined] == [victim]
        world.check()
    for id in others:
        assert "materialised since batch 1" in world.weir.query(id).explain()
    world.weir.retry(sorted(world.demoted()))
    done = direct.batch(world.new_rows())
    assert sum(count for _, count in done.restored) == (2 if again else 1)
    assert not world.demoted()
    assert f"materialised since batch {done.batch}" in world.weir.query(victim).explain()
    world.check()
    direct.batch(world.new_rows())
    world.check()
    new = DirectWeir(world.weir, wall_us=10**16)  # another driver, which begins with the ledger
    new.batch(world.new_rows())
    world.check()
    restored = State()
    restored.refresh(world.weir.ledger)
    assert (list(restored.quarantined), restored.demoted) == ([], {})


@pytest.mark.slow
def test_a_victim_among_many_is_found(tmp_path: Path) -> None:
    world, direct = make(tmp_path)
    ids = world.many(VICTIMS["join"], range(100))
    victims = frozenset({ids[17], ids[63]})
    with poisoned(PLACES["matching"], victims):
        done = direct.batch(world.new_rows())
        assert {q.first for q in done.quarantined} == victims
        world.check()


def test_a_dropped_victim_is_nobodys_problem(tmp_path: Path) -> None:
    world, direct = make(tmp_path)
    victim = world.one(VICTIMS["join"], 30)
    direct.batch(world.new_rows())
    world.weir.drop(victim)
    del world.texts[victim]
    with poisoned(PLACES["matching"], frozenset({victim})):
        assert not direct.batch(world.new_rows()).quarantined
    world.check()


def test_who_is_matched_cannot_be_tried_again(tmp_path: Path) -> None:
    world, direct = make(tmp_path)
    direct.batch(world.new_rows())
    with pytest.raises(QueryError, match="query 0 is neither demoted nor given up"):
        world.weir.retry([0])
    with pytest.raises(QueryError, match="there is no query 900"):
        world.weir.retry(900)


def test_disks_and_damage_are_not_blamed_on_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, direct = make(tmp_path)

    def build(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FORMS["join"], "build", build)
    with pytest.raises(OSError, match="No space left"):
        direct.batch(world.new_rows())
    monkeypatch.undo()
    world.rows = {name: [] for name in world.rows}
    assert not direct.batch(world.new_rows()).quarantined
    world.check()


def test_what_fails_once_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, direct = make(tmp_path)
    build, calls = FORMS["join"].build, []

    def once(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise MemoryError("just now")
        return build(*given)

    monkeypatch.setattr(FORMS["join"], "build", once)
    assert not direct.batch(world.new_rows()).quarantined
    world.check()


@pytest.mark.parametrize("guilty", [{5}, {0, 99}, {40, 41, 42}, set(range(100))])
def test_culprits_are_found_with_few_trials(guilty: set[int]) -> None:
    trials: list[int] = []

    def works(part: np.ndarray) -> bool:
        trials.append(len(part))
        return guilty.isdisjoint(part.tolist())

    found = culprits(np.arange(100), works)
    assert guilty <= set(found.tolist())
    assert len(trials) <= TRIALS_MAX + 16
    if len(guilty) < 4:
        assert set(found.tolist()) == guilty


def test_what_works_when_it_is_tried_again_has_no_culprits() -> None:
    assert not len(culprits(np.arange(8), lambda part: True))


def test_what_fails_only_together_goes_together() -> None:
    assert culprits(np.arange(8), lambda part: not {1, 6} <= set(part.tolist())).tolist() == list(range(8))
