"""SQL text → syntax tree and windows: `parse`.

The text is tokenised once with sqlglot's Spark tokenizer, checked against the limits, freed of its window
clauses (sql/windows.py) and parsed. The limits come first, because they protect the rest: a text that is too
long is refused before it is tokenised, one that is too deep before it is parsed (sqlglot descends recursively,
about 22 Python frames a parenthesis). Long flat chains of AND, OR, + or UNION are no nesting here: sqlglot
builds them in a loop.

Invariant: offsets in `ast` are offsets into `text`. Whatever the text is, the only exception is RegisterError.
Cost: linear in the text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from weir.algebra.aggregates import AGGREGATE_NAMES, WINDOW_NAMES
from weir.algebra.array_functions import GENERATORS
from weir.algebra.functions import NAMED
from weir.errors import RegisterError
from weir.settings import Settings
from weir.sql import payloads, types
from weir.sql.depth import nesting, with_room
from weir.sql.forms import FORMS
from weir.sql.literals import unit_us
from weir.sql.long_lists import Lists, take_lists
from weir.sql.position import refuse
from weir.sql.strict import fault
from weir.sql.windows import SourceWindow, WindowClause, align_windows, blank, find_windows
from weir.sql.words import settle

_STATEMENTS = "a standing query is one SELECT, or several joined by UNION, EXCEPT or INTERSECT"
_FRAMES_PER_LEVEL = 40  # Python frames sqlglot needs for one level of nesting, with room to spare
_MISSING = re.compile(r"Missing (\S+) from (\d+):(\d+)")


_SPECIAL = ("grouping", "grouping_id", "struct", "named_struct", *GENERATORS)
_OWN = frozenset({*NAMED, *payloads.OTHERS, *FORMS, *AGGREGATE_NAMES, *WINDOW_NAMES, *_SPECIAL})
_WITH_WORDS = ("EXTRACT", "TRIM", "OVERLAY")  # among their arguments


def _with_words(parse_arguments: Callable[[SparkParser], exp.Expr], parser: SparkParser) -> exp.Expr:
    """A function that may have words among its arguments; without them it is one like others."""
    name = parser._tokens[parser._index - 2]
    found = parse_arguments(parser)
    if isinstance(found, exp.Trim) and all(key == "this" or part is None for key, part in found.args.items()):
        found = exp.Anonymous(expressions=[found.this])
    if isinstance(found, exp.Anonymous):
        found.set("this", name.text)
    return found.update_positions(name)


def _substring(parser: SparkParser) -> exp.Expr:
    """substring(s, 2, 3) or substring(s FROM 2 FOR 3)."""
    given = parser._parse_csv(parser._parse_disjunction)
    for word in (TokenType.FROM, TokenType.FOR):
        if len(given) <= 1 + (word is TokenType.FOR) and parser._match(word):
            given += [exp.Literal.number(1)] if word is TokenType.FOR and len(given) == 1 else []
            given += [part for part in [parser._parse_disjunction()] if part is not None]
    return exp.Anonymous(expressions=given)


def _position(parser: SparkParser) -> exp.Expr:
    """position('a' IN s) or position('a', s, 2)."""
    search = parser._parse_bitwise()
    if parser._match(TokenType.IN):
        return exp.Anonymous(expressions=[search, parser._parse_bitwise()])
    more = parser._parse_csv(parser._parse_disjunction) if parser._match(TokenType.COMMA) else []
    return exp.Anonymous(expressions=[search, *more])


class _Parser(SparkParser):
    """Leaves the functions of the language as they are written: sqlglot has trees of its own for many of them."""

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}  # it would lose a and b of `array(a, b)[1]`
    FUNCTIONS: ClassVar = {name: f for name, f in SparkParser.FUNCTIONS.items() if name.lower() not in _OWN}
    FUNCTION_PARSERS: ClassVar = {
        **{n: f for n, f in SparkParser.FUNCTION_PARSERS.items() if n.lower() not in _OWN},
        **{n: partial(_with_words, SparkParser.FUNCTION_PARSERS[n]) for n in _WITH_WORDS},
        **{n: partial(_with_words, _substring) for n in ("SUBSTRING", "SUBSTR")},
        "POSITION": partial(_with_words, _position),
    }


_SPARK = Spark()


class ParamPlace(NamedTuple):
    """Where a text uses a parameter."""

    name: str
    start: int  # of the colon
    end: int  # behind the name
    has_unit: bool  # whether a unit of time follows, as in INTERVAL :w MINUTES


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text and what it says, before it is checked against any schema."""

    text: str
    ast: exp.Expr  # of the text with its window clauses blanked out
    window: WindowClause | None  # BEGIN … END … of the whole query
    source_windows: tuple[SourceWindow, ...]  # in the order of the sources in the text
    params: tuple[str, ...]  # names, in order of first use
    param_starts: tuple[int, ...]  # where each is used first
    param_places: tuple[ParamPlace, ...]  # everywhere, in the order of the text
    depth_max: int  # how deep an expression may nest
    words: int  # how many the text has; no tree of it is much deeper
    lists: Lists  # the long lists of constants, which are not in `ast`

    def window_of(self, table: exp.Table) -> WindowClause | None:
        """The window that a source of `ast` has for itself."""
        start = table.this.meta.get("start")
        return next((w.clause for w in self.source_windows if w.table_start == start), None)


