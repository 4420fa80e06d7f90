"""Vectorised evaluation of scalar expressions over the rows of one source.

It computes derived attributes for the index, and at fetch the predicate (recompute) and the projection. Every
node is one pass of NumPy over pairs (values, valid), or of pyarrow.compute for strings; no loop over rows.
Logic is SQL's three-valued one: AND is false if any part is false, else NULL if any part is NULL.

Cost: under 1 ms for each numeric comparison of a million rows, 2 ms when NULLs occur. How rows are compared
shares no code with `weir.boxes.templates`, which decides the same predicates by key intervals, so that the two
check each other; boxes call this file only for parts of a predicate that have no column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from weir.algebra import nodes
from weir.algebra.nodes import ColumnRef, Expression, Param
from weir.algebra.schema import BOOLEAN, Kind
from weir.values import arithmetic as calculation
from weir.values import payloads
from weir.values.calls import call
from weir.values.casts import cast
from weir.values.columns import Bools, Operand, column_operand, constant_operand, to_arrow
from weir.values.comparisons import compare, like
from weir.values.room import room
from weir.values.sets import contains

Lookup = Callable[[ColumnRef | Param], Operand]


def evaluate(e: Expression, rows: pa.Table, constants: Mapping[str, object] | None = None) -> pa.Array:
    """The value of `e` for every row, of the Arrow type of `e.type`.

    `constants` are the values of its params, given as `Literal.value` is.
    """
    with room():
        return to_arrow(_operand(e, _row_lookup(rows, constants or {})), rows.num_rows)


def truth(e: Expression, rows: pa.Table, constants: Mapping[str, object] | None = None) -> Bools:
    """Where the predicate `e` is TRUE: what WHERE keeps."""
    with room():
        return _true(_operand(e, _row_lookup(rows, constants or {})), rows.num_rows)


def evaluate_constants(e: Expression, constants: pa.Table) -> pa.Array:
    """The value of an expression without columns, for every row of `constants`; its params are columns."""
    with room():
        return to_arrow(_spread(_operand(e, _constants_lookup(constants)), constants.num_rows), constants.num_rows)


def truth_of_constants(e: Expression, constants: pa.Table) -> Bools:
    """Where a predicate without columns is TRUE, for every row of `constants`."""
    with room():
        return _true(_operand(e, _constants_lookup(constants)), constants.num_rows)


def _row_lookup(rows: pa.Table, constants: Mapping[str, object]) -> Lookup:
    read: dict[str, Operand] = {}

    def lookup(name: ColumnRef | Param) -> Operand:
        if isinstance(name, Param):
            return constant_operand(constants[name.name], name.type)
        if name.name not in read:
            read[name.name] = column_operand(rows.column(name.name), name.type)
        return read[name.name]

    return lookup


def _constants_lookup(constants: pa.Table) -> Lookup:
    def lookup(name: ColumnRef | Param) -> Operand:
        assert isinstance(name, Param), f"{name} in an expression of constants"
        return column_operand(constants.column(name.name), name.type, constant=True)

    return lookup


def _spread(operand: Operand, count: int) -> Operand:
    """An operand over a table of constants: it is as long as the table, or a constant if only literals made it."""
    return Operand(operand.values, operand.valid, operand.type, len(operand.values) == 1 and count != 1)


def _true(operand: Operand, count: int) -> Bools:
    if operand.kind is Kind.NULL:
        return np.zeros(count, bool)
    known: Bools = operand.values if operand.valid is None else operand.values & operand.valid
    return np.repeat(known, count) if len(known) == 1 and count != 1 else known


def _operand(e: Expression, lookup: Lookup) -> Operand:
    """The expression's values with validity of the same length: a NULL constant would leave validity of length 1."""
    found = _evaluated(e, lookup)
    if found.valid is None or len(found.valid) == len(found.values):
        return found
    assert len(found.valid) == 1, f"{len(found.values)} values, validity for {len(found.valid)}"
    return replace(found, valid=np.repeat(found.valid, len(found.values)))


def _evaluated(e: Expression, lookup: Lookup) -> Operand:
    if isinstance(e, (ColumnRef, Param)):
        return lookup(e)
    if isinstance(e, nodes.Literal):
        return constant_operand(e.value, e.type)
    if isinstance(e, nodes.Comparison):
        return compare(e.op, _operand(e.left, lookup), _operand(e.right, lookup))
    if isinstance(e, (nodes.And, nodes.Or)):
        return _connect([_logical(_operand(arg, lookup)) for arg in e.args], isinstance(e, nodes.And))
    if isinstance(e, nodes.Not):
        arg = _logical(_operand(e.arg, lookup))
        return Operand(~arg.values, arg.valid, BOOLEAN, arg.constant)
    if isinstance(e, nodes.IsNull):
        arg = _operand(e.arg, lookup)
        values = np.zeros(len(arg.values), bool) if arg.valid is None else ~arg.valid
        return Operand(values, None, BOOLEAN, arg.constant)
    if isinstance(e, nodes.Like):
        return like(_operand(e.arg, lookup), _operand(e.pattern, lookup))
    if isinstance(e, nodes.InSet):
        return contains(_operand(e.arg, lookup), _operand(e.items, lookup))
    if isinstance(e, nodes.Arithmetic):
        return calculation.arithmetic(e.op, _operand(e.left, lookup), _operand(e.right, lookup), e.type)
    if isinstance(e, nodes.Threshold):
        return calculation.threshold(e.op, _operand(e.left, lookup), _operand(e.right, lookup))
    if isinstance(e, nodes.Negate):
        return calculation.negate(_operand(e.arg, lookup), e.type)
    if isinstance(e, nodes.Call):
        return call(e.function, [_operand(arg, lookup) for arg in e.args], e.type)
    if isinstance(e, nodes.Field):
        return payloads.field(_operand(e.arg, lookup), e.name, e.type)
    if isinstance(e, nodes.Element):
        return payloads.element(_operand(e.arg, lookup), e.key, e.type)
    if isinstance(e, nodes.JsonField):
        return payloads.json_field(_operand(e.arg, lookup), e.path)
    assert isinstance(e, nodes.Cast), f"{type(e).__name__} is not evaluated row by row"
    return cast(_operand(e.arg, lookup), e.type)


def _logical(operand: Operand) -> Operand:
    if operand.kind is Kind.NULL:
        return Operand(operand.values.astype(bool), operand.valid, BOOLEAN, operand.constant)
    return operand


def _connect(args: list[Operand], is_and: bool) -> Operand:
    """AND by its false parts; OR by its true ones. The deciding value wins over NULL, NULL over the other."""
    constant = all(arg.constant for arg in args)
    combine = np.logical_and if is_and else np.logical_or
    values = args[0].values
    for arg in args[1:]:
        values = combine(values, arg.values)
    if all(arg.valid is None for arg in args):
        return Operand(values, None, BOOLEAN, constant)
    decided: Bools = np.zeros(1, bool)  # some part is known to be false (AND) or true (OR)
    known: Bools = np.ones(1, bool)  # all parts are known
    for arg in args:
        deciding = ~arg.values if is_and else arg.values
        decided = decided | (deciding if arg.valid is None else deciding & arg.valid)
        known = known if arg.valid is None else known & arg.valid
    return Operand(~decided if is_and else decided, decided | known, BOOLEAN, constant)
