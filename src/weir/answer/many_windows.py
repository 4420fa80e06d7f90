"""Windows of many queries of one shape: which of their results they show, all at once.

What `weir.answer.window` and `weir.answer.views` say of one query, by arrays: a cut has a begin and an end for each
query. Row files that lie inside all cuts, or outside all of them, are not opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.nodes import Bound, Expression, Literal, Param, Window
from weir.algebra.schema import Stream
from weir.answer.kept_rows import KeptRows
from weir.answer.views import Ids, View, columns_of, joined_table, meeting, require_room
from weir.answer.window import Cut
from weir.store.ascending import inside, numbered
from weir.values.room import bytes_taken

FAR_US = 2**61  # no row is so old
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Cuts(NamedTuple):
    """By query, what a window shows at τ: begin < time <= end, and of those rows the last so many."""

    begin_us: Longs  # −FAR_US: all that is kept
    end_us: Longs
    rows_max: Longs | None

    def below(self, floor_us: int | None) -> Bools:
        """By query, whether its window reaches below the rows that are kept."""
        if floor_us is None:
            return np.zeros(len(self.begin_us), bool)
        return np.asarray((self.begin_us < floor_us) & (self.begin_us < self.end_us))


def resolved(window: Window, stream: Stream, constants: pa.Table, tau_us: int) -> Cuts:
    """The cuts of a window at τ. An edge that is NULL shows nothing: the cut is empty."""
    count = constants.num_rows
    kept = np.full(count, -FAR_US if stream.keep_us is None else tau_us - stream.keep_us, np.int64)
    end = np.full(count, tau_us, np.int64)
    if window.rows is not None:
        rows_max, is_null = _numbers(window.rows, constants)
        return Cuts(kept, end, np.where(is_null, 0, rows_max))
    begin, nothing = kept, np.zeros(count, bool)
    if window.begin is not None:
        begin, nothing = _edges(window.begin, constants, tau_us)
    if window.end is not None:
        end, is_null = _edges(window.end, constants, tau_us)
        nothing |= is_null
    return Cuts(np.where(nothing, tau_us, begin), np.where(nothing, tau_us, end), None)


def _edges(bound: Bound, constants: pa.Table, tau_us: int) -> tuple[Longs, Bools]:
    offset, is_null = _numbers(bound.offset_us, constants)
    return (np.clip(offset, -FAR_US, FAR_US) + tau_us if bound.relative else offset), is_null


def _numbers(constant: Literal | Param, constants: pa.Table) -> tuple[Longs, Bools]:
    """A constant that is a whole number or NULL, by query."""
    if isinstance(constant, Param):
        column = constants.column(constant.name).combine_chunks().cast(pa.int64())
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return column.fill_null(0).to_numpy(), is_null
    number = 0 if constant.value is None else int(str(constant.value))
    return np.full(constants.num_rows, number), np.full(constants.num_rows, constant.value is None)


def shown_of_many(views: Sequence[View], cuts: Sequence[Cuts | None], of: Longs, ids: Ids) -> tuple[Longs, Ids]:
    """The results that the windows of their queries show; `of` says the place of each one's query.

    A table has no cuts: what is shown of it, its lifetimes say.
    """
    there = np.ones(len(of), bool)
    for view, cut, rows in zip(views, cuts, ids, strict=True):
        if cut is None:
            distinct, place = numbered(rows)
            there &= inside(distinct, view.counted(distinct))[place]
        else:
            there &= _in_window(view.kept, cut, of, rows)
    of, ids = of[there], tuple(rows[there] for rows in ids)
    meet = meeting(views, ids)
    return of[meet], tuple(rows[meet] for rows in ids)


def _in_window(kept: KeptRows, cuts: Cuts, of: Longs, rows: Longs) -> Bools:
    """Which of some rows the windows show; those that have expired they do not."""
    distinct, place = numbered(rows)  # to look for rows in order is faster
    file = kept.files_of(distinct)[place]
    there = file >= 0
    if not there.any():
        return there
    if cuts.rows_max is not None:
        at = np.flatnonzero(there)
        cut = Cut(int(cuts.begin_us[0]), int(cuts.end_us[0]), int(cuts.rows_max.max()))
        there[at] = _places_from_last(kept, cut, rows[at]) < cuts.rows_max[of[at]]
        return there
    is_whole = (kept.t_min > cuts.begin_us.max()) & (kept.t_max <= cuts.end_us.min())
    is_out = (kept.t_max <= cuts.begin_us.min()) | (kept.t_min > cuts.end_us.max())
    there &= ~is_out[file]
    unsure = np.flatnonzero(there & ~is_whole[file])
    if len(unsure):
        distinct, place = numbered(rows[unsure])
        times, query = kept.times(distinct)[place], of[unsure]
        there[unsure] = (times > cuts.begin_us[query]) & (times <= cuts.end_us[query])
    return there


def _places_from_last(kept: KeptRows, cut: Cut, rows: Longs) -> Longs:
    """For each row how many rows of its stream come after it; FAR_US if it is not among the last that are asked for."""
    last = kept.last_rows_in_order(cut)
    by_id = np.argsort(last)
    at = np.minimum(np.searchsorted(last[by_id], rows), len(last) - 1)
    if not len(last):
        return np.full(len(rows), FAR_US)
    after = np.where(last[by_id[at]] == rows, len(last) - 1 - by_id[at], FAR_US)
    return np.asarray(after, np.int64)


def rows_of_many(views: Sequence[View], ids: Ids, expressions: Sequence[Expression]) -> pa.Table:
    """One row for each result, with the columns that the expressions mention; a row of a stream is read once."""
    sides, places = [], []
    for source, (view, rows) in enumerate(zip(views, ids, strict=True)):
        distinct, place = numbered(rows)
        sides.append(columns_of(source, view, distinct, expressions))
        places.append(place)
    require_room(sum(map(bytes_taken, sides, places)), "the rows of many answers")
    return joined_table(sides, places)
