"""The select-join workloads of SSI section 5: Table I with its knobs, and the clustered queries of Fig. 9.

R(A, B) receives insertions, S(B, C) holds rows, and query i asks for σ(A in rangeA_i) R ⋈ σ(C in rangeC_i) S on B.
R.A and S.C are uniform integers on 0..1,000,000; midpoints of rangeA are normal, of rangeC uniform; lengths are normal
with a standard deviation of a fifth of their mean. Three characteristics are asked for directly, and the means that the
paper adjusts by hand are solved for on the drawn sample:

- `groups`: the stabbing number τ of the rangeC; fewer groups are longer ranges;
- `selection_rate`: the share of queries whose rangeA contains a uniform A, on average;
- `join_rate`: the rows of S with an event's B, on average. R.B is uniform, so this is |S| over the number of values of
  B, however S.B is distributed; hence it sets that number (10,001 values and 100,000 rows, as in Table I, give 10).
  S.B is normal around the middle with a standard deviation of `spread_b` times the domain: at 0.1, as in Table I, rates
  differ widely between events; at 1 all events have about the same.

Any seed will do, and one seed is one workload. Queries, rows and events are drawn apart, so that workloads which differ
in their queries only have the same rows and events; and A is stratified (uniform, one draw in each of as many strips as
there are events), so that the mean over a hundred events is near that over all. Values are the keys that indexes
compare (integers are their own keys).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int64s
from weir.index.meeting.index_contract import Meeting, plain_meeting
from weir.index.meeting.partners import Partners, build_partners, locate
from weir.index.meeting.planes import Plane, check

DOMAIN = 1_000_000  # of R.A and S.C
ROWS = 100_000  # of S in Table I
SPREAD_A = 1 / 6  # standard deviation of rangeA's midpoints, as a share of the domain
LENGTH_DEVIATION = 0.2  # standard deviation of a range's length, as a share of its mean
ALPHA = 0.001  # a hotspot has at least this share of all queries

Floats = npt.NDArray[np.float64]


class SelectJoins(NamedTuple):
    """Standing select joins, the rows of S, and new rows of R."""

    plane: Plane  # query i is box i
    partners: Partners  # S by (B, C)
    a: Int64s  # int64[e]: R.A of each event
    b: Int64s  # int64[e]: R.B
    begin: Int64s  # int64[e]: each event's run of partners
    end: Int64s

    @property
    def values(self) -> Int64s:
        """S.C by place: ascending within each run."""
        return self.partners.values

    @property
    def meeting(self) -> Meeting:
        return plain_meeting(self.a, self.begin, self.end, self.values)

    @property
    def groups(self) -> int:
        """τ: the stabbing number of the rangeC."""
        return stabbing_number(self.plane.c_lo, self.plane.c_hi)

    @property
    def selected(self) -> Int64s:
        """int64[e]: n', the queries whose rangeA contains the event."""
        begun = np.searchsorted(np.sort(self.plane.a_lo), self.a, side="right")
        ended = np.searchsorted(np.sort(self.plane.a_hi), self.a, side="left")
        return np.asarray(begun - ended, dtype=np.int64)

    @property
    def joining(self) -> Int64s:
        """int64[e]: m', the rows that join with the event."""
        return self.end - self.begin

    def first(self, n_events: int) -> SelectJoins:
        """The same with the first events only, for strategies that take long."""
        return self._replace(
            a=self.a[:n_events], b=self.b[:n_events], begin=self.begin[:n_events], end=self.end[:n_events]
        )


def table_one(
    n_queries: int,
    n_events: int,
    *,
    groups: int = 30,
    selection_rate: float = 0.1,
    join_rate: float = 1_000.0,
    rows: int = ROWS,
    spread_b: float = 1.0,
    seed: int = 1,
) -> SelectJoins:
    """Table I with the given characteristics."""
    random = np.random.default_rng(seed)
    a_lo, a_hi = range_a(n_queries, selection_rate, random)
    c_lo, c_hi = _range_c(n_queries, groups, random)
    return _with_rows(Plane(a_lo, a_hi, c_lo, c_hi), n_events, rows, join_rate, spread_b, seed)


def clustered(
    n_queries: int,
    n_events: int,
    share: float,
    *,
    selection_rate: float = 0.1,
    join_rate: float = 1_000.0,
    rows: int = ROWS,
    spread_b: float = 1.0,
    seed: int = 1,
) -> SelectJoins:
    """Fig. 9: a target share of the queries in hotspots, the rest in small groups in another half of the domain.

    Hot ranges have normal midpoints (standard deviation 5 % of the domain) and lengths (2 %), so that a dozen groups
    hold most of them and only the groups at the tails are too small; scattered ones have uniform midpoints and lengths
    for about n/20 groups, were all of them scattered: some 20 queries each, far below α·n for n >= 50,000.
    """
    random = np.random.default_rng(seed)
    n_hot = round(n_queries * share)
    n_scattered = n_queries - n_hot
    middle = np.concatenate(
        (random.normal(0.25 * DOMAIN, 0.05 * DOMAIN, n_hot), random.uniform(0.55 * DOMAIN, DOMAIN, n_scattered))
    )
    length = np.concatenate(
        (_lengths(0.02 * DOMAIN, n_hot, random), _lengths(0.45 * DOMAIN / (n_queries / 20), n_scattered, random))
    )
    c_lo, c_hi = _ranges(middle, length)
    a_lo, a_hi = range_a(n_queries, selection_rate, random)
    return _with_rows(Plane(a_lo, a_hi, c_lo, c_hi), n_events, rows, join_rate, spread_b, seed)


