"""Differences: attributes of pairs of rows that are x − y, x a value of one row and y one of the other.

A band join is reached through such an attribute (`weir.index.bands`): rows of a side are kept in the order of what they
bring to it. `Difference` says what that is, as an expression over each side's rows. A partner brings x or −y, so that
differences ascend with it; an event brings the same with the other sign. Operands are converted as the subtraction
converts them: to doubles if it is one of doubles, to the result's scale if it is one of decimals, to microseconds if
it is one of times.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.algebra.decimals import KEY_DIGITS_MAX
from weir.algebra.nodes import Arithmetic, Cast, Expression, Negate
from weir.algebra.schema import DOUBLE, TIMESTAMP, DataType, Kind, decimal
from weir.boxes.attributes import sources_of
from weir.boxes.value_keys import fits_key


@dataclass(frozen=True)
class Difference:
    """x − y; expressions have the sources of the attribute."""

    plus: Expression  # x, in the units of the difference
    minus: Expression  # y
    type: DataType  # of the difference

    @property
    def is_double(self) -> bool:
        return self.type.kind is Kind.DOUBLE


def difference_of(e: Expression) -> Difference | None:
    """The attribute as a difference of two rows, if it is one."""
    if not (isinstance(e, Arithmetic) and e.op == "-"):
        return None
    if e.type.kind not in (Kind.BIGINT, Kind.DECIMAL, Kind.INTERVAL, Kind.DOUBLE) or e.type.variant:
        return None  # a difference of floats is rounded to 32 bits, which those of keys are not
    if e.type.kind is Kind.DECIMAL and not fits_key(e):
        return None  # it is evaluated pair by pair
    sides = sources_of(e.left), sources_of(e.right)
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return None
    plus, minus = (_brought(part, e.type) for part in (e.left, e.right))
    return None if plus is None or minus is None else Difference(plus, minus, e.type)


def _brought(e: Expression, to: DataType) -> Expression | None:
    """An operand in the units of the difference; None if it cannot be converted."""
    kind = e.type.kind
    if to.kind is Kind.DOUBLE:
        return e if kind is Kind.DOUBLE else Cast(e, DOUBLE)
    if to.kind is Kind.BIGINT:
        return e if kind in (Kind.INT, Kind.BIGINT) else None
    if to.kind is Kind.DECIMAL:
        scale = e.type.scale if kind is Kind.DECIMAL else 0
        return e if scale == to.scale and kind is Kind.DECIMAL else Cast(e, decimal(KEY_DIGITS_MAX, to.scale))
    if kind is Kind.DATE:
        return Cast(e, TIMESTAMP)
    return e if kind in (Kind.TIMESTAMP, Kind.INTERVAL) else None


def partner_order(of: Difference, side: int) -> Expression:
    """The expression by which rows of a side are ordered as partners; differences ascend with it."""
    return of.plus if side in sources_of(of.plus) else Negate(of.minus, of.type)


def event_part(of: Difference, side: int) -> Expression:
    """What an event of a side brings: the difference with a partner is the partner's order minus this."""
    return of.minus if side in sources_of(of.minus) else Negate(of.plus, of.type)
