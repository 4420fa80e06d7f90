"""The algebra: scalar expressions and relational operators, as frozen values.

An expression is typed and refers to columns by (source occurrence, column name). A constant is a `Literal`,
or a `Param` where it was taken out (a query's *shape* has only `Param`s). Logic is SQL's three-valued one.
BETWEEN does not occur, nor IN of a few values: they are lowered to AND and OR of comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field as DataclassField
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from weir.algebra.schema import BOOLEAN, DOUBLE, STRING, TIMESTAMP, Column, DataType


class Direction(NamedTuple):
    """How rows are sorted by an expression."""

    descending: bool
    nulls_first: bool


class Frame(NamedTuple):
    """The rows around the current one that a window function sees; distances are whole rows, or for RANGE values.

    An edge is a distance (negative: before the current row), or None: as far as the partition goes.
    """

    unit: str  # rows range
    begin: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class ColumnRef:
    source: int  # which occurrence in Query.sources
    name: str  # as spelt in the schema
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL.

    `value` is an int, float, Decimal, str, bool, date (DATE), or whole microseconds (TIMESTAMP, INTERVAL); of a LIST it
    is a tuple of such values.
    """

    value: object
    type: DataType


@dataclass(frozen=True, slots=True)
class Param:
    """A constant that is not known yet: `:name` in a template, `:c0`, `:c1`, … in a shape.

    For an INTERVAL or TIMESTAMP a plain number may be given: it counts `unit_us` microseconds, and a negative
    unit also negates an interval (`NOW - :w` is the offset −w seconds from τ).
    """

    name: str
    type: DataType
    unit_us: int = 1_000_000


NOW = Param("now()", TIMESTAMP)  # the time of the answer, current_timestamp(): no slot of a shape, known at fetch


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: str  # + - * / %
    left: Expression
    right: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Negate:
    arg: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `weir.algebra.functions`; CASE WHEN a THEN b … ELSE z END is case(a, b, …, z)."""

    function: str
    args: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Cast:
    arg: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct, or of each struct of an array."""

    arg: Expression
    name: str  # as spelt in the type
    type: DataType


@dataclass(frozen=True, slots=True)
class Element:
    """What an array has at a place, counted from 0, or from −1 at its end; what a map has for a key.

    As names of fields, places and keys are part of the shape, and no constants of it.
    """

    arg: Expression
    key: int | str
    type: DataType


@dataclass(frozen=True, slots=True)
class JsonField:
    """What a JSON text has at a path, as a text. The path is part of the shape, and no constant of it."""

    arg: Expression
    path: str
    type: DataType = STRING


@dataclass(frozen=True, slots=True)
class Comparison:
    op: str  # = <> < <= > >=
    left: Expression
    right: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least c for which `left op right + c` is true, as doubles round. No SQL has it: an index is made with it."""

    op: str  # < <=
    left: Expression
    right: Expression
    type: DataType = DOUBLE


@dataclass(frozen=True, slots=True)
class Like:
    arg: Expression
    pattern: Literal | Param  # % any run, _ any one character, \ escapes
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class InSet:
    """Whether a value is among the items of a list, as SQL's IN: with a NULL among them it is true or NULL."""

    arg: Expression
    items: Literal | Param  # of a LIST whose items are of the type that constants beside `arg` have
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    arg: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    args: tuple[Expression, ...]
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    args: tuple[Expression, ...]
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    arg: Expression
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of `weir.algebra.aggregates` over the rows of a group; count(*) has no arguments."""

    function: str
    args: tuple[Expression, ...]
    distinct: bool
    type: DataType
    filter: Expression | None = None  # only rows for which it is true count
    order: tuple[Expression, ...] = ()  # WITHIN GROUP (ORDER BY …), each as the direction at its place says
    directions: tuple[Direction, ...] = ()
    parameter: object = None  # a constant that is no value: a percentage, a separator; whether NULLs are skipped


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A function OVER (PARTITION BY … ORDER BY … frame).

    The edges of session_window(time, gap) are such functions too, as keys of a GroupBy: over the rows that agree in its
    other keys, in the order of their time. Their parameter is the gap, which is part of a shape.
    """

    function: str
    args: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Expression, ...]
    directions: tuple[Direction, ...]  # of `order`
    frame: Frame | None
    type: DataType
    parameter: object = None  # how far lag and lead look, which row nth_value is, how many parts ntile has
    ignores_nulls: bool = False


