"""The finish of a query: what is done over the results of its cores when an answer is asked for.

A tree of operators over tables. Columns have names: those of a core's results are the names of its output; those that
come from FROM are called `source.column`, by the number of the source (`spelt`), so that two sources may have columns
of one name. Expressions over them are the language's own, with columns named so (`qualified`), and are evaluated by the
evaluator that everything else uses. `weir.answer.finish` says what each operator does.

    CoreRows    the projected results of one core
    Versions    the rows of a table that an answer sees
    OneRow      one row without columns (SELECT without FROM)
    Computed    expressions, as columns of these names; Extended: one beside the columns that are there
    Kept        the rows for which a condition is true
    Paired      two inputs joined: inner left right full semi anti
    Numbered    the input with its rows counted in a column
    Exploded    the input once for each element of an array
    Attached    the input with one more column: the value of a subquery for each row
    Grouped     one row a group: its keys and its aggregates
    Windowed    the input with one more column for each window function
    Sorted      the input in an order, or a part of it
    Together, Once, Compared    UNION ALL, DISTINCT, EXCEPT and INTERSECT
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from weir.algebra.format import expression_text
from weir.algebra.nodes import Aggregate, ColumnRef, Comparison, Direction, Expression, Literal, Param, WindowCall
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import Column

OWN = -1  # the source of columns that only a finish has


@dataclass(frozen=True, slots=True)
class CoreRows:
    core: int
    is_common: bool = False  # where many queries are answered at once: whether all of them have these rows


@dataclass(frozen=True, slots=True)
class Versions:
    """The rows of a table, as `source.column`, and their lifetimes if it is met at the times of rows."""

    source: int
    table: str
    columns: tuple[Column, ...]
    has_lifetimes: bool  # else those are shown that are valid at τ


@dataclass(frozen=True, slots=True)
class OneRow:
    pass


@dataclass(frozen=True, slots=True)
class Computed:
    input: Finish
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Extended:
    """The input with one more column."""

    input: Finish
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Kept:
    input: Finish
    condition: Expression


@dataclass(frozen=True, slots=True)
class Paired:
    """A join. `left`, `right` and `full` keep rows of these sides that have no partner, with NULLs beside them."""

    kind: str
    left: Finish
    right: Finish
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Numbered:
    input: Finish
    name: str


@dataclass(frozen=True, slots=True)
class Exploded:
    """The input once for each element of the arrays in a column, with the element in the column `name`.

    `outer` keeps rows without elements, with NULL beside them.
    """

    input: Finish
    arrays: str
    name: str
    outer: bool


@dataclass(frozen=True, slots=True)
class Attached:
    """What a subquery is for each row of the input, in a column `name`.

    `found` holds the rows of the subquery: their value in `value`, and if the subquery depends on the rows of the
    input, in `number` the row that they belong to. For IN, `tests` compare columns of the input with these values.
    """

    input: Finish
    found: Finish
    kind: str  # scalar exists in
    name: str
    number: str | None
    value: str
    tests: tuple[Comparison, ...]
    type: Column


@dataclass(frozen=True, slots=True)
class Grouped:
    input: Finish
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]  # their operands are columns


@dataclass(frozen=True, slots=True)
class Windowed:
    input: Finish
    calls: tuple[tuple[str, WindowCall], ...]  # their operands are columns


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in an order, those that are equal in the order in which they came; `count` of them from `start` on."""

    input: Finish
    keys: tuple[tuple[str, Direction], ...]
    count: Literal | Param | None
    start: Literal | Param | None
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """All rows of several inputs (UNION ALL)."""

    inputs: tuple[Finish, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """Every different row of the input once (DISTINCT, UNION)."""

    input: Finish


@dataclass(frozen=True, slots=True)
class Compared:
    """EXCEPT and INTERSECT; with `all` equal rows are counted."""

    kind: str
    all: bool
    left: Finish
    right: Finish


Finish = (
    CoreRows
    | Versions
    | OneRow
    | Computed
    | Extended
    | Kept
    | Paired
    | Numbered
    | Exploded
    | Attached
    | Grouped
    | Windowed
    | Sorted
    | Together
    | Once
    | Compared
)


def spelt(source: int, name: str) -> str:
    """What a source's column is called in the tables of a finish."""
    return name if source == OWN else f"{source}.{name}"


def qualified(e: Expression) -> Expression:
    """The expression over columns that are called so."""

    def spell(part: Expression) -> Expression:
        if not isinstance(part, ColumnRef) or part.source == OWN:
            return part
        return replace(part, source=OWN, name=spelt(part.source, part.name))

    return rebuild(e, spell)


_INPUT_FIELDS = {
    operator: tuple(f.name for f in fields(operator) if f.type in ("Finish", "tuple[Finish, ...]"))
    for operator in get_args(Finish)
}


def inputs_of(finish: Finish) -> Iterator[Finish]:
    """The operators that one reads from."""
    for name in _INPUT_FIELDS[type(finish)]:
        held = getattr(finish, name)
        if isinstance(held, tuple):
            yield from held
        else:
            yield held


def with_inputs(finish: Finish, of: Callable[[Finish], Finish]) -> Finish:
    """The operator over other inputs."""
    changed: dict[str, Any] = {}
    for name in _INPUT_FIELDS[type(finish)]:
        held = getattr(finish, name)
        changed[name] = tuple(map(of, held)) if isinstance(held, tuple) else of(held)
    return replace(finish, **changed)


def is_ordered(finish: Finish) -> bool:
    """Whether an order is asked for anywhere."""
    return isinstance(finish, Sorted) or any(is_ordered(part) for part in inputs_of(finish))


def finish_text(finish: Finish) -> str:
    """What is done over the results of the cores, for people."""
    if isinstance(finish, CoreRows):
        return f"core {finish.core}"
    if isinstance(finish, Together):
        return f"all rows of {', '.join(finish_text(part) for part in finish.inputs)}"
    if isinstance(finish, Once):
        return f"every different row once of {finish_text(finish.input)}"
    below = ", and ".join(finish_text(part) for part in inputs_of(finish))
    return f"{_words(finish)} of {below}" if below else _words(finish)


def _words(finish: Finish) -> str:
    names = {OWN: ""}
    if isinstance(finish, Grouped):
        called = ", ".join(f"{a.function}" for _, a in finish.aggregates) or "keys"
        return f"{called} by {len(finish.keys)} keys" if finish.keys else f"{called} over all rows"
    if isinstance(finish, Kept):
        return f"rows with {expression_text(finish.condition, names).replace('``.', '')}"
    if isinstance(finish, Sorted):
        return "sorted and cut rows" if finish.count is not None or finish.start is not None else "sorted rows"
    if isinstance(finish, Windowed):
        return ", ".join(call.function for _, call in finish.calls) + " beside rows"
    if isinstance(finish, Attached):
        return f"{finish.kind} subquery beside rows"
    if isinstance(finish, Paired):
        return f"{finish.kind} join"
    if isinstance(finish, Compared):
        return f"{finish.kind}{' all' if finish.all else ''}"
    if isinstance(finish, Versions):
        return f"table {finish.table}"
    if isinstance(finish, OneRow):
        return "one row"
    if isinstance(finish, Exploded):
        return "a row for each element"
    return "numbered rows" if isinstance(finish, Numbered) else "columns"
