"""OVER (…) in the oracle: partitions, orders and frames, with Spark's defaults said in DuckDB's words.

NULLs come first ascending and last descending unless the text says otherwise, and the frame of an ordered window ends
with the current row and its peers, as in Spark. A RANGE of time runs over microseconds, one of dates over days.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from weir.algebra.schema import DATE, INTERVAL, Kind
from weir.testing.constants import DAY_US, WHOLE, Scalar

_WINDOW = {"this", "partition_by", "order", "spec", "over", "alias"}
_SPEC = {"kind", "start", "start_side", "end", "end_side"}


def ordering(keys: Sequence[exp.Ordered], translate: Callable[[exp.Expr], Scalar]) -> str:
    """` ORDER BY …`, or nothing. In brackets a constant is no place in the select list."""
    if not keys:
        return ""
    return " ORDER BY " + ", ".join(f"({translate(k.this).sql}){direction(k)}" for k in keys)


def direction(key: exp.Ordered) -> str:
    known = {"this", "desc", "nulls_first"}
    assert not [k for k, part in key.args.items() if part and k not in known], f"{key.sql('spark')} is not known"
    down = bool(key.args.get("desc"))
    return f" {'DESC' if down else 'ASC'} NULLS {'FIRST' if key.args.get('nulls_first') else 'LAST'}"


def over(e: exp.Window, named: Mapping[str, exp.Window], translate: Callable[[exp.Expr], Scalar]) -> str:
    """` OVER (…)` of a window, which may be, or build upon, one that the WINDOW clause names."""
    parts = _resolved(e, named)
    partition, order, spec = parts.get("partition_by", ()), parts.get("order"), parts.get("spec")
    pieces = []
    if partition:
        pieces.append("PARTITION BY " + ", ".join(f"({translate(p).sql})" for p in partition))
    keys = order.expressions if order is not None else []
    offsets = spec is not None and any(isinstance(spec.args.get(k), exp.Expr) for k in ("start", "end"))
    if spec is not None and offsets and spec.args["kind"] == "RANGE":
        (key,) = keys
        of = translate(key.this)
        pieces.append(f"ORDER BY {_along(of)}{direction(key)}")
        pieces.append(_frame(spec, lambda bound: _distance(translate(bound), of)))
    else:
        pieces.append(ordering(keys, translate).strip())
        if spec is not None:
            pieces.append(_frame(spec, lambda bound: translate(bound).sql))
    return f" OVER ({' '.join(p for p in pieces if p)})"


def _resolved(e: exp.Window, named: Mapping[str, exp.Window]) -> dict[str, Any]:
    extra = [k for k, part in e.args.items() if part not in (None, False, []) and k not in _WINDOW]
    assert not extra, f"the oracle does not know {', '.join(extra)} of {e.sql('spark')}"
    own = {k: e.args[k] for k in ("partition_by", "order", "spec") if e.args.get(k)}
    base = e.args.get("alias")
    if base is None:
        return own
    return {**_resolved(named[base.name.lower()], named), **own}


def _frame(spec: exp.WindowSpec, bound_sql: Callable[[exp.Expr], str]) -> str:
    extra = [k for k, part in spec.args.items() if part and k not in _SPEC]
    assert not extra, f"the oracle does not know {', '.join(extra)} of a frame"

    def bound(which: str) -> str:
        value, side = spec.args.get(which), spec.args.get(f"{which}_side") or ""
        if value is None:
            return "CURRENT ROW"
        return f"{bound_sql(value) if isinstance(value, exp.Expr) else value} {side}".strip()

    return f"{spec.args['kind']} BETWEEN {bound('start')} AND {bound('end')}"


def _along(key: Scalar) -> str:
    """The key as a number that distances are added to."""
    if key.type.kind is Kind.TIMESTAMP:
        return f"epoch_us({key.sql})"
    if key.type == DATE:
        return f"CAST({key.sql} - DATE '1970-01-01' AS BIGINT)"
    return f"CAST({key.sql} AS HUGEINT)" if key.type.kind in WHOLE else key.sql  # so that no edge of a frame overflows


def _distance(bound: Scalar, key: Scalar) -> str:
    if key.type == DATE and bound.type == INTERVAL:
        return f"({bound.sql} // {DAY_US})"
    return bound.sql
