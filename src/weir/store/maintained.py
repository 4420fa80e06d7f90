"""What is known of queries whose answers are maintained, as immutable files that done documents name.

Kept queries are cut into parts by id, and each part is one task's work in a batch. What a part knows is a *manifest*
of *runs*: tables about some of its queries, in any of its files, by the shape that the queries share.

    constants   the constants of queries, once a query
    results     by core, the results that are shown or will be: whose, from when until when, which rows, their columns;
                where groups are added up, those that are in their sums, and those that will be
    sums        of groups that are added up, what was added and taken away
    answers     the answers that changed in a batch; of several runs about one query the newest counts. Where an answer
                is the results themselves, only what was told of queries that were given up
    dues        when a query's answer changes though nothing comes; the newest counts

A batch writes one file a part: its new runs, what came and went, and the whole manifest. Runs are merged while
neighbours are of similar size, so that a query is looked for in a logarithm of them, and results that are over go with
that. So a file is a delta beside those that it names, and where everything was merged it is a snapshot. Nothing is ever
changed: a batch that is run again writes another file, and the one that the done document names counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.store.arrays import read_data_arrays, write_data_arrays
from weir.store.ascending import by_bytes, common, distinct, inside, together, without
from weir.store.files import Files, reach
from weir.store.mapped import Mapped
from weir.store.narrow_tables import narrowed, widened
from weir.store.row_files import encode_table

FOLDER = "kept"
SLOT = "slot of row"  # the query that a row is about; users may not call columns of kept queries so
FROM, TO = "from us", "to us"  # a result is shown at τ if from <= τ < to
MERGE_RATIO = 4  # a run is merged with the next one while it is at most this many times as large
RUNS_MAX = 12
NEVER = 2**62
Ids = npt.NDArray[np.int64]
GATHERED_SHARE = 4  # a file is left behind when less than one in so many of its bytes counts …
GATHERED_BYTES_MAX = 1 << 20  # … and what counts is copied, up to so many bytes a batch
PARTITIONS_MAX = 64  # runs of results that are in sums: as many as a window is cut into, by when they are over
_KINDS = ("constants", "answers", "dues", "sums")


@dataclass(frozen=True, slots=True)
class Run:
    """A table in a file."""

    path: str  # "" is the file itself that says so: a name holds a checksum, so no file can hold its own name
    key: str
    count: int  # rows
    last_us: int = NEVER  # of results: when the last of them is over …
    first_us: int = 0  # … and before when none of them is


@dataclass(frozen=True, slots=True)
class ShapeRuns:
    """What a part knows of the queries of one shape; the oldest run of each kind comes first."""

    constants: tuple[Run, ...] = ()
    answers: tuple[Run, ...] = ()
    dues: tuple[Run, ...] = ()
    sums: tuple[Run, ...] = ()
    results: tuple[tuple[Run, ...], ...] = ()  # by core
    due_us: int = 0  # before that moment no answer changes unless something comes
    are_rows: bool = False  # whether the results that are shown are the answers

    def all_runs(self) -> Iterable[Run]:
        """Every run, of all kinds."""
        return (*(run for kind in _KINDS for run in getattr(self, kind)), *(run for of in self.results for run in of))


@dataclass(frozen=True)
class Part:
    """What a file of a part says."""

    path: str
    shapes: Mapping[str, ShapeRuns]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """This file and those that it needs."""
        paths = {run.path for shape in self.shapes.values() for run in shape.all_runs()}
        return tuple(sorted({self.path} | paths))


_mapped: Mapped[Part] = Mapped(1024)


def read_part(files: Files, path: str) -> Part:
    """A part's file, mapped; the runs that it holds itself are given its name."""

    def read() -> Part:
        arrays, meta = read_data_arrays(files, path)
        shapes = {name: _shape_from(said, path) for name, said in meta["shapes"].items()}
        return Part(path, shapes, arrays)

    return _mapped.get(files, path, read)


def read_run(files: Files, run: Run) -> pa.Table:
    """The table of a run; of results a copy, as they are narrow in files, else none."""
    return widened(_table(read_part(files, run.path).arrays[run.key]))


def read_told(files: Files, run: Run) -> Ids:
    """The queries that a run of answers is about, ascending: those without any row among them."""
    told: Ids = read_part(files, run.path).arrays[_told(run.key)]
    return told


def read_changes(files: Files, path: str, shape: str) -> pa.Table | None:
    """What came and went in the batch that wrote a file, of one shape: SLOT, CAME and the columns of an answer."""
    data = read_part(files, path).arrays.get(_changes(shape))
    return None if data is None else _table(data)


