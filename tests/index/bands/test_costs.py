"""The cost model of band joins: its sample, its estimates against the table of its terms, and the choice by them."""

from __future__ import annotations

import numpy as np
import pytest

from weir.index.bands.band_costs import (
    DATA_OUTER,
    HOTSPOT,
    MERGE,
    N_STRATEGIES,
    N_TERMS,
    QUERY_OUTER,
    SELECT_FIRST,
    SSI,
    TERMS,
    BandDescription,
    event_costs,
    prepare,
)
from weir.index.bands.band_index import BandIndex
from weir.index.bands.band_layout import Bands
from weir.index.bands.band_strategies import NAMES, STRATEGIES, WEIGHTS, sample
from weir.index.box_tables import Matches
from weir.index.joining.kinds import DEFAULT, make_costs
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.collector import Events
from weir.index.meeting.index_contract import Tuning, band_meeting
from weir.index.meeting.partner_runs import make_run
from weir.index.meeting.planes import Plane


def terms_of(of: BandDescription, m: int, *, ladder: str, is_double: bool) -> np.ndarray:
    """float64[strategy, term] of an event, from the table in the docstring."""
    n, classes = of.n_boxes, len(of.sizes)
    log_m, touched = np.log2(1 + m), m * of.touched.sum()
    affected = np.minimum(of.sizes, m * of.stabbed).sum()
    reached, reached_hot = min(of.n_groups, m), min(of.n_hotspots, m)
    n_hot = n - of.n_scattered
    rows = (
        {
            "boxes": n * (ladder == "units"),
            "cells": n * (ladder == "cells"),
            "steps": n * log_m * (ladder == ""),
            "visits": classes * (ladder != ""),
            "affected": affected,
            "doubles": n if ladder else n * log_m,
        },
        {
            "visits": classes * m,
            "cold": classes * m * np.log2(1 + n),
            "touched": touched,
            "affected": affected,
            "doubles": touched,
        },
        {"boxes": n, "visits": classes * m, "affected": affected, "doubles": n + classes * m},
        {
            "steps": of.n_groups * log_m,
            "visits": of.n_groups,
            "cold": reached * np.log2(1 + n / of.n_groups),
            "reached": reached,
            "affected": affected,
            "doubles": of.n_groups,
        },
        {
            "steps": of.n_scattered * log_m,
            "visits": of.n_hotspots,
            "cold": reached_hot * np.log2(1 + n_hot / max(of.n_hotspots, 1)),
            "reached": reached_hot,
            "affected": affected * n_hot / n,
            "doubles": of.n_scattered * log_m,
        },
    )
    table = np.array([[row.get(name, 0.0) for name in TERMS] for row in rows])
    table[:, 0] = 1.0
    if not is_double:
        table[:, TERMS.index("doubles")] = 0.0
    return table


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("ladder", ["", "units", "cells"])
def test_an_estimate_is_weights_times_terms(ladder: str, is_double: bool) -> None:
    rng = np.random.default_rng(6)
    out = np.empty(N_STRATEGIES)
    for _ in range(50):
        sizes = rng.integers(1, 3_000, rng.integers(1, 6)).astype(np.float64)
        n = float(sizes.sum())
        hot = float(rng.integers(0, 20))
        scattered = float(rng.integers(0, n)) if hot else n
        touched = rng.uniform(0, 50, len(sizes))
        of = BandDescription(n, scattered, hot + rng.integers(1, 100), hot, sizes, touched, touched * rng.random())
        weights = rng.uniform(0, 5, (N_STRATEGIES, N_TERMS))
        m = int(np.exp(rng.uniform(0, 12)))
        prepared = prepare(weights, of, is_double=is_double, has_units=ladder == "units")
        event_costs(prepared, m, ladder != "", out)
        assert out == pytest.approx((weights * terms_of(of, m, ladder=ladder, is_double=is_double)).sum(axis=1))


