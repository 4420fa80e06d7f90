"""Groups whose aggregates are added up: a row that comes is added, one that is over is taken away, none is read again.

That is so for counts, and for sums and averages of whole numbers and decimals, which are exact (UPA 2.1, group-by; the
array by group of 5.3.2). A finish has such groups if there are rows of one core below them, looked at one by one, and
if nothing above them depends on the order in which groups began. Sums are kept as a table: whose group it is, its keys,
how many rows it has, and the parts of its aggregates. A group without rows is none.

Sums of doubles are not: what was added cannot be taken away without a rest. Such groups are made anew of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.nodes import Aggregate, ColumnRef
from weir.algebra.schema import Column, DataType, Kind
from weir.answer import engine
from weir.answer.groups import mended
from weir.answer.many_finish import ManyAnswers, finished_many
from weir.answer.slot_values import Asked
from weir.plan.finishes import (
    OWN,
    Computed,
    CoreRows,
    Extended,
    Finish,
    Grouped,
    Kept,
    Once,
    Sorted,
    inputs_of,
    with_inputs,
)
from weir.store.ascending import by_bytes, without
from weir.store.maintained import SLOT
from weir.store.row_files import arrow_type

ROWS = "rows of group"
_WHOLE = (Kind.INT,)
_EXACT = (Kind.INT, Kind.BIGINT, Kind.DECIMAL)
_SUMMED = ("sum", "avg")
_PLAIN_KEYS = frozenset(Kind) - {Kind.PAYLOAD, Kind.NULL, Kind.LIST}


@dataclass(frozen=True)
class Additive:
    """A finish with groups that can be added up."""

    groups: Grouped
    above: Finish  # over the rows of the groups, as results of core 0
    columns: tuple[Column, ...]  # what the groups look at

    @property
    def is_plain(self) -> bool:
        """Whether groups are made of the results as they are."""
        return isinstance(self.groups.input, CoreRows)


HOW_MANY = Additive(Grouped(CoreRows(0), (), ()), CoreRows(0), ())  # only how many rows there are


def additive(finish: Finish, columns: Sequence[Column]) -> Additive | None:
    """The groups of a finish over one core with these columns, if they can be added up."""
    found = next(_row_wise_groups(finish), None)
    if found is None or not _is_alone(finish, found):
        return None
    if not all(_adds_up(aggregate) for _, aggregate in found.aggregates):
        return None
    types = _types_below(found.input, columns)
    if any(types[key].kind not in _PLAIN_KEYS for key in found.keys):
        return None
    above = _with(finish, found, CoreRows(0))
    seen = tuple(Column(name, types[name]) for name in dict.fromkeys([*found.keys, *_operands(found)]))
    return Additive(found, above, seen) if _ignores_order(above) else None


def _row_wise_groups(finish: Finish) -> Iterator[Grouped]:
    if isinstance(finish, Grouped) and _is_row_wise(finish.input):
        yield finish
        return
    for part in inputs_of(finish):
        yield from _row_wise_groups(part)


def _is_row_wise(finish: Finish) -> bool:
    if isinstance(finish, (Computed, Extended, Kept)):
        return _is_row_wise(finish.input)
    return isinstance(finish, CoreRows)


def _is_alone(finish: Finish, groups: Grouped) -> bool:
    """Whether nothing but these groups is at the bottom."""
    if finish == groups:
        return True
    below = list(inputs_of(finish))
    return bool(below) and all(_is_alone(part, groups) for part in below)


def _types_below(finish: Finish, columns: Sequence[Column]) -> dict[str, DataType]:
    if isinstance(finish, Computed):
        return {name: e.type for name, e in finish.columns}
    if isinstance(finish, Extended):
        return _types_below(finish.input, columns) | {finish.name: finish.value.type}
    if isinstance(finish, Kept):
        return _types_below(finish.input, columns)
    return {c.name: c.type for c in columns}


def _ignores_order(above: Finish) -> bool:
    if isinstance(above, Sorted) and (above.count is not None or above.start is not None):
        return False
    if not isinstance(above, (CoreRows, Computed, Extended, Kept, Once, Sorted)):
        return False
    return all(_ignores_order(part) for part in inputs_of(above))


def _adds_up(aggregate: Aggregate) -> bool:
    if aggregate.distinct or len(aggregate.args) > 1:
        return False
    if aggregate.function == "count" or aggregate.function in ("count_if", "bool_and", "bool_or"):
        return True
    kind = aggregate.args[0].type.kind if aggregate.args else Kind.NULL
    return (aggregate.function == "sum" and kind in _EXACT) or (aggregate.function == "avg" and kind in _WHOLE)


def _with(finish: Finish, old: Finish, new: Finish) -> Finish:
    """The finish with another operator in the place of one."""
    return new if finish == old else with_inputs(finish, lambda part: _with(part, old, new))


# ── sums ──

_LIMB = 32  # bits of a number that are added up together: 2^31 rows of them fit into 64
_MASK = (1 << _LIMB) - 1
_LIMBS = {Kind.INT: 1, Kind.BIGINT: 2, Kind.DECIMAL: 4}


def sums_of(of: Additive, rows: pa.Table, asked: Asked, now_us: int) -> ManyAnswers:
    """The sums of some results of the core, and the queries that have none because something below the groups fails."""
    shown = Computed(of.groups.input, tuple((c.name, ColumnRef(OWN, c.name, c.type)) for c in of.columns))
    found = ManyAnswers(rows, {}) if of.is_plain else finished_many(shown, [rows], of.columns, asked, now_us)
    columns: dict[str, pa.Array | np.ndarray] = {SLOT: found.table.column(SLOT).combine_chunks()}
    for k, key in enumerate(of.groups.keys):
        columns[f"k{k}"] = engine.alike(found.table.column(key))
    columns[ROWS] = np.ones(found.table.num_rows, np.int64)
    for number, (_, aggregate) in enumerate(of.groups.aggregates):
        columns |= _parts(number, aggregate, found.table)
    return ManyAnswers(_grouped(of, pa.table(columns)), found.failed)


def _operands(groups: Grouped) -> list[str]:
    refs = (e for _, a in groups.aggregates for e in (*a.args, a.filter))
    return [e.name for e in refs if isinstance(e, ColumnRef)]


def _parts(number: int, aggregate: Aggregate, rows: pa.Table) -> dict[str, np.ndarray]:
    """What each row adds to an aggregate: whether it counts, whether it is true, and its number in limbs."""
    counts = np.ones(rows.num_rows, bool) if aggregate.filter is None else _true(_column(rows, aggregate.filter))
    if not aggregate.args:
        return {f"c{number}": counts.astype(np.int64)}
    values = _column(rows, aggregate.args[0])
    counts = counts & values.is_valid().to_numpy(zero_copy_only=False)
    found = {f"c{number}": counts.astype(np.int64)}
    if aggregate.function in ("sum", "avg"):
        for k, limb in enumerate(_limbs(values, aggregate.args[0].type.kind)):
            found[_sum_name(number, k)] = np.where(counts, limb, 0)
    elif aggregate.function != "count":
        found[f"t{number}"] = (counts & _true(values)).astype(np.int64)
    return found


def _sum_name(number: int, limb: int) -> str:
    return f"s{number}.{limb}" if limb else f"s{number}"


def _column(rows: pa.Table, e: object) -> pa.Array:
    assert isinstance(e, ColumnRef), "operands of a group are columns"
    return rows.column(e.name).combine_chunks()


def _true(values: pa.Array) -> np.ndarray:
    found: np.ndarray = values.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _limbs(values: pa.Array, kind: Kind) -> list[np.ndarray]:
    """Numbers in limbs, the lowest first; the last one has the sign."""
    if kind is Kind.DECIMAL:
        wide = values.cast(pa.decimal128(38, values.type.scale)) if len(values) else values
        words = np.frombuffer(wide.buffers()[1] or b"", np.int64).reshape(-1, 2)
        low, high = words[wide.offset : wide.offset + len(wide)].T if len(wide) else np.empty((2, 0), np.int64)
        return [low & _MASK, (low >> _LIMB) & _MASK, high & _MASK, high >> _LIMB]
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return [numbers] if kind is Kind.INT else [numbers & _MASK, numbers >> _LIMB]


def _grouped(of: Additive, table: pa.Table) -> pa.Table:
    """The sums by group, by query."""
    by = [SLOT, *(f"k{k}" for k in range(len(of.groups.keys)))]
    names = [name for name in table.column_names if name not in by]
    if not of.groups.keys:
        return _by_slot(table.column(SLOT).to_numpy(), {name: table.column(name).to_numpy() for name in names})
    found = table.group_by(by, use_threads=False).aggregate([(name, "sum") for name in names])
    found = found.select([*by, *(f"{name}_sum" for name in names)]).rename_columns([*by, *names])
    slots = found.column(SLOT).to_numpy()
    if bool((slots[1:] < slots[:-1]).any()):
        found = found.take(pa.array(np.argsort(slots, kind="stable")))
    return found.combine_chunks()


def _by_slot(slots: np.ndarray, numbers: Mapping[str, np.ndarray]) -> pa.Table:
    """The sums of some columns for each query."""
    if not len(slots):
        return pa.table({name: pa.array([], pa.int64()) for name in (SLOT, *numbers)})
    if not bool((slots[1:] >= slots[:-1]).all()):
        first, reach = int(slots.min()), int(slots.max() - slots.min()) + 1
        if reach <= 8 * len(slots) and all(_is_small(values) for values in numbers.values()):
            places = slots - first
            there = np.flatnonzero(np.bincount(places, minlength=reach))
            found = {name: _binned(places, values, reach)[there] for name, values in numbers.items()}
            return pa.table({SLOT: there + first, **found})
        order = by_bytes(slots - first)
        slots, numbers = slots[order], {name: values[order] for name, values in numbers.items()}
    starts = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
    return pa.table({SLOT: slots[starts], **{name: np.add.reduceat(of, starts) for name, of in numbers.items()}})


def _is_small(values: np.ndarray) -> bool:
    """Whether doubles hold every sum of some of these exactly."""
    return max(int(values.max()), -int(values.min())) * len(values) < 2**53


def _binned(places: np.ndarray, values: np.ndarray, reach: int) -> np.ndarray:
    """The sum of the values of each place."""
    if bool((values == 1).all()):
        return np.bincount(places, minlength=reach)
    return np.bincount(places, values, reach).astype(np.int64)


def added(of: Additive, tables: Sequence[tuple[pa.Table, int]], *, is_whole: bool) -> pa.Table:
    """Tables of sums together, each with a sign. Of the whole, groups that have no rows left are gone.

    A part may take away as many rows as it adds, and others.
    """
    found = _grouped(of, pa.concat_tables([_signed(of, table, sign) for table, sign in tables]))
    return found.filter(pc.not_equal(found.column(ROWS), 0)) if is_whole else found


def _signed(of: Additive, table: pa.Table, sign: int) -> pa.Table:
    for at in range(1 + len(of.groups.keys), table.num_columns) if sign < 0 else ():
        table = table.set_column(at, table.field(at), pc.negate(table.column(at)))
    return table


# ── what the sums say ──


def group_rows(of: Additive, sums: pa.Table, slots: np.ndarray) -> pa.Table:
    """The groups of some queries as the finish above them reads them; without keys each query has one."""
    if not of.groups.keys:
        missing = without(slots, sums.column(SLOT).to_numpy())
        zeros = [np.zeros(len(missing), np.int64)] * (sums.num_columns - 1)
        sums = pa.concat_tables([sums, pa.table([missing, *zeros], schema=sums.schema)]) if len(missing) else sums
    types = {c.name: c.type for c in of.columns}
    columns: dict[str, pa.Array | pa.ChunkedArray] = {SLOT: sums.column(SLOT)}
    for k, key in enumerate(of.groups.keys):
        columns[key] = sums.column(f"k{k}").cast(arrow_type(types[key]))
    for number, (name, aggregate) in enumerate(of.groups.aggregates):
        columns[name] = _value(number, aggregate, sums).cast(arrow_type(aggregate.type))
    return pa.table(columns)


def _value(number: int, aggregate: Aggregate, sums: pa.Table) -> pa.Array:
    """An aggregate from its parts."""
    count = sums.column(f"c{number}").to_numpy()
    if aggregate.function == "count":
        return pa.array(count)
    if aggregate.function in ("sum", "avg"):
        kind = aggregate.args[0].type.kind
        total = [sums.column(_sum_name(number, k)).to_numpy() for k in range(_LIMBS[kind])]
        if aggregate.function == "avg":
            return pa.array(total[0] / np.maximum(count, 1), mask=count == 0)
        return mended(aggregate, _total(total, aggregate, count == 0))
    true = sums.column(f"t{number}").to_numpy()
    if aggregate.function == "count_if":
        return pa.array(true)
    return pa.array(true == count if aggregate.function == "bool_and" else true > 0, mask=count == 0)


def _total(limbs: list[np.ndarray], aggregate: Aggregate, null: np.ndarray) -> pa.Array:
    """A number from the sums of its limbs; NULL where it has more bits than its type has."""
    carried = []
    carry = np.zeros(len(null), np.int64)
    for limb in limbs[:-1]:
        carry = limb + carry
        carried.append(carry & _MASK)
        carry = carry >> _LIMB
    top = limbs[-1] + carry
    if len(limbs) == 1:
        return pa.array(top, mask=null)
    null = null | (top != (top << _LIMB) >> _LIMB)
    high = top << _LIMB
    if len(limbs) == 2:
        return pa.array(high | carried[0], mask=null)
    words = np.stack([carried[0] | (carried[1] << _LIMB), carried[2] | high], axis=1)
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    wide = pa.decimal128(38, aggregate.args[0].type.scale)
    return pa.Array.from_buffers(wide, len(null), [valid, pa.py_buffer(np.ascontiguousarray(words))])
