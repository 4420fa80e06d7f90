"""Random window clauses, as text: snapshot, landmark, sliding, lagging, range and row count.

A window never reaches back further than the smallest keep of the streams it covers, because a query whose windows
do not fit is refused. Absolute edges need streams that are kept for ever. Lengths, instants and row counts are
sometimes `:parameters`; their values are added to `params`.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence

from tests.generators.domains import instant
from weir.algebra.schema import Stream

_SECOND_US = 1_000_000
_UNITS = (("SECOND", 1), ("MINUTES", 60), ("MINUTE", 60), ("HOUR", 3_600))
_REACH_MAX_S = 5_400  # how far back a window of a stream kept for ever or for long may reach


def global_window(
    rng: random.Random, covered: Sequence[Stream], params: dict[str, object], start_us: int, span_us: int
) -> str:
    """`BEGIN … END …` over all the streams in `covered`."""
    forever = all(s.keep_us is None for s in covered)
    reach_s = min(reach_of(s) for s in covered)
    shapes = ["sliding", "sliding", "lagging"] + (["snapshot", "landmark"] if forever else [])
    shape = rng.choice(shapes)
    if shape == "sliding":
        return f"BEGIN NOW - {_length(rng, _long(rng, reach_s), params)} END NOW"
    if shape == "lagging":
        begin_s = max(2, _long(rng, reach_s))
        if rng.random() < 0.1:
            return f"BEGIN NOW - {_length(rng, begin_s, params)} END NOW + INTERVAL 30 SECONDS"
        begin, end = _length(rng, begin_s, params), _length(rng, rng.randint(1, max(1, begin_s // 3)), params)
        return f"BEGIN NOW - {begin} END NOW - {end}"
    edges = sorted(start_us + rng.randint(-span_us // 10, span_us * 11 // 10) for _ in range(2))
    if shape == "landmark":
        return f"BEGIN {_moment(rng, edges[0], params)} END NOW"
    return f"BEGIN {_moment(rng, edges[0], params)} END {_moment(rng, edges[1], params)}"


def source_window(rng: random.Random, stream: Stream, params: dict[str, object]) -> str:
    """`[ROWS n]` or `[RANGE length]`, for one source."""
    if rng.random() < 0.4:
        return f"[ROWS {rng.choice((1, 5, 20, 50, 1000))}]"
    length_s = _long(rng, reach_of(stream))
    roll = rng.random()
    if roll < 0.2:
        return f"[RANGE {_param(params, length_s)} SECOND]"
    count, unit = _whole(rng, length_s)
    if roll < 0.6:
        return f"[RANGE {count} {unit}]"
    return f"[RANGE INTERVAL '{count}' {unit}]"


def reach_of(stream: Stream) -> int:
    """How many seconds back a window of this stream may reach."""
    return _REACH_MAX_S if stream.keep_us is None else min(_REACH_MAX_S, stream.keep_us // _SECOND_US)


def _long(rng: random.Random, reach_s: int) -> int:
    """A length up to the reach, seldom so short that hardly a row is left."""
    return rng.randint(1 if rng.random() < 0.15 else max(1, reach_s // 3), reach_s)


def _length(rng: random.Random, length_s: int, params: dict[str, object]) -> str:
    roll = rng.random()
    if roll < 0.1:
        return _param(params, length_s)
    if roll < 0.2:
        return _param(params, dt.timedelta(seconds=length_s))
    count, unit = _whole(rng, length_s)
    return f"INTERVAL {count} {unit}" if roll < 0.7 else f"INTERVAL '{count}' {unit}"


def _whole(rng: random.Random, length_s: int) -> tuple[int, str]:
    """The length in a unit that divides it."""
    unit, seconds = rng.choice([u for u in _UNITS if length_s % u[1] == 0])
    return length_s // seconds, unit


def _moment(rng: random.Random, time_us: int, params: dict[str, object]) -> str:
    roll = rng.random()
    if roll < 0.2:
        return str(time_us // _SECOND_US)
    if roll < 0.35:
        return _param(params, instant(time_us))
    text = str(instant(time_us).replace(tzinfo=None))
    return f"TIMESTAMP '{text}'" if roll < 0.75 else f"'{text}'"


def _param(params: dict[str, object], value: object) -> str:
    name = f"p{len(params)}"
    params[name] = value
    return f":{name}"
