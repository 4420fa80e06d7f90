"""IN of long lists and of list parameters, as `InSet`; short lists are written out as equalities.

Items get the type that a constant beside the value has, so that equal items are equal values. One that has no such
value (5.5 beside whole numbers) equals nothing and is left out; NULLs stay, for they make what is not found NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir.algebra.nodes import Comparison, Expression, InSet, Literal, Param
from weir.algebra.schema import NULL, DataType, list_of
from weir.sql import types

SMALL = 16  # items that are written out as equalities


def long_lists(arg: Expression, constants: Sequence[Literal]) -> list[Expression]:
    """Conditions that together say that a value equals one of the constants."""
    items: dict[Expression, dict[object, None]] = {}
    rest: list[Expression] = []
    usual = types.slot_type(arg.type)
    of_usual = {c.value: None for c in constants if c.type == usual}
    if of_usual:
        items[arg] = of_usual
    for constant in constants:
        if constant.type == usual:
            continue
        value, item = (arg, constant) if constant.value is None else types.align(arg, constant)
        assert isinstance(item, Literal)
        wanted = types.slot_type(value.type)
        of = items.setdefault(value, {})
        if item.value is None or item.type == wanted:
            of[item.value] = None
        elif not (wanted.is_numeric and item.type.is_numeric):
            rest.append(Comparison("=", value, item))
    lists = [InSet(value, Literal(tuple(of), list_of(types.slot_type(value.type)))) for value, of in items.items()]
    return [*lists, *rest]


def list_parameter(arg: Expression, name: str, given: DataType) -> Expression:
    """`arg IN (:name)` with a list for the parameter."""
    item = given.item
    value = arg if item == NULL else types.align(arg, Param(name, item))[0]
    return InSet(value, Param(name, list_of(types.slot_type(value.type))))
