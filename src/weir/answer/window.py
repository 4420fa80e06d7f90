"""Windows at a moment: which times of a stream a query sees at τ, and how far apart times are that it sees together.

A cut is (begin, end]: begin < t <= end. No begin in the query means the stream's own `keep`, no end means τ.
A row-count window keeps the last n rows, in (time, row id) order, of what `keep` covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weir.algebra.nodes import Bound, Literal, Param, Window


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one stream that a window shows at one τ."""

    begin_us: int | None  # None: no begin
    end_us: int
    rows_max: int | None  # None: no row-count window


EVERYTHING = Cut(None, 2**62, None)


class TimeDistance(NamedTuple):
    """How far apart two rows may be so that some moment shows both: bounds of second time − first time, closed."""

    least_us: int | None
    most_us: int | None


ANY = TimeDistance(None, None)


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


def apart(
    first: Window, second: Window, constants: Mapping[str, object], keep_us: tuple[int | None, int | None]
) -> TimeDistance:
    """The bounds that the windows of two sources set.

    At τ the first shows (τ + b, τ + e] and the second (τ + b', τ + e']. So if some τ shows two rows, the difference d
    of their times satisfies b' − e < d < e' − b. Edges that are fixed, or missing because rows are kept for ever, bound
    nothing.
    """
    (b, e), (b_second, e_second) = (
        _offsets(window, constants, keep) for window, keep in zip((first, second), keep_us, strict=True)
    )
    least = None if b_second is None or e is None else b_second - e + 1
    most = None if e_second is None or b is None else e_second - b - 1
    return TimeDistance(least, most)


def latest_begin(
    windows: Sequence[Window], constants: Mapping[str, object], keep_us: Sequence[int | None]
) -> int | None:
    """The latest begin of these windows, as a distance from τ; None if none of them moves with τ."""
    begins = [_offsets(window, constants, keep)[0] for window, keep in zip(windows, keep_us, strict=True)]
    return max((begin for begin in begins if begin is not None), default=None)


def _offsets(window: Window, constants: Mapping[str, object], keep_us: int | None) -> tuple[int | None, int | None]:
    """Begin and end as distances from τ; None for one that does not move with τ."""
    begin, end = None if keep_us is None else -keep_us, 0
    if window.rows is not None:
        return begin, end
    moving = [
        (_value(bound.offset_us, constants) if bound.relative else None) if bound is not None else default
        for bound, default in ((window.begin, begin), (window.end, end))
    ]
    return moving[0], moving[1]
