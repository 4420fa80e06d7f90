"""The band-join workloads of SSI section 5.2, and rates of the strategies on them, output left out.

R.B is uniform, S.B normal around the middle of the domain, midpoints of rangeB uniform; lengths are normal with a
standard deviation of a fifth of their mean, and that mean is solved for so that the ranges have about so many stabbing
groups. Values are integers on 0..1,000,000 (the paper's domain is 10,000; ranges are longer in proportion).

Rates are found as for select joins (`rates.py`): cycles inside the kernel, less what appending as many ids costs in a
plain loop. SSI reports stretches of its lists, so there the cycles are those of finding them. The paper's strategies
know nothing of ladders, so partners have none here, unless a series says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.exhibits.ssi.rates import append_seconds, typical
from benchmarks.exhibits.ssi.workload import stabbing_number
from weir.index.bands.band_index import BandIndex
from weir.index.box_tables import Int64s, Matches
from weir.index.keys import KEY_MAX, NULL_KEY
from weir.index.meeting.index_contract import Tuning, band_meeting
from weir.index.meeting.partner_runs import make_run
from weir.index.meeting.planes import Plane
from weir.runtime.calibration import ns_per_cycle

DOMAIN = 1_000_000
LADDER = "query-outer, ladder"
BLOCK = 10  # events that one strategy handles before the next one has its turn


class BandJoins(NamedTuple):
    """Standing band joins, the rows of S, and new rows of R."""

    lo: Int64s
    hi: Int64s
    rows: Int64s  # S.B, ascending
    events: Int64s  # R.B

    @property
    def groups(self) -> int:
        return stabbing_number(self.lo, self.hi)


def band_joins(n_queries: int, n_events: int, *, groups: int, rows: int, seed: int = 1) -> BandJoins:
    """Bands in about so many stabbing groups."""
    random = np.random.default_rng(seed)
    middle = random.uniform(0, DOMAIN, n_queries)
    length = np.maximum(random.normal(1.0, 0.2, n_queries), 0.05)
    least, most = 0.5, 2.0 * DOMAIN
    for _ in range(40):  # τ falls as ranges grow
        mean = np.sqrt(least * most)
        lo, hi = _ranges(middle, length * mean)
        least, most = (mean, most) if stabbing_number(lo, hi) > groups else (least, mean)
    s_b = np.clip(random.normal(DOMAIN / 2, DOMAIN / 10, rows), 0, DOMAIN).astype(np.int64)
    return BandJoins(lo, hi, np.sort(s_b), random.integers(0, DOMAIN, n_events))


def _ranges(middle: np.ndarray, length: np.ndarray) -> tuple[Int64s, Int64s]:
    return (middle - length / 2).astype(np.int64), (middle + length / 2).astype(np.int64)


class BandRates(NamedTuple):
    events_per_s: dict[str, float]  # by strategy, output left out
    reported: float  # affected queries an event


def measure_bands(workloads: Sequence[BandJoins], strategies: Sequence[str], repeats: int) -> list[BandRates]:
    """Rates of the named strategies on all events of each workload; all must find the same queries."""
    found = []
    tick_s = ns_per_cycle() / 1e9
    for w in workloads:
        n = len(w.lo)
        index = BandIndex.build(Plane(np.full(n, NULL_KEY), np.full(n, KEY_MAX), w.lo, w.hi), is_double=False)
        silent = index.silent()
        runs = {name: make_run(w.rows, False, is_one=name == LADDER) for name in strategies}
        begin, end = np.zeros(len(w.events), np.int64), np.full(len(w.events), len(w.rows))
        agreed: Matches | None = None
        for name in strategies:
            events = band_meeting(begin, w.events, begin, end, runs[name])
            matches = index.search(events, np.zeros(n, np.uint8), 2**40, Tuning(_plain(name))).matches
            assert isinstance(matches, Matches), "the budget is boundless"
            assert agreed is None or np.array_equal(agreed.slots, matches.slots), f"{name} finds other queries"
            agreed = matches
        assert agreed is not None
        spent = {name: np.empty((repeats, len(w.events))) for name in strategies}
        appends = []
        for k in range(repeats):
            for first in range(0, len(w.events), BLOCK):
                block = slice(first, first + BLOCK)
                of = begin[block], w.events[block], begin[block], end[block]
                for name in strategies:
                    searched = silent if name == "ssi" else index
                    spent[name][k, block] = searched.cycles(band_meeting(*of, runs[name]), _plain(name))
            appends.append(append_seconds(agreed, n))
        reported = float(np.diff(agreed.offsets).mean())
        output_s = reported * float(np.median(appends))
        took = {name: max(typical(of), 1.0) * tick_s for name, of in spent.items()}
        # What is left of a strategy that does little but report is no less than a tenth of what it took.
        left = {name: max(whole - output_s, whole / 10) if name != "ssi" else whole for name, whole in took.items()}
        rates = {name: 1.0 / each for name, each in left.items()}
        found.append(BandRates(rates, reported))
    return found


def _plain(name: str) -> str:
    return "query-outer" if name == LADDER else name
