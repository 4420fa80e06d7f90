"""Expressions as JSON, and back: how a segment file says what its derived attributes are.

One object a node, its kind under "is"; types by name. Literals are written so that every value returns exactly:
doubles by `repr` (NaN and infinities too), decimals and dates as text. Nothing is ever evaluated or unpickled:
an unknown kind is an error. `canonical` is the text that says whether two attributes are the same.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

from weir.algebra.nodes import (
    Absolute,
    And,
    Arithmetic,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Param,
    Threshold,
)
from weir.algebra.schema import DataType, Kind

_ONE_ARGUMENT: dict[str, Any] = {"negate": Negate, "absolute": Absolute, "cast": Cast}
_LOGICAL: dict[str, Any] = {"and": And, "or": Or}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def to_json(e: Expression) -> dict[str, Any]:
    """The expression as JSON-able dictionaries."""
    if isinstance(e, ColumnRef):
        return {"is": "column", "source": e.source, "name": e.name, "type": str(e.type)}
    if isinstance(e, Literal):
        return {"is": "literal", "value": _written(e.value, e.type), "type": str(e.type)}
    if isinstance(e, Param):
        return {"is": "param", "name": e.name, "type": str(e.type), "unit_us": e.unit_us}
    if isinstance(e, Arithmetic):
        sides = {"left": to_json(e.left), "right": to_json(e.right)}
        return {"is": "arithmetic", "op": e.op, **sides, "type": str(e.type)}
    if isinstance(e, (Comparison, Threshold)):
        kind = "comparison" if isinstance(e, Comparison) else "threshold"
        return {"is": kind, "op": e.op, "left": to_json(e.left), "right": to_json(e.right)}
    if isinstance(e, Like):
        return {"is": "like", "arg": to_json(e.arg), "pattern": to_json(e.pattern)}
    if isinstance(e, (And, Or)):
        return {"is": "and" if isinstance(e, And) else "or", "args": [to_json(a) for a in e.args]}
    if isinstance(e, Not):
        return {"is": "not", "arg": to_json(e.arg)}
    if isinstance(e, IsNull):
        return {"is": "is null", "arg": to_json(e.arg)}
    assert isinstance(e, (Negate, Absolute, Cast)), f"{type(e).__name__} is no attribute"
    return {"is": type(e).__name__.lower(), "arg": to_json(e.arg), "type": str(e.type)}


def from_json(node: dict[str, Any]) -> Expression:
    """The expression that `to_json` wrote."""
    kind = node["is"]
    if kind == "column":
        return ColumnRef(node["source"], node["name"], type_named(node["type"]))
    if kind == "literal":
        type_ = type_named(node["type"])
        return Literal(_read(node["value"], type_), type_)
    if kind == "param":
        return Param(node["name"], type_named(node["type"]), node["unit_us"])
    if kind == "arithmetic":
        return Arithmetic(node["op"], from_json(node["left"]), from_json(node["right"]), type_named(node["type"]))
    if kind == "comparison":
        return Comparison(node["op"], from_json(node["left"]), from_json(node["right"]))
    if kind == "threshold":
        return Threshold(node["op"], from_json(node["left"]), from_json(node["right"]))
    if kind == "like":
        pattern = from_json(node["pattern"])
        assert isinstance(pattern, (Literal, Param))
        return Like(from_json(node["arg"]), pattern)
    if kind in _LOGICAL:
        return _LOGICAL[kind](tuple(from_json(a) for a in node["args"]))  # type: ignore[no-any-return]  # And, Or
    if kind == "not":
        return Not(from_json(node["arg"]))
    if kind == "is null":
        return IsNull(from_json(node["arg"]))
    return _ONE_ARGUMENT[kind](from_json(node["arg"]), type_named(node["type"]))  # type: ignore[no-any-return]  # untyped table


def canonical(e: Expression) -> str:
    """A text that is equal for equal expressions only."""
    return json.dumps(to_json(e), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def type_named(name: str) -> DataType:
    """The type that `str(type)` names."""
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        return DataType(Kind.DECIMAL, int(found[1]), int(found[2]))
    return DataType(Kind(name))


def _written(value: object, type_: DataType) -> object:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (Decimal, dt.date)):
        return str(value)
    assert value is None or isinstance(value, (int, str, bool)), f"{value!r} is no {type_}"
    return value


def _read(value: Any, type_: DataType) -> object:
    if value is None or not isinstance(value, str):
        return value
    if type_.kind is Kind.DOUBLE:
        return float(value)
    if type_.kind is Kind.DECIMAL:
        return Decimal(value)
    return dt.date.fromisoformat(value) if type_.kind is Kind.DATE else value
