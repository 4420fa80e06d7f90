"""Tokens as Spark has them: what sqlglot's tokenizer leaves for its parser to guess is settled here.

Spark 4 reads two quotes inside a literal as one (`'O''Hare'`), literals that follow each other as one text, `r'…'`
as written, and names outside ASCII only in backticks. `settle` gives tokens in which each text is one STRING token and
each number one NUMBER, so that nothing after it needs to know. Invariant: tokens start and end where they stood.
Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from weir.sql.position import refuse

_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_QUOTES = "'\""


@dataclass(frozen=True, slots=True)
class Settled:
    """Tokens, and which of them are several literals one after the other (by where they start)."""

    tokens: list[Token]
    joined: frozenset[int]


def settle(text: str, tokens: Sequence[Token]) -> Settled:
    """The tokens with texts and numbers in one piece; RegisterError for names that Spark takes in backticks only."""
    kept: list[Token] = []
    joined: set[int] = set()
    raw = False  # whether the text that ended last was r'…'
    for token in tokens:
        before = kept[-1] if kept else None
        if token.token_type in _TEXTS:
            if before is not None and before.token_type is TokenType.STRING:
                quote = "" if raw else _doubled(text, before, token)
                raw = token.token_type is TokenType.RAW_STRING
                if not quote:
                    joined.add(before.start)
                kept[-1] = _token(TokenType.STRING, before.text + quote + token.text, before, token)
                continue
            raw = token.token_type is TokenType.RAW_STRING
            token = _token(TokenType.STRING, token.text, token, token)
        elif token.token_type is TokenType.NUMBER and _is_point(before, token):
            assert before is not None
            kept[-1] = _token(TokenType.NUMBER, "." + token.text, before, token)
            continue
        elif token.token_type is not TokenType.IDENTIFIER and not token.text.isascii():
            raise refuse(text, f"the name {token.text[:40]} needs backticks", token.start, f"write `{token.text[:40]}`")
        kept.append(token)
    return Settled(kept, frozenset(joined))


def _doubled(text: str, before: Token, token: Token) -> str:
    """The quote that two quotes inside one literal stand for; '' between two literals."""
    opening = text[token.start]
    inside = before.end + 1 == token.start and opening in _QUOTES and text[before.end] == opening
    return opening if inside else ""


def _is_point(before: Token | None, token: Token) -> bool:
    """Whether the token before is the point of `.5`."""
    return before is not None and before.token_type is TokenType.DOT and before.end + 1 == token.start


def _token(kind: TokenType, text: str, first: Token, last: Token) -> Token:
    return Token(kind, text, last.line, last.col, first.start, last.end, [*first.comments, *last.comments])