def parse(text: str, settings: Settings) -> Parsed:
    """Parse one query; everything that is wrong with the text alone is a RegisterError with its position."""
    if not isinstance(text, str):
        raise RegisterError(f"the SQL must be a text, got {type(text).__name__}")
    if len(text) > settings.sql_chars_max:
        raise RegisterError(
            f"the SQL text has {len(text):,} characters, at most {settings.sql_chars_max:,} are taken",
            hint="shorten it, or raise the setting sql_chars_max",
        )
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise refuse(text, "the SQL text holds a character that is no Unicode", e.start) from None
    settled = settle(text, _tokenise(text))
    tokens = settled.tokens
    if not tokens:
        raise RegisterError("the SQL text is empty", hint=_STATEMENTS)
    level, deepest = nesting(tokens)
    if level > settings.sql_depth_max:
        raise refuse(
            text,
            f"the SQL text nests {level:,} levels deep, at most {settings.sql_depth_max} are taken",
            deepest.start,
            "flatten the condition, or raise the setting sql_depth_max",
        )
    connectives = [token for token in tokens if token.token_type in (TokenType.AND, TokenType.OR)]
    if len(connectives) >= settings.sql_terms_max:
        raise refuse(
            text,
            f"the SQL text has {len(connectives):,} ANDs and ORs, at most {settings.sql_terms_max:,} are taken",
            connectives[settings.sql_terms_max - 1].start,
            "write a list with IN, register several queries, or raise the setting sql_terms_max",
        )
    _check_statement(text, tokens[0])
    _check_commas(text, tokens)
    _check_types(text, tokens)
    _check_placeholders(text, tokens)
    kept, of_query, of_sources = find_windows(text, tokens)
    short, lists = take_lists(kept)
    ast = _parse_tokens(text, short, blank(text, tokens, kept), level)
    dropped = with_room(lambda: fault(text, short, settled.joined), frames=level * _FRAMES_PER_LEVEL)
    if dropped is not None:
        raise dropped
    windows = align_windows(text, kept, of_sources, list(ast.find_all(exp.Table)))
    places = _param_places(text, tokens)
    params: dict[str, int] = {}
    for place in places:
        params.setdefault(place.name, place.start)
    return Parsed(
        text,
        ast,
        of_query,
        windows,
        tuple(params),
        tuple(params.values()),
        tuple(places),
        settings.sql_depth_max - 10,
        len(tokens),
        lists,
    )


def _tokenise(text: str) -> list[Token]:
    try:
        return _SPARK.tokenize(text)
    except SqlglotError as e:
        found = _MISSING.search(str(e.__cause__ or e))
        if found:
            # sqlglot counts the offset over the whole text, whatever the line.
            closing = found[1]
            raise refuse(text, f"a quotation opened here is never closed with {closing}", int(found[3])) from None
        raise _unsplit(text) from None
    except (ValueError, IndexError, OverflowError):
        raise _unsplit(text) from None


def _unsplit(text: str) -> RegisterError:
    comment = text.rfind("/*")
    if comment >= 0 and text.find("*/", comment) < 0:
        return refuse(text, "a comment opened here is never closed with */", comment)
    return refuse(text, "the SQL text cannot be split into words", 0, "is a comment or a quotation open?")


def _check_statement(text: str, first: Token) -> None:
    allowed = (TokenType.SELECT, TokenType.L_PAREN, TokenType.WITH, TokenType.SEMICOLON)
    if first.token_type not in allowed:
        raise refuse(text, f"a query cannot start with '{first.text[:40]}'", first.start, _STATEMENTS)


def _check_commas(text: str, tokens: Sequence[Token]) -> None:
    """sqlglot overlooks a comma with nothing behind it."""
    ends = (TokenType.FROM, TokenType.WHERE, TokenType.R_PAREN)
    for token, following in itertools.pairwise(tokens):
        if token.token_type is TokenType.COMMA and following.token_type in ends:
            raise refuse(text, "a comma has nothing behind it", token.start, "leave it out")
    if tokens[-1].token_type is TokenType.COMMA:
        raise refuse(text, "a comma has nothing behind it", tokens[-1].start, "leave it out")


