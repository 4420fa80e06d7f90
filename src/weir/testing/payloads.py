"""Parts of payloads in the oracle, as DuckDB SQL: fields, elements, sizes and what arrays contain."""

from __future__ import annotations

from collections.abc import Sequence

from weir.algebra.schema import BOOLEAN, INT, Kind
from weir.testing.constants import Scalar

FUNCTIONS = ("get", "element_at", "try_element_at", "size", "cardinality", "array_contains")


def field(s: Scalar, name: str) -> Scalar:
    """`s.name`."""
    if s.type.variant == "map":
        return element(s, name)
    spelt, type_ = next((n, t) for n, t in s.type.parts if n.lower() == name.lower())
    return Scalar(f"struct_extract({s.sql}, {_text(spelt)})", type_, s.constant)


def element(s: Scalar, key: object) -> Scalar:
    """`s[key]`; of an array from 0 on, or from −1 at its end."""
    type_ = s.type.parts[-1][1]
    if s.type.variant == "map":
        return Scalar(f"map_extract_value({s.sql}, {_text(key) if isinstance(key, str) else key})", type_, s.constant)
    assert isinstance(key, int), f"{key!r} is no place"
    return Scalar(f"({s.sql})[{key + 1 if key >= 0 else key}]", type_, s.constant)


def function(name: str, args: Sequence[Scalar]) -> Scalar:
    """One of `FUNCTIONS`."""
    s = args[0]
    if name in ("size", "cardinality"):
        word = "cardinality" if s.type.variant == "map" else "len"
        return Scalar(f"CAST({word}({s.sql}) AS INTEGER)", INT, s.constant)
    if name == "array_contains":
        x, of = args[1].sql, s.type.parts[0][1]
        array = f"CAST({s.sql} AS BIGINT[])" if of.kind is Kind.INT else s.sql
        has_null = f"len(list_filter({s.sql}, lambda x: x IS NULL)) > 0"
        ways = f"WHEN {s.sql} IS NULL OR {x} IS NULL THEN NULL WHEN list_contains({array}, {x}) THEN TRUE"
        return Scalar(f"(CASE {ways} WHEN {has_null} THEN NULL ELSE FALSE END)", BOOLEAN, False)
    key = args[1].value
    if s.type.variant != "map" and name != "get":
        assert isinstance(key, int), f"{key!r} is no place"
        return element(s, key - 1 if key > 0 else key)
    return element(s, key)


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
