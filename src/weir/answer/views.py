"""What a query sees of its sources, and its answers as row ids: one array a source, read side by side.

An answer of k sources is k arrays of equal length; place i of all of them together is one result. A selection has
one array, a join of two sources two, and everything below is the same for both. To evaluate expressions over results
their rows stand side by side in one table with columns called `source.name`, because two sources may have columns of
the same name, or be the same stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression, walk
from weir.algebra.rebuild import rebuild
from weir.answer.kept_rows import KeptRows
from weir.answer.window import Cut
from weir.errors import FetchError
from weir.store.lifetimes import Lifetimes
from weir.values.room import bytes_taken

Ids = tuple[np.ndarray, ...]  # int64[results], one array a source
ANSWER_BYTES_MAX = 2 << 30  # of rows of joins that are put side by side, and of what one answer's expressions make


@dataclass(frozen=True)
class View:
    """The rows of one source that a query sees at (τ, N)."""

    kept: KeptRows
    cut: Cut
    lifetimes: Lifetimes | None = None  # of a table's changes, as known in batch N
    tau_us: int | None = None  # as of when a retroactive table is seen; None: at any time

    def shown(self, rows: np.ndarray) -> np.ndarray:
        """Those of these ascending row ids that the window shows."""
        return self.kept.within(self.counted(rows), self.cut)

    def counted(self, rows: np.ndarray) -> np.ndarray:
        """Those of these ascending row ids that a row-count window has, or that hold; else all of them."""
        if self.lifetimes is not None:
            at_any_time = self.tau_us is None or not self.lifetimes.is_retroactive
            holds = self.lifetimes.hold()[rows] if at_any_time else self.lifetimes.hold_at(rows, self.tau_us or 0)
            return rows[holds]
        if self.cut.rows_max is None:
            return rows
        return np.intersect1d(rows, self.kept.last_rows_of(self.cut), assume_unique=True)


def shown(views: Sequence[View], ids: Ids) -> Ids:
    """The results all of whose rows are in their windows, and of tables the versions that such rows meet."""
    there = np.ones(len(ids[0]), bool)
    for view, rows in zip(views, ids, strict=True):
        there &= np.isin(rows, view.shown(_distinct(rows)))
    return met(views, tuple(rows[there] for rows in ids))


def met(views: Sequence[View], ids: Ids) -> Ids:
    """The results in which rows of streams meet the versions of tables that held at the newest row's time."""
    there = meeting(views, ids)
    return ids if there.all() else tuple(rows[there] for rows in ids)


def meeting(views: Sequence[View], ids: Ids) -> np.ndarray:
    """In which results rows of streams meet the versions of tables."""
    dated = [k for k, v in enumerate(views) if v.lifetimes is not None and not v.lifetimes.is_retroactive]
    if not dated or not len(ids[0]):
        return np.ones(len(ids[0]), bool)
    newest = np.maximum.reduce(
        [_times(v, rows) for v, rows in zip(views, ids, strict=True) if v.lifetimes is None],
    )
    there = np.ones(len(newest), bool)
    for k in dated:
        lifetimes = views[k].lifetimes
        assert lifetimes is not None, "it is a table's"
        there &= lifetimes.meet(ids[k], newest)
    return there


def _times(view: View, rows: np.ndarray) -> np.ndarray:
    """The times of rows in any order."""
    distinct = _distinct(rows)
    return np.asarray(view.kept.times(distinct)[np.searchsorted(distinct, rows)])


def columns_of(source: int, view: View, rows: np.ndarray, expressions: Iterable[Expression]) -> pa.Table:
    """The columns of one source that the expressions mention, for ascending row ids, and the row ids themselves.

    Row ids are there because a table without columns would have no rows either.
    """
    parts = (part for e in expressions for part in walk(e) if isinstance(part, ColumnRef) and part.source == source)
    names = list(dict.fromkeys(part.name for part in parts))
    arrays = view.kept.read(rows, names).columns if names else []
    return pa.table([pa.array(rows), *arrays], names=[str(source), *(_spelt(source, name) for name in names)])


def require_room(size: int, what: str) -> None:
    """FetchError if so many bytes of an answer are too many."""
    if size > ANSWER_BYTES_MAX:
        raise FetchError(
            f"{what} would take {size:,} bytes, at most {ANSWER_BYTES_MAX:,} are allowed",
            hint="shorten the windows, add conditions, or show fewer and shorter columns",
        )


def joined_table(sides: Sequence[pa.Table], places: Sequence[np.ndarray]) -> pa.Table:
    """Rows of each source's table side by side."""
    taken = [side.take(pa.array(at)) for side, at in zip(sides, places, strict=True)]
    return pa.table({name: one.column(name) for one in taken for name in one.column_names})


def table_of(views: Sequence[View], ids: Ids, expressions: Sequence[Expression]) -> pa.Table:
    """One row for each result, with the columns that the expressions mention."""
    if len(views) == 1:
        return columns_of(0, views[0], ids[0], expressions)
    distinct = [_distinct(rows) for rows in ids]
    sides = [columns_of(k, view, distinct[k], expressions) for k, view in enumerate(views)]
    places = [np.searchsorted(one, rows) for one, rows in zip(distinct, ids, strict=True)]
    require_room(sum(map(bytes_taken, sides, places)), "the rows of a join")
    return joined_table(sides, places)


def qualified(e: Expression) -> Expression:
    """The expression over the columns of these tables."""

    def spell(part: Expression) -> Expression:
        return replace(part, name=_spelt(part.source, part.name)) if isinstance(part, ColumnRef) else part

    return rebuild(e, spell)


def ordered(ids: Ids) -> Ids:
    """The results by the rows of the first source, then by those of the second, …, each in the order of arrival."""
    if len(ids) == 1:
        return ids  # they ascend
    order = np.lexsort(ids[::-1])
    return tuple(rows[order] for rows in ids)


def missing(ids: Ids, others: Ids) -> np.ndarray:
    """Which results are not among the others."""
    codes, other_codes = np.zeros(len(ids[0]), np.int64), np.zeros(len(others[0]), np.int64)
    for rows, other_rows in zip(ids, others, strict=True):
        distinct, code = np.unique(np.concatenate([rows, other_rows]), return_inverse=True)
        codes = codes * len(distinct) + code[: len(rows)]
        other_codes = other_codes * len(distinct) + code[len(rows) :]
        # Codes are numbered from 0 again, so that they do not overflow, however many sources there are.
        _, code = np.unique(np.concatenate([codes, other_codes]), return_inverse=True)
        codes, other_codes = code[: len(codes)], code[len(codes) :]
    return ~np.isin(codes, other_codes, assume_unique=True)


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The row ids in ascending order without repetitions; an array that ascends already is not sorted again."""
    return rows if bool((rows[1:] > rows[:-1]).all()) else np.unique(rows)


def _spelt(source: int, name: str) -> str:
    return f"{source}.{name}"
