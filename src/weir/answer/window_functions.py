"""Window functions: each call of OVER as a statement of DataFusion, by Spark's rules.

Rows that an order leaves equal follow each other as they came, where a function looks at single rows (row_number, lag,
first_value over ROWS …); where peers count as one (rank, the default frame) nothing is added to the order. Frames that
move are walked by DataFusion only for what can be taken out again exactly (counts, whole sums, min and max). For
others the rows of each frame are listed and grouped: taking a double out of a sum would leave its rounding behind, and
a NaN for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.aggregates import AGGREGATES
from weir.algebra.nodes import SESSION_EDGES, Aggregate, ColumnRef, Expression, WindowCall
from weir.algebra.schema import Kind
from weir.answer import engine
from weir.answer.engine import PLACE
from weir.answer.groups import average, exact, grouped, ordered_keys
from weir.answer.groups import mended as mended_aggregate
from weir.answer.views import require_room
from weir.errors import FetchError
from weir.store.row_files import arrow_type
from weir.values.room import bytes_taken

LISTED_MAX = 20_000_000  # rows of frames that are listed
_BY_ROWS = frozenset({"row_number", "ntile", "lag", "lead"})
_EXACT = frozenset({"count", "min", "max", "count_if"})


def windowed(rows: pa.Table, calls: Sequence[tuple[str, WindowCall]]) -> pa.Table:
    """The rows with a column for each call."""
    for name, call in calls:
        values = _call(rows, call)
        rows = rows.append_column(name, values.cast(arrow_type(call.type)))
    return rows


def _call(rows: pa.Table, call: WindowCall) -> pa.Array:
    if call.function in SESSION_EDGES:
        return _session_edge(rows, call)
    if call.function not in AGGREGATES or call.function in ("first", "last"):
        return _positioned(rows, call)
    whole = call.args and call.args[0].type.kind is not Kind.DOUBLE
    moves = call.frame is not None and call.frame.begin is not None
    if call.function in _EXACT or (call.function == "sum" and whole):
        return _aggregated(rows, call)
    if call.function in ("sum", "avg") and not moves and (call.frame is None or call.frame.end in (None, 0)):
        return _aggregated(rows, call)
    return _listed(rows, call)


def _session_edge(rows: pa.Table, call: WindowCall) -> pa.Array:
    """Where the session of each row begins, or ends: a gap after its last row. Rows a gap apart are of one session."""
    assert isinstance(call.parameter, int), "a gap is a length of time"
    assert isinstance(call.args[0], ColumnRef), "operands of a window are columns"
    order, begin = _laid_out(_Statement(rows, call))
    column = rows.column(call.args[0].name)
    times = column.cast(pa.int64()).to_numpy()[order]
    n = np.arange(len(order))
    first = begin == n
    first[1:] |= times[1:] - times[:-1] > call.parameter
    starts = np.flatnonzero(first)
    session = np.cumsum(first) - 1
    if call.function == "session_start":
        edges = times[starts]
    else:
        edges = times[np.append(starts[1:], len(order)) - 1] + call.parameter
    found = np.empty(len(order), np.int64)
    found[order] = edges[session]
    return pa.array(found).cast(column.type)


class _Statement:
    """OVER (…) and the columns that it needs."""

    def __init__(self, rows: pa.Table, call: WindowCall) -> None:
        self.rows = rows
        self.call = call
        self.columns: dict[str, pa.Array] = {}

    def column(self, e: Expression, word: str, *, keys: bool = False) -> str:
        """An operand as a column."""
        assert isinstance(e, ColumnRef), "operands of a window are columns"
        name = f"{word}{len(self.columns)}"
        column = self.rows.column(e.name)
        self.columns[name] = ordered_keys(column) if keys else engine.alike(column)
        return name

    def over(self, *, by_rows: bool, frame: bool = True) -> str:
        """The window; `by_rows` has the order decide about all rows."""
        call = self.call
        parts = []
        if call.partition:
            parts.append("PARTITION BY " + ", ".join(self.column(e, "p") for e in call.partition))
        order = [
            f"{self.column(e, 'o')} {'DESC' if d.descending else 'ASC'} NULLS {'FIRST' if d.nulls_first else 'LAST'}"
            for e, d in zip(call.order, call.directions, strict=True)
        ]
        if by_rows or (call.frame is not None and call.frame.unit == "rows"):
            order.append(PLACE)
        if order:
            parts.append("ORDER BY " + ", ".join(order))
        if frame and call.frame is not None:
            begin, end = (self._edge(edge, k) for k, edge in enumerate((call.frame.begin, call.frame.end)))
            parts.append(f"{call.frame.unit.upper()} BETWEEN {begin} AND {end}")
        return f"OVER ({' '.join(parts)})"

    def _edge(self, edge: int | None, place: int) -> str:
        if edge is None:
            return "UNBOUNDED FOLLOWING" if place else "UNBOUNDED PRECEDING"
        if edge == 0:
            return "CURRENT ROW"
        assert self.call.frame is not None
        by_time = self.call.frame.unit == "range" and self.call.order[0].type.kind in (Kind.TIMESTAMP, Kind.DATE)
        distance = f"INTERVAL '{abs(edge)} microseconds'" if by_time else str(abs(edge))
        return f"{distance} {'FOLLOWING' if edge > 0 else 'PRECEDING'}"

    def run(self, *values: str) -> pa.Table:
        """Expressions for every row, in the order of the rows."""
        listed = ", ".join(f"{value} AS v{k}" for k, value in enumerate(values))
        table = engine.with_place(pa.table(self.columns) if self.columns else self.rows.select([]))
        if not self.columns:
            table = pa.table({PLACE: np.arange(self.rows.num_rows)})
        found = engine.run(f"SELECT {PLACE}, {listed} FROM t ORDER BY {PLACE}", {"t": table})
        return found.select([f"v{k}" for k in range(len(values))])


def _positioned(rows: pa.Table, call: WindowCall) -> pa.Array:
    """Functions that number rows, or take a value of another row."""
    statement = _Statement(rows, call)
    function = {"first": "first_value", "last": "last_value"}.get(call.function, call.function)
    nulls = " IGNORE NULLS" if call.ignores_nulls or (call.function != function and call.parameter is True) else ""
    by_rows = call.function in _BY_ROWS
    if function in ("lag", "lead"):
        return _shifted(statement, call, nulls)
    args = [statement.column(e, "x") for e in call.args]
    if function in ("ntile", "nth_value"):
        args.append(str(call.parameter))
    value = f"{function}({', '.join(args)}){nulls} {statement.over(by_rows=by_rows)}"
    return statement.run(value).column(0).combine_chunks()


def _shifted(statement: _Statement, call: WindowCall, nulls: str) -> pa.Array:
    """lag and lead; their default stands where there is no such row."""
    distance = int(str(call.parameter))
    function = call.function if distance >= 0 else {"lag": "lead", "lead": "lag"}[call.function]
    x = statement.column(call.args[0], "x")
    over = statement.over(by_rows=True)
    if nulls and distance:
        return _shifted_over_nulls(statement, call, abs(distance), function)
    if distance == 0:
        return statement.rows.column(call.args[0].name).combine_chunks()  # type: ignore[union-attr]  # a column
    value = f"{function}({x}, {abs(distance)}) {over}"
    there = f"{function}({PLACE}, {abs(distance)}) {over}"
    if len(call.args) < 2:
        return statement.run(value).column(0).combine_chunks()
    default = statement.column(call.args[1], "d")
    return statement.run(f"CASE WHEN {there} IS NULL THEN {default} ELSE {value} END").column(0).combine_chunks()


def _shifted_over_nulls(statement: _Statement, call: WindowCall, distance: int, function: str) -> pa.Array:
    """lag and lead that skip NULLs: the value that is so many values, not rows, away."""
    order, begin = _laid_out(statement)
    values = statement.rows.column(call.args[0].name).combine_chunks()  # type: ignore[union-attr]  # a column
    there = values.is_valid().to_numpy(zero_copy_only=False)[order]
    upto = np.cumsum(there)  # values up to each row, itself among them
    found = order[there]  # their rows, partitions one after the other
    count = np.append(0, upto)
    end = np.searchsorted(begin, begin, side="right")
    wanted = upto - there - distance if function == "lag" else upto + distance - 1
    inside = (wanted >= count[begin]) if function == "lag" else (wanted < count[end])
    place = np.empty(len(order), np.int64)
    place[order] = np.where(inside, found[np.where(inside, wanted, 0)] if len(found) else -1, -1)
    moved = values.take(pa.array(place, mask=place < 0))
    if len(call.args) < 2:
        return moved
    default = statement.rows.column(call.args[1].name).combine_chunks()  # type: ignore[union-attr]  # a column
    return pc.if_else(pa.array(place < 0), default.cast(moved.type), moved)


def _numbered(statement: _Statement) -> tuple[np.ndarray, np.ndarray]:
    """The place of each row in the order of its partition, from 1, and a number of the partition."""
    call = statement.call
    part = statement.over(by_rows=True, frame=False)
    partition = "PARTITION BY " + ", ".join(statement.column(e, "p") for e in call.partition) if call.partition else ""
    numbers = statement.run(f"row_number() {part}", f"min({PLACE}) OVER ({partition})")
    number, which = (numbers.column(k).to_numpy().astype(np.int64) for k in (0, 1))
    return number, which


def _laid_out(statement: _Statement) -> tuple[np.ndarray, np.ndarray]:
    """The rows, those of a partition side by side and in its order, and for each where its partition begins."""
    number, which = _numbered(statement)
    order = np.lexsort((number, which))
    return order, np.searchsorted(which[order], which[order])


def _aggregated(rows: pa.Table, call: WindowCall) -> pa.Array:
    """Aggregates that DataFusion walks exactly."""
    statement = _Statement(rows, call)
    keys = call.function in ("min", "max") and call.args[0].type.kind is Kind.DOUBLE
    args = [statement.column(e, "x", keys=keys) for e in call.args]
    over = statement.over(by_rows=False)
    if call.function == "count_if":
        value = f"count(CASE WHEN {args[0]} THEN 1 END) {over}"
    elif call.function == "avg":
        value = average(call.args[0], args[0], f" {over}")
    elif call.function == "sum":
        value = f"sum({exact(call.args[0], args[0])}) {over}"
    else:
        value = f"{call.function}({args[0] if args else '*'}) {over}"
    return mended_aggregate(_as_aggregate(call), statement.run(value).column(0).combine_chunks())


def _as_aggregate(call: WindowCall) -> Aggregate:
    return Aggregate(call.function, call.args, False, call.type, None, (), (), call.parameter)


def _listed(rows: pa.Table, call: WindowCall) -> pa.Array:
    """Any aggregate over any frame: the rows of each frame are listed, and grouped by the row that the frame is of."""
    statement = _Statement(rows, call)
    number, which = _numbered(statement)
    order = np.lexsort((number, which))  # rows of a partition side by side, in their order
    begin_of = np.searchsorted(which[order], which)  # where the partition of each row begins
    framed = _Statement(rows.append_column(_NUMBER, pa.array(number)), call)
    n = framed.column(ColumnRef(-1, _NUMBER, call.type), "n")
    over = framed.over(by_rows=False)
    edges = framed.run(f"min({n}) {over}", f"max({n}) {over}")
    low = edges.column(0).fill_null(1).to_numpy().astype(np.int64)
    high = edges.column(1).fill_null(0).to_numpy().astype(np.int64)
    count = np.maximum(high - low + 1, 0)
    total = int(count.sum())
    if total > LISTED_MAX:
        raise FetchError(
            f"the frames of {call.function}() OVER hold {total:,} rows together, at most {LISTED_MAX:,} are allowed",
            hint="narrow the frames, or aggregate whole partitions",
        )
    of = np.repeat(np.arange(rows.num_rows), count)
    step = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    member = order[np.repeat(begin_of + low - 1, count) + step]
    require_room(bytes_taken(rows, member), f"the rows of the frames of {call.function}() OVER")
    listed = rows.take(pa.array(member)).append_column(_OWNER, pa.array(of))
    found = grouped(listed, [_OWNER], [(_VALUE, _as_aggregate(call))])
    empty = grouped(rows.slice(0, 0), [], [(_VALUE, _as_aggregate(call))]).column(_VALUE)
    place = np.full(rows.num_rows, found.num_rows, np.int64)
    place[found.column(_OWNER).to_numpy()] = np.arange(found.num_rows)
    return pa.chunked_array([*found.column(_VALUE).chunks, *empty.chunks]).combine_chunks().take(pa.array(place))


_NUMBER, _OWNER, _VALUE = "number of row", "owner of row", "value of row"
