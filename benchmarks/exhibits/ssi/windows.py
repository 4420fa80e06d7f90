"""The window joins of SSI 3.3 for measuring theorem 4, and what the strategies take on them, output left out.

The paper has no figure of window joins; the workload is that of its select joins (Table I), with times: the rows of S
have uniform ones over a horizon, events come right after it, in order, and a query's window is uniform between a tenth
of the longest and the longest one. So the rows that join with an event for some query, m_b, are the share w_max /
horizon of m'.

Times are cycles inside the kernel for each event, less what appending as many ids costs in a plain loop, but no less
than a tenth of what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.exhibits.ssi.rates import append_seconds, typical
from benchmarks.exhibits.ssi.workload import SelectJoins
from weir.index.box_tables import Matches
from weir.index.meeting.index_contract import Meeting, Tuning, timed_meeting
from weir.index.windows.skylines import COUNT
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_layout import Ages, KeptPartners
from weir.runtime.calibration import ns_per_cycle

HORIZON = 1_000_000_000
NEW = ", first"  # of a strategy: nothing is kept of the run from events before
BLOCK = 10  # events that one strategy handles before the next one has its turn
ANY = 1 << 40


class WindowJoins(NamedTuple):
    """Standing window joins, the rows of S with their times, and new rows of R."""

    joins: SelectJoins
    ages: Ages
    events: Meeting

    @property
    def joining(self) -> float:
        """m_b: rows that are within the longest window of an event, on average."""
        recent = self.events.partners.times >= HORIZON - int(self.ages.most.max())
        before = np.concatenate(([0], np.cumsum(recent)))
        return float((before[self.events.end] - before[self.events.begin]).mean())


def with_windows(joins: SelectJoins, w_max: float, *, seed: int = 1) -> WindowJoins:
    """The same joins with windows; `w_max` is a share of the horizon."""
    random = np.random.default_rng([seed, 7])
    longest = w_max * HORIZON
    most = random.uniform(longest / 10, longest, len(joins.plane.a_lo)).astype(np.int64)
    times = random.integers(0, HORIZON, len(joins.values))
    at = HORIZON + np.arange(len(joins.a))
    events = timed_meeting(joins.a, at, joins.begin, joins.end, joins.values, times)
    return WindowJoins(joins, Ages(-most, most), events)


class WindowCosts(NamedTuple):
    seconds: dict[str, float]  # an event, by strategy, output left out
    reported: float  # affected queries an event
    listed: float  # partners on skylines an event


def measure_windows(w: WindowJoins, strategies: Sequence[str], repeats: int) -> WindowCosts:
    """What the named strategies take for an event; all must find the same queries."""
    index = WindowIndex.build(w.joins.plane, w.ages)
    n, n_events = len(w.joins.plane.a_lo), len(w.events.a)
    keeping = {name: index.keeping(w.events.partners.times) for name in strategies}
    agreed: Matches | None = None
    for name in strategies:
        found = keeping[name].search(w.events, np.zeros(n, np.uint8), ANY, Tuning(plain(name))).matches
        assert isinstance(found, Matches), "the budget is boundless"
        assert agreed is None or np.array_equal(agreed.slots, found.slots), f"{name} finds other queries"
        agreed = found
    assert agreed is not None
    tick_s = ns_per_cycle() / 1e9
    spent = {name: np.empty((repeats, n_events)) for name in strategies}
    appends = []
    random = np.random.default_rng(3)
    for k in range(repeats):
        for first in range(0, n_events, BLOCK):
            events = w.events.at(slice(first, first + BLOCK))
            for name in random.permutation(strategies).tolist():  # whoever comes later finds more in the cache
                if name.endswith(NEW):
                    kept = _kept(keeping[name])
                    for skylines in (kept.recent, kept.skylines, kept.hot):
                        skylines.about[events.begin] = 0
                spent[name][k, first : first + BLOCK] = keeping[name].cycles(events, plain(name))
        appends.append(append_seconds(agreed, n))
    reported = float(np.diff(agreed.offsets).mean())
    output_s = reported * float(np.median(appends))
    took = {name: max(typical(of), 1.0) * tick_s for name, of in spent.items()}
    left = {name: max(whole - output_s, whole / 10) for name, whole in took.items()}
    return WindowCosts(left, reported, _listed(w, keeping.get("ssi")))


def plain(name: str) -> str:
    """The strategy of a series."""
    return name.removesuffix(NEW)


def _kept(index: WindowIndex) -> KeptPartners:
    assert index.kept is not None, "it keeps what it makes"
    return index.kept


def _listed(w: WindowJoins, index: WindowIndex | None) -> float:
    """m̄_b: partners that ssi probes with."""
    if index is None:
        return 0.0
    begin = w.events.begin[w.events.begin < w.events.end]
    return float(_kept(index).skylines.about[begin, COUNT].sum() / len(w.events.a))
