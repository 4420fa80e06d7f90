"""GROUP BY and HAVING: an answer's columns over rows, or over groups of them: `grouped`.

What stands beside keys outside aggregates must be made of keys. Keys may be names and places of the select list; sets
of them (ROLLUP, CUBE, GROUPING SETS) are in `sql/grouping_sets`. The two edges of a session are keys together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Aggregate, ColumnRef, Expression, Node, WindowCall, walk
from weir.algebra.rebuild import columns_inside
from weir.algebra.schema import Kind
from weir.sql.expressions import Expressions
from weir.sql.generators import is_generator
from weir.sql.grouping_sets import Keys, expanded, is_grouping, keys_of
from weir.sql.time_windows import calls_in, is_session
from weir.sql.types import TAKE_A_PART


def grouped(
    e: Expressions,
    node: exp.Select,
    child: Node,
    columns: Sequence[tuple[str, Expression]],
    hidden: Sequence[Expression],
    number: Callable[[], int],
) -> Node:
    """The answer before it is sorted; what it is sorted by and not shown are its last columns."""
    group, having = node.args.get("group"), node.args.get("having")
    all_columns = (*columns, *((f"_order{k}", value) for k, value in enumerate(hidden)))
    has_aggregate = any(isinstance(p, Aggregate) for _, value in all_columns for p in walk(value))
    _refuse_generator(e, node, all_columns, group is not None or has_aggregate or having is not None)
    if group is None:
        _refuse_session(e, node)
    if group is None and not has_aggregate and having is None:
        return nodes.Project(child, all_columns)
    given = _keys(e, group, columns) if group is not None else Keys(())
    keys = given.keys
    condition: Expression | None = None
    if having is not None:
        e.aliases = {name.lower(): value for name, value in columns}
        condition = e.condition(having.this, "HAVING")
        e.aliases = {}
        if any(isinstance(p, WindowCall) and not is_session(p) for p in walk(condition)):
            raise e.fail("a window function cannot be used in HAVING", having, "put the query into FROM and use WHERE")
        _check_grouped(e, condition, keys, having)
    beside = node.args.get("order") or node.args.get("qualify")  # what the hidden columns are of
    items = [*_items(node, columns), *([beside] * len(hidden) if beside is not None else [])]
    for (_, value), item in zip(all_columns, items, strict=True):
        _check_grouped(e, value, keys, item)
    over_groups = [(value, item) for (_, value), item in zip(all_columns, items, strict=True)]
    over_groups += [] if condition is None else [(condition, having)]
    if given.sets is None:
        _refuse_grouping(e, over_groups)
        return nodes.GroupBy(child, keys, all_columns, condition)
    sets = expanded(e, given, child, over_groups, number())
    put = tuple((name, sets.of(value)) for name, value in all_columns)
    return nodes.GroupBy(sets.child, sets.keys, put, None if condition is None else sets.of(condition))


def _refuse_generator(
    e: Expressions, node: exp.Select, columns: Sequence[tuple[str, Expression]], has_groups: bool
) -> None:
    """explode() stands in a select list without groups and window functions."""
    if not any(is_generator(part) for _, value in columns for part in walk(value)):
        return
    others = any(isinstance(part, WindowCall) for _, value in columns for part in walk(value))
    nested = any(is_generator(part) and part is not value for _, value in columns for part in walk(value))
    if has_groups or others or nested:
        hint = "put explode() into a query in FROM, or write LATERAL VIEW explode(…) t AS x"
        raise e.fail("explode() stands alone in a select list of rows", node, hint)


def _refuse_session(e: Expressions, node: exp.Select) -> None:
    if e.stretch is not None and is_session(e.stretch.begin):
        raise e.fail("session_window() is a key of GROUP BY", next(calls_in(node)), "add GROUP BY")


def _refuse_grouping(e: Expressions, over_groups: Sequence[tuple[Expression, exp.Expr]]) -> None:
    for value, item in over_groups:
        call = next((p for p in walk(value) if isinstance(p, Aggregate) and is_grouping(p)), None)
        if call is not None:
            hint = "write GROUP BY ROLLUP(…), CUBE(…) or GROUPING SETS (…)"
            raise e.fail(f"{call.function}() needs sets of keys", item, hint)


def _keys(e: Expressions, group: exp.Expr, columns: Sequence[tuple[str, Expression]]) -> Keys:
    stretch = e.stretch
    if group.args.get("all") is True:
        e.only(group, {"all"})
        whole = None if stretch is None else stretch.whole
        shown = [stretch.begin if stretch is not None and value == whole else value for _, value in columns]
        found = tuple(v for v in shown if not any(isinstance(p, (Aggregate, WindowCall)) for p in walk(v)))
        for key in found:
            _check_key(e, key, group)
        keys = Keys(found)
    else:
        e.only(group, {"expressions", "grouping_sets", "rollup", "cube"})
        e.aliases = {name.lower(): value for name, value in columns}
        keys = keys_of(e, group, lambda item: _key(e, item, columns))
        e.aliases = {}
    if stretch is None or not is_session(stretch.begin):
        return keys
    if stretch.begin not in keys.keys:
        raise e.fail("session_window() is a key of GROUP BY", group, "add it there")
    if keys.sets is not None:
        raise e.fail("session_window() beside ROLLUP, CUBE or GROUPING SETS is not part of the language", group)
    place = keys.keys.index(stretch.begin) + 1
    return Keys((*keys.keys[:place], stretch.end, *keys.keys[place:]))


def _key(e: Expressions, item: exp.Expr, columns: Sequence[tuple[str, Expression]]) -> Expression:
    stretch = e.stretch
    if isinstance(item, exp.Literal) and not item.is_string:
        if not (item.this.isascii() and item.this.isdigit()) or not 1 <= int(item.this[:9]) <= len(columns):
            raise e.fail(f"GROUP BY {item.this[:20]} points at no column of the answer (1 to {len(columns)})", item)
        key = columns[int(item.this) - 1][1]
    elif stretch is not None and isinstance(item, exp.Anonymous) and item.name.lower() == stretch.word:
        return stretch.begin
    else:
        key = e.value(item)
    if stretch is not None and key == stretch.whole:
        return stretch.begin
    if any(isinstance(p, (Aggregate, WindowCall)) for p in walk(key)):
        raise e.fail("GROUP BY cannot hold an aggregate", item, "use HAVING for conditions on groups")
    _check_key(e, key, item)
    return key


def _check_key(e: Expressions, key: Expression, item: exp.Expr) -> None:
    if key.type.kind is Kind.INTERVAL:
        raise e.fail("GROUP BY does not take an interval", item)
    if key.type.kind is Kind.PAYLOAD:
        raise e.fail(f"GROUP BY does not take {key.type}", item, TAKE_A_PART)


def _check_grouped(e: Expressions, value: Expression, keys: tuple[Expression, ...], at: exp.Expr) -> None:
    """Refuse a column of a row outside keys and aggregates."""
    own = {s.scan.source for s in e.scope.sources}
    stack = [value]
    while stack:
        part = stack.pop()
        if part in keys or isinstance(part, Aggregate):
            continue
        if isinstance(part, ColumnRef) and part.source in own:
            raise e.fail(
                f"column '{part.name}' is neither in GROUP BY nor in an aggregate",
                _column_in(at, part.name),
                f"add it to GROUP BY, or write max({part.name})",
            )
        if isinstance(part, nodes.Subquery):
            stack.extend(ref for ref in columns_inside(part.query) if ref.source in own)
        stack.extend(reversed(nodes.children(part)))


def _items(node: exp.Select, columns: Sequence[object]) -> list[exp.Expr]:
    """For each output column the select-list item it came from (a star stands for several)."""
    if len(node.expressions) == len(columns):
        return list(node.expressions)
    return [node] * len(columns)


def _column_in(node: exp.Expr, name: str) -> exp.Expr:
    return next((c for c in node.find_all(exp.Column) if c.name.lower() == name.lower()), node)
