"""Partner rows: kept rows of one side of a join family, by join key, as events of the other side meet them.

A segment of rows is immutable and made of flat arrays: row ids, times, the attributes that standing queries mention,
and for each access attribute the order by (join key, attribute) (`weir.index.meeting.partners`). It knows nothing of
the queries' constants: a string attribute (or a decimal of more than 18 digits) is kept as codes into the segment's
own sorted dictionary, and translated to the codes of a query segment when the two meet. That translation ascends with
the codes, so an order made once holds for every query segment to come (codes stored relative to *queries* would be
wrong as soon as one mentions a new string).

Join keys become one int64 a row: a single number or time is its own key; a string is its place in the dictionary; of
several keys the places are combined two at a time into places among the combinations that occur; without keys all
rows have the same. An event whose value
does not occur has no partners, so nothing is ever hashed and nothing needs to be verified.

Invariants: rows with a NULL among their keys are in no order; codes of events and rows are equal exactly if all keys
are equal in SQL. Cost: building is a sort for each access attribute; opening copies nothing but translated strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.decimals import is_wide
from weir.algebra.nodes import ColumnRef, Expression, Negate
from weir.algebra.schema import DataType, Kind
from weir.boxes.bounds import Ints
from weir.boxes.value_keys import has_dictionary
from weir.families.joins.join_family import JoinFamily
from weir.families.joins.join_keys import are_texts, key_of, texts_of_keys
from weir.index.digits import decimals_of, texts_of
from weir.index.keys import NULL_KEY, decode_column, encode_column
from weir.index.meeting.partners import Partners, build_partners
from weir.index.strings import StringDictionary, build, find
from weir.store.row_files import arrow_type
from weir.values.codec import canonical
from weir.values.evaluate import evaluate

DICTIONARIES_MAX = 4  # of query segments, for each column of strings: main, tail, and those of before
_ANY = "any"  # the order for queries that do not constrain this side's access attribute


class PartnerRows:
    """Rows of one side, ready to be joined."""

    def __init__(
        self, family: JoinFamily, side: int, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]
    ) -> None:
        self.family = family
        self.side = side
        self._arrays = arrays
        self._meta = meta
        self._number_of = {text: k for k, text in enumerate(meta["columns"])}
        # By column and dictionary: the dictionary itself, kept so that no other gets its identity, and the codes.
        self._translated: dict[tuple[int, int], tuple[StringDictionary, Ints]] = {}

    @classmethod
    def build(
        cls,
        family: JoinFamily,
        side: int,
        rows: pa.Table,
        row_ids: Ints,
        times: Ints,
        *,
        accesses: Sequence[Expression | None],
        columns: Sequence[Expression],
    ) -> PartnerRows:
        """The segment of these rows, in orders of each of `accesses`, with all of `columns`."""
        arrays: dict[str, np.ndarray] = {"row_ids": row_ids, "times": times}
        wanted = {canonical(e): e for e in [*columns, *(e for e in accesses if e is not None)]}
        texts = list(wanted)
        strings = []
        for k, e in enumerate(wanted.values()):
            if has_dictionary(e):
                strings.append(k)
                values = _texts(e, rows)
                dictionary = build(values)
                arrays |= {f"strings.{k}.{name}": array for name, array in dictionary._asdict().items()}
                arrays[f"column.{k}"] = _places(dictionary, values)
            else:
                arrays[f"column.{k}"] = keys_of(e, rows)
        keys = _make_keys(family, side, rows, arrays)
        orders = [_ANY if e is None else str(texts.index(canonical(e))) for e in accesses]
        for order in dict.fromkeys(orders):
            by = np.zeros(len(row_ids), np.int64) if order == _ANY else arrays[f"column.{order}"]
            made = build_partners(keys, by)
            arrays |= {f"order.{order}.{name}": array for name, array in made._asdict().items()}
        return cls(family, side, arrays, {"columns": texts, "strings": strings, "orders": orders})

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        return dict(self._arrays)

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {**self._meta, "family": self.family.to_json(), "side": self.side}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> PartnerRows:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        return cls(JoinFamily.from_json(meta["family"]), meta["side"], arrays, meta)

    @property
    def row_ids(self) -> Ints:
        return self._arrays["row_ids"]

    @property
    def times(self) -> Ints:
        return self._arrays["times"]

    def codes(self, events: pa.Table, expressions: Sequence[Expression]) -> Ints:
        """The join key of each event among the keys of these rows; NULL_KEY if it has no partners here."""
        combined: Ints | None = None
        for j, e in enumerate(expressions):
            values = _values(e, events)
            own, other = self.family.keys[j][1 - self.side].type, self.family.keys[j][self.side].type
            if are_texts(own, other):
                code = find(self._dictionary(f"key.{j}"), texts_of_keys(values, own, other))
                code = np.where((code & 1 == 1) & (code != NULL_KEY), code >> 1, NULL_KEY)
            else:
                code = key_of(values, own, other)
                if len(expressions) > 1:
                    code = _find(self._arrays[f"key.{j}.values"], code)
            combined = code if combined is None else self._combine(combined, code, j)
        return np.zeros(events.num_rows, np.int64) if combined is None else combined

    def _combine(self, combined: Ints, code: Ints, j: int) -> Ints:
        """The place of each pair among those that occur."""
        base = int(self._arrays[f"key.{j}.base"][0])
        known = (combined != NULL_KEY) & (code != NULL_KEY)
        return _find(self._arrays[f"key.{j}.pairs"], np.where(known, combined * base + code, NULL_KEY))

    def ordered(self, access: Expression | None) -> Partners:
        """The rows by (join key, access attribute); `values` are keys of this segment, see `values`."""
        order = self._order(access)
        return Partners(*(self._arrays[f"order.{order}.{name}"] for name in Partners._fields))

    def _order(self, access: Expression | None) -> str:
        if access is not None:
            return str(self._number_of[canonical(access)])
        return str(self._meta["orders"][0])  # any order will do for queries that ask for none

    def values(self, access: Expression | None, dictionary: StringDictionary | None) -> Ints:
        """The access attribute by place, in the codes of a query segment's dictionary if it is a string."""
        order = self._order(access)
        values = self._arrays[f"order.{order}.values"]
        if access is None or not has_dictionary(access):
            return values
        return _translate(self._translation(int(order), dictionary, access.type), values)

    def column(self, e: Expression, dictionary: StringDictionary | None) -> Ints:
        """An attribute by row position, in the codes of a query segment's dictionary if it is a string."""
        number = self._number_of[canonical(e)]
        values = self._arrays[f"column.{number}"]
        if not has_dictionary(e):
            return values
        return _translate(self._translation(number, dictionary, e.type), values)

    def table(self, columns: Iterable[ColumnRef], at: Ints | None = None) -> pa.Table:
        """Columns of the stream by row position, or of some rows, as values; they must be among the attributes."""
        found = {}
        for e in columns:
            number = self._number_of[canonical(e)]
            keys = self._arrays[f"column.{number}"] if at is None else self._arrays[f"column.{number}"][at]
            if has_dictionary(e):
                gone = keys == NULL_KEY
                places = pa.array(np.where(gone, 0, keys), mask=gone)
                texts = _as_arrow(self._dictionary(f"strings.{number}"), e.type)
                if is_wide(e.type):
                    texts = decimals_of(texts, e.type)
                found[e.name] = texts.take(places)
            else:
                found[e.name] = decode_column(keys, e.type, arrow_type(e.type))
        return pa.table(found)

    def _translation(self, number: int, dictionary: StringDictionary | None, type_: DataType) -> Ints:
        """The query segment's code for each string of a column."""
        own = self._dictionary(f"strings.{number}")
        if dictionary is None:  # nothing is compared with it: every string lies in the one gap there is
            return np.zeros(len(own.offsets) - 1, np.int64)
        at = (number, id(dictionary))
        if at not in self._translated:
            while len(self._translated) >= DICTIONARIES_MAX * len(self._meta["strings"]):
                del self._translated[next(iter(self._translated))]
            self._translated[at] = dictionary, find(dictionary, _as_arrow(own, type_))
        return self._translated[at][1]

    def _dictionary(self, name: str) -> StringDictionary:
        return StringDictionary(*(self._arrays[f"{name}.{field}"] for field in StringDictionary._fields))


