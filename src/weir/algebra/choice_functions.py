"""Scalar functions that choose among values: CASE, coalesce, greatest, and what compares NULLs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weir.algebra import schema
from weir.algebra.order import order
from weir.algebra.signatures import ANY, CONDITION, MET, MET_FIRST, VALUE, Signature, Takes, always, first, last


def _coalesce(*values: object) -> object:
    return next((v for v in values if v is not None), None)


def _case(*parts: object) -> object:
    found = (value for condition, value in zip(parts[:-1:2], parts[1::2], strict=True) if condition)
    return next(found, parts[-1])


def _case_of(subject: object, *parts: object) -> object:
    ways = zip(parts[:-1:2], parts[1::2], strict=True)
    known = ((met, value) for met, value in ways if subject is not None and met is not None)
    return next((value for met, value in known if order(subject, met) == 0), parts[-1])


def _nullif(value: object, other: object) -> object:
    return None if value is None or (other is not None and order(value, other) == 0) else value


def _equal_null(value: object, other: object) -> object:
    return value is other if value is None or other is None else order(value, other) == 0


def _extreme(sign: int) -> Callable[..., object]:
    def found(*values: object) -> object:
        known = [v for v in values if v is not None]
        best = known[0] if known else None
        for v in known[1:]:
            best = v if order(v, best) * sign > 0 else best
        return best

    return found


def _written_case(parts: Sequence[str]) -> str:
    ways = zip(parts[:-1:2], parts[1::2], strict=True)
    return f"CASE {' '.join(f'WHEN {c} THEN {v}' for c, v in ways)} ELSE {parts[-1]} END"


def _written_case_of(parts: Sequence[str]) -> str:
    return f"CASE {parts[0]} {_written_case(parts[1:])[5:]}"


CHOICES = (
    Signature("coalesce", Takes((VALUE,), repeated=(VALUE,)), last, _coalesce, also=("nvl", "ifnull"), sees_nulls=True),
    Signature("nullif", Takes((ANY, MET)), first, _nullif, sees_nulls=True),
    Signature("equal_null", Takes((ANY, MET)), always(schema.BOOLEAN), _equal_null, sees_nulls=True),
    Signature("greatest", Takes((VALUE, VALUE), repeated=(VALUE,)), last, _extreme(1), sees_nulls=True),
    Signature("least", Takes((VALUE, VALUE), repeated=(VALUE,)), last, _extreme(-1), sees_nulls=True),
    Signature(
        "case",
        Takes((CONDITION, VALUE), repeated=(CONDITION, VALUE), last=(VALUE,)),
        last,
        _case,
        sees_nulls=True,
        written=_written_case,
        is_syntax=True,
    ),
    Signature(
        "case_of",
        Takes((ANY, MET_FIRST, VALUE), repeated=(MET_FIRST, VALUE), last=(VALUE,)),
        last,
        _case_of,
        sees_nulls=True,
        written=_written_case_of,
        is_syntax=True,
    ),
)
