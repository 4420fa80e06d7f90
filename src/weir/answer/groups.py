"""GROUP BY: how each aggregate of `weir.algebra.aggregates` is computed by DataFusion, by Spark's rules.

Where the two differ the rows here say so: whole numbers are added up in 38 digits and decimals in 76, and a sum that
does not fit its type is NULL; an average of decimals is their sum, divided; min and max of doubles compare keys in
which NaN is the largest; a discrete percentile is an element of the group. Aggregates that depend on an order see rows
in the one that is said, then in the order of arrival.

Cost: about a millisecond, and what DataFusion takes for the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import CALCULATIONS, number_of, units_of
from weir.algebra.nodes import Aggregate, ColumnRef, Expression
from weir.algebra.schema import Kind
from weir.answer import engine
from weir.answer.decimal_words import divided_in_longs, long_units
from weir.answer.engine import PLACE
from weir.answer.row_codes import codes
from weir.store.row_files import arrow_type

Statement = Callable[["_Operands"], str]
Mend = Callable[[Aggregate, pa.Array], pa.Array]

_SIGN = np.int64(-(2**63))


class _Operands(NamedTuple):
    """The columns of an aggregate, as they stand in a statement."""

    aggregate: Aggregate
    args: tuple[str, ...]
    filter: str  # " FILTER (WHERE …)" or ""
    order: str  # "a DESC NULLS LAST, place"

    @property
    def distinct(self) -> str:
        return "DISTINCT " if self.aggregate.distinct else ""

    def also(self, condition: str) -> str:
        """FILTER with one more condition."""
        if self.aggregate.filter is None:
            return f" FILTER (WHERE {condition})"
        return f"{self.filter[:-1]} AND {condition})"


def grouped(rows: pa.Table, keys: Sequence[str], aggregates: Sequence[tuple[str, Aggregate]]) -> pa.Table:
    """One row for each group, in the order in which groups begin: its keys, then its aggregates."""
    columns: dict[str, pa.Array] = {}
    for k, key in enumerate(keys):
        columns[f"k{k}"] = engine.alike(rows.column(key))
    wanted: list[str] = []
    for k, (_, aggregate) in enumerate(aggregates):
        wanted.append(f"{_statement(aggregate, rows, columns, k)} AS a{k}")
    columns = columns or {"none": pa.nulls(rows.num_rows, pa.bool_())}
    by = [f"k{k}" for k in range(len(keys))]
    listed = ", ".join([*by, *wanted, f"min({PLACE}) AS first"])
    ending = f" GROUP BY {', '.join(by)} ORDER BY first" if by else ""
    found = engine.run(f"SELECT {listed} FROM t{ending}", {"t": engine.with_place(pa.table(columns))})
    made = {key: found.column(k).cast(rows.schema.field(key).type) for k, key in enumerate(keys)}
    for k, (name, aggregate) in enumerate(aggregates):
        made[name] = mended(aggregate, found.column(f"a{k}").combine_chunks()).cast(arrow_type(aggregate.type))
    if not made:  # a GROUP BY of nothing that shows only constants: its groups are all that counts
        made = {"row": pa.repeat(True, found.num_rows)}
    return pa.table(made)


def mended(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    """What DataFusion found, by the language's rules."""
    mend = _MENDED.get(aggregate.function)
    return values if mend is None else mend(aggregate, values)


def _statement(aggregate: Aggregate, rows: pa.Table, columns: dict[str, pa.Array], number: int) -> str:
    """The aggregate in SQL; its operands are put among the columns."""

    def named(e: Expression, word: str, prepared: pa.Array | None = None) -> str:
        assert isinstance(e, ColumnRef), "operands of a group are columns"
        name = f"{word}{number}"
        columns[name] = engine.alike(rows.column(e.name)) if prepared is None else prepared
        return name

    args: tuple[str, ...]
    if aggregate.distinct and len(aggregate.args) > 1:
        args = (named(aggregate.args[0], "x", _combined(rows, aggregate.args)),)
    else:
        args = tuple(named(e, f"x{k}_", _prepared(aggregate, e, rows)) for k, e in enumerate(aggregate.args))
    condition = "" if aggregate.filter is None else f" FILTER (WHERE {named(aggregate.filter, 'f')})"
    order = [
        f"{named(e, f'o{k}_')} {'DESC' if d.descending else 'ASC'} NULLS {'FIRST' if d.nulls_first else 'LAST'}"
        for k, (e, d) in enumerate(zip(aggregate.order, aggregate.directions, strict=True))
    ]
    return STATEMENTS[aggregate.function](_Operands(aggregate, args, condition, ", ".join([*order, PLACE])))


