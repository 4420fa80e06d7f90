"""Expressions by Spark's grammar; see sql/strict.py.

Operands and operators are read in a loop, without a level for each precedence. What sqlglot would bind otherwise than
Spark is refused with a word about parentheses: a comparison beside IS, IN, BETWEEN or LIKE, `a = b < c`, `a || b + c`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from weir.sql import types
from weir.sql.reader import Reader, words

_EQUAL = frozenset({"=", "==", "<>", "!=", "<=>"})
_ORDER = frozenset({"<", "<=", ">", ">="})
_ADD = frozenset({"+", "-"})
_BITS = frozenset({"&", "|", "^", "<<", ">>", ">>>", "||"})
_BINARY = _EQUAL | _ORDER | _ADD | _BITS | {"*", "/", "%", "DIV"}
_SIGNS = frozenset({"+", "-", "~"})
QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES"})
BEHIND_QUERY = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT", "ORDER", "LIMIT", "OFFSET"})  # one in parentheses
_NO_ALIAS = words(
    "ANTI CLUSTER CROSS DISTRIBUTE EXCEPT FROM FULL GROUP HAVING INNER INTERSECT INTO JOIN LATERAL LEFT LIMIT MINUS "
    "NATURAL OFFSET ON ORDER QUALIFY RIGHT SEMI SORT UNION USING WHERE WINDOW"
)
_TYPED_TEXTS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "INTERVAL", "X"})
_UNITS = frozenset(
    unit + end
    for unit in words("NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR")
    for end in ("", "S")
)
_SIMPLE_TYPES = words(
    "BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DATE TIMESTAMP TIMESTAMP_NTZ "
    "TIMESTAMP_LTZ STRING BINARY DECIMAL DEC NUMERIC VOID VARIANT TIME"
)
_SIZED_TYPES = {"DECIMAL": 2, "DEC": 2, "NUMERIC": 2, "VARCHAR": 1, "CHAR": 1, "CHARACTER": 1, "TIME": 1}
_PARENTHESES = "databases differ in which comes first: use parentheses"


class Values(Reader):
    """Expressions; statements are the subclass's."""

    def query(self) -> None:
        raise NotImplementedError

    def query_rest(self) -> None:
        raise NotImplementedError

    def named_expression(self) -> None:
        self.expression()
        self._alias()

    def _alias(self) -> None:
        if self.take("AS"):
            if self.word() == "(":
                self.in_parentheses(lambda: self.commas(self.name))
            else:
                self.name(after_dot=True)
        elif self.is_name() and self.word() not in _NO_ALIAS:
            self.advance()

    def sort_item(self) -> None:
        self.expression()
        self.direction()

    def direction(self) -> None:
        if not self.take("ASC"):
            self.take("DESC")
        if self.take("NULLS") and not (self.take("FIRST") or self.take("LAST")):
            raise self.unreadable()

    # Conditions.

    def expression(self) -> None:
        self._expression(operand_read=False)

    def _expression(self, *, operand_read: bool) -> None:
        while True:
            if not operand_read:
                while self.word() in ("NOT", "!"):
                    self.advance()
            if not operand_read and self.word() == "EXISTS" and self.word(1) == "(" and self.opens_query(1):
                self.advance()
                self.in_parentheses(self.query)
            else:
                self._value_and_predicate(operand_read)
            operand_read = False
            if self.word() not in ("AND", "OR"):
                return
            self.advance()

    def _value_and_predicate(self, operand_read: bool) -> None:
        compares = self.value(operand_read=operand_read)
        before = self.at
        if self.take("IS"):
            self.take("NOT")
            if self.take("DISTINCT", "FROM"):
                self._plain_value()
            elif not (self.take("NULL") or self.take("TRUE") or self.take("FALSE") or self.take("UNKNOWN")):
                raise self.unreadable()
        else:
            negated = self.word() == "NOT" and self.take("NOT")
            if not self._predicate():
                if negated:
                    raise self.unreadable()
                return
        if compares:
            raise self.unreadable(before, f"a comparison stands beside {self.word(at=before)}", _PARENTHESES)
        if self.word() in _BINARY:
            raise self.unreadable()

    def _predicate(self) -> bool:
        if self.take("BETWEEN"):
            self._plain_value()
            self.need("AND")
            self._plain_value()
        elif self.take("IN"):
            if self.word() == "(" and self.word(1) == ")":
                raise self.unreadable(
                    self.at - 1, "IN takes a list of values", "an empty list holds nothing: write FALSE"
                )
            if self.word() == "(" and self.word(1) in QUERY_STARTS:
                self.in_parentheses(self.query)
            else:
                self.in_parentheses(lambda: self.commas(self.expression))
        elif self.word() in ("LIKE", "ILIKE"):
            self.advance()
            if self.word() in ("ANY", "SOME", "ALL") and self.word(1) == "(":
                self.advance()
                self.in_parentheses(lambda: self.commas(self.expression))
                return True
            self._plain_value()
            if self.take("ESCAPE"):
                self._text()
        elif self.take("RLIKE") or self.take("REGEXP"):
            self._plain_value()
        else:
            return False
        return True

    def _plain_value(self) -> None:
        start = self.at
        if self.value():
            raise self.unreadable(start, "a comparison stands inside another condition", _PARENTHESES)

    # Values.

    def value(self, *, operand_read: bool = False) -> bool:
        """Operands and the operators between them; whether one of these compares."""
        compared: set[str] = set()
        used: set[str] = set()  # since the last comparison
        while True:
            if not operand_read:
                while self.word() in _SIGNS:
                    self.advance()
                self._primary()
            operand_read = False
            op = self.word()
            if op not in _BINARY:
                return bool(compared)
            if op in _ORDER and compared & _EQUAL:
                raise self.unreadable(message=f"'{op}' follows an equality", hint=_PARENTHESES)
            if (op in _BITS and (used & _BITS) - {op}) or (op in _ADD and "||" in used):
                beside = next(iter((used & _BITS) - {op}))
                raise self.unreadable(message=f"'{op}' stands beside '{beside}'", hint=_PARENTHESES)
            if op in _EQUAL | _ORDER:
                compared.add(op)
                used = set()
            else:
                used.add(op)
            self.advance()

    def _primary(self) -> None:
        self._atom()
        while True:
            if self.take("."):
                if not self.take("*"):
                    self.name(after_dot=True)
                    if self.word() == "(":
                        self._call()
                else:
                    self._except()
            elif self.word() == "[":
                self.advance()
                self.value()
                self.need("]")
            elif self.word() == "::":
                self.advance()
                self.type_()
            elif self.take("COLLATE"):
                self.name()
            else:
                return

    def _atom(self) -> None:
        kind, word = self.kind(), self.word()
        if kind is None:
            raise self.unreadable()
        if kind is TokenType.NUMBER:
            self._number()
        elif kind in (TokenType.STRING, TokenType.HEX_STRING):
            self.advance()
        elif word == ":":
            self._parameter()
        elif word == "*":
            self.advance()
            self._except()
        elif word == "(":
            self.parenthesised()
            if self.word() == "->":
                self.advance()
                self.expression()
        elif word == "CASE":
            self._case()
        elif word == "NULL":
            self.advance()
        elif word == "INTERVAL" and self._interval():
            return
        elif word in _TYPED_TEXTS and self._text_follows():
            self.advance()
            self._text()
        else:
            self._name_or_call(word)

    def _except(self) -> None:
        if self.word() == "EXCEPT" and self.word(1) == "(" and self.word(2) not in QUERY_STARTS | {"("}:
            self.advance()
            self.in_parentheses(lambda: self.commas(self.name))

    def _parameter(self) -> None:
        self.need(":")
        if self.ended():
            raise self.unreadable()
        self.advance()

    def _number(self) -> None:
        """A number, with the letter of its type; sqlglot makes `1` `::` BIGINT of `1L`."""
        number = self.tokens[self.at]
        self.advance()
        if self.word() == "::" and self.tokens[self.at].start == number.start:
            letter = self.tokens[self.at + 1].text.upper()
            whole = number.text.isdigit()
            if (letter in ("L", "S", "Y") and not whole) or not self._fits(number.text, letter):
                raise self.unreadable(self.at - 1)
            self.advance(2)

    def _fits(self, digits: str, letter: str) -> bool:
        bits = {"Y": 7, "S": 15, "L": 63}.get(letter)
        # The least number is written with a sign, which is read apart.
        return bits is None or int(digits) < 2**bits or (int(digits) == 2**bits and self.word(-2) == "-")

    def _text_follows(self) -> bool:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        return following is not None and following.token_type is TokenType.STRING

    def _text(self) -> None:
        """One text, not several literals."""
        if self.kind() is not TokenType.STRING or self.tokens[self.at].start in self.joined:
            raise self.unreadable()
        self.advance()

    def _interval(self) -> bool:
        """INTERVAL with numbers and units; False where it is a name."""
        start = self.at
        self.advance()
        units = 0
        while True:
            before = self.at
            if self.word() in ("+", "-"):
                self.advance()
            if self.word() == ":":
                self._parameter()
            elif self.kind() is TokenType.NUMBER:
                self.advance()
                if self.is_name():  # a word that is no unit is refused by name later
                    self.advance()
                    units += 1
                    continue
            elif self.kind() is TokenType.STRING:
                self.advance()
            if self.at == before or self.word() not in _UNITS:
                self.at = before
                break
            self.advance()
            units += 1
            if self.word() == "TO" and self.word(1) in _UNITS:
                self.advance(2)
                return True
        if units:
            return True
        self.at = start
        return False

    def _case(self) -> None:
        self.need("CASE")
        if self.word() != "WHEN":
            self.expression()
        self.need("WHEN")
        while True:
            self.expression()
            self.need("THEN")
            self.expression()
            if not self.take("WHEN"):
                break
        if self.take("ELSE"):
            self.expression()
        self.need("END")

    # Parentheses and queries.

    def opens_query(self, ahead: int = 0) -> bool:
        """Whether the parentheses here open on a query."""
        place = self.at + ahead
        while self.word(at=place) == "(":
            place += 1
        return self.word(at=place) in QUERY_STARTS

    def opened_query(self) -> bool:
        """Take a parenthesis, and if a query stands right behind it, that and the one that closes; whether it does."""
        self.need("(")
        if self.word() not in QUERY_STARTS:
            return False
        self.query()
        self.need(")")
        return True

    def parenthesised(self) -> bool:
        """( query ), ( expression ) or ( expression, … ); whether it was a query."""
        if self.opened_query():
            return True
        if self.word() == "(" and self.opens_query():
            if self.parenthesised():
                if self.word() in BEHIND_QUERY:
                    self.query_rest()
                if self.take(")"):
                    return True
            self._expression(operand_read=True)
            self._alias()
        else:
            self.named_expression()
        while self.take(","):
            self.named_expression()
        self.need(")")
        return False

    # Names, calls and types.

    def _name_or_call(self, word: str) -> None:
        start = self.at
        if word in ("LEFT", "RIGHT", "FILTER") or self.is_name() or (word == "LIKE" and self.word(1) == "("):
            self.advance()
        else:
            raise self.unreadable()
        if self.word() == "->":
            self.advance()
            self.expression()
        elif self.word() == "(":
            if self.tokens[start].token_type is TokenType.IDENTIFIER:
                word = ""
            self._call(word)

    def _call(self, name: str = "") -> None:
        special: dict[str, Callable[[], None]] = {
            "CAST": self._cast,
            "TRY_CAST": self._cast,
            "EXTRACT": self._extract,
            "TRIM": self._trim,
            "SUBSTRING": self._substring,
            "SUBSTR": self._substring,
            "POSITION": self._position,
            "OVERLAY": self._overlay,
            "STRUCT": self._struct,
        }
        self.need("(")
        if name in special:
            special[name]()
        else:
            self.arguments()
            if name in ("FIRST", "LAST", "ANY_VALUE", "FIRST_VALUE", "LAST_VALUE") and self.take("IGNORE"):
                self.need("NULLS")
        self.need(")")
        if name in special:
            return
        if self.take("WITHIN"):
            self.need("GROUP", "(", "ORDER", "BY")
            self.commas(self.sort_item)
            self.need(")")
        if self.word() == "FILTER" and self.word(1) == "(":
            self.advance(2)
            self.need("WHERE")
            self.expression()
            self.need(")")
        if self.word() in ("IGNORE", "RESPECT") and self.word(1) == "NULLS":
            self.advance(2)
        if self.take("OVER"):
            self.window_spec()

    def arguments(self) -> None:
        if self.word() == ")":
            return
        if not self.take("DISTINCT"):
            self.take("ALL")
        self.commas(self._argument)

    def _argument(self) -> None:
        if self.word(1) == "=>":
            self.name()
            self.advance()
        self.expression()

    def _cast(self) -> None:
        self.expression()
        self.need("AS")
        self.type_()

    def _extract(self) -> None:
        self.name()
        self.need("FROM")
        self.value()

    def _trim(self) -> None:
        side = self.word() in ("BOTH", "LEADING", "TRAILING") and self.word(1) not in (")", ",") and self.advance()
        if not (side and self.word() == "FROM"):
            self.arguments()
        if self.take("FROM"):
            self.value()
        elif side:
            raise self.unreadable()

    def _substring(self) -> None:
        self.arguments()
        if self.take("FROM"):
            self.value()
            if self.take("FOR"):
                self.value()

    def _position(self) -> None:
        before = self.at
        self.value()
        if self.take("IN"):
            self.value()
        else:
            self.at = before
            self.arguments()

    def _overlay(self) -> None:
        self.arguments()
        if self.take("PLACING"):
            self.value()
            self.need("FROM")
            self.value()
            if self.take("FOR"):
                self.value()

    def _struct(self) -> None:
        if self.word() != ")":
            self.commas(self.named_expression)

    def type_(self) -> None:
        word = self.word()
        self.name()
        if word == "ARRAY":
            self.need("<")
            self.type_()
            self._close_angle()
        elif word == "MAP":
            self.need("<")
            self.type_()
            self.need(",")
            self.type_()
            self._close_angle()
        elif word == "STRUCT":
            self.need("<")
            self.commas(self._field)
            self._close_angle()
        elif word == "INTERVAL":
            self._field_range()
        elif word in _SIZED_TYPES and self.word() == "(":
            self._sizes(_SIZED_TYPES[word])
        elif word == "TIMESTAMP" and self.take("WITHOUT", "TIME", "ZONE"):
            return
        elif word not in _SIMPLE_TYPES:
            raise self.unreadable(
                self.at - 1,
                f"there is no type '{self.spelled(self.at - 1).lower()}'",
                "types: " + types.NAMES,
            )

    def _sizes(self, count: int) -> None:
        self.need("(")
        for k in range(count):
            if k and not self.take(","):
                break
            if self.kind() is not TokenType.NUMBER or not self.tokens[self.at].text.isdigit():
                raise self.unreadable()
            self.advance()
        self.need(")")

    def _field(self) -> None:
        self.name()
        self.take(":")
        self.type_()
        self.take("NOT", "NULL")

    def _field_range(self) -> None:
        if self.word() in _UNITS:
            self.advance()
            if self.take("TO"):
                self.name()

    def _close_angle(self) -> None:
        if self.word() == ">>":  # closes two
            self.words[self.at] = ">"
        else:
            self.need(">")

    # Windows of functions.

    def window_spec(self) -> None:
        if not self.take("("):
            self.name()
            return
        if self.is_name() and self.word(1) == ")":
            self.name()
        if self.take("PARTITION", "BY") or self.take("DISTRIBUTE", "BY"):
            self.commas(self.expression)
        if self.take("ORDER", "BY") or self.take("SORT", "BY"):
            self.commas(self.sort_item)
        if self.take("ROWS") or self.take("RANGE"):
            if self.take("BETWEEN"):
                self._frame_bound()
                self.need("AND")
            self._frame_bound()
        self.need(")")

    def _frame_bound(self) -> None:
        if self.take("CURRENT", "ROW"):
            return
        if not (self.word() == "UNBOUNDED" and self.advance()):
            self.value()
        if not (self.take("PRECEDING") or self.take("FOLLOWING")):
            raise self.unreadable()