def shapes_with_changes(files: Files, path: str) -> list[str]:
    """The shapes of which something came or went in the batch that wrote a file."""
    part = read_part(files, path)
    return [name for name in part.shapes if _changes(name) in part.arrays]


def answer_of(files: Files, shape: ShapeRuns, slot: int, schema: pa.Schema) -> pa.Table | None:
    """The answer of one query, with these columns; None if nobody has told it."""
    if shape.are_rows:
        if not any(len(_about(read_run(files, run), slot)) for run in shape.constants):
            return None
        rows = [still_shown(run, _about(read_run(files, run), slot)) for run in shape.results[0]]
        return pa.concat_tables([schema.empty_table(), *(_with_schema(found, schema) for found in rows)])
    for run in reversed(shape.answers):
        told = read_told(files, run)
        at = int(np.searchsorted(told, slot))
        if at < len(told) and told[at] == slot:
            return _with_schema(_about(read_run(files, run), slot), schema)
    return None


def answers_of(files: Files, shape: ShapeRuns, slots: Ids, schema: pa.Schema) -> tuple[pa.Table, Ids]:
    """The answers of some queries, which ascend: SLOT and these columns; and for which of them an answer was told."""
    schema = schema.insert(0, pa.field(SLOT, pa.int64()))
    found = [schema.empty_table()]
    if shape.are_rows:
        told = together(*(common(slots, distinct(_slots(read_run(files, run)))) for run in shape.constants))
        rows = [still_shown(run, read_run(files, run), told) for run in shape.results[0]]
        found += [_cast(one, schema) for one in rows]
        return _by_slot(pa.concat_tables(found)), told
    left = slots
    for run in reversed(shape.answers):
        told = common(left, read_told(files, run))
        if len(told):
            table = read_run(files, run)
            found.append(_cast(table.filter(pa.array(inside(_slots(table), told))), schema))
            left = without(left, told)
    return _by_slot(pa.concat_tables(found)), without(slots, left)


def _slots(table: pa.Table) -> Ids:
    slots: Ids = table.column(SLOT).to_numpy()
    return slots


