"""window(ts, length [, slide [, offset]]) in the oracle: every row once for each span of time that it is in.

session_window(ts, gap): the rows that WHERE leaves are walked in the order of their time, those that agree in the other
keys of GROUP BY together; the sources are joined with the sessions that come of that.

A SELECT has one such function, wherever in it. Its sources are joined with the spans [start, end) that hold the row's
time: those that begin at whole multiples of the slide, counted from the epoch plus the offset. Rows without a time are
in none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from weir.algebra.schema import Kind
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
    return isinstance(e, exp.Anonymous) and e.name.lower() in ("window", "session_window")


def is_session_call(e: exp.Expr) -> bool:
    return isinstance(e, exp.Anonymous) and e.name.lower() == "session_window"


def keys_beside(node: exp.Select) -> list[exp.Expr]:
    """What GROUP BY names beside the session, as expressions over the sources."""
    found = []
    named = {item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)}
    for key in node.args["group"].expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            item = node.expressions[int(key.this) - 1]
            found.append(item.this if isinstance(item, exp.Alias) else item)
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in named:
            found.append(named[key.name.lower()])
        else:
            found.append(key)
    return [key for key in found if not is_session_call(key)]


def with_sessions(
    joined: Joined,
    call: exp.Anonymous,
    keys: list[exp.Expr],
    where: str,
    translate: Callable[[exp.Expr], Scalar],
    name: str,
) -> Joined:
    """The sources joined with the sessions of their rows, which are a source called `session_window`."""
    time = translate(call.expressions[0])
    t = f"epoch_us({time.sql})"
    gap_us = _length_us(call.expressions[1])
    key_sql = [translate(key).sql for key in keys]
    listed = "".join(f"{sql} AS k{i}, " for i, sql in enumerate(key_sql))
    names = "".join(f"k{i}, " for i in range(len(keys)))
    partition = f"PARTITION BY {names[:-2]} " if keys else ""
    rows = f"SELECT {listed}{t} AS t FROM {joined.sql} WHERE {t} IS NOT NULL AND {where}"
    before = f"SELECT *, lag(t) OVER ({partition}ORDER BY t) AS p FROM ({rows})"
    counted = f"SELECT *, sum(CASE WHEN t <= p + {gap_us} THEN 0 ELSE 1 END) OVER ({partition}ORDER BY t) AS n"
    ends = f"min(t) AS b, max(t) + {gap_us} AS e"
    sessions = f"SELECT {names}{ends} FROM ({counted} FROM ({before})) GROUP BY {names}n"
    same = "".join(f" AND {name}.k{i} IS NOT DISTINCT FROM {sql}" for i, sql in enumerate(key_sql))
    start, end = (Scalar(f"make_timestamp({name}.{c})", time.type) for c in "be")
    source = OracleSource("session_window", (("start", start), ("end", end)))
    sql = f"{joined.sql} JOIN ({sessions}) AS {name} ON {t} >= {name}.b AND {t} < {name}.e{same}"
    return Joined(sql, (*joined.sources, source), joined.shown)


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
    assert time.type.kind is Kind.TIMESTAMP, f"window() takes a timestamp, got {time.type}"
    lengths = [_length_us(part) for part in call.expressions[1:]]
    length_us = lengths[0]
    slide_us = lengths[1] if len(lengths) > 1 else length_us
    offset_us = lengths[2] if len(lengths) > 2 else 0
    t = f"epoch_us({time.sql})"
    last = f"({t} - (((({t} - {offset_us}) % {slide_us}) + {slide_us}) % {slide_us}))"
    starts = f"SELECT {last} - k * {slide_us} AS b FROM range({-(-length_us // slide_us)}) AS r(k)"
    both = f"make_timestamp(b) AS c0, make_timestamp(b + {length_us}) AS c1"
    spans = f"SELECT {both} FROM ({starts}) WHERE b + {length_us} > {t}"
    start, end = (Scalar(f"{name}.{c}", time.type) for c in ("c0", "c1"))
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
