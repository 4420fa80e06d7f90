"""Whether Spark's grammar takes a text: `fault`.

sqlglot reads many dialects, and where a text is in none it drops words in silence (`FROM t@x`, `a,, b`). Therefore
every text that sqlglot has parsed is also read here, by the grammar of Spark's queries, which never leaves out a word.
Statements and sources are here, expressions in sql/strict_values.py, the tokens in sql/reader.py.

What this grammar takes, Spark takes (a superset of the language: what Weir does not have is refused by name later);
Weir's own additions are windows, taken out before, parameters as lengths of intervals, and ASOF.
Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from weir.errors import RegisterError
from weir.sql.position import refuse
from weir.sql.reader import UnreadableError, words
from weir.sql.refusals import REFUSED_CLAUSES
from weir.sql.strict_values import BEHIND_QUERY, Values

_SET_OPERATIONS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
_NO_ALIAS = words(
    "ANTI ASOF CLUSTER CROSS DISTRIBUTE EXCEPT FROM FULL GROUP HAVING INNER INTERSECT JOIN LATERAL LEFT LIMIT MINUS "
    "MATCH_CONDITION NATURAL OFFSET ON ORDER PIVOT QUALIFY RIGHT SEMI SORT TABLESAMPLE UNION UNPIVOT USING WHERE "
    "WINDOW WITH FOR INTO"
)
# Words that open a clause which sqlglot reads and no query here may have.
_CLAUSES = {
    "PIVOT": "pivots",
    "UNPIVOT": "unpivots",
    "TABLESAMPLE": "sample",
    "INTO": "into",
    "CONNECT": "connect",
    "PREWHERE": "prewhere",
    "MATCH_RECOGNIZE": "match",
    "CLUSTER": "cluster",
    "DISTRIBUTE": "distribute",
}


def fault(text: str, tokens: Sequence[Token], joined: frozenset[int]) -> RegisterError | None:
    """What Spark's parser would complain about, or None."""
    grammar = _Grammar(tokens, joined)
    try:
        grammar.statement()
    except UnreadableError as e:
        return _explained(text, grammar, e)
    return None


def _explained(text: str, grammar: _Grammar, e: UnreadableError) -> RegisterError:
    word = grammar.word(at=e.at)
    if e.message:
        return refuse(text, e.message, grammar.start(e.at), e.hint)
    if word in ("LATERAL", "FOR"):
        return refuse(text, f"{word} is not part of the language", grammar.start(e.at))
    if word in _CLAUSES:
        what, hint = REFUSED_CLAUSES[_CLAUSES[word]]
        return refuse(text, f"{what} is not part of the language", grammar.start(e.at), hint)
    shown = grammar.spelled(e.at)
    if word in (",", ")") and grammar.word(at=e.at - 1) == ",":
        return refuse(text, "a comma has nothing behind it", grammar.start(e.at - 1), "leave it out")
    near = f" near '{shown}'" if shown else ": the text ends too early"
    return refuse(text, f"syntax error{near}", grammar.start(e.at), "see docs/language.md for the grammar")


