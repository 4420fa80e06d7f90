"""GROUP BY with ROLLUP, CUBE and GROUPING SETS, as Spark has them: every row once for each set of keys.

    GROUP BY ROLLUP(a, b)   →   FROM …, (SELECT 0 AS set, 0 AS bits UNION ALL SELECT 1, 1 UNION ALL SELECT 2, 3) g
                                GROUP BY CASE WHEN bits & 2 = 0 THEN a END, CASE WHEN bits & 1 = 0 THEN b END, set, bits

`bits` has a one for each key that a set leaves out, the last key's in the lowest place: that is grouping_id(). Outside
aggregates a key is what its CASE gives; inside them it is the row's own value. After this there are only columns,
functions and joins. As in Spark there are no groups where there are no rows, for the empty set neither.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Aggregate, Call, ColumnRef, Comparison, Derived, Expression, Literal, Node
from weir.algebra.rebuild import map_expressions
from weir.algebra.schema import BIGINT, TINYINT, Column
from weir.sql.expressions import Expressions, bare

GROUPING = ("grouping", "grouping_id")  # functions of the keys that a set leaves out
SETS_MAX = 4_096
KEYS_MAX = 60  # whose bits are a bigint
_SET, _BITS = "set", "bits"
_Set = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Keys:
    """What GROUP BY says: every key once, and the sets of them by their places; no sets is one of all keys."""

    keys: tuple[Expression, ...]
    sets: tuple[frozenset[int], ...] | None = None


def keys_of(expressions: Expressions, group: exp.Expr, key: Callable[[exp.Expr], Expression]) -> Keys:
    """The keys of a GROUP BY; `key` lowers one of them."""
    items = list(group.expressions)
    beside = next((group.args[k] for k in ("grouping_sets", "rollup", "cube") if group.args.get(k)), None)
    if beside is None and not any(_is_analytic(item) for item in items):
        return Keys(tuple(dict.fromkeys(key(item) for item in items)))
    listed: list[list[_Set]]
    if beside is None:
        listed = [_sets(expressions, item) for item in items]
    elif isinstance(beside[0], exp.GroupingSets):  # GROUP BY a, b GROUPING SETS (…)
        listed = [_sets(expressions, one) for one in beside]
    else:  # GROUP BY a, b WITH ROLLUP
        listed = [_sets(expressions, type(beside[0])(expressions=items))]
    count = 1
    for choices in listed:
        count *= len(choices)
        if count > SETS_MAX:
            raise expressions.fail(f"GROUP BY has more than {SETS_MAX:,} sets of keys", items[0] if items else group)
    lowered: dict[int, Expression] = {}
    known = [item for item in items if not _is_analytic(item)] if beside is not None else []
    for node in [*known, *(n for choices in listed for one in choices for n in one)]:
        if id(node) not in lowered:
            lowered[id(node)] = key(node)
    order = _in_order(items if beside is None else known, lowered)
    place = {e: k for k, e in enumerate(order)}
    sets: list[frozenset[int]] = []
    for ways in itertools.product(*listed):
        nodes_ = [n for way in ways for n in way]
        strange = next((n for n in nodes_ if lowered[id(n)] not in place), None)
        if strange is not None:
            raise expressions.fail("GROUPING SETS has a key that GROUP BY does not list", strange, "list it")
        sets.append(frozenset(place[lowered[id(n)]] for n in nodes_))
    if len(order) > KEYS_MAX:
        raise expressions.fail(f"GROUP BY has more than {KEYS_MAX} keys in sets", group)
    return Keys(tuple(order), tuple(sets))


def _is_analytic(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets))


def _in_order(items: Iterable[exp.Expr], lowered: Mapping[int, Expression]) -> list[Expression]:
    """Every key once, in the order of the text."""
    found: dict[Expression, None] = {}
    stack = list(items)[::-1]
    while stack:
        node = stack.pop()
        if id(node) in lowered:
            found[lowered[id(node)]] = None
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            stack.extend(reversed(node.expressions))
    return list(found)


def _sets(expressions: Expressions, item: exp.Expr) -> list[_Set]:
    """The sets of keys that an item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        return [one for part in item.expressions for one in _of_sets(expressions, part)]
    if not isinstance(item, (exp.Rollup, exp.Cube)):
        return [_together(item)]
    parts = [_together(part) for part in item.expressions]
    if not parts:
        raise expressions.fail(f"{type(item).__name__.upper()} has no keys", item, "list some")
    if not all(parts):
        raise expressions.fail(f"{type(item).__name__.upper()} has an empty set", item, "leave () out")
    if isinstance(item, exp.Rollup):
        return [_flat(parts[:count]) for count in range(len(parts), -1, -1)]
    if 2 ** len(parts) > SETS_MAX:
        raise expressions.fail(f"CUBE of {len(parts)} keys has more than {SETS_MAX:,} sets", item)
    return [_flat(chosen) for count in range(len(parts), -1, -1) for chosen in itertools.combinations(parts, count)]


