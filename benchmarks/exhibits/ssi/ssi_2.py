"""ssi-2: how many queries the largest stabbing groups cover when group sizes are Zipfian (SSI 2.2, Fig. 2).

Queries are really made: 5,000 places in random order, around each as many ranges as Zipf's law gives it, ends at random
so that a range reaches past its own place but not to the next. The canonical partition of all ranges is computed, and
coverage is counted over its groups by size; the law itself is used nowhere else.
"""

from __future__ import annotations

import numpy as np

from benchmarks.exhibits.exhibit import Check, Exhibit, Size, at_least, by_size
from weir.index.box_tables import Int64s
from weir.index.stabbing import canonical

SKEWS = (1.0, 1.05, 1.1, 1.15, 1.2)
APART = 1_000  # keys from one place to the next; a range reaches less than half of it to either side


def zipf_ranges(n_queries: int, n_groups: int, skew: float, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Closed ranges around n_groups places, of which the k-th most popular has about n_queries · c · k^−skew."""
    popularity = np.arange(1, n_groups + 1) ** -skew
    sizes = np.maximum(np.rint(n_queries * popularity / popularity.sum()), 1).astype(np.int64)
    centres = np.repeat(rng.permutation(n_groups) * APART, sizes)
    left, right = rng.integers(1, APART // 2, (2, len(centres)))
    shuffled = rng.permutation(len(centres))
    return (centres - left)[shuffled], (centres + right)[shuffled]


def coverage(lo: Int64s, hi: Int64s) -> np.ndarray:
    """Share of all queries in the k largest groups of the canonical partition, for k = 1, 2, …"""
    sizes = np.bincount(canonical(lo, hi).group_of_interval)
    return np.cumsum(np.sort(sizes)[::-1]) / len(lo)


def run(size: Size) -> Exhibit:
    n_groups = by_size(size, smoke=500, quick=5_000, full=5_000)
    n_queries = by_size(size, smoke=10_000, quick=500_000, full=2_000_000)
    tops = [max(int(share * n_groups), 1) for share in (0.002, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)]
    covered = {}
    found = set()
    for skew in SKEWS:
        by_top = coverage(*zipf_ranges(n_queries, n_groups, skew, np.random.default_rng(2)))
        found.add(len(by_top))
        covered[skew] = [100 * float(by_top[top - 1]) for top in tops]
    tenth = tops.index(n_groups // 10)
    at_one = covered[1.0][tenth]
    steps = [np.diff([covered[skew][at] for skew in SKEWS]).min() for at in range(len(tops) - 1)]
    return Exhibit(
        name="ssi-2",
        title="Queries covered by the largest stabbing groups",
        section="SSI 2.2, Fig. 2",
        claim="With Zipfian groups the top 10 % of groups cover about 70 % of queries at β = 1, more at larger β",
        size=size,
        x_label="largest groups",
        x=tops,
        series={f"β = {skew:g}": values for skew, values in covered.items()},
        unit="% of queries",
        log_x=True,
        checks=(
            Check(f"the canonical partition finds all {n_groups:,} groups", found == {n_groups}, f"found {found}"),
            Check(
                "the top 10 % of groups cover about 70 % at β = 1 (within 6 points: the paper reads it off a figure)",
                abs(at_one - 70) <= 6,
                f"{at_one:.1f} %",
            ),
            at_least("percentage points that each step of β adds, wherever k is less than all", min(steps), 0.0),
        ),
        notes=(
            f"{n_queries:,} ranges around {n_groups:,} places; coverage is counted over the canonical partition of the "
            "ranges.",
        ),
    )


EXHIBITS = {"ssi-2": run}
