"""Faults at every step of building and matching, on Spark: the batch goes on, and every answer is the oracle's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import poison
from tests.poison import FORMS, PLACES, VICTIMS, World, match_dies, poisoned
from weir.runtime import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def poisoned_workers(what: Callable[..., None], ids: frozenset[int]) -> Iterator[None]:
    """Tasks carry the poison with them; a worker is as it was when its task is over."""
    from pyspark import cloudpickle

    match_task = jobs.match_task

    def carrying(task: Any) -> Any:
        run = match_task(task)

        def poisoned_run(batches: Iterator[Any]) -> Iterator[Any]:
            with poisoned(what, ids):
                yield from run(batches)

        return poisoned_run

    cloudpickle.register_pickle_by_value(poison)
    cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["_"]))
    jobs.match_task = carrying
    try:
        yield
    finally:
        jobs.match_task = match_task
        cloudpickle.unregister_pickle_by_value(poison)
        cloudpickle.unregister_pickle_by_value(__import__(__name__, fromlist=["_"]))


def run(world: World, said: list[str] | None = None) -> Any:
    for name, rows in world.new_rows().items():
        world.weir.push(name, rows)
    return world.weir.run(available_now=True, say=None if said is None else said.append)


def test_every_place_and_form(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path / "weir", spark)
    run(world)
    gone: dict[int, str] = {}
    for place, what in PLACES.items():
        victims = {world.one(VICTIMS[form], 30) for form in FORMS if (place, form) != ("encoding", "selection")}
        # Few partner rows are encoded by the tasks that need them.
        inside = poisoned_workers if place in ("encoding", "matching") else poisoned
        said: list[str] = []
        with inside(what, frozenset(victims)):
            progress = run(world, said).progress()
        assert progress.quarantined == len(victims)
        assert sum("cannot be matched" in line for line in said) == len(victims)
        gone |= dict.fromkeys(victims, f"PoisonError: {place}")
        assert world.demoted() == gone
        world.check()
    world.weir.retry(list(gone))
    assert run(world).progress().quarantined == 0
    assert not world.demoted()
    world.check()


def test_who_ends_the_process_it_is_matched_in(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path / "weir", spark)
    run(world)
    victim = world.one(VICTIMS["join"], 30)
    with poisoned_workers(match_dies, frozenset({victim})):
        assert run(world).progress().quarantined == 1
    assert world.demoted() == {victim: "it ends the process that matches it"}
    world.check()
    assert run(world).progress().quarantined == 0
    world.check()