SESSION_EDGES = ("session_start", "session_end")  # functions of WindowCall that only a key of GroupBy can be


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query inside an expression. Columns of outer sources may occur in it: then it is correlated.

    scalar: its only value, NULL if it has no row; exists: whether it has one; in: whether `args` are one of its rows.
    """

    kind: str  # scalar exists in
    query: Node
    args: tuple[Expression, ...]  # of in, one for each column
    type: DataType


Expression = (
    ColumnRef
    | Literal
    | Param
    | Arithmetic
    | Negate
    | Call
    | Cast
    | Field
    | Element
    | JsonField
    | Comparison
    | Threshold
    | Like
    | InSet
    | IsNull
    | And
    | Or
    | Not
    | Aggregate
    | WindowCall
    | Subquery
)


EXPRESSIONS: tuple[type[Any], ...] = get_args(Expression)  # every class of node


def _holds_operands(field: DataclassField[Any]) -> bool:
    return "Expression" in field.type or field.type == "Literal | Param"


def _reader(node: type[Any]) -> Callable[[Any], tuple[Expression, ...]]:
    """How the operands of a class of nodes are read: its fields say which they are."""
    operands = [f for f in fields(node) if _holds_operands(f)]
    if not operands:
        return lambda _: ()
    read: Callable[[Any], Any] = attrgetter(*(f.name for f in operands))
    if any("None" in f.type for f in operands) or ("tuple" in operands[0].type and len(operands) > 1):
        return lambda e: tuple(part for f in operands for part in _parts(getattr(e, f.name)))
    if len(operands) > 1 or "tuple" in operands[0].type:
        return read
    return lambda e: (read(e),)


def _parts(held: Any) -> tuple[Expression, ...]:
    """What one field holds, as operands."""
    return held if isinstance(held, tuple) else () if held is None else (held,)


def _writer(node: type[Any]) -> Callable[[Any, tuple[Expression, ...]], Expression]:
    """How a node with other operands is made."""
    of_fields = [(f.name, _holds_operands(f)) for f in fields(node)]

    def write(e: Any, operands: tuple[Expression, ...]) -> Expression:
        parts: list[Any] = []
        at = 0
        for name, is_operand in of_fields:
            held = getattr(e, name)
            if not is_operand or held is None:
                parts.append(held)
            elif isinstance(held, tuple):
                parts.append(operands[at : at + len(held)])
                at += len(held)
            else:
                parts.append(operands[at])
                at += 1
        made: Expression = node(*parts)
        return made

    return write


_READERS = {node: _reader(node) for node in EXPRESSIONS}
_WRITERS = {node: _writer(node) for node in EXPRESSIONS}


def children(e: Expression) -> tuple[Expression, ...]:
    """The direct operands of an expression."""
    return _READERS[type(e)](e)


def with_children(e: Expression, operands: tuple[Expression, ...]) -> Expression:
    """The same operator over other operands, as many as it has."""
    return _WRITERS[type(e)](e, operands) if operands else e


def absolute_of(e: Expression) -> Expression | None:
    """The x of abs(x), which bounds a difference on both sides."""
    return e.args[0] if isinstance(e, Call) and e.function == "abs" else None


def conjunction(terms: Sequence[Expression]) -> Expression:
    """All of the terms, as one flat AND (a single term stays itself)."""
    flat = tuple(part for t in terms for part in (t.args if isinstance(t, And) else (t,)))
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(terms: Sequence[Expression]) -> Expression:
    """Any of the terms, as one flat OR (a single term stays itself)."""
    flat = tuple(part for t in terms for part in (t.args if isinstance(t, Or) else (t,)))
    return flat[0] if len(flat) == 1 else Or(flat)


def nearest_of(predicate: Expression | None, left: set[int]) -> tuple[Expression, bool] | None:
    """Of an ASOF join's condition: the value of the right side that is compared, and whether the largest is nearest.

    `left` are the sources of the left side. None unless there is exactly one such comparison.
    """
    found: list[tuple[Expression, bool]] = []
    for term in predicate.args if isinstance(predicate, And) else (predicate,):
        if isinstance(term, Comparison) and term.op in ("<", "<=", ">", ">="):
            of_left, of_right = (
                {p.source for p in walk(side) if isinstance(p, ColumnRef)} for side in (term.left, term.right)
            )
            if of_left and of_right and of_left <= left and not of_right & left:
                found.append((term.right, term.op in (">", ">=")))
            elif of_left and of_right and of_right <= left and not of_left & left:
                found.append((term.left, term.op in ("<", "<=")))
    return found[0] if len(found) == 1 else None


def walk(e: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first; iterative, so depth is no limit."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        stack += children(node)[::-1]


@dataclass(frozen=True, slots=True)
class Bound:
    """One edge of a time window: `offset_us` itself, or τ + `offset_us` when relative."""

    relative: bool
    offset_us: Literal | Param  # INTERVAL when relative, TIMESTAMP when not


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a source are seen at τ: begin < t <= end, or the last `rows` rows with t <= τ.

    No begin means the stream's own `keep`; no end means τ.
    """

    begin: Bound | None = None
    end: Bound | None = None
    rows: Literal | Param | None = None  # BIGINT


