"""What a window shows of a stream at τ, read off its clause: times in (begin, end], or the last rows.

    no window      (τ − keep, τ], or everything up to τ when the stream is kept for ever
    BEGIN … END …  edges relative to τ or absolute; an edge that is NULL shows nothing
    [ROWS n]       the last n rows by (t, row id) of those with τ − keep < t <= τ; NULL shows nothing

Both oracles read windows here, and nothing of the engine does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from weir.algebra.schema import Stream
from weir.sql.windows import Edge, WindowClause
from weir.testing.constants import instant_us, parameter


@dataclass(frozen=True)
class Span:
    """Rows with begin < t <= end; of those the last `rows`, if that is given."""

    begin_us: int | None  # None: from the first row on
    end_us: int
    rows: int | None = None


def span(stream: Stream, clause: WindowClause | None, params: Mapping[str, object], tau_us: int) -> Span | None:
    """What a stream's window shows at τ; None is nothing at all."""
    kept = Span(None if stream.keep_us is None else tau_us - stream.keep_us, tau_us)
    if clause is None:
        return kept
    if clause.rows is not None or clause.rows_param is not None:
        count = clause.rows if clause.rows_param is None else plain(params[clause.rows_param])
        assert count is None or isinstance(count, int), f"{count!r} is no number of rows"
        return Span(kept.begin_us, tau_us, count) if count else None
    begin_us = kept.begin_us if clause.begin is None else _edge(clause.begin, params, tau_us)
    end_us = tau_us if clause.end is None else _edge(clause.end, params, tau_us)
    if end_us is None or (clause.begin is not None and begin_us is None):
        return None
    return Span(begin_us, end_us)


def _edge(edge: Edge, params: Mapping[str, object], tau_us: int) -> int | None:
    base_us = tau_us if edge.relative else 0
    if edge.param is None:
        return base_us + edge.offset_us
    value = plain(params[edge.param])
    if isinstance(value, dt.datetime):
        assert not edge.relative, "an instant is no distance from NOW"
        return instant_us(value)
    if isinstance(value, dt.timedelta):
        length_us = value // dt.timedelta(microseconds=1)
        return base_us + (length_us if edge.unit_us > 0 else -length_us)
    if value is None:
        return None
    assert isinstance(value, (int, float, Decimal)), f"{value!r} is no window edge"
    return base_us + int(Decimal(value) * edge.unit_us)


def plain(value: object) -> object:
    """A parameter as a Python value."""
    return parameter(value).value