def _combined(rows: pa.Table, args: Sequence[Expression]) -> pa.Array:
    """count(DISTINCT a, b): a number for each combination; NULL where one of them is."""
    table = rows.select([e.name for e in args if isinstance(e, ColumnRef)])
    null = np.zeros(rows.num_rows, bool)
    for column in table.columns:
        null |= column.is_null().to_numpy()
    return pa.array(codes(table), mask=null)


def _prepared(aggregate: Aggregate, e: Expression, rows: pa.Table) -> pa.Array | None:
    """Doubles whose order decides are given as keys."""
    assert isinstance(e, ColumnRef)
    if aggregate.function in ("min", "max") and e.type.kind is Kind.DOUBLE:
        return ordered_keys(rows.column(e.name))
    if aggregate.function == "collect_list" and not aggregate.distinct:  # its values are as they came, −0 too
        return rows.column(e.name).combine_chunks()
    return None


def ordered_keys(column: pa.ChunkedArray) -> pa.Array:
    """Doubles as whole numbers in the same order, NaN last."""
    values = engine.alike(column)
    bits = values.fill_null(0).to_numpy(zero_copy_only=False).view(np.int64)
    keys = np.where(bits < 0, _SIGN - bits - 1, bits)
    return pa.array(keys, mask=values.is_null().to_numpy(zero_copy_only=False))


def doubles_of(keys: pa.Array) -> pa.Array:
    """The doubles of such keys."""
    numbers = keys.fill_null(0).to_numpy(zero_copy_only=False)
    bits = np.where(numbers < 0, _SIGN - numbers - 1, numbers)
    return pa.array(bits.view(np.float64), mask=keys.is_null().to_numpy(zero_copy_only=False))


def exact(e: Expression, name: str) -> str:
    """A number in which whole numbers and decimals are added up without loss."""
    if e.type.kind is Kind.DOUBLE:
        return name
    return f"CAST({name} AS DECIMAL(76, {e.type.scale}))" if _is_decimal(e) else f"CAST({name} AS DECIMAL(38, 0))"


def _is_decimal(e: Expression) -> bool:
    return e.type.kind is Kind.DECIMAL


def average(e: Expression, name: str, rest: str, *, distinct: str = "") -> str:
    """The average of an operand; of decimals what it is made of. `rest` stands behind the aggregate."""
    if not _is_decimal(e):
        return f"avg({distinct}CAST({name} AS DOUBLE)){rest}"
    return f"named_struct('s', sum({distinct}{exact(e, name)}){rest}, 'n', count({distinct}{name}){rest})"


def _plain(function: str) -> Statement:
    return lambda o: f"{function}({o.distinct}{', '.join(o.args)}){o.filter}"


def _of_doubles(function: str) -> Statement:
    return lambda o: f"{function}({o.distinct}{', '.join(f'CAST({a} AS DOUBLE)' for a in o.args)}){o.filter}"


def _count(o: _Operands) -> str:
    return f"count({o.distinct}{o.args[0] if o.args else '*'}){o.filter}"


def _sum(o: _Operands) -> str:
    return f"sum({o.distinct}{exact(o.aggregate.args[0], o.args[0])}){o.filter}"


def _corr(o: _Operands) -> str:
    """The covariance by both deviations; NULL where one of them is 0, or there is one row."""
    x, y = (f"CAST({a} AS DOUBLE)" for a in o.args)
    both = o.also(f"{o.args[0]} IS NOT NULL AND {o.args[1]} IS NOT NULL")
    apart = " / ".join(f"nullif(stddev_pop({v}){both}, 0)" for v in (x, y))
    return f"CASE WHEN count(*){both} > 1 THEN covar_pop({x}, {y}){both} / {apart} END"


