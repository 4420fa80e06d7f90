"""Cores that are the same for all queries of a shape, so that one copy of their results serves all of them.

    SELECT … FROM orders o WHERE o.area = :area AND NOT EXISTS (SELECT 1 FROM shipment s WHERE s.id = o.id)

reads all shipments, whoever asks. Such a core has no constants and reads one stream, so its results are rows that a
condition lets through: they are read off the rows of the stream, once for many queries, and need no index and no
matches. They stand in the finish as versions of tables do, without a mark whose they are (`weir.answer.slot_marks`).
Where an operator would have to copy them for each query they are not common: then each query keeps its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass

from weir.algebra.nodes import Param, Query
from weir.algebra.schema import is_changes
from weir.answer.slot_marks import copied
from weir.plan.cores import Cores
from weir.plan.finishes import CoreRows, Finish, inputs_of, with_inputs


def common_cores(parts: Cores) -> frozenset[int]:
    """The cores whose results one copy serves."""
    found: frozenset[int] = frozenset()
    for number, core in enumerate(parts.cores):
        if _is_same_for_all(core) and not _copies(with_common(parts.finish, found | {number})):
            found |= {number}
    return found


def with_common(finish: Finish, cores: Collection[int]) -> Finish:
    """The finish over results of which those of some cores are not marked."""
    if isinstance(finish, CoreRows):
        return CoreRows(finish.core, is_common=finish.core in cores)
    return with_inputs(finish, lambda part: with_common(part, cores))


def _is_same_for_all(core: Query) -> bool:
    (scan, *others) = core.sources
    return not others and not scan.is_table and not is_changes(scan.relation) and not _has_constants(core)


def _has_constants(part: object) -> bool:
    if isinstance(part, Param):
        return True
    if isinstance(part, tuple):
        return any(map(_has_constants, part))
    return is_dataclass(part) and any(_has_constants(getattr(part, field.name)) for field in fields(part))


def _copies(finish: Finish) -> bool:
    """Whether rows of a common core are copied for each query anywhere."""
    return any(_reads_common(part) for part, _ in copied(finish))


def _reads_common(finish: Finish) -> bool:
    if isinstance(finish, CoreRows):
        return finish.is_common
    return any(map(_reads_common, inputs_of(finish)))
