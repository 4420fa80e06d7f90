"""The finish of a query, over the projected results of its cores: what each operator of `weir.plan.finishes` does.

Expressions are evaluated by `weir.values`, as everywhere; joins look for candidates as recomputed ones do
(`weir.answer.pairing`); groups, window functions and orders are DataFusion's (`weir.answer.groups`,
`weir.answer.window_functions`). An operator that two others read is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Comparison, Expression, IsNull, Literal, Param, conjunction, disjunction
from weir.algebra.schema import BIGINT, Column
from weir.answer import engine
from weir.answer.groups import grouped
from weir.answer.pairing import paired, pairs
from weir.answer.row_codes import common, different, less, without
from weir.answer.views import require_room
from weir.answer.window_functions import windowed
from weir.errors import FetchError
from weir.plan.finishes import (
    OWN,
    Attached,
    Compared,
    Computed,
    CoreRows,
    Extended,
    Finish,
    Grouped,
    Kept,
    Numbered,
    Once,
    OneRow,
    Paired,
    Sorted,
    Together,
    Versions,
    Windowed,
)
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate, truth

VersionsOf = Callable[[Versions], pa.Table]


def finished(
    finish: Finish,
    tables: Sequence[pa.Table],
    output: Sequence[Column],
    constants: Mapping[str, object] | None = None,
    versions: VersionsOf | None = None,
) -> pa.Table:
    """The answer; its columns are called and typed as `output` says."""
    found = _Finishing(tables, constants or {}, versions).rows(finish)
    fields = [pa.field(c.name, arrow_type(c.type)) for c in output]
    arrays = [column.cast(field.type) for column, field in zip(found.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


class _Finishing:
    """One evaluation of a finish."""

    def __init__(
        self, tables: Sequence[pa.Table], constants: Mapping[str, object], versions: VersionsOf | None
    ) -> None:
        self.tables = tables
        self.constants = constants
        self.versions = versions
        self._known: dict[int, pa.Table] = {}  # by id() of the operator
        self._made = 0  # bytes of what expressions have made
        self._operators: dict[type[object], Callable[..., pa.Table]] = {
            Computed: self._computed,
            Extended: self._extended,
            Kept: self._kept,
            Paired: self._paired,
            Numbered: self._numbered,
            Attached: self._attached,
            Grouped: lambda f: grouped(self.rows(f.input), f.keys, f.aggregates),
            Windowed: lambda f: windowed(self.rows(f.input), f.calls),
            Sorted: self._sorted,
            Together: self._together,
            Once: lambda f: different(self.rows(f.input)),
            Compared: self._compared,
        }

    def rows(self, finish: Finish) -> pa.Table:
        """The rows that an operator gives."""
        if isinstance(finish, CoreRows):
            return self.tables[finish.core]
        if isinstance(finish, OneRow):
            return pa.table({"row": [True]})
        if isinstance(finish, Versions):
            assert self.versions is not None, "whoever asks for an answer knows its tables"
            return self.versions(finish)
        key = id(finish)
        if key not in self._known:
            self._known[key] = self._operators[type(finish)](finish)
        return self._known[key]

    def _value(self, e: Expression, rows: pa.Table) -> pa.Array:
        made = evaluate(e, rows, self.constants).cast(arrow_type(e.type))
        self._made += 0 if isinstance(e, ColumnRef) else made.nbytes
        require_room(self._made, "what the expressions of the finish make")
        return made

    def _computed(self, finish: Computed) -> pa.Table:
        rows = self.rows(finish.input)
        return pa.table({name: self._value(e, rows) for name, e in finish.columns})

    def _extended(self, finish: Extended) -> pa.Table:
        rows = self.rows(finish.input)
        return rows.append_column(finish.name, self._value(finish.value, rows))

    def _kept(self, finish: Kept) -> pa.Table:
        rows = self.rows(finish.input)
        return rows.filter(pa.array(truth(finish.condition, rows, self.constants)))

    def _paired(self, finish: Paired) -> pa.Table:
        left, right = self.rows(finish.left), self.rows(finish.right)
        return paired(finish.kind, left, right, finish.condition, self.constants)

    def _numbered(self, finish: Numbered) -> pa.Table:
        rows = self.rows(finish.input)
        return rows.append_column(finish.name, pa.array(np.arange(rows.num_rows)))

    # Subqueries.

    def _attached(self, finish: Attached) -> pa.Table:
        rows, found = self.rows(finish.input), self.rows(finish.found)
        if finish.kind == "in":
            values = self._among(finish, rows, found)
        elif finish.kind == "exists":
            values = pa.array(_has(finish, rows, found))
        else:
            values = _scalar(finish, rows, found)
        return rows.append_column(finish.name, values.cast(arrow_type(finish.type.type)))

    def _among(self, finish: Attached, rows: pa.Table, found: pa.Table) -> pa.Array:
        """Three-valued: TRUE where the value is found, else NULL where it or one of the set is NULL, else FALSE."""
        names = [f"{_VALUE} {k}" for k in range(len(finish.tests))]
        of = [test.right.name for test in finish.tests if isinstance(test.right, ColumnRef)]
        inner = pa.table([found.column(name) for name in of], names=names)
        tests: list[Expression] = [
            replace(test, right=ColumnRef(OWN, name, test.right.type))
            for test, name in zip(finish.tests, names, strict=True)
        ]
        same: list[Expression] = []
        if finish.number is not None:
            inner = inner.append_column(_NUMBER, found.column(finish.number))
            same = [Comparison("=", ColumnRef(OWN, finish.number, BIGINT), ColumnRef(OWN, _NUMBER, BIGINT))]
        inner = different(inner)
        true = self._has_partner(rows, inner, [*same, *tests])
        args = rows.select([test.left.name for test in finish.tests if isinstance(test.left, ColumnRef)])
        if len(tests) == 1:
            any_ = _has(finish, rows, found)
            any_null = _has(finish, rows, found.filter(found.column(finish.value).is_null()))
            return pa.array(true, mask=~true & any_ & (_some_null(args) | any_null))
        # Only where a NULL is on either side can rows be neither equal nor different.
        maybe: list[Expression] = [*same, *(disjunction([test, IsNull(test)]) for test in tests)]
        unknown = self._has_partner(rows, inner.filter(pa.array(_some_null(inner.select(names)))), maybe)
        with_null = np.flatnonzero(_some_null(args) & ~unknown)
        unknown[with_null] = self._has_partner(rows.take(pa.array(with_null)), inner, maybe)
        return pa.array(true, mask=~true & unknown)

    def _has_partner(self, rows: pa.Table, inner: pa.Table, terms: Sequence[Expression]) -> np.ndarray:
        """For each row, whether there is one inside for which all terms are true."""
        first, _ = pairs(rows, inner, conjunction(list(terms)), self.constants)
        has = np.zeros(rows.num_rows, bool)
        has[first] = True
        return has

    # Order.

    def _sorted(self, finish: Sorted) -> pa.Table:
        rows = self.rows(finish.input)
        keys = {f"k{k}": engine.alike(rows.column(name)) for k, (name, _) in enumerate(finish.keys)}
        start, count = self._number(finish.start) or 0, self._number(finish.count)
        if keys and rows.num_rows > 1:
            order = [
                f"k{k} {'DESC' if d.descending else 'ASC'} NULLS {'FIRST' if d.nulls_first else 'LAST'}"
                for k, (_, d) in enumerate(finish.keys)
            ]
            cut = "" if count is None else f" LIMIT {min(start + count, rows.num_rows)}"
            statement = f"SELECT {engine.PLACE} FROM t ORDER BY {', '.join(order)}, {engine.PLACE}{cut}"
            places = engine.run(statement, {"t": engine.with_place(pa.table(keys))})
            rows = rows.take(places.column(0).combine_chunks())
        return rows.slice(start, count).select(list(finish.shown))

    def _number(self, constant: Literal | Param | None) -> int | None:
        if constant is None:
            return None
        value = self.constants[constant.name] if isinstance(constant, Param) else constant.value
        if value is None:
            return None
        number = int(str(value))
        if number < 0:
            raise FetchError(f"LIMIT and OFFSET take 0 or more rows, got {number}")
        return number

    # Sets.

    def _together(self, finish: Together) -> pa.Table:
        tables = [self.rows(part) for part in finish.inputs]
        return pa.concat_tables([_like(table, tables[0]) for table in tables])

    def _compared(self, finish: Compared) -> pa.Table:
        left = self.rows(finish.left)
        right = _like(self.rows(finish.right), left)
        if finish.kind == "except":
            return less(left, right) if finish.all else different(without(left, right))
        return common(left, right) if finish.all else different(without(left, right, inside=True))


_VALUE, _NUMBER = "value inside", "number inside"  # columns of a subquery's rows while they are compared


def _like(table: pa.Table, first: pa.Table) -> pa.Table:
    """The same rows under the names and types of the first operand of a set operation."""
    return table.rename_columns(first.column_names).cast(first.schema)


def _some_null(table: pa.Table) -> np.ndarray:
    """The rows in which a value is NULL."""
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        found |= column.is_null().to_numpy()
    return found


def _has(finish: Attached, rows: pa.Table, found: pa.Table) -> np.ndarray:
    """Whether the subquery has rows, for each row around it."""
    if finish.number is None:
        return np.full(rows.num_rows, found.num_rows > 0)
    numbers = found.column(finish.number).to_numpy()
    has: np.ndarray = np.isin(rows.column(finish.number).to_numpy(), numbers)
    return has


def _scalar(finish: Attached, rows: pa.Table, found: pa.Table) -> pa.Array:
    values = found.column(finish.value).combine_chunks()
    if finish.number is None:
        if len(values) > 1:
            raise _too_many(len(values))
        return values.take(pa.array(np.zeros(rows.num_rows, np.int64), mask=np.full(rows.num_rows, not len(values))))
    numbers = found.column(finish.number).to_numpy()
    place = np.full(int(rows.num_rows), -1, np.int64)
    count = np.bincount(numbers, minlength=rows.num_rows)
    if int(count.max(initial=0)) > 1:
        raise _too_many(int(count.max()))
    place[numbers] = np.arange(len(numbers))
    mine = place[rows.column(finish.number).to_numpy()]
    return values.take(pa.array(mine, mask=mine < 0))


def _too_many(count: int) -> FetchError:
    return FetchError(
        f"a subquery that stands for one value has {count:,} rows",
        hint="use an aggregate such as max(), add LIMIT 1, or write IN",
    )
