"""What in a finish is one query's, and what is all queries', where many are answered at once.

Rows of cores are marked by the query that they belong to. A table's versions, SELECT without FROM and cores that are
the same for all (`weir.answer.common_cores`) are not: one copy serves all queries. In `weir.answer.many_finish` an
operator that makes one query's rows of them needs a copy for each query first, unless it joins them with rows that are
marked. Constants differ between queries, so a condition with one makes such a copy necessary too; `lifted` puts it into
the join above, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weir.algebra.nodes import NOW, Expression, Param, conjunction, walk
from weir.plan.finishes import (
    Attached,
    Compared,
    Computed,
    CoreRows,
    Extended,
    Finish,
    Kept,
    Numbered,
    OneRow,
    Paired,
    Sorted,
    Together,
    Versions,
    inputs_of,
)

# Kinds of joins of which every row has one of this side.
_NEAREST = frozenset({"asof", "asof left"})
_OF_LEFT = frozenset({"inner", "left", "semi", "anti"}) | _NEAREST
_OF_RIGHT = frozenset({"inner", "right"})


def is_own(part: object) -> bool:
    """Whether it is a constant of a query."""
    return isinstance(part, Param) and part != NOW


def differs(*expressions: Expression | None) -> bool:
    """Whether constants of queries occur."""
    return any(is_own(part) for e in expressions if e is not None for part in walk(e))


def needs_marks(finish: Finish, marked: Sequence[bool]) -> bool:
    """Whether inputs that are all queries' must be copied for each; `marked` says which inputs are not."""
    if all(marked):
        return False
    if isinstance(finish, (Together, Compared)):
        return any(marked)
    if isinstance(finish, Numbered):
        return True  # a number says whose row it is
    if isinstance(finish, Computed):
        return differs(*(e for _, e in finish.columns))
    if isinstance(finish, Extended):
        return differs(finish.value)
    if isinstance(finish, Kept):
        return differs(finish.condition)
    if isinstance(finish, Sorted):
        return differs(finish.count, finish.start)
    if isinstance(finish, Paired):
        if not any(marked):
            return differs(finish.condition)
        if finish.kind in _NEAREST and differs(finish.condition):
            return True  # what is nearest is decided beside the constants
        return finish.kind not in (_OF_LEFT if marked[0] else _OF_RIGHT)
    return isinstance(finish, Attached) and list(marked) == [False, True]


def lifted(finish: Finish) -> Finish:
    """A join that decides itself about conditions with constants, over rows that are all queries'."""
    if not isinstance(finish, Paired) or finish.kind in _NEAREST:
        return finish
    terms = [] if finish.condition is None else [finish.condition]
    if finish.kind in _OF_LEFT and _is_marked(finish.left):
        right, more = _above_all(finish.right)
        return replace(finish, right=right, condition=conjunction([*terms, *more])) if more else finish
    if finish.kind in _OF_RIGHT and _is_marked(finish.right):
        left, more = _above_all(finish.left)
        return replace(finish, left=left, condition=conjunction([*terms, *more])) if more else finish
    return finish


def _above_all(finish: Finish) -> tuple[Finish, list[Expression]]:
    """Rows that are all queries', and the conditions with constants that stand above them."""
    if not isinstance(finish, Kept):
        return finish, []
    below, terms = _above_all(finish.input)
    if _is_marked(below):
        return finish, []
    if differs(finish.condition):
        return below, [*terms, finish.condition]
    return (finish if below is finish.input else replace(finish, input=below)), terms


def _is_marked(finish: Finish) -> bool:
    """Whether its rows are marked."""
    if isinstance(finish, CoreRows):
        return not finish.is_common
    if isinstance(finish, (Versions, OneRow)):
        return False
    marked = [_is_marked(part) for part in inputs_of(finish)]
    return any(marked) or needs_marks(finish, marked)


def copied(finish: Finish) -> Iterator[tuple[Finish, Finish]]:
    """The inputs that are copied for each query, and the operators that need it."""
    finish = lifted(finish)
    parts = list(inputs_of(finish))
    marked = [_is_marked(part) for part in parts]
    if needs_marks(finish, marked):
        yield from ((part, finish) for part, is_marked in zip(parts, marked, strict=True) if not is_marked)
    for part in parts:
        yield from copied(part)


def refusal(finish: Finish) -> str | None:
    """Why many queries with this finish cannot be kept together, for people; None if they can.

    They can be answered, but each would need a copy of a table in every batch.
    """
    for part, above in copied(finish):
        if (table := _table(part)) is not None:
            return f"table '{table}' would be copied for each query, because {_why(above)}"
    return None


def _table(finish: Finish) -> str | None:
    """A table that is read below."""
    if isinstance(finish, Versions):
        return finish.table
    return next((table for part in inputs_of(finish) if (table := _table(part)) is not None), None)


def _why(finish: Finish) -> str:
    if isinstance(finish, Paired):
        return f"the rows of a {finish.kind.upper()} JOIN that it stands in are kept with and without a partner"
    if isinstance(finish, (Attached, Numbered)):
        return "a subquery looks at each of its rows"
    if isinstance(finish, (Together, Compared)):
        return "its rows stand beside those of each query in a UNION, EXCEPT or INTERSECT"
    return "constants that differ between the queries decide about its rows"
