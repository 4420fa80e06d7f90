"""Lifetimes of the rows of a table, as one side of a join: which of them a row of a stream may meet.

What is stored of a table are its changes, the rows of a side like any other. A change holds from its time until the
next change of its key does, [since, until); one that deletes its key, or has no time to hold, ends when it begins. A
row of a stream meets the version of a table that holds

    at the newest time among the stream rows beside it    a table that is not retroactive
    at τ                                                  a retroactive one

so that whether rows meet is not a condition over their values: a later change ends a version without touching its row.
Lifetimes only get shorter as more changes are known. So what no lifetime lets meet today is never shown, and need not
be kept; whoever shows results looks again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Of all changes of a table, by row id: since when and until when each holds, in µs."""

    since: Ints
    until: Ints
    is_retroactive: bool

    def hold(self) -> Bools:
        """Which changes hold at some time."""
        return np.asarray(self.since < self.until)

    def hold_at(self, rows: Ints, tau_us: int) -> Bools:
        """Which of some changes hold at one moment."""
        return np.asarray((self.since[rows] <= tau_us) & (tau_us < self.until[rows]))

    def meet(self, rows: Ints, times: Ints) -> Bools:
        """Which of some changes rows of streams may meet, of which `times` are the newest ones beside each.

        A retroactive table's version that ended before then has been shown beside no row, and never will be: a window
        that ends at τ shows the row from its time on.
        """
        until = self.until[rows]
        met = (times < until) & (self.since[rows] < until)
        return np.asarray(met if self.is_retroactive else met & (self.since[rows] <= times))

    def within(self, rows: Ints, earliest: int, latest: int) -> Bools:
        """Which of some changes a row with a time between these two might meet."""
        until = self.until[rows]
        met = (earliest < until) & (self.since[rows] < until)
        return np.asarray(met if self.is_retroactive else met & (self.since[rows] <= latest))


def save_lifetimes(files: Files, path: str, lifetimes: Lifetimes) -> None:
    """Write them as a cache file."""
    arrays = {"since": lifetimes.since, "until": lifetimes.until}
    save_arrays(files, path, arrays, {"is_retroactive": lifetimes.is_retroactive})


def read_lifetimes(files: Files, path: str) -> Lifetimes:
    """The lifetimes of a cache file, mapped."""
    arrays, meta = read_arrays(files, path)
    return Lifetimes(arrays["since"], arrays["until"], meta["is_retroactive"])


def lifetimes_of(files: Files, said: str | Lifetimes) -> Lifetimes:
    """Lifetimes that are there, or those of a cache file."""
    return read_lifetimes(files, said) if isinstance(said, str) else said
