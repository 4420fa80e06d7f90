"""Scalar expressions: sqlglot's nodes → typed algebra.

`Expressions` holds what the expressions of one query share (the text, its parameters, what names mean in the SELECT at
hand) and lowers a node by a table: for each accepted class of nodes it has one function, every other class is refused
by name with its position. The table is put together in `sql/language`, of the tables of the files that hold these
functions, so that all imports point here and functions call one another through `Expressions.lower` alone.

A parameter without a given type takes the type of what it meets (`wanted` hands down the other side's type), an
operation on constants is carried out. Everything but chains of AND and OR may nest `depth_max` levels.
Cost: linear in the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from weir.algebra.fold import fold_one
from weir.algebra.nodes import Expression, Node, Param
from weir.algebra.schema import BOOLEAN, DOUBLE, STRING, Column, DataType, Kind
from weir.errors import RegisterError, did_you_mean
from weir.sql import types
from weir.sql.long_lists import Lists
from weir.sql.position import refuse, start_of
from weir.sql.refusals import REFUSED_CLAUSES, REFUSED_NODES, refused
from weir.sql.scope import NameFaultError, Scope
from weir.sql.stretches import Stretch
from weir.sql.types import MismatchError

Method = Callable[["Expressions", exp.Expr, DataType | None], Expression]  # of a node, and the type wanted of it
Methods = dict[type[exp.Expr], Method]


class Language(NamedTuple):
    """What an expression may be made of."""

    methods: Methods
    functions: Sequence[str]  # their names, in order


class _Names(NamedTuple):
    """What names mean in a SELECT."""

    scope: Scope
    aliases: Mapping[str, Expression]
    windows: Mapping[str, exp.Window]
    stretch: Stretch | None


class Expressions:
    """Lowers the expressions of one query; `scope` is that of the SELECT at hand."""

    def __init__(
        self,
        language: Language,
        text: str,
        params: Mapping[str, int],
        param_types: Mapping[str, DataType],
        depth_max: int,
        lists: Lists,
    ) -> None:
        self.language = language
        self.text = text
        self.lists = lists
        self.params = params
        self.param_types = param_types
        self.depth_max = depth_max
        self.scope = Scope()
        self.aliases: Mapping[str, Expression] = {}  # names of the select list, where they may be used
        self.aliases_first = False  # whether they come before columns, as in ORDER BY
        self.windows: Mapping[str, exp.Window] = {}  # what the WINDOW clause names
        self.stretch: Stretch | None = None  # what window(…) means
        self.subquery: Callable[[exp.Expr], tuple[Node, tuple[Column, ...]]] = self._no_query
        self.depth = 0

    def enter(self, scope: Scope, select: exp.Select) -> _Names:
        """Go on with the expressions of another SELECT; what is returned is for `leave`."""
        kept = _Names(self.scope, self.aliases, self.windows, self.stretch)
        self.scope, self.aliases, self.stretch = scope, {}, None
        self.windows = {w.name.lower(): w for w in select.args.get("windows") or ()}
        return kept

    def leave(self, kept: _Names) -> None:
        """Back to the SELECT around."""
        self.scope, self.aliases, self.windows, self.stretch = kept

    def _no_query(self, node: exp.Expr) -> tuple[Node, tuple[Column, ...]]:
        raise self.fail("a subquery cannot stand here", node)

    # What a node is lowered to.

    def lower(self, node: exp.Expr, wanted: DataType | None = None) -> Expression:
        """The algebra of a node; a parameter in it without a type takes `wanted`."""
        node = bare(node)
        method = self.language.methods.get(type(node))
        if method is None:
            raise self.refused(node)
        self.depth += 1
        if self.depth > self.depth_max:
            raise self.too_deep(node)
        try:
            return fold_one(method(self, node, wanted))
        except MismatchError as e:
            raise self.fail(str(e), node, e.hint) from None
        except NameFaultError as e:
            raise self.fail(str(e), node, e.hint) from None
        finally:
            self.depth -= 1

    def condition(self, node: exp.Expr, clause: str) -> Expression:
        """A whole condition of WHERE, ON or HAVING: it must be boolean."""
        return self.truth(self.lower(node, BOOLEAN), node, clause)

    def truth(self, e: Expression, node: exp.Expr, clause: str) -> Expression:
        """What `clause` takes as a condition."""
        if types.is_open(e):
            return types.with_type(e, BOOLEAN)
        if e.type.kind is not Kind.BOOLEAN:
            raise self.fail(f"{clause} takes a condition, got {types.described(e)}", node, "compare it with something")
        return e

    def value(self, node: exp.Expr, null: DataType = STRING) -> Expression:
        """A whole expression whose type must be known; NULL alone is one of type `null`."""
        e = self.lower(node, None)
        if types.is_open(e):
            if isinstance(e, Param):
                raise self.untyped(e.name)
            return types.with_type(e, null)
        return e

    def typed(self, node: exp.Expr | Expression, untyped: DataType) -> Expression:
        """The algebra of a node; a parameter or NULL alone is of the type `untyped`."""
        e = self.lower(node, untyped) if isinstance(node, exp.Expr) else node
        return types.with_type(e, untyped) if types.is_open(e) else e

    def closed(self, e: Expression, type_: DataType | None) -> Expression:
        """A parameter or NULL without a type, of `type_`; where nothing says one, NULL is a double."""
        if type_ is None:
            if isinstance(e, Param):
                raise self.untyped(e.name)
            type_ = DOUBLE
        return types.with_type(e, type_)

    # Errors.

    def fail(self, message: str, node: exp.Expr | None, hint: str = "") -> RegisterError:
        return refuse(self.text, message, 0 if node is None else self.start(node) or 0, hint)

    def start(self, node: exp.Expr) -> int | None:
        """Where a node stands in the text, as far as its parts or what is around it carry positions."""
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            node = node.this
        start = start_of(node)
        if start is None:
            name = next((p.name for p in node.find_all(exp.Placeholder)), None)
            start = self.params.get(name) if name else None
        while start is None and node.parent is not None:
            node = node.parent
            start = start_of(node)
        return start

    def word(self, node: exp.Expr) -> str:
        """A function's name as the text has it."""
        if isinstance(node, exp.Anonymous):
            return node.name.lower()
        start, end = node.meta.get("start"), node.meta.get("end")
        if start is not None and end is not None:
            return self.text[start : end + 1].strip("`").lower()
        return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()

    def refused(self, node: exp.Expr) -> RegisterError:
        """The error for a node that is not part of the language."""
        kind = type(node).__name__
        if kind in REFUSED_NODES:
            name, hint = REFUSED_NODES[kind]
            return self.fail(f"{name} is not part of the language", node, hint)
        if isinstance(node, exp.Func):
            name = self.word(node)
            hint = did_you_mean(name, self.language.functions) or "docs/language.md lists the functions"
            return self.fail(f"there is no function '{name.lower()}'", node, hint)
        what, hint = refused(kind, self.text, self.start(node))
        return self.fail(f"{what} is not part of the language", node, hint)

    def only(self, node: exp.Expr, allowed: frozenset[str] | set[str]) -> None:
        """Refuse every clause of a node that is not on the list."""
        for name, value in node.args.items():
            if value is None or value is False or value == [] or name in allowed:
                continue
            what, hint = REFUSED_CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), "see docs/language.md"))
            at = value if isinstance(value, exp.Expr) else value[0] if isinstance(value, list) else node
            raise self.fail(f"{what} is not part of the language", at if isinstance(at, exp.Expr) else node, hint)

    def too_deep(self, node: exp.Expr) -> RegisterError:
        return self.fail(
            f"an expression nests more than {self.depth_max} levels deep",
            node,
            "split it, or raise the setting sql_depth_max",
        )

    def untyped(self, name: str) -> RegisterError:
        return refuse(
            self.text,
            f"the type of parameter ':{name}' cannot be inferred",
            self.params.get(name),
            f"compare it with a column, or write CAST(:{name} AS double)",
        )


def bare(node: exp.Expr) -> exp.Expr:
    """A node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
