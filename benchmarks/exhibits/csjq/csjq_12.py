"""CSJQ Fig. 12: response time over the number of streams."""

from __future__ import annotations

from benchmarks.exhibits.csjq.response import (
    GAINS,
    NOTE,
    RESULTS,
    WAYS,
    Way,
    columns,
    counted,
    gain,
    gains,
    measure,
    pdfa_wins,
    sizes,
    why_steps,
)
from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_most, by_size
from benchmarks.workloads import boxes

A_PROBE = 2  # matches
EVERY = {"R-tree PDFA, a step a stream": Way("rtree", 6), "MLGF PDFA, a step a stream": Way("grid-file", 6)}


def run(size: Size) -> Exhibit:
    """Times for 2 to 6 streams of 5 attributes; and for two streams with as many join results."""
    streams = by_size(size, smoke=(2, 3), quick=(2, 3, 4, 5, 6), full=(2, 3, 4, 5, 6))
    n_queries, n_tuples, repeats = sizes(size)
    # The fewer join results, the more tuples, so that every call takes long enough to be measured.
    tuples = [n_tuples * max(1, RESULTS // A_PROBE ** (n - 1)) for n in streams]
    workloads = [
        boxes("csjq-12", n_queries, k, (5,) * n, (A_PROBE,) * (n - 1)) for n, k in zip(streams, tuples, strict=True)
    ]
    of_two = [boxes("csjq-11", n_queries, w.n_events, (5, 5), (w.n_results,)) for w in workloads]
    times, compared = measure(workloads, repeats, WAYS | EVERY), measure(of_two, repeats)
    two = {f"{name} of two streams": values for name, values in gains(compared).items()}
    # With two streams both are the same workload; what is compared begins with three.
    smaller = [
        at_most(
            f"greatest gain of {pdfa}, from three streams on, over its gain with two streams and as many join results",
            max(gain(a, naive, pdfa) / gain(b, naive, pdfa) for a, b in zip(times[1:], compared[1:], strict=True)),
            1.0,
            why_steps(times[-1], WAYS[pdfa].strategy),
        )
        for naive, pdfa in GAINS
    ]
    steps = {
        f"{pdfa}: two steps / a step a stream": [t.us[pdfa] / t.us[f"{pdfa}, a step a stream"] for t in times]
        for _, pdfa in GAINS
    }
    return Exhibit(
        name="csjq-12",
        title="Response time over the number of streams",
        section="CSJQ 4.2.5, Fig. 12",
        claim="PDFA still wins, by less than with two streams (csjq-11): the second step has more dimensions.",
        size=size,
        x_label="streams",
        x=streams,
        series=columns(times, WAYS | EVERY),
        unit="µs/tuple",
        log_y=True,
        checks=(*pdfa_wins(times), *smaller),
        table=gains(times) | two | steps | counted(times),
        notes=(
            NOTE,
            f"{A_PROBE} matches a probe, so 2 to 32 join results a tuple; the paper counts 4 to 64. A step a stream is "
            "the paper's future work: join results that share the partners of the first probes share what was found "
            "for them.",
        ),
    )


EXHIBITS: dict[str, Run] = {"csjq-12": run}
