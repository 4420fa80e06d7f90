"""The workloads of every speed claim, drawn from their definitions; any seed will do.

    W1 range    `a BETWEEN lo AND hi`; 70 % of midpoints in 50 normal hot spots, 30 % uniform; mean width 10·D/N;
                events uniform on 0..D: about 10 queries an event
    W2 multi    3 of 6 attributes constrained: 4 numbers, uniform, by intervals of one width; 2 categories of 1,000 and
                50 values, Zipf, by equality; events from the same distributions: about 10 queries an event

Widths in W1 are exponential (the definition gives the mean only), hot spots have a standard deviation of D/1000. In W2
the width is solved for, so that an event matches 10 queries on average whatever N is; categories follow Zipf's law with
exponent 1. Values are integers, so that every engine compares the same exact numbers. One query is one box here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.boxes import BoxTable

DOMAIN = 10**9  # D: numbers are drawn from 0..D
MATCHES = 10.0  # queries an event should match
N_NUMBERS = 4  # attributes 0..3 of W2
CATEGORIES = (1000, 50)  # values of attributes 4 and 5 of W2
ATTRIBUTES = ("a", "b", "c", "d", "k", "l")  # names for peers that want them


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


WORKLOADS = {"W1": w1, "W2": w2}


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
