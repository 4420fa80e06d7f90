"""Band costs: what one event of a band join costs under each strategy, in nanoseconds, as a linear model.

cost[s] = Σ_k weights[s, k] · x[s, k], as for select joins (`weir.index.joins.join_costs`, SSI 4.1). Let n be the boxes,
κ the classes of widths, τ the stabbing groups, η the hotspots and n" the boxes of other groups, m the event's partners,
and δ 1 for doubles, else 0. A partner *touches* t boxes, those of every class whose lo is near enough below its
difference, and lies in s of them; A(m) = Σ min(n_class, m·s_class) is how many boxes m partners affect. With log for
log2(1 + …), the columns x[s, k] are

    k  name      query-outer            data-outer  merge        ssi                  hotspot
    0  event     1                      1           1            1                    1
    1  boxes     n if cells are units   ·           n            ·                    ·
    2  cells     n if they are not      ·           ·            ·                    ·
    3  steps     n·log m if none        ·           ·            τ·log m              n"·log m
    4  visits    κ if there are cells   κ·m         κ·m          τ                    η
    5  cold      ·                      κ·m·log n   ·            min(τ, m)·log(n/τ)   min(η, m)·log((n − n")/η)
    6  reached   ·                      ·           ·            min(τ, m)            min(η, m)
    7  touched   ·                      m·t         ·            ·                    ·
    8  affected  A(m)                   A(m)        A(m)         A(m)                 A(m)·(1 − n"/n)
    9  doubles   δ·(n, or n·log m)      δ·m·t       δ·(n + κ·m)  δ·τ                  δ·n"·log m

Query-outer has a ladder over the partners, of cells for each number or of others, or none. Which columns a strategy
really has, the fit says (`weir.runtime.calibration`); the weights of the rows are such a fit.

Select-first, where its lists are there, is not modelled but counted: its boxes are those of one cell (`selected_cost`).

t and s are found for some partners of some events of a search (`weir.index.bands.band_strategies.sample`), because
where partners lie among the boxes is known only then. Cost: that and `prepare`, which multiplies out what all events of
a search share, take some 50 µs; then an event costs about 20 ns (`event_costs`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from weir.index.box_tables import read_only
from weir.index.histograms import Floats
from weir.index.jit import Scalar
from weir.index.meeting.lean import lean

QUERY_OUTER, DATA_OUTER, MERGE, SSI, HOTSPOT, SELECT_FIRST = range(6)  # rows of band_strategies.STRATEGIES
N_STRATEGIES = 5  # that the model is about: all but the last
TERMS = ("event", "boxes", "cells", "steps", "visits", "cold", "reached", "touched", "affected", "doubles")
N_TERMS = 10

_LOGS = np.log2(1.0 + np.arange(512))
_BASE, _PER_PARTNER, _PER_LOG, _PER_AFFECTED = 0, 6, 12, 18  # factors by strategy; the sixth is query-outer, no ladder
_GROUPS, _REACHED, _CLASSES = 24, 26, 28  # τ and η, what a reached one costs, then n and s of each class


class BandDescription(NamedTuple):
    """What the model knows of an index and the events of a search."""

    n_boxes: float  # n
    n_scattered: float  # n"
    n_groups: float  # τ
    n_hotspots: float  # η
    sizes: Floats  # float64[κ]: boxes of a class
    touched: Floats  # float64[κ]: t of a class
    stabbed: Floats  # float64[κ]: s of a class


def prepare(weights: Floats, of: BandDescription, *, is_double: bool, has_units: bool) -> Floats:
    """Weights and what is fixed multiplied out, for `event_costs`: the factors of an event's own m, log m and A(m).

    `has_units`: a ladder over the partners, if there is one, has a cell for each number.
    """
    w = dict(zip(TERMS, weights.T, strict=True))
    n, scattered, groups, hotspots = of.n_boxes, of.n_scattered, of.n_groups, of.n_hotspots
    n_hot = n - scattered
    doubles = w["doubles"] * float(is_double)
    base, per_partner, per_log, per_affected = (np.zeros(6) for _ in range(4))
    base[:5], per_affected[:5] = w["event"], w["affected"]
    base[5], per_affected[5] = w["event"][QUERY_OUTER], w["affected"][QUERY_OUTER]
    base[QUERY_OUTER] += n * (w["boxes" if has_units else "cells"][QUERY_OUTER] + doubles[QUERY_OUTER])
    base[QUERY_OUTER] += len(of.sizes) * w["visits"][QUERY_OUTER]
    per_log[5] = n * (w["steps"][QUERY_OUTER] + doubles[QUERY_OUTER])
    visits = w["visits"] + w["cold"] * math.log2(1.0 + n)
    per_partner[DATA_OUTER] = visits[DATA_OUTER] * len(of.sizes)
    per_partner[DATA_OUTER] += (w["touched"][DATA_OUTER] + doubles[DATA_OUTER]) * float(of.touched.sum())
    base[MERGE] += n * (w["boxes"][MERGE] + doubles[MERGE])
    per_partner[MERGE] = len(of.sizes) * (w["visits"][MERGE] + doubles[MERGE])
    base[SSI] += groups * (w["visits"][SSI] + doubles[SSI])
    per_log[SSI] = groups * w["steps"][SSI]
    base[HOTSPOT] += hotspots * w["visits"][HOTSPOT]
    per_log[HOTSPOT] = scattered * (w["steps"][HOTSPOT] + doubles[HOTSPOT])
    per_affected[HOTSPOT] *= n_hot / max(n, 1.0)
    reached = [
        w["reached"][s] + w["cold"][s] * math.log2(1.0 + boxes / max(count, 1.0))
        for s, boxes, count in ((SSI, n, groups), (HOTSPOT, n_hot, hotspots))
    ]
    classes = np.stack((of.sizes, of.stabbed), axis=1).reshape(-1)
    parts = (base, per_partner, per_log, per_affected, [groups, hotspots], reached, classes)
    return read_only(np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]))


@lean
def event_costs(prepared: Floats, m: Scalar, has_ladder: Scalar, out: Floats) -> None:
    """cost[strategy] of an event with m partners, in ns, into the first five of `out`."""
    p = prepared
    partners = np.float64(m)
    log_m = _LOGS[m] if m < len(_LOGS) else math.log2(1.0 + partners)
    affected = 0.0
    for k in range(_CLASSES, len(p), 2):
        affected += min(p[k], partners * p[k + 1])
    for s in range(5):
        row = s if s > 0 or has_ladder else 5
        out[s] = (
            p[row] + partners * p[_PER_PARTNER + row] + log_m * p[_PER_LOG + row] + affected * p[_PER_AFFECTED + row]
        )
    out[SSI] += min(p[_GROUPS], partners) * p[_REACHED]
    out[HOTSPOT] += min(p[_GROUPS + 1], partners) * p[_REACHED + 1]


@lean
def selected_cost(n_listed: Scalar, m: Scalar) -> Scalar:
    """What select-first costs that looks at so many boxes, each of which may search m partners, in ns."""
    return 60.0 + n_listed * (2.5 + 1.4 * math.log2(1.0 + m))
