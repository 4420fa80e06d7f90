"""From SQL text to what the registry stores: a shape, its constants as columns, and the family that runs it.

Everything that can be refused is refused here, before anything is stored: text, types, parts that cannot be
executed yet, windows that do not fit into `keep`, too many boxes or residuals. A million queries of one shape
are one parsed text and columns of constants; nothing here loops over queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import DIGITS_MAX
from weir.algebra.nodes import Literal, Param, Query, Window
from weir.algebra.schema import NULL, Catalog, DataType, Kind, Stream, decimal, list_of
from weir.errors import RegisterError, did_you_mean
from weir.families.contract import Checked
from weir.plan.classify import Classified, check_windows, classify, refused
from weir.plan.list_params import check_sizes, converted_lists
from weir.plan.window_limits import check_window
from weir.settings import Settings
from weir.sql.canonical import is_plain
from weir.sql.lower import lower
from weir.sql.parse import Parsed, parse
from weir.sql.shapes import Shape, shape_of
from weir.store.query_groups import Slot, Written
from weir.store.row_files import arrow_type
from weir.store.texts import met
from weir.values.columns import list_array

_TIMES = (Kind.TIMESTAMP, Kind.INTERVAL)
# By kind what pyarrow calls the types that are of it; the first that fits is taken.
_ARROW_TYPES = {
    Kind.BOOLEAN: ("boolean",),
    Kind.BIGINT: ("int64", "uint32", "uint64"),
    Kind.INT: ("integer",),
    Kind.DOUBLE: ("floating",),
    Kind.STRING: ("string", "large_string", "string_view"),
    Kind.DATE: ("date",),
    Kind.TIMESTAMP: ("timestamp",),
    Kind.INTERVAL: ("duration",),
}


@dataclass(frozen=True)
class Planned:
    """A query and how it is run."""

    query: Query
    classified: Classified

    @property
    def channels(self) -> tuple[str, ...]:
        """For each core, the name under which its results are kept."""
        return tuple(seen.family.channel for seen in self.classified.seen)


@dataclass(frozen=True)
class Registration(Planned):
    """A query (or one for each row of constants) that may be registered.

    Its shape is classified, not the query with its constants: other queries of the shape have other constants, so
    nothing may rest on what these ones decide.
    """

    shape: Shape
    stored: Planned | None  # the shape as whoever reads the registry plans it; None: its text was not read for this
    streams: Mapping[str, Stream]  # that it reads, by lower-case name
    settings: Settings
    written: Written  # the text as it was given

    def check(self, constants: pa.Table) -> Checked:
        """Refuse constants whose windows do not fit into `keep`, or that need too many boxes or residuals."""
        for scan in self.shape.query.sources:
            if not scan.is_table:
                check_window_constants(scan.window, self.streams[scan.relation.lower()], constants)
        checked = Checked.union([seen.check(constants, self.settings) for seen in self.classified.seen])
        if checked.boxes_per_query > self.settings.boxes_per_query_max:
            raise RegisterError(
                f"the blocks of the query need {checked.boxes_per_query:,} boxes together, at most "
                f"{self.settings.boxes_per_query_max} are allowed",
                hint="register the blocks apart, or raise the setting boxes_per_query_max",
            )
        return checked


def plan_registration(
    sql: str, params: pa.Table | None, catalog: Catalog, settings: Settings, *, refuse: bool = True
) -> Registration:
    """Parse, type, classify and take the constants out."""
    if not isinstance(sql, str):
        raise RegisterError(f"a query is SQL text, got {type(sql).__name__}")
    parsed = parse(sql, settings)
    given = {} if params is None else {n: type_of(params.column(n).type) for n in params.column_names}
    for name in parsed.params:
        if params is not None and name not in given:
            hint = did_you_mean(name, list(given)) or f"parameters given: {', '.join(given) or 'none'}"
            raise RegisterError(f"parameter ':{name}' has no column", hint=hint)
        if params is None and refuse:
            raise RegisterError(f"parameter ':{name}' has no value", hint="pass params={...}, or use register_many")
    query = lower(parsed, catalog, {n: t for n, t in given.items() if t is not None})
    shape = shape_of(query)
    is_read = not is_plain(query.root)
    if is_read:  # whoever reads the registry takes apart what the text says
        shape = replace(shape, query=lower_shape(shape.text, shape.types, catalog, settings))
    classified = classify(shape.query, catalog, settings, refuse=False)
    if refuse:
        if not classified.is_taken:
            raise refused(query, classified.refusals)
        check_windows(query, catalog, settings)
    streams = {s.relation.lower(): catalog.streams[s.relation.lower()] for s in query.sources if not s.is_table}
    stored = Planned(shape.query, classified) if is_read else None
    return Registration(query, classified, shape, stored, streams, settings, _written(parsed, shape))


def _written(parsed: Parsed, shape: Shape) -> Written:
    """The text, and which constants its parameters have become; one that no constant depends on is not among them."""
    known = {
        slot.name: (k, slot.unit_us)
        for k, slot in reversed(list(enumerate(shape.slots)))  # of several the first
        if isinstance(slot, Param)
    }
    places = [place for place in parsed.param_places if place.name in known]
    return Written(parsed.text, tuple(Slot(p.start, p.end, *known[p.name], p.has_unit) for p in places))


def stored_shape(text: str, types: Sequence[DataType], catalog: Catalog, settings: Settings) -> Planned:
    """A shape that was registered, as it is run."""
    query = lower_shape(text, types, catalog, settings)
    classified = classify(query, catalog, settings, refuse=False)
    assert classified.is_taken, f"'{text}' was registered, yet cannot be run: {classified.refusals}"
    return Planned(query, classified)


def check_window_constants(window: Window, stream: Stream, constants: pa.Table) -> None:
    """Refuse windows that do not fit, looking at the extreme rows only: they stand for all others."""
    edges = [b.offset_us for b in (window.begin, window.end) if b is not None]
    slots = [c for c in (*edges, window.rows) if isinstance(c, Param)]
    columns = {c.name: constants.column(c.name).combine_chunks() for c in slots}
    numbers = {}
    for name, column in columns.items():
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise RegisterError(f"the window of query {row} (counted from 0) has an edge that is NULL")
        numbers[name] = column.cast(pa.int64()).to_numpy()
    extremes = {int(f(values)) for values in numbers.values() for f in (np.argmin, np.argmax)}
    if len(numbers) == 2:
        begin, end = numbers.values()
        extremes.add(int(np.argmin(end - begin)))
    for row in sorted(extremes):
        check_window(window, stream, {name: int(values[row]) for name, values in numbers.items()})


def keeps_its_window(query: Query, stream: Stream, constants: pa.Table) -> bool:
    """Whether queries see the same rows of a stream if it is defined like this: their windows say where they begin."""
    try:
        for scan in query.sources:
            if scan.relation.lower() == stream.name.lower():
                if scan.window.begin is None:
                    return False
                check_window_constants(scan.window, stream, constants)
    except RegisterError:
        return False
    return True


def lower_shape(text: str, types: Sequence[DataType], catalog: Catalog, settings: Settings) -> Query:
    """The query of a stored shape, its constants as parameters c0, c1, …

    A shape may be longer and deeper than the text it came from (IN is written out), and was checked then.
    """
    roomy = replace(settings, sql_chars_max=2**31, sql_terms_max=2**31, sql_depth_max=2 * settings.sql_depth_max)
    return lower(parse(text, roomy), catalog, {f"c{k}": t for k, t in enumerate(types)})


def constants_table(planned: Registration, params: pa.Table | None) -> pa.Table:
    """One row a query, one column a slot of the shape: literals repeated, parameters converted."""
    count = 1 if params is None else params.num_rows
    columns = {}
    for k, (slot, type) in enumerate(zip(planned.shape.slots, planned.shape.types, strict=True)):
        if isinstance(slot, Literal):
            one = literal_array(slot, type)
            columns[f"c{k}"] = one if count == 1 else one.take(pa.array(np.zeros(count, np.int64)))
        else:
            assert params is not None
            given = params.column(slot.name)
            columns[f"c{k}"] = (
                converted_lists(given, slot, _convert) if type.kind is Kind.LIST else _convert(given, slot, type)
            )
        if type.kind is Kind.LIST:
            check_sizes(columns[f"c{k}"], planned.settings)
    if not columns:  # a query without constants still needs one row a query
        columns["none"] = pa.nulls(count, pa.bool_())
    return pa.table(columns)


def literal_array(literal: Literal, type: DataType) -> pa.Array:
    """A constant as an Arrow array of its slot's type, with one value."""
    if type.kind is Kind.LIST:
        assert isinstance(literal.value, tuple)
        return list_array(literal.value, type)
    if type.kind is Kind.TIMESTAMP:
        return pa.array([literal.value], pa.int64()).cast(arrow_type(type))
    return pa.array([literal.value], arrow_type(type))