class _Grammar(Values):
    """Statements, sources and clauses."""

    def statement(self) -> None:
        self.query()
        while self.take(";"):
            pass
        if not self.ended():
            raise self.unreadable()

    def query(self) -> None:
        if self.take("WITH"):
            self.take("RECURSIVE")
            self.commas(self._named_query)
        self._term()
        self.query_rest()

    def query_rest(self) -> None:
        """Set operations behind a term, and what orders and cuts the whole."""
        while self.word() in _SET_OPERATIONS:
            self.advance()
            if not self.take("ALL"):
                self.take("DISTINCT")
            self._term()
        if self.take("ORDER", "BY"):
            if self.take("ALL"):
                self.direction()
            else:
                self.commas(self.sort_item)
        if self.take("SORT", "BY"):
            self.commas(self.sort_item)
        if self.take("WINDOW"):
            self.commas(self._named_window)
        if self.take("LIMIT") and not (self.word() == "ALL" and self.advance()):
            self.expression()
        if self.take("OFFSET"):
            self.expression()

    def _named_query(self) -> None:
        self.name()
        if self.take("("):
            self.commas(self.name)
            self.need(")")
        self.take("AS")
        self.need("(")
        self.query()
        self.need(")")

    def _named_window(self) -> None:
        self.name()
        self.need("AS")
        self.window_spec()

    def _term(self) -> None:
        if self.word() == "(":
            if not self.parenthesised():
                raise self.unreadable(self.at - 1)
            return
        if self.take("VALUES"):
            self.commas(self.expression)
            self._alias_of_source()
            return
        self.need("SELECT")
        while self.kind() is TokenType.HINT:
            self.advance()
        if not self.take("DISTINCT"):
            self.take("ALL")
        elif self.word() == "ON":
            raise self.unreadable(message="DISTINCT ON is not part of the language", hint=REFUSED_CLAUSES["on"][1])
        if self.ended() or self.word() == "FROM":
            raise self.unreadable(message="SELECT lists no columns", hint="write SELECT *")
        self.commas(self.named_expression)
        if self.take("FROM"):
            self._relation()
            while self.take(","):
                self._source()
                self._joins(behind_comma=True)
            while self.take("LATERAL", "VIEW"):
                self._view()
        if self.take("WHERE"):
            self.expression()
        if self.take("GROUP", "BY"):
            self._groups()
        if self.take("HAVING"):
            self.expression()
        if self.take("WINDOW"):
            self.commas(self._named_window)
        if self.take("QUALIFY"):
            self.expression()
            if self.take("WINDOW"):
                self.commas(self._named_window)

    def _groups(self) -> None:
        if self.take("ALL"):
            return
        self.commas(self._group)
        if not (self.take("WITH", "ROLLUP") or self.take("WITH", "CUBE")) and self.word() == "GROUPING":
            self._group()

    def _group(self) -> None:
        if self.take("GROUPING", "SETS"):
            self.need("(")
            self.commas(self._grouping_element)
            self.need(")")
        elif self.word() in ("ROLLUP", "CUBE") and self.word(1) == "(":
            self._grouping_element()
        else:
            self.expression()

    def _grouping_element(self) -> None:
        if self.word() in ("ROLLUP", "CUBE", "GROUPING"):
            if self.word() == "GROUPING":
                return self._group()
            self.advance()
            self.need("(")
            self.commas(self._grouping_element)
            return self.need(")")
        if self.word() == "(" and self.word(1) == ")":
            self.advance(2)
            return None
        return self.expression()

    # Sources.

    def _view(self) -> None:
        """LATERAL VIEW [OUTER] function(…) alias [AS name, …]"""
        self.take("OUTER")
        self.name()
        self.in_parentheses(self.arguments)
        self.name()
        if self.take("AS"):
            self.commas(self.name)

    def _relation(self) -> None:
        self._source()
        self._joins()

    def _joins(self, *, behind_comma: bool = False) -> None:
        while True:
            if behind_comma and self.word() in ("NATURAL", "RIGHT", "FULL") and self.word(1) != ".":
                raise self.unreadable(
                    message=f"a {self.word()} JOIN behind a comma is not part of the language",
                    hint="databases differ in whether the comma comes first: write CROSS JOIN, or parentheses",
                )
            if not self._joined():
                return
            self._source()
            if self.word() == "MATCH_CONDITION" and self.word(1) == "(":
                self.advance()
                self.in_parentheses(self.expression)
            if self.take("ON"):
                self.expression()
            elif self.take("USING"):
                self.in_parentheses(lambda: self.commas(self.name))

    def _joined(self) -> bool:
        """Whether JOIN follows, with its kind."""
        before = self.at
        if not self.take("NATURAL"):
            self.take("ASOF")
        if self.take("LEFT"):
            self.take("OUTER") or self.take("SEMI") or self.take("ANTI")
        elif self.take("RIGHT") or self.take("FULL"):
            self.take("OUTER")
        else:
            self.take("INNER") or self.take("CROSS") or self.take("SEMI") or self.take("ANTI")
        if self.take("JOIN"):
            return True
        if self.at != before:
            raise self.unreadable()
        return False

    def _source(self) -> None:
        if self.word() == "LATERAL" and self.word(1) == "(" and self.opens_query(1):
            self.advance()
        if self.word() == "LATERAL" and (self.word(1) == "(" or self.word(2) == "("):
            raise self.unreadable()
        if self.word() == "(":
            self._source_in_parentheses()
        elif self.take("VALUES"):
            self.commas(self.expression)
        else:
            self.name()
            while self.take("."):
                self.name(after_dot=True)
            if self.word() == "(":
                self.in_parentheses(self.arguments)
        self._alias_of_source()

    def _source_in_parentheses(self) -> bool:
        """( query ), or ( source joined with others ); whether it was a query."""
        if self.opened_query():
            return True
        if self.word() == "(":
            is_query = self._source_in_parentheses()
            if is_query and self.word() in BEHIND_QUERY:
                self.query_rest()
                self.need(")")
                return True
            if self.take(")"):
                return is_query
            self._alias_of_source()
            self._joins()
        else:
            self._relation()
        self.need(")")
        return False

    def _alias_of_source(self) -> None:
        if self.take("AS"):
            self.name()
        elif self.is_name() and self.word() not in _NO_ALIAS:
            self.advance()
        else:
            return
        if self.take("("):
            self.commas(self.name)
            self.need(")")
