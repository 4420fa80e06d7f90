"""The second oracle: answer(q, τ, N) computed by Spark's own SQL from the raw rows.

Spark is the language's reference, so nothing is translated (`weir.testing.spark_texts`): every source occurrence
becomes a temporary view of what its window shows at τ, and Spark runs the user's text. It shares with the engine how
window clauses are found in a text, nothing else.

A session of its own beside the given one (`newSession`) has the settings that answers depend on: UTC, and no ANSI, so
that a divisor of zero and the like give NULL as in Weir. Two things differ from Weir all the same: sums and products of
whole numbers that overflow wrap around (Weir: NULL), and a whole number beside a double loses digits in a comparison
(Weir: exact). Where the first may be the reason for a difference, `raises` says whether ANSI mode takes the query.

Cost: about 0.2 s an answer once warm; views are made from Arrow as local relations, and kept as long as the same rows
are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Catalog, Stream, Table
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.windows import WindowClause
from weir.testing.arrow_types import arrow_type
from weir.testing.spans import Span, span
from weir.testing.spark_texts import spark_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSI = "spark.sql.ansi.enabled"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    _ANSI: "false",
    # A handful of rows: one partition, no replanning, and plans are interpreted rather than compiled.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# What depends on whether a relation is known to be empty: `x NOT IN (SELECT …)` of an x that is then the literal NULL
# would be unknown even where the query gives no rows.
_SETTINGS["spark.sql.optimizer.excludedRules"] = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("ConvertToLocalRelation", "PropagateEmptyRelation")
)
_VIEWS_MAX = 500


class SparkRefusesError(Exception):
    """Spark has no answer to a text: it does not take it, or fails on these rows."""


def answer(
    session: SparkSession,
    query: str | Parsed,
    params: Mapping[str, object] | None,
    catalog: Catalog,
    rows: Mapping[str, pa.Table],
    tau_us: int,
    *,
    views: Mapping[str, str] | None = None,
) -> pa.Table:
    """The one-time SQL of `query` over the windows' contents at τ, with Spark's names and types.

    `rows` are as for `weir.testing.answer`; `views` are texts by lower-case name. SparkRefusesError where Spark fails.
    """
    parsed = parse(query, Settings()) if isinstance(query, str) else query
    shelf = _shelf(session)
    shelf.tidy()

    def view_of(name: str, clause: WindowClause | None) -> str:
        relation = catalog.relation(name)
        assert relation is not None, f"there is no stream or table {name}"
        shown = span(relation, clause, params or {}, tau_us) if isinstance(relation, Stream) else Span(None, tau_us)
        return shelf.view(relation, rows.get(relation.name.lower()), shown)

    text = spark_text(parsed, params or {}, tau_us, view_of, views or {})
    try:
        found: pa.Table = shelf.session.sql(text).toArrow()
    except Exception as e:
        reason = str(e).split("\n\nJVM stacktrace")[0]
        raise SparkRefusesError(f"{text}\nwhich is {parsed.text}\nbecause {reason}") from e
    arrays = [column.combine_chunks() for column in found.columns]
    return pa.Table.from_arrays(arrays, names=found.column_names)


def raises(session: SparkSession, ask: Callable[[], object]) -> bool:
    """Whether ANSI mode raises an error where `ask` asks for an `answer` of this session.

    Then what Spark answers without it may be a number that wrapped around.
    """
    own = _shelf(session).session
    own.conf.set(_ANSI, "true")
    try:
        ask()
    except SparkRefusesError:
        return True
    finally:
        own.conf.set(_ANSI, "false")
    return False


class _Shelf:
    """The oracle's session, and the views in it."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session.newSession()
        for name, value in _SETTINGS.items():
            self.session.conf.set(name, value)
        self._made: dict[tuple[str, Span | None], tuple[pa.Table | None, str]] = {}
        self._count = 0

    def view(self, relation: Stream | Table, rows: pa.Table | None, shown: Span | None) -> str:
        """The view of these rows; it is made once as long as the rows are the same object."""
        key = (relation.name.lower(), shown)
        found = self._made.get(key)
        if found is not None and found[0] is rows:
            return found[1]
        if found is not None:
            self.session.catalog.dropTempView(found[1])
        self._count += 1
        name = f"weir_w{self._count}"
        self.session.createDataFrame(contents(relation, rows, shown)).createOrReplaceTempView(name)
        self._made[key] = (rows, name)
        return name

    def tidy(self) -> None:
        """Not while a text is being written that names some of them."""
        if len(self._made) > _VIEWS_MAX:
            for _, name in self._made.values():
                self.session.catalog.dropTempView(name)
            self._made = {}


_shelves: WeakKeyDictionary[SparkSession, _Shelf] = WeakKeyDictionary()


def _shelf(session: SparkSession) -> _Shelf:
    found = _shelves.get(session)
    if found is None:
        found = _shelves[session] = _Shelf(session)
    return found


def contents(relation: Stream | Table, rows: pa.Table | None, shown: Span | None) -> pa.Table:
    """The rows that a window shows; all of a table's."""
    types = [arrow_type(c.type) for c in relation.columns]
    names = [c.name for c in relation.columns]
    if rows is None or shown is None:
        return pa.table([pa.array([], t) for t in types], names=names)
    found = pa.table([rows.column(n).cast(t) for n, t in zip(names, types, strict=True)], names=names)
    if isinstance(relation, Table):
        return found
    times = found.column(relation.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    seen = times <= shown.end_us
    if shown.begin_us is not None:
        seen &= times > shown.begin_us
    places = np.flatnonzero(seen)
    if shown.rows is not None:
        by_time = np.argsort(times[places], kind="stable")
        places = places[by_time[max(0, len(places) - shown.rows) :]]
    return found.take(pa.array(places)).combine_chunks()
