"""Logical plans of the paper's operators: small trees over windows of streams and tables (UPA, section 2.1).

A tuple is a row of int64 attributes, and attributes are named by their place. Streams and tables share one numbering of
sources. `checked` says what is not a plan: tables elsewhere than at the right of a join with them, a group-by below
other operators (its new values replace old ones without negative tuples, which only a result can take), and a join
with a table above a negation, whose negative tuples might meet another table than their tuples did (section 5.4.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir.operators.layout import AGGREGATES


@dataclass(frozen=True)
class StreamWindow:
    """The tuples of a stream that came in the last `length` time units: at time τ those after τ − length."""

    source: int
    length: int
    arity: int


@dataclass(frozen=True)
class LastRows:
    """The last `count` tuples of a stream: each ends when as many have come after it, whenever that is."""

    source: int
    count: int
    arity: int


@dataclass(frozen=True)
class LandmarkWindow:
    """All tuples of a stream after time `begin`; none ends."""

    source: int
    begin: int
    arity: int


@dataclass(frozen=True)
class TableRows:
    """A table, which arbitrary insertions and deletions change."""

    source: int
    arity: int


@dataclass(frozen=True)
class Filtered:
    """Selection: tuples with an attribute between two bounds, or outside of them."""

    input: PlanNode
    attribute: int
    lo: int
    hi: int
    is_inside: bool = True


@dataclass(frozen=True)
class Projected:
    """Projection onto attributes, in the order given; duplicates stay."""

    input: PlanNode
    attributes: tuple[int, ...]


@dataclass(frozen=True)
class MergeUnion:
    """All tuples of both inputs."""

    left: PlanNode
    right: PlanNode


@dataclass(frozen=True)
class WindowJoin:
    """Pairs that agree in one attribute; a result is the left tuple followed by the right one."""

    left: PlanNode
    right: PlanNode
    left_on: int
    right_on: int


@dataclass(frozen=True)
class Intersection:
    """The join on all attributes, which shows the left tuple: of sets their intersection."""

    left: PlanNode
    right: PlanNode


@dataclass(frozen=True)
class TableJoin:
    """Tuples with the rows of a table that agree in one attribute; a non-retroactive table is read on arrival."""

    left: PlanNode
    right: TableRows
    left_on: int
    right_on: int
    is_retroactive: bool


@dataclass(frozen=True)
class DuplicateElimination:
    """One of all tuples that agree in every attribute."""

    input: PlanNode


@dataclass(frozen=True)
class Grouping:
    """An aggregate of one attribute for each value of another, or of all tuples; the top of a plan."""

    input: PlanNode
    by: int | None
    aggregate: str
    attribute: int


@dataclass(frozen=True)
class Negation:
    """Of each value v₁ − v₂ left tuples, if that is more than none (equation 1)."""

    left: PlanNode
    right: PlanNode
    left_on: int
    right_on: int


PlanNode = (
    StreamWindow
    | LastRows
    | LandmarkWindow
    | TableRows
    | Filtered
    | Projected
    | MergeUnion
    | WindowJoin
    | Intersection
    | TableJoin
    | DuplicateElimination
    | Grouping
    | Negation
)

WINDOWS = (StreamWindow, LastRows, LandmarkWindow)
LEAVES = (*WINDOWS, TableRows)


def inputs_of(node: PlanNode) -> tuple[PlanNode, ...]:
    """The plans below a node, from left to right."""
    if isinstance(node, LEAVES):
        return ()
    if isinstance(node, (Filtered, Projected, DuplicateElimination, Grouping)):
        return (node.input,)
    return (node.left, node.right)


def nodes_of(plan: PlanNode) -> Iterator[PlanNode]:
    """All nodes, inputs before what is above them."""
    for below in inputs_of(plan):
        yield from nodes_of(below)
    yield plan


def arity_of(node: PlanNode) -> int:
    """How many attributes the tuples above a node have."""
    if isinstance(node, LEAVES):
        return node.arity
    if isinstance(node, (Filtered, DuplicateElimination)):
        return arity_of(node.input)
    if isinstance(node, Projected):
        return len(node.attributes)
    if isinstance(node, (WindowJoin, TableJoin)):
        return arity_of(node.left) + arity_of(node.right)
    if isinstance(node, Grouping):
        return 2
    return arity_of(node.left)


def has_negation(node: PlanNode) -> bool:
    """Whether a plan has a negation, or a join whose table may end results at any moment."""
    return any(isinstance(n, Negation) or (isinstance(n, TableJoin) and n.is_retroactive) for n in nodes_of(node))


def has_last_rows(node: PlanNode) -> bool:
    """Whether tuples of a plan end because others come, not because time passes."""
    return any(isinstance(n, LastRows) for n in nodes_of(node))


def ends_early(node: PlanNode) -> bool:
    """Whether tuples of a plan may end at a moment that nobody knows when they come."""
    return has_negation(node) or has_last_rows(node)


def checked(plan: PlanNode) -> PlanNode:
    """The plan, if it is one; says what is wrong otherwise."""
    if isinstance(plan, TableRows):
        raise ValueError("operators: a plan is over windows; a table alone was given")
    for node in nodes_of(plan):
        below = inputs_of(node)
        if any(isinstance(n, Grouping) for n in below):
            raise ValueError(f"operators: group-by is the top of a plan; below {_name(node)} it cannot be")
        for_streams = below[:1] if isinstance(node, TableJoin) else below
        if any(isinstance(n, TableRows) for n in for_streams):
            raise ValueError(f"operators: tables are the right input of a TableJoin; got one below {_name(node)}")
        if isinstance(node, TableJoin) and has_negation(node.left):
            raise ValueError("operators: TableJoin needs an input without premature ends; pull the negation above it")
        if isinstance(node, (MergeUnion, Intersection)) and arity_of(node.left) != arity_of(node.right):
            expected, got = arity_of(node.left), arity_of(node.right)
            raise ValueError(f"operators: {_name(node)} needs {expected} attributes on the right too; got {got}")
        if isinstance(node, StreamWindow) and node.length <= 0:
            raise ValueError(f"operators: the length of a window is at least 1; got {node.length}")
        if isinstance(node, LastRows) and node.count <= 0:
            raise ValueError(f"operators: a window has at least 1 row; got {node.count}")
        if isinstance(node, Grouping) and node.aggregate not in AGGREGATES:
            raise ValueError(f"operators: aggregates are {', '.join(AGGREGATES)}; got {node.aggregate!r}")
        for below_node, attribute in _attributes(node):
            if not 0 <= attribute < arity_of(below_node):
                raise ValueError(
                    f"operators: {_name(node)} uses attribute {attribute} of {arity_of(below_node)}, numbered from 0"
                )
    return plan


def _attributes(node: PlanNode) -> list[tuple[PlanNode, int]]:
    """Which attributes of which inputs a node uses."""
    if isinstance(node, Filtered):
        return [(node.input, node.attribute)]
    if isinstance(node, Projected):
        return [(node.input, attribute) for attribute in node.attributes]
    if isinstance(node, (WindowJoin, TableJoin, Negation)):
        return [(node.left, node.left_on), (node.right, node.right_on)]
    if isinstance(node, Grouping):
        return [(node.input, node.attribute), (node.input, node.by or 0)]
    return []


def _name(node: PlanNode) -> str:
    return type(node).__name__


def text_of(node: PlanNode) -> str:
    """A plan in one line, as algebra."""
    if isinstance(node, StreamWindow):
        return f"S{node.source}[{node.length}]"
    if isinstance(node, LastRows):
        return f"S{node.source}[last {node.count}]"
    if isinstance(node, LandmarkWindow):
        return f"S{node.source}[after {node.begin}]"
    if isinstance(node, TableRows):
        return f"T{node.source}"
    below = [text_of(n) for n in inputs_of(node)]
    if isinstance(node, Filtered):
        sign = "" if node.is_inside else "not "
        return f"σ({sign}{node.lo} ≤ ${node.attribute} ≤ {node.hi}; {below[0]})"
    if isinstance(node, Projected):
        return f"π({', '.join(f'${a}' for a in node.attributes)}; {below[0]})"
    if isinstance(node, DuplicateElimination):
        return f"δ({below[0]})"
    if isinstance(node, Grouping):
        by = "all" if node.by is None else f"${node.by}"
        return f"γ({by}; {node.aggregate} ${node.attribute}; {below[0]})"
    sign = {MergeUnion: "∪", WindowJoin: "⋈", Intersection: "∩", Negation: "−"}.get(type(node), "⋈NRR")
    if isinstance(node, TableJoin) and node.is_retroactive:
        sign = "⋈R"
    return f"({below[0]} {sign} {below[1]})"