def keys_of(e: Expression, rows: pa.Table) -> Ints:
    """The keys of an attribute without a dictionary; that of −x is −key, which is there also for times."""
    if isinstance(e, Negate) and e.type.kind is not Kind.DOUBLE:
        keys = keys_of(e.arg, rows)
        return np.where(keys == NULL_KEY, NULL_KEY, -keys)
    return encode_column(_values(e, rows), e.type)


def _values(e: Expression, rows: pa.Table) -> pa.Array:
    values = rows.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, rows)
    if isinstance(values, pa.ChunkedArray) and values.num_chunks != 1 and e.type.kind is Kind.STRING:
        values = values.cast(pa.large_string())  # together they may have more bytes than 32-bit offsets can count
    if isinstance(values, pa.ChunkedArray):
        return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values


def _texts(e: Expression, rows: pa.Table) -> pa.Array:
    """The values of an attribute as entries of a dictionary."""
    values = _values(e, rows)
    return texts_of(values, e.type) if is_wide(e.type) else values


def _places(dictionary: StringDictionary, values: pa.Array) -> Ints:
    """The place of each string in a dictionary that has them all; NULL_KEY for NULL."""
    code = find(dictionary, values)
    return np.where(code == NULL_KEY, NULL_KEY, code >> 1)


def _translate(translation: Ints, places: Ints) -> Ints:
    """Codes for places; NULL_KEY stays. The last entry of the lookup stands for NULL."""
    codes: Ints = np.append(translation, NULL_KEY)[np.where(places == NULL_KEY, len(translation), places)]
    return codes