def _edge(function: str) -> Statement:
    """first and last: NULLs count unless they are skipped."""

    def statement(o: _Operands) -> str:
        where = o.also(f"{o.args[0]} IS NOT NULL") if o.aggregate.parameter else o.filter
        return f"{function}({o.args[0]} ORDER BY {o.order}){where}"

    return statement


def _by(direction: str) -> Statement:
    return lambda o: (
        f"first_value({o.args[0]} ORDER BY {o.args[1]} {direction}, {PLACE})" + o.also(f"{o.args[1]} IS NOT NULL")
    )


def _list(o: _Operands) -> str:
    """All values in order, from which one is chosen."""
    return f"array_agg({o.args[0]} ORDER BY {o.args[0]} ASC)" + o.also(f"{o.args[0]} IS NOT NULL")


def _of_numbers(o: _Operands) -> str:
    """All values in order, as doubles."""
    return f"array_agg({_double(o, 0)} ORDER BY {o.args[0]} ASC)" + o.also(f"{o.args[0]} IS NOT NULL")


def _double(o: _Operands, place: int) -> str:
    return f"CAST({o.args[place]} AS DOUBLE)"


def _both_known(o: _Operands) -> str:
    return o.also(f"{o.args[0]} IS NOT NULL AND {o.args[1]} IS NOT NULL")


def _regression(name: str) -> Statement:
    """Of y by x, over the rows in which neither is NULL; a deviation of zero decides as in Spark."""

    def statement(o: _Operands) -> str:
        y, x, both = _double(o, 0), _double(o, 1), _both_known(o)
        count, xx, yy = f"count(*){both}", f"var_pop({x}){both}", f"var_pop({y}){both}"
        xy = f"covar_pop({y}, {x}){both}"
        slope = f"{xy} / {xx}"
        squared = f"({xy} / stddev_pop({x}){both} / stddev_pop({y}){both})"
        if name in ("sxx", "syy", "sxy"):
            mean = {"sxx": xx, "syy": yy, "sxy": xy}[name]
            return f"CASE WHEN {count} > 0 THEN {count} * {mean} END"
        if name == "slope":
            return f"CASE WHEN {xx} <> 0 THEN {slope} END"
        if name == "intercept":
            return f"CASE WHEN {xx} <> 0 THEN avg({y}){both} - {slope} * avg({x}){both} END"
        return f"CASE WHEN {xx} <> 0 THEN CASE WHEN {yy} = 0 THEN 1.0 ELSE {squared} * {squared} END END"

    return statement


def _array(o: _Operands) -> str:
    once = o.aggregate.distinct or o.aggregate.function == "collect_set"
    values = f"DISTINCT {o.args[0]} ORDER BY {o.args[0]}" if once else f"{o.args[0]} ORDER BY {o.order}"
    return f"array_agg({values})" + o.also(f"{o.args[0]} IS NOT NULL")


def _text(o: _Operands) -> str:
    return (
        f"array_agg({o.distinct}{o.args[0]}"
        + (")" if o.aggregate.distinct else f" ORDER BY {o.order})")
        + o.also(f"{o.args[0]} IS NOT NULL")
    )


