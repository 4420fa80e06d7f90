"""Syntax tree and schemas → algebra: `lower`.

Statements, names of WITH and views stand for one another, and here is what calls what. `sql/selects` lowers a SELECT
and asks back for the queries in its FROM; `sql/set_operations` puts two answers together; expressions are lowered by
the tables of `sql/language` and ask back for their subqueries. A name of WITH and a view are lowered anew wherever they
are used. With these files this is the only place that says "not part of the language".

Invariant: a `Query` that comes back type-checks; every node knows its type. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from weir.algebra.nodes import Node, Query
from weir.algebra.rebuild import scans
from weir.algebra.schema import Catalog, Column, DataType
from weir.settings import Settings
from weir.sql.depth import node_below
from weir.sql.expressions import Expressions
from weir.sql.language import LANGUAGE
from weir.sql.order_clause import ordered
from weir.sql.parse import Parsed, parse
from weir.sql.scope import Scope, Source
from weir.sql.selects import lower_select
from weir.sql.set_operations import combined
from weir.sql.sources import Sources
from weir.sql.values_clause import values
from weir.sql.with_clause import Named, names_of

NAMES_DEEP_MAX = 64  # how many names of WITH and views may stand for one another
_FRAME_LEVELS = 20  # more than there are between a statement and its expressions, and inside a column
_ENDING = frozenset({"order", "limit", "offset", "with_"})  # parts that any statement may have
_SELECT_PARTS = _ENDING | {
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "distinct",
    "windows",
    "laterals",
}


def lower(parsed: Parsed, catalog: Catalog, param_types: Mapping[str, DataType] | None = None) -> Query:
    """The typed query; everything that does not fit the schemas or the language is a RegisterError."""
    return _Lowering(parsed, catalog, param_types or {}).query()


class _Lowering:
    """The statements of one text; those of a view are another one's, whose sources are numbered on from `numbered`."""

    def __init__(
        self,
        parsed: Parsed,
        catalog: Catalog,
        param_types: Mapping[str, DataType],
        numbered: int = 0,
        deep: int = 0,
    ) -> None:
        self.parsed = parsed
        self.catalog = catalog
        self.deep = deep  # names of WITH and views that are being written out
        self.named: Mapping[str, Named] = {}
        starts = dict(zip(parsed.params, parsed.param_starts, strict=True))
        self.expressions = Expressions(LANGUAGE, parsed.text, starts, param_types, parsed.depth_max, parsed.lists)
        self.expressions.subquery = self._subquery
        self.sources = Sources(self.expressions, parsed, catalog, numbered)
        self.number = self.sources.number
        self.fail = self.expressions.fail

    def query(self) -> Query:
        self._check_depth()
        root, output = self.statement(self.parsed.ast, 0, None)
        sources = scans(root)
        if not sources:
            raise self.fail("a standing query reads at least one stream", self.parsed.ast, "add FROM")
        return Query(root, sources, output, self.parsed.text)

    def _check_depth(self) -> None:
        """Long chains of one operator are deep trees; they are measured with a loop before anything descends."""
        if self.parsed.words + _FRAME_LEVELS <= self.parsed.depth_max:
            return  # every level but a few around the whole and in each name has a word of its own
        node = node_below(self.parsed.ast, self.parsed.depth_max)
        if node is not None:
            raise self.expressions.too_deep(next((n for n in node.walk() if n.meta.get("start") is not None), node))

    def statement(self, node: exp.Expr, level: int, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        """The answer of a query, and its columns."""
        around: list[exp.Expr] = []
        while isinstance(node, (exp.Subquery, exp.Paren)):
            self.expressions.only(node, {"this"} | _ENDING)
            around.append(node)
            node = node.this
        if level > self.parsed.depth_max:
            raise self.fail(
                f"set operations nest more than {self.parsed.depth_max} levels deep", node, "split the query"
            )
        before = self.named
        for clause in around:
            self.named = names_of(self.expressions, clause, self.named, outer)
        known = self.named
        if isinstance(node, exp.Select):
            self.expressions.only(node, _SELECT_PARTS)
            self.named = names_of(self.expressions, node, known, outer)
            root, output = lower_select(self, node, outer)
        elif isinstance(node, exp.SetOperation):
            self.expressions.only(node, {"this", "expression", "distinct"} | _ENDING)
            self.named = names_of(self.expressions, node, known, outer)
            root, output = self._set_operation(node, level, outer)
        else:
            raise self.fail(
                "this is no query",
                node,
                "a standing query is one SELECT, or several joined by UNION, EXCEPT or INTERSECT",
            )
        self.named = known
        for clause in reversed(around):
            root = ordered(self.expressions, clause, root, output)
        self.named = before
        return root, output

    def _set_operation(
        self, node: exp.SetOperation, level: int, outer: Scope | None
    ) -> tuple[Node, tuple[Column, ...]]:
        left = self.statement(node.this, level + 1, outer)
        right = self.statement(node.expression, level + 1, outer)
        root, output = combined(self.expressions, node, left, right, self.number)
        return ordered(self.expressions, node, root, output), output

    def _subquery(self, node: exp.Expr) -> tuple[Node, tuple[Column, ...]]:
        """A query inside an expression; it may look at the columns of the query at hand."""
        return self.statement(node, 1, self.expressions.scope)

    # What names in FROM mean.

    def relation(self, node: exp.Table) -> Source | None:
        """The stream or table that a name in FROM means; None: it is a name of WITH, or a view."""
        return None if node.name.lower() in self.named else self.sources.relation(node)

    def answer(self, node: exp.Expr, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        """A query in FROM, or the one that a name of WITH or of a view means."""
        if isinstance(node, exp.Values):
            return values(self.expressions, node)
        if not isinstance(node, exp.Table):
            assert isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation))
            inner = node.copy()
            for part in ("alias", "joins"):
                inner.set(part, None)
            return self.statement(inner, 1, outer)
        if self.deep == NAMES_DEEP_MAX:
            raise self.fail(
                f"more than {NAMES_DEEP_MAX} names of WITH and views stand for one another", node, "split the query"
            )
        self.deep += 1
        try:
            return self._named(node)
        finally:
            self.deep -= 1

    def _named(self, node: exp.Table) -> tuple[Node, tuple[Column, ...]]:
        """What a name of WITH, or else a view, stands for."""
        if node.name.lower() not in self.named:
            return self._view(node)
        known = self.named[node.name.lower()]
        before, self.named = self.named, known.names
        root, output = self.statement(known.query, 1, known.outer)
        self.named = before
        if known.columns:
            if len(known.columns) != len(output):
                raise self.fail(f"{len(known.columns)} names for {len(output)} columns", known.columns[0])
            output = tuple(Column(n.name, c.type) for n, c in zip(known.columns, output, strict=True))
        return root, output

    def _view(self, node: exp.Table) -> tuple[Node, tuple[Column, ...]]:
        """The query of a view; a window around it is that of its streams which have none of their own."""
        parsed = parse(self.catalog.views[node.name.lower()].sql, Settings())
        parsed = replace(parsed, window=parsed.window or self.parsed.window)
        inner = _Lowering(parsed, self.catalog, {}, self.sources.numbered, self.deep)
        found = inner.statement(parsed.ast, 0, None)
        self.sources.numbered = inner.sources.numbered
        return found
