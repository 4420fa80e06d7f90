"""Registering under a name, and in the place of another query: one document says who goes and who comes.

A name is that of at most one standing query. To register under a name that nobody has adds a query. Under one that a
query has, it is either the same again (shape, constants, kept or not), and then that query is meant and nothing is
registered; or it is something else, and then the document that registers it drops the other one. A batch sees whole
documents, so it sees the one query or the other.

All of it is decided for a place in the chain of documents (`Registry.append`): of two processes that give one name at
the same time, the second looks again, and finds the query of the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.store.labels import Labels
from weir.store.query_groups import Draft, GroupRef, Label, NewQueries, draft_of
from weir.store.registry import Ids, Registry


class Named(NamedTuple):
    """The queries that were asked for."""

    ids: Ids  # one for each row of constants
    group: GroupRef | None  # those of them that were registered for it; None: all stood before


def register_named(labels: Labels, new: NewQueries, names: pa.Array) -> Named:
    """One query for each row of constants, under its name; the names are distinct."""
    named = _register(labels, new, names, lambda: labels.find_many(names))
    end = named.group.first_id if named.group is not None else np.iinfo(np.int64).max
    stood_before = named.ids[named.ids < end]
    if len(stood_before):
        _relabel(labels, stood_before, new.label)
    return named


def replace_query(labels: Labels, new: NewQueries, id: int) -> Named:
    """Register one query in the place of another one, whose name and label it gets."""

    def standing() -> Ids:
        ids = np.array([id])
        labels.registry.expect_standing(ids)
        return ids

    return _register(labels, new, labels.names_of(np.array([id])), standing, keeps_label=True)


def _register(
    labels: Labels, new: NewQueries, names: pa.Array, find: Callable[[], Ids], *, keeps_label: bool = False
) -> Named:
    """Register each query that is not the same as the one that was found, in the place of that."""
    registry = labels.registry
    found = np.empty(0, np.int64)
    is_new = np.empty(0, bool)

    def draft() -> Draft | None:
        nonlocal found, is_new
        found = find()
        is_new = ~_are_same(registry, new, found)
        if not is_new.any():
            return None
        rows = pa.array(is_new)
        label = labels.label_of(int(found[0])) if keeps_label else new.label
        replaces = pa.array(found[is_new], mask=found[is_new] < 0)
        return draft_of(replace(new, constants=new.constants.filter(rows), label=label), names.filter(rows), replaces)

    number = registry.append(draft)
    if number is None:
        return Named(found, None)
    group = registry.group_at(number)
    ids = found.copy()
    ids[is_new] = group.first_id + np.arange(group.count)
    return Named(ids, group)


def _are_same(registry: Registry, new: NewQueries, ids: Ids) -> npt.NDArray[np.bool_]:
    """For each row of constants, whether the standing query of this id (−1: none) is the one that it would become."""
    same = np.zeros(len(ids), bool)
    known = np.flatnonzero(ids >= 0)
    if not len(known):
        return same
    places = registry.places_of(ids[known])
    for place in np.unique(places).tolist():
        rows = known[places == place]
        group = registry.group_of_core(int(ids[rows[0]]))
        if _is_of_shape(group, new):
            before = registry.constants(group).take(pa.array(ids[rows] - group.first_id))
            same[rows] = _are_equal(before, new.constants.take(pa.array(rows)))
    return same


def _is_of_shape(group: GroupRef, new: NewQueries) -> bool:
    is_kept = new.kept_as is not None
    return (group.shape_text, group.types, group.is_kept) == (new.shape_text, tuple(new.types), is_kept)


def _are_equal(before: pa.Table, after: pa.Table) -> npt.NDArray[np.bool_]:
    """Row by row, whether all values are equal; NULL equals NULL here, and NaN equals NaN."""
    equal = np.ones(before.num_rows, bool)
    for one, other in zip(before.columns, after.columns, strict=True):
        if pa.types.is_list(one.type):
            equal &= _are_equal_lists(pa.concat_arrays([*one.chunks, *other.chunks]), len(equal))
        else:
            codes = pa.chunked_array([*one.chunks, *other.chunks], one.type).combine_chunks().dictionary_encode()
            both = codes.indices.fill_null(-1).to_numpy()
            equal &= both[: len(equal)] == both[len(equal) :]
    return equal


def _relabel(labels: Labels, ids: Ids, label: Label) -> None:
    """Give queries a label, those that stand and have another one."""

    def draft() -> Draft | None:
        table, rows = labels.labels_of(ids)
        codes, row_of = np.unique(rows, return_inverse=True)
        known = table.take(pa.array(codes)).to_pylist()
        differs = np.array([(tuple(k["tags"]), k["owner"]) != label for k in known], bool)
        changed = ids[differs[row_of] & labels.registry.stand(ids)]
        about = {"kind": "label", "label": label, "count": len(changed)}
        return Draft(about, pa.table({"id": np.unique(changed)})) if len(changed) else None

    labels.registry.append(draft)


def _are_equal_lists(lists: pa.ListArray, count: int) -> npt.NDArray[np.bool_]:
    """Whether each of the first lists equals the one `count` further on, value by value as above."""
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy()
    codes = lists.flatten().dictionary_encode().indices.fill_null(-1).to_numpy()
    ends = np.cumsum(np.maximum(lengths, 0))
    parts = np.split(codes, ends[:-1])
    pairs = zip(parts[:count], parts[count:], strict=True)
    found = np.array([np.array_equal(one, other) for one, other in pairs], bool)
    found &= lengths[:count] == lengths[count:]
    return found
