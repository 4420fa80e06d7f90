"""Long lists of constants, taken out of the tokens before anything parses them: `take_lists`.

    x IN ('a', 'b', …, 'z')     becomes     x IN (:0_list)

where 0_list is no name that a parameter may have. sqlglot makes a tree of objects for each constant, which takes longer
than all else together. Only plain texts and numbers are taken; a list with anything else in it is parsed as it stands.
Cost: linear in the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from weir.sql.sets import SMALL

Lists = dict[str, tuple[tuple[bool, str], ...]]  # by name: for each constant whether it is a text, and its text

_PLAIN = frozenset({TokenType.STRING, TokenType.NUMBER})


def take_lists(tokens: Sequence[Token]) -> tuple[list[Token], Lists]:
    """The tokens without the constants of long lists, and these."""
    kept: list[Token] = []
    lists: Lists = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        kept.append(token)
        at += 1
        if token.token_type is TokenType.IN and at < len(tokens) and tokens[at].token_type is TokenType.L_PAREN:
            found, behind = _constants(tokens, at + 1)
            if len(found) > SMALL:
                name = f"{len(lists)}_list"
                lists[name] = tuple(found)
                kept += [
                    tokens[at],
                    _token(TokenType.COLON, ":", tokens[at + 1]),
                    _token(TokenType.VAR, name, tokens[at + 1]),
                ]
                at = behind
    return kept, lists


def _constants(tokens: Sequence[Token], at: int) -> tuple[list[tuple[bool, str]], int]:
    """The constants from here to a closing parenthesis, and where that is; none if there is anything else."""
    found: list[tuple[bool, str]] = []
    while at + 1 < len(tokens):
        token = tokens[at]
        sign = ""
        if token.token_type is TokenType.DASH and tokens[at + 1].token_type is TokenType.NUMBER:
            sign, at = "-", at + 1
            token = tokens[at]
        if token.token_type not in _PLAIN or at + 1 >= len(tokens):
            return [], at
        found.append((token.token_type is TokenType.STRING, sign + token.text))
        following = tokens[at + 1].token_type
        if following is TokenType.R_PAREN:
            return found, at + 1
        if following is not TokenType.COMMA:
            return [], at
        at += 2
    return [], at


def _token(kind: TokenType, text: str, place: Token) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end)
