"""Expressions over several rows → algebra: aggregates and window functions.

sqlglot leaves the names of these functions as they are written (sql/parse.py), so errors have the user's own words.
FILTER, WITHIN GROUP, IGNORE NULLS and OVER stand around the call, in this order from inside out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlglot import exp

from weir.algebra.aggregates import (
    AGGREGATE_NAMES,
    WINDOW_NAMES,
    Aggregation,
    MisfitError,
    WindowFunction,
)
from weir.algebra.nodes import (
    Aggregate,
    Call,
    Cast,
    ColumnRef,
    Direction,
    Expression,
    Frame,
    IsNull,
    Literal,
    Scan,
    WindowCall,
    walk,
)
from weir.algebra.schema import BIGINT, DOUBLE, DataType, Kind, Stream
from weir.sql import types
from weir.sql.expressions import Expressions, Methods
from weir.sql.literals import UNITS_US
from weir.sql.order_clause import direction_of

_DISTANCE_MAX = 1 << 40
_SPREADS = ("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis")
_OF_DOUBLES = frozenset(
    {*_SPREADS, "corr", "covar_samp", "covar_pop", "median", "percentile", "percentile_cont", "percentile_disc"}
)
_OF_NUMBERS = _OF_DOUBLES - {"percentile_cont", "percentile_disc"} | {"sum", "avg"}
_ZEROS: dict[Kind, object] = {
    **dict.fromkeys((Kind.INT, Kind.BIGINT, Kind.TIMESTAMP), 0),
    Kind.DOUBLE: 0.0,
    Kind.DECIMAL: Decimal(0),
    Kind.STRING: "",
    Kind.BOOLEAN: False,
    Kind.DATE: dt.date(1970, 1, 1),
}  # what stands for NULL beside the knowledge that it is one


@dataclass
class _Around:
    """What stands around the name and the arguments of a call."""

    call: exp.Anonymous
    filter: exp.Expr | None = None
    order: exp.Expr | None = None
    ignores_nulls: bool | None = None


def _unwrap(e: Expressions, node: exp.Expr) -> _Around:
    found = _Around(node)  # type: ignore[arg-type]  # set below, when all that stands around is known
    while not isinstance(node, exp.Anonymous):
        if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
            found.call = _any_call(node)
            return found
        if isinstance(node, exp.Filter):
            found.filter = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            found.order = node.expression
        elif isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
            found.ignores_nulls = isinstance(node, exp.IgnoreNulls)
        else:
            raise e.refused(node)
        node = node.this
    found.call = node
    return found


def _unwrapped(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    around = _unwrap(e, node)
    if around.call.name.lower() not in AGGREGATE_NAMES:
        if around.call.name.lower() in WINDOW_NAMES:
            raise _needs_over(e, around.call)
        raise e.refused(around.call)
    return _aggregated(e, around)


def aggregate(e: Expressions, node: exp.Expr) -> Expression:
    """A plain call of an aggregate."""
    assert isinstance(node, exp.Anonymous)
    return _aggregated(e, _Around(node))


def _any(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    """any(condition), for which sqlglot has a node of its own."""
    if not isinstance(node.this, exp.Paren):
        raise e.refused(node)
    return _aggregated(e, _Around(_any_call(node)))


def _any_call(node: exp.Expr) -> exp.Anonymous:
    call = exp.Anonymous(this="any", expressions=[node.this.this])
    call.parent = node.parent
    return call


def _needs_over(e: Expressions, call: exp.Anonymous) -> Exception:
    return e.fail(f"{call.name.lower()}() needs a window", call, f"write {call.name.lower()}(…) OVER (ORDER BY …)")


# Aggregates.


def _aggregated(e: Expressions, around: _Around, *, over: bool = False) -> Expression:
    """The aggregate; with `over` of a window, over groups perhaps, and in the window's order.

    Its operands are of rows: in ORDER BY, too, a name in them is a column first.
    """
    first, e.aliases_first = e.aliases_first, False
    try:
        return _aggregated_rows(e, around, over)
    finally:
        e.aliases_first = first


def _aggregated_rows(e: Expressions, around: _Around, over: bool) -> Expression:
    function = AGGREGATE_NAMES[around.call.name.lower()]
    said = around.call.name.lower()
    given = list(around.call.expressions)
    distinct = bool(given) and isinstance(given[0], exp.Distinct)
    if distinct:
        if given[0].args.get("on") or not function.takes_distinct:
            raise e.fail(f"{said}() does not take DISTINCT", around.call)
        given = [*given[0].expressions, *given[1:]]
    if function.name == "count" and len(given) == 1 and isinstance(given[0], exp.Tuple):
        return _counted_rows(e, around, given[0], distinct)
    if function.within_group:
        given, around.order, descending = _behind(e, around, said)
    if function.takes_star and len(given) == 1 and _is_star(given[0]) and not distinct:
        args: tuple[Expression, ...] = ()
    else:
        given, ignores = _skipping(e, function, given)
        around.ignores_nulls = ignores if around.ignores_nulls is None else around.ignores_nulls
        args = tuple(_argument(e, arg) for arg in given[: _count(function, given, distinct)])
    parameter = _parameter(e, function, said, given[len(args) :] if args else [], around)
    if function.name == "count" and len(args) > 1 and not distinct:
        raise e.fail("count() takes one argument", around.call, "write count(DISTINCT a, b), or count_if(…)")
    args = _as_numbers(function, args)
    type_ = _result(e, said, function.result, args, around.call) if args else BIGINT
    if function.within_group:
        parameter = (parameter, descending)
    payload = next((arg for arg in args if arg.type.kind is Kind.PAYLOAD), None)
    if payload is not None and (distinct or function.name in ("approx_count_distinct", "collect_set")):
        raise e.fail(f"{said}() does not compare {types.described(payload)}", around.call, types.TAKE_A_PART)
    condition = None if around.filter is None else e.condition(around.filter, "FILTER")
    for part in (*args, *(() if condition is None else (condition,))):
        if any(isinstance(p, WindowCall) or (isinstance(p, Aggregate) and not over) for p in walk(part)):
            raise e.fail("an aggregate cannot hold another aggregate", around.call)
    order, directions = _order(e, around.order)
    if distinct and order and order != args[:1]:
        raise e.fail(f"{said}(DISTINCT x) is ordered by x alone", around.order or around.call, "leave DISTINCT out")
    if around.order is not None and function.name != "listagg":
        raise e.fail(f"{said}() takes no WITHIN GROUP", around.order, "leave it out")
    if not over:
        _check_own(e, said, [*args, *(() if condition is None else (condition,)), *order], around.call)
    found = Aggregate(function.name, args, distinct, type_, condition, order, directions, parameter)
    return _ordered_by_time(e, found) if function.in_order and not distinct and not over else found


def _check_own(e: Expressions, said: str, parts: Sequence[Expression], node: exp.Expr) -> None:
    """In a subquery an aggregate of columns of the query around it alone is of that query's rows in some databases."""
    own = {s.scan.source for s in e.scope.sources}
    read = {p.source for part in parts for p in walk(part) if isinstance(p, ColumnRef)}
    if e.scope.outer is not None and read and not read & own:
        raise e.fail(
            f"{said}() is over columns of the query around the subquery alone",
            node,
            "databases differ in whose rows these are: use a column of the subquery too",
        )


