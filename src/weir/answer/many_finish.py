"""The finish of many queries of one shape at once: thousands of answers by one evaluation.

The tables of `weir.answer.finish` have one more column, SLOT, the first: whose row it is, by its place among the
queries that are asked for. It is one more key of whatever looks at several rows: joins, groups, windows, orders, sets.
What is the same for all queries (a table's versions, SELECT without FROM, a common core) has no such column, until it
meets rows that have, or a constant of a query.

Operators keep the order that the rows of one query have among each other, so what an order leaves open (the first
value, ties of a LIMIT) is decided as for the query alone.

A query that cannot be answered does not spoil the others. What is known to be one query's (a negative LIMIT, a
subquery with two rows) is put down to it; anything else that fails is tried by halves of the queries. So is what would
be too large for all of them together.

Cost: that of one query with all the rows. Up to TRIALS_MAX evaluations if some fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.nodes import (
    ColumnRef,
    Expression,
    Literal,
    Param,
    children,
    walk,
    with_children,
)
from weir.algebra.schema import Column
from weir.answer.candidates import KeyCodes
from weir.answer.finish import Finishing, VersionsOf, negative, places_in_order, sort_keys, too_many
from weir.answer.groups import grouped
from weir.answer.pairing import paired
from weir.answer.slot_marks import lifted, needs_marks
from weir.answer.slot_values import SLOT, Asked, Constants, Places, SlotValues, split
from weir.answer.views import qualified, require_room
from weir.plan.finishes import (
    Attached,
    Finish,
    Grouped,
    Paired,
    Sorted,
)
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate

TRIALS_MAX = 4_096  # evaluations of parts of the queries that are asked for
_OTHER = "slot of other row"  # SLOT of the right side of a join


class ManyAnswers(NamedTuple):
    """The answers of many queries."""

    table: pa.Table  # SLOT, ascending, and the columns of the answer
    failed: dict[int, str]  # queries that have no answer, and why; none of their rows are in the table


def finished_many(
    finish: Finish,
    tables: Sequence[pa.Table],
    output: Sequence[Column],
    asked: Asked,
    now_us: int,
    versions: VersionsOf | None = None,
) -> ManyAnswers:
    """The answers; their columns are called and typed as `output` says.

    `tables` are the projected results of each core, with a column SLOT of numbers of `asked.slots`; those of a core
    that `finish` calls common have none.
    """
    fields = [pa.field(SLOT, pa.int64()), *(pa.field(c.name, arrow_type(c.type)) for c in output)]
    schema = pa.schema(fields)

    def answer(part: Asked, tables: Sequence[pa.Table]) -> tuple[pa.Table, dict[int, str]]:
        finishing = _ManyFinishing(tables, SlotValues(part.constants, now_us), versions)
        found = finishing.marked(finishing.rows(finish))
        arrays = [column.cast(field.type) for column, field in zip(found.columns, fields, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema), finishing.failed

    return _by_halves(asked, tables, schema, answer)


def projected_many(
    core_columns: Sequence[tuple[str, Expression]], rows: pa.Table, slot_of_row: Places, asked: Asked, now_us: int
) -> ManyAnswers:
    """The projected columns of a core over rows of many queries, which have columns `source.column`.

    `slot_of_row` says whose result a row is, by a number of `asked.slots`. Results are by query, those of one in the
    order of their rows; where nothing is to be evaluated (`is_taken`) they are as the rows are, and nobody is asked.
    """
    schema = pa.schema([(SLOT, pa.int64()), *((name, arrow_type(e.type)) for name, e in core_columns)])
    if is_taken(core_columns):
        taken = [evaluate(qualified(e), rows, {}) for _, e in core_columns]
        cast = [array.cast(field.type) for array, field in zip(taken, list(schema)[1:], strict=True)]
        return ManyAnswers(pa.Table.from_arrays([pa.array(slot_of_row), *cast], schema=schema), {})

    def answer(part: Asked, tables: Sequence[pa.Table]) -> tuple[pa.Table, dict[int, str]]:
        (table,) = tables
        of = table.column(SLOT).to_numpy()
        values, made = SlotValues(part.constants, now_us), 0
        arrays: list[pa.Array | pa.ChunkedArray] = [table.column(SLOT)]
        for (_, e), field in zip(core_columns, list(schema)[1:], strict=True):
            arrays.append(values.evaluated(qualified(e), table, of).cast(field.type))
            made += 0 if isinstance(e, ColumnRef) else arrays[-1].nbytes
            require_room(made, "what the expressions of the queries make")
        return pa.Table.from_arrays(arrays, schema=schema), {}

    return _by_halves(asked, [rows.append_column(SLOT, pa.array(slot_of_row))], schema, answer)


def is_taken(core_columns: Sequence[tuple[str, Expression]]) -> bool:
    """Whether a core projects columns and literals only: no constant of a query is needed, and nothing can fail."""
    return all(isinstance(e, (ColumnRef, Literal)) for _, e in core_columns)


_Answer = Callable[[Asked, Sequence[pa.Table]], tuple[pa.Table, dict[int, str]]]  # by places of queries


def _by_halves(asked: Asked, tables: Sequence[pa.Table], schema: pa.Schema, answer: _Answer) -> ManyAnswers:
    """The answers of all queries at once, or of halves of them where that fails."""
    placed = [_placed(table, asked.slots) for table in tables]
    found: list[pa.Table] = []
    failed: dict[int, str] = {}
    waiting = [(0, len(asked.slots))]
    trials = 0
    while waiting:
        begin, end = waiting.pop()
        trials += 1
        try:
            table, alone = answer(asked.part(begin, end), [_between(table, begin, end) for table in placed])
        except AssertionError:
            raise
        except Exception as error:  # whatever a user's query and rows make an engine say
            if end - begin > 1 and trials < TRIALS_MAX:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
            else:
                failed |= dict.fromkeys(asked.slots[begin:end].tolist(), str(error))
            continue
        failed |= {int(asked.slots[begin + place]): why for place, why in alone.items()}
        found.append(_by_slot(table, asked.slots[begin:end], alone))
    return ManyAnswers(pa.concat_tables(found) if found else schema.empty_table(), failed)


def _placed(table: pa.Table, slots: Places) -> pa.Table:
    """The table with the place of each row's query, as its first column, and the rows of queries side by side."""
    if SLOT not in table.column_names:
        return table
    numbers = table.column(SLOT).to_numpy()
    is_dense = len(slots) > 0 and int(slots[-1] - slots[0]) == len(slots) - 1
    places = numbers - slots[0] if is_dense else np.searchsorted(slots, numbers)
    assert bool((slots[np.clip(places, 0, len(slots) - 1)] == numbers).all()) if len(numbers) else True, "not asked for"
    table = table.drop_columns([SLOT])
    if not bool((places[1:] >= places[:-1]).all()):
        order = np.argsort(places, kind="stable")
        places, table = places[order], table.take(pa.array(order))
    return table.add_column(0, SLOT, pa.array(places))