STATEMENTS: dict[str, Statement] = {
    "count": _count,
    "approx_count_distinct": lambda o: f"count(DISTINCT {o.args[0]}){o.filter}",
    "sum": _sum,
    "avg": lambda o: average(o.aggregate.args[0], o.args[0], o.filter, distinct=o.distinct),
    "min": _plain("min"),
    "max": _plain("max"),
    "stddev": _of_doubles("stddev_samp"),
    "stddev_pop": _of_doubles("stddev_pop"),
    "variance": _of_doubles("var_samp"),
    "var_pop": _of_doubles("var_pop"),
    "corr": _corr,
    "covar_samp": _of_doubles("covar_samp"),
    "covar_pop": _of_doubles("covar_pop"),
    "count_if": lambda o: "count(*)" + o.also(o.args[0]),
    "skewness": _of_numbers,
    "kurtosis": _of_numbers,
    "regr_count": lambda o: "count(*)" + _both_known(o),
    "regr_avgx": lambda o: f"avg({_double(o, 1)})" + _both_known(o),
    "regr_avgy": lambda o: f"avg({_double(o, 0)})" + _both_known(o),
    **{f"regr_{name}": _regression(name) for name in ("sxx", "syy", "sxy", "slope", "intercept", "r2")},
    "mode": lambda o: f"array_agg({o.args[0]} ORDER BY {o.args[0]} ASC)" + o.also(f"{o.args[0]} IS NOT NULL"),
    "percentile_cont": _of_numbers,
    "percentile_disc": _of_numbers,
    "bool_and": _plain("bool_and"),
    "bool_or": _plain("bool_or"),
    "bit_and": _plain("bit_and"),
    "bit_or": _plain("bit_or"),
    "bit_xor": _plain("bit_xor"),
    "collect_list": _array,
    "collect_set": _array,
    "listagg": _text,
    "first": _edge("first_value"),
    "last": _edge("last_value"),
    "any_value": _edge("first_value"),
    "max_by": _by("DESC"),
    "min_by": _by("ASC"),
    "median": lambda o: (
        f"array_agg(CAST({o.args[0]} AS DOUBLE) ORDER BY {o.args[0]} ASC)" + o.also(f"{o.args[0]} IS NOT NULL")
    ),
    "percentile": lambda o: (
        f"array_agg(CAST({o.args[0]} AS DOUBLE) ORDER BY {o.args[0]} ASC)" + o.also(f"{o.args[0]} IS NOT NULL")
    ),
    "percentile_approx": _list,
}


