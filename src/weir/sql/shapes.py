"""Shapes: a query's text with its constants taken out. A million queries of one shape are one text and columns.

`shape_of` brings a query into canonical form (sql/canonical.py) and replaces every constant, literal or user's
parameter, in the select list, the windows and the conditions, by `:c0`, `:c1`, … in the order of the text. A
constant of a grouping key is one slot wherever the key is repeated, or the text would no longer be a legal
grouped query. A constant that decides a type (round's digits) or what is refused (a pattern) stays in the text, as
does the time of the answer. A literal inside an equality that connects two sources (`r.a + 1 = s.b`) stays where it
is: it says which rows meet, and queries of one shape share that.

Invariants: queries that differ only in such constants or in the order of commutative parts have equal `text` (their
slots' types may differ, and with them the types of results: key anything shared by `(text, types)`); slot i has the
same role in all of them; lowering `text` with `types` gives `query` again. Cost: that of the canonical form.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from weir.algebra import nodes
from weir.algebra.format import sql_text
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Expression, Literal, Node, Param, Query, children
from weir.algebra.rebuild import rebuild, scans
from weir.algebra.schema import DataType
from weir.sql.canonical import canonical


@dataclass(frozen=True, slots=True)
class Shape:
    """What queries have in common when they differ only in constants."""

    text: str  # canonical SQL; its constants are :c0, :c1, …
    slots: tuple[Literal | Param, ...]  # the constants that were taken out: slot i stands for :ci
    query: Query  # with Param("ci", type) in place of constants

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(s.type for s in self.slots)

    @property
    def param_types(self) -> dict[str, DataType]:
        """For `lower(parse(text), catalog, param_types)`."""
        return {f"c{i}": s.type for i, s in enumerate(self.slots)}


def shape_of(query: Query) -> Shape:
    """The shape of a query and the constants that make it this one."""
    settled = canonical(query)
    taking = _Taking()
    root = taking.node(settled.root)
    shaped = Query(root, scans(root), settled.output, "")
    text = sql_text(shaped)
    return Shape(text, tuple(taking.slots), replace(shaped, text=text))


class _Taking:
    """Takes constants out in the order in which the text shows them: columns, sources, WHERE, keys, HAVING."""

    def __init__(self) -> None:
        self.slots: list[Literal | Param] = []
        self.keys: dict[Expression, Expression] = {}  # grouping keys of the SELECT at hand, as they were replaced

    def constant(self, constant: Literal | Param) -> Param:
        self.slots.append(constant)
        return Param(f"c{len(self.slots) - 1}", constant.type)

    def expression(self, e: Expression) -> Expression:
        if self.keys and e in self.keys:
            return self.keys[e]
        if e == nodes.NOW:
            return e
        if isinstance(e, (Literal, Param)):
            return self.constant(e)
        if isinstance(e, nodes.Subquery):
            e = replace(e, query=self._inside(e.query))
        if isinstance(e, nodes.Call):
            return self._call(e)
        parts = children(e)
        return nodes.with_children(e, tuple([self.expression(c) for c in parts])) if parts else e

    def _call(self, e: nodes.Call) -> Expression:
        """Constants that decide a type, or what is refused, stay where they are."""
        takes = SIGNATURES[e.function].takes.of(len(e.args))
        assert takes is not None, f"{e.function} of {len(e.args)}"
        taken = [arg if t.fixed else self.expression(arg) for t, arg in zip(takes, e.args, strict=True)]
        return replace(e, args=tuple(taken))

    def _inside(self, query: Node) -> Node:
        """A query inside an expression: its grouping keys are its own."""
        with self._own_keys():
            return self.node(query)

    @contextmanager
    def _own_keys(self) -> Iterator[None]:
        """Meanwhile no grouping key is known; then those that were known are again."""
        known, self.keys = self.keys, {}
        yield
        self.keys = known

    def node(self, node: Node) -> Node:
        if isinstance(node, nodes.Ordered):
            child = self.node(node.child)
            limit, offset = (None if c is None else self.constant(c) for c in (node.limit, node.offset))
            return replace(node, child=child, limit=limit, offset=offset)
        if isinstance(node, nodes.SetOperation):
            left = self.node(node.left)
            return replace(node, left=left, right=self.node(node.right))
        if isinstance(node, nodes.Distinct):
            return replace(node, child=self.node(node.child))
        if isinstance(node, nodes.GroupBy):
            return self._group_by(node)
        assert isinstance(node, nodes.Project), "a SELECT is a Project or a GroupBy"
        columns = tuple((name, self.expression(e)) for name, e in node.columns)
        return nodes.Project(self._sources(node.child), columns)

    def _group_by(self, node: nodes.GroupBy) -> Node:
        # Keys get their slots where the select list shows them first; a key that is not shown there, below.
        columns: list[tuple[str, Expression]] = []
        self.keys = {}
        shown = _KeyPlaces(node.keys)
        for name, e in node.columns:
            for key in shown.inside(e):
                if key not in self.keys:
                    self.keys[key] = self._fresh(key)
            columns.append((name, self.expression(e)))
        with self._own_keys():
            child = self._sources(node.child)
        for key in node.keys:
            if key not in self.keys:
                self.keys[key] = self._fresh(key)
        keys = tuple(self.keys[k] for k in node.keys)
        having = None if node.having is None else self.expression(node.having)
        self.keys = {}
        return nodes.GroupBy(child, keys, tuple(columns), having)

    def _fresh(self, key: Expression) -> Expression:
        with self._own_keys():
            return self.expression(key)

    def _sources(self, node: Node) -> Node:
        if isinstance(node, nodes.Scan):
            return replace(node, window=self._window(node.window))
        if isinstance(node, nodes.Derived):
            return replace(node, child=self._inside(node.child))
        if isinstance(node, nodes.OneRow):
            return node
        if isinstance(node, nodes.OuterJoin):
            left, right = self._sources(node.left), self._sources(node.right)
            predicate = None if node.predicate is None else self._condition(node.predicate, True)
            return replace(node, left=left, right=right, predicate=predicate)
        if isinstance(node, nodes.Join):
            sources = tuple([self._sources(c) for c in node.children])
            return nodes.Join(sources, None if node.predicate is None else self._condition(node.predicate, True))
        assert isinstance(node, nodes.Select)
        child = self._sources(node.child)
        return nodes.Select(child, self.expression(node.predicate))

    def _condition(self, e: Expression, wanted: bool) -> Expression:
        """A condition of a join that must be true (wanted) or false; its join keys keep their literals."""
        if isinstance(e, nodes.Not):
            return nodes.Not(self._condition(e.arg, not wanted))
        if isinstance(e, (nodes.And, nodes.Or)) and isinstance(e, nodes.And) == wanted:
            return replace(e, args=tuple([self._condition(arg, wanted) for arg in e.args]))
        if isinstance(e, nodes.Comparison) and e.op == ("=" if wanted else "<>") and _connects(e):
            return rebuild(
                e, lambda part: self.constant(part) if isinstance(part, Param) and part != nodes.NOW else part
            )
        return self.expression(e)

    def _window(self, window: nodes.Window) -> nodes.Window:
        begin = (
            None if window.begin is None else nodes.Bound(window.begin.relative, self.constant(window.begin.offset_us))
        )
        end = None if window.end is None else nodes.Bound(window.end.relative, self.constant(window.end.offset_us))
        rows = None if window.rows is None else self.constant(window.rows)
        return nodes.Window(begin, end, rows)


def _connects(e: nodes.Comparison) -> bool:
    """Whether each side is over one source, and not over the same one."""
    left, right = ({p.source for p in nodes.walk(side) if isinstance(p, nodes.ColumnRef)} for side in (e.left, e.right))
    return len(left) == len(right) == 1 and left != right


class _KeyPlaces:
    """Finds grouping keys inside expressions, outermost first, from left to right."""

    def __init__(self, keys: tuple[Expression, ...]) -> None:
        self.keys = keys

    def inside(self, e: Expression) -> list[Expression]:
        if e in self.keys:
            return [e]
        return [k for c in children(e) for k in self.inside(c)]