def _between(table: pa.Table, begin: int, end: int) -> pa.Table:
    """The rows of some of the queries, which are counted from 0 again."""
    if SLOT not in table.column_names:
        return table
    places = table.column(SLOT).to_numpy()
    first, last = np.searchsorted(places, [begin, end])
    return table.slice(first, last - first).set_column(0, SLOT, pa.array(places[first:last] - begin))


def _by_slot(table: pa.Table, slots: Places, failed: Mapping[int, str]) -> pa.Table:
    """The answers of those that have one, by the numbers of their queries."""
    places = table.column(0).to_numpy()
    if failed:
        there = ~np.isin(places, list(failed))
        places, table = places[there], table.filter(pa.array(there))
    if not bool((places[1:] >= places[:-1]).all()):
        order = np.argsort(places, kind="stable")
        places, table = places[order], table.take(pa.array(order))
    return table.set_column(0, SLOT, pa.array(slots[places], pa.int64()))


class _ManyFinishing(Finishing):
    """One evaluation of the finish of many queries."""

    def __init__(self, tables: Sequence[pa.Table], values: SlotValues, versions: VersionsOf | None) -> None:
        super().__init__(tables, values.shared, versions)
        self.values = values
        self.failed: dict[int, str] = {}  # by the place of the query
        self._lifted: dict[int, Finish] = {}  # by id() of the operator that it stands for

    def marks(self, rows: pa.Table) -> tuple[str, ...]:
        return (SLOT,) if SLOT in rows.column_names else ()

    def marked(self, rows: pa.Table) -> pa.Table:
        """The rows of each query, where they are all queries'."""
        if self.marks(rows):
            return rows
        count, each = self.values.count, rows.num_rows
        require_room(count * rows.nbytes, "the rows of a table for each query")
        spread = rows.take(pa.array(np.tile(np.arange(each), count)))
        return spread.add_column(0, SLOT, pa.array(np.repeat(np.arange(count), each)))

    def rows(self, finish: Finish) -> pa.Table:
        # An operator is known by its identity, so what stands for it is kept as long.
        if id(finish) not in self._lifted:
            self._lifted[id(finish)] = lifted(finish)
        return super().rows(self._lifted[id(finish)])

    def made(self, finish: Finish, inputs: Sequence[pa.Table]) -> pa.Table:
        if needs_marks(finish, [bool(self.marks(rows)) for rows in inputs]):
            inputs = [self.marked(rows) for rows in inputs]
        return super().made(finish, inputs)

    # Expressions.

    def evaluated(self, e: Expression, rows: pa.Table) -> pa.Array:
        return self.values.evaluated(e, rows, self._of(rows))

    def true(self, e: Expression, rows: pa.Table) -> np.ndarray:
        return self.values.true(e, rows, self._of(rows))

    def _of(self, rows: pa.Table) -> Places | None:
        """The place of the query of each row; None if rows are all queries'."""
        return rows.column(SLOT).to_numpy() if self.marks(rows) else None

    # Joins.

    def _paired(self, finish: Paired, left: pa.Table, right: pa.Table) -> pa.Table:
        condition = None if finish.condition is None else self.values.exact(finish.condition)
        finish = replace(finish, condition=condition)
        groups = None if condition is None else self.values.groups(condition)
        if groups is None:
            return self._joined(finish, left, right, self.values.shared)
        sides = []
        for rows in (left, right):
            of = self._of(rows)
            sides.append((rows, None if of is None else split(groups.number[of], len(groups.first))))
        parts = [self._joined(finish, left.slice(0, 0), right.slice(0, 0), groups.constants(0))]
        for number in range(len(groups.first)):
            one, other = (_group(rows, order, number) for rows, order in sides)
            if one.num_rows or other.num_rows:
                parts.append(self._joined(finish, one, other, groups.constants(number)))
        return pa.concat_tables(parts)

    def _joined(self, finish: Paired, left: pa.Table, right: pa.Table, constants: Constants) -> pa.Table:
        """The join of rows of queries that agree in some constants."""
        names = [*left.column_names, *(name for name in right.column_names if name != SLOT)]
        alike: KeyCodes | None = None
        of = (self._of(left), self._of(right))
        if of[0] is not None and of[1] is not None:
            alike = KeyCodes(of[0], of[1])
            right = right.rename_columns([_OTHER if name == SLOT else name for name in right.column_names])
        condition = finish.condition
        if condition is not None:
            left, right, condition = self._beside(left, right, of, condition, constants)
        found = paired(finish.kind, left, right, condition, constants, alike)
        if finish.kind in ("semi", "anti"):
            return found.select([name for name in left.column_names if name in names])
        if alike is not None and finish.kind in ("right", "full"):
            slots = pc.coalesce(found.column(SLOT), found.column(_OTHER))
            found = found.set_column(found.column_names.index(SLOT), SLOT, slots)
        return found.select([*self.marks(found), *(name for name in names if name != SLOT)])

    def _beside(
        self,
        left: pa.Table,
        right: pa.Table,
        of: Sequence[Places | None],
        condition: Expression,
        constants: Constants,
    ) -> tuple[pa.Table, pa.Table, Expression]:
        """Both sides with the constants of their queries, and a condition that finds them on the side it looks at."""
        sides = [left, right]
        names = frozenset(right.column_names)
        words = itertools.count()

        def bound(e: Expression, side: int) -> Expression:
            columns = {part.name for part in walk(e) if isinstance(part, ColumnRef)}
            if columns:
                is_right = columns <= names
                if not is_right and columns & names:  # over both sides
                    return with_children(e, tuple(bound(part, 0) for part in children(e)))
                side = int(is_right)
            places = of[side]
            if places is None:
                side = 1 - side
                places = of[side]
            if places is None:
                return e
            e, beside = self.values.bound(e, constants, places, f"constant {next(words)}")
            for name, column in beside.items():
                sides[side] = sides[side].append_column(name, column)
            return e

        condition = bound(condition, 0)
        return sides[0], sides[1], condition

    # Groups.

    def _grouped(self, finish: Grouped, rows: pa.Table) -> pa.Table:
        """Without keys each query has a group, also one without rows."""
        found = super()._grouped(finish, rows)
        if finish.keys or not self.marks(rows):
            return found
        if not finish.aggregates:
            found = found.append_column("row", pa.repeat(True, found.num_rows))
        has_rows = np.zeros(self.values.count, bool)
        has_rows[found.column(SLOT).to_numpy()] = True
        missing = np.flatnonzero(~has_rows)
        if not len(missing):
            return found
        empty = grouped(rows.slice(0, 0), (), finish.aggregates).take(pa.array(np.zeros(len(missing), np.int64)))
        return pa.concat_tables([found, empty.add_column(0, SLOT, pa.array(missing)).cast(found.schema)])

    # Subqueries.

    def _attached(self, finish: Attached, rows: pa.Table, found: pa.Table) -> pa.Table:
        if finish.number is None and self.marks(found):  # it is the same for all rows of a query
            finish = replace(finish, number=SLOT)
        return super()._attached(finish, rows, found)

    def refuse_several(self, finish: Attached, rows: pa.Table, count: np.ndarray) -> None:
        if finish.number is None:
            self._fail(np.arange(self.values.count), [str(too_many(int(count.max())))] * self.values.count)
            return
        bad = np.flatnonzero(count > 1)
        slots = bad
        if finish.number != SLOT:
            slot_of_number = np.zeros(len(count), np.int64)
            slot_of_number[rows.column(finish.number).to_numpy()] = rows.column(SLOT).to_numpy()
            slots = slot_of_number[bad]
        order = np.argsort(-count[bad], kind="stable")  # the first reason that is given for a query is kept
        self._fail(slots[order], [str(too_many(n)) for n in count[bad][order].tolist()])

    def _fail(self, places: np.ndarray, reasons: Sequence[str]) -> None:
        for place, why in zip(places.tolist(), reasons, strict=True):
            self.failed.setdefault(place, why)

    # Order.

    def _sorted(self, finish: Sorted, rows: pa.Table) -> pa.Table:
        """The rows of each query in the order, and those of them that it wants."""
        of = self._of(rows)
        if of is None:
            return super()._sorted(finish, rows)
        keys = sort_keys(rows, finish)
        if keys:
            order = places_in_order({SLOT: rows.column(SLOT).combine_chunks()} | keys, finish, None)
            rows = rows.take(order)
        elif not bool((of[1:] >= of[:-1]).all()):
            rows = rows.take(pa.array(np.argsort(of, kind="stable")))
        start, count = self._numbers(finish.start), self._numbers(finish.count)
        if start is not None or count is not None:
            rows = rows.filter(pa.array(self._within(rows, start, count)))
        return rows.select([SLOT, *finish.shown])

    def _within(self, rows: pa.Table, start: pa.Array | None, count: pa.Array | None) -> np.ndarray:
        """The rows that are among those that their query wants; they are in order."""
        of = rows.column(SLOT).to_numpy()
        nth = np.arange(len(of)) - np.searchsorted(of, of)
        if start is not None:
            nth -= start.fill_null(0).to_numpy()[of]
        inside = nth >= 0
        if count is not None:
            inside &= (nth < count.fill_null(0).to_numpy()[of]) | count.is_null().to_numpy(zero_copy_only=False)[of]
        return np.asarray(inside)

    def _numbers(self, constant: Literal | Param | None) -> pa.Array | None:
        """The number of rows that each query says."""
        if constant is None:
            return None
        numbers = self.values.by_query(constant).cast(pa.int64())
        bad = np.flatnonzero(numbers.fill_null(0).to_numpy() < 0)
        self._fail(bad, [str(negative(n)) for n in numbers.take(pa.array(bad)).to_pylist()])
        return numbers


def _group(rows: pa.Table, of_groups: tuple[Places, Places] | None, number: int) -> pa.Table:
    """The rows of a group of queries, and those that are all queries'."""
    if of_groups is None:
        return rows
    order, ends = of_groups
    return rows.take(pa.array(order[ends[number] : ends[number + 1]]))
