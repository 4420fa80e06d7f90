"""CSJQ Fig. 8: response time over the number of queries."""

from __future__ import annotations

from benchmarks.exhibits.csjq.response import (
    NOTE,
    RESULTS,
    columns,
    counted,
    gains,
    leads,
    measure,
    pdfa_wins,
    sizes,
    why_lead,
)
from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_least, at_most, by_size, slope
from benchmarks.workloads import boxes


def run(size: Size) -> Exhibit:
    """Times for 50,000 to 500,000 queries."""
    n_values = by_size(
        size,
        smoke=(200, 500),
        quick=(10_000, 20_000, 50_000, 100_000),
        full=(50_000, 100_000, 200_000, 300_000, 400_000, 500_000),
    )
    _, n_tuples, repeats = sizes(size)
    times = measure([boxes("csjq-8", n, n_tuples, (5, 5), (RESULTS,)) for n in n_values], repeats)
    series = columns(times)
    exponent, steepest = max((slope(n_values, values), name) for name, values in series.items())
    least = {name: min(v for v in values if v is not None) for name, values in leads(times).items()}
    return Exhibit(
        name="csjq-8",
        title="Response time over the number of queries",
        section="CSJQ 4.2.1, Fig. 8",
        claim="PDFA beats naive on both indexes at every size; all grow at most linearly; MLGF beats the R-tree.",
        size=size,
        x_label="queries",
        x=n_values,
        series=series,
        unit="µs/tuple",
        log_x=True,
        log_y=True,
        checks=(
            *pdfa_wins(times),
            # An index that leaves the cache costs more than its size says.
            at_most(f"exponent of the steepest way, {steepest}; linear with room for the cache", exponent, 1.15),
            *(at_least(f"{name}, the least", value, 1.0, why_lead(times[-1])) for name, value in least.items()),
        ),
        table=gains(times) | leads(times) | counted(times),
        notes=(NOTE,),
    )


EXHIBITS: dict[str, Run] = {"csjq-8": run}
