"""Tokens one after the other, as words of Spark's grammar: `Reader`.

A word is the upper-cased text of a keyword, name or sign; a backquoted name, a text and a number have none, so that
they are never taken for a keyword. sqlglot's tokens of several words (`GROUP BY`) are split. Cost: O(1) for each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_QUOTED = frozenset({TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING})
# Words that are no names here, although Spark lets most of them be.
_RESERVED_WORDS = (
    "ALL AND AS BETWEEN BY CASE DISTINCT ELSE EXISTS FROM GROUP HAVING IN IS JOIN LIKE NOT NULL ON OR ORDER SELECT "
    "THEN UNION USING WHEN WHERE"
)
_RESERVED = frozenset(_RESERVED_WORDS.split())


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class UnreadableError(Exception):
    """The grammar ends at a token."""

    def __init__(self, at: int, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint


class Reader:
    def __init__(self, tokens: Sequence[Token], joined: frozenset[int]) -> None:
        self.tokens: list[Token] = []
        self.words: list[str] = []
        self.joined = joined  # where texts start that are several literals
        for token in tokens:
            quoted = token.token_type in _QUOTED
            parts = [""] if quoted else token.text.upper().split() or [token.text]
            if self.tokens and parts[0] in ("<", ">") and self._goes_on(token, parts[0]):
                self.words[-1] += parts[0]  # << and >>, of which there are no tokens
                continue
            self.tokens += [token] * len(parts)
            self.words += parts
        self.at = 0

    def _goes_on(self, token: Token, sign: str) -> bool:
        return self.words[-1] in (sign, 2 * sign) and self.tokens[-1].start + len(self.words[-1]) == token.start

    def word(self, ahead: int = 0, *, at: int | None = None) -> str:
        place = (self.at if at is None else at) + ahead
        return self.words[place] if 0 <= place < len(self.words) else ""

    def kind(self) -> TokenType | None:
        return self.tokens[self.at].token_type if self.at < len(self.tokens) else None

    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def start(self, at: int) -> int:
        """Where a token stands in the text; behind the last one when there is none."""
        if at < len(self.tokens):
            return self.tokens[at].start
        return self.tokens[-1].start if self.tokens else 0

    def spelled(self, at: int) -> str:
        return self.tokens[at].text[:40] if at < len(self.tokens) else ""

    def unreadable(self, at: int | None = None, message: str = "", hint: str = "") -> UnreadableError:
        return UnreadableError(self.at if at is None else at, message, hint)

    def advance(self, count: int = 1) -> bool:
        self.at += count
        return True

    def take(self, *words: str) -> bool:
        """Take these words if they follow."""
        if self.words[self.at : self.at + len(words)] != list(words):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.unreadable()

    def is_name(self) -> bool:
        if self.kind() is TokenType.IDENTIFIER:
            return True
        word = self.word()
        return bool(word) and word not in _RESERVED and _PLAIN.fullmatch(word) is not None

    def name(self, *, after_dot: bool = False) -> None:
        """A name; behind a point, or AS, every word is one."""
        if not (self.is_name() or (after_dot and _PLAIN.fullmatch(self.word()))):
            raise self.unreadable()
        self.at += 1

    def commas(self, item: Callable[[], object]) -> None:
        item()
        while self.take(","):
            item()

    def in_parentheses(self, item: Callable[[], object]) -> None:
        self.need("(")
        item()
        self.need(")")
