"""The cost model's columns are those of its table, and the paper's four formulas are rows of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir.index.joining.kinds import DEFAULT, make_costs
from weir.index.joins import join_costs
from weir.index.joins.join_costs import (
    CODED_MAX,
    HOTSPOT,
    JOIN_FIRST,
    N_STRATEGIES,
    N_TERMS,
    SELECT_FIRST,
    SSI,
    SWEEP,
    TERMS,
    VANILLA,
    JoinDescription,
    event_costs,
    prepare,
)
from weir.index.joins.join_index import JoinIndex
from weir.index.joins.join_strategies import NAMES, STRATEGIES
from weir.index.keys import KEY_MAX, NULL_KEY
from weir.index.meeting.collector import cheapest
from weir.index.meeting.index_contract import plain_meeting
from weir.index.meeting.planes import Plane

S, Q, SCATTERED, HOTSPOTS, GROUPS, CODES = 70_000, 5_000, 900, 7, 130, 4_000
HOT_ROOTS, GROUP_ROOTS = 160.5, 420.25
KAPPA, RHO = 3, 0.02
# By name, how wide each class or group is and what it counts for: share of entries, groups, share of their boxes.
WIDTHS = {
    "sigma": [(0.001, 0.7), (0.05, 0.2), (1.0, 0.1)],
    "nu": [(0.0001, 100.0), (0.01, 25.0), (0.2, 5.0)],
    "mu": [(0.0001, 0.1), (0.01, 0.3), (0.2, 0.6)],
    "hot nu": [(0.01, 5.0), (0.2, 2.0)],
    "hot mu": [(0.01, 0.4), (0.2, 0.6)],
}


def log(x: float) -> float:
    return math.log2(1 + x)


def reached(name: str, m: int) -> float:
    """Σ weight · min(1, m'·width); kept for four places a doubling of 1 + m'."""
    kept = 2 ** (math.floor(log(m) * 4) / 4) - 1
    return sum(weight * min(1.0, kept * width) for width, weight in WIDTHS[name])


def description(doubt: int = 1) -> JoinDescription:
    tables = [
        join_costs._reached(*(np.array(column) for column in zip(*rows, strict=True))) for rows in WIDTHS.values()
    ]
    numbers = (Q, SCATTERED, HOTSPOTS, HOT_ROOTS, GROUPS, GROUP_ROOTS, KAPPA, RHO, CODES, doubt)
    return JoinDescription(*map(float, numbers), np.stack(tables))


def columns(m: int, n: int, n_scattered: int, doubt: int = 1) -> dict[int, list[float]]:
    """The table of the module's docstring."""
    lm, coded, unsure = log(m), m * log(CODES), doubt * n * m / CODES
    short = coded if m <= CODED_MAX else 0
    hot = (n - n_scattered) * reached("hot mu", m)
    return {
        VANILLA: [1, log(S), 0, Q * lm, 0, 0, Q, n * lm, 0, 0, 0, 0, 0],
        JOIN_FIRST: [
            *(1, log(S), log(Q), 0, 0, m * math.sqrt(Q), n * m * RHO),
            *(KAPPA * m, coded, doubt * KAPPA * m, unsure, KAPPA, doubt * n * m * RHO),
        ],
        SELECT_FIRST: [
            *(1, log(S), log(Q), n * lm, min(n, m), 0, n),
            *(KAPPA, short, 0, 0 if m <= CODED_MAX else n, 0, doubt * n),
        ],
        SSI: [
            *(1, log(S), log(Q), 0, GROUPS * lm, GROUP_ROOTS, n * reached("mu", m)),
            *(GROUPS, 0, n, unsure, reached("nu", m), doubt * n * reached("mu", m)),
        ],
        HOTSPOT: [
            *(1, log(S), log(SCATTERED), n_scattered * lm, min(n_scattered, m), HOT_ROOTS, hot),
            *(
                HOTSPOTS,
                short,
                n_scattered,
                0 if m <= CODED_MAX else n_scattered,
                reached("hot nu", m),
                doubt * n_scattered,
            ),
        ],
        SWEEP: [
            *(1, log(S), log(Q), 0, min(n, m), m * math.sqrt(Q), n * reached("sigma", m)),
            *(KAPPA * m, coded, doubt * KAPPA * m, unsure, KAPPA, doubt * n * reached("sigma", m)),
        ],
    }


def costs_of(terms: np.ndarray, m: int, n: int, n_scattered: int, doubt: int = 1) -> np.ndarray:
    out = np.full(N_STRATEGIES, np.nan)
    event_costs(prepare(make_costs(terms).terms, description(doubt), S), m, n, n_scattered, out)
    return out


@pytest.mark.parametrize("m", [0, 1, 3, 100, CODED_MAX, CODED_MAX + 1, 511, 512, 70_000])
def test_columns_are_those_of_the_table(m: int) -> None:
    rng = np.random.default_rng(m)
    for doubt in (0, 1, 1, 0, 1):
        n = int(rng.integers(0, Q))
        n_scattered = int(rng.integers(0, n + 1))
        expected = columns(m, n, n_scattered, doubt)
        for k in range(N_TERMS):
            only = np.zeros((N_STRATEGIES, N_TERMS))
            only[:, k] = 1.0
            wanted = [expected[s][k] for s in range(N_STRATEGIES)]
            assert costs_of(only, m, n, n_scattered, doubt) == pytest.approx(wanted), (
                f"{TERMS[k]}, n' = {n}, n'' = {n_scattered}, doubt {doubt}"
            )


def test_costs_are_the_sum_of_products() -> None:
    rng = np.random.default_rng(4)
    terms = rng.random((N_STRATEGIES, N_TERMS))
    expected = [float(np.dot(terms[s], row)) for s, row in sorted(columns(53, 620, 77).items())]
    assert costs_of(terms, 53, 620, 77) == pytest.approx(expected)


def test_the_formulas_of_the_paper_are_rows_of_the_model() -> None:
    m, n, n_scattered = 53, 620, 77
    rows, boxes, lookups, probes = (TERMS.index(name) for name in ("rows", "boxes", "lookups", "probes"))
    alpha, beta, gamma, delta = 0.7, 42.0, 1.2, 0.08
    terms = np.zeros((N_STRATEGIES, N_TERMS))
    terms[:, rows] = alpha
    terms[[SELECT_FIRST, HOTSPOT], boxes] = beta
    terms[[VANILLA, SELECT_FIRST, HOTSPOT], lookups] = gamma
    terms[[JOIN_FIRST, HOTSPOT], probes] = delta
    found = costs_of(terms, m, n, n_scattered)
    assert found[JOIN_FIRST] == pytest.approx(alpha * log(S) + delta * m * math.sqrt(Q))
    assert found[SELECT_FIRST] == pytest.approx(alpha * log(S) + beta * log(Q) + gamma * n * log(m))
    assert found[VANILLA] == pytest.approx(alpha * log(S) + gamma * Q * log(m))
    hotspot = alpha * log(S) + beta * log(SCATTERED) + gamma * n_scattered * log(m) + delta * HOT_ROOTS
    assert found[HOTSPOT] == pytest.approx(hotspot)


def test_the_cheapest_is_one_that_is_allowed() -> None:
    each = np.array([5.0, 3.0, 4.0, 1.0, 3.0, 9.0])
    assert cheapest(each, 0b111111) == 3
    assert cheapest(each, 0b110111) == 1
    assert cheapest(each, 0b100001) == 0
    assert cheapest(each, 0) == -1


def test_numbers_are_places_of_the_rows() -> None:
    names = {VANILLA: "vanilla", JOIN_FIRST: "join-first", SELECT_FIRST: "select-first"}
    names |= {SSI: "ssi", HOTSPOT: "hotspot", SWEEP: "sweep"}
    assert tuple(names[s] for s in range(N_STRATEGIES)) == NAMES
    assert [len(row.weights) for row in STRATEGIES] == [len(TERMS)] * N_STRATEGIES
    assert len(TERMS) == N_TERMS


def test_an_index_is_described_by_what_it_is_made_of() -> None:
    rng = np.random.default_rng(9)
    n, n_hot = 2_000, 1_500
    middle = np.concatenate((rng.normal(200_000, 500, n_hot), rng.uniform(500_000, 1_000_000, n - n_hot)))
    half = np.where(np.arange(n) < n_hot, 5_000, 50)
    a_lo = rng.integers(0, 900_000, n)
    plane = Plane(a_lo, a_lo + 1_000, (middle - half).astype(np.int64), (middle + half).astype(np.int64))
    found = JoinIndex.build(plane, alpha=0.1).description
    assert found.n_boxes == n
    assert found.n_hotspots == 1
    assert found.n_scattered == n - n_hot
    assert found.hot_root_sum == pytest.approx(math.sqrt(n_hot))
    assert found.n_groups > 50
    assert 0 < found.reach <= 1
    hot_nu, hot_mu = found.tables[3], found.tables[4]
    assert hot_nu == pytest.approx(hot_mu)  # one hotspot has all their boxes
    # The hotspot is some 13,000 of 800,000 wide: one partner in sixty is within it.
    assert hot_nu[int(log(1) * 4)] == pytest.approx(13_000 / 800_000, rel=0.2)
    assert hot_nu[int(log(1_000) * 4)] == 1.0
    for table in found.tables:
        assert table[0] == 0.0
        assert bool(np.all(np.diff(table) >= -1e-12))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_small_and_open_indexes_are_described_too(n: int) -> None:
    nothing, everything = np.full(n, NULL_KEY, np.int64), np.full(n, KEY_MAX, np.int64)
    index = JoinIndex.build(Plane(nothing, everything, nothing, everything))
    one = np.array([0], np.int64)
    estimates = index.estimates(plain_meeting(one, one, one + 1, np.zeros(2, np.int64)))
    assert bool(np.all(np.isfinite(estimates)))
    assert bool(np.all(estimates >= 0))


def test_the_defaults_are_sane() -> None:
    assert DEFAULT.terms.shape == (N_STRATEGIES, N_TERMS)
    assert not DEFAULT.terms.flags.writeable
    assert bool(np.all(DEFAULT.terms >= 0))
    assert bool(np.all(DEFAULT.terms.sum(axis=1) > 0))
    # More of anything never makes an event cheaper, as long as its run is coded.
    few, many = (costs_of(DEFAULT.terms, m, n, n // 10) for m, n in ((4, 50), (200, 5_000)))
    assert bool(np.all(few <= many))
    # Few selected boxes are looked up one by one; nobody looks at all boxes for them.
    assert few[SELECT_FIRST] < few[VANILLA]


def test_terms_of_another_shape_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="shape"):
        make_costs(np.zeros((N_STRATEGIES, 3)))
    with pytest.raises(AssertionError, match="finite"):
        make_costs(np.full((N_STRATEGIES, N_TERMS), np.nan))
