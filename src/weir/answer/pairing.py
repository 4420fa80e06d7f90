"""Two tables of a finish, joined: candidates by equations and bounds, decided by the condition itself.

The same code as for a join that is recomputed (`weir.answer.candidates`), over tables instead of kept rows: what
equality means is said in one place. Cost: a sort of the second side, some 100 ns a candidate, in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.nodes import And, ColumnRef, Expression, conjunction, nearest_of, walk
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import Kind
from weir.answer import engine
from weir.answer.candidates import KeyCodes, Pairs, both, bounded, candidates, equal_codes, equation_of, same, sources
from weir.answer.views import require_room
from weir.errors import FetchError
from weir.plan.from_rows import LIFETIME
from weir.values.evaluate import evaluate, truth
from weir.values.room import bytes_taken, stretches

BLOCK = 1 << 20
LARGE = 20_000  # rows of a right side of which few may be wanted
_BY_VALUE = frozenset({Kind.BIGINT, Kind.STRING, Kind.DATE, Kind.TIMESTAMP})  # equal values are the same bits
PAIRS_MAX = 20_000_000  # that a join in a finish may have
EXAMINED_MAX = 500_000_000  # candidates that it may look at: about a minute
Constants = Mapping[str, object]


def paired(
    kind: str,
    left: pa.Table,
    right: pa.Table,
    condition: Expression | None,
    constants: Constants,
    alike: KeyCodes | None = None,
) -> pa.Table:
    """The join, in the order of the left side, then of the right; rows without a partner stand where they would.

    Only rows with the same number in `alike` are partners, if it is given.
    """
    first, second = pairs(left, right, condition, constants, alike)
    if kind in ("asof", "asof left"):
        first, second = _nearest(left, right, condition, constants, (first, second))
        kind = "left" if kind == "asof left" else "inner"
    if kind in ("semi", "anti"):
        has = np.zeros(left.num_rows, bool)
        has[first] = True
        return left.filter(pa.array(has if kind == "semi" else ~has))
    if kind in ("left", "full"):
        lone = _lone(left, first)
        first, second = np.concatenate([first, lone]), np.concatenate([second, np.full(len(lone), -1)])
    if kind in ("right", "full"):
        lone = _lone(right, second)
        first, second = np.concatenate([first, np.full(len(lone), -1)]), np.concatenate([second, lone])
    # Rows of the right side alone come last.
    order = np.lexsort((second, np.where(first < 0, left.num_rows, first)))
    return _beside(left, right, first[order], second[order])


def _lone(rows: pa.Table, places: np.ndarray) -> np.ndarray:
    """The rows that are not at these places, of which −1 is none."""
    is_lone = np.ones(rows.num_rows, bool)
    is_lone[places[places >= 0]] = False
    return np.flatnonzero(is_lone)


def _nearest(
    left: pa.Table, right: pa.Table, condition: Expression | None, constants: Constants, found: Pairs
) -> Pairs:
    """For each row of the left side the partner with the nearest value; of several the one that came last."""
    assert condition is not None, "an ASOF join has one"
    whole = _sided(condition, left)
    # Which version of a table a row meets is compared too, and says nothing about what is near.
    terms = [term for term in (whole.args if isinstance(whole, And) else [whole]) if not _is_about_lifetimes(term)]
    near = nearest_of(conjunction(terms), {0})
    assert near is not None, "it was looked for when the query was registered"
    value, is_largest = near
    first, second = found
    key = _places(evaluate(value, right, constants))[second]
    order = np.lexsort((second, key if is_largest else -key, first))
    first, second = first[order], second[order]
    last = np.append(first[1:] != first[:-1], True) if len(first) else np.empty(0, bool)
    return first[last], second[last]


def _is_about_lifetimes(term: Expression) -> bool:
    names = {part.name.partition(".")[2] for part in walk(term) if isinstance(part, ColumnRef)}
    return not names.isdisjoint(LIFETIME)


def _places(values: pa.Array) -> np.ndarray:
    """Places of values in their order: equal values have the same one."""
    _, place = np.unique(engine.alike(values).to_numpy(zero_copy_only=False), return_inverse=True)
    return place.astype(np.int64)


def pairs(
    left: pa.Table,
    right: pa.Table,
    condition: Expression | None,
    constants: Constants,
    alike: KeyCodes | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Places in both tables of the pairs for which the condition is true, of rows with the same number in `alike`."""
    whole = None if condition is None else _sided(condition, left)
    terms = [] if whole is None else list(whole.args) if isinstance(whole, And) else [whole]
    few = _few_of(terms, left, right, constants)
    if few is not None:
        among = None if alike is None else KeyCodes(alike.first, alike.second[few])
        first, second = pairs(left, right.take(pa.array(few)), condition, constants, among)
        return first, few[second]
    codes = same(left.num_rows, right.num_rows) if alike is None else alike
    for one, other in (pair for term in terms if (pair := equation_of(term)) is not None):
        a, b = (one, other) if sources(one) == {0} else (other, one)
        values = [evaluate(a, left, constants), evaluate(b, right, constants)]
        codes = both(codes, equal_codes(values, [a.type, b.type]))
    axis = bounded(terms, 1, lambda e: evaluate(e, left, constants), lambda e: evaluate(e, right, constants))
    count, blocks = candidates(codes, axis, BLOCK)
    if count > EXAMINED_MAX:
        raise FetchError(
            f"a join in the finish would look at {count:,} pairs of rows, at most {EXAMINED_MAX:,} are allowed",
            hint="add an equality or a bound between its sides, or shorten the windows",
        )
    names = {c.name for c in walk(whole) if isinstance(c, ColumnRef)} if whole is not None else set()
    # Some column of the left side stays, so that a condition without columns has rows to be true for.
    asked = left.select([n for n in left.column_names if n in names] or left.column_names[:1])
    asked_right = right.select([n for n in right.column_names if n in names])
    found: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, np.int64),) * 2]
    total = 0
    for first, second in blocks:
        if whole is not None:
            parts = [(first[at], second[at]) for at in stretches((asked, asked_right), (first, second))]
            true = np.concatenate([truth(whole, _beside(asked, asked_right, *part), constants) for part in parts])
            first, second = first[true], second[true]
        found.append((first, second))
        total += len(first)
        if total > PAIRS_MAX:
            raise FetchError(
                f"a join in the finish has more than {PAIRS_MAX:,} rows",
                hint="add conditions or shorten the windows",
            )
    first, second = (np.concatenate(column) for column in zip(*found, strict=True))
    return first, second