def _cast(answers: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(answers.columns, schema=schema)


def _with_schema(answer: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(answer.drop_columns([SLOT]).columns, schema=schema)


def _about(table: pa.Table, slot: int) -> pa.Table:
    """The rows of one query, of a table by query."""
    first, end = np.searchsorted(table.column(SLOT).to_numpy(), (slot, slot + 1))
    return table.slice(first, end - first)


def still_shown(run: Run, table: pa.Table, slots: Ids | None = None) -> pa.Table:
    """The rows of a partition that were shown after the batch that named it; only of some queries if that is said."""
    shown = table.column(TO).to_numpy() >= run.first_us
    if slots is not None:
        shown &= inside(table.column(SLOT).to_numpy(), slots)
    left = table if shown.all() else table.filter(pa.array(shown))
    return left.drop_columns([TO])


class PartWriter:
    """A part's next file while it is made."""

    def __init__(self, files: Files, batch: int, before: Part | None) -> None:
        self.files = files
        self.batch = batch
        self.shapes: dict[str, ShapeRuns] = {} if before is None else dict(before.shapes)
        self._arrays: dict[str, np.ndarray] = {}
        self._own: dict[str, pa.Table] = {}  # the tables that are new, by key
        self._told: dict[str, Ids] = {}

    def table(self, run: Run) -> pa.Table:
        """The table of a run, of this file or of an earlier one."""
        return read_run(self.files, run) if run.path else self._own[run.key]

    def told(self, run: Run) -> Ids:
        """The queries that a run of answers is about."""
        return read_told(self.files, run) if run.path else self._told[run.key]

    def add(self, table: pa.Table, told: Ids | None = None, last_us: int = NEVER, first_us: int = 0) -> Run:
        """A new run; of answers `told` says about which queries."""
        key = f"t{len(self._own)}"
        self._own[key] = table
        if told is not None:
            self._told[key] = told
        return Run("", key, table.num_rows if told is None else max(table.num_rows, len(told)), last_us, first_us)

    def set_changes(self, shape: str, table: pa.Table) -> None:
        """What came and went in this batch."""
        self._arrays[_changes(shape)] = _bytes(table)

    def forget_changes(self, shape: str) -> None:
        """Nothing came or went after all."""
        self._arrays.pop(_changes(shape), None)

    def results(
        self, runs: Sequence[Run], new: pa.Table, now_us: int, gone: Ids, needed: Callable[[pa.Table], pa.Table]
    ) -> tuple[Run, ...]:
        """The runs with more results, without those that are over or whose queries are gone; `needed` are the rest."""
        kept = [run for run in runs if run.last_us > now_us]
        new = needed(new)
        if new.num_rows:
            kept.append(self.add(new, last_us=int(new.column(TO).to_numpy().max())))
        while _may_merge(kept):
            table = needed(_still(pa.concat_tables([self.table(run) for run in kept[-2:]]), now_us, gone))
            kept[-2:] = [self.add(table, last_us=int(table.column(TO).to_numpy().max(initial=0)))]
        return tuple(kept)

    def partitions(
        self, runs: Sequence[Run], new: pa.Table, now_us: int, gone: Ids, *, by_query: bool = False
    ) -> tuple[Run, ...]:
        """Runs of results that are looked at when one is over, so that they are cut by that.

        `by_query`: each is in the order of queries, for those who look for one's.
        """
        kept = list(runs)
        if new.num_rows:
            kept.append(self._partition(_by_slot(new) if by_query else new))
        while len(kept) > PARTITIONS_MAX:
            reach("mid-merge of kept state")
            at = min(range(len(kept) - 1), key=lambda k: kept[k].count + kept[k + 1].count)
            both = pa.concat_tables([self.table(run) for run in kept[at : at + 2]])
            there = (both.column(TO).to_numpy() > now_us) & ~inside(both.column(SLOT).to_numpy(), gone)
            left = both.filter(pa.array(there))
            kept[at : at + 2] = [self._partition(_by_slot(left) if by_query else left)] if left.num_rows else []
        return tuple(kept)

    def _partition(self, table: pa.Table) -> Run:
        times = table.column(TO).to_numpy()
        return self.add(table, last_us=int(times.max()), first_us=int(times.min()))

    def sums(
        self, runs: Sequence[Run], new: pa.Table, added: Callable[[list[pa.Table], bool], pa.Table], gone: Ids
    ) -> tuple[Run, ...]:
        """The runs of sums with what was added; what a query's groups are is in all of them together.

        `added` adds up tables, and says of which groups nothing is left if there is nothing before them.
        """
        kept = [*runs, *([self.add(new)] if new.num_rows else [])]
        while _may_merge(kept):
            table = added([self.table(run) for run in kept[-2:]], len(kept) == 2)
            kept[-2:] = [self.add(_but(table, gone))]
        return tuple(kept)

    def without(self, runs: Sequence[Run], slots: Ids, *, are_told: bool = False) -> tuple[Run, ...]:
        """The runs without some queries, which begin anew; of dues what is told has to go on being known."""
        kept = []
        for run in runs:
            table = self.table(run)
            left = _but(table, slots)
            told = without(self.told(run), slots) if are_told else None
            if left is table and (told is None or len(told) == len(self.told(run))):
                kept.append(run)
                continue
            if left.num_rows or (told is not None and len(told)):
                kept.append(replace(self.add(left, told), last_us=run.last_us, first_us=run.first_us))
        return tuple(kept)

    def rows_of(self, runs: Sequence[Run], new: pa.Table, gone: Ids) -> tuple[Run, ...]:
        """The runs of constants with more queries."""
        kept = [*runs, *([self.add(new)] if new.num_rows else [])]
        while _may_merge(kept):
            table = pa.concat_tables([self.table(run) for run in kept[-2:]])
            kept[-2:] = [self.add(_by_slot(_but(table, gone)))]
        return tuple(kept)

    def newest(self, runs: Sequence[Run], new: pa.Table, told: Ids, gone: Ids) -> tuple[Run, ...]:
        """The runs of answers, or of dues, with newer ones."""
        kept = [*runs, *([self.add(new, told)] if len(told) else [])]
        while _may_merge(kept):
            older, newer = kept[-2:]
            over = together(self.told(newer), gone)
            both = pa.concat_tables([_but(self.table(older), over), _but(self.table(newer), gone)])
            known = without(together(self.told(older), self.told(newer)), gone)
            kept[-2:] = [self.add(_by_slot(both), known)]
        return tuple(kept)

    def _gather(self) -> None:
        """Copy runs out of files of which little still counts, so that these may go."""
        runs_of: dict[str, set[Run]] = {}
        for shape in self.shapes.values():
            for run in shape.all_runs():
                if run.path:
                    runs_of.setdefault(run.path, set()).add(run)
        room, copies = GATHERED_BYTES_MAX, dict[Run, Run]()
        for path, runs in sorted(runs_of.items()):
            arrays = read_part(self.files, path).arrays
            live = sum(arrays[key].nbytes for run in runs for key in (run.key, _told(run.key)) if key in arrays)
            if live * GATHERED_SHARE > sum(array.nbytes for array in arrays.values()) or live > room:
                continue
            room -= live
            for run in runs:
                told = arrays.get(_told(run.key))
                copies[run] = replace(self.add(self.table(run), told), last_us=run.last_us, first_us=run.first_us)
        if copies:
            self.shapes = {
                name: _mapped_runs(shape, lambda run: copies.get(run, run)) for name, shape in self.shapes.items()
            }

    def write(self) -> Part:
        """Write the file: the runs of its own that the manifest names, the changes, the manifest."""
        self._gather()
        named = {run.key for shape in self.shapes.values() for run in shape.all_runs() if not run.path}
        results = {run.key for shape in self.shapes.values() for of in shape.results for run in of}
        for key in sorted(named):
            self._arrays[key] = _bytes(narrowed(self._own[key]) if key in results else self._own[key])
            if key in self._told:
                self._arrays[_told(key)] = self._told[key]
        reach("kept state, mid-file")
        meta = {"shapes": {name: _shape_json(shape) for name, shape in self.shapes.items()}}
        path = write_data_arrays(self.files, FOLDER, self.batch, self._arrays, meta)
        return Part(path, {name: _named(shape, path) for name, shape in self.shapes.items()})


def _may_merge(runs: Sequence[Run]) -> bool:
    if len(runs) < 2:
        return False
    reach("mid-merge of kept state")
    return len(runs) > RUNS_MAX or runs[-2].count <= MERGE_RATIO * max(1000, runs[-1].count)


def _still(table: pa.Table, now_us: int, gone: Ids) -> pa.Table:
    """The results that are not over, by query."""
    slots = table.column(SLOT).to_numpy()
    there = (table.column(TO).to_numpy() > now_us) & ~inside(slots, gone)
    return _by_slot(table.filter(pa.array(there)))


def _but(table: pa.Table, slots: Ids) -> pa.Table:
    """The table without the rows of some queries."""
    over = inside(table.column(SLOT).to_numpy(), slots)
    return table.filter(pa.array(~over)) if over.any() else table


def _by_slot(table: pa.Table) -> pa.Table:
    """The rows by query, those of one in their order."""
    slots = table.column(SLOT).to_numpy()
    if bool((slots[1:] >= slots[:-1]).all()):
        return table
    return table.take(pa.array(by_bytes(slots - slots.min())))


def _told(key: str) -> str:
    return f"{key} told"


def _changes(shape: str) -> str:
    return f"changes {shape}"


def _bytes(table: pa.Table) -> np.ndarray:
    return np.frombuffer(encode_table(table), np.uint8)


def _table(data: np.ndarray) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def _shape_json(shape: ShapeRuns) -> dict[str, Any]:
    def said(runs: Sequence[Run]) -> list[list[object]]:
        return [[run.path, run.key, run.count, run.last_us, run.first_us] for run in runs]

    kinds = {kind: said(getattr(shape, kind)) for kind in _KINDS}
    return kinds | {"results": [said(of) for of in shape.results], "due": shape.due_us, "are_rows": shape.are_rows}


def _shape_from(said: Mapping[str, Any], path: str) -> ShapeRuns:
    def runs(of: Sequence[Sequence[Any]]) -> tuple[Run, ...]:
        return tuple(Run(*one) for one in of)

    kinds = {kind: runs(said[kind]) for kind in _KINDS}
    results = tuple(runs(of) for of in said["results"])
    return _named(ShapeRuns(**kinds, results=results, due_us=said["due"], are_rows=said["are_rows"]), path)


def _named(shape: ShapeRuns, path: str) -> ShapeRuns:
    """With the name of the file where it says itself."""
    return _mapped_runs(shape, lambda run: run if run.path else replace(run, path=path))


def _mapped_runs(shape: ShapeRuns, of: Callable[[Run], Run]) -> ShapeRuns:
    """With another run in the place of each."""
    changed: dict[str, Any] = {kind: tuple(map(of, getattr(shape, kind))) for kind in _KINDS}
    return replace(shape, results=tuple(tuple(map(of, runs)) for runs in shape.results), **changed)
