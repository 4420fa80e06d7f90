"""The streams and tables that a query reads, their windows, and the numbers of all its sources.

Source occurrences are numbered over the whole query, and columns refer to those numbers, so aliases are gone after
this. A window stands at the source, or else is that of the whole query; tables have none.
"""

from __future__ import annotations

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Scan
from weir.algebra.schema import BIGINT, INTERVAL, TIMESTAMP, Catalog, Table
from weir.errors import did_you_mean
from weir.sql.expressions import Expressions
from weir.sql.parse import Parsed
from weir.sql.position import refuse
from weir.sql.scope import Source
from weir.sql.windows import Edge, WindowClause

SCANS_MAX = 1_000  # of one query, with its names of WITH and views written out


class Sources:
    """The sources of one text, numbered on from `numbered`."""

    def __init__(self, expressions: Expressions, parsed: Parsed, catalog: Catalog, numbered: int) -> None:
        self.fail = expressions.fail
        self.parsed = parsed
        self.catalog = catalog
        self.numbered = numbered

    def number(self) -> int:
        """A new source's number.

        A name that is used twice is written out twice, so a short text of names over names may be a giant.
        """
        self.numbered += 1
        if self.numbered > SCANS_MAX:
            raise self.fail(
                f"the query reads more than {SCANS_MAX:,} sources, its names of WITH and views written out",
                self.parsed.ast,
                "use fewer names twice, or split the query",
            )
        return self.numbered - 1

    def relation(self, node: exp.Table) -> Source | None:
        """The stream or table that a name in FROM means; None: it is a view."""
        relation = self.catalog.relation(node.name)
        own = self.parsed.window_of(node)
        if relation is None and node.name.lower() in self.catalog.views:
            if own is not None:
                raise refuse(self.parsed.text, f"'{node.name}' is a view and has no window", own.start, "leave it out")
            return None
        if relation is None:
            catalog = self.catalog
            known = [r.name for of in (catalog.streams, catalog.tables, catalog.views) for r in of.values()]
            shown = ", ".join(known[:40]) or "none are defined yet"
            raise self.fail(
                f"there is no stream or table '{node.name}' ({shown})", node, did_you_mean(node.name, known)
            )
        is_table = isinstance(relation, Table)
        if is_table and own is not None:
            raise refuse(self.parsed.text, f"'{relation.name}' is a table and has no window", own.start, "leave it out")
        alias, window = node.alias or relation.name, _window(None if is_table else own or self.parsed.window)
        if isinstance(relation, Table):
            scan = Scan(self.number(), relation.name, True, alias, window, is_retroactive=relation.retroactive)
        else:
            scan = Scan(self.number(), relation.name, False, alias, window, relation.time)
        return Source(scan, relation)


def _window(clause: WindowClause | None) -> nodes.Window:
    if clause is None:
        return nodes.Window()
    if clause.rows_param is not None:
        return nodes.Window(rows=nodes.Param(clause.rows_param, BIGINT))
    if clause.rows is not None:
        return nodes.Window(rows=nodes.Literal(clause.rows, BIGINT))
    return nodes.Window(_bound(clause.begin), _bound(clause.end))


def _bound(edge: Edge | None) -> nodes.Bound | None:
    if edge is None:
        return None
    type_ = INTERVAL if edge.relative else TIMESTAMP
    if edge.param is not None:
        return nodes.Bound(edge.relative, nodes.Param(edge.param, type_, edge.unit_us))
    return nodes.Bound(edge.relative, nodes.Literal(edge.offset_us, type_))