def _few_of(terms: Sequence[Expression], left: pa.Table, right: pa.Table, constants: Constants) -> np.ndarray | None:
    """Places of the few rows of a large right side (a table's versions) that an equation leaves; None if it is not."""
    if right.num_rows < LARGE or right.num_rows < 8 * left.num_rows:
        return None
    for one, other in (pair for term in terms if (pair := equation_of(term)) is not None):
        a, b = (one, other) if sources(one) == {0} else (other, one)
        if not isinstance(b, ColumnRef) or a.type.kind is not b.type.kind or a.type.kind not in _BY_VALUE:
            continue
        column = right.column(b.name)
        wanted = evaluate(a, left, constants).cast(column.type, safe=False)
        few = np.flatnonzero(pc.is_in(column, value_set=wanted.unique().drop_null()).to_numpy())
        return few if len(few) < right.num_rows // 2 else None
    return None


def _sided(e: Expression, left: pa.Table) -> Expression:
    """The expression with columns of the left table as source 0, others as source 1."""
    names = set(left.column_names)

    def side(part: Expression) -> Expression:
        return replace(part, source=0 if part.name in names else 1) if isinstance(part, ColumnRef) else part

    return rebuild(e, side)


def _beside(left: pa.Table, right: pa.Table, first: np.ndarray, second: np.ndarray) -> pa.Table:
    """Rows of both tables side by side; −1 stands for no row."""
    require_room(bytes_taken(left, first) + bytes_taken(right, second), "the rows of a join in the finish")
    one, other = _taken(left, first), _taken(right, second)
    return pa.table([*one.columns, *other.columns], names=[*left.column_names, *right.column_names])


def _taken(table: pa.Table, places: np.ndarray) -> pa.Table:
    return table.take(pa.array(places, mask=places < 0) if bool((places < 0).any()) else pa.array(places))
