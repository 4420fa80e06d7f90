"""Cores that are the same for all queries of a shape, so that one copy of their results serves all of them.

    SELECT … FROM orders o WHERE o.area = :area AND NOT EXISTS (SELECT 1 FROM shipment s WHERE s.id = o.id)

reads all shipments, whoever asks. Such a core reads one stream, and all its constants have the same values, which are
looked at when queries are registered (`fixed_constants`). So its results are rows that a condition lets through: they
are read off the rows of the stream, once for many queries, and need no index and no matches. They stand in the finish
as versions of tables do, without a mark whose they are (`weir.answer.slot_marks`). Where an operator would have to copy
them for each query, the core is not common, and each query keeps its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.nodes import Param, Query, Window
from weir.algebra.schema import is_changes
from weir.answer.slot_marks import copied
from weir.plan.cores import Cores
from weir.plan.finishes import CoreRows, Finish, inputs_of, with_inputs


def common_cores(parts: Cores, fixed: Collection[str]) -> frozenset[int]:
    """The cores of which one copy serves all queries that agree in some constants."""
    found: frozenset[int] = frozenset()
    for number, core in enumerate(parts.cores):
        if _reads_one_stream(core) and _constants_of(core) <= set(fixed):
            more = found | {number}
            if not any(_reads_common(part) for part, _ in copied(with_common(parts.finish, more))):
                found = more
    return found


def fixed_constants(parts: Cores, constants: pa.Table) -> dict[str, object]:
    """The constants that make cores common to the queries that are registered together, and their values.

    Of a query that is registered alone only lengths of windows count: others of its shape mostly have other constants
    in their conditions, and a shape for each of them would have to be looked at in every batch.
    """
    if len(parts.cores) < 2:
        return {}
    is_alone = constants.num_rows == 1
    seen = set()
    for core in parts.cores:
        if _reads_one_stream(core) and not (is_alone and _constants_of(core, but=Window)):
            seen |= {name for name in _constants_of(core) if _is_one(constants.column(name))}
    names = {name for number in common_cores(parts, seen) for name in _constants_of(parts.cores[number])}
    return {name: constants.column(name)[0].as_py() for name in sorted(names)}


def with_common(finish: Finish, cores: Collection[int]) -> Finish:
    """The finish over results of which those of some cores are not marked."""
    if isinstance(finish, CoreRows):
        return CoreRows(finish.core, is_common=finish.core in cores)
    return with_inputs(finish, lambda part: with_common(part, cores))


def _reads_one_stream(core: Query) -> bool:
    (scan, *others) = core.sources
    return not others and not scan.is_table and not is_changes(scan.relation)


def _constants_of(part: object, *, but: type | None = None) -> set[str]:
    """The constants below a query, or a part of one, leaving out parts of one type."""
    if isinstance(part, Param):
        return {part.name}
    held: Iterable[object] = part if isinstance(part, tuple) else ()
    if is_dataclass(part) and (but is None or not isinstance(part, but)):
        held = (getattr(part, field.name) for field in fields(part))
    return set().union(*(_constants_of(one, but=but) for one in held))


def _is_one(column: pa.ChunkedArray) -> bool:
    try:
        return len(pc.unique(column)) == 1
    except pa.ArrowNotImplementedError:  # of a list, say
        return False


def _reads_common(finish: Finish) -> bool:
    if isinstance(finish, CoreRows):
        return finish.is_common
    return any(map(_reads_common, inputs_of(finish)))