def hotspot_share(plane: Plane, alpha: float = ALPHA) -> float:
    """The share of boxes in groups of at least α·n, in the canonical stabbing partition of their c-intervals."""
    sizes = group_sizes(plane.c_lo, plane.c_hi)
    return float(sizes[sizes >= alpha * len(plane.c_lo)].sum() / len(plane.c_lo))


def stabbing_number(lo: Int64s, hi: Int64s) -> int:
    """τ: the least number of points such that every interval contains one."""
    return len(stabbing_points(lo, hi))


def stabbing_points(lo: Int64s, hi: Int64s) -> Int64s:
    """The points of the canonical partition: each the least right end among the intervals right of the one before."""
    order = np.argsort(lo)
    begins = lo[order]
    least_end = np.minimum.accumulate(hi[order][::-1])[::-1]  # over the intervals from here on
    points = []
    at = 0
    while at < len(begins):
        points.append(least_end[at])
        at = int(np.searchsorted(begins, points[-1], side="right"))
    return np.asarray(points, dtype=np.int64)


def group_sizes(lo: Int64s, hi: Int64s) -> Int64s:
    """Intervals in each group of the canonical partition: an interval belongs to the first point inside it."""
    points = stabbing_points(lo, hi)
    return np.bincount(np.searchsorted(points, lo, side="left"), minlength=len(points)).astype(np.int64)


def range_a(n: int, selection_rate: float, random: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Ranges with normal midpoints that contain a uniform A with probability `selection_rate`, on average."""
    middle = random.normal(DOMAIN / 2, DOMAIN * SPREAD_A, n)
    unit = _lengths(1.0, n, random)
    mean = selection_rate * DOMAIN
    for _ in range(8):  # ranges may reach out of the domain, where no A is
        lo, hi = _ranges(middle, mean * unit)
        inside = np.clip(hi + 1, 0, DOMAIN) - np.clip(lo, 0, DOMAIN)
        mean *= selection_rate * DOMAIN / max(float(inside.mean()), 1.0)
    return _ranges(middle, mean * unit)


def _range_c(n: int, groups: int, random: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Ranges with uniform midpoints and stabbing number `groups`, or as near as lengths of one mean come to it."""
    middle = random.uniform(0, DOMAIN, n)
    unit = _lengths(1.0, n, random)
    low, high = np.log(1.0), np.log(10.0 * DOMAIN)
    best, least = _ranges(middle, unit), abs(n - groups)
    for _ in range(25):
        mean = (low + high) / 2
        made = _ranges(middle, np.exp(mean) * unit)
        found = stabbing_number(*made)
        if abs(found - groups) <= least:
            best, least = made, abs(found - groups)
        if abs(found - groups) <= 0.02 * groups:
            break
        low, high = (mean, high) if found > groups else (low, mean)
    return best


def _lengths(mean: float, n: int, random: np.random.Generator) -> Floats:
    return np.maximum(random.normal(mean, LENGTH_DEVIATION * mean, n), 0.0)


def _ranges(middle: Floats, length: Floats) -> tuple[Int64s, Int64s]:
    return (middle - length / 2).astype(np.int64), (middle + length / 2).astype(np.int64)


def _with_rows(plane: Plane, n_events: int, rows: int, join_rate: float, spread_b: float, seed: int) -> SelectJoins:
    n_keys = max(1, round(rows / join_rate))
    random = np.random.default_rng([seed, 1])
    partners = build_partners(_normal_keys(rows, n_keys, spread_b, random), random.integers(0, DOMAIN + 1, rows))
    random = np.random.default_rng([seed, 2])
    strips = (random.permutation(n_events) + random.random(n_events)) / n_events
    a = np.floor(strips * (DOMAIN + 1)).astype(np.int64)
    b = random.integers(0, n_keys, n_events)
    begin, end = locate(partners, b)
    return SelectJoins(check(plane), partners, a, b, begin, end)


def _normal_keys(rows: int, n_keys: int, spread: float, random: np.random.Generator) -> Int64s:
    """A discretised normal distribution on 0..n_keys−1; what falls outside is drawn again."""
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < rows:
        more = np.floor(random.normal(n_keys / 2, spread * n_keys, 4 * rows)).astype(np.int64)
        drawn = np.concatenate((drawn, more[(more >= 0) & (more < n_keys)]))
    return drawn[:rows]
