"""FROM → algebra: sources, joins of every kind, and what ON and USING say.

Inner joins of plain sources become one `Join`, whatever their order in the text; an outer join keeps its place in the
tree, because what it leaves without a partner depends on it. A query in FROM, a name of WITH and a view are `Derived`:
their texts are lowered where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.array_functions import GENERATORS
from weir.algebra.nodes import Aggregate, Derived, Expression, Node, WindowCall, nearest_of, walk
from weir.algebra.rebuild import subqueries
from weir.algebra.schema import Column
from weir.sql import types
from weir.sql.expressions import Expressions
from weir.sql.scope import Answer, NameFaultError, Scope, Source

_KINDS = {
    "": "inner",
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "FULL": "full",
    "FULL OUTER": "full",
    "LEFT SEMI": "semi",
    "SEMI": "semi",
    "LEFT ANTI": "anti",
    "ANTI": "anti",
    "ASOF": "asof",
    "ASOF INNER": "asof",
    "ASOF LEFT": "asof left",
    "ASOF LEFT OUTER": "asof left",
    "NATURAL": "inner",
    "NATURAL INNER": "inner",
    "NATURAL LEFT": "left",
    "NATURAL LEFT OUTER": "left",
    "NATURAL RIGHT": "right",
    "NATURAL RIGHT OUTER": "right",
    "NATURAL FULL": "full",
    "NATURAL FULL OUTER": "full",
}
_TOGETHER = frozenset({"inner"})
NEAREST = frozenset({"asof", "asof left"})


class Surroundings(Protocol):
    """What a SELECT, and its FROM, asks of the lowering of the whole query."""

    expressions: Expressions

    def relation(self, node: exp.Table) -> Source | None:
        """The stream or table that a name in FROM means; None: it is a name of WITH, or a view."""

    def answer(self, node: exp.Expr, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        """A query in FROM, or the one that a name of WITH or of a view means."""

    def number(self) -> int:
        """A new source's number."""


@dataclass
class _Joined:
    """What stands left of the next join: inputs of one inner join, and its conditions so far."""

    inputs: list[Node] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)

    @property
    def node(self) -> Node:
        predicate = nodes.conjunction(self.conditions) if self.conditions else None
        if len(self.inputs) > 1:
            return nodes.Join(tuple(self.inputs), predicate)
        return self.inputs[0] if predicate is None else nodes.Select(self.inputs[0], predicate)