def _fitting(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    """A sum as its type; NULL where it does not fit."""
    type_ = aggregate.type
    if type_.kind is Kind.DOUBLE or pa.types.is_floating(values.type):
        return values
    if type_.kind is not Kind.DECIMAL and pa.types.is_decimal(values.type):
        units = long_units(values.fill_null(0))
        if units is not None:
            return pa.array(units, mask=values.is_null().to_numpy(zero_copy_only=False))
    wide = pa.decimal256(76, values.type.scale if pa.types.is_decimal(values.type) else 0)
    limit = 10 ** (type_.precision - type_.scale) if type_.kind is Kind.DECIMAL else 2**63
    fits = pc.less(pc.abs(values.cast(wide)), pa.scalar(Decimal(limit), wide))
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def _divided(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    """An average of decimals from their sum and count; NULL of no values, and where it does not fit its type."""
    type_ = aggregate.type
    if type_.kind is not Kind.DECIMAL:
        return values
    scale = aggregate.args[0].type.scale
    quick = divided_in_longs(values, type_, 10 ** max(type_.scale - scale, 0)) if type_.scale >= scale else None
    if quick is not None:
        return quick
    found = []
    for made in values.to_pylist():
        units = None
        if made["n"]:
            units = CALCULATIONS["/"](units_of(made["s"], scale), scale, made["n"], 0, type_)
        found.append(None if units is None else number_of(units, type_.scale))
    return pa.array(found, arrow_type(type_))


def _extreme(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    return doubles_of(values) if aggregate.type.kind is Kind.DOUBLE else values


def _interpolated(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """Between the two elements around the place (n − 1) · share."""
    share = 0.5 if aggregate.function == "median" else float(str(aggregate.parameter))
    begin, count, values = _elements(lists)
    place = np.maximum(count - 1, 0) * share
    low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    at = np.minimum(begin, max(len(values) - 1, 0))
    padded = values if len(values) else np.zeros(1)
    below = padded[np.minimum(at + low, len(padded) - 1)]
    above = padded[np.minimum(at + high, len(padded) - 1)]
    with np.errstate(all="ignore"):
        between = np.where(low == high, below, (high - place) * below + (place - low) * above)
    return pa.array(between, mask=count == 0)


def _continuous(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """percentile_cont: from the other end if the order descends."""
    share, count, value_at = _ordered(aggregate, lists)
    place = np.maximum(count - 1, 0) * share
    low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    below, above = value_at(low), value_at(high)
    with np.errstate(all="ignore"):
        between = np.where(low == high, below, (high - place) * below + (place - low) * above)
    return pa.array(between, mask=count == 0)


def _stepwise(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """percentile_disc: the first value with at least this share of the group up to it."""
    share, count, value_at = _ordered(aggregate, lists)
    place = np.maximum(np.ceil(count * share).astype(np.int64) - 1, 0)
    return pa.array(value_at(place), mask=count == 0)


def _ordered(aggregate: Aggregate, lists: pa.Array) -> tuple[float, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The percentage, how many values each group has, and the values at given places of the order that is asked for."""
    assert isinstance(aggregate.parameter, tuple), "a percentage and a direction"
    share, descending = aggregate.parameter
    begin, count, values = _elements(lists)
    padded = values if len(values) else np.zeros(1)

    def value_at(place: np.ndarray) -> np.ndarray:
        at = np.maximum(count - 1 - place, 0) if descending else place
        found: np.ndarray = padded[np.minimum(begin + at, len(padded) - 1)]
        return found

    return share, count, value_at


def _moment(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """skewness and kurtosis, by the moments around the mean; NULL where all values are equal."""
    begin, count, values = _elements(lists)
    found: list[float | None] = []
    with np.errstate(all="ignore"):
        for first, n in zip(begin.tolist(), count.tolist(), strict=True):
            mine = values[first : first + n]
            apart = mine - mine.mean() if n else mine
            m2 = float((apart**2).sum())
            if not n or m2 == 0:
                found.append(None)
            elif aggregate.function == "skewness":
                found.append(float(np.sqrt(n) * (apart**3).sum() / np.sqrt(m2**3)))
            else:
                found.append(float(n * (apart**4).sum() / m2**2 - 3.0))
    return pa.array(found, pa.float64())


def _most_frequent(_: Aggregate, lists: pa.Array) -> pa.Array:
    """mode: of values that occur equally often the least."""
    begin, count = _spans(lists)
    numbers = codes(pa.table({"v": lists.values}))
    of = np.repeat(np.arange(len(count)), count)
    at = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(len(of))
    mine = numbers[at]
    is_first = np.append(True, (mine[1:] != mine[:-1]) | (of[1:] != of[:-1]))[: len(of)]
    starts = np.flatnonzero(is_first)
    lengths = np.diff(np.append(starts, len(of)))
    best = np.lexsort((starts, -lengths, of[starts]))  # of each list the longest stretch of equal values, the first one
    best = best[np.append(True, np.diff(of[starts][best]) > 0)[: len(best)]]
    places = np.full(len(count), -1, np.int64)
    places[of[starts[best]]] = at[starts[best]]
    return lists.values.take(pa.array(places, mask=places < 0))


def _elements(lists: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    begin, count = _spans(lists)
    return begin, count, lists.values.to_numpy(zero_copy_only=False).astype(np.float64)


def _spans(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of each list begin, and how many there are; NULL has none."""
    offsets = lists.offsets.to_numpy()
    there = lists.is_valid().to_numpy(zero_copy_only=False)
    return offsets[:-1].astype(np.int64), np.where(there, np.diff(offsets), 0).astype(np.int64)


def _discrete(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """The first element with at least this share of the group up to it."""
    begin, count = _spans(lists)
    place = np.maximum(np.ceil(count * float(str(aggregate.parameter))).astype(np.int64) - 1, 0)
    at = np.where(count == 0, -1, begin + place)
    return lists.values.take(pa.array(at, mask=at < 0))


def _never_null(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """The list of no values is empty."""
    wanted = lists.cast(arrow_type(aggregate.type))
    return pc.if_else(wanted.is_valid(), wanted, pa.scalar([], wanted.type))


def _joined(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    if aggregate.distinct:
        backwards = bool(aggregate.directions) and aggregate.directions[0].descending
        ordered = [None if v is None else sorted(v, reverse=backwards) for v in lists.to_pylist()]
        lists = pa.array(ordered, pa.list_(pa.string()))
    texts = pc.binary_join(lists.cast(pa.list_(pa.string())), str(aggregate.parameter or ""))
    _, count = _spans(lists)
    return pc.if_else(pa.array(count > 0), texts, pa.scalar(None, pa.string()))


_MENDED: dict[str, Mend] = {
    "sum": _fitting,
    "avg": _divided,
    "min": _extreme,
    "max": _extreme,
    "median": _interpolated,
    "percentile": _interpolated,
    "percentile_approx": _discrete,
    "percentile_cont": _continuous,
    "percentile_disc": _stepwise,
    "skewness": _moment,
    "kurtosis": _moment,
    "mode": _most_frequent,
    "listagg": _joined,
    "collect_list": _never_null,
    "collect_set": _never_null,
}
