"""`window(time, length [, slide [, offset]])` and `session_window(time, gap)`: stretches of time as grouping keys.

As in Spark. A window is known by its beginning, an expression of the row's time; `window.end` lies a length after it.
Windows that slide hold a row several times: the query is joined with the numbers of the stretches that a row may be in.
After this there are only columns, functions and joins. A session's edges are functions over the rows of the group that
it will be part of, and stay so until the query is taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Expression, Literal, Node
from weir.algebra.schema import BIGINT, INTERVAL, TIMESTAMP, Column, DataType, Kind
from weir.sql.expressions import Expressions
from weir.sql.stretches import STRETCHES

STRETCHES_MAX = 1_000  # that a row may be in
_NUMBER = "stretch"


@dataclass(frozen=True)
class TimeWindow:
    """One `window(…)` of a SELECT."""

    begin: Expression
    end: Expression
    sources: tuple[Node, ...]  # to join the query with
    conditions: tuple[Expression, ...]


def calls_in(select: exp.Select) -> Iterator[exp.Anonymous]:
    """The calls of `window` and `session_window` in a SELECT, but not in queries inside it."""
    stack: list[exp.Expr] = [*select.expressions, *(select.args[k] for k in ("group",) if select.args.get(k))]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Anonymous) and node.name.lower() in STRETCHES:
            yield node
        elif not isinstance(node, exp.Select):
            stack.extend(node.iter_expressions())


def time_window(expressions: Expressions, call: exp.Anonymous, number: Callable[[], int]) -> TimeWindow:
    """What a call means; `number` gives a new source's number."""
    if call.name.lower() == "session_window":
        return _session(expressions, call)
    if not 2 <= len(call.expressions) <= 4:
        raise expressions.fail("window() takes a time, a length, and perhaps a slide and an offset", call)
    time = expressions.lower(call.expressions[0])
    if time.type.kind is not Kind.TIMESTAMP:
        raise expressions.fail(f"window() takes a timestamp, got {time.type}", call)
    length, slide, offset = (_length(expressions, call, k) for k in (1, 2, 3))
    assert length is not None
    slide, offset = length if slide is None else slide, offset or 0
    if not 0 < slide <= length:
        raise expressions.fail("the slide of window() is above 0 and at most its length", call)
    stretches = -(-length // slide)
    if stretches > STRETCHES_MAX:
        raise expressions.fail(f"a row is in {stretches:,} windows, at most {STRETCHES_MAX:,} are allowed", call)
    known: tuple[Expression, ...] = (nodes.Not(nodes.IsNull(time)),)
    micros = exp.Anonymous(this="unix_micros", expressions=[call.expressions[0].copy()])
    since = exp.Paren(this=exp.Sub(this=micros.copy(), expression=exp.Literal.number(offset)))
    rest = exp.Anonymous(this="pmod", expressions=[since, exp.Literal.number(slide)])
    first = exp.Sub(this=micros, expression=rest)
    begun = _as(time.type, expressions.value(exp.Anonymous(this="timestamp_micros", expressions=[first])))
    if stretches == 1:
        return TimeWindow(begun, _later(begun, length), (), known)
    source = number()
    steps = nodes.Derived(source, _numbers(stretches, slide), f"_w{source}", (Column(_NUMBER, BIGINT),))
    whole = expressions.value(first)
    back = nodes.Arithmetic("-", whole, nodes.ColumnRef(source, _NUMBER, BIGINT), BIGINT)
    begin = _as(time.type, nodes.Call("timestamp_micros", (back,), TIMESTAMP))
    end = _later(begin, length)
    return TimeWindow(begin, end, (steps,), (*known, nodes.Comparison("<", time, end)))


def _as(type_: DataType, e: Expression) -> Expression:
    return e if e.type == type_ else nodes.Cast(e, type_)


def _session(expressions: Expressions, call: exp.Anonymous) -> TimeWindow:
    """Rows of a group that are at most a gap apart; the session ends a gap after its last row."""
    if len(call.expressions) != 2:
        raise expressions.fail("session_window() takes a time and a gap", call)
    time = expressions.lower(call.expressions[0])
    if time.type.kind is not Kind.TIMESTAMP:
        raise expressions.fail(f"session_window() takes a timestamp, got {time.type}", call)
    if not (isinstance(call.expressions[1], exp.Literal) and call.expressions[1].is_string):
        hint = "write session_window(ts, '10 minutes')"
        raise expressions.fail("session_window() takes a gap that is written as a text", call.expressions[1], hint)
    gap = _length(expressions, call, 1)
    assert gap is not None
    if gap <= 0:
        raise expressions.fail("the gap of session_window() is above 0", call)
    begin, end = (
        nodes.WindowCall(name, (time,), (), (), (), None, time.type, gap) for name in ("session_start", "session_end")
    )
    return TimeWindow(begin, end, (), (nodes.Not(nodes.IsNull(time)),))


def is_session(e: Expression) -> bool:
    """Whether it is an edge of a session, which is a key of the group that the session makes."""
    return isinstance(e, nodes.WindowCall) and e.function in nodes.SESSION_EDGES


def _length(expressions: Expressions, call: exp.Anonymous, place: int) -> int | None:
    """A length of time, given as a text or an interval."""
    if place >= len(call.expressions):
        return None
    given = call.expressions[place]
    if isinstance(given, exp.Literal) and given.is_string:
        given = exp.Interval(this=given.copy())
        given.parent = call
    found = expressions.lower(given)
    if not (isinstance(found, Literal) and found.type.kind is Kind.INTERVAL and isinstance(found.value, int)):
        said = call.name.lower()
        raise expressions.fail(f"{said}() takes constant lengths", call, f"write {said}(ts, '10 minutes')")
    return found.value


def _later(begin: Expression, length: int) -> Expression:
    return nodes.Arithmetic("+", begin, Literal(length, INTERVAL), begin.type)


def _numbers(count: int, slide: int) -> Node:
    """How far before the last stretch that holds a row the others begin."""
    rows: list[Node] = [nodes.Project(nodes.OneRow(), ((_NUMBER, Literal(k * slide, BIGINT)),)) for k in range(count)]
    return nodes.together(rows)
