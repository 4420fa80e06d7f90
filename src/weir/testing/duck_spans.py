"""window(ts, length [, slide [, offset]]) in the oracle: every row once for each span of time that it is in.

A SELECT has one such function, wherever in it. Its sources are joined with the spans [start, end) that hold the row's
time: those that begin at whole multiples of the slide, counted from the epoch plus the offset. Rows without a time are
in none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from weir.algebra.schema import TIMESTAMP
from weir.testing.arrow_types import SPANNED
from weir.testing.constants import UNITS_US, Scalar
from weir.testing.scopes import Joined, OracleSource

_LENGTH = re.compile(r"(-?\d+)\s+([a-zA-Z]+)")


def span_call(node: exp.Select) -> exp.Anonymous | None:
    """The call of window(ts, …) in a SELECT itself, not in queries within it."""
    clauses = [*node.expressions, *(node.args[k] for k in ("where", "group", "having", "order") if node.args.get(k))]
    found = [call for clause in clauses for call in _calls(clause)]
    assert len({call.sql() for call in found}) <= 1, "a SELECT has one window(ts, …)"
    return found[0] if found else None


def is_span_call(e: exp.Expr) -> bool:
    return isinstance(e, exp.Anonymous) and e.name.lower() == "window"


def _calls(e: exp.Expr) -> list[exp.Anonymous]:
    """The calls in an expression, but not in queries inside it; by a loop, because chains of AND are deep."""
    found: list[exp.Anonymous] = []
    stack = [e]
    while stack:
        part = stack.pop()
        if is_span_call(part):
            assert isinstance(part, exp.Anonymous)
            found.append(part)
        elif not isinstance(part, exp.Query):
            stack.extend(part.iter_expressions())
    return found


def with_spans(joined: Joined, call: exp.Anonymous, translate: Callable[[exp.Expr], Scalar], name: str) -> Joined:
    """The sources joined with the spans that each row is in, which are a source called `window`."""
    time = translate(call.expressions[0])
    assert time.type == TIMESTAMP, f"window() takes a timestamp, got {time.type}"
    lengths = [_length_us(part) for part in call.expressions[1:]]
    length_us = lengths[0]
    slide_us = lengths[1] if len(lengths) > 1 else length_us
    offset_us = lengths[2] if len(lengths) > 2 else 0
    t = f"epoch_us({time.sql})"
    last = f"({t} - (((({t} - {offset_us}) % {slide_us}) + {slide_us}) % {slide_us}))"
    starts = f"SELECT {last} - k * {slide_us} AS b FROM range({-(-length_us // slide_us)}) AS r(k)"
    both = f"make_timestamp(b) AS c0, make_timestamp(b + {length_us}) AS c1"
    spans = f"SELECT {both} FROM ({starts}) WHERE b + {length_us} > {t}"
    start, end = (Scalar(f"{name}.{c}", TIMESTAMP) for c in ("c0", "c1"))
    source = OracleSource("window", (("start", start), ("end", end)))
    return Joined(f"{joined.sql} JOIN LATERAL ({spans}) AS {name} ON TRUE", (*joined.sources, source), joined.shown)


def spanned(source: OracleSource) -> Scalar:
    """The span itself, as a struct."""
    (_, start), (_, end) = source.columns
    return Scalar(f'struct_pack("start" := {start.sql}, "end" := {end.sql})', SPANNED)


def _length_us(e: exp.Expr) -> int:
    text = re.sub(r"^\s*interval\s+", "", e.name, flags=re.IGNORECASE)
    parts = _LENGTH.findall(text)
    assert parts, f"{e.sql()} is no length of time"
    units = [(int(count), unit.upper()) for count, unit in parts]
    return sum(count * (UNITS_US.get(unit) or UNITS_US[unit.removesuffix("S")]) for count, unit in units)
