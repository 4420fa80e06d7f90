"""What a batch brings to the queries of a part: what match files have for them, and what is read off the rows for all.

Each result has when it is shown and over, the ids of its rows, and the columns that the finish reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression, Query, walk
from weir.algebra.schema import Stream, is_changes
from weir.answer.many_finish import is_taken, projected_many
from weir.answer.shown_results import Constants, Sources, spans
from weir.answer.slot_values import SlotValues
from weir.answer.views import qualified
from weir.families.query_parts import columns_of, condition_of
from weir.runtime.arrived import Arrived, of_part
from weir.runtime.known_constants import EVERYBODY, KnownConstants
from weir.runtime.upkeep_tasks import ShapeTask, UpkeepTask
from weir.store.ascending import NONE, by_bytes, inside
from weir.store.files import Files
from weir.store.maintained import FROM, NEVER, SLOT, TO
from weir.store.matches import read_matches
from weir.store.row_files import arrow_type

Ids = np.ndarray


class FoundResults:
    """The results of one part in one batch; match files and row files are read once."""

    def __init__(self, task: UpkeepTask, number: int, files: Files) -> None:
        self.task = task
        self.number = number
        self.files = files
        self.failed: dict[int, str] = {}  # queries whose expressions could not be evaluated, and why
        self._opened: dict[str, pa.Table] = {}
        self._arrived: dict[tuple[str, bool], Arrived] = {}  # by channel, and whether it is of older rows

    def is_any(self, shape: ShapeTask) -> bool:
        """Whether there may be something for a shape."""
        if any(self.task.places[name].has_new for name in shape.read_streams):
            return True
        arrived = ((core, self._arrived_on(shape.channels[core], older=False)) for core in shape.matched)
        return any(len(of.of_core(shape.groups, core)[0]) for core, of in arrived)

    def came(self, shape: ShapeTask, core: int, gone: Ids, looked: KnownConstants) -> pa.Table:
        """What this batch found for a core: whose, from when until when, which rows, and the core's columns."""
        channel, mine = shape.channels[core], (self.number, self.task.parts)
        found = [of_part(self._arrived_on(channel, older=False).of_core(shape.groups, core), *mine, gone)]
        if len(shape.new) and self.task.older:
            older = self._arrived_on(channel, older=True).of_core(shape.groups, core)
            found.append(of_part(older, *mine, gone, shape.new))
        slot = np.concatenate([queries for queries, _ in found])
        rows = [np.concatenate(of) for of in zip(*(rows for _, rows in found), strict=True)]
        query = shape.cores.cores[core]
        if shape.keeping.additive is None or not is_taken(columns_of(query)):  # what is only added up needs no order
            order = by_bytes(slot - slot.min(initial=NEVER))
            slot, rows = slot[order], [of[order] for of in rows]
        by_source = tuple(rows[side] for side in shape.sides[core])
        return self._with_columns(query, slot, Sources(query.sources, shape.streams[core], by_source), looked)

    def read(self, shape: ShapeTask, core: int, everybody: KnownConstants, *, is_anew: bool) -> pa.Table:
        """What this batch brought for a common core, or all that is there: the rows that its condition lets through."""
        query = shape.cores.cores[core]
        (stream,) = shape.streams[core]
        places = self.task.places[stream.name]
        rows = places.ids(0 if is_anew else places.new_from) if len(everybody.slots) else NONE
        condition = condition_of(query)
        if condition is not None and len(rows):
            table = self._rows(stream, 0, rows, [condition])
            values = SlotValues(everybody.of(everybody.slots).constants, self.task.now_us)
            rows = rows[values.true(qualified(condition), table, np.zeros(len(rows), np.int64))]
        whose = np.full(len(rows), EVERYBODY[0])
        found = self._with_columns(query, whose, Sources(query.sources, shape.streams[core], (rows,)), everybody)
        failed = self.failed.pop(int(EVERYBODY[0]), None)
        if failed is not None:
            raise ValueError(failed)
        return found

    def _arrived_on(self, channel: str, *, older: bool) -> Arrived:
        """What was found on a channel: of the batch's rows, or of older ones for new queries."""
        key = channel, older
        if key not in self._arrived:
            paths = self.task.older if older else self.task.matches
            pieces = [piece for path in paths for piece in read_matches(self.files, path, channel)]
            asking = sum(shape.channels.count(channel) for shape in self.task.shapes)
            self._arrived[key] = Arrived(pieces, channel, is_shared=asking > 1)
        return self._arrived[key]

    def _with_columns(self, query: Query, slot: Ids, sources: Sources, looked: KnownConstants) -> pa.Table:
        """Results with when they are shown and what the core projects; by query, unless that is only taken."""
        columns = columns_of(query)
        asked = looked.those_of(NONE if is_taken(columns) else slot)
        tables, times = [], []
        for k, (stream, rows) in enumerate(sources.each()):
            table = self._rows(stream, k, rows, [e for _, e in columns])
            tables.append(table)
            time = table.column(f"{k}.{stream.time}").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            times.append(None if is_changes(stream.name) else time)
        gone = [time.is_null().to_numpy() for time in times if time is not None and time.null_count]
        if gone:  # a row that came late met one whose file has expired since it was put among the partners
            left = np.flatnonzero(~np.logical_or.reduce(gone))
            slot, sources = slot[left], sources._replace(rows=[rows[left] for rows in sources.rows])
            tables = [table.take(pa.array(left)) for table in tables]
            times = [None if time is None else time.take(pa.array(left)) for time in times]
            asked = looked.those_of(NONE if is_taken(columns) else slot)
        known_times = [None if time is None else time.to_numpy() for time in times]
        span = spans(sources, known_times, slot, Constants(looked.slots, looked.table))
        side_by_side = pa.table({name: table.column(name) for table in tables for name in table.column_names})
        made = projected_many(columns, side_by_side, slot, asked, self.task.now_us)
        self.failed |= made.failed
        there = ~inside(slot, np.array(sorted(made.failed), np.int64)) if made.failed else slice(None)
        fields = [pa.field(name, pa.int64()) for name in (SLOT, FROM, TO, *span.more)]
        fields += [pa.field(c.name, arrow_type(c.type)) for c in query.output]
        known = [pa.array(one[there]) for one in (slot, span.begin, span.end, *span.more.values())]
        arrays = [*known, *made.table.columns[1:]]
        cast = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
        table = pa.Table.from_arrays(cast, schema=pa.schema(fields))
        begin, end = span.begin[there], span.end[there]
        shown = (end > self.task.now_us) & (begin < end)
        return table if shown.all() else table.filter(pa.array(shown))

    def _rows(self, stream: Stream, source: int, rows: Ids, values: Sequence[Expression]) -> pa.Table:
        """The columns of one source that expressions mention, and its time."""
        parts = (p for e in values for p in walk(e) if isinstance(p, ColumnRef) and p.source == source)
        names = list(dict.fromkeys([*(part.name for part in parts), stream.time]))
        taken = self.task.places[stream.name].take(self.files, rows, self._opened, names)
        return taken.rename_columns([f"{source}.{name}" for name in names])
