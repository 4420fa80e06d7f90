"""Vectorised choices among values: CASE, coalesce, greatest, and what compares NULLs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from weir.algebra.schema import BOOLEAN, Kind
from weir.values.columns import Bools, Operand, null_operand
from weir.values.comparisons import compare
from weir.values.evaluations import Evaluation, choice, chosen, known, size_of, spread, true


def _case(args: Sequence[Operand]) -> Operand:
    found = args[-1]
    for condition, value in zip(reversed(args[:-1:2]), reversed(args[1::2]), strict=True):
        found = chosen(true(condition), value, found)
    return found


def _case_of(args: Sequence[Operand]) -> Operand:
    """CASE x WHEN a THEN …: x is evaluated once."""
    subject, *ways = args
    parts = [compare("=", subject, part) if k % 2 == 0 and k < len(ways) - 1 else part for k, part in enumerate(ways)]
    return _case(parts)


def _coalesce(args: Sequence[Operand]) -> Operand:
    return reduce(lambda rest, arg: chosen(known(arg), arg, rest), reversed(args[:-1]), args[-1])


def _nullif(args: Sequence[Operand]) -> Operand:
    value, other = args
    return chosen(true(compare("=", value, other)), null_operand(value.type), value)


def _extreme(op: str, args: Sequence[Operand]) -> Operand:
    def better(best: Operand, arg: Operand) -> Operand:
        # What is compared are values, as rows have them: nothing here is a constant that others adapt to.
        count = size_of([best, arg])
        best, arg = (spread(o, count) for o in (best, arg))
        plain = [Operand(o.values, o.valid, o.type, False) for o in (arg, best)]
        return chosen(known(arg) & (~known(best) | true(compare(op, *plain))), arg, best)

    return reduce(better, args[1:], args[0])


def _equal_null(args: Sequence[Operand]) -> Operand:
    """NULL equals NULL, and nothing else."""
    left, right = args
    size = size_of(args)
    a, b = (_known_each(arg, size) for arg in args)
    if Kind.NULL in (left.kind, right.kind):
        return Operand(~a & ~b, None, BOOLEAN, False)
    equal = true(compare("=", left, right))
    return Operand((a & b & equal) | (~a & ~b), None, BOOLEAN, False)


def _known_each(arg: Operand, size: int) -> Bools:
    return np.broadcast_to(known(arg), size)


CHOICE_CALLS: dict[str, Evaluation] = {
    "coalesce": choice(_coalesce),
    "nullif": choice(_nullif),
    "equal_null": choice(_equal_null),
    "greatest": choice(partial(_extreme, ">")),
    "least": choice(partial(_extreme, "<")),
    "case": choice(_case),
    "case_of": choice(_case_of),
}
