"""The workloads of every speed claim, drawn from their definitions; any seed will do.

    W1 range    `a BETWEEN lo AND hi`; 70 % of midpoints in 50 normal hot spots, 30 % uniform; mean width 10·D/N;
                events uniform on 0..D: about 10 queries an event
    W2 multi    3 of 6 attributes constrained: 4 numbers, uniform, by intervals of one width; 2 categories of 1,000 and
                50 values, Zipf, by equality; events from the same distributions: about 10 queries an event
    W3 join     `R.b = S.b AND R.a BETWEEN … AND S.c BETWEEN …`; a and c on 0..10,000, midpoints of a's intervals
                normal(5000, 2500), of c's uniform; *broad*: lengths normal(1000, 200) and normal(400, 50), *narrow*:
                both normal(20, 5); events: R.b uniform on 3000..6999, R.a uniform; kept: 100,000 rows of S, S.b
                normal(5000, 1000), S.c uniform: broad 0.054·N queries an event, narrow 10⁻⁴·N
    W4 band     `S.b - R.b BETWEEN lo AND hi`, widths normal(3, 1), midpoints uniform on ±500,000; events: R.b uniform
                on 0..1,000,000; kept: 100,000 rows of S, uniform there too: 0.19·N queries an event
    W5 boxes    an interval for each of 5 + 5 attributes of two streams, 16-bit integers (CSJQ, Table 1); an event is a
                tuple of the first stream with 1, 5 or 50 join results; a join result is in 0.01 % of the boxes, each
                attribute by itself in 0.0001^(1/10) = 40 % of the intervals: 10⁻⁴·N queries a join result

Widths in W1 are exponential (the definition gives the mean only), hot spots have a standard deviation of D/1000. In W2
the width is solved for, so that an event matches 10 queries on average whatever N is; categories follow Zipf's law with
exponent 1. `w3_even` is W3 with lengths solved for, so that an event affects the same number of queries whatever N is;
`w4_even` is W4 with fewer rows and wider bands to the same end, and `w5_even` is W5 with smaller boxes.
W5 has three laws of values. *Uniform* is the paper's. *Skewed*: the first two attributes of each stream are powers,
u⁴ of a uniform u, and so are the midpoints of their intervals: rows and queries crowd where values are small.
*Correlated*: the attributes of a stream are one hidden uniform number and a little noise each, and so are midpoints:
an attribute that matches says that the others will. Widths are solved for in both, one an attribute, so that a join
result is in 0.01 % of the boxes on average; where values crowd it is in far more.
Values are integers, so that every engine compares the same exact numbers. One query is one box here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from weir.index.box_tables import BoxTable
from weir.index.meeting.planes import Plane

DOMAIN = 10**9  # D: numbers are drawn from 0..D
MATCHES = 10.0  # queries an event should match
N_NUMBERS = 4  # attributes 0..3 of W2
CATEGORIES = (1000, 50)  # values of attributes 4 and 5 of W2
REACH = 10_000  # a and c of W3 are drawn from 0..REACH
KEPT_ROWS = 100_000  # of S, in W3
BAND_REACH = 1_000_000  # b of W4 is drawn from 0..BAND_REACH
LENGTHS = {"broad": ((1000.0, 200.0), (400.0, 50.0)), "narrow": ((20.0, 5.0), (20.0, 5.0))}  # mean, deviation: of a, c
ATTRIBUTES = ("a", "b", "c", "d", "k", "l")  # names for peers that want them
SHORTS = 1 << 16  # W5 draws from −32,768..32,767
SELECTIVITY = 1e-4  # of W5's boxes
CROWDED = 4  # W5 skewed: the power of a uniform number
NOISE = 0.02  # W5 correlated: standard deviation, as a share of the domain
_SAMPLE = 200_000  # pairs of row and query by which W5's widths are found

Law = Literal["uniform", "skewed", "correlated"]  # of the values of W5
LAWS: tuple[Law, ...] = get_args(Law)


class Workload(NamedTuple):
    """Standing queries and a batch of events."""

    name: str
    table: BoxTable  # query i is box i
    n_attributes: int
    keys: np.ndarray  # int64[n_attributes, n_events]

    @property
    def n_queries(self) -> int:
        return len(self.table.slot_of_box)

    @property
    def n_events(self) -> int:
        return int(self.keys.shape[1])


def w1(n_queries: int, n_events: int, seed: int = 1) -> Workload:
    rng = np.random.default_rng(seed)
    spots = rng.uniform(0, DOMAIN, 50)
    in_spot = rng.random(n_queries) < 0.7
    hot = rng.normal(spots[rng.integers(0, 50, n_queries)], DOMAIN / 1000)
    middle = np.where(in_spot, hot, rng.uniform(0, DOMAIN, n_queries))
    width = rng.exponential(MATCHES * DOMAIN / n_queries, n_queries)
    lo, hi = (middle - width / 2).astype(np.int64), (middle + width / 2).astype(np.int64)
    return Workload(
        "W1", _table(np.zeros((n_queries, 1)), lo[:, None], hi[:, None]), 1, rng.integers(0, DOMAIN, (1, n_events))
    )


def w2(n_queries: int, n_events: int, seed: int = 1) -> Workload:
    rng = np.random.default_rng(seed)
    shares = [_zipf(n) for n in CATEGORIES]
    n_attributes = N_NUMBERS + len(CATEGORIES)
    chosen = np.sort(rng.random((n_queries, n_attributes)).argsort(axis=1)[:, :3], axis=1)
    width = int(_width(n_queries, shares) * DOMAIN)
    lo = rng.integers(0, DOMAIN - width, (n_queries, 3))
    hi = lo + width
    for k, share in enumerate(shares):
        at = chosen == N_NUMBERS + k
        lo[at] = hi[at] = rng.choice(len(share), int(at.sum()), p=share)
    keys = np.empty((n_attributes, n_events), dtype=np.int64)
    keys[:N_NUMBERS] = rng.integers(0, DOMAIN, (N_NUMBERS, n_events))
    for k, share in enumerate(shares):
        keys[N_NUMBERS + k] = rng.choice(len(share), n_events, p=share)
    return Workload("W2", _table(chosen, lo, hi), n_attributes, keys)


class JoinWorkload(NamedTuple):
    """Standing select joins, the kept rows of S, and a batch of events on R."""

    name: str
    plane: Plane  # query i is box i
    row_keys: np.ndarray  # int64[m]: S.b
    row_values: np.ndarray  # int64[m]: S.c
    keys: np.ndarray  # int64[e]: R.b
    values: np.ndarray  # int64[e]: R.a

    @property
    def n_queries(self) -> int:
        return len(self.plane.a_lo)

    @property
    def n_events(self) -> int:
        return len(self.keys)


def w3_broad(n_queries: int, n_events: int, seed: int = 1, *, rows: int = KEPT_ROWS) -> JoinWorkload:
    return _w3("W3 broad", n_queries, n_events, seed, rows, *LENGTHS["broad"])


def w3_narrow(n_queries: int, n_events: int, seed: int = 1, *, rows: int = KEPT_ROWS) -> JoinWorkload:
    return _w3("W3 narrow", n_queries, n_events, seed, rows, *LENGTHS["narrow"])


def w3_even(n_queries: int, n_events: int, matches: float, seed: int = 1, *, rows: int = KEPT_ROWS) -> JoinWorkload:
    """Both lengths equal, and such that an event affects `matches` queries on average."""
    low, high = 0.0, float(REACH)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if n_queries * _affected(middle, middle, rows) < matches else (low, middle)
    length = (low, low / 4)
    return _w3("W3 even", n_queries, n_events, seed, rows, length, length)


WORKLOADS = {"W1": w1, "W2": w2}
JOINS = {"W3 broad": w3_broad, "W3 narrow": w3_narrow}


def _w3(
    name: str,
    n_queries: int,
    n_events: int,
    seed: int,
    rows: int,
    a_length: tuple[float, float],
    c_length: tuple[float, float],
) -> JoinWorkload:
    rng = np.random.default_rng(seed)
    a_lo, a_hi = _intervals(rng, rng.normal(REACH / 2, REACH / 4, n_queries), a_length)
    c_lo, c_hi = _intervals(rng, rng.uniform(0, REACH, n_queries), c_length)
    row_keys = np.rint(rng.normal(5000, 1000, rows)).astype(np.int64)
    row_values = rng.integers(0, REACH + 1, rows)
    keys, values = rng.integers(3000, 7000, n_events), rng.integers(0, REACH + 1, n_events)
    return JoinWorkload(name, Plane(a_lo, a_hi, c_lo, c_hi), row_keys, row_values, keys, values)


def _intervals(
    rng: np.random.Generator, middle: np.ndarray, length: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    half = np.maximum(rng.normal(*length, len(middle)), 0) / 2
    lo = np.rint(middle - half).astype(np.int64)
    return lo, np.maximum(np.rint(middle + half).astype(np.int64), lo)


def _affected(a_length: float, c_length: float, rows: int) -> float:
    """The share of queries that an event of W3 affects: its a is inside, and some partner's c.

    Midpoints of a lie within 0..10,000 with probability 0.954. An event of key b has rows·p(b) partners on average,
    Poisson, so none of them is in an interval of share s with probability exp(−rows·p(b)·s).
    """
    keys = np.arange(3000, 7000)
    density = np.exp(-(((keys - 5000) / 1000) ** 2) / 2) / (1000 * np.sqrt(2 * np.pi))
    none = np.exp(-rows * density * min((c_length + 1) / (REACH + 1), 1))
    return 0.954 * min((a_length + 1) / (REACH + 1), 1) * float(1 - none.mean())


def _table(attribute: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> BoxTable:
    n, k = attribute.shape
    return BoxTable(
        np.arange(n, dtype=np.int32),
        np.arange(0, n * k + 1, k, dtype=np.int64),
        attribute.reshape(-1).astype(np.int32),
        np.ascontiguousarray(lo.reshape(-1), dtype=np.int64),
        np.ascontiguousarray(hi.reshape(-1), dtype=np.int64),
    )


def _zipf(n: int) -> np.ndarray:
    share = 1 / np.arange(1, n + 1)
    return share / share.sum()


def _width(n_queries: int, shares: list[np.ndarray]) -> float:
    """The width of W2's intervals, as a share of the domain, that gives MATCHES queries an event.

    Of the 20 sets of attributes 4 have three numbers, 6 two numbers and one given category, 4 one number and both
    categories. A uniform event lies in an interval of width w with probability w, wherever the interval is.
    """
    p, q = (float(np.square(share).sum()) for share in shares)

    def matches(w: float) -> float:
        return n_queries * (4 * w**3 + 6 * w**2 * (p + q) + 4 * w * p * q) / 20

    low, high = 0.0, 0.999
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if matches(middle) < MATCHES else (low, middle)
    return low


class BandWorkload(NamedTuple):
    """Standing band joins, the kept rows of S, and a batch of events."""

    name: str
    lo: np.ndarray  # int64[n_queries]
    hi: np.ndarray
    rows: np.ndarray  # int64[m]: S.b, ascending
    events: np.ndarray  # int64[n_events]: R.b

    @property
    def n_queries(self) -> int:
        return len(self.lo)

    @property
    def n_events(self) -> int:
        return len(self.events)


def w4(n_queries: int, n_events: int, seed: int = 1, *, rows: int = KEPT_ROWS) -> BandWorkload:
    rng = np.random.default_rng(seed)
    return _bands("W4", rng, n_queries, n_events, rows, np.maximum(rng.normal(3, 1, n_queries), 0))


def w4_even(n_queries: int, n_events: int, matches: float, seed: int = 1) -> BandWorkload:
    """Bands of one width over few rows, such that an event affects so many of them."""
    rng = np.random.default_rng(seed)
    rows = 100
    wanted = -np.log1p(-min(matches / (0.75 * n_queries), 0.99)) / (rows / BAND_REACH)
    return _bands("W4 even", rng, n_queries, n_events, rows, np.full(n_queries, max(wanted - 1, 0)))


def _bands(
    name: str, rng: np.random.Generator, n_queries: int, n_events: int, rows: int, width: np.ndarray
) -> BandWorkload:
    middle = rng.uniform(-BAND_REACH / 2, BAND_REACH / 2, n_queries)
    lo, hi = np.ceil(middle - width / 2).astype(np.int64), np.floor(middle + width / 2).astype(np.int64)
    return BandWorkload(
        name,
        lo,
        np.maximum(lo, hi),
        np.sort(rng.integers(0, BAND_REACH + 1, rows)),
        rng.integers(0, BAND_REACH + 1, n_events),
    )


class BoxWorkload(NamedTuple):
    """Standing queries over the attributes of several streams, and arriving tuples with their join results.

    A join result is one column of `keys`. Results of a tuple stand next to each other, and among them those that agree
    in the partners of the first probes.
    """

    name: str
    table: BoxTable  # query i is box i, with an interval for every attribute
    streams: tuple[int, ...]  # attributes of each stream: of the arriving one, then in the order of the probes
    probes: tuple[int, ...]  # matches of each probe, one for each stream but the first
    keys: np.ndarray  # int64[attributes, tuples · results]

    @property
    def n_queries(self) -> int:
        return len(self.table.slot_of_box)

    @property
    def n_attributes(self) -> int:
        return sum(self.streams)

    @property
    def n_results(self) -> int:
        """Join results of a tuple."""
        return math.prod(self.probes)

    @property
    def n_events(self) -> int:
        return int(self.keys.shape[1]) // self.n_results

    @property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """The attributes of each stream."""
        ends = np.cumsum(self.streams).tolist()
        return tuple(tuple(range(end - n, end)) for n, end in zip(self.streams, ends, strict=True))


def w5(n_queries: int, n_events: int, results: int = 5, seed: int = 1, *, law: Law = "uniform") -> BoxWorkload:
    return boxes(f"W5 {law}", n_queries, n_events, (5, 5), (results,), seed, law=law)


def w5_even(n_queries: int, n_events: int, matches: float, results: int = 5, seed: int = 1) -> BoxWorkload:
    """Boxes of such a size that a join result is in `matches` of them on average."""
    return boxes("W5 even", n_queries, n_events, (5, 5), (results,), seed, selectivity=matches / n_queries)


def boxes(
    name: str,
    n_queries: int,
    n_events: int,
    streams: Sequence[int],
    probes: Sequence[int],
    seed: int = 1,
    *,
    selectivity: float = SELECTIVITY,
    law: Law = "uniform",
) -> BoxWorkload:
    """Queries and tuples with any number of streams, of attributes, and of matches a probe."""
    assert len(probes) == len(streams) - 1, "every stream but the arriving one is probed"
    rng = np.random.default_rng(seed)
    n_attributes, n_results = sum(streams), math.prod(probes)
    share = selectivity ** (1 / n_attributes)
    intervals = [_shorts(law, rng, n_queries, n, share) for n in streams]
    lo, hi = (np.concatenate([ends[side] for ends in intervals]).T for side in (0, 1))
    attribute = np.broadcast_to(np.arange(n_attributes), (n_queries, n_attributes))
    keys = np.empty((n_attributes, n_events * n_results), dtype=np.int64)
    rows, first = n_events, 0  # rows of this stream that take part, and its first attribute
    for n, matches in zip(streams, (*probes, 1), strict=True):
        values = np.floor(_law(law, rng, n, rows) * SHORTS).astype(np.int64) - SHORTS // 2
        keys[first : first + n] = np.repeat(values, keys.shape[1] // rows, axis=1)
        rows, first = rows * matches, first + n
    return BoxWorkload(name, _table(attribute, lo, hi), tuple(streams), tuple(probes), keys)


def _shorts(
    law: Law, rng: np.random.Generator, n_queries: int, attributes: int, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals for the attributes of one stream: lo and hi, [attributes, n_queries].

    A row is in an interval with probability `share`. Correlated attributes are in all intervals of a query with
    probability share^attributes.
    """
    if law == "uniform":  # inside the domain, so that a value at its edge is in as many as others, on average
        width = max(round(share * SHORTS), 1)
        lo = rng.integers(0, SHORTS - width + 1, (attributes, n_queries)) - SHORTS // 2
        return lo, lo + width - 1
    apart = np.abs(_law(law, rng, attributes, _SAMPLE) - _law(law, rng, attributes, _SAMPLE))
    if law == "skewed":
        half = np.quantile(apart, share, axis=1)[:, None]
    else:
        half = np.quantile(apart.max(axis=0), share**attributes)
    middle = _law(law, rng, attributes, n_queries)
    lo, hi = (np.floor((middle + side) * SHORTS).astype(np.int64) - SHORTS // 2 for side in (-half, half))
    least, greatest = -SHORTS // 2, SHORTS // 2 - 1
    return np.clip(lo, least, greatest), np.clip(hi, least, greatest)


def _law(law: Law, rng: np.random.Generator, attributes: int, n: int) -> np.ndarray:
    """Values of the attributes of one stream as shares of the domain: float64[attributes, n], below 1."""
    if law == "correlated":
        hidden = rng.uniform(0.1, 0.9, n)
        return np.clip(hidden + rng.normal(0, NOISE, (attributes, n)), 0, np.nextafter(1, 0))
    drawn = rng.random((attributes, n))
    if law == "skewed":
        drawn[:2] **= CROWDED
    return drawn