def _of_sets(expressions: Expressions, part: exp.Expr) -> list[_Set]:
    return _sets(expressions, part) if _is_analytic(part) else [_together(part)]


def _together(node: exp.Expr) -> _Set:
    """(a, b), a or ()."""
    node = bare(node)
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)


def _flat(parts: Iterable[_Set]) -> _Set:
    return tuple(node for part in parts for node in part)


@dataclass(frozen=True)
class Expanded:
    """A query with sets of keys as one with keys alone."""

    child: Node
    keys: tuple[Expression, ...]
    meaning: Mapping[Expression, Expression]  # what keys, grouping() and grouping_id() are outside aggregates

    def of(self, e: Expression) -> Expression:
        """An expression over groups."""
        return _put(e, self.meaning)


def expanded(
    expressions: Expressions,
    given: Keys,
    child: Node,
    columns: Sequence[tuple[Expression, exp.Expr]],
    source: int,
) -> Expanded:
    """The rows of `child` once for each set; `columns` are what is computed over the groups, and where it stands."""
    assert given.sets is not None
    bits = [sum(1 << (len(given.keys) - 1 - k) for k in range(len(given.keys)) if k not in one) for one in given.sets]
    rows: list[Node] = [
        nodes.Project(nodes.OneRow(), ((_SET, Literal(k, BIGINT)), (_BITS, Literal(b, BIGINT))))
        for k, b in enumerate(bits)
    ]
    sets = Derived(source, nodes.together(rows), f"_g{source}", (Column(_SET, BIGINT), Column(_BITS, BIGINT)))
    own = ColumnRef(source, _BITS, BIGINT)
    meaning: dict[Expression, Expression] = {}
    for k, key in enumerate(given.keys):
        left_out = Call("bitand", (own, Literal(1 << (len(given.keys) - 1 - k), BIGINT)), BIGINT)
        there = Comparison("=", left_out, Literal(0, BIGINT))
        meaning[key] = Call("case", (there, key, Literal(None, key.type)), key.type)
    keys = (*meaning.values(), ColumnRef(source, _SET, BIGINT), own)
    for e, at in columns:
        for call in _groupings(e):
            meaning[call] = _grouping(expressions, call, given.keys, own, at)
    return Expanded(_beside(child, sets), keys, meaning)


def _beside(child: Node, sets: Node) -> Node:
    if isinstance(child, nodes.Join):
        return replace(child, children=(*child.children, sets))
    if isinstance(child, nodes.Select):
        return nodes.Join((child.child, sets), child.predicate)
    return nodes.Join((child, sets), None)


def _groupings(e: Expression) -> list[Aggregate]:
    return [part for part in nodes.walk(e) if is_grouping(part) and isinstance(part, Aggregate)]


def grouping_call(expressions: Expressions, node: exp.Expr) -> Expression:
    """grouping(x) or grouping_id(…), which stand for themselves until the sets of GROUP BY are known."""
    name = node.name.lower()
    if name == "grouping" and len(node.expressions) != 1:
        raise expressions.fail(f"grouping() takes 1 argument, got {len(node.expressions)}", node)
    args = tuple(expressions.value(arg) for arg in node.expressions)
    return Aggregate(name, args, False, TINYINT if name == "grouping" else BIGINT)


def is_grouping(e: Expression) -> bool:
    """Whether it is what `grouping_call` makes."""
    return isinstance(e, Aggregate) and e.function in GROUPING


def _grouping(
    expressions: Expressions, call: Aggregate, keys: Sequence[Expression], bits: ColumnRef, at: exp.Expr
) -> Expression:
    if call.function == "grouping_id":
        if call.args and call.args != tuple(keys):
            raise expressions.fail("grouping_id() takes all keys of GROUP BY in their order", at, "write grouping_id()")
        return bits
    if call.args[0] not in keys:
        raise expressions.fail("grouping() takes a key of GROUP BY", at)
    place = len(keys) - 1 - list(keys).index(call.args[0])
    left_out = Call("bitand", (bits, Literal(1 << place, BIGINT)), BIGINT)
    found = Call(
        "case", (Comparison("=", left_out, Literal(0, BIGINT)), Literal(0, BIGINT), Literal(1, BIGINT)), BIGINT
    )
    return nodes.Cast(found, TINYINT)


def _put(e: Expression, meaning: Mapping[Expression, Expression]) -> Expression:
    """The expression with keys replaced, outermost first; in aggregates they are the values of rows."""
    if e in meaning:
        return meaning[e]
    if isinstance(e, Aggregate):
        return e
    if isinstance(e, nodes.Subquery):
        outer = {key: value for key, value in meaning.items() if _is_of_columns(key)}
        e = replace(e, query=map_expressions(e.query, lambda inner: _put(inner, outer)))
    parts = nodes.children(e)
    return nodes.with_children(e, tuple(_put(part, meaning) for part in parts)) if parts else e


def _is_of_columns(key: Expression) -> bool:
    """Inside a subquery stand aggregates and constants of its own: there only what is made of columns is meant."""
    return not isinstance(key, Aggregate) and any(isinstance(part, ColumnRef) for part in nodes.walk(key))