class FromClause:
    """Lowers the FROM of one SELECT into its scope."""

    def __init__(self, around: Surroundings, scope: Scope) -> None:
        self.around = around
        self.scope = scope
        self.lefts: list[Scope] = []  # the left sides of joins whose right sides are being read, outermost first
        self.expressions = around.expressions
        self.fail = around.expressions.fail

    def lower(self, node: exp.Select) -> tuple[tuple[Node, ...], list[Expression]]:
        """The inputs of the query, which are joined by the conditions and by WHERE."""
        from_ = node.args["from_"]
        joins: list[exp.Join] = [*(from_.this.args.get("joins") or []), *(node.args.get("joins") or [])]
        joined = _Joined([self._source(from_.this)])
        for join in joins:
            self._join(joined, join)
        for view in node.args.get("laterals") or []:
            joined.inputs.append(self._view(view))
        return tuple(joined.inputs), joined.conditions

    def _join(self, joined: _Joined, join: exp.Join) -> None:
        words = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).split()
        kind = _KINDS.get(" ".join(words).upper())
        if kind is None:
            raise self.fail(
                f"{' '.join(words).upper()} JOIN is not part of the language",
                join.this,
                "joins are INNER, LEFT, RIGHT, FULL, SEMI, ANTI, CROSS, and NATURAL ones",
            )
        self.expressions.only(join, {"this", "on", "using", "kind", "method", "side", "match_condition"})
        left = self.scope.take()
        self.lefts.append(left)
        node = self._source(join.this)
        self.lefts.pop()
        right = self.scope.take()
        self.scope.join(left, right)
        conditions = self._conditions(
            join, kind, natural="NATURAL" in (w.upper() for w in words), left=left, right=right
        )
        if kind in _TOGETHER:
            inputs, inside = _taken_apart(node)
            joined.inputs += inputs
            joined.conditions += [*inside, *conditions]
            return
        if not conditions and kind in ("semi", "anti") and join.args.get("on") is None:
            raise self.fail(f"a {kind.upper()} JOIN needs a condition", join.this, "add ON")
        if kind in NEAREST:
            self._check_nearest(conditions, {s.scan.source for s in left.sources}, join)
        if kind in ("semi", "anti"):
            self.scope.hide(right)
        if isinstance(node, Derived) and node.lateral and kind != "left":
            raise self.fail("LATERAL stands in an inner or a LEFT join", join.this)
        predicate = nodes.conjunction(conditions) if conditions else None
        outer = nodes.OuterJoin(kind, joined.node, node, predicate)
        joined.inputs, joined.conditions = [outer], []

    def _conditions(self, join: exp.Join, kind: str, *, natural: bool, left: Scope, right: Scope) -> list[Expression]:
        on, using = join.args.get("on"), list(join.args.get("using") or [])
        if natural:
            theirs = {r.name.lower() for r in right.shown}
            shared = dict.fromkeys(r.name.lower() for r in left.shown if r.name.lower() in theirs)
            using = [exp.to_identifier(name) for name in shared]
        found: list[Expression] = []
        if on is not None and not (isinstance(on, exp.Boolean) and on.this is True and not on.meta):
            condition = self.expressions.condition(on, "ON")
            refuse_aggregates(self.expressions, condition, on, "ON")
            if kind != "inner" and next(subqueries(condition), None) is not None:
                raise self.fail("a subquery in ON of an outer join is not part of the language", on, "use WHERE")
            found.append(condition)
        found.extend(self._using(name, kind, join, left, right) for name in using)
        if using:
            self.scope.merge([name.name for name in using], left, right, kind)
        match = join.args.get("match_condition")
        if match is not None:
            found.append(self.expressions.condition(match, "MATCH_CONDITION"))
        return found

    def _check_nearest(self, conditions: list[Expression], before: set[int], join: exp.Join) -> None:
        """An ASOF join has one comparison that says what is near; all else must be equalities or about one side."""
        if nearest_of(nodes.conjunction(conditions) if conditions else None, before) is None:
            raise self.fail(
                "an ASOF JOIN needs one comparison of both sides that says what is near",
                join.this,
                "write ON a.key = b.key AND a.ts >= b.ts",
            )

    def _using(self, name: exp.Identifier, kind: str, join: exp.Join, left: Scope, right: Scope) -> Expression:
        column = name.name
        at = name if name.meta.get("start") is not None else join.this
        try:
            ours, theirs = left.resolve(column), right.resolve(column)
            a, b = types.align(ours, theirs)
        except (NameFaultError, types.MismatchError) as e:
            raise self.fail(f"USING ({column}): {e}", at, e.hint) from None
        if kind == "full" and ours.type != theirs.type:
            raise self.fail(
                f"USING ({column}) of a FULL JOIN merges {ours.type} and {theirs.type}", at, "write ON, and coalesce()"
            )
        return nodes.Comparison("=", a, b)

    # Sources.

    def _source(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Subquery) and _holds_sources(node):
            return self._nested(node)
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            return self._derived(node, node.args.get("alias"), node)
        if isinstance(node, exp.Lateral):
            return self._lateral(node)
        if isinstance(node, exp.Values):
            return self._derived(node, node.args.get("alias"), node)
        if not isinstance(node, exp.Table):
            raise self.fail(
                "this cannot stand in FROM",
                node,
                "name streams, tables and views, or write a query in parentheses",
            )
        self.expressions.only(node, {"this", "alias", "joins", "pivots"})
        if node.args.get("pivots"):
            raise self.fail("PIVOT is not part of the language", node, "use GROUP BY with FILTER")
        if not isinstance(node.this, exp.Identifier):
            raise self.fail("a function in FROM is not part of the language", node, "name streams and tables only")
        source = self.around.relation(node)
        if source is None:
            return self._derived(node, node.args.get("alias"), node)
        alias = node.args.get("alias")
        if alias is not None:
            self.expressions.only(alias, {"this", "columns"})
            if alias.args.get("columns"):
                raise self.fail(
                    "names for the columns of a stream are not part of the language",
                    alias.args["columns"][0],
                    "name them in a query in FROM",
                )
        self._add(source, node)
        assert isinstance(source.scan, nodes.Scan)
        return source.scan

    def _add(self, source: Source, node: exp.Expr) -> None:
        name = source.scan.alias
        if any(s.scan.alias.lower() == name.lower() for side in (*self.lefts, self.scope) for s in side.visible):
            raise self.fail(f"two sources are called '{name}'", node, f"give one an alias: {source.name} AS other")
        self.scope.add(source)

    def _view(self, node: exp.Lateral) -> Node:
        """LATERAL VIEW explode(x) t AS y is LATERAL (SELECT explode(x) AS y) t."""
        self.expressions.only(node, {"this", "alias", "view", "outer"})
        call, alias = node.this, node.args.get("alias")
        names = list(alias.args.get("columns") or []) if alias is not None else []
        if not isinstance(call, exp.Anonymous) or call.name.lower() not in GENERATORS or len(names) > 1:
            raise self.fail("LATERAL VIEW takes explode() of one array", node, "write LATERAL VIEW explode(x) t AS y")
        if node.args.get("outer"):
            call = exp.Anonymous(this="explode_outer", expressions=call.expressions)
        name = names[0].name if names else "col"
        select = exp.Select(expressions=[exp.Alias(this=call, alias=exp.to_identifier(name, quoted=True))])
        own = exp.TableAlias(this=alias.this) if alias is not None and alias.this is not None else None
        return self._derived(exp.Subquery(this=select), own, node, self.scope)

    def _lateral(self, node: exp.Lateral) -> Node:
        """A query that may look at the sources before it."""
        self.expressions.only(node, {"this", "alias"})
        if not isinstance(node.this, exp.Subquery):
            raise self.fail("LATERAL takes a query in parentheses", node, "write LATERAL (SELECT …)")
        beside = replace(self.lefts[-1], outer=self.scope.outer) if self.lefts else self.scope
        return self._derived(node.this, node.args.get("alias"), node, beside)

    def _derived(self, node: exp.Expr, alias: exp.Expr | None, at: exp.Expr, beside: Scope | None = None) -> Node:
        """A query in FROM; one that is lateral has the sources `beside` it around."""
        if isinstance(node, exp.Table):
            self.expressions.only(node, {"this", "alias", "joins"})
        child, columns = self.around.answer(node, beside or self.scope.outer)
        names: list[exp.Identifier] = []
        if alias is not None:
            self.expressions.only(alias, {"this", "columns"})
            names = alias.args.get("columns") or []
        if names:
            columns = self._renamed(columns, names, at)
        number = self.around.number()
        name = alias.name if alias is not None and alias.name else node.name if isinstance(node, exp.Table) else ""
        name = name or f"_q{number}"
        derived = Derived(number, child, name, columns, beside is not None)
        self._add(Source(derived, Answer(name, columns)), at)
        return derived

    def _renamed(self, columns: tuple[Column, ...], names: list[exp.Identifier], at: exp.Expr) -> tuple[Column, ...]:
        if len(names) != len(columns):
            raise self.fail(f"{len(names)} names for {len(columns)} columns", at, "give every column a name")
        if len({n.name.lower() for n in names}) < len(names):
            raise self.fail("two columns have the same name", at, "rename one")
        return tuple(Column(n.name, c.type) for n, c in zip(names, columns, strict=True))

    def _nested(self, node: exp.Subquery) -> Node:
        """(a JOIN b ON …), whose sources are seen from outside."""
        self.expressions.only(node, {"this", "joins"})
        first = node.this
        joined = _Joined([self._source(first)])
        for join in first.args.get("joins") or []:
            self._join(joined, join)
        return joined.node


