"""Windows at a moment: which times of a stream a query sees at τ.

A cut is (begin, end]: begin < t <= end. No begin in the query means the stream's own `keep`, no end means τ.
A row-count window keeps the last n rows, in (time, row id) order, of what `keep` covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir.algebra.nodes import Bound, Literal, Param, Window


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one stream that a window shows at one τ."""

    begin_us: int | None  # None: since ever
    end_us: int
    rows_max: int | None  # None: no row-count window


def _value(constant: Literal | Param, constants: Mapping[str, object]) -> int | None:
    value = constants[constant.name] if isinstance(constant, Param) else constant.value
    return None if value is None else int(value)  # type: ignore[call-overload]  # windows hold whole numbers only


def _edge(bound: Bound, constants: Mapping[str, object], tau_us: int) -> int | None:
    offset = _value(bound.offset_us, constants)
    if offset is None:
        return None
    return tau_us + offset if bound.relative else offset


def resolve(window: Window, constants: Mapping[str, object], tau_us: int, keep_us: int | None) -> Cut:
    """The cut of a window at τ. An edge that is NULL shows nothing: the cut is empty."""
    kept = None if keep_us is None else tau_us - keep_us
    if window.rows is not None:
        return Cut(kept, tau_us, _value(window.rows, constants) or 0)
    begin, end = kept, tau_us
    if window.begin is not None:
        edge = _edge(window.begin, constants, tau_us)
        if edge is None:
            return Cut(tau_us, tau_us, None)
        begin = edge
    if window.end is not None:
        edge = _edge(window.end, constants, tau_us)
        if edge is None:
            return Cut(tau_us, tau_us, None)
        end = edge
    return Cut(begin, end, None)
