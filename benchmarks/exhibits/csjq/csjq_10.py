"""CSJQ Fig. 10: response time over the selectivity of the index."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.exhibits.csjq.response import (
    NOTE,
    RESULTS,
    WAYS,
    Times,
    columns,
    counted,
    gains,
    measure,
    sizes,
)
from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_most, by_size, spread
from benchmarks.workloads import boxes

LEVEL = 1.5  # greatest over least of a time that stays level, over a factor of a hundred
FALLS = 0.67  # of the time at the greatest selectivity that is left at the least, if it falls


def run(size: Size) -> Exhibit:
    """Times for boxes that contain 0.001 % to 0.1 % of the join results."""
    percent = by_size(
        size, smoke=(0.1, 1.0), quick=(0.001, 0.01, 0.1), full=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
    )
    n_queries, n_tuples, repeats = sizes(size)
    times = measure(
        [boxes("csjq-10", n_queries, n_tuples, (5, 5), (RESULTS,), selectivity=p / 100) for p in percent], repeats
    )
    series = columns(times)
    least, greatest = times[0], times[-1]
    falling = [
        at_most(
            f"{name}: time at {percent[0]} % over time at {percent[-1]} %",
            least.us[name] / greatest.us[name],
            FALLS,
            _looked(times, name),
        )
        for name in WAYS
        if name != "MLGF"
    ]
    level = at_most("MLGF: greatest over least time", spread(series["MLGF"]), LEVEL, _looked(times, "MLGF"))
    return Exhibit(
        name="csjq-10",
        title="Response time over the selectivity of the index",
        section="CSJQ 4.2.3, Fig. 10",
        claim="Time falls with selectivity, except for naive MLGF, which stays level.",
        size=size,
        x_label="selectivity, %",
        x=percent,
        series=series,
        unit="µs/tuple",
        log_x=True,
        log_y=True,
        checks=(*falling, level),
        table=gains(times) | counted(times),
        notes=(NOTE,),
    )


def _looked(times: Sequence[Times], name: str) -> str:
    """What is looked at where boxes are smallest and where they are largest."""
    way = WAYS[name]
    small, large = (t.looks[way.strategy] for t in (times[0], times[-1]))
    what = f"a naive search looks at {small.naive:,.0f} nodes at the least and {large.naive:,.0f} at the greatest"
    if way.n_steps > 1:
        what = (
            f"the first step looks at {small.first:,.0f} nodes at the least and {large.first:,.0f} at the greatest, "
            f"and leaves {small.marked:,.0f} and {large.marked:,.0f} leaves"
        )
    return f"{what}; matches are {times[0].matches:,.1f} and {times[-1].matches:,.1f} a tuple"


EXHIBITS: dict[str, Run] = {"csjq-10": run}