def refuse_aggregates(expressions: Expressions, e: Expression, at: exp.Expr, clause: str) -> None:
    """No aggregate and no window function may stand in a condition over rows."""
    for part in walk(e):
        if isinstance(part, (Aggregate, WindowCall)):
            hint = "use HAVING for conditions on groups"
            if isinstance(part, WindowCall):
                hint = "put the query into FROM, and the condition around it"
            name = part.function
            node = next((f for f in at.find_all(exp.Anonymous) if f.name.lower() == name), at)
            raise expressions.fail(f"{name}() cannot be used in {clause}", node, hint)


def _holds_sources(node: exp.Subquery) -> bool:
    """Whether parentheses in FROM are around sources, and not around a query."""
    inside = node.this
    if not isinstance(inside, exp.Subquery):
        return isinstance(inside, exp.Table)
    return bool(inside.args.get("joins") or inside.args.get("alias")) or _holds_sources(inside)


def _taken_apart(node: Node) -> tuple[tuple[Node, ...], tuple[Expression, ...]]:
    """The inputs and the conditions of an inner join in parentheses."""
    if isinstance(node, nodes.Join):
        return node.children, () if node.predicate is None else (node.predicate,)
    if isinstance(node, nodes.Select):
        return (node.child,), (node.predicate,)
    return (node,), ()
