"""Constants and parameters in expressions → literals and slots.

What the digits of a number or of a length of time mean is in `sql/literals`; here is where they stand, and what is
said of those that mean nothing.
"""

from __future__ import annotations

import re

from sqlglot import exp

from weir.algebra.nodes import Expression, Literal, Param
from weir.algebra.schema import BOOLEAN, INTERVAL, NULL, STRING, DataType, Kind
from weir.sql import literals, types
from weir.sql.expressions import Expressions, Methods, bare
from weir.sql.position import start_of
from weir.sql.windows import read_unit


def number(e: Expressions, text: str, node: exp.Expr) -> Literal:
    """The number that a text is."""
    constant = literals.number(text)
    if constant is None:
        raise e.fail(f"the number {text[:40]} is beyond the range of double", node, "numbers reach ±1.797e308")
    return constant


def _literal(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    assert isinstance(node, exp.Literal)
    return Literal(node.this, STRING) if node.is_string else number(e, node.this, node)


def _boolean(_e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def _null(_e: Expressions, _node: exp.Expr, _: DataType | None) -> Expression:
    return Literal(None, NULL)


def _param(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    name = node.name
    given = e.param_types.get(name)
    if given is not None and given.kind is Kind.LIST:
        raise e.fail(f"parameter ':{name}' is a list", node, f"a list stands behind IN: x IN (:{name})")
    if given is not None:
        return Param(name, given)
    return Param(name, NULL if wanted is None else types.slot_type(wanted))


def _interval(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    assert isinstance(node, exp.Interval)
    count, unit_node = bare(node.this), node.args.get("unit")
    start = _interval_start(e, node)
    if isinstance(count, exp.Placeholder) and unit_node is not None:
        return Param(count.name, INTERVAL, read_unit(e.text, unit_node.name, start))
    sign = ""
    if isinstance(count, exp.Neg):
        sign, count = "-", count.this
    if not isinstance(count, exp.Literal):
        raise e.fail("an interval takes a constant number", node, "write INTERVAL 5 SECONDS")
    words = count.name.split()
    if unit_node is not None:
        words.append(unit_node.name)
    total = 0
    if not words or len(words) % 2:
        raise e.fail(f"'{count.name[:40]}' is no length of time", node, "write INTERVAL 5 SECONDS")
    for count_text, word in zip(words[::2], words[1::2], strict=True):
        part = literals.microseconds(sign + count_text, read_unit(e.text, word, start))
        if part is None:
            raise e.fail(
                f"'{count_text[:40]} {word}' is no length of time in whole microseconds within 64 bits",
                node,
                "write INTERVAL 5 SECONDS",
            )
        total += part
    return Literal(total, INTERVAL)


def _interval_start(e: Expressions, node: exp.Interval) -> int | None:
    """Where an interval stands; its number and its unit carry no position."""
    own = start_of(node)
    count = node.this
    if own is None and isinstance(count, exp.Literal):
        found = re.search(rf"\bINTERVAL\b\W*{re.escape(count.name)}", e.text, re.IGNORECASE)
        own = None if found is None else found.start()
    return e.start(node) if own is None else own


CONSTANTS: Methods = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Placeholder: _param,
    exp.Interval: _interval,
}
