"""Window clauses: found among the tokens, read, and taken out of what sqlglot will parse.

    SELECT … BEGIN edge END edge                      one window for every stream of the query (PSoup, section 3.1)
    FROM trade [RANGE 1 HOUR] t                       (τ − 1 hour, τ] for this source only
    FROM trade t [ROWS 100]                           its last 100 rows
    FROM trade t [BEGIN edge END edge]                a window of its own, in PSoup's words

An edge is `NOW`, `NOW ± length`, an instant (`TIMESTAMP '…'`, `'…'`, seconds since the epoch) or `:parameter`.
A window covers begin < t <= end. Constant edges make a snapshot, a constant begin and `END NOW` a landmark
window, `NOW` on both sides a sliding one.

`BEGIN` and `END` may also be names: a clause opens only where no name can stand, directly behind an operand.
Cost: one pass over the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from weir.errors import RegisterError
from weir.sql import literals
from weir.sql.position import refuse

_OPENING_WORDS = (
    "ALIAS ALL AMP AND BETWEEN CARET CASE COLON COMMA CROSS DASH DCOLON DISTINCT DIV DOT DPIPE ELSE EQ "
    "EXCEPT FROM GROUP_BY GT GTE HAVING ILIKE IN INTERSECT INTERVAL IS JOIN LIKE LT LTE L_BRACKET L_PAREN "
    "MOD NEQ NOT NULLSAFE_EQ ON OR ORDER_BY PARAMETER PIPE PLUS RLIKE SELECT SLASH STAR THEN TILDE UNION "
    "WHEN WHERE "
)
# After one of these an operand or a name must come, so BEGIN is a name there; anywhere else it opens a window.
_NAME_FOLLOWS = frozenset(t for t in TokenType if t.name in _OPENING_WORDS.split())


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a time window as it was written."""

    relative: bool  # counted from NOW
    offset_us: int  # from NOW when relative, else since the epoch; 0 where a parameter stands
    param: str | None  # the parameter's name
    unit_us: int  # what a number given for the parameter counts; negative after `NOW -`
    start: int  # where it stands in the text


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window as it was written: times (begin, end], or the last `rows` rows."""

    begin: Edge | None
    end: Edge | None  # None is END NOW
    rows: int | None
    rows_param: str | None
    start: int  # where it stands in the text


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """The window of one source; `table_start` is the offset of that source's name in FROM."""

    table_start: int
    clause: WindowClause


def find_windows(
    text: str, tokens: Sequence[Token]
) -> tuple[list[Token], WindowClause | None, list[tuple[int, WindowClause]]]:
    """The tokens without the window clauses, the clause for the whole query, and the bracketed ones.

    A bracketed clause comes with the number of kept tokens before it.
    """
    kept: list[Token] = []
    of_sources: list[tuple[int, WindowClause]] = []
    of_query: WindowClause | None = None
    depth = 0
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.token_type is TokenType.L_BRACKET and _word(tokens, at + 1) in ("RANGE", "ROWS", "BEGIN"):
            reader = _Reader(text, tokens, at + 1)
            clause = reader.bracket(token.start)
            of_sources.append((len(kept), clause))
            at = reader.at
            continue
        if token.token_type is TokenType.BEGIN and kept and not _opens_a_name(kept):
            if depth:
                raise refuse(
                    text,
                    "BEGIN … END … belongs to the whole query, not into parentheses",
                    token.start,
                    "put it at the end of the text, or give one source its own window: FROM trade [RANGE 1 HOUR]",
                )
            reader = _Reader(text, tokens, at)
            of_query = reader.begin_end(token.start)
            at = reader.at
            while at < len(tokens) and tokens[at].token_type is TokenType.SEMICOLON:
                at += 1
            if at < len(tokens):
                raise refuse(
                    text,
                    f"{_spell(tokens[at])} cannot follow BEGIN … END …",
                    tokens[at].start,
                    "the window clause is the last part of a query",
                )
            break
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        kept.append(token)
        at += 1
    return kept, of_query, of_sources


def _opens_a_name(kept: Sequence[Token]) -> bool:
    """Whether a name must come behind these tokens; ALL ends a clause in GROUP BY ALL."""
    if kept[-1].token_type is TokenType.ALL and len(kept) > 1 and kept[-2].token_type is TokenType.GROUP_BY:
        return False
    return kept[-1].token_type in _NAME_FOLLOWS


