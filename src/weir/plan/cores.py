"""Cores and a finish: the two halves of every query.

A *core* is a select-join block, SELECT … FROM … WHERE …: families match it as rows come, for a million queries at once.
The *finish* is what is left to do over the results of all cores, and is done when an answer is asked for: projections
are part of a core, eliminating duplicates and putting results together are the finish.

    SELECT DISTINCT a FROM s WHERE …            one core, Once
    SELECT a FROM s … UNION ALL SELECT b FROM t …   two cores, Together
    SELECT a FROM s … UNION SELECT b FROM t …       two cores, Once of Together

A core is a query of its own: its sources are numbered from 0, its constants have the names they have in the whole.
A new operator is one kind of finish here and its evaluation in `weir.answer.finish`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from weir.algebra.nodes import ColumnRef, Distinct, Expression, GroupBy, Node, Project, Query, Scan, SetOperation
from weir.algebra.rebuild import map_expressions, rebuild, rebuild_node, scans
from weir.algebra.schema import Column
from weir.plan.drop_distinct import drop_distinct


@dataclass(frozen=True, slots=True)
class CoreRows:
    """The projected results of one core."""

    core: int


@dataclass(frozen=True, slots=True)
class Together:
    """All rows of several inputs (UNION ALL)."""

    inputs: tuple[Finish, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """Every different row of the input once (DISTINCT, UNION)."""

    input: Finish


Finish = CoreRows | Together | Once


@dataclass(frozen=True, slots=True)
class Cores:
    """A query taken apart."""

    cores: tuple[Query, ...]
    finish: Finish

    @property
    def is_additive(self) -> bool:
        """Whether every result of a core is a row of the answer, whatever other results there are."""
        return not _eliminates(self.finish)


class NoFinishError(Exception):
    """A query has a part that no finish can do yet; the text says why."""


def cores_of(query: Query) -> Cores:
    """The cores of a query and its finish; NoFinishError if there is none."""
    return Cores((query,), CoreRows(0)) if isinstance(query.root, Project) else _several(query)


@lru_cache(maxsize=4096)
def _several(query: Query) -> Cores:
    found: list[Query] = []
    finish = _finish(drop_distinct(query).root, query.text, found)
    return Cores(tuple(found), finish)


def _finish(node: Node, text: str, found: list[Query]) -> Finish:
    if isinstance(node, Distinct):
        return Once(_finish(node.child, text, found))
    if isinstance(node, SetOperation) and node.kind == "union":
        inputs: list[Finish] = []
        for child in (node.left, node.right):
            below = _finish(child, text, found)
            inputs += below.inputs if isinstance(below, Together) else (below,)
        return Together(tuple(inputs)) if node.all else Once(Together(tuple(inputs)))
    if isinstance(node, SetOperation):
        raise NoFinishError(f"{node.kind.upper()} compares the results of two queries")
    if isinstance(node, GroupBy):
        raise NoFinishError("GROUP BY and aggregates combine rows")
    assert isinstance(node, Project), "an answer is made by Project, GroupBy, Distinct or a set operation"
    found.append(_core(node, text))
    return CoreRows(len(found) - 1)


def _core(node: Project, text: str) -> Query:
    """A block as a query of its own."""
    number_of = {scan.source: k for k, scan in enumerate(scans(node))}

    def renumber(e: Expression) -> Expression:
        return rebuild(e, lambda n: replace(n, source=number_of[n.source]) if isinstance(n, ColumnRef) else n)

    def renumber_scan(n: Node) -> Node:
        return replace(n, source=number_of[n.source]) if isinstance(n, Scan) else n

    root = rebuild_node(map_expressions(node, renumber), renumber_scan)
    assert isinstance(root, Project)
    output = tuple(Column(name, e.type) for name, e in root.columns)
    return Query(root, scans(root), output, text)


def _eliminates(finish: Finish) -> bool:
    if isinstance(finish, Together):
        return any(_eliminates(part) for part in finish.inputs)
    return isinstance(finish, Once)


def finish_text(finish: Finish) -> str:
    """What is done over the results of the cores, for people."""
    if isinstance(finish, CoreRows):
        return f"core {finish.core}"
    if isinstance(finish, Together):
        return f"all rows of {', '.join(finish_text(part) for part in finish.inputs)}"
    return f"every different row once of {finish_text(finish.input)}"
