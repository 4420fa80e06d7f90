"""CSJQ Fig. 11: response time over the join results of a tuple."""

from __future__ import annotations

import numpy as np

from benchmarks.exhibits.csjq.response import (
    GAINS,
    NOTE,
    RESULTS,
    WAYS,
    Times,
    columns,
    counted,
    gains,
    measure,
    sizes,
    why_steps,
)
from benchmarks.exhibits.exhibit import Check, Exhibit, Run, Size, at_least, at_most, by_size, slope_within
from benchmarks.workloads import boxes

FROM = 5  # join results above which PDFA is almost flat
FAR = 100.0  # T1 over T2: with FROM join results the second step is still a twentieth
FLAT = 1.5  # times that PDFA may take at the most join results, over FROM


def run(size: Size) -> Exhibit:
    """Times for 1 to 50 join results of a tuple."""
    results = by_size(size, smoke=(1, 5, 10), quick=(1, 2, 5, 10, 20, 50), full=(1, 2, 5, 10, 20, 50))
    n_queries, n_tuples, repeats = sizes(size)
    # The fewer join results, the more tuples, so that every call takes long enough to be measured.
    tuples = [n_tuples * max(1, RESULTS // n) for n in results]
    times = measure(
        [boxes("csjq-11", n_queries, k, (5, 5), (n,)) for n, k in zip(results, tuples, strict=True)], repeats
    )
    series = columns(times)
    fits = {name: fit(results, [t.us[name] for t in times]) for pair in GAINS for name in pair}
    linear = [slope_within(f"{naive}: naive grows linearly", results, series[naive], 1.0, 0.15) for naive, _ in GAINS]
    flat: list[Check] = []
    for _, name in GAINS:
        first, second = fits[name]
        why = f"{_second(times[-1], first, second)}; {why_steps(times[-1], WAYS[name].strategy)}"
        grown = times[-1].us[name] / times[results.index(FROM)].us[name]
        flat.append(at_most(f"{name}: time at {results[-1]} join results over that at {FROM}", grown, FLAT, why))
        flat.append(at_least(f"{name}: T1 over T2", first / max(second, 1e-9), FAR, why))
    return Exhibit(
        name="csjq-11",
        title="Response time over the join results of a tuple",
        section="CSJQ 4.2.4, Fig. 11",
        claim="Naive grows linearly; PDFA is almost flat above 5 (T = T1 + T2 · N, T1 far above T2).",
        size=size,
        x_label="join results a tuple",
        x=results,
        series=series,
        unit="µs/tuple",
        log_x=True,
        log_y=True,
        checks=(*linear, *flat),
        table=gains(times) | counted(times),
        notes=(
            NOTE,
            "T1 and T2 by least squares: "
            + ", ".join(f"{name} {first:,.1f} µs and {second:,.2f} µs" for name, (first, second) in fits.items())
            + ".",
        ),
    )


def fit(results: tuple[int, ...], us: list[float]) -> tuple[float, float]:
    """T1 and T2 of T = T1 + T2 · N, by least squares of relative errors."""
    n, t = np.asarray(results, dtype=np.float64), np.asarray(us)
    found, *_ = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)
    return float(found[0]), float(found[1])


def _second(times: Times, first: float, second: float) -> str:
    """What a join result costs after the first step."""
    return (
        f"the first step takes {first:,.0f} µs and leaves {times.left:,.0f} queries, and going through them costs "
        f"{second:,.1f} µs a join result, {1000 * second / max(times.left, 1):.1f} ns a query"
    )


EXHIBITS: dict[str, Run] = {"csjq-11": run}
