"""A weir whose queries are kept where they can be, and what is held against them.

Whoever registers gets kept queries without knowing it, so the scenarios of all other oracles hold kept answers against
DuckDB. Beside that, what each batch says came and went is added up by query, and has to be its answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import weir
from weir.answer import fetch
from weir.api import Weir
from weir.errors import RegisterError
from weir.handles import Query
from weir.runtime.maintain import CAME
from weir.store.data_files import batch_of_path
from weir.store.ledger import Done
from weir.store.maintained import SLOT, read_changes, shapes_with_changes


class Keeping:
    """Keeps the queries of a weir."""

    def __init__(self, w: Weir) -> None:
        self.weir = w
        self.refused: Counter[str] = Counter()
        self.ids: set[int] = set()
        self.sums: dict[int, Counter[str]] = {}  # by query, what came less what went
        self.read = 0  # answers that were read and not computed
        self.changes = 0
        self._register, self._register_many = w.register, w.register_many
        w.register = self.register  # type: ignore[method-assign]  # scenarios register through the weir they are given
        w.register_many = self.register_many  # type: ignore[method-assign]  # likewise

    def register(self, sql: str, params: Any = None) -> Query:
        try:
            query = self._register(sql, params, kept=True)
        except RegisterError as refused:
            query = self._register(sql, params)  # what is wrong with the query itself is raised again
            self.refused[str(refused)] += 1
        else:
            self.ids.add(query.id)
        return query

    def register_many(self, sql: str, params: Any) -> weir.handles.Queries:
        try:
            queries = self._register_many(sql, params, kept=True)
        except RegisterError as refused:
            queries = self._register_many(sql, params)
            self.refused[str(refused)] += 1
        else:
            self.ids.update(queries.ids)
        return queries

    def after(self, done: Done) -> None:
        """Hold what a batch says of its changes against the answers that it keeps."""
        w = self.weir
        for id, came, row in changes_in(w, done):
            bag = self.sums.setdefault(id, Counter())
            bag[row] += 1 if came else -1
            self.changes += 1
            assert came or bag[row] >= 0, f"query {id}: {row} went and had not come"
        w.registry.refresh()
        w.state.refresh(w.ledger)
        gone = {*w.registry.dropped().tolist(), *w.state.given_up.ids().tolist()}
        for id in sorted(self.ids - gone):
            standing = w._library.standing(id)
            if w.state.active_from(standing.registry_number) is None:
                continue  # the batch was planned before the query stood
            kept = fetch.kept_answer(standing, w.files, w.state)
            assert kept is not None, f"batch {done.batch}: query {id} is not kept: {w.query(id).sql}"
            self.read += 1
            told = Counter({row: n for row, n in self.sums.get(id, Counter()).items() if n})
            assert told == Counter(rows_of(kept)), (
                f"batch {done.batch}, query {id}: changes do not add up to the answer"
            )


def changes_in(
    w: Weir, done: Done, shown: Callable[[pa.Table], list[str]] | None = None
) -> list[tuple[int, bool, str]]:
    """What came and went in a batch: query, whether it came, and the row as a text."""
    found = []
    for part in done.kept:
        if not part.path or batch_of_path(part.path) != done.batch:
            continue  # only its due time is new
        for shape in shapes_with_changes(w.files, part.path):
            table = read_changes(w.files, part.path, shape)
            assert table is not None, "the file said that there is one"
            ids, came = table.column(SLOT).to_pylist(), table.column(CAME).to_pylist()
            found += list(zip(ids, came, (shown or rows_of)(table), strict=True))
    return found


def rows_of(table: pa.Table) -> list[str]:
    """The rows of a table of answers or of changes, as texts by which equal ones are equal."""
    names = [k for k, name in enumerate(table.column_names) if name not in (SLOT, CAME)]
    columns = [[_text(value) for value in table.column(k).to_pylist()] for k in names]
    return [" ".join(row) for row in zip(*columns, strict=True)] if columns else [""] * table.num_rows


def _text(value: object) -> str:
    """0.0 and −0.0 are one value, also in lists and structs."""
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return _text([*value.items()]) if isinstance(value, dict) else repr(value)
