"""Expressions as JSON, and back: how a segment file says what its derived attributes are.

One object a node, its class under "is" and its fields by name, but for those that have their usual value; types by
name. Literals are written so that every value returns exactly: doubles by `repr` (NaN and infinities too), decimals and
dates as text. Nothing is ever evaluated or unpickled: an unknown kind is an error. `canonical` is the text that says
whether two attributes are the same.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import fields
from decimal import Decimal
from typing import Any

from weir.algebra.ddl import parse_type
from weir.algebra.nodes import EXPRESSIONS, Aggregate, ColumnRef, Expression, Literal, Subquery, WindowCall
from weir.algebra.schema import DataType, Kind


def _kind(node: type[Any]) -> str:
    """The words of a class: IsNull is "is null"."""
    return "column" if node is ColumnRef else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.__name__).lower()


_OF_SETS = (Aggregate, WindowCall, Subquery)  # these are no attributes of rows
_KINDS = {node: _kind(node) for node in EXPRESSIONS if node not in _OF_SETS}
_NODES = {kind: node for node, kind in _KINDS.items()}
_FIELDS = {node: tuple((f.name, f.default) for f in fields(node)) for node in _KINDS}


def to_json(e: Expression) -> dict[str, Any]:
    """The expression as JSON-able dictionaries."""
    node = type(e)
    assert node in _KINDS, f"{node.__name__} is no attribute"
    written: dict[str, Any] = {"is": _KINDS[node]}
    for name, usual in _FIELDS[node]:
        value = getattr(e, name)
        if value != usual and not (node is Literal and name == "value"):
            written[name] = _field(value)
    if isinstance(e, Literal):
        written["value"] = _written(e.value, e.type)
    return written


def _field(value: Any) -> Any:
    if isinstance(value, tuple):
        return [to_json(part) for part in value]
    if isinstance(value, DataType):
        return str(value)
    return to_json(value) if type(value) in _KINDS else value


def from_json(node: dict[str, Any]) -> Expression:
    """The expression that `to_json` wrote."""
    found = {name: _part(name, value) for name, value in node.items() if name not in ("is", "value")}
    if node["is"] == "literal":
        found["value"] = _read(node["value"], found["type"])
    made: Expression = _NODES[node["is"]](**found)
    return made


def _part(name: str, value: Any) -> Any:
    if name == "type":
        return parse_type(value)
    if isinstance(value, list):
        return tuple(from_json(part) for part in value)
    return from_json(value) if isinstance(value, dict) else value


def canonical(e: Expression) -> str:
    """A text that is equal for equal expressions only."""
    return json.dumps(to_json(e), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _written(value: object, type_: DataType) -> object:
    if isinstance(value, tuple):
        return [_written(item, type_.item) for item in value]
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (Decimal, dt.date)):
        return str(value)
    assert value is None or isinstance(value, (int, str, bool)), f"{value!r} is no {type_}"
    return value


def _read(value: Any, type_: DataType) -> object:
    if isinstance(value, list):
        return tuple(_read(item, type_.item) for item in value)
    if value is None or not isinstance(value, str):
        return value
    if type_.kind is Kind.DOUBLE:
        return float(value)
    if type_.kind is Kind.DECIMAL:
        return Decimal(value)
    return dt.date.fromisoformat(value) if type_.kind is Kind.DATE else value
