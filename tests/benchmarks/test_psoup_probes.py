"""The probes of PSoup's Fig. 11 find the same pairs as comparing every row of R with every row of S."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from benchmarks.exhibits.psoup.probes import EQ, FLIPPED, GE, GT, LE, LT, PROBES, ordered, probe
from benchmarks.exhibits.psoup.psoup_11 import INEQUALITIES, OWN_OPS, Query, draw_queries, hybrids, measure
from benchmarks.exhibits.psoup.workload import draw_constants, draw_values

pytestmark = pytest.mark.slow

COMPARISONS = {EQ: operator.eq, LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge}


def joined(query: Query, a: np.ndarray, b: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of a place in `a` and a row of S, from the definition."""
    first, across, second = (COMPARISONS[op] for op in query.relops)
    holds = first(a, query.c1)[:, None] & across(a[:, None], b) & second(b, query.c2)
    return [(int(i), int(j)) for i, j in np.argwhere(holds)]


@pytest.mark.slow
@pytest.mark.parametrize("probe_name", PROBES)
@pytest.mark.parametrize("sizes", [(40, 700), (0, 5), (5, 0), (1, 1), (300, 60)])
def test_every_probe_finds_what_the_definition_says(probe_name: str, sizes: tuple[int, int]) -> None:
    n_r, n_s = sizes
    random = np.random.default_rng(n_r + n_s)
    a, b = np.sort(draw_values(n_r, random)), draw_values(n_s, random)
    data = ordered(b)
    found_some = False
    for first in INEQUALITIES:
        for own in COMPARISONS:
            for shared in COMPARISONS:
                c1, c2 = draw_constants(2, random).tolist()
                query = Query((first, own, shared), c1, c2)
                factors = hybrids(query, a)
                found = probe(probe_name, data, factors)
                begin = int(np.searchsorted(a, factors.a[0])) if len(factors.a) else 0
                place = begin + np.repeat(np.arange(len(factors.a)), np.diff(found.offsets))
                pairs = sorted(zip(place.tolist(), found.items.tolist(), strict=True))
                assert pairs == joined(query, a, b), f"{query}"
                found_some |= bool(pairs)
    assert found_some or min(n_r, n_s) <= 1


def test_flipping_an_operator_twice_changes_nothing() -> None:
    for op, compare in COMPARISONS.items():
        assert FLIPPED[FLIPPED[op]] == op
        for x, y in ((1, 2), (2, 1), (2, 2)):
            assert compare(x, y) == COMPARISONS[FLIPPED[op]](y, x)


def test_workloads_are_as_defined() -> None:
    random = np.random.default_rng(3)
    constants = draw_constants(20_000, random)
    assert constants.min() == 0
    assert constants.max() == 255
    assert np.mean(constants % 32 == 0) == pytest.approx(0.2 + 0.8 * 8 / 256, abs=0.01)
    for workload, own in OWN_OPS.items():
        queries = draw_queries(workload, 200, random)
        assert {q.relops[1] for q in queries} == set(own)
        assert {q.relops[2] for q in queries} == ({EQ} if workload == "Eq/Ineq" else set(INEQUALITIES))
        assert {q.relops[0] for q in queries} == set(INEQUALITIES)


@pytest.mark.slow
def test_measuring_counts_pairs() -> None:
    random = np.random.default_rng(4)
    a, b = np.sort(draw_values(50, random)), draw_values(70, random)
    queries = draw_queries("Ineq/Ineq", 4, random)
    cost = measure(ordered(b), [hybrids(q, a) for q in queries], 2)
    assert cost.pairs == sum(len(joined(q, a, b)) for q in queries) / 4
    assert set(cost.us) == set(cost.finding_us) == set(PROBES)
    assert all(us > 0 for us in cost.us.values())