def align_windows(
    text: str, kept: Sequence[Token], found: Sequence[tuple[int, WindowClause]], tables: Sequence[exp.Table]
) -> tuple[SourceWindow, ...]:
    """Each bracketed window with the source it stands behind: `name [`, `name alias [` or `name AS alias [`."""
    token_at = {token.start: i for i, token in enumerate(kept)}
    place_of = {token_at[start]: t for t in tables if (start := t.this.meta.get("start")) in token_at}
    windows: dict[int, SourceWindow] = {}
    for place, clause in found:
        before = max((at for at in place_of if at < place), default=-1)
        between = [t.text for t in kept[before + 1 : place]]
        table = place_of.get(before)
        if table is None or (between and not (between[-1] == table.alias and len(between) <= 2)):
            raise refuse(
                text,
                "a window in brackets belongs behind a stream's name or its alias in FROM",
                clause.start,
                "for example: FROM trade [RANGE 1 HOUR] t",
            )
        if before in windows:
            raise refuse(text, f"source '{table.name}' has two windows", clause.start, "keep one of them")
        windows[before] = SourceWindow(kept[before].start, clause)
    return tuple(windows[at] for at in sorted(windows))


def blank(text: str, tokens: Sequence[Token], kept: Sequence[Token]) -> str:
    """The text with every token that was not kept overwritten by spaces; newlines stay, so positions do too."""
    if len(tokens) == len(kept):
        return text
    stays = {t.start for t in kept}
    pieces: list[str] = []
    done = 0
    for token in tokens:
        if token.start not in stays and token.start >= done:
            pieces.append(text[done : token.start])
            pieces.append("".join(c if c == "\n" else " " for c in text[token.start : token.end + 1]))
            done = token.end + 1
    pieces.append(text[done:])
    return "".join(pieces)


def _word(tokens: Sequence[Token], at: int) -> str:
    if at >= len(tokens) or tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return ""
    return tokens[at].text.upper()


def _spell(token: Token) -> str:
    return f"'{token.text}'"


