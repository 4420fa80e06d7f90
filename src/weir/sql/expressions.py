"""Scalar expressions: sqlglot's nodes → typed algebra.

Each accepted node class has one method here; every other class is refused by name with its position. BETWEEN and
IN are written out as AND and OR of comparisons, an operation on constants is carried out. A parameter without a
given type takes the type of what it meets (`wanted` hands down the other side's type). Chains of AND and OR are
flattened with a loop, so a list of thousands of terms needs no deep stack; everything else may nest `depth_max`
levels. Cost: linear in the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sqlglot import exp

from weir.algebra.aggregates import AGGREGATE_NAMES, WINDOW_NAMES
from weir.algebra.array_functions import BOTH, GENERATORS
from weir.algebra.fold import fold, fold_one
from weir.algebra.functions import NAMED, SIGNATURES
from weir.algebra.nodes import (
    Arithmetic,
    Call,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    Field,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Param,
    conjunction,
    disjunction,
)
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Column,
    DataType,
    Kind,
)
from weir.algebra.signatures import HASHED, LIKE_ELEMENTS, MET, MET_FIRST, OPERAND, TEXT, VALUE, Signature, Taken
from weir.errors import RegisterError, did_you_mean
from weir.sql import literals, payloads, types
from weir.sql.forms import FORMS, SYNTAX
from weir.sql.long_lists import Lists
from weir.sql.position import refuse, start_of
from weir.sql.refusals import REFUSED_NODES, refused
from weir.sql.row_sets import aggregate, grouping_call, in_query, row_set_methods
from weir.sql.scope import NameFaultError, Scope
from weir.sql.sets import SMALL, list_parameter, long_lists
from weir.sql.types import MismatchError
from weir.sql.windows import read_unit

_Operators = dict[type[exp.Expr], str]
_COMPARISONS: _Operators = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: _Operators = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
STRETCHES = ("window", "session_window")  # functions whose value is a pair of times
GROUPING = ("grouping", "grouping_id")  # functions of the keys that a set of GROUP BY leaves out
_FUNCTIONS = tuple(sorted({"cast", "if", *AGGREGATE_NAMES, *WINDOW_NAMES, *NAMED, *FORMS, *STRETCHES, *GROUPING}))
_MONTHS = {"MONTH": 1, "YEAR": 12}
_INT32_MAX = 2**31 - 1

_RANKED_WITH_TEXTS = (exp.Add, exp.Sub, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SHOWN: _Operators = {exp.RegexpLike: "RLIKE", exp.DPipe: "||", exp.Extract: "EXTRACT"}
_TRUE_WORDS, _FALSE_WORDS = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")

_Argument = exp.Expr | Expression | None  # of a call: still to be lowered, lowered, or left out


class Stretch(NamedTuple):
    """What `window(…)` or `session_window(…)` means in a SELECT."""

    word: str
    begin: Expression
    end: Expression

    @property
    def whole(self) -> Expression:
        """The pair of times as a value."""
        args = (Literal("start", STRING), self.begin, Literal("end", STRING), self.end)
        return Call("named_struct", args, SIGNATURES["named_struct"].type_of(args))


class Expressions:
    """Lowers the expressions of one query; `scope` is that of the SELECT at hand."""

    def __init__(
        self,
        text: str,
        params: Mapping[str, int],
        param_types: Mapping[str, DataType],
        depth_max: int,
        lists: Lists,
    ) -> None:
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
        self._methods: dict[type[exp.Expr], Callable[[exp.Expr, DataType | None], Expression]] = {
            exp.Column: self._column,
            exp.Dot: self._dot,
            exp.Bracket: self._bracket,
            exp.Literal: self._literal,
            exp.Boolean: self._boolean,
            exp.Null: self._null,
            exp.Placeholder: self._param,
            exp.Interval: self._interval,
            exp.Neg: self._negate,
            exp.Anonymous: self._function,
            exp.DPipe: self._joined_texts,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Not: self._not,
            exp.And: self._connective,
            exp.Or: self._connective,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Like: self._like,
        }
        self._methods.update(dict.fromkeys(_COMPARISONS, self._comparison))
        self._methods.update(dict.fromkeys(_ARITHMETIC, self._arithmetic))
        self._methods.update(row_set_methods(self))
        self._methods.update({kind: partial(syntax, self) for kind, syntax in SYNTAX.items()})

    # Entry points.

    def enter(self, scope: Scope, select: exp.Select) -> tuple[object, ...]:
        """Go on with the expressions of another SELECT; what is returned is for `leave`."""
        kept = self.scope, self.aliases, self.windows, self.stretch
        self.scope, self.aliases, self.stretch = scope, {}, None
        self.windows = {w.name.lower(): w for w in select.args.get("windows") or ()}
        return kept

    def leave(self, kept: tuple[object, ...]) -> None:
        """Back to the SELECT around."""
        self.scope, self.aliases, self.windows, self.stretch = kept  # type: ignore[assignment]  # as `enter` packed them

    def _no_query(self, node: exp.Expr) -> tuple[Node, tuple[Column, ...]]:
        raise self.fail("a subquery cannot stand here", node)

    def condition(self, node: exp.Expr, clause: str) -> Expression:
        """A whole condition of WHERE, ON or HAVING: it must be boolean."""
        return self._truth(self.lower(node, BOOLEAN), node, clause)

    def value(self, node: exp.Expr, null: DataType = STRING) -> Expression:
        """A whole expression whose type must be known; NULL alone is one of type `null`."""
        e = self.lower(node, None)
        if types.is_open(e):
            if isinstance(e, Param):
                raise self.untyped(e.name)
            return types.with_type(e, null)
        return e

    def lower(self, node: exp.Expr, wanted: DataType | None = None) -> Expression:
        """The algebra of a node; a parameter in it without a type takes `wanted`."""
        while isinstance(node, exp.Paren):
            node = node.this
        method = self._methods.get(type(node))
        if method is None:
            raise self.refused(node)
        self.depth += 1
        if self.depth > self.depth_max:
            raise self.fail(
                f"an expression nests more than {self.depth_max} levels deep",
                node,
                "split it, or raise the setting sql_depth_max",
            )
        try:
            return fold_one(method(node, wanted))
        except MismatchError as e:
            raise self.fail(str(e), node, e.hint) from None
        except NameFaultError as e:
            raise self.fail(str(e), node, e.hint) from None
        finally:
            self.depth -= 1

    def fail(self, message: str, node: exp.Expr | None, hint: str = "") -> RegisterError:
        return refuse(self.text, message, 0 if node is None else self._start(node) or 0, hint)

    def _start(self, node: exp.Expr) -> int | None:
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

    def refused(self, node: exp.Expr) -> RegisterError:
        kind = type(node).__name__
        if kind in REFUSED_NODES:
            name, hint = REFUSED_NODES[kind]
            return self.fail(f"{name} is not part of the language", node, hint)
        if isinstance(node, exp.Func):
            name = self.word(node)
            hint = did_you_mean(name, _FUNCTIONS) or "docs/language.md lists the functions"
            return self.fail(f"there is no function '{name.lower()}'", node, hint)
        what, hint = refused(kind, self.text, self._start(node))
        return self.fail(f"{what} is not part of the language", node, hint)

    def word(self, node: exp.Expr) -> str:
        """A function's name as the text has it."""
        if isinstance(node, exp.Anonymous):
            return node.name.lower()
        start, end = node.meta.get("start"), node.meta.get("end")
        if start is not None and end is not None:
            return self.text[start : end + 1].strip("`").lower()
        return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()

    def typed(self, node: exp.Expr | Expression, untyped: DataType) -> Expression:
        """The algebra of a node; a parameter or NULL alone is of the type `untyped`."""
        e = self.lower(node, untyped) if isinstance(node, exp.Expr) else node
        return types.with_type(e, untyped) if types.is_open(e) else e

    def aligned(self, left_node: exp.Expr, right_node: exp.Expr) -> tuple[Expression, Expression]:
        """Both sides of a comparison; NULL <=> NULL has no type to find."""
        left, right = self.lower(left_node), self.lower(right_node)
        if types.is_open(left) and types.is_open(right):
            return types.with_type(left, BOOLEAN), types.with_type(right, BOOLEAN)
        return types.align(left, right)

    def _truth(self, e: Expression, node: exp.Expr, clause: str) -> Expression:
        if types.is_open(e):
            return types.with_type(e, BOOLEAN)
        if e.type.kind is not Kind.BOOLEAN:
            raise self.fail(f"{clause} takes a condition, got {types.described(e)}", node, "compare it with something")
        return e

    # Names and constants.

    def _column(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self.refused(node.this)
        if node.args.get("join_mark"):
            raise self.fail(f"'{node.name}' has too many qualifiers", node, "write alias.column")
        if node.args.get("db") is not None:
            return self._path([part.name for part in node.parts])
        name, qualifier = node.name, node.table or None
        if self.stretch is not None and (qualifier or name).lower() == self.stretch.word:
            return self._edge_of_window(node, name if qualifier else "")
        named = qualifier is None and name.lower() in self.aliases
        if named and (self.aliases_first or not self.scope.has(name)):
            return self.aliases[name.lower()]
        if qualifier is None or self.scope.is_source_of(qualifier, name) or not self.scope.has(qualifier):
            return self.scope.resolve(name, qualifier)
        return payloads.field(self.scope.resolve(qualifier), name)

    def _path(self, names: Sequence[str]) -> Expression:
        """`alias.column.field.field` or `column.field.field`."""
        is_field = self.scope.has(names[0]) and not self.scope.is_source_of(names[0], names[1])
        found: Expression = self.scope.resolve(names[0]) if is_field else self.scope.resolve(names[1], names[0])
        for name in names[1 if is_field else 2 :]:
            found = payloads.field(found, name)
        return found

    def _dot(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in STRETCHES:
            return self._of_window(node, wanted)
        return payloads.field(self.lower(node.this), node.expression.name)

    def _bracket(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        assert isinstance(node, exp.Bracket)
        return payloads.element(self.lower(node.this), self.lower(payloads.index_of(node)))

    def _edge_of_window(self, node: exp.Expr, edge: str) -> Expression:
        """window.start or window.end."""
        assert self.stretch is not None
        if not edge:
            return self.stretch.whole
        if edge.lower() not in ("start", "end"):
            word = self.stretch.word
            raise self.fail(f"{word} is a pair of times", node, f"write {word}.start and {word}.end")
        return self.stretch.end if edge.lower() == "end" else self.stretch.begin

    def _of_window(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        """window(…).start"""
        call = node.this
        if self.stretch is None or not (isinstance(call, exp.Anonymous) and call.name.lower() == self.stretch.word):
            raise self.refused(node)
        return self._edge_of_window(node, node.expression.name)

    def _literal(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        assert isinstance(node, exp.Literal)
        if node.is_string:
            return Literal(node.this, STRING)
        constant = literals.number(node.this)
        if constant is None:
            raise self.fail(
                f"the number {node.this[:40]} is beyond the range of double", node, "numbers reach ±1.797e308"
            )
        return constant

    def _boolean(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

    def _null(self, _node: exp.Expr, _wanted: DataType | None) -> Expression:
        return Literal(None, NULL)

    def _param(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        name = node.name
        given = self.param_types.get(name)
        if given is not None and given.kind is Kind.LIST:
            raise self.fail(f"parameter ':{name}' is a list", node, f"a list stands behind IN: x IN (:{name})")
        if given is not None:
            return Param(name, given)
        return Param(name, NULL if wanted is None else types.slot_type(wanted))

    def _interval_start(self, node: exp.Interval) -> int | None:
        """Where an interval stands; its number and its unit carry no position."""
        own = start_of(node)
        count = node.this
        if own is None and isinstance(count, exp.Literal):
            found = re.search(rf"\bINTERVAL\b\W*{re.escape(count.name)}", self.text, re.IGNORECASE)
            own = None if found is None else found.start()
        return self._start(node) if own is None else own

    def _interval(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        assert isinstance(node, exp.Interval)
        count, unit_node = node.this, node.args.get("unit")
        while isinstance(count, exp.Paren):
            count = count.this
        start = self._interval_start(node)
        if isinstance(count, exp.Placeholder) and unit_node is not None:
            return Param(count.name, INTERVAL, read_unit(self.text, unit_node.name, start))
        sign = ""
        if isinstance(count, exp.Neg):
            sign, count = "-", count.this
        if not isinstance(count, exp.Literal):
            raise self.fail("an interval takes a constant number", node, "write INTERVAL 5 SECONDS")
        words = count.name.split()
        if unit_node is not None:
            words.append(unit_node.name)
        total = 0
        if not words or len(words) % 2:
            raise self.fail(f"'{count.name[:40]}' is no length of time", node, "write INTERVAL 5 SECONDS")
        for number, word in zip(words[::2], words[1::2], strict=True):
            part = literals.microseconds(sign + number, read_unit(self.text, word, start))
            if part is None:
                raise self.fail(
                    f"'{number[:40]} {word}' is no length of time in whole microseconds within 64 bits",
                    node,
                    "write INTERVAL 5 SECONDS",
                )
            total += part
        return Literal(total, INTERVAL)

    # Arithmetic.

    def _negate(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        if isinstance(node.this, exp.Literal) and node.this.is_number and node.this.this == str(-literals.INT64_MIN):
            return Literal(literals.INT64_MIN, BIGINT)  # its digits alone are beyond the bigints
        return self.negation(node.this, wanted)

    def negation(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        """Minus a number or an interval."""
        e = self._operand(node, wanted)
        if not (e.type.is_numeric or e.type.kind is Kind.INTERVAL):
            raise self.fail(f"'-' takes a number, got {types.described(e)}", node, "leave the sign out")
        if isinstance(e, Literal) and e.value is not None:
            return literals.negate(e)
        return Negate(e, BIGINT if e.type.kind is Kind.INT else e.type)

    def _operand(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        e = self.lower(node, wanted)
        if isinstance(e, Param) and types.is_open(e):
            raise self.untyped(e.name)
        if types.is_open(e):
            return types.with_type(e, wanted or DOUBLE)
        return e

    def _arithmetic(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        return self.calculation(_ARITHMETIC[type(node)], node.this, node.expression, wanted)

    def calculation(self, op: str, left_node: exp.Expr, right_node: exp.Expr, wanted: DataType | None) -> Expression:
        """`left op right`, for the operators and the functions that are called like them."""
        left_node, right_node = _bare(left_node), _bare(right_node)
        moved = self._moved_by_months(op, left_node, right_node)
        if moved is not None:
            return moved
        # A bare parameter takes its type from the operand beside it, one further inside from what is wanted here.
        left = self.lower(left_node, None if isinstance(left_node, exp.Placeholder) else wanted)
        right = self.lower(right_node, None if isinstance(right_node, exp.Placeholder) else wanted)
        if types.is_open(left) and types.is_open(right):
            left = self._close(left, wanted if wanted is not None and wanted.is_numeric else None)
        if types.is_open(left):
            left = self._close(left, _partner(op, right.type, wanted, left=True))
        elif types.is_open(right):
            right = self._close(right, _partner(op, left.type, wanted, left=False))
        if op in "+-" and left.type.kind is Kind.DATE and _counts_days(right):
            return Call("date_add" if op == "+" else "date_sub", (left, right), DATE)
        if op == "+" and right.type.kind is Kind.DATE and _counts_days(left):
            return Call("date_add", (right, left), DATE)
        left, right, type_ = types.arithmetic(op, left, right)
        return Arithmetic(op, left, right, type_)

    def _moved_by_months(self, op: str, left: exp.Expr, right: exp.Expr) -> Expression | None:
        """A date or a timestamp, months or years later or earlier; None if no such interval stands here."""
        if op == "+" and _months(left) is not None:
            left, right = right, left
        months = _months(right) if op in "+-" else None
        if months is None:
            return None
        time = self.lower(left, TIMESTAMP)
        count = Literal(months if op == "+" else -months, BIGINT)
        if time.type.kind is Kind.DATE:
            return self.call(SIGNATURES["add_months"], [time, count], left, DATE)
        if time.type == TIMESTAMP and not types.is_open(time):
            return self.call(SIGNATURES["timestampadd"], [Literal("month", STRING), count, time], left, TIMESTAMP)
        return None

    def _close(self, e: Expression, type_: DataType | None) -> Expression:
        if type_ is None:
            if isinstance(e, Param):
                raise self.untyped(e.name)
            type_ = DOUBLE
        return types.with_type(e, type_)

    def _cast(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        to = node.args["to"]
        assert isinstance(to, exp.DataType)
        return self.cast(node.this, types.named(to.this.name, [p.name for p in to.expressions]), node)

    def cast(self, arg: exp.Expr, wanted: DataType, node: exp.Expr) -> Expression:
        """`CAST(arg AS wanted)`."""
        e = self.lower(arg, None)
        if types.is_open(e):
            return types.with_type(e, wanted)
        if isinstance(e, Literal) and isinstance(e.value, str):
            return self._text_as(e.value, wanted, node)
        types.check_cast(e, wanted)
        if isinstance(e, Literal):
            return fold(Cast(e, wanted))
        return e if e.type == wanted else Cast(e, wanted)

    def _text_as(self, text: str, wanted: DataType, node: exp.Expr) -> Expression:
        """A quoted constant that is cast: it must be readable, here and now."""
        if wanted.kind is Kind.STRING:
            return Literal(text, STRING)
        if wanted.kind in types.TIMES:
            moment = types.fit(Literal(text, STRING), wanted)
            return Literal(moment.value, wanted) if isinstance(moment, Literal) else moment
        word = text.strip().lower()
        if wanted.kind is Kind.BOOLEAN and word in (*_TRUE_WORDS, *_FALSE_WORDS):
            return Literal(word in _TRUE_WORDS, BOOLEAN)
        if wanted.kind is Kind.DOUBLE and text.strip().lower() in ("nan", "inf", "infinity", "-inf", "-infinity"):
            return Literal(float(text.strip().lower()), wanted)
        constant = literals.number(text.strip()) if wanted.is_numeric else None
        if constant is None or (wanted.kind in types.WHOLE and constant.type != BIGINT):
            raise self.fail(f"'{text[:40]}' is no {wanted}", node, "write the constant without CAST")
        return fold(Cast(constant, wanted))

    # Functions.

    def _function(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        if node.name.lower() in payloads.OTHERS:
            return payloads.other(node.name.lower(), [self.value(arg) for arg in node.expressions])
        if self.stretch is not None and node.name.lower() == self.stretch.word:
            return self._edge_of_window(node, "")
        if node.name.lower() in GENERATORS:
            raise self.fail(f"{node.name.lower()}() stands alone in a select list", node, "put it into a query in FROM")
        if node.name.lower() in GROUPING:
            return grouping_call(self, node)
        if node.name.lower() in BOTH and node.expressions:
            return self._text_or_array(node, wanted)
        if node.name.lower() == "struct":
            return self._struct(node)
        if node.name.lower() == "concat_ws":
            return self._joined_with(node, wanted)
        form, signature = FORMS.get(node.name.lower()), NAMED.get(node.name.lower())
        if form is not None:
            return form(self, node.expressions, node, wanted)
        if signature is None and node.name.lower() in AGGREGATE_NAMES:
            return aggregate(self, node)
        if signature is None:
            raise self.refused(node)
        return self.call(signature, node.expressions, node, wanted)

    def _text_or_array(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        """reverse and concat take texts or arrays."""
        name = node.name.lower()
        first = self.lower(node.expressions[0], STRING)
        if first.type.kind is Kind.PAYLOAD:
            return self.call(SIGNATURES[BOTH[name]], [first, *node.expressions[1:]], node, None)
        return self.call(SIGNATURES[name], node.expressions, node, wanted)

    def _joined_with(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        """concat_ws takes texts, and arrays of texts, whose elements stand for themselves."""
        args: list[_Argument] = list(node.expressions)
        for place, part in enumerate(node.expressions):
            e = self.lower(part, STRING) if place else None
            if e is None or e.type.variant != "array":
                continue
            joined = self.call(SIGNATURES["array_join"], [e, node.expressions[0]], node, None)
            known = self.call(SIGNATURES["array_compact"], [e], node, None)
            count = self.call(SIGNATURES["array_size"], [known], node, None)
            some = Comparison(">", count, Literal(0, BIGINT))
            args[place] = Call("case", (some, joined, Literal(None, STRING)), STRING)
        return self.call(SIGNATURES["concat_ws"], args, node, wanted)

    def _struct(self, node: exp.Expr) -> Expression:
        """struct(a, x AS b, c + 1) is named_struct('a', a, 'b', x, 'col3', c + 1)."""
        if not node.expressions:
            raise self.fail("struct() takes 1 or more arguments, got 0", node)
        args: list[Expression] = []
        for place, part in enumerate(node.expressions):
            e = self.value(part.this if isinstance(part, exp.Alias) else part)
            own = e.name if isinstance(e, (ColumnRef, Field)) else f"col{place + 1}"
            args += [Literal(part.alias if isinstance(part, exp.Alias) else own, STRING), e]
        return self.call(SIGNATURES["named_struct"], args, node, None)

    def _joined_texts(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        """`a || b || c`; sqlglot nests it to the left."""
        parts: list[exp.Expr] = []
        part: exp.Expr = node
        while isinstance(part, exp.DPipe):
            for side in (part.expression, part.this):
                if isinstance(side, _RANKED_WITH_TEXTS):
                    raise self.fail("|| and other operators rank differently elsewhere", side, "write parentheses")
            parts.append(part.expression)
            part = part.this
        return self.call(SIGNATURES["concat"], [part, *reversed(parts)], node, None)

    def _if(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        if node.args.get("false") is None:
            raise self.fail("if() takes 3 arguments", node, "write if(condition, value, otherwise)")
        return self.call(SIGNATURES["case"], [node.this, node.args["true"], node.args["false"]], node, wanted)

    def _case(self, node: exp.Expr, wanted: DataType | None) -> Expression:
        """Both forms; in CASE x WHEN a THEN …, x is compared with each a, and written out once for each."""
        args: list[_Argument] = []
        if node.this is not None and node.this.find(exp.Case, exp.If) is not None:
            # An x with a CASE in it would multiply; it is one operand of a function of its own.
            args.append(node.this)
            for way in node.args["ifs"]:
                args += [way.this, way.args["true"]]
            return self.call(SIGNATURES["case_of"], [*args, node.args.get("default")], node, wanted)
        for way in node.args["ifs"]:
            args.append(way.this if node.this is None else self._compare("=", node.this, way.this))
            args.append(way.args["true"])
        return self.call(SIGNATURES["case"], [*args, node.args.get("default")], node, wanted)

    def call(
        self, signature: Signature, given: Sequence[_Argument], node: exp.Expr, wanted: DataType | None
    ) -> Expression:
        """A function of arguments, which are brought to the types that it takes."""
        takes = signature.takes.of(len(given))
        shown = f"{self.word(node)}()" if isinstance(node, exp.Anonymous) else _SHOWN.get(type(node), signature.shown)
        if takes is None:
            raise self.fail(f"{shown} takes {signature.takes.count_text}, got {len(given)}", node)
        args: list[Expression] = []
        for taken, arg in zip(takes, given, strict=True):
            e = self._argument(arg, taken, wanted)
            if taken is MET:
                met, e = types.align(args[-1], e)
                args[-1] = met if types.is_constant(met) else args[-1]
            elif taken is MET_FIRST:
                met, e = types.align(args[0], e)
                if met != args[0]:
                    raise self.fail("CASE compares values of several types", node, "CAST what it compares")
            elif taken not in (VALUE, LIKE_ELEMENTS):
                e = self._fitted(shown, taken, e, arg if isinstance(arg, exp.Expr) else node, wanted)
            args.append(e)
        values = [k for k, taken in enumerate(takes) if taken is VALUE]
        if values:
            for k, value in zip(values, self._alike([args[k] for k in values], wanted), strict=True):
                args[k] = value
        if OPERAND in takes:
            args = types.operands(args)
        args = list(payloads.adapted(signature.name, args))
        type_ = signature.type_of(args)
        made = Call(signature.name, tuple(args), type_.usual if type_.kind is Kind.STRING else type_)
        return self._checked(signature, shown, made, takes, node)

    def _checked(
        self, signature: Signature, shown: str, made: Call, takes: Sequence[Taken], node: exp.Expr
    ) -> Expression:
        """A call whose fixed constants are in order; one of them that is NULL makes it NULL."""
        fixed = [
            arg.value for arg, taken in zip(made.args, takes, strict=True) if taken.fixed and isinstance(arg, Literal)
        ]
        if any(value is None for value in fixed):
            return Literal(None, made.type)
        fault = signature.checked(fixed) if signature.checked is not None and fixed else ""
        if fault:
            raise self.fail(f"{shown} does not take '{str(fixed[0])[:60]}': {fault}", node)
        return made

    def _argument(self, arg: _Argument, taken: Taken, wanted: DataType | None) -> Expression:
        if arg is None:  # CASE without ELSE
            return Literal(None, NULL)
        if not isinstance(arg, exp.Expr):
            return arg
        arg = _bare(arg)
        if taken.word and isinstance(arg, (exp.Column, exp.Var)) and not arg.args.get("table"):
            return Literal(arg.name.lower(), STRING)
        # A bare parameter takes its type from the values beside it.
        beside = taken in (VALUE, MET, LIKE_ELEMENTS) and isinstance(arg, exp.Placeholder)
        return self.lower(arg, None if beside else taken.untyped or wanted)

    def _fitted(self, name: str, taken: Taken, e: Expression, node: exp.Expr, wanted: DataType | None) -> Expression:
        if types.is_open(e):
            e = self._close(e, taken.untyped or wanted)
        elif taken.untyped in (TIMESTAMP, DATE) and types.is_constant(e):
            e = types.fit(e, taken.untyped)
        into = taken.into or taken.untyped
        if into is not None and e.type.kind in taken.cast and e.type != into:
            types.check_cast(e, into)
            e = types.fit(e, DOUBLE) if into == DOUBLE and types.is_constant(e) else e
            e = e if e.type == into else fold_one(Cast(e, into))
        if e.type.kind is Kind.PAYLOAD and taken is HASHED:
            raise self.fail(f"{name} does not take {types.described(e)}", node, types.TAKE_A_PART)
        if taken.kinds and e.type.kind not in taken.kinds:
            raise self.fail(f"{name} takes {taken.words}, got {types.described(e)}", node)
        if taken.fixed and not isinstance(e, Literal):
            raise self.fail(
                f"{name} takes {taken.words} that stands in the query itself", node, "write the constant out"
            )
        if taken.narrow and isinstance(e, Literal) and e.type == BIGINT and isinstance(e.value, int):
            return Literal(e.value, INT) if -_INT32_MAX - 1 <= e.value <= _INT32_MAX else e
        return e

    def _alike(self, values: list[Expression], wanted: DataType | None) -> list[Expression]:
        if all(types.is_open(v) for v in values):
            param = next((v for v in values if isinstance(v, Param)), None)
            if wanted is not None:
                return [types.with_type(v, types.slot_type(wanted)) for v in values]
            if param is not None:
                raise self.untyped(param.name)
        return types.alike(values)

    # Conditions.

    def _comparison(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        return self._compare(_COMPARISONS[type(node)], node.this, node.expression)

    def _compare(self, op: str, left_node: exp.Expr, right_node: exp.Expr) -> Expression:
        # The side without parameters goes first: its type is what a parameter in the other one may need.
        if self.params and left_node.find(exp.Placeholder) is not None and right_node.find(exp.Placeholder) is None:
            right = self.lower(right_node)
            left = self.lower(left_node, None if types.is_open(right) else right.type)
        else:
            left = self.lower(left_node)
            right = self.lower(right_node, None if types.is_open(left) else left.type)
        if all(types.is_open(side) and isinstance(side, Literal) for side in (left, right)):
            return Literal(None, BOOLEAN)
        try:
            left, right = types.align(left, right)
        except MismatchError as e:
            # A constant is more likely the mistake than a column.
            at = right_node if isinstance(right, Literal) else left_node
            raise self.fail(str(e), at, e.hint) from None
        return Comparison(op, left, right)

    def _not(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        return Not(self._truth(self.lower(node.this, BOOLEAN), node.this, "NOT"))

    def _connective(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        kind = type(node)
        terms: list[exp.Expr] = []
        stack: list[exp.Expr] = [node]
        while stack:
            part = _bare(stack.pop())
            if isinstance(part, kind):
                stack.append(part.expression)
                stack.append(part.this)
            else:
                terms.append(part)
        word = "AND" if kind is exp.And else "OR"
        args = [self._truth(self.lower(t, BOOLEAN), t, word) for t in terms]
        return conjunction(args) if kind is exp.And else disjunction(args)

    def _between(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        if node.args.get("symmetric"):
            raise self.fail("BETWEEN SYMMETRIC is not part of the language", node, "order the bounds")
        low = self._compare(">=", node.this, node.args["low"])
        high = self._compare("<=", node.this, node.args["high"])
        return conjunction([low, high])

    def _in(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        if node.args.get("query") is not None:
            return in_query(self, node)
        if isinstance(_bare(node.this), exp.Tuple):
            return self._in_tuples(node)
        if not node.expressions or any(node.args.get(k) for k in ("unnest", "field")):
            raise self.fail("IN takes a list of values", node, "write it as a join if the values are in a stream")
        lists = [v for v in node.expressions if self._is_list(v)]
        if not lists and len(node.expressions) <= SMALL:
            return disjunction([self._compare("=", node.this, v) for v in node.expressions])
        rest = [v for v in node.expressions if not self._is_list(v)]
        arg = self.lower(node.this)
        if types.is_constant(arg):
            raise self.fail(
                "IN of a long list takes a column or an expression of columns", node, "write it the other way"
            )
        found: list[Expression] = []
        for v in lists:
            if v.name in self.lists:
                found += long_lists(arg, [self._constant(node, *of) for of in self.lists[v.name]])
            else:
                found.append(list_parameter(arg, v.name, self.param_types[v.name]))
        if len(rest) > SMALL:
            lowered = [(v, self.lower(v, arg.type)) for v in rest]
            constants = [e for _, e in lowered if isinstance(e, Literal)]
            if len(constants) > SMALL:
                found += long_lists(arg, constants)
                rest = [v for v, e in lowered if not isinstance(e, Literal)]
        return disjunction([*found, *(self._compare("=", node.this, v) for v in rest)])

    def _in_tuples(self, node: exp.Expr) -> Expression:
        """(a, b) IN ((1, 2), (3, 4))"""
        sides = _bare(node.this).expressions
        ways: list[Expression] = []
        for item in node.expressions:
            values = item.expressions if isinstance(item, exp.Tuple) else ()
            if len(values) != len(sides):
                raise self.fail(f"IN compares {len(sides)} values with {len(values) or 1}", item)
            ways.append(conjunction([self._compare("=", a, b) for a, b in zip(sides, values, strict=True)]))
        return disjunction(ways)

    def _is_list(self, node: exp.Expr) -> bool:
        if not isinstance(node, exp.Placeholder):
            return False
        given = self.param_types.get(node.name)
        return node.name in self.lists or (given is not None and given.kind is Kind.LIST)

    def _constant(self, node: exp.Expr, is_text: bool, text: str) -> Literal:
        found = Literal(text, STRING) if is_text else literals.number(text)
        if found is None:
            raise self.fail(f"the number {text[:40]} is beyond the range of double", node, "numbers reach ±1.797e308")
        return found

    def _is(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        if isinstance(node.expression, exp.Boolean):
            return self._is_truth(node, bool(node.expression.this))
        if not isinstance(node.expression, exp.Null):
            raise self.fail("IS takes NULL, TRUE, FALSE or UNKNOWN", node, "write = or <=>")
        e = self.lower(node.this)
        if types.is_open(e):
            if isinstance(e, Param):
                raise self.untyped(e.name)
            e = types.with_type(e, BOOLEAN)
        return Not(IsNull(e)) if node.args.get("negate") else IsNull(e)

    def _is_truth(self, node: exp.Expr, wanted: bool) -> Expression:
        """x IS TRUE is never NULL; a plain column is written out, so that an index can use it."""
        e = self._truth(self.lower(node.this, BOOLEAN), node.this, "IS TRUE")
        if isinstance(e, ColumnRef):
            found = conjunction([e if wanted else Not(e), Not(IsNull(e))])
        else:
            known = self.call(SIGNATURES["coalesce"], [e, Literal(not wanted, BOOLEAN)], node, BOOLEAN)
            found = fold_one(known) if wanted else fold_one(Not(fold_one(known)))
        return Not(found) if node.args.get("negate") else found

    def _like(self, node: exp.Expr, _wanted: DataType | None) -> Expression:
        found = self.like(node.this, node.expression, node)
        return Not(found) if node.args.get("negate") else found

    def text_operand(self, node: exp.Expr, name: str, at: exp.Expr) -> Expression:
        """An operand that must be a text."""
        return self._fitted(name, TEXT, self.lower(node, STRING), at, STRING)

    def like(self, text: exp.Expr, pattern_node: exp.Expr, node: exp.Expr) -> Expression:
        """`text LIKE pattern`."""
        arg = self.text_operand(text, "LIKE", node)
        pattern = self.typed(pattern_node, STRING)
        if isinstance(pattern, (Literal, Param)) and pattern.type.kind is Kind.STRING:
            return Like(arg, pattern)
        if isinstance(pattern, (Literal, Param)):
            raise self.fail("the pattern of LIKE is a text", node, "write LIKE 'a%'")
        return self.call(SIGNATURES["like_of"], [arg, pattern], node, BOOLEAN)

    def untyped(self, name: str) -> RegisterError:
        return refuse(
            self.text,
            f"the type of parameter ':{name}' cannot be inferred",
            self.params.get(name),
            f"compare it with a column, or write CAST(:{name} AS double)",
        )


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _months(node: exp.Expr) -> int | None:
    """How many months INTERVAL 1 YEAR 2 MONTHS has; None of what is no such interval."""
    node = _bare(node)
    if isinstance(node, exp.Add) and isinstance(node.this, exp.Interval):
        parts = [_months(part) for part in (node.this, node.expression)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not isinstance(node, exp.Interval):
        return None
    count, sign = node.this, 1
    if isinstance(count, exp.Neg):
        count, sign = count.this, -1
    words = count.name.split() if isinstance(count, exp.Literal) else []
    if node.args.get("unit") is not None:
        words.append(node.args["unit"].name)
    total = 0
    for number, word in zip(words[::2], words[1::2], strict=False):
        size = _MONTHS.get(word.upper().removesuffix("S"))
        if size is None or not re.fullmatch(r"[+-]?\d{1,6}", number):
            return None
        total += sign * size * int(number)
    return total if words and len(words) % 2 == 0 else None


def _counts_days(e: Expression) -> bool:
    """Whether it is a number that moves a date; a parameter beside a date is a length of time."""
    return e.type.kind in types.WHOLE and not isinstance(e, Param)


def _partner(op: str, met: DataType, wanted: DataType | None, *, left: bool) -> DataType | None:
    """The type of a parameter that stands in arithmetic with a value of type `met`."""
    if met.kind in types.TIMES:
        if op == "-" and (left or (wanted is not None and wanted.kind is Kind.INTERVAL)):
            return TIMESTAMP
        return INTERVAL
    if met.kind is Kind.INTERVAL:
        return wanted if wanted is not None and wanted.kind in (*types.TIMES, Kind.INTERVAL) else None
    if wanted is not None and wanted.is_numeric:
        return types.slot_type(wanted)
    return types.slot_type(met)
