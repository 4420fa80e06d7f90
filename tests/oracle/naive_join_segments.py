"""A plain twin of the join family: every pair of rows, one after the other, in Python's exact numbers.

Rows are dicts (timestamps in µs). A pair is a result of a query when its *whole* condition is TRUE for the two rows,
keys and all, and when there is a moment at which both windows show their row. Such moments are looked for, not
computed: each row is shown from one moment on until before another, so if any moment shows both then one of these
four ends does. No boxes, no keys, no sides: sources are the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.oracle.plain_expressions import value
from weir.algebra.nodes import ColumnRef, Expression, Join, Param, Project, Query, Window
from weir.algebra.rebuild import rebuild

Row = Mapping[str, Any]
Holds = Callable[[Row, Row], bool]


def results(
    query: Query,
    constants: Mapping[str, Any],
    rows: tuple[Sequence[Row], Sequence[Row]],
    times: tuple[Sequence[int], Sequence[int]],
    keeps: tuple[int | None, int | None],
    holds: Holds | None = None,
) -> Iterator[tuple[int, int]]:
    """The positions of all pairs; rows, times and keeps are by the query's sources, `holds` says what is TRUE."""
    assert isinstance(query.root, Project)
    assert isinstance(query.root.child, Join)
    true = holds or plain_condition(query.root.child.predicate, constants)
    windows = (query.sources[0].window, query.sources[1].window)
    for i, first in enumerate(rows[0]):
        for j, second in enumerate(rows[1]):
            if meet(windows, constants, (times[0][i], times[1][j]), keeps) and true(first, second):
                yield i, j


def plain_condition(condition: Expression | None, constants: Mapping[str, Any]) -> Holds:
    """Whether a condition over sources 0 and 1 is TRUE."""
    if condition is None:
        return lambda first, second: True

    def qualified(e: Expression) -> Expression:
        return replace(e, name=f"{e.source}.{e.name}") if isinstance(e, ColumnRef) else e

    named = rebuild(condition, qualified)

    def holds(first: Row, second: Row) -> bool:
        row = {f"0.{n}": v for n, v in first.items()} | {f"1.{n}": v for n, v in second.items()}
        return value(named, row, constants) is True

    return holds


def meet(
    windows: tuple[Window, Window],
    constants: Mapping[str, Any],
    times: tuple[int, int],
    keeps: tuple[int | None, int | None],
) -> bool:
    """Whether some moment shows a row of each time; edges that do not move with it count as none."""
    spans = [_offsets(w, constants, keep) for w, keep in zip(windows, keeps, strict=True)]
    moments = [0]
    for (begin, end), time in zip(spans, times, strict=True):
        moments += [time - end] if end is not None else []
        moments += [time - begin - 1] if begin is not None else []
    return any(all(_shows(s, t, now) for s, t in zip(spans, times, strict=True)) for now in moments)


def _shows(span: tuple[int | None, int | None], time: int, now: int) -> bool:
    begin, end = span
    return (begin is None or now + begin < time) and (end is None or time <= now + end)


def _offsets(window: Window, constants: Mapping[str, Any], keep: int | None) -> tuple[int | None, int | None]:
    kept = None if keep is None else -keep
    if window.rows is not None:
        return kept, 0
    begin, end = kept, 0
    if window.begin is not None:
        begin = _constant(window.begin.offset_us, constants) if window.begin.relative else None
    if window.end is not None:
        end = _constant(window.end.offset_us, constants) if window.end.relative else None
    return begin, end


def _constant(e: Any, constants: Mapping[str, Any]) -> int:
    return int(constants[e.name] if isinstance(e, Param) else e.value)
