"""Queries that fail where they are not allowed to: faults put into the families from outside, for one victim.

A poisoned world has streams R, S and T, queries of every form, and a victim of each form whose shape reads the column
`odd`. `poisoned(place, ids)` makes everything that has to do with a victim raise: reading its text, building its index,
preparing rows for it, or matching it. Everybody's answers, the victims' included, must stay those of the oracle.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import weir
from weir.families.contract import Encounter, Needs
from weir.families.joins import join_form
from weir.families.many import many_form
from weir.families.selections import selection_form
from weir.runtime import query_segments
from weir.store.row_files import arrow_schema
from weir.testing import answer, differ
from weir.values.codec import canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "k bigint, a bigint, b bigint, odd bigint, ts timestamp"
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
FORMS = {"selection": selection_form, "join": join_form, "many": many_form}
TEXTS = {
    "selection": "SELECT a, b FROM R WHERE a > {x}",
    "join": "SELECT R.a, S.b FROM R JOIN S ON R.k = S.k WHERE R.a > {x} AND S.b < 60",
    "many": "SELECT R.a, S.b, T.b AS c FROM R JOIN S ON R.k = S.k JOIN T ON S.k = T.k WHERE R.a > {x} AND T.b < 60",
}
VICTIMS = {
    "selection": "SELECT a, b FROM R WHERE a > {x} AND odd % 3 = 1",
    "join": "SELECT R.a, S.b FROM R JOIN S ON R.k = S.k WHERE R.a > {x} AND S.odd % 3 = 1",
    "many": "SELECT R.a, S.b FROM R JOIN S ON R.k = S.k JOIN T ON S.k = T.k WHERE R.a > {x} AND S.odd % 3 = 1",
}


_FAR = "SELECT x.a FROM R x CROSS JOIN R y CROSS JOIN R z"
# Taken when they are registered, and never answered: what they ask for does not fit into anything.
EXPLODING = {
    "cross joins": "WITH d AS (SELECT DISTINCT odd, a FROM R) SELECT count(*) AS c FROM "
    + " CROSS JOIN ".join(f"d d{k}" for k in range(9)),
    "a join of nothing": "SELECT x.a FROM (SELECT a FROM R) x FULL OUTER JOIN (SELECT a FROM S) y ON x.a <> y.a "
    "CROSS JOIN (SELECT a FROM T) z CROSS JOIN (SELECT b FROM T) u CROSS JOIN (SELECT b FROM S) v "
    "CROSS JOIN (SELECT b FROM S) w",
    "a list of everything": "SELECT collect_list(a) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
    f"FOLLOWING) AS l FROM ({_FAR}) f",
    "frames over all rows": "SELECT sum(CAST(a AS double)) OVER (ORDER BY a ROWS BETWEEN 99999 PRECEDING AND 99999 "
    f"FOLLOWING) AS s FROM ({_FAR}) f",
    "a value of many rows": "SELECT a, (SELECT b FROM S) AS x FROM R",
    "texts in texts": "SELECT replace(repeat(CAST(a AS string), 30000), '1', repeat('b', 60000)) AS x FROM R",
    "texts by patterns": "SELECT regexp_replace(repeat(CAST(a AS string), 30000), '[0-9]', "
    "repeat('b', 60000)) AS x FROM R",
    "texts beside texts": f"SELECT concat({', '.join(['repeat(CAST(a AS string), 30000)'] * 400)}) AS x FROM R",
    "texts that are matched": "SELECT a FROM R WHERE length(replace(repeat(CAST(a AS string), 30000), '1', "
    "repeat('b', 60000))) > 5",
    "texts that are compared": "SELECT a FROM R WHERE levenshtein(repeat(CAST(a AS string), 9000), "
    "repeat('b', 9000)) > 5",
    "texts of pairs": "SELECT R.a FROM R JOIN S ON R.k = S.k WHERE length(replace(repeat(CAST(R.a AS string), 30000), "
    "CAST(S.a % 2 AS string), repeat('b', 60000))) > 5",
}


class PoisonError(ArithmeticError):
    """What a poisoned step raises: nothing that Weir knows of."""


class World:
    """A weir with queries of every form, and what the oracle needs to know."""

    def __init__(self, folder: Path | str, spark: SparkSession | None = None, **settings: object) -> None:
        self.weir = weir.open(folder, spark=spark, settings={"demote_pairs_min": 10**9, **settings})
        self.random = np.random.default_rng(3)
        self.rows: dict[str, list[pa.Table]] = {"R": [], "S": [], "T": []}
        self.texts: dict[int, str] = {}
        self.params: dict[int, dict[str, object]] = {}  # of queries that have any
        self.batches = 0
        for name in self.rows:
            self.weir.stream(name, COLUMNS, time="ts", keep="1 hour")
        for form, text in TEXTS.items():
            self.many(text, range(70, 90, 7))
            self.one(text, 40)
            assert self.weir.queries()["family"].to_pylist()[-1] == FORMS[form].name

    def one(self, text: str, x: int) -> int:
        """Register a query with one constant."""
        id = self.weir.register(text.format(x=x)).id
        self.texts[id] = text.format(x=x)
        return id

    def many(self, text: str, xs: Sequence[int]) -> Sequence[int]:
        ids = self.weir.register_many(text.format(x=":x"), {"x": list(xs)}).ids
        self.texts |= {id: text.format(x=x) for id, x in zip(ids, xs, strict=True)}
        return ids

    def keep_rows(self, name: str, rows: pa.Table) -> None:
        """Remember rows of any stream for the oracle."""
        columns = self.weir.catalog.streams[name.lower()].columns
        wanted = arrow_schema(columns)
        filled = [
            rows[f.name].cast(f.type) if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in wanted
        ]
        self.rows.setdefault(name, []).append(pa.table(filled, schema=wanted))

    def new_rows(self, count: int = 30) -> dict[str, pa.Table]:
        """Rows of R, S and T, one second later."""
        self.batches += 1
        moment = START + datetime.timedelta(seconds=self.batches)
        made = {}
        for name in ("R", "S", "T"):
            draws = {c: self.random.integers(0, 6 if c == "k" else 100, count) for c in ("k", "a", "b", "odd")}
            made[name] = pa.table(draws | {"ts": pa.array([moment] * count, pa.timestamp("us", "UTC"))})
            self.rows[name].append(made[name])
        return made

    def check(self) -> None:
        """Every answer is the oracle's."""
        w = self.weir
        rows = {name.lower(): pa.concat_tables(tables) for name, tables in self.rows.items()}
        for id, text in self.texts.items():
            got = w.query(id).fetch()
            difference = differ(answer(text, self.params.get(id, {}), w.catalog, rows, w.state.now_us or 0), got)
            assert difference is None, f"batch {w.state.last}, query {id}: {text}\n{difference}"

    def demoted(self) -> dict[int, str]:
        """The queries that are not matched, and why."""
        listed = self.weir.queries()
        found = zip(listed["id"].to_pylist(), listed["demoted"].to_pylist(), listed["reason"].to_pylist(), strict=True)
        return {id: reason for id, is_demoted, reason in found if is_demoted}


