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
from weir.answer.pairing import PAIRS_MAX, paired, pairs
from weir.answer.row_codes import common, different, less, without
from weir.answer.views import require_room
from weir.answer.window_functions import windowed
from weir.errors import FetchError
from weir.plan import finishes
from weir.plan.finishes import OWN, Finish, inputs_of
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate, truth

VersionsOf = Callable[[finishes.Versions], pa.Table]


def finished(
    finish: Finish,
    tables: Sequence[pa.Table],
    output: Sequence[Column],
    constants: Mapping[str, object] | None = None,
    versions: VersionsOf | None = None,
) -> pa.Table:
    """The answer; its columns are called and typed as `output` says."""
    found = Finishing(tables, constants or {}, versions).rows(finish)
    fields = [pa.field(c.name, arrow_type(c.type)) for c in output]
    arrays = [column.cast(field.type) for column, field in zip(found.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


class Finishing:
    """One evaluation of a finish.

    Where the answers of many queries are made at once (`weir.answer.many_finish`), `marks` are the columns that say
    whose row it is; here there are none.
    """

    def __init__(
        self, tables: Sequence[pa.Table], constants: Mapping[str, object], versions: VersionsOf | None
    ) -> None:
        self.tables = tables
        self.constants = constants
        self.versions = versions
        self._known: dict[int, pa.Table] = {}  # by id() of the operator
        self._made = 0  # bytes of what expressions have made
        self._operators: dict[type[object], Callable[..., pa.Table]] = {
            finishes.Computed: self._computed,
            finishes.Extended: self._extended,
            finishes.Kept: self._kept,
            finishes.Paired: self._paired,
            finishes.Numbered: self._numbered,
            finishes.Exploded: lambda f, rows: _exploded(rows, f.arrays, f.name, outer=f.outer),
            finishes.Attached: self._attached,
            finishes.Grouped: self._grouped,
            finishes.Windowed: self._windowed,
            finishes.Sorted: self._sorted,
            finishes.Together: self._together,
            finishes.Once: lambda f, rows: different(rows),
            finishes.Compared: self._compared,
        }

    def rows(self, finish: Finish) -> pa.Table:
        """The rows that an operator gives."""
        if isinstance(finish, finishes.CoreRows):
            return self.tables[finish.core]
        if isinstance(finish, finishes.OneRow):
            return pa.table({"row": [True]})
        if isinstance(finish, finishes.Versions):
            assert self.versions is not None, "whoever asks for an answer knows its tables"
            return self.versions(finish)
        key = id(finish)
        if key not in self._known:
            self._known[key] = self.made(finish, [self.rows(part) for part in inputs_of(finish)])
        return self._known[key]

    def made(self, finish: Finish, inputs: Sequence[pa.Table]) -> pa.Table:
        """What an operator makes of its inputs."""
        return self._operators[type(finish)](finish, *inputs)

    def marks(self, rows: pa.Table) -> tuple[str, ...]:
        """The columns that stay beside whatever is made of these rows, and come first."""
        return ()

    def evaluated(self, e: Expression, rows: pa.Table) -> pa.Array:
        """The value of an expression for every row."""
        return evaluate(e, rows, self.constants)

    def true(self, e: Expression, rows: pa.Table) -> np.ndarray:
        """Where a condition is true."""
        return truth(e, rows, self.constants)

    def _value(self, e: Expression, rows: pa.Table) -> pa.Array:
        made = self.evaluated(e, rows).cast(arrow_type(e.type))
        self._made += 0 if isinstance(e, ColumnRef) else made.nbytes
        require_room(self._made, "what the expressions of the finish make")
        return made

    def _computed(self, finish: finishes.Computed, rows: pa.Table) -> pa.Table:
        marked = {name: rows.column(name) for name in self.marks(rows)}
        return pa.table(marked | {name: self._value(e, rows) for name, e in finish.columns})

    def _extended(self, finish: finishes.Extended, rows: pa.Table) -> pa.Table:
        return rows.append_column(finish.name, self._value(finish.value, rows))

    def _kept(self, finish: finishes.Kept, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array(self.true(finish.condition, rows)))

    def _paired(self, finish: finishes.Paired, left: pa.Table, right: pa.Table) -> pa.Table:
        return paired(finish.kind, left, right, finish.condition, self.constants)

    def _numbered(self, finish: finishes.Numbered, rows: pa.Table) -> pa.Table:
        return rows.append_column(finish.name, pa.array(np.arange(rows.num_rows)))

    # Groups and windows.

    def _grouped(self, finish: finishes.Grouped, rows: pa.Table) -> pa.Table:
        return grouped(rows, (*self.marks(rows), *finish.keys), finish.aggregates)

    def _windowed(self, finish: finishes.Windowed, rows: pa.Table) -> pa.Table:
        marks = tuple(ColumnRef(OWN, name, BIGINT) for name in self.marks(rows))
        calls = [(name, replace(call, partition=(*call.partition, *marks))) for name, call in finish.calls]
        return windowed(rows, calls if marks else finish.calls)

    # Subqueries.

    def _attached(self, finish: finishes.Attached, rows: pa.Table, found: pa.Table) -> pa.Table:
        if finish.kind == "in":
            values = self._among(finish, rows, found)
        elif finish.kind == "exists":
            values = pa.array(_has(finish, rows, found))
        else:
            values = self._scalar(finish, rows, found)
        return rows.append_column(finish.name, values.cast(arrow_type(finish.type.type)))

    def _among(self, finish: finishes.Attached, rows: pa.Table, found: pa.Table) -> pa.Array:
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

    def _scalar(self, finish: finishes.Attached, rows: pa.Table, found: pa.Table) -> pa.Array:
        """The only value of the subquery, NULL if it has none."""
        values = found.column(finish.value).combine_chunks()
        if finish.number is None:
            if len(values) > 1:
                self.refuse_several(finish, rows, np.array([len(values)]))
            gone = np.full(rows.num_rows, not len(values))
            return values.take(pa.array(np.zeros(rows.num_rows, np.int64), mask=gone))
        numbers, mine = (table.column(finish.number).to_numpy() for table in (found, rows))
        size = 1 + max(int(numbers.max(initial=-1)), int(mine.max(initial=-1)))
        count = np.bincount(numbers, minlength=size)
        if int(count.max(initial=0)) > 1:
            self.refuse_several(finish, rows, count)
        place = np.full(size, -1, np.int64)
        place[numbers] = np.arange(len(numbers))
        place = place[mine]
        return values.take(pa.array(place, mask=place < 0))

    def refuse_several(self, finish: finishes.Attached, rows: pa.Table, count: np.ndarray) -> None:
        """Subqueries that stand for one value have several rows: so many, by the number of the row around them."""
        raise too_many(int(count.max()))

    def _has_partner(self, rows: pa.Table, inner: pa.Table, terms: Sequence[Expression]) -> np.ndarray:
        """For each row, whether there is one inside for which all terms are true."""
        first, _ = pairs(rows, inner, conjunction(list(terms)), self.constants)
        has = np.zeros(rows.num_rows, bool)
        has[first] = True
        return has

    # Order.

    def _sorted(self, finish: finishes.Sorted, rows: pa.Table) -> pa.Table:
        keys = sort_keys(rows, finish)
        start, count = self._number(finish.start) or 0, self._number(finish.count)
        if keys and rows.num_rows > 1:
            rows = rows.take(places_in_order(keys, finish, None if count is None else start + count))
        return rows.slice(start, count).select(list(finish.shown))

    def _number(self, constant: Literal | Param | None) -> int | None:
        if constant is None:
            return None
        value = self.constants[constant.name] if isinstance(constant, Param) else constant.value
        if value is None:
            return None
        number = int(str(value))
        if number < 0:
            raise negative(number)
        return number

    # Sets.

    def _together(self, finish: finishes.Together, *tables: pa.Table) -> pa.Table:
        return pa.concat_tables([_like(table, tables[0]) for table in tables])

    def _compared(self, finish: finishes.Compared, left: pa.Table, right: pa.Table) -> pa.Table:
        right = _like(right, left)
        if finish.kind == "except":
            return less(left, right) if finish.all else different(without(left, right))
        return common(left, right) if finish.all else different(without(left, right, inside=True))


_VALUE, _NUMBER = "value inside", "number inside"  # columns of a subquery's rows while they are compared


def sort_keys(rows: pa.Table, finish: finishes.Sorted) -> dict[str, pa.Array]:
    """What decides about the order of rows."""
    return {f"k{k}": engine.alike(rows.column(name)) for k, (name, _) in enumerate(finish.keys)}


def places_in_order(keys: Mapping[str, pa.Array], finish: finishes.Sorted, most: int | None) -> pa.Array:
    """The places of the rows with these keys in order, so many of them; other columns than keys come before them."""
    order = [
        f"k{k} {'DESC' if d.descending else 'ASC'} NULLS {'FIRST' if d.nulls_first else 'LAST'}"
        for k, (_, d) in enumerate(finish.keys)
    ]
    first = [engine.quoted(name) for name in keys][: len(keys) - len(order)]
    table = engine.with_place(pa.table(dict(keys)))
    cut = "" if most is None else f" LIMIT {min(most, table.num_rows)}"
    statement = f"SELECT {engine.PLACE} FROM t ORDER BY {', '.join([*first, *order])}, {engine.PLACE}{cut}"
    return engine.run(statement, {"t": table}).column(0).combine_chunks()


def negative(number: int) -> FetchError:
    """A LIMIT or an OFFSET of less than no rows."""
    return FetchError(f"LIMIT and OFFSET take 0 or more rows, got {number}")


def _like(table: pa.Table, first: pa.Table) -> pa.Table:
    """The same rows under the names and types of the first operand of a set operation."""
    return table.rename_columns(first.column_names).cast(first.schema)


def _exploded(rows: pa.Table, arrays: str, name: str, *, outer: bool) -> pa.Table:
    lists = rows.column(arrays).combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    there = lists.is_valid().to_numpy(zero_copy_only=False)
    found = np.where(there, np.diff(offsets), 0)
    count = np.maximum(found, 1) if outer else found
    if int(count.sum()) > PAIRS_MAX:
        raise FetchError(f"explode() would make {int(count.sum()):,} rows, at most {PAIRS_MAX:,} are allowed")
    of = np.repeat(np.arange(len(count)), count)
    place = offsets[:-1][of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    values = lists.values.take(pa.array(place, mask=found[of] == 0))
    return rows.drop_columns([arrays]).take(pa.array(of)).append_column(name, values)


def _some_null(table: pa.Table) -> np.ndarray:
    """The rows in which a value is NULL."""
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        found |= column.is_null().to_numpy()
    return found


def _has(finish: finishes.Attached, rows: pa.Table, found: pa.Table) -> np.ndarray:
    """Whether the subquery has rows, for each row around it."""
    if finish.number is None:
        return np.full(rows.num_rows, found.num_rows > 0)
    numbers = found.column(finish.number).to_numpy()
    has: np.ndarray = np.isin(rows.column(finish.number).to_numpy(), numbers)
    return has


def too_many(count: int) -> FetchError:
    """A subquery that stands for one value has so many."""
    return FetchError(
        f"a subquery that stands for one value has {count:,} rows",
        hint="use an aggregate such as max(), add LIMIT 1, or write IN",
    )