def _check_placeholders(text: str, tokens: Sequence[Token]) -> None:
    """Parameters have names here."""
    for token in tokens:
        if token.token_type is TokenType.PLACEHOLDER:
            raise refuse(text, "'?' is no parameter here", token.start, "give it a name: :lo")


def _check_types(text: str, tokens: Sequence[Token]) -> None:
    """Types within types are no types here, and sqlglot takes seconds for a hundred of them."""
    nested = (TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT)
    for outer, bracket, inner in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if outer.token_type in nested and bracket.token_type is TokenType.LT and inner.token_type in nested:
            raise refuse(
                text, f"there is no type '{outer.text.lower()}' here", outer.start, "columns hold single values"
            )


_WORDS_OF_FUNCTIONS = (TokenType.WINDOW, TokenType.ARRAY, TokenType.STRUCT)


def _as_function(tokens: list[Token]) -> list[Token]:
    """The tokens with `window (`, `array (` and `struct (` as names of functions, and not of clauses or types."""
    found = list(tokens)
    for at, (token, following) in enumerate(itertools.pairwise(tokens)):
        if token.token_type in _WORDS_OF_FUNCTIONS and following.token_type is TokenType.L_PAREN:
            found[at] = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end, list(token.comments)
            )
    return found


def _parse_tokens(text: str, kept: list[Token], blanked: str, level: int) -> exp.Expr:
    def descend() -> list[exp.Expr | None]:
        return _Parser(dialect=_SPARK).parse(_as_function(kept), blanked)

    try:
        trees = with_room(descend, frames=level * _FRAMES_PER_LEVEL)
    except ParseError as e:
        raise _syntax_error(text, kept, e) from None
    except RecursionError:
        raise refuse(text, "the SQL text nests too deeply", kept[0].start, "flatten it") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError) as e:
        # sqlglot gives up on some malformed texts with errors of its own making; they are the text's fault.
        raise refuse(text, f"the SQL text is malformed ({type(e).__name__})", kept[0].start, _STATEMENTS) from None
    statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
    if not statements:
        raise RegisterError("the SQL text is empty", hint=_STATEMENTS)
    if len(statements) > 1:
        second = next((b for a, b in itertools.pairwise(kept) if a.token_type is TokenType.SEMICOLON), kept[-1])
        raise refuse(text, f"the text holds {len(statements)} statements", second.start, "register them one by one")
    return statements[0]


def _syntax_error(text: str, kept: Sequence[Token], error: ParseError) -> RegisterError:
    detail = error.errors[0] if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    word = str(detail.get("highlight") or "")
    what, hint = _explained(str(detail.get("description") or ""), word, kept)
    near = f" near '{word[:40]}'" if word else ""
    if not isinstance(line, int) or not isinstance(column, int):
        return refuse(text, f"{what}{near}", kept[0].start, hint)
    # sqlglot gives the column of a word's last character.
    return RegisterError(f"{what}{near}", line=line, column=max(1, column - len(word) + 1), hint=hint)


def _explained(description: str, word: str, kept: Sequence[Token]) -> tuple[str, str]:
    """sqlglot's complaint in the user's words, and what may help."""
    kinds = {t.token_type for t in kept}
    hint = "see docs/language.md for the grammar"
    if word.upper() in ("BEGIN", "END") or (TokenType.END in kinds and TokenType.CASE not in kinds):
        hint = "a window is written BEGIN … END … at the end; quote such a word with backticks if it is a name"
    if description.startswith("Required keyword"):
        return "an operand is missing", hint
    if description.startswith("Expecting )"):
        return "a parenthesis is not closed", hint
    if "TYPE after CAST" in description:
        return "CAST names no known type", "types: " + types.NAMES
    return "syntax error", hint


def _param_places(text: str, tokens: Sequence[Token]) -> list[ParamPlace]:
    """Where parameters are used, in the order of the text."""
    found = []
    for at, (token, name) in enumerate(itertools.pairwise(tokens)):
        if token.token_type is TokenType.PLACEHOLDER:
            raise refuse(text, "'?' is no parameter here", token.start, "give it a name: :lo")
        if token.token_type is TokenType.COLON:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name.text):
                raise refuse(
                    text, f"':{name.text[:30]}' is no parameter", token.start, "a name starts with a letter: :lo"
                )
            has_unit = at + 2 < len(tokens) and unit_us(tokens[at + 2].text) is not None
            found.append(ParamPlace(name.text, token.start, name.end + 1, has_unit))
    return found
