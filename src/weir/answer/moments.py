"""When rows were and how long versions of tables hold: ranges that narrow which of them are looked at together.

A table has a version for each change, and a row of a stream meets one of them. Beside conditions over values there is
therefore a range for each version: the row that is the newest beside it comes before its end, and unless the table is
retroactive, not before its beginning (`weir.store.lifetimes`). Sources are joined one by one, so the newest row of
those that are joined so far is a lower bound of the newest one, and the newest one when the last stream is there.
A version of a retroactive table may also begin after the rows, but before one of them leaves its window. These ranges
only leave out what is never shown; whoever shows results decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.answer.candidates import Axis
from weir.answer.views import Ids, View

_LEAST = int(np.iinfo(np.int64).min)
_SMALL = -(2**62)  # no window is longer; times and it add up within int64


class _Versions(NamedTuple):
    """The versions of one source."""

    first: np.ndarray  # int64[n]: the earliest time that the newest row may have …
    last: np.ndarray  # int64[n]: … and the latest


@dataclass(frozen=True)
class Moments:
    """The rows of all sources of a join, some of which are tables'."""

    times: Mapping[int, np.ndarray]  # of streams, by source
    versions: Mapping[int, _Versions]  # of tables, but of one that is seen as of τ, where each key has one version

    @classmethod
    def of(cls, views: Sequence[View], rows: Ids, begin_us: int | None) -> Moments | None:
        """None if no source is a table with several versions of a key.

        `begin_us` is the latest begin of the streams' windows, as a distance from τ; None: not known.
        """
        versions: dict[int, _Versions] = {}
        for source, (view, ids) in enumerate(zip(views, rows, strict=True)):
            if view.lifetimes is None or (view.lifetimes.is_retroactive and view.tau_us is not None):
                continue
            first, last = view.lifetimes.since[ids], view.lifetimes.until[ids] - 1
            if view.lifetimes.is_retroactive:
                first = np.full(len(ids), _LEAST) if begin_us is None else first + max(begin_us, _SMALL) + 1
            versions[source] = _Versions(first, last)
        if not versions:
            return None
        sides = enumerate(zip(views, rows, strict=True))
        return cls({k: view.kept.times(ids) for k, (view, ids) in sides if view.lifetimes is None}, versions)

    def axis(self, places: Mapping[int, np.ndarray], added: int) -> tuple[Axis, bool] | None:
        """The ranges when the rows of one more source are added to combinations; None if there are none.

        The second is whether combinations lie in the ranges of the rows that are added, and not the other way round.
        """
        joined = [self.times[source][at] for source, at in places.items() if source in self.times]
        newest = np.maximum.reduce(joined) if joined else None
        if added in self.versions:
            if newest is None:
                return None
            own = self.versions[added]
            return Axis(newest, own.first if self.times.keys() <= places.keys() else None, own.last), True
        known = [(self.versions[source], at) for source, at in places.items() if source in self.versions]
        if added not in self.times or not known:
            return None
        high = np.minimum.reduce([own.last[at] for own, at in known])
        if not self.times.keys() <= {*places, added}:
            return Axis(self.times[added], None, high), False
        low = np.maximum.reduce([own.first[at] for own, at in known])
        if newest is not None:  # what may begin as late as a row that is there
            low = np.where(low <= newest, _LEAST, low)
        return Axis(self.times[added], low, high), False
