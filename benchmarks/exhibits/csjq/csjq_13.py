"""CSJQ Fig. 13: response time over the ratio of dimensions of two streams."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.exhibits.csjq.response import (
    GAINS,
    NOTE,
    RESULTS,
    WAYS,
    Times,
    columns,
    counted,
    gain,
    gains,
    measure,
    sizes,
)
from benchmarks.exhibits.exhibit import Check, Exhibit, Run, Size, by_size
from benchmarks.workloads import boxes

DIMENSIONS = 12
NOISE = 0.05  # of a gain: what repetitions differ by


def run(size: Size) -> Exhibit:
    """Times where the arriving stream has 2 to 10 of the 12 dimensions."""
    own = by_size(size, smoke=(2, 6, 10), quick=(2, 3, 4, 6, 8, 9, 10), full=(2, 3, 4, 6, 8, 9, 10))
    n_queries, n_tuples, repeats = sizes(size)
    times = measure([boxes("csjq-13", n_queries, n_tuples, (n, DIMENSIONS - n), (RESULTS,)) for n in own], repeats)
    middle = own.index(DIMENSIONS // 2)
    checks: list[Check] = []
    for naive, pdfa in GAINS:
        found = [gain(t, naive, pdfa) for t in times]
        best = max(range(len(own)), key=lambda k: found[k])
        why = _reason(times, WAYS[pdfa].strategy, own, best)
        checks.append(
            Check(
                f"{pdfa}: the gain is largest at 1:1 (within {NOISE:.0%})",
                found[middle] >= (1 - NOISE) * found[best],
                f"{found[middle]:.2f} at 1:1, {found[best]:.2f} at {_ratio(own[best])}",
                why,
            )
        )
        sides = {"fewer dimensions of the arriving stream": found[middle::-1], "more": found[middle:]}
        for side, outwards in sides.items():
            rises = max(b / a for a, b in itertools.pairwise(outwards))
            checks.append(
                Check(
                    f"{pdfa}: the gain shrinks towards {side} (no step up above {NOISE:.0%})",
                    rises <= 1 + NOISE,
                    " ".join(f"{g:.2f}" for g in outwards),
                    why,
                )
            )
    return Exhibit(
        name="csjq-13",
        title="Response time over the ratio of dimensions of two streams",
        section="CSJQ 4.2.6, Fig. 13",
        claim="PDFA's gain is largest at 1:1 and shrinks towards both ends.",
        size=size,
        x_label="dimensions of the arriving stream, of 12",
        x=own,
        series=columns(times),
        unit="µs/tuple",
        log_y=True,
        checks=tuple(checks),
        table=gains(times) | counted(times),
        notes=(NOTE,),
    )


def _reason(times: Sequence[Times], strategy: str, own: Sequence[int], best: int) -> str:
    """What both steps look at, by the dimensions that the first one has."""
    shown = sorted({0, best, len(own) - 1})
    parts = [
        f"{times[k].looks[strategy].first:,.0f} nodes and then {times[k].looks[strategy].marked:,.0f} leaves a join "
        f"result at {_ratio(own[k])}"
        for k in shown
    ]
    naive = [t.looks[strategy].naive for t in times]
    return (
        f"the more dimensions the first step has, the less it looks at and leaves: {', '.join(parts)}; a naive search "
        f"looks at {min(naive):,.0f} to {max(naive):,.0f} nodes wherever the streams divide"
    )


def _ratio(own: int) -> str:
    return f"{own}:{DIMENSIONS - own}"


EXHIBITS: dict[str, Run] = {"csjq-13": run}
