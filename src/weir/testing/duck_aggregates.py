"""Aggregates and window functions in the oracle: each one as DuckDB SQL that says what Spark means.

`call_of` reads a call under any of its names, whether sqlglot has a tree of its own for it or not. Where DuckDB has a
function of the same name that differs, its meaning is spelt out: sums of whole numbers run in HUGEINT and overflow to
NULL, variances of infinities and NaN are NaN (DuckDB raises an error), lists leave NULLs out and are empty rather than
NULL, max_by takes NULLs as values. A percentile_approx of few rows is exact in Spark: one of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Kind, decimal
from weir.testing.arrow_types import listed
from weir.testing.constants import Scalar, duck_type
from weir.testing.duck_decimals import DIGITS_MAX, added, averaged, double


class Call(NamedTuple):
    """A call of an aggregate or window function as it was written."""

    name: str
    args: tuple[exp.Expr, ...]
    distinct: bool = False
    order: tuple[exp.Ordered, ...] = ()  # WITHIN GROUP
    ignore_nulls: bool = False


# The trees that sqlglot has for calls: the function's name, and where the arguments are.
_TREES: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Count: ("count", ("this", "expressions")),
    exp.Sum: ("sum", ("this",)),
    exp.Avg: ("avg", ("this",)),
    exp.Min: ("min", ("this",)),
    exp.Max: ("max", ("this",)),
    exp.Stddev: ("stddev_samp", ("this",)),
    exp.StddevSamp: ("stddev_samp", ("this",)),
    exp.StddevPop: ("stddev_pop", ("this",)),
    exp.Variance: ("var_samp", ("this",)),
    exp.VariancePop: ("var_pop", ("this",)),
    exp.ArrayAgg: ("collect_list", ("this",)),
    exp.ArrayUniqueAgg: ("collect_set", ("this",)),
    exp.GroupConcat: ("listagg", ("this", "separator")),
    exp.First: ("first", ("this",)),
    exp.Last: ("last", ("this",)),
    exp.FirstValue: ("first", ("this",)),
    exp.LastValue: ("last", ("this",)),
    exp.NthValue: ("nth_value", ("this", "offset")),
    exp.AnyValue: ("first", ("this",)),
    exp.Quantile: ("percentile", ("this", "quantile")),
    exp.ApproxQuantile: ("percentile_approx", ("this", "quantile", "accuracy")),
    exp.Median: ("median", ("this",)),
    exp.PercentileCont: ("percentile_cont", ("this",)),
    exp.PercentileDisc: ("percentile_disc", ("this",)),
    exp.ApproxDistinct: ("approx_count_distinct", ("this",)),
    exp.LogicalAnd: ("bool_and", ("this",)),
    exp.LogicalOr: ("bool_or", ("this",)),
    exp.CountIf: ("count_if", ("this",)),
    exp.ArgMax: ("max_by", ("this", "expression")),
    exp.ArgMin: ("min_by", ("this", "expression")),
    exp.RowNumber: ("row_number", ()),
    exp.Rank: ("rank", ()),
    exp.DenseRank: ("dense_rank", ()),
    exp.PercentRank: ("percent_rank", ()),
    exp.CumeDist: ("cume_dist", ()),
    exp.Ntile: ("ntile", ("this",)),
    exp.Lag: ("lag", ("this", "offset", "default")),
    exp.Lead: ("lead", ("this", "offset", "default")),
}
_ALSO = {
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "mean": "avg",
    "try_sum": "sum",
    "try_avg": "avg",
    "array_agg": "collect_list",
    "string_agg": "listagg",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "any_value": "first",
    "first_value": "first",
    "last_value": "last",
    "approx_percentile": "percentile_approx",
}
# Notes of sqlglot's about the dialect: they change nothing.
_NOTES = {"big_int", "nulls_excluded"}


def call_of(e: exp.Expr) -> Call | None:
    """The call that an expression is, if it is one of these functions."""
    if isinstance(e, (exp.IgnoreNulls, exp.RespectNulls)):
        inner = call_of(e.this)
        return inner and inner._replace(ignore_nulls=isinstance(e, exp.IgnoreNulls))
    if isinstance(e, exp.WithinGroup):
        inner = call_of(e.this)
        return inner and inner._replace(order=tuple(e.expression.expressions))
    if isinstance(e, exp.Any) and isinstance(e.this, exp.Paren):
        return Call("bool_or", (e.this.this,))
    places: tuple[str, ...] = ("expressions",)
    if isinstance(e, exp.Anonymous):
        name = _ALSO.get(e.name.lower(), e.name.lower())
        if name not in _CALLS and name not in _PLACES:
            return None
    elif type(e) in _TREES:
        name, places = _TREES[type(e)]
    else:
        return None
    extra = [k for k, part in e.args.items() if part not in (None, False, []) and k not in {*places, *_NOTES, "this"}]
    assert not extra, f"the oracle does not know {', '.join(extra)} of {e.sql('spark')}"
    args: list[exp.Expr] = []
    for place in places:
        part = e.args.get(place)
        args += part if isinstance(part, list) else [part] if part is not None else []
    order: tuple[exp.Ordered, ...] = ()
    if args and isinstance(args[0], exp.Order):
        order, args[0] = tuple(args[0].expressions), args[0].this
    distinct = bool(args) and isinstance(args[0], exp.Distinct)
    if distinct:
        args = [*args[0].expressions, *args[1:]]
    return Call(name, tuple(args), distinct, order)


def is_aggregate(call: Call) -> bool:
    return call.name in _CALLS


@dataclass(frozen=True)
class Place:
    """Where an aggregate stands: over which rows, and what lends a hand to translate its arguments."""

    translate: Callable[[exp.Expr], Scalar]
    condition: Callable[[exp.Expr], Scalar]
    ordering: Callable[[Sequence[exp.Ordered]], str]
    filter: str = ""  # FILTER (WHERE …)
    over: str = ""  # OVER (…)

    def of(self, body: str, *also: str) -> str:
        """The aggregate over the rows that are wanted and fulfil some further conditions."""
        conditions = [c for c in (self.filter, *also) if c]
        rows = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        return f"{body}{rows}{self.over}"


def aggregate(call: Call, place: Place) -> Scalar:
    """The value of an aggregate or window function."""
    if call.name in _PLACES:
        assert place.over, f"{call.name} needs OVER"
        return _PLACES[call.name](call, place)
    return _CALLS[call.name](call, place)


_Translation = Callable[[Call, Place], Scalar]


def narrowed(sql: str) -> str:
    """A HUGEINT as BIGINT; NULL beyond it, and for −2^63, which is reserved."""
    return f"nullif(TRY_CAST({sql} AS BIGINT), CAST(-9223372036854775808 AS BIGINT))"


def _word(call: Call) -> str:
    return "DISTINCT " if call.distinct else ""


def _double(s: Scalar) -> str:
    return double(s.sql) if s.type.kind is Kind.DECIMAL else f"CAST({s.sql} AS DOUBLE)"


def _count(call: Call, place: Place) -> Scalar:
    if isinstance(call.args[0], exp.Star):
        return Scalar(place.of("count(*)"), BIGINT)
    args = [place.translate(a) for a in call.args]
    if len(args) == 1:
        return Scalar(place.of(f"count({_word(call)}{args[0].sql})"), BIGINT)
    known = [f"{a.sql} IS NOT NULL" for a in args]  # counted are rows of which every argument is known
    row = f"row({', '.join(a.sql for a in args)})"
    return Scalar(place.of(f"count({_word(call)}{row})", *known), BIGINT)


def _sum(call: Call, place: Place) -> Scalar:
    of = place.translate(call.args[0])
    if of.type.kind is Kind.DOUBLE:
        return Scalar(place.of(f"sum({_word(call)}{_double(of)})"), DOUBLE)
    if of.type.kind is Kind.DECIMAL:
        type_ = decimal(min(of.type.precision + 10, DIGITS_MAX), of.scale)
        return Scalar(added(_texts(call, of, place), type_), type_)
    return Scalar(narrowed(place.of(f"sum({_word(call)}CAST({of.sql} AS HUGEINT))")), BIGINT)


def _texts(call: Call, of: Scalar, place: Place) -> str:
    """A list of the values that are there."""
    return place.of(f"list({_word(call)}CAST({of.sql} AS VARCHAR))", f"{of.sql} IS NOT NULL")


def _avg(call: Call, place: Place) -> Scalar:
    of = place.translate(call.args[0])
    if of.type.kind is Kind.DECIMAL:
        type_ = decimal(min(of.type.precision + 4, DIGITS_MAX), min(of.scale + 4, DIGITS_MAX))
        return Scalar(averaged(_texts(call, of, place), type_), type_)
    return Scalar(place.of(f"avg({_word(call)}{_double(place.translate(call.args[0]))})"), DOUBLE)


def _same(word: str) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        of = place.translate(call.args[0])
        return Scalar(place.of(f"{word}({of.sql})"), STRING if of.type.kind is Kind.STRING else of.type)

    return call_it


def _spread(word: str, least: int) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        x = _double(place.translate(call.args[0]))
        counted = place.of(f"count({_word(call)}{x})")
        odd = place.of(f"count({_word(call)}{x})", f"NOT isfinite({x})")
        value = place.of(f"{word}({_word(call)}{x})", f"isfinite({x})")
        ways = f"WHEN {counted} < {least} THEN NULL WHEN {odd} > 0 THEN CAST('NaN' AS DOUBLE)"
        return Scalar(f"(CASE {ways} ELSE {value} END)", DOUBLE)

    return call_it


def _collect(distinct: bool) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        of = place.translate(call.args[0])
        word = "DISTINCT " if distinct or call.distinct else ""
        found = place.of(f"list({word}{of.sql})", f"{of.sql} IS NOT NULL")
        return Scalar(f"coalesce({found}, CAST([] AS {duck_type(of.type)}[]))", listed(of.type))

    return call_it


def _listagg(call: Call, place: Place) -> Scalar:
    of = place.translate(call.args[0])
    separator = place.translate(call.args[1]).sql if len(call.args) > 1 else "''"
    order = place.ordering(call.order)
    return Scalar(place.of(f"string_agg({_word(call)}CAST({of.sql} AS VARCHAR), {separator}{order})"), STRING)


def _end(word: str) -> _Translation:
    """first and last: of a window by its order, else by the order in which rows come."""

    def call_it(call: Call, place: Place) -> Scalar:
        of = place.translate(call.args[0])
        ignores = call.ignore_nulls or (len(call.args) > 1 and place.translate(call.args[1]).value is True)
        if place.over:
            return Scalar(f"{word}_value({of.sql}{' IGNORE NULLS' if ignores else ''}){place.over}", of.type)
        return Scalar(place.of(f"{word}({of.sql})", f"{of.sql} IS NOT NULL" if ignores else ""), of.type)

    return call_it


def _by(word: str) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        of, key = (place.translate(a) for a in call.args)
        return Scalar(place.of(f"{word}({of.sql}, {key.sql})"), of.type)

    return call_it


def _percentile(call: Call, place: Place) -> Scalar:
    x = _double(place.translate(call.args[0]))
    share = "0.5" if call.name == "median" else place.translate(call.args[1]).sql
    return Scalar(place.of(f"quantile_cont({x}, {share})", f"{x} IS NOT NULL"), DOUBLE)


def _of_order(word: str) -> _Translation:
    """WITHIN GROUP (ORDER BY x): from the other end if it is descending."""

    def call_it(call: Call, place: Place) -> Scalar:
        (key,) = call.order
        x, share = _double(place.translate(key.this)), place.translate(call.args[0]).sql
        down = " DESC" if key.args.get("desc") else ""
        return Scalar(place.of(f"{word}({share}) WITHIN GROUP (ORDER BY {x}{down})", f"{x} IS NOT NULL"), DOUBLE)

    return call_it


def _percentile_approx(call: Call, place: Place) -> Scalar:
    of = place.translate(call.args[0])
    share = place.translate(call.args[1]).sql
    return Scalar(place.of(f"quantile_disc({of.sql}, {share})", f"{of.sql} IS NOT NULL"), of.type)


def _count_distinct(call: Call, place: Place) -> Scalar:
    return Scalar(place.of(f"count(DISTINCT {place.translate(call.args[0]).sql})"), BIGINT)


def _of_conditions(word: str) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        return Scalar(place.of(f"{word}({place.condition(call.args[0]).sql})"), BOOLEAN)

    return call_it


def _count_if(call: Call, place: Place) -> Scalar:
    condition = place.condition(call.args[0]).sql
    return Scalar(place.of(f"count({_word(call)}CASE WHEN {condition} THEN TRUE END)"), BIGINT)


def _number(word: str) -> _Translation:
    return lambda call, place: Scalar(f"CAST({word}(){place.over} AS INTEGER)", INT)


def _share(word: str) -> _Translation:
    return lambda call, place: Scalar(f"{word}(){place.over}", DOUBLE)


def _ntile(call: Call, place: Place) -> Scalar:
    return Scalar(f"CAST(ntile({place.translate(call.args[0]).sql}){place.over} AS INTEGER)", INT)


def _shifted(word: str) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        of = place.translate(call.args[0])
        offset = place.translate(call.args[1]).sql if len(call.args) > 1 else "1"
        other = f"CAST({place.translate(call.args[2]).sql} AS {duck_type(of.type)})" if len(call.args) > 2 else "NULL"
        nulls = " IGNORE NULLS" if call.ignore_nulls else ""
        return Scalar(f"{word}({of.sql}, {offset}, {other}{nulls}){place.over}", of.type)

    return call_it


def _nth(call: Call, place: Place) -> Scalar:
    of, n = (place.translate(a) for a in call.args)
    return Scalar(f"nth_value({of.sql}, {n.sql}{' IGNORE NULLS' if call.ignore_nulls else ''}){place.over}", of.type)


def _of_finite(word: str) -> _Translation:
    """skewness and kurtosis by their definitions: DuckDB's are corrected for samples."""

    def call_it(call: Call, place: Place) -> Scalar:
        x = _double(place.translate(call.args[0]))
        n = place.of(f"count({x})")
        sums = [place.of(f"sum({x} ** {k})") for k in range(1, 5)]
        mean = f"({sums[0]} / {n})"
        m2 = f"({sums[1]} - {n} * {mean} ** 2)"
        m3 = f"({sums[2]} - 3 * {mean} * {sums[1]} + 2 * {n} * {mean} ** 3)"
        m4 = f"({sums[3]} - 4 * {mean} * {sums[2]} + 6 * {mean} ** 2 * {sums[1]} - 3 * {n} * {mean} ** 4)"
        found = f"sqrt({n}) * {m3} / sqrt({m2} ** 3)" if word == "skewness" else f"{n} * {m4} / {m2} ** 2 - 3"
        differ = f"{place.of(f'min({x})')} < {place.of(f'max({x})')}"
        return Scalar(f"(CASE WHEN {differ} THEN {found} END)", DOUBLE)

    return call_it


