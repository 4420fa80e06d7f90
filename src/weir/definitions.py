"""Streams and tables of a weir: how they are defined, and what may become of them while queries read them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from weir.algebra.schema import Stream, Table
from weir.answer.standing import Library
from weir.errors import PushError, StreamError, WeirError, did_you_mean
from weir.plan.registration import keeps_its_window
from weir.runtime.intake import expect_name, expect_text, parse_columns, parse_length, time_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

R = TypeVar("R", Stream, Table)


def defined_stream(name: str, source: str | DataFrame, time: str, keep: str | int, future: str | int) -> Stream:
    """A stream as a user describes it."""
    expect_name(name, "stream", StreamError)
    expect_text(time, f"time of stream '{name}'", StreamError)
    if isinstance(source, str):
        columns, kind = parse_columns(source, name), "push"
    else:
        from weir.runtime.frames import check_frame
        from weir.runtime.sources import columns_of

        check_frame(source, name)
        columns, kind = columns_of(source, f"stream '{name}'"), "spark"
    spelt = time_column(name, columns, time, "stream").name
    keep_us = parse_length(keep, f"keep of stream '{name}'")
    future_us = parse_length(future, f"future of stream '{name}'")
    return Stream(name, columns, spelt, keep_us, 2**60 if future_us is None else future_us, kind)


class Definitions:
    """The streams and tables of a weir, as its standing queries leave them to be changed."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.catalog_log = library.catalog_log

    def stream(self, name: str, error: type[PushError] | type[StreamError]) -> Stream:
        """The stream of this name."""
        known = self.catalog_log.read()
        hint = "it is a table: see upsert, delete and drop_table"
        return _defined("stream", name, known.streams, known.tables, hint, error)

    def table(self, name: str, error: type[PushError] | type[StreamError]) -> Table:
        """The table of this name."""
        known = self.catalog_log.read()
        return _defined("table", name, known.tables, known.streams, "it is a stream: see push and drop_stream", error)

    def change_keep(self, name: str, keep: str | int) -> Stream:
        """Have a stream keep its rows for another length of time."""
        stream = self.stream(name, StreamError)
        keep_us = parse_length(keep, f"keep of stream '{stream.name}'")
        if keep_us is None and stream.keep_us is not None:
            raise StreamError(
                f"stream '{stream.name}' keeps a finite time, and what has expired cannot come back for ever",
                hint="define another stream with keep='forever'",
            )
        changed = replace(stream, keep_us=keep_us)
        self._refuse_change(changed)
        self.catalog_log.change_keep(stream.name, keep_us)
        try:  # again: a query may have been registered meanwhile
            self._refuse_change(changed)
        except StreamError:
            self.catalog_log.change_keep(stream.name, stream.keep_us)
            raise
        return changed

    def _refuse_change(self, changed: Stream) -> None:
        """A StreamError if standing queries would see other rows of a stream that is defined like this."""
        depend = []
        for ids, planned, constants in self.library.reading(changed.name):
            if planned is not None and not keeps_its_window(planned.query, changed, constants):
                depend.append(ids)
        _refuse(depend, f"the windows of {{}} depend on how long stream '{changed.name}' keeps its rows")

    def drop_stream(self, name: str) -> Stream:
        """Drop a stream that no standing query reads."""
        stream = self.stream(name, StreamError)
        _refuse([ids for ids, _, _ in self.library.reading(stream.name)], f"{{}} read stream '{stream.name}'")
        self.catalog_log.drop_stream(stream.name)
        return stream

    def drop_table(self, name: str) -> Table:
        """Drop a table that no standing query reads."""
        table = self.table(name, StreamError)
        _refuse(self.library.reading_table(table.name), f"{{}} read table '{table.name}'")
        self.catalog_log.drop_table(table.name)
        return table


def _refuse(groups: Sequence[np.ndarray], why: str) -> None:
    """A StreamError that names some of the queries that stand in the way, if there are any."""
    ids = np.concatenate([np.empty(0, np.int64), *groups])
    if len(ids):
        some = ", ".join(str(id) for id in ids[:5]) + (", …" if len(ids) > 5 else "")
        raise StreamError(why.format(f"{len(ids):,} standing queries ({some})"), hint="drop them first")


def _defined(
    kind: str, name: str, of_kind: Mapping[str, R], others: Container[str], if_other: str, error: type[WeirError]
) -> R:
    """The stream or table of this name; if there is none the error says what the name may have meant."""
    expect_text(name, f"the name of a {kind}", error)
    found = of_kind.get(name.lower())
    if found is None:
        known = [relation.name for relation in of_kind.values()]
        meant = did_you_mean(name, known) or f"{kind}s: {', '.join(known) or 'none yet'}"
        raise error(f"there is no {kind} '{name}'", hint=if_other if name.lower() in others else meant)
    return found