def _as_arrow(dictionary: StringDictionary, type_: DataType) -> pa.LargeStringArray | pa.LargeBinaryArray:
    stored = pa.large_binary() if is_wide(type_) else pa.large_string()
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(dictionary.offsets)),
        pa.py_buffer(np.ascontiguousarray(dictionary.data)),
    ]
    return pa.Array.from_buffers(stored, len(dictionary.offsets) - 1, buffers)


def _make_keys(family: JoinFamily, side: int, rows: pa.Table, arrays: dict[str, np.ndarray]) -> Ints:
    """One key a row, and in `arrays` what leads events to the same keys."""
    combined: Ints | None = None
    for j, pair in enumerate(family.keys):
        e = pair[side]
        values = _values(e, rows)
        other = pair[1 - side].type
        if are_texts(e.type, other):
            values = texts_of_keys(values, e.type, other)
            dictionary = build(values)
            arrays |= {f"key.{j}.{name}": array for name, array in dictionary._asdict().items()}
            code, base = _places(dictionary, values), len(dictionary.offsets) - 1
        else:
            code, base = key_of(values, e.type, other), 0
            if len(family.keys) > 1:
                distinct = _distinct(code)
                arrays[f"key.{j}.values"] = distinct
                code, base = _find(distinct, code), len(distinct)
        if combined is None:
            combined = code
            continue
        known = (combined != NULL_KEY) & (code != NULL_KEY)
        pairs = np.where(known, combined * base + code, NULL_KEY)
        arrays[f"key.{j}.base"] = np.array([base], np.int64)
        arrays[f"key.{j}.pairs"] = _distinct(pairs)
        combined = _find(arrays[f"key.{j}.pairs"], pairs)
    return np.zeros(rows.num_rows, np.int64) if combined is None else combined


def _distinct(codes: Ints) -> Ints:
    found: Ints = np.unique(codes[codes != NULL_KEY])
    return found


def _find(known: Ints, codes: Ints) -> Ints:
    """The place of each code among ascending ones, NULL_KEY if it is not there."""
    if not len(known):
        return np.full(len(codes), NULL_KEY, np.int64)
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    places: Ints = np.where(known[at] == codes, at, NULL_KEY)
    return places
