"""FROM in the oracle: windows of streams, derived tables, common table expressions, and all kinds of joins of them.

Every occurrence of a stream becomes a common table expression of what its window shows; joins are written out as
DuckDB's, from left to right as they stand, with each condition where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from sqlglot import exp

from weir.algebra.schema import Catalog, DataType, Stream, Table
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.windows import WindowClause
from weir.testing.constants import Scalar
from weir.testing.scalars import compare, known_parts
from weir.testing.scopes import Joined, OracleScope, OracleSource, merged, quoted
from weir.testing.spans import span

ROW = "weir row id"  # no column of a stream can clash with it: it has blanks
_SIDES = {"": "", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}


class OutputColumn(NamedTuple):
    name: str
    type: DataType


class Statement(NamedTuple):
    """DuckDB SQL of a whole query; its columns are c0, c1, …"""

    sql: str
    columns: list[OutputColumn]


Env = Mapping[str, tuple[str, list[OutputColumn]]]  # the WITH around: a name in DuckDB and columns, by lower-case name


@dataclass
class Given:
    """What all parts of a query have in common."""

    parsed: Parsed
    params: Mapping[str, object]
    catalog: Catalog
    tau_us: int
    compute: Callable[[str], object]
    ctes: list[str] = field(default_factory=list)
    relations: dict[str, Stream | Table] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)  # texts by lower-case name
    around: WindowClause | None = None  # of the text that a view stands in, for streams without a window of their own
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def name(self, kind: str) -> str:
        return f"{kind}{next(self.numbers)}"

    def window_of(self, table: exp.Table) -> WindowClause | None:
        return self.parsed.window_of(table) or self.parsed.window or self.around

    def inside(self, view: str, around: WindowClause | None) -> Given:
        """What the parts of a view have in common."""
        return replace(self, parsed=parse(view, Settings()), around=around)


def raw_name(relation: Stream | Table) -> str:
    return f"raw_{relation.name.lower()}"


class Sources:
    """Translates FROM. `statement` translates a query in it, `view` that of a view, `condition` what is behind ON."""

    def __init__(
        self,
        given: Given,
        statement: Callable[[exp.Expr, OracleScope | None, Env], Statement],
        condition: Callable[[exp.Expr, OracleScope, Env], str],
        view: Callable[[Given], Statement],
    ) -> None:
        self.given = given
        self.statement = statement
        self.condition = condition
        self.view = view

    def joined(self, node: exp.Select, outer: OracleScope | None, env: Env) -> Joined:
        from_ = node.args.get("from_")
        if from_ is None:
            return Joined("", (), ())
        return self._fold(self._relation(from_.this, outer, env), node.args.get("joins") or [], outer, env)

    def _fold(self, first: Joined, joins: list[exp.Join], outer: OracleScope | None, env: Env) -> Joined:
        for join in joins:
            first = self._join(first, join, outer, env)
        return first

    def _relation(self, node: exp.Expr, outer: OracleScope | None, env: Env) -> Joined:
        known_parts(node)
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery) and _holds_sources(node):
            assert alias is None, "joins in parentheses have no alias"
            first = self._relation(node.this, outer, env)
        elif isinstance(node, exp.Subquery):
            found = self.statement(node.this, outer, env)
            name = self.given.name("d")
            source = _source(node.alias, name, found.columns, alias)
            first = Joined(f"({found.sql}) AS {name}", (source,), source.columns)
        else:
            assert isinstance(node, exp.Table), f"the oracle does not know {type(node).__name__} in FROM"
            first = self._table(node, alias, env)
        joins = node.args.get("joins") or []
        if not joins:
            return first
        inner = self._fold(first, joins, outer, env)
        return Joined(f"({inner.sql})", inner.sources, inner.shown, inner.behind)

    def _lateral(self, left: Joined, node: exp.Expr, outer: OracleScope | None, env: Env) -> Joined | None:
        """A query that sees the sources to its left; DuckDB has it too."""
        if not isinstance(node, exp.Lateral):
            return None
        known_parts(node)
        found = self.statement(node.this.this, OracleScope(left, outer), env)
        name = self.given.name("d")
        source = _source(node.alias, name, found.columns, node.args.get("alias"))
        return Joined(f"LATERAL ({found.sql}) AS {name}", (source,), source.columns)

    def _table(self, node: exp.Table, alias: exp.TableAlias | None, env: Env) -> Joined:
        defined = env.get(node.name.lower())
        if defined is not None:
            name = self.given.name("d")
            source = _source(node.alias or node.name, name, defined[1], alias)
            return Joined(f"{defined[0]} AS {name}", (source,), source.columns)
        view = self.given.views.get(node.name.lower())
        if view is not None:
            found, name = self.view(self.given.inside(view, self.given.window_of(node))), self.given.name("d")
            source = _source(node.alias or node.name, name, found.columns, alias)
            return Joined(f"({found.sql}) AS {name}", (source,), source.columns)
        relation = self.given.catalog.relation(node.name)
        assert relation is not None, f"there is no stream or table {node.name}"
        self.given.relations[relation.name.lower()] = relation
        cte = self.given.name("w")
        listed = ", ".join(f"{quoted(c.name)} AS c{i}" for i, c in enumerate(relation.columns))
        sql = f"SELECT {listed} FROM {raw_name(relation)}"
        if isinstance(relation, Stream):
            sql += self._window(relation, self.given.window_of(node))
        self.given.ctes.append(f"{cte} AS ({sql})")
        columns = [OutputColumn(c.name, c.type) for c in relation.columns]
        source = _source(node.alias or node.name, cte, columns, alias)
        return Joined(cte, (source,), source.columns)

    def _window(self, stream: Stream, clause: WindowClause | None) -> str:
        shown = span(stream, clause, self.given.params, self.given.tau_us)
        if shown is None:
            return " WHERE FALSE"
        time = f"epoch_us({quoted(stream.time)})"
        lower = "" if shown.begin_us is None else f"{time} > {shown.begin_us} AND "
        last = "" if shown.rows is None else f" ORDER BY {time} DESC, {quoted(ROW)} DESC LIMIT {shown.rows}"
        return f" WHERE {lower}{time} <= {shown.end_us}{last}"

    def _join(self, left: Joined, join: exp.Join, outer: OracleScope | None, env: Env) -> Joined:
        known_parts(join)
        right = self._lateral(left, join.this, outer, env) or self._relation(join.this, outer, env)
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        both = Joined("", (*left.sources, *right.sources), (*left.shown, *right.shown))
        names = [name.name for name in join.args.get("using") or []]
        if join.args.get("method"):
            assert join.args["method"].upper() == "NATURAL", f"a {join.args['method']} join is not known"
            names = [n for n, _ in left.shown if right.has(n)]
        conditions = [compare("=", left.only(n), right.only(n), self.given.compute).sql for n in names]
        if join.args.get("on") is not None:
            conditions.append(self.condition(join.args["on"], OracleScope(both, outer), env))
        if kind in ("SEMI", "ANTI"):
            words, sources = kind, left.sources
            shown, behind = merged(names, side, left, Joined("", (), ()))
        else:
            assert kind in ("", "INNER", "OUTER", "CROSS"), f"a {kind} join is not known"
            words, sources = _SIDES[side], both.sources
            shown, behind = merged(names, side, left, right)
        condition = " AND ".join(conditions) or "TRUE"
        return Joined(f"{left.sql} {words} JOIN {right.sql} ON ({condition})", sources, shown, behind)


def _holds_sources(node: exp.Subquery) -> bool:
    """Whether the parentheses are around sources rather than a query."""
    inside = node.this
    if not isinstance(inside, exp.Subquery):
        return isinstance(inside, exp.Table)
    return bool(inside.args.get("joins") or inside.args.get("alias")) or _holds_sources(inside)


def _source(alias: str, name: str, columns: list[OutputColumn], renamed: exp.TableAlias | None) -> OracleSource:
    others = [c.name for c in (renamed.args.get("columns") or [])] if renamed is not None else []
    names = others or [c.name for c in columns]
    pairs = zip(names, columns, strict=True)
    return OracleSource(alias, tuple((n, Scalar(f"{name}.c{i}", c.type)) for i, (n, c) in enumerate(pairs)))
