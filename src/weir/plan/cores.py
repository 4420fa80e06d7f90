"""Cores and a finish: the two halves of every query.

A *core* is a select-join block over streams, SELECT … FROM … WHERE …: families match it as rows come, for a million
queries at once. The *finish* (`weir.plan.finishes`) is what is left to do over the results of all cores, and is done
when an answer is asked for.

    SELECT DISTINCT a FROM s WHERE …            one core, Once
    SELECT a FROM s … UNION ALL SELECT b FROM t …   two cores, Together
    SELECT a, count(*) FROM s … GROUP BY a      one core that projects a, Grouped
    SELECT … FROM s LEFT JOIN t ON …            a core for each side, Paired

A core is a query of its own: its sources are numbered from 0, its constants have the names they have in the whole.
Whatever can be is done in cores: conditions go down to the sources that they are about, and what a finish needs first
is a core's projection. A new operator is one kind of finish and its evaluation in `weir.answer.finish`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weir.algebra.nodes import Node, Project, Query, Subquery, WindowCall, walk
from weir.algebra.rebuild import inputs, row_expressions
from weir.algebra.schema import is_changes
from weir.plan.drop_distinct import drop_distinct
from weir.plan.finishes import CoreRows, Finish, Together
from weir.plan.from_rows import NoFinishError, is_plain_from, now_in
from weir.plan.inline import inlined, is_exploding
from weir.plan.take_apart import Apart

__all__ = ["Cores", "NoFinishError", "cores_of"]


@dataclass(frozen=True, slots=True)
class Cores:
    """A query taken apart."""

    cores: tuple[Query, ...]
    finish: Finish

    @property
    def is_additive(self) -> bool:
        """Whether every result of a core is a row of the answer, and two results the same row only by chance.

        A table may change a row into one that is equal.
        """
        has_tables = any(is_changes(scan.relation) for core in self.cores for scan in core.sources)
        is_plain = not has_tables and not any(now_in(e) for core in self.cores for e in _columns(core))
        return is_plain and _is_additive(self.finish)


def cores_of(query: Query) -> Cores:
    """The cores of a query and its finish; NoFinishError if there is none."""
    root = query.root
    if isinstance(root, Project) and _is_plain(root):
        return Cores((query,), CoreRows(0))
    return _several(query)


@lru_cache(maxsize=4096)
def _several(query: Query) -> Cores:
    apart = Apart(query.text)
    finish = apart.answer(inlined(drop_distinct(query).root))
    return Cores(tuple(apart.cores), finish)


def _is_plain(root: Project) -> bool:
    """Whether the query is one select-join block."""
    parts = (part for node in (root, *inputs(root)) for e in row_expressions(node) for part in walk(e))
    if any(isinstance(part, (Subquery, WindowCall)) or is_exploding(part) for part in parts):
        return False
    return is_plain_from(root.child)


def _is_additive(finish: Finish) -> bool:
    if isinstance(finish, Together):
        return all(_is_additive(part) for part in finish.inputs)
    return isinstance(finish, CoreRows)


def _columns(core: Query) -> tuple[object, ...]:
    node: Node = core.root
    assert isinstance(node, Project), "a core is a projection"
    return tuple(e for _, e in node.columns)