def read_fails(patch: Callable[[Any, str, Any], None], ids: frozenset[int]) -> None:
    """The stored text of victims cannot be planned any more."""
    planned = query_segments.stored_shape

    def stored_shape(text: str, *rest: Any) -> Any:
        if "odd" in text.lower():
            raise PoisonError("reading")
        return planned(text, *rest)

    patch(query_segments, "stored_shape", stored_shape)


def build_fails(patch: Callable[[Any, str, Any], None], ids: frozenset[int]) -> None:
    for form in FORMS.values():
        patch(form, "build", _failing_build(form.build, ids))


def _failing_build(build: Callable[..., Any], ids: frozenset[int]) -> Callable[..., Any]:
    def failing(family: Any, groups: Any, catalog: Any, settings: Any, excluded: np.ndarray, recent: Any = None) -> Any:
        here = np.concatenate([group.id_of_row() for group in groups])
        if not ids.isdisjoint(np.setdiff1d(here, excluded).tolist()):
            raise PoisonError("building")
        return build(family, groups, catalog, settings, excluded, recent)

    return failing


def rows_fail(patch: Callable[[Any, str, Any], None], ids: frozenset[int]) -> None:
    for form in FORMS.values():
        patch(form, "build_rows", _failing_rows(form.build_rows))


def _failing_rows(build_rows: Callable[..., Any]) -> Callable[..., Any]:
    def failing(family: Any, side: int, rows: Any, needs: Needs) -> Any:
        if any("odd" in canonical(e).lower() for e in (*needs.columns, *filter(None, needs.accesses))):
            raise PoisonError("encoding")
        return build_rows(family, side, rows, needs)

    return failing


def match_fails(patch: Callable[[Any, str, Any], None], ids: frozenset[int], *, dies: bool = False) -> None:
    for form in FORMS.values():
        patch(form, "open", _failing_open(form.open, ids, dies))


def match_dies(patch: Callable[[Any, str, Any], None], ids: frozenset[int]) -> None:
    match_fails(patch, ids, dies=True)


def _failing_open(opened: Callable[..., Any], ids: frozenset[int], dies: bool) -> Callable[..., Any]:
    def failing(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Any:
        segment = opened(arrays, meta)
        match = segment.match

        def failing_match(asked: Encounter) -> Iterator[Any]:
            if not ids.isdisjoint(segment.ids[asked.muted == 0].tolist()):
                if dies:
                    os.kill(os.getpid(), signal.SIGSEGV)
                raise PoisonError("matching")
            yield from match(asked)

        segment.match = failing_match
        return segment

    return failing


PLACES: dict[str, Callable[[Callable[[Any, str, Any], None], frozenset[int]], None]] = {
    "reading": read_fails,
    "building": build_fails,
    "encoding": rows_fail,
    "matching": match_fails,
}


@contextlib.contextmanager
def poisoned(
    poison: Callable[[Callable[[Any, str, Any], None], frozenset[int]], None], ids: frozenset[int]
) -> Iterator[None]:
    """This process with a poison in it."""
    before: list[tuple[Any, str, Any]] = []

    def patch(where: Any, name: str, new: Any) -> None:
        before.append((where, name, getattr(where, name)))
        setattr(where, name, new)

    poison(patch, ids)
    try:
        yield
    finally:
        for where, name, old in before:
            setattr(where, name, old)
