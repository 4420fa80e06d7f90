"""The aggregates and window functions of the language: a row for each.

A row says under which names SQL knows the function, what its arguments are and what type comes out. How a finish
computes it is a row in `weir.answer.groups` or `weir.answer.window_functions`. Arguments that must be constants
because they are no values of rows (a percentage, a separator, a distance) are `parameters`: they stay in a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.algebra import decimals, schema
from weir.algebra.schema import DataType, Kind

Result = Callable[[Sequence[DataType]], DataType]


class MisfitError(Exception):
    """An argument has a type that the function does not take; the text says which it takes."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A function over the rows of a group."""

    name: str
    result: Result
    count: int = 1  # of arguments
    also: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()  # what constants behind the arguments say: for errors
    takes_distinct: bool = True
    takes_star: bool = False
    in_order: bool = False  # its value depends on the order of rows: that of time and arrival if no other is said
    ignores_nulls: bool | None = None  # None: nobody can choose; False: IGNORE NULLS may be said
    within_group: bool = False  # its argument stands behind WITHIN GROUP (ORDER BY …)


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A function OVER a window that is no aggregate."""

    name: str
    result: Result
    count: int = 0
    defaults: int = 0  # values that may follow: what lag and lead give where there is no row
    parameters: tuple[str, ...] = ()
    needs_order: bool = True
    has_frame: bool = False
    ignores_nulls: bool = False


def _always(type_: DataType) -> Result:
    return lambda _: type_


def _first(types: Sequence[DataType]) -> DataType:
    return types[0]


def _ordered(types: Sequence[DataType]) -> DataType:
    if types[0].kind is Kind.INTERVAL:
        raise MisfitError("an interval; aggregate the two times instead")
    if types[0].kind is Kind.PAYLOAD:
        raise MisfitError(f"what can be ordered, got {types[0]}; take a scalar out of it: x.field, x[0], x['key']")
    return schema.STRING if types[0].kind is Kind.STRING else types[0]


def _ordered_by(types: Sequence[DataType]) -> DataType:
    _ordered(types[1:])
    return types[0]


def _sum(types: Sequence[DataType]) -> DataType:
    (type_,) = types
    _numbers(types)
    if type_.kind is Kind.DECIMAL:
        return decimals.total(type_)
    return schema.DOUBLE if type_.kind is Kind.DOUBLE else schema.BIGINT


def _numbers(types: Sequence[DataType]) -> DataType:
    wrong = next((t for t in types if not t.is_numeric), None)
    if wrong is not None:
        raise MisfitError(f"a number, got {wrong}")
    return schema.DOUBLE


def _average(types: Sequence[DataType]) -> DataType:
    _numbers(types)
    return decimals.average(types[0]) if types[0].kind is Kind.DECIMAL else schema.DOUBLE


def _count(types: Sequence[DataType]) -> DataType:
    _numbers(types)
    return schema.BIGINT


def _whole(types: Sequence[DataType]) -> DataType:
    if types[0].kind not in (Kind.INT, Kind.BIGINT):
        raise MisfitError(f"a whole number, got {types[0]}")
    return types[0]


def _boolean(result: DataType) -> Result:
    def of(types: Sequence[DataType]) -> DataType:
        if types[0].kind is not Kind.BOOLEAN:
            raise MisfitError(f"a condition, got {types[0]}")
        return result

    return of


def _text(types: Sequence[DataType]) -> DataType:
    if types[0].kind is not Kind.STRING:
        raise MisfitError(f"a string, got {types[0]}; CAST it")
    return schema.STRING


def _number_itself(types: Sequence[DataType]) -> DataType:
    _numbers(types)
    return types[0]


def _listed(types: Sequence[DataType]) -> DataType:
    if types[0].kind is Kind.INTERVAL:
        raise MisfitError("an interval; list the two times instead")
    return schema.array(types[0])


AGGREGATIONS = (
    Aggregation("count", _always(schema.BIGINT), takes_star=True),
    Aggregation("approx_count_distinct", _always(schema.BIGINT), takes_distinct=False),
    Aggregation("sum", _sum, also=("try_sum",)),
    Aggregation("avg", _average, also=("mean", "try_avg")),
    Aggregation("min", _ordered),
    Aggregation("max", _ordered),
    Aggregation("stddev", _numbers, also=("stddev_samp", "std"), takes_distinct=False),
    Aggregation("stddev_pop", _numbers, takes_distinct=False),
    Aggregation("variance", _numbers, also=("var_samp",), takes_distinct=False),
    Aggregation("var_pop", _numbers, takes_distinct=False),
    Aggregation("corr", _numbers, 2, takes_distinct=False),
    Aggregation("covar_samp", _numbers, 2, takes_distinct=False),
    Aggregation("covar_pop", _numbers, 2, takes_distinct=False),
    Aggregation("skewness", _numbers, takes_distinct=False),
    Aggregation("kurtosis", _numbers, takes_distinct=False),
    Aggregation("regr_count", _count, 2, takes_distinct=False),
    *(
        Aggregation(f"regr_{name}", _numbers, 2, takes_distinct=False)
        for name in ("avgx", "avgy", "sxx", "syy", "sxy", "slope", "intercept", "r2")
    ),
    Aggregation("mode", _ordered, takes_distinct=False),
    Aggregation("count_if", _boolean(schema.BIGINT), takes_distinct=False),
    Aggregation("bool_and", _boolean(schema.BOOLEAN), also=("every",)),
    Aggregation("bool_or", _boolean(schema.BOOLEAN), also=("some", "any")),
    Aggregation("bit_and", _whole, takes_distinct=False),
    Aggregation("bit_or", _whole, takes_distinct=False),
    Aggregation("bit_xor", _whole, takes_distinct=False),
    Aggregation("collect_list", _listed, also=("array_agg",), in_order=True),
    Aggregation("collect_set", _listed, takes_distinct=False),
    Aggregation("listagg", _text, also=("string_agg",), parameters=("separator",), in_order=True),
    Aggregation("first", _first, also=("first_value",), takes_distinct=False, in_order=True, ignores_nulls=False),
    Aggregation("last", _first, also=("last_value",), takes_distinct=False, in_order=True, ignores_nulls=False),
    Aggregation("any_value", _first, takes_distinct=False, in_order=True, ignores_nulls=False),
    Aggregation("max_by", _ordered_by, 2, takes_distinct=False),
    Aggregation("min_by", _ordered_by, 2, takes_distinct=False),
    Aggregation("median", _numbers, takes_distinct=False),
    Aggregation("percentile", _numbers, parameters=("percentage",), takes_distinct=False),
    Aggregation("percentile_cont", _numbers, parameters=("percentage",), takes_distinct=False, within_group=True),
    Aggregation("percentile_disc", _numbers, parameters=("percentage",), takes_distinct=False, within_group=True),
    Aggregation(
        "percentile_approx",
        _number_itself,
        also=("approx_percentile",),
        parameters=("percentage", "accuracy"),
        takes_distinct=False,
    ),
)

WINDOW_FUNCTIONS = (
    WindowFunction("row_number", _always(schema.INT)),
    WindowFunction("rank", _always(schema.INT)),
    WindowFunction("dense_rank", _always(schema.INT)),
    WindowFunction("percent_rank", _always(schema.DOUBLE)),
    WindowFunction("cume_dist", _always(schema.DOUBLE)),
    WindowFunction("ntile", _always(schema.INT), parameters=("parts",)),
    WindowFunction("lag", _first, 1, 1, parameters=("distance",), ignores_nulls=True),
    WindowFunction("lead", _first, 1, 1, parameters=("distance",), ignores_nulls=True),
    WindowFunction("first_value", _first, 1, has_frame=True, ignores_nulls=True),
    WindowFunction("last_value", _first, 1, has_frame=True, ignores_nulls=True),
    WindowFunction("nth_value", _first, 1, parameters=("place",), has_frame=True, ignores_nulls=True),
)

AGGREGATES = {f.name: f for f in AGGREGATIONS}  # by the name that `Aggregate.function` has
AGGREGATE_NAMES = {name: f for f in AGGREGATIONS for name in (f.name, *f.also)}
WINDOWED = {f.name: f for f in WINDOW_FUNCTIONS}
WINDOW_NAMES = WINDOWED | {"first": WINDOWED["first_value"], "last": WINDOWED["last_value"]}