class _Reader:
    """Reads one window clause token by token; every departure from the grammar is an error with its position."""

    def __init__(self, text: str, tokens: Sequence[Token], at: int) -> None:
        self.text = text
        self.tokens = tokens
        self.at = at

    def bracket(self, start: int) -> WindowClause:
        word = _word(self.tokens, self.at)
        if word == "BEGIN":
            clause = self.begin_end(start)
        else:
            self.at += 1
            clause = self._rows(start) if word == "ROWS" else self._range(start)
        self._expect("]", "the window ends with ']'")
        return clause

    def begin_end(self, start: int) -> WindowClause:
        self.at += 1
        begin = self._edge()
        self._expect("END", "a window is written BEGIN … END …, for example BEGIN NOW - INTERVAL 1 HOUR END NOW")
        end_is_now = self._is_bare_now()
        end = self._edge()
        return WindowClause(begin, None if end_is_now else end, None, None, start)

    def _range(self, start: int) -> WindowClause:
        edge_start = self._start()
        if _word(self.tokens, self.at) == "INTERVAL":
            self.at += 1
        length, param, unit = self._length(unit_needed=True)
        if param is None and length <= 0:
            raise self._fail("a window of RANGE needs a length above 0", edge_start, "for example [RANGE 1 HOUR]")
        return WindowClause(Edge(True, -length, param, -unit, edge_start), None, None, None, start)

    def _rows(self, start: int) -> WindowClause:
        if self._at_param():
            return WindowClause(None, None, None, self._param(), start)
        token = self._next("a number of rows", "for example [ROWS 100]")
        if token.token_type is not TokenType.NUMBER or not (token.text.isascii() and token.text.isdigit()):
            raise self._fail(
                f"ROWS takes a whole number of rows above 0, got {_spell(token)}",
                token.start,
                "for example [ROWS 100]",
            )
        if len(token.text) > 18 or int(token.text) == 0:
            raise self._fail(
                f"ROWS takes 1 to 10^18 rows, got {token.text[:30]}", token.start, "for example [ROWS 100]"
            )
        return WindowClause(None, None, int(token.text), None, start)

    def _edge(self) -> Edge:
        start = self._start()
        if self._take("("):
            edge = self._edge()
            self._expect(")", "the parenthesis in the window clause stays open")
            return edge
        if self._at_param():
            return Edge(False, 0, self._param(), literals.SECOND_US, start)
        if self._is_now():
            return self._relative(start)
        return self._absolute(start)

    def _relative(self, start: int) -> Edge:
        self.at += 1
        if self._take("("):
            self._expect(")", "NOW takes no arguments")
        sign = {"+": 1, "-": -1}.get(_word(self.tokens, self.at))
        if sign is None:
            return Edge(True, 0, None, literals.SECOND_US, start)
        self.at += 1
        length, param, unit = self._signed_length()
        return Edge(True, sign * length, param, sign * unit, start)

    def _signed_length(self) -> tuple[int, str | None, int]:
        if self._take("("):
            inner = self._signed_length()
            self._expect(")", "the parenthesis in the window clause stays open")
            return inner
        if _word(self.tokens, self.at) == "INTERVAL":
            self.at += 1
            return self._length(unit_needed=True)
        return self._length(unit_needed=False)

    def _length(self, *, unit_needed: bool) -> tuple[int, str | None, int]:
        """(µs, None, 1 s) for a constant length, (0, name, unit) for a parameter."""
        hint = "write a number and a unit: INTERVAL 5 MINUTES; a bare number counts seconds"
        if self._at_param():
            name = self._param()
            unit = self._unit() if unit_needed else literals.SECOND_US
            return 0, name, unit
        start = self._start()
        sign = "-" if self._take("-") else ""
        token = self._next("a length of time", hint)
        count = sign + token.text.strip()
        if token.token_type is TokenType.STRING and len(count.split()) == 2:
            count, word = count.split()
            unit = self._unit_of(word, token.start)
        elif token.token_type in (TokenType.NUMBER, TokenType.STRING):
            unit = self._unit() if unit_needed else literals.SECOND_US
        else:
            raise self._fail(f"expected a length of time, got {_spell(token)}", token.start, hint)
        length = literals.microseconds(count, unit)
        if length is None:
            raise self._fail(f"'{count[:40]}' is no length of time in whole microseconds within 64 bits", start, hint)
        return length, None, literals.SECOND_US

    def _unit(self) -> int:
        token = self._next("a unit of time", "units: " + _units())
        return self._unit_of(token.text, token.start)

    def _unit_of(self, word: str, start: int) -> int:
        return read_unit(self.text, word, start)

    def _absolute(self, start: int) -> Edge:
        hint = (
            "an edge is NOW, NOW - INTERVAL 1 HOUR, TIMESTAMP '2026-01-31 12:00:00', seconds since the epoch, or :name"
        )
        if _word(self.tokens, self.at) == "TIMESTAMP":
            self.at += 1
        sign = "-" if self._take("-") else ""
        token = self._next("a window edge", hint)
        moment: int | None = None
        if token.token_type is TokenType.STRING and not sign:
            moment = literals.timestamp(token.text)
        elif token.token_type is TokenType.NUMBER:
            moment = literals.microseconds(sign + token.text, literals.SECOND_US)
        if moment is None:
            raise self._fail(f"{_spell(token)} is no window edge", token.start, hint)
        return Edge(False, moment, None, literals.SECOND_US, start)

    def _is_now(self) -> bool:
        return _word(self.tokens, self.at) == "NOW"

    def _is_bare_now(self) -> bool:
        """NOW or NOW() with nothing added: the end that needs no constant."""
        at = self.at
        while _word(self.tokens, at) == "(":
            at += 1
        if _word(self.tokens, at) != "NOW":
            return False
        at += 1
        while _word(self.tokens, at) in ("(", ")"):
            at += 1
        return _word(self.tokens, at) not in ("+", "-")

    def _at_param(self) -> bool:
        return _word(self.tokens, self.at) == ":"

    def _param(self) -> str:
        self.at += 1
        token = self._next("a parameter's name", "a parameter is written :name")
        return token.text

    def _start(self) -> int:
        return self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)

    def _take(self, word: str) -> bool:
        if _word(self.tokens, self.at) == word:
            self.at += 1
            return True
        return False

    def _expect(self, word: str, hint: str) -> None:
        if not self._take(word):
            got = _spell(self.tokens[self.at]) if self.at < len(self.tokens) else "the end of the text"
            raise self._fail(f"expected '{word}' in a window clause, got {got}", self._start(), hint)

    def _next(self, wanted: str, hint: str) -> Token:
        if self.at >= len(self.tokens):
            raise self._fail(f"expected {wanted} in a window clause, got the end of the text", len(self.text), hint)
        self.at += 1
        return self.tokens[self.at - 1]

    def _fail(self, message: str, start: int, hint: str) -> RegisterError:
        return refuse(self.text, message, start, hint)


def read_unit(text: str, word: str, start: int | None) -> int:
    """Microseconds of a unit word; months and years are refused with the reason."""
    unit = literals.unit_us(word)
    if unit is not None:
        return unit
    if word.upper() in literals.UNEVEN_UNITS:
        raise refuse(
            text,
            f"an interval in {word.lower()} has no fixed length",
            start,
            "write it in days, for example INTERVAL 30 DAYS",
        )
    raise refuse(text, f"'{word[:30]}' is no unit of time", start, "units: " + _units())


def _units() -> str:
    return ", ".join(name.lower() for name in literals.UNITS_US)