def _regression(word: str) -> _Translation:
    def call_it(call: Call, place: Place) -> Scalar:
        y, x = (_double(place.translate(arg)) for arg in call.args)
        type_ = BIGINT if word == "regr_count" else DOUBLE
        value = place.of(f"{word}({y}, {x})")
        found = f"CAST({value} AS {duck_type(type_)})"
        return Scalar(found if type_ == BIGINT else f"(CASE WHEN NOT isnan({value}) THEN {found} END)", type_)

    return call_it


def _mode(call: Call, place: Place) -> Scalar:
    """Of values that occur equally often the least."""
    of = place.translate(call.args[0])
    values = place.of(f"list({of.sql})", f"{of.sql} IS NOT NULL")
    counts = f"list_transform(list_distinct({values}), lambda v: (len(list_filter({values}, lambda w: w = v)), v))"
    most = f"list_max(list_transform({counts}, lambda p: p[1]))"
    return Scalar(f"list_min(list_transform(list_filter({counts}, lambda p: p[1] = {most}), lambda p: p[2]))", of.type)


_CALLS: dict[str, _Translation] = {
    "skewness": _of_finite("skewness"),
    "kurtosis": _of_finite("kurtosis"),
    **{
        f"regr_{name}": _regression(f"regr_{name}")
        for name in ("count", "avgx", "avgy", "sxx", "syy", "sxy", "slope", "intercept", "r2")
    },
    "mode": _mode,
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _same("min"),
    "max": _same("max"),
    "stddev_samp": _spread("stddev_samp", 2),
    "stddev_pop": _spread("stddev_pop", 1),
    "var_samp": _spread("var_samp", 2),
    "var_pop": _spread("var_pop", 1),
    "collect_list": _collect(False),
    "collect_set": _collect(True),
    "listagg": _listagg,
    "first": _end("first"),
    "last": _end("last"),
    "max_by": _by("arg_max_null"),
    "min_by": _by("arg_min_null"),
    "percentile": _percentile,
    "median": _percentile,
    "percentile_approx": _percentile_approx,
    "percentile_cont": _of_order("percentile_cont"),
    "percentile_disc": _of_order("percentile_disc"),
    "approx_count_distinct": _count_distinct,
    "bool_and": _of_conditions("bool_and"),
    "bool_or": _of_conditions("bool_or"),
    "count_if": _count_if,
}
# Functions of a row's place in its window.
_PLACES: dict[str, _Translation] = {
    "row_number": _number("row_number"),
    "rank": _number("rank"),
    "dense_rank": _number("dense_rank"),
    "percent_rank": _share("percent_rank"),
    "cume_dist": _share("cume_dist"),
    "ntile": _ntile,
    "lag": _shifted("lag"),
    "lead": _shifted("lead"),
    "nth_value": _nth,
}
CALL_TREES = (*_TREES, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup, exp.Any)
