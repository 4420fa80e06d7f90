"""Comparisons of two sources, `r.x < s.y + c`: what they say about the difference r.x − s.y.

A query is reached through a difference (`weir.boxes.differences`), so a comparison of two columns becomes one of their
difference where the two mean the same:

    exactly        32-bit numbers, decimals whose sums fit into 64 bits: nothing rounds, nothing overflows; and times,
                   which are assumed everywhere to lie within 73,000 years of the epoch
    under a guard  bigints: exactly so as long as no row has a number beyond ±2^61
    nearly         doubles: sums round, and r.x <= s.y + c may hold though r.x − s.y, rounded, is above c

Doubles. Let d be x − y, rounded. The sum y + c rounds to the nearest double. So x < y + c is true only if x is really
below y + c: otherwise x itself would be a nearer double. As rounding is monotone, d <= c follows. x <= y + c is also
true where y + c rounds to x, from at most half a unit in the last place of x away. There d <= c + s holds for rows up
to 2^52·s, and `weir.boxes.instances` chooses the slack s. So differences are *hints*: they find the queries, and
`Threshold` decides. Hints are wrong for larger rows, NaN and infinities, which a guard watches for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weir.algebra.decimals import is_wide
from weir.algebra.nodes import Arithmetic, ColumnRef, Expression, Literal, Negate, walk
from weir.algebra.schema import BIGINT, DOUBLE, INTERVAL, DataType, Kind
from weir.boxes.attributes import is_constant
from weir.boxes.value_keys import fits_key
from weir.sql.types import arithmetic

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = (Kind.INT, Kind.BIGINT, Kind.DECIMAL)
_MOVABLE = (*_WHOLE, Kind.TIMESTAMP)
_MOVED_COUNT_MAX = 4  # constants of ±2^60 whose sum stays in int64


class AsDifference(NamedTuple):
    """x − y op bound, x being of the lesser source."""

    op: str
    difference: Expression
    bound: Expression
    constants: tuple[Expression, ...]  # those whose size has to be checked
    is_guarded: bool  # the two mean the same only while rows are not too large


class Rounded(NamedTuple):
    """a op b + c in doubles; c is None if nothing is added."""

    op: str
    a: ColumnRef
    b: ColumnRef
    c: Expression | None

    def hint(self, op: str) -> tuple[str, Expression, Expression]:
        """What `a op b + c` (op is < <= > or >=) implies for the difference of a and b: op, difference, bound."""
        c = self.c or Literal(0.0, DOUBLE)
        op = op[0] + "="
        if self.a.source < self.b.source:
            return op, Arithmetic("-", self.a, self.b, DOUBLE), c
        return MIRRORED[op], Arithmetic("-", self.b, self.a, DOUBLE), Negate(c, DOUBLE)


def difference(op: str, left: Expression, right: Expression) -> AsDifference | None:
    """A comparison of two sources as one of their difference with a constant; None where the two might not agree."""
    columns: dict[int, tuple[int, ColumnRef]] = {}
    constants: list[tuple[int, Expression]] = []
    for sign, term in (*_signed(left, 1), *_signed(right, -1)):
        if is_constant(term):
            constants.append((sign, term))
        elif isinstance(term, ColumnRef) and term.type.kind in _MOVABLE and term.source not in columns:
            columns[term.source] = sign, term
        else:
            return None
    if len(columns) != 2 or sum(sign for sign, _ in columns.values()) != 0 or len(constants) > _MOVED_COUNT_MAX:
        return None
    (sign, x), (_, y) = (columns[source] for source in sorted(columns))
    if (x.type.kind is Kind.TIMESTAMP) != (y.type.kind is Kind.TIMESTAMP):
        return None
    kinds = [Kind.INTERVAL] if x.type.kind is Kind.TIMESTAMP else [*_WHOLE]
    if any(c.type.kind not in kinds for _, c in constants):
        return None
    made = _sum("-", x, y)
    bound = _total([(-sign * of_constant, c) for of_constant, c in constants], made.type)
    if any(_rounds(e) for e in (left, right, made, bound)):
        return None
    large = tuple(c for _, c in constants if c.type.kind is not Kind.DECIMAL)
    is_guarded = Kind.BIGINT in (x.type.kind, y.type.kind)
    if is_guarded and len(constants) > 1:
        return None  # their sum might overflow where no row is large
    return AsDifference(op if sign > 0 else MIRRORED[op], made, bound, large, is_guarded)


def rounded(op: str, left: Expression, right: Expression) -> Rounded | None:
    """A comparison of columns of two sources in doubles, with at most one constant beside one of them."""
    one, other = _column_and_constant(left), _column_and_constant(right)
    if one is None or other is None or (one[1] is not None and other[1] is not None):
        return None
    (a, of_a), (b, of_b) = one, other
    if a.source == b.source or not all(column.type.is_numeric and not is_wide(column.type) for column in (a, b)):
        return None  # a wide decimal has no key of its own
    if of_a is None and of_b is None and DOUBLE not in (a.type, b.type):
        return None
    return Rounded(op, a, b, of_b) if of_a is None else Rounded(MIRRORED[op], b, a, of_a)


def _column_and_constant(e: Expression) -> tuple[ColumnRef, Expression | None] | None:
    """The column x and the constant c of `x`, `x + c`, `c + x` or `x - c`, the last one negated; sums are doubles."""
    if isinstance(e, ColumnRef):
        return e, None
    if not (isinstance(e, Arithmetic) and e.op in "+-" and e.type == DOUBLE):  # sums of floats round to 32 bits
        return None
    x, c = (e.right, e.left) if is_constant(e.left) and e.op == "+" else (e.left, e.right)
    if not isinstance(x, ColumnRef) or not is_constant(c) or c.type.kind is not Kind.DOUBLE:
        return None
    return x, c if e.op == "+" else Negate(c, DOUBLE)


def _total(signed: Sequence[tuple[int, Expression]], type_: DataType) -> Expression:
    """The sum of constants with their signs; if there are none, a zero of the type."""
    if not signed:
        return Literal(0, INTERVAL if type_.kind is Kind.INTERVAL else BIGINT)
    (sign, total), *others = signed
    if sign < 0:
        total = Negate(total, BIGINT if total.type.kind is Kind.INT else total.type)  # the least int has no negative
    for sign, constant in others:
        total = _sum("+" if sign > 0 else "-", total, constant)
    return total


def _sum(op: str, left: Expression, right: Expression) -> Arithmetic:
    left, right, type_ = arithmetic(op, left, right)
    return Arithmetic(op, left, right, type_)


def _rounds(e: Expression) -> bool:
    """Whether it has arithmetic in doubles, or in decimals that 64 bits do not hold."""
    return any(not fits_key(n) for n in walk(e) if isinstance(n, Arithmetic) or is_wide(n.type))


def _signed(e: Expression, sign: int) -> Iterator[tuple[int, Expression]]:
    """The terms of a sum."""
    if isinstance(e, Arithmetic) and e.op in "+-" and not is_constant(e):
        yield from _signed(e.left, sign)
        yield from _signed(e.right, sign if e.op == "+" else -sign)
    elif isinstance(e, Negate) and not is_constant(e):
        yield from _signed(e.arg, -sign)
    else:
        yield sign, e
