"""Fits: the weights of a linear cost model by least squares, with their 95 % intervals (SSI, Table II).

Plain least squares is adjusted twice. Errors count relative to the cost, since costs span four orders of magnitude: an
error of 100 ns does not matter for a scan of a millisecond, but does for a probe of 100 ns. And no weight is negative,
because then the cost of some event would be: terms that would have a negative weight are left out one by one. So are
terms whose 95 % interval contains 0, because a term that the measurements do not show only carries noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Fit(NamedTuple):
    """Weights with their intervals; a term that was left out has weight 0 and an empty interval."""

    terms: Floats  # float64[strategy, term]: ns
    low: Floats  # float64[strategy, term]: 95 % interval
    high: Floats
    kept: Bools  # bool[strategy, term]
    errors: Floats  # float64[strategy]: median relative error of the fitted cost
    samples: int  # events measured for each strategy
    strategies: Sequence[str]
    names: Sequence[str]  # of the terms

    def shows(self) -> Bools:
        """bool[strategy, term]: whether the term has an interval, and it excludes 0."""
        return np.asarray(self.kept & ((self.low > 0) | (self.high < 0)), dtype=np.bool_)

    def table(self) -> str:
        """The weights as text, a line each."""
        lines = [f"{'strategy':13} {'term':9} {'ns':>11}  95 % interval"]
        for s, name in enumerate(self.strategies):
            for k in np.flatnonzero(self.kept[s]).tolist():
                interval = f"[{self.low[s, k]:.4g}, {self.high[s, k]:.4g}]"
                doubt = "" if self.shows()[s, k] else "  contains 0"
                lines.append(f"{name:13} {self.names[k]:9} {self.terms[s, k]:11.4g}  {interval}{doubt}")
            lines.append(f"{name:13} median error {self.errors[s]:.0%} over {self.samples:,} events")
        return "\n".join(lines)


def fit_each(values: Floats, ns: Floats, strategies: Sequence[str], names: Sequence[str]) -> Fit:
    """The weights of each strategy by itself, for the terms that the measurements show.

    `values` is float64[sample, strategy, term], `ns` float64[sample, strategy], with NaN for what was not measured.
    """
    shape = len(strategies), len(names)
    terms, low, high, kept = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    errors = np.zeros(len(strategies))
    for s in range(len(strategies)):
        known = np.isfinite(ns[:, s])
        x, y = values[known, s], ns[known, s]
        kept[s] = shown_columns(x, y)
        weights, spread = least_squares(x[:, kept[s]], y)
        terms[s, kept[s]] = weights
        low[s, kept[s]], high[s, kept[s]] = weights - spread, weights + spread
        errors[s] = np.median(np.abs(x @ terms[s] - y) / y)
    return Fit(terms, low, high, kept, errors, len(ns), strategies, names)


def interval_of_slope(x: Floats, y: Floats) -> tuple[float, float, float]:
    """The weight of one term by itself, and its 95 % interval."""
    weights, spread = least_squares(x[:, None], y)
    return float(weights[0]), float(weights[0] - spread[0]), float(weights[0] + spread[0])


def shown_columns(x: Floats, y: Floats) -> Bools:
    """Take the worst column out until all that are left have a weight that is positive beyond doubt."""
    kept: Bools = np.asarray(np.any(x != 0, axis=0), dtype=np.bool_)
    while np.count_nonzero(kept) > 1:
        weights, spread = least_squares(x[:, kept], y)
        sure = weights / np.maximum(spread, np.finfo(np.float64).tiny)  # above 1: the interval is right of 0
        worst = int(np.argmin(sure))
        if sure[worst] > 1.0:
            break
        kept[np.flatnonzero(kept)[worst]] = False
    return kept


def least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Weights that minimise relative errors, and half the width of their 95 % intervals.

    The first round divides by what was measured, the second by what was fitted: a measurement that came out too low by
    chance must not count more for it. Columns are brought to one size, as they differ by many orders.
    """
    size = np.linalg.norm(x / y[:, None], axis=0)
    size[size == 0] = 1.0
    scale = y
    for _ in range(3):
        scaled, target = x / scale[:, None] / size, y / scale
        found = np.linalg.lstsq(scaled, target, rcond=None)[0]
        scale = np.clip((x / size) @ found, y / 4, y * 4)  # far off, the fit is no better judge than the measurement
    inverse = np.linalg.pinv(scaled.T @ scaled)
    left = max(len(y) - x.shape[1], 1)
    # The sandwich estimator holds also when errors differ between events, as they do between workloads.
    meat = scaled * (target - scaled @ found)[:, None]
    variance = np.einsum("ij,jk,ik->i", inverse, meat.T @ meat, inverse) * (len(y) / left)
    return found / size, _t_quantile(left) * np.sqrt(np.maximum(variance, 0.0)) / size


def _t_quantile(freedom: int) -> float:
    """97.5 % quantile of Student's distribution: the normal one with three terms of its expansion."""
    z = 1.959964
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