@dataclass(frozen=True, slots=True)
class Scan:
    """One occurrence of a stream or table in FROM."""

    source: int
    relation: str  # name as in the catalog
    is_table: bool
    alias: str
    window: Window
    time: str = ""  # a stream's time column
    is_retroactive: bool = False  # whether a change of the table is seen by rows that came before it


@dataclass(frozen=True, slots=True)
class Select:
    child: Node
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Project:
    child: Node
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join of all children; `predicate` is the whole condition (None: a cross product)."""

    children: tuple[Node, ...]
    predicate: Expression | None


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """A join that keeps rows without a partner (left, right, full), or rows of the left side only (semi, anti).

    Of an asof join each row of the left side meets the nearest one only; asof left keeps those that have none.

    `predicate` is the condition of ON: what is left without a partner is decided by it alone.
    """

    kind: str
    left: Node
    right: Node
    predicate: Expression | None


@dataclass(frozen=True, slots=True)
class Derived:
    """A query in FROM. Its columns are referred to by its number, as those of a source are.

    One that is lateral may look at the columns of the sources before it.
    """

    source: int
    child: Node
    alias: str
    columns: tuple[Column, ...]  # as they are called outside
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class OneRow:
    """What a SELECT without FROM reads: one row without columns."""


@dataclass(frozen=True, slots=True)
class Distinct:
    child: Node


@dataclass(frozen=True, slots=True)
class Ordered:
    """ORDER BY, LIMIT and OFFSET. Rows are sorted by columns of the child; its last `hidden` ones are not shown."""

    child: Node
    keys: tuple[tuple[int, Direction], ...]  # places of columns
    limit: Literal | Param | None
    offset: Literal | Param | None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Output columns in order; each is a key expression or contains aggregates. HAVING is applied to groups."""

    child: Node
    keys: tuple[Expression, ...]
    columns: tuple[tuple[str, Expression], ...]
    having: Expression | None


@dataclass(frozen=True, slots=True)
class SetOperation:
    kind: str  # union except intersect
    all: bool
    left: Node
    right: Node


Node = Scan | Select | Project | Join | OuterJoin | Derived | OneRow | Distinct | GroupBy | SetOperation | Ordered


def together(rows: Sequence[Node]) -> Node:
    """UNION ALL of them, as a balanced tree, which nests no deeper than it must."""
    rows = list(rows)
    while len(rows) > 1:
        joined: list[Node] = [SetOperation("union", True, a, b) for a, b in zip(rows[::2], rows[1::2], strict=False)]
        rows = joined + ([rows[-1]] if len(rows) % 2 else [])
    return rows[0]


@dataclass(frozen=True, slots=True)
class Query:
    """A lowered query: its tree, every source occurrence in it, and the columns it returns."""

    root: Node
    sources: tuple[Scan, ...]
    output: tuple[Column, ...]
    text: str  # the SQL it came from
