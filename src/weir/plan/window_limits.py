"""Windows against `keep`: a window that a stream cannot fill is refused, with the arithmetic in the message.

A stream shows rows no older than now − keep. A sliding window must begin within that; a landmark window begins
further back every day and a snapshot stays where it is while now moves on, so both need `keep="forever"`. A window
that no row can ever be in is refused too. Edges that are parameters are checked when their values are there: the
earliest begin and the shortest window of a million queries stand for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weir.algebra.nodes import Bound, Literal, Param, Window
from weir.algebra.schema import Stream
from weir.errors import RegisterError
from weir.sql.position import line_column

_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def length_text(length_us: int) -> str:
    """A length of time in words: `1 hour 30 minutes`."""
    if length_us < 0:
        return "-" + length_text(-length_us)
    parts: list[str] = []
    rest = length_us
    for word, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {word}{'s' if count > 1 else ''}")
    if rest:
        parts.append(f"{rest:,} µs")
    return " ".join(parts) or "0 seconds"


def check_window(
    window: Window,
    stream: Stream,
    constants: Mapping[str, int] | None = None,
    *,
    text: str = "",
    start: int | None = None,
) -> None:
    """RegisterError unless the stream can fill the window; an edge whose parameter is not in `constants` is skipped."""
    known = constants or {}

    def fail(message: str, hint: str) -> RegisterError:
        if start is None:
            return RegisterError(message, hint=hint)
        line, column = line_column(text, start)
        return RegisterError(message, line=line, column=column, hint=hint)

    if window.rows is not None:
        rows = _value(window.rows, known)
        if rows is not None and rows < 1:
            raise fail(f"a window of {rows:,} rows of '{stream.name}' is empty", "ROWS takes 1 or more")
        return
    if window.begin is None:
        return
    _check_keep(window, stream, _value(window.begin.offset_us, known), fail)
    length = _length(window, known)
    if length is not None and length <= 0:
        raise fail(
            f"a window of '{stream.name}' ends {length_text(-length)} before it begins, no row can be in it"
            if length
            else f"a window of '{stream.name}' ends where it begins, no row can be in it",
            "a window covers begin < t <= end, so BEGIN must be earlier than END",
        )


def _check_keep(window: Window, stream: Stream, begin: int | None, fail: Callable[[str, str], RegisterError]) -> None:
    assert window.begin is not None
    if stream.keep_us is None:
        return
    kept = length_text(stream.keep_us)
    if not window.begin.relative:
        ends = window.end is not None and not window.end.relative
        what = "snapshot (BEGIN and END are fixed)" if ends else "landmark (BEGIN is fixed, END moves on)"
        raise fail(
            f"a window of '{stream.name}' is a {what}, and the stream keeps only {kept}",
            'define the stream with keep="forever", or use a sliding window: BEGIN NOW - INTERVAL … END NOW',
        )
    if begin is not None and -begin > stream.keep_us:
        raise fail(
            f"a window of '{stream.name}' begins {length_text(-begin)} before now, and the stream keeps {kept}: "
            f"{-begin:,} µs > {stream.keep_us:,} µs",
            "shorten the window, or define the stream with a longer keep",
        )


def _length(window: Window, known: Mapping[str, int]) -> int | None:
    """END − BEGIN where both are counted from the same point and known."""
    assert window.begin is not None
    begin = _value(window.begin.offset_us, known)
    end = 0 if window.end is None else _value(window.end.offset_us, known)
    if begin is None or end is None or _relative(window.end) != window.begin.relative:
        return None
    return end - begin


def _relative(bound: Bound | None) -> bool:
    return bound is None or bound.relative


def _value(constant: Literal | Param, known: Mapping[str, int]) -> int | None:
    value = known.get(constant.name) if isinstance(constant, Param) else constant.value
    return value if isinstance(value, int) else None