def literal_scalar(literal: Literal, type: DataType) -> pa.Scalar:
    """A constant as an Arrow scalar of its slot's type."""
    return literal_array(literal, type)[0]


def constant_value(scalar: pa.Scalar, type: DataType) -> object:
    """The inverse of `literal_scalar`: a stored constant as `Literal.value` has it (times are µs)."""
    if type.kind is Kind.LIST:
        return (
            tuple(constant_value(item, type.item) for item in scalar)
            if type.item.kind in _TIMES
            else tuple(scalar.as_py())
        )
    if type.kind is Kind.TIMESTAMP and scalar.is_valid:
        return scalar.cast(pa.int64()).as_py()
    return scalar.as_py()


def _convert(values: pa.ChunkedArray, slot: Param, type: DataType) -> pa.ChunkedArray:
    """A parameter column as its slot wants it; numbers for times and lengths of time are seconds."""
    wanted = arrow_type(type)
    have = values.type
    try:
        if type.kind in (Kind.INTERVAL, Kind.TIMESTAMP) and is_number(have):
            # A number counts the slot's units; a negative unit negates it (`NOW - :w`).
            if pa.types.is_integer(have):
                us = pc.multiply_checked(values.cast(pa.int64()), slot.unit_us)
            else:
                us = pc.round(pc.multiply(values.cast(pa.float64()), float(slot.unit_us))).cast(pa.int64())
            return us.cast(wanted)
        if pa.types.is_duration(have):
            us = values.cast(pa.duration("us")).cast(pa.int64())
            return pc.negate_checked(us) if slot.unit_us < 0 else us
        if type.kind is Kind.TIMESTAMP and pa.types.is_string(have):
            return values.cast(pa.timestamp("us")).cast(wanted)
        if type.kind is Kind.STRING:
            return met(values.cast(wanted), type)
        # A number that meets doubles is the nearest double, as a literal is; every other cast must lose nothing.
        return values.cast(wanted, safe=type.kind is not Kind.DOUBLE)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
        raise RegisterError(f"parameter ':{slot.name}' expects {type}, got {have}: {wrong}") from wrong


def is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def type_of(arrow: pa.DataType) -> DataType | None:
    """The language's type of a parameter column; None when the query must say it (a column of NULLs)."""
    for kind, words in _ARROW_TYPES.items():
        if any(getattr(pa.types, f"is_{word}")(arrow) for word in words):
            return DataType(kind)
    if pa.types.is_decimal(arrow):  # values of very different sizes together may have more digits than each of them
        scale = min(max(arrow.scale, 0), DIGITS_MAX)
        return decimal(min(max(arrow.precision - arrow.scale, 0) + scale, DIGITS_MAX), scale)
    if pa.types.is_null(arrow):
        return None
    if pa.types.is_dictionary(arrow):
        return type_of(arrow.value_type)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        if not pa.types.is_nested(arrow.value_type):
            item = type_of(arrow.value_type)
            return list_of(NULL if item is None else item)
        raise RegisterError(f"a parameter column has type {arrow}, a list holds single values", hint="flatten it")
    raise RegisterError(f"a parameter column has type {arrow}, expected one of the language's types")
