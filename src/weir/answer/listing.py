"""The list of standing queries: a table with a row each, of all of them or of those that somebody looks for.

What is asked for by id, name, tag and owner is found first, as ids; then texts are made, of what is left, and looked
through; and what the last batch knows of the rest is put beside them. Everything is a column: no object a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.answer import written_texts
from weir.store.labels import Labels
from weir.store.query_groups import GroupRef
from weir.store.registry import Ids
from weir.store.state import State

PIECE_BYTES = 1 << 28  # of texts in one array
TOO_MUCH = "it matches too much to be kept"


class Filters(NamedTuple):
    """Which queries are asked for: those that fit everything that is said."""

    ids: Ids | None = None
    name: str | None = None
    tag: str | None = None
    owner: str | None = None
    text: str | None = None  # part of the text as it was written, in any case


ALL = Filters()


def chosen(labels: Labels, wanted: Filters) -> Ids:
    """The standing queries that are asked for, ascending, as of the registry's last refresh; `text` is left aside."""
    ids = _candidates(labels, wanted)
    if len(ids) and (wanted.tag is not None or wanted.owner is not None):
        table, rows = labels.labels_of(ids)
        fits = np.ones(table.num_rows, bool)
        if wanted.owner is not None:
            fits &= pc.equal(table["owner"], wanted.owner).fill_null(False).to_numpy()
        if wanted.tag is not None:
            tags = table["tags"].combine_chunks()
            tagged = np.zeros(table.num_rows, bool)
            tagged[pc.list_parent_indices(tags).filter(pc.equal(pc.list_flatten(tags), wanted.tag)).to_numpy()] = True
            fits &= tagged
        ids = ids[fits[rows]]
    return ids


def _candidates(labels: Labels, wanted: Filters) -> Ids:
    registry = labels.registry
    if wanted.name is not None:
        found = labels.find(wanted.name)
        ids = np.array([] if found is None else [found], np.int64)
        return ids if wanted.ids is None else np.intersect1d(ids, wanted.ids)
    if wanted.ids is not None:
        return registry.standing(np.unique(wanted.ids))
    return registry.standing()


def listing(labels: Labels, state: State, wanted: Filters = ALL) -> pa.Table:
    """The queries that are asked for."""
    registry = labels.registry
    with registry.lock:  # so that all of it is about the same documents
        groups = registry.groups()
        ids = chosen(labels, wanted)
        places = registry.places_of(ids)
        texts = pa.chunked_array(list(_texts(labels, groups, ids, places)), pa.string())
        if wanted.text is not None:
            fits = pc.match_substring(texts, wanted.text, ignore_case=True)
            texts, kept = texts.filter(fits), fits.to_numpy()
            ids, places = ids[kept], places[kept]
        table, rows = labels.labels_of(ids)
        said = table.take(pa.array(rows))
        columns = {
            "id": pa.array(ids),
            "name": labels.names_of(ids),
            "sql": texts,
            "tags": said["tags"],
            "owner": said["owner"],
        }
        return pa.table(columns | _of_groups(groups, places, state) | _of_batches(labels, ids, groups, places, state))


def _texts(labels: Labels, groups: Sequence[GroupRef], ids: Ids, places: Ids) -> Iterator[pa.Array]:
    """The text of each query as it was written. Those of one group are one stretch."""
    if not len(ids):
        return
    known = labels.groups()
    is_known = pc.is_valid(known["text"]).to_numpy()
    step = max(1, PIECE_BYTES // (pc.max(pc.binary_length(known["text"])).as_py() or 1))
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    starts = starts[~is_known[places[starts]] | ~np.append(False, is_known[places[starts[:-1]]])]
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        place = int(places[start])
        if is_known[place]:  # as those of groups that follow
            for at in range(start, end, step):  # one array holds 2 GiB of text at most
                yield known["text"].take(pa.array(places[at : min(at + step, end)])).combine_chunks()
            continue
        group = groups[place]
        constants = labels.registry.constants(group).take(pa.array(ids[start:end] - group.first_id))
        written = labels.written_at(place) or written_texts.of_shape(group.shape_text)
        yield from written_texts.texts(written, group.types, constants)


def _of_groups(groups: Sequence[GroupRef], places: Ids, state: State) -> dict[str, pa.Array]:
    """What all queries of a group have in common."""
    which = pa.array(places)
    return {
        "shape": _spread([group.shape_text for group in groups], places),
        "stream": _spread([", ".join(group.channels) for group in groups], places),
        "family": _spread([", ".join(dict.fromkeys(group.families)) for group in groups], places),
        "first_batch": pa.array([state.active_from(group.number) for group in groups], pa.int64()).take(which),
    }


def _of_batches(labels: Labels, ids: Ids, groups: Sequence[GroupRef], places: Ids, state: State) -> dict[str, pa.Array]:
    """What became of queries."""
    registry = labels.registry
    reasons = np.full(len(ids), None, object)
    demoted = np.array(list(state.demoted), np.int64)
    reasons[np.isin(ids, registry.queries_of(demoted))] = TOO_MUCH
    for core, count, (_, why) in state.quarantined:
        reasons[np.isin(ids, registry.queries_of(np.arange(core, core + count)))] = why
    is_demoted = pa.array(reasons, pa.string()).is_valid().to_numpy(zero_copy_only=False)
    kept: npt.NDArray[np.bool_] = np.array([group.is_kept for group in groups], bool)[places]
    for query, count, (_, why) in state.given_up:
        lost = np.isin(ids, np.arange(query, query + count))
        kept[lost] = False
        reasons[lost & ~is_demoted] = why
    return {"demoted": pa.array(is_demoted), "kept": pa.array(kept), "reason": pa.array(reasons, pa.string())}


def _spread(texts: Sequence[str], places: Ids) -> pa.Array:
    """A text for each query; every distinct text is stored once."""
    codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    code = np.array([codes[text] for text in texts], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(code[places], pa.int32()), pa.array(list(codes), pa.string()))
