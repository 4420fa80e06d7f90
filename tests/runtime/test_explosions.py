"""Queries that ask for more than there is room for: their own fetch says so, and nobody else notices."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.poison import EXPLODING, World
from weir.errors import WeirError
from weir.testing.direct import DirectWeir

PEAK_MB = 3_000  # of this process, above what it has already taken


@pytest.mark.slow
def test_what_explodes_says_so_and_harms_nobody(tmp_path: Path) -> None:
    world = World(tmp_path / "weir")
    w = world.weir
    exploding = {name: w.register(text) for name, text in EXPLODING.items()}
    w.table("place", "k bigint, owner string null", key="k")
    w.view("mine", "SELECT R.k, R.a, p.owner FROM R JOIN place p ON R.k = p.k")
    joined = w.register("SELECT a, owner FROM mine WHERE a > 50")
    w.upsert("place", {"k": list(range(6)), "owner": [f"o{k}" for k in range(6)]})
    direct = DirectWeir(w, wall_us=10**16, takes_pushes=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    for _ in range(2):
        done = direct.batch(world.new_rows(40))
    for name, query in exploding.items():
        with pytest.raises(WeirError, match="allowed|for one value|has more than") as raised:
            query.fetch()
        assert len(str(raised.value)) < 400, f"{name}: {raised.value}"
    world.check()
    assert joined.fetch().num_rows == sum((t["a"].to_numpy() > 50).sum() for t in world.rows["R"])
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before < PEAK_MB
    blamed = {id for id, why in world.demoted().items() if "TooLarge" in why}
    assert blamed == {
        exploding[name].id for name in exploding if name.startswith("texts") and " WHERE " in EXPLODING[name]
    }
    for query in exploding.values():
        query.drop()
    assert not done.demoted or set(done.demoted).isdisjoint(world.texts)
    direct.batch(world.new_rows(40))
    world.check()


def test_constants_that_explode_are_refused(tmp_path: Path) -> None:
    w = World(tmp_path / "weir").weir
    for text in (
        "replace(repeat('a', 65536), 'a', repeat('b', 65536))",
        "levenshtein(repeat('a', 9000), repeat('b', 9000))",
    ):
        with pytest.raises(WeirError, match=r"^register: .*\(\) (makes|compares)"):
            w.register(f"SELECT {text} AS x FROM R")


def test_an_order_that_begins_beyond_all_rows_is_empty(tmp_path: Path) -> None:
    world = World(tmp_path / "weir")
    beyond = world.weir.register("SELECT a FROM R ORDER BY a LIMIT 9223372036854775807 OFFSET 9223372036854775807")
    whole = world.weir.register("SELECT a FROM R ORDER BY a LIMIT 9223372036854775807 OFFSET 1")
    DirectWeir(world.weir, wall_us=10**16).batch(world.new_rows(40))
    assert (beyond.fetch().num_rows, whole.fetch().num_rows) == (0, 39)