def bands_of(n: int, width: int, rng: np.random.Generator) -> tuple[BandIndex, np.ndarray, np.ndarray]:
    lo = rng.integers(-5_000, 5_000, n)
    hi = lo + rng.integers(0, width, n)
    hi[rng.random(n) < 0.02] = KEY_MAX
    lo[rng.random(n) < 0.02] = KEY_MIN
    return BandIndex.build(Plane(np.full(n, NULL_KEY), np.full(n, KEY_MAX), lo, hi), is_double=False), lo, hi


def test_a_sample_says_how_many_boxes_partners_touch_and_lie_in() -> None:
    rng = np.random.default_rng(8)
    index, lo, hi = bands_of(4_000, 300, rng)
    arrays = index.arrays()
    bands = Bands(*(arrays[f"bands_{name}"] for name in Bands._fields))
    rows = np.sort(rng.integers(0, 5_000, 300))
    b = rng.integers(0, 5_000, 500)
    events = Events(np.zeros(500, np.int64), np.zeros(500, np.int64), np.full(500, 300))
    touched, stabbed = np.zeros(len(bands.longest)), np.zeros(len(bands.longest))
    sample(bands, events, b, make_run(rows, False, is_one=False), touched, stabbed)
    d = (rows[None, :] - b[:, None])[::10, ::10].reshape(-1, 1)
    assert stabbed.sum() == pytest.approx(((lo <= d) & (d <= hi)).sum(axis=1).mean(), rel=0.2)
    near = [
        (bands.lo[i:j] <= d) & ((bands.lo[i:j] >= d - longest) | (longest == KEY_MAX))
        for i, j, longest in zip(bands.classes[:-1], bands.classes[1:], bands.longest, strict=True)
    ]
    assert touched == pytest.approx([each.sum(axis=1).mean() for each in near], rel=0.2, abs=1)
    touched[:], stabbed[:] = 0, 0
    none = Events(*(array[:0] for array in events))
    sample(bands, none, b[:0], make_run(rows, False, is_one=False), touched, stabbed)
    assert not touched.any()
    assert not stabbed.any()


def test_weights_decide_and_change_no_answer() -> None:
    rng = np.random.default_rng(9)
    index, _, _ = bands_of(600, 300, rng)
    rows = np.sort(rng.integers(0, 5_000, 400))
    run = make_run(rows, False, is_one=True)
    b = rng.integers(0, 5_000, 40)
    events = band_meeting(np.zeros(40, np.int64), b, np.zeros(40, np.int64), np.full(40, 400), run)
    muted = np.zeros(600, np.uint8)
    expected = index.search(events, muted, 10**9).matches
    assert isinstance(expected, Matches)
    for number, name in enumerate(NAMES[:N_STRATEGIES]):
        weights = np.full((N_STRATEGIES, N_TERMS), 1e6)
        weights[number] = 1e-6
        tuning = Tuning(costs=make_costs(DEFAULT.terms, weights))
        assert bool(np.all(index.estimates(events, tuning).argmin(axis=1) == number))
        found = index.search(events, muted, 10**9, tuning)
        assert found.choices.tolist() == [40 * (k == number) for k in range(len(NAMES))], name
        assert isinstance(found.matches, Matches)
        assert np.array_equal(found.matches.slots, expected.slots)


def test_default_weights_have_one_layout_and_no_sign() -> None:
    assert WEIGHTS.shape == (N_STRATEGIES, N_TERMS)
    assert bool(np.all(WEIGHTS >= 0))
    assert DEFAULT.bands is WEIGHTS or np.array_equal(DEFAULT.bands, WEIGHTS)
    with pytest.raises(AssertionError, match="shape"):
        make_costs(DEFAULT.terms, [[1.0]])


def test_numbers_are_places_of_the_rows() -> None:
    names = {QUERY_OUTER: "query-outer", DATA_OUTER: "data-outer", MERGE: "merge", SSI: "ssi", HOTSPOT: "hotspot"}
    names |= {SELECT_FIRST: "select-first"}
    assert tuple(names[s] for s in range(len(NAMES))) == NAMES
    assert [len(row.weights) for row in STRATEGIES] == [len(TERMS)] * N_STRATEGIES + [0]
    assert len(TERMS) == N_TERMS