def _counted_rows(e: Expressions, around: _Around, row: exp.Tuple, distinct: bool) -> Expression:
    """count((a, b)): a row of values is never NULL; of different ones each combination counts, those with NULLs too."""
    parts = [_argument(e, part) for part in row.expressions]
    condition = None if around.filter is None else e.condition(around.filter, "FILTER")
    if not distinct:
        return Aggregate("count", (), False, BIGINT, condition)
    args: list[Expression] = []
    for part in parts:
        zero = _ZEROS.get(part.type.kind)
        if zero is None:
            raise e.fail(f"count() does not compare {types.described(part)}", around.call, types.TAKE_A_PART)
        whole = types.alike([part, Literal(zero, part.type.usual)])
        args += [IsNull(part), Call("coalesce", tuple(whole), whole[0].type)]
    return Aggregate("count", tuple(args), True, BIGINT, condition)


def _behind(e: Expressions, around: _Around, said: str) -> tuple[list[exp.Expr], None, bool]:
    """percentile_cont(p) WITHIN GROUP (ORDER BY x DESC): x, p, and whether it descends."""
    items = list(around.order.expressions) if around.order is not None else []
    if len(items) != 1:
        raise e.fail(f"{said}() needs one order", around.call, "write WITHIN GROUP (ORDER BY x)")
    return [items[0].this, *around.call.expressions], None, bool(items[0].args.get("desc"))


