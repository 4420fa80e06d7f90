"""CSJQ Fig. 9: response time over the attributes of a stream."""

from __future__ import annotations

from benchmarks.exhibits.csjq.response import (
    GAINS,
    NOTE,
    RESULTS,
    Times,
    columns,
    counted,
    gains,
    leads,
    measure,
    sizes,
)
from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_least, by_size
from benchmarks.workloads import boxes

MUCH = 2.0  # times the growth of the grid file that is "much faster"


def run(size: Size) -> Exhibit:
    """Times for 3 to 17 attributes a stream, two streams."""
    attributes = by_size(size, smoke=(3, 5), quick=(3, 5, 9, 13, 17), full=(3, 5, 7, 9, 11, 13, 15, 17))
    n_queries, n_tuples, repeats = sizes(size)
    times = measure([boxes("csjq-9", n_queries, n_tuples, (k, k), (RESULTS,)) for k in attributes], repeats)
    growth = {name: times[-1].us[name] / times[0].us[name] for pair in GAINS for name in pair}
    return Exhibit(
        name="csjq-9",
        title="Response time over the attributes of a stream",
        section="CSJQ 4.2.2, Fig. 9",
        claim="The R-tree degrades much faster than MLGF as dimensions grow.",
        size=size,
        x_label="attributes a stream",
        x=attributes,
        series=columns(times),
        unit="µs/tuple",
        log_y=True,
        checks=tuple(
            at_least(
                f"growth of {tree} over growth of {grid} from {attributes[0]} to {attributes[-1]} attributes",
                growth[tree] / growth[grid],
                MUCH,
                _share(times[0], times[-1]),
            )
            for tree, grid in zip(*GAINS, strict=True)
        ),
        table=gains(times) | leads(times) | counted(times),
        notes=(NOTE,),
    )


def _share(least: Times, most: Times) -> str:
    """The share of nodes that naive searches look at, at the fewest and the most attributes."""
    shares = [
        f"{100 * t.looks[name].naive / t.looks[name].nodes:.1f} %"
        for name in ("rtree", "grid-file")
        for t in (least, most)
    ]
    return (
        f"a naive search looks at {shares[0]} of the R-tree's nodes at the fewest and {shares[1]} at the most "
        f"attributes, and at {shares[2]} and {shares[3]} of the grid file's: at a given selectivity an interval covers "
        "the more of its dimension the more dimensions there are, so regions of points overlap an event as boxes do"
    )


EXHIBITS: dict[str, Run] = {"csjq-9": run}
