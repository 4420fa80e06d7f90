"""What the evaluations of scalar functions are made of.

A function gets its operands and the type of its result. All have as many values or one, which stands for all; what
stands where a value is NULL means nothing. A *strict* function gives values only, and its result is NULL where one of
the operands is; `chosen` takes one of two operands for each row; `by_pattern` goes once through the rows of each
distinct combination of texts that are usually constants; `mapped` asks the value for constants of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import number_of
from weir.algebra.schema import STRING, DataType, Kind
from weir.store.row_files import arrow_type
from weir.values.columns import IN_ARROW, Bools, Operand, both_valid, column_operand, distinct_rows
from weir.values.room import TEXTS_BYTES_MAX, require

Evaluation = Callable[[Sequence[Operand], DataType], Operand]
Values = Callable[..., Any]  # of operands: the values that come out


def size_of(args: Sequence[Operand]) -> int:
    """How many values the result has: a single value stands for all."""
    return next((len(arg.values) for arg in args if len(arg.values) != 1), 1)


def spread(arg: Operand, count: int) -> Operand:
    """An operand with as many values."""
    if len(arg.values) == count:
        return arg
    at = np.zeros(count, np.int64)
    values = arg.values.take(pa.array(at)) if arg.kind in IN_ARROW else arg.values[at]
    return Operand(values, None if arg.valid is None else arg.valid[at], arg.type, arg.constant)


def strict(values: Values) -> Evaluation:
    """A function that is NULL exactly where an operand is; its values are numbers, or texts in an Arrow array."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        count, constant = size_of(args), all(arg.constant for arg in args)
        found = values(*args)
        if type_.kind is Kind.STRING:
            return text_operand(found, constant)
        valid = both_valid(*(arg if arg.valid is None else spread(arg, count) for arg in args))
        return Operand(found, valid, type_, constant)

    return evaluated


def text_operand(values: pa.Array, constant: bool) -> Operand:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    valid = None if values.null_count == 0 else values.is_valid().to_numpy(zero_copy_only=False)
    return Operand(values, valid, STRING, constant)


def by_pattern(arg: Operand, patterns: Sequence[Operand], values: Callable[..., pa.Array]) -> pa.Array:
    """What texts that are usually constants make of an operand: once for each distinct combination of them."""
    count = size_of([arg, *patterns])
    columns = [p.values for p in patterns]
    if all(len(column) == 1 for column in columns):
        return values(arg, [column[0].as_py() for column in columns])
    arg, *wide = (spread(o, count) for o in (arg, *patterns))
    firsts, which = distinct_rows([p.values for p in wide])
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(len(firsts) + 1))
    parts = []
    for first, begin, end in zip(firsts, ends[:-1], ends[1:], strict=True):
        at = order[begin:end]
        part = arg.values.take(pa.array(at)) if arg.kind is Kind.STRING else arg.values[at]
        parts.append(values(Operand(part, None, arg.type, False), [p.values[first].as_py() for p in wide]))
    if not parts:
        return values(arg, [None for _ in patterns])
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))


def chosen(mask: Bools, then: Operand, other: Operand) -> Operand:
    """For each row `then` where the mask is set, else `other`; both are of one type."""
    count = max(size_of([then, other]), len(mask)) if min(len(then.values), len(other.values), len(mask)) else 0
    mask = mask if len(mask) == count else np.repeat(mask, count)
    then, other = spread(then, count), spread(other, count)
    if other.kind in IN_ARROW:
        return replace(text_operand(pc.if_else(pa.array(mask), then.values, other.values), False), type=other.type)
    valid = None
    if then.valid is not None or other.valid is not None:
        known = [np.ones(count, bool) if arg.valid is None else arg.valid for arg in (then, other)]
        valid = np.where(mask, *known)
    return Operand(np.where(mask, then.values, other.values), valid, other.type, False)


def true(condition: Operand) -> Bools:
    values: Bools = condition.values.astype(bool)
    return values if condition.valid is None else values & condition.valid


def known(arg: Operand) -> Bools:
    return np.ones(len(arg.values), bool) if arg.valid is None else arg.valid


def choice(choose: Callable[[Sequence[Operand]], Operand]) -> Evaluation:
    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        found = choose(args)
        return Operand(found.values, found.valid, type_, all(arg.constant for arg in args))

    return evaluated


def mapped(value: Callable[..., object], *, sees_nulls: bool = False) -> Evaluation:
    """A function by its value for constants, some microseconds a row; where only texts go in, once for each of them."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        constant = all(arg.constant for arg in args)
        size = size_of(args)
        columns = [python_values(arg) for arg in args]
        rows = zip(*(repeat(c[0], size) if len(c) == 1 else c for c in columns), strict=False)
        found: list[object] = []
        seen: dict[tuple[object, ...], object] = {}
        remember = all(arg.kind is Kind.STRING for arg in args if len(arg.values) > 1)
        chars = 0
        for row in rows:
            if remember and row in seen:
                made = seen[row]
            else:
                made = None if not sees_nulls and None in row else value(*row)
                if remember:
                    seen[row] = made
            if isinstance(made, str):
                chars += len(made)
                if chars > TEXTS_BYTES_MAX:
                    require("a function", chars)
            found.append(made)
        return operand_of(found, type_, constant)

    return evaluated


def operand_of(found: list[object], type_: DataType, constant: bool) -> Operand:
    """Python values as an operand; those that a type cannot hold are NULL."""
    if type_.kind in (Kind.INT, Kind.BIGINT):
        limit = 1 << type_.bits - 1
        found = [v if isinstance(v, int) and -limit <= v < limit and v != -(2**63) else None for v in found]
    elif type_.kind is Kind.DECIMAL:
        top = Decimal(10) ** (type_.precision - type_.scale)
        found = [v if isinstance(v, Decimal) and v.copy_abs() < top else None for v in found]
    return column_operand(pa.array(found, arrow_type(type_)), type_, constant=constant)


def python_values(arg: Operand) -> list[Any]:
    """The values of an operand as `Literal.value` has them; times stay days and microseconds."""
    if arg.kind is Kind.STRING:
        return arg.values.to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped
    found: list[Any] = arg.values.tolist()
    if arg.kind is Kind.DECIMAL:
        found = [number_of(v, arg.type.scale) for v in found]
    if arg.valid is None:
        return found
    valid = np.broadcast_to(arg.valid, len(found)).tolist()
    return [v if ok else None for v, ok in zip(found, valid, strict=True)]