def _as_numbers(function: Aggregation, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Texts in numerical aggregates are cast to doubles, as Spark casts them, and so are decimals where it has doubles.

    The engine of finishes would make these doubles of decimals itself, and round twice.
    """
    cast = {Kind.STRING} if function.name in _OF_NUMBERS else set()
    if function.name in _OF_DOUBLES or function.name.startswith("regr_"):
        cast.add(Kind.DECIMAL)
    return tuple(Cast(arg, DOUBLE) if arg.type.kind in cast else arg for arg in args)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) and not any(node.args.values())


def _count(function: Aggregation, given: Sequence[exp.Expr], distinct: bool) -> int:
    return len(given) if function.name == "count" and distinct else function.count


def _argument(e: Expressions, node: exp.Expr) -> Expression:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise e.fail("* stands alone in count(*)", node, "name a column")
    return e.value(node, DOUBLE)


def _result(
    e: Expressions,
    said: str,
    result: Callable[[Sequence[DataType]], DataType],
    args: Sequence[Expression],
    node: exp.Expr,
) -> DataType:
    try:
        return result([arg.type for arg in args])
    except MisfitError as wrong:
        raise e.fail(f"{said}() takes {wrong}", node) from None


def _skipping(e: Expressions, function: Aggregation, given: list[exp.Expr]) -> tuple[list[exp.Expr], bool | None]:
    """first(x, TRUE) is first(x) IGNORE NULLS."""
    if function.ignores_nulls is None or len(given) != 2:
        return given, None
    if not isinstance(given[1], exp.Boolean):
        raise e.fail(f"{function.name}() takes TRUE or FALSE behind its argument", given[1], "write IGNORE NULLS")
    return given[:1], bool(given[1].this)


def _parameter(e: Expressions, function: Aggregation, said: str, given: Sequence[exp.Expr], around: _Around) -> object:
    """What is no value of rows."""
    if around.ignores_nulls is not None and function.ignores_nulls is None:
        raise e.fail(f"{said}() does not take IGNORE NULLS", around.call, "leave it out")
    counted = function.count if function.within_group else min(function.count, len(around.call.expressions))
    has_few = counted < function.count and not (function.takes_star and counted)
    if len(given) > len(function.parameters) or has_few:
        words = f"{function.count} argument{'' if function.count == 1 else 's'}"
        hint = "write count(*)" if function.name == "count" and not around.call.expressions else ""
        raise e.fail(f"{said}() takes {words}, got {len(given) + counted}", around.call, hint)
    if function.ignores_nulls is not None:
        return bool(around.ignores_nulls)
    constants = [_constant(e, node, said, word) for node, word in zip(given, function.parameters, strict=False)]
    if function.name == "listagg":
        separator = constants[0] if constants else ""
        if not isinstance(separator, str):
            raise e.fail(f"{said}() takes a quoted separator", given[0])
        return separator
    if function.name.startswith("percentile"):
        share = constants[0] if constants else None
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise e.fail(f"{said}() takes a percentage between 0.0 and 1.0", around.call, "write 0.5")
        return float(share)
    return None


def _constant(e: Expressions, node: exp.Expr, said: str, word: str) -> object:
    found = e.lower(node)
    if not isinstance(found, Literal):
        raise e.fail(f"the {word} of {said}() must be a constant", node)
    value = found.value
    return float(value) if found.type.kind in (Kind.DECIMAL, Kind.DOUBLE) and value is not None else value  # type: ignore[arg-type]  # a number, by its kind


def _order(e: Expressions, node: exp.Expr | None) -> tuple[tuple[Expression, ...], tuple[Direction, ...]]:
    keys: list[Expression] = []
    directions: list[Direction] = []
    for item in node.expressions if node is not None else ():
        key = e.value(item.this)
        if any(isinstance(p, WindowCall) for p in walk(key)):
            raise e.fail("a window function cannot hold another one", item)
        keys.append(key)
        directions.append(direction_of(item))
    return tuple(keys), tuple(directions)


def _ordered_by_time(e: Expressions, found: Aggregate) -> Aggregate:
    """first, last and the like see rows in the order of time where no other is said."""
    source = e.scope.sources[0] if e.scope.sources else None
    if found.order or source is None or not isinstance(source.relation, Stream) or not isinstance(source.scan, Scan):
        return found
    time = source.relation.column(source.relation.time)
    assert time is not None
    return replace(found, order=(source.ref(time),), directions=(Direction(False, True),))


# Window functions.


def _over(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    assert isinstance(node, exp.Window)
    around = _unwrap(e, node.this)
    said = around.call.name.lower()
    function: WindowFunction | Aggregation | None = WINDOW_NAMES.get(said) or AGGREGATE_NAMES.get(said)
    if function is None:
        raise e.refused(around.call)
    spec = _specified(e, node)
    partition = tuple(e.value(p) for p in spec.args.get("partition_by") or ())
    order, directions = _order(e, spec.args.get("order"))
    payload = next((part for part in (*partition, *order) if part.type.kind is Kind.PAYLOAD), None)
    if payload is not None:
        raise e.fail(f"OVER does not compare {types.described(payload)}", node, types.TAKE_A_PART)
    frame = _frame(e, spec.args.get("spec"), order)
    if isinstance(function, Aggregation):
        return _windowed_aggregate(e, around, WindowCall("", (), partition, order, directions, frame, BIGINT))
    if around.filter is not None or around.order is not None:
        raise e.fail(f"{said}() takes neither FILTER nor WITHIN GROUP", around.call)
    if function.needs_order and not order:
        raise e.fail(f"{said}() needs an order", around.call, "add ORDER BY to OVER (…)")
    if frame is not None and not function.has_frame:
        raise e.fail(f"{said}() takes no frame", around.call, "leave ROWS BETWEEN … out")
    if around.ignores_nulls and not function.ignores_nulls:
        raise e.fail(f"{said}() does not take IGNORE NULLS", around.call)
    return _window_call(e, function, around, WindowCall("", (), partition, order, directions, frame, BIGINT))


def _window_call(e: Expressions, function: WindowFunction, around: _Around, call: WindowCall) -> Expression:
    said, given = around.call.name.lower(), list(around.call.expressions)
    if function.name in ("first_value", "last_value") and len(given) == 2 and isinstance(given[1], exp.Boolean):
        around.ignores_nulls = bool(given.pop().this)  # last(x, TRUE) is last(x) IGNORE NULLS
    most = function.count + len(function.parameters) + function.defaults
    if not function.count <= len(given) <= most:
        raise e.fail(f"{said}() takes {function.count} to {most} arguments, got {len(given)}", around.call)
    args = [_argument(e, arg) for arg in given[: function.count]]
    rest = given[function.count :]
    parameter = _constant(e, rest[0], said, function.parameters[0]) if function.parameters and rest else 1
    if isinstance(parameter, bool) or not isinstance(parameter, int) or abs(parameter) > _DISTANCE_MAX:
        raise e.fail(f"the {function.parameters[0]} of {said}() is a whole number", rest[0])
    if said in ("ntile", "nth_value") and parameter < 1:
        raise e.fail(f"the {function.parameters[0]} of {said}() is at least 1", around.call)
    for default in rest[1:]:
        value = e.lower(default, args[0].type)
        value = types.with_type(value, args[0].type) if types.is_open(value) else value
        try:
            args = types.alike([args[0], value])
        except types.MismatchError as wrong:
            raise e.fail(str(wrong), default, wrong.hint) from None
    type_ = function.result([arg.type for arg in args])
    return replace(
        call,
        function=function.name,
        args=tuple(args),
        type=type_,
        parameter=parameter if function.parameters else None,
        ignores_nulls=bool(around.ignores_nulls),
    )


def _windowed_aggregate(e: Expressions, around: _Around, call: WindowCall) -> Expression:
    found = _aggregated(e, around, over=True)
    assert isinstance(found, Aggregate)
    said = around.call.name.lower()
    if found.distinct or found.order:
        raise e.fail(f"{said}() OVER takes neither DISTINCT nor WITHIN GROUP", around.call)
    args = found.args
    if found.filter is not None:
        args = _filtered(e, found, around)
    return replace(
        call,
        function=found.function,
        args=args,
        type=found.type,
        parameter=found.parameter,
        ignores_nulls=bool(around.ignores_nulls),
    )


def _filtered(e: Expressions, found: Aggregate, around: _Around) -> tuple[Expression, ...]:
    """FILTER of a window: arguments are NULL where it is not true, and aggregates leave NULLs out."""
    if found.function in ("first", "last", "any_value"):
        raise e.fail(f"{found.function}() OVER takes no FILTER", around.call, "use IGNORE NULLS and CASE")
    assert found.filter is not None
    given = found.args or (Literal(1, BIGINT),)
    return tuple(Call("case", (found.filter, arg, Literal(None, arg.type)), arg.type) for arg in given)


def _specified(e: Expressions, node: exp.Window) -> exp.Window:
    """What OVER says, or the window that it names."""
    name = node.args.get("alias")
    if name is None:
        return node
    known = e.windows.get(name.name.lower())
    if known is None:
        raise e.fail(f"there is no window '{name.name}'", name, f"windows: {', '.join(e.windows) or 'none'}")
    if node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
        raise e.fail("a named window cannot be changed here", name, "write it out")
    return known


def _frame(e: Expressions, spec: exp.Expr | None, order: Sequence[Expression]) -> Frame | None:
    if spec is None:
        return None
    unit = str(spec.args.get("kind") or "").lower()
    if unit not in ("rows", "range") or spec.args.get("exclude"):
        raise e.fail("a frame is ROWS or RANGE BETWEEN … AND …", spec)
    begin = _edge(e, spec, "start", unit, order)
    end = _edge(e, spec, "end", unit, order)
    if begin is not None and end is not None and begin > end:
        raise e.fail("a frame ends before it begins", spec, "swap its edges")
    return Frame(unit, begin, end)


def _edge(e: Expressions, spec: exp.Expr, which: str, unit: str, order: Sequence[Expression]) -> int | None:
    given, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").upper()
    if given is None or given == "CURRENT ROW":
        return 0
    if given == "UNBOUNDED":
        if side != ("PRECEDING" if which == "start" else "FOLLOWING"):
            raise e.fail(f"a frame cannot {which} with UNBOUNDED {side}", spec)
        return None
    assert isinstance(given, exp.Expr)
    found = e.lower(given)
    whole = isinstance(found, Literal) and isinstance(found.value, int) and not isinstance(found.value, bool)
    if not whole:
        raise e.fail("the edge of a frame is a whole number, or an interval", given)
    assert isinstance(found, Literal)
    assert isinstance(found.value, int)
    if unit == "range":
        kinds = {key.type.kind for key in order}
        times = found.type.kind is Kind.INTERVAL
        wanted = (Kind.TIMESTAMP, Kind.DATE) if times else (*types.WHOLE, Kind.DATE)
        if len(order) != 1 or not kinds <= set(wanted):
            raise e.fail(
                "RANGE with a distance sorts by one whole number, or by one time with an interval", spec, "use ROWS"
            )
    elif found.type.kind is Kind.INTERVAL:
        raise e.fail("ROWS counts rows, not time", given, "use RANGE")
    days = unit == "range" and found.type.kind is not Kind.INTERVAL and order[0].type.kind is Kind.DATE
    distance = found.value * UNITS_US["DAY"] if days else found.value
    return -distance if side == "PRECEDING" else distance


ROW_SETS: Methods = {
    **dict.fromkeys((exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls), _unwrapped),
    exp.Window: _over,
    exp.Any: _any,
}
