"""Recompute: a query evaluated over kept rows from scratch.

This is the second implementation of every family: it evaluates the condition itself and never sees boxes, keys or
indexes. It answers demoted queries, rows older than a query's registration, and it checks the matches.

A selection is one pass over the row files that its window meets. A join first cuts each source down to the rows
that its window shows and that satisfy the conditions about this source alone. Then equations and bounds between the
sources are used to find candidates (`weir.answer.candidates`). The conditions themselves decide about every candidate,
so that what equality means (NULL, NaN, −0.0, mixed types) is said in one place, `weir.values.comparisons`.

Of a table's versions those are looked at that held when the rows beside them came (`weir.answer.moments`).

More than two sources are joined one by one. The next is the smallest source that an equation connects with those that
are joined; if there is none, the smallest that another condition connects; else the smallest of all. A condition is
applied as soon as all its sources are joined.

Cost: a few nanoseconds a row and predicate. A join sorts its rows and takes about 100 ns a candidate, in blocks,
so that memory follows the rows and the results, not the candidates. A caller can limit how many are examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import And, Expression, Not, Or, conjunction
from weir.answer.candidates import (
    Axis,
    KeyCodes,
    both,
    bounded,
    candidates,
    equal_codes,
    equation_of,
    same,
    sources,
    times_axis,
)
from weir.answer.moments import Moments
from weir.answer.views import Ids, View, columns_of, joined_table, qualified
from weir.answer.window import ANY, TimeDistance
from weir.errors import FetchError
from weir.values.evaluate import evaluate, truth
from weir.values.room import stretches

CANDIDATES_BLOCK = 1 << 20
COMBINATIONS_MAX = 20_000_000  # of a join of many sources, at any step
EXAMINED_MAX = 500_000_000  # candidates of a join whose sources nothing connects: about a minute


def recompute(
    condition: Expression | None,
    constants: Mapping[str, object],
    views: Sequence[View],
    *,
    batches_below: int | None = None,
    apart: TimeDistance = ANY,
    begin_us: int | None = None,
    results_max: int | None = None,
    examined_max: int | None = None,
) -> Ids | None:
    """The results among the rows that the views show (and that came before a batch); row ids of a selection ascend.

    `apart` leaves out pairs that lie too far apart in time for any moment to show them; `begin_us`, the latest begin of
    the streams' windows, versions of tables that begin when a row has left its window. None when a join has more
    results than `results_max`; FetchError when more than `examined_max` combinations would have to be looked at.
    """
    own: list[list[Expression]] = [[] for _ in views]
    across: list[Expression] = []
    for term in () if condition is None else _terms(condition, True):
        of_term = sources(term)
        (across if len(of_term) > 1 else own[next(iter(of_term), 0)]).append(term)
    rows = [_rows(view, terms, constants, batches_below) for view, terms in zip(views, own, strict=True)]
    if len(views) == 1:
        return (rows[0],)
    if not all(map(len, rows)):
        return (np.empty(0, np.int64),) * len(views)
    sides = [columns_of(source, view, ids, across) for source, (view, ids) in enumerate(zip(views, rows, strict=True))]
    moments = Moments.of(views, tuple(rows), begin_us)
    join = _Join(across, constants, sides, examined_max, moments)
    if len(views) > 2:
        try:
            places = join.many()
        except FetchError:
            if results_max is None:
                raise
            return None
        if results_max is not None and len(places[0]) > results_max:
            return None
        return tuple(ids[places[k]] for k, ids in enumerate(rows))
    axis = None
    if apart != ANY and moments is None:
        first, second = (view.kept.times(ids) for view, ids in zip(views, rows, strict=True))
        axis = times_axis(first, second, apart.least_us, apart.most_us)
    found: list[Ids] = [(np.empty(0, np.int64),) * 2]
    count = 0
    for places in join.grown({0: np.arange(len(rows[0]))}, 1, across, axis):
        found.append(tuple(rows[k][places[k]] for k in (0, 1)))
        count += len(places[0])
        if results_max is not None and count > results_max:
            return None
        if examined_max is not None:
            _check_count(count, 2, 2)
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def _check_count(count: int, joined: int, sources_count: int) -> None:
    if count > COMBINATIONS_MAX:
        raise FetchError(
            f"joining {joined} of {sources_count} sources gives more than {COMBINATIONS_MAX:,} combinations of rows",
            hint="add conditions or shorten the windows",
        )


@dataclass
class _Join:
    """Combinations of rows of several sources, which grow by one source at a time."""

    across: Sequence[Expression]
    constants: Mapping[str, object]
    sides: Sequence[pa.Table]
    examined_max: int | None
    moments: Moments | None  # None: no source is a table with versions

    def __post_init__(self) -> None:
        self.left = self.examined_max

    def many(self) -> Mapping[int, np.ndarray]:
        """All combinations: places in the rows of each source."""
        sizes = [side.num_rows for side in self.sides]
        start = min(range(len(sizes)), key=lambda k: sizes[k])
        places: dict[int, np.ndarray] = {start: np.arange(sizes[start])}
        waiting = list(self.across)
        while len(places) < len(sizes):
            added = self._next(places.keys(), sizes)
            known = [w for w in waiting if sources(w) <= places.keys() | {added}]
            waiting = [w for w in waiting if w not in known]
            found: list[Ids] = [(np.empty(0, np.int64),) * (len(places) + 1)]
            count = 0
            for grown in self.grown(places, added, known, None):
                found.append(tuple(grown.values()))
                count += len(grown[added])
                _check_count(count, len(places) + 1, len(sizes))
            places = dict(zip((*places, added), (np.concatenate(c) for c in zip(*found, strict=True)), strict=True))
        return places

    def _next(self, there: Iterable[int], sizes: Sequence[int]) -> int:
        """The source to go on with: the smallest of those that are connected best."""
        reached = set(there)
        equations = [sources(a) | sources(b) for term in self.across if (pair := equation_of(term)) for a, b in [pair]]
        for links in (equations, [sources(term) for term in self.across]):
            near = {next(iter(link - reached)) for link in links if len(link - reached) == 1 and link & reached}
            if near:
                return min(near, key=lambda k: sizes[k])
        return min((k for k in range(len(sizes)) if k not in reached), key=lambda k: sizes[k])

    def grown(
        self, places: Mapping[int, np.ndarray], added: int, conditions: Sequence[Expression], axis: Axis | None
    ) -> Iterator[dict[int, np.ndarray]]:
        """The combinations with rows of one more source in which the conditions hold, block by block."""
        there = list(places)
        codes = same(len(places[there[0]]), self.sides[added].num_rows)
        connected = False
        for left, right in (pair for term in conditions if (pair := equation_of(term))):
            if added not in sources(left) | sources(right):
                continue
            old, new = (right, left) if sources(left) == {added} else (left, right)
            codes = both(codes, equal_codes([self._old(old, places), self._new(new, added)], [old.type, new.type]))
            connected = True
        turned = False
        if self.moments is not None and (found := self.moments.axis(places, added)):
            axis, turned = found
        if not connected or axis is None:
            narrower = bounded(conditions, added, lambda e: self._old(e, places), lambda e: self._new(e, added))
            axis, turned = (axis, turned) if narrower is None else (narrower, False)
        count, blocks = candidates(KeyCodes(*codes[::-1]) if turned else codes, axis, CANDIDATES_BLOCK)
        if self.left is not None:
            self.left -= count
            if self.left < 0:
                raise FetchError(
                    f"nothing connects the {len(self.sides)} sources of this join well enough: more than "
                    f"{self.examined_max:,} combinations of rows would have to be looked at",
                    hint="add an equality or a bound between the sources, or shorten their windows",
                )
        condition = qualified(conjunction(conditions)) if conditions else None
        for at, of_added in (pair[::-1] for pair in blocks) if turned else blocks:
            combined = [*(places[k][at] for k in there), of_added]
            if condition is not None:
                sides = [self.sides[k] for k in (*there, added)]
                parts = [[one[part] for one in combined] for part in stretches(sides, combined)]
                true = np.concatenate([truth(condition, joined_table(sides, p), self.constants) for p in parts])
                combined = [one[true] for one in combined]
            yield dict(zip((*there, added), combined, strict=True))

    def _new(self, e: Expression, added: int) -> pa.Array:
        return evaluate(qualified(e), self.sides[added], self.constants)

    def _old(self, e: Expression, places: Mapping[int, np.ndarray]) -> pa.Array:
        """The value of an expression over one source, or none, for each combination."""
        source = next(iter(sources(e)), next(iter(places)))
        return evaluate(qualified(e), self.sides[source], self.constants).take(pa.array(places[source]))


def _terms(e: Expression, wanted: bool) -> Iterator[Expression]:
    """Conditions that are all true exactly where `e` is true, or with `wanted` false, where `e` is false."""
    if isinstance(e, Not):
        yield from _terms(e.arg, not wanted)
    elif (isinstance(e, And) and wanted) or (isinstance(e, Or) and not wanted):
        for arg in e.args:
            yield from _terms(arg, wanted)
    else:
        yield e if wanted else Not(e)


def _rows(
    view: View, terms: Sequence[Expression], constants: Mapping[str, object], batches_below: int | None
) -> np.ndarray:
    """Ascending ids of the rows of one source that the view shows and for which all terms are true."""
    predicate = conjunction(terms) if terms else None
    found = [np.empty(0, np.int64)]
    for first_row, table, times in view.kept.scan(view.cut, batches_below=batches_below):
        mask = view.kept.inside(view.cut, times)
        if predicate is not None and mask.any():
            mask &= truth(predicate, table, constants)
        found.append(np.flatnonzero(mask) + first_row)
    return view.counted(np.concatenate(found))
