"""How deep a text nests, and room on the stack for it.

Depth is counted on tokens, before anything recursive sees them: open parentheses and brackets, plus the run of
prefix operators (NOT, -, +, ~) in front of the current word, plus open CASEs. Long flat chains do not nest there, but
those of other operators than AND and OR are deep trees: `node_below` measures these with a loop.

Python's default limit of 1,000 frames allows sqlglot about 40 levels. A deeper text is parsed in a thread with
a large stack of its own while the limit is raised, so that the caller's stack is never at risk.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

T = TypeVar("T")

_OPENS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSES = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_SIGNS = frozenset({TokenType.DASH, TokenType.PLUS})
_OPERAND_ENDS = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET}
)
_STACK_BYTES_MIN, _STACK_BYTES_MAX, _STACK_BYTES_PER_FRAME = 64 << 20, 512 << 20, 4_096
_FRAMES_FREE = 600  # below this the caller's own stack is surely enough
_lock = threading.Lock()


def nesting(tokens: Iterable[Token]) -> tuple[int, Token]:
    """The deepest level and the token that reaches it."""
    level = deepest = run = 0
    where: Token | None = None
    before: TokenType | None = None
    open_weights: list[tuple[bool, int]] = []  # (is it a CASE, levels it added)
    for token in tokens:
        where = where or token
        kind = token.token_type
        if kind in _PREFIXES and not (kind in _SIGNS and before in _OPERAND_ENDS):
            run += 1
        else:
            if kind in _OPENS:
                open_weights.append((kind is TokenType.CASE, 1 + run))
                level += 1 + run
            elif open_weights and (kind is TokenType.END if open_weights[-1][0] else kind in _CLOSES):
                level -= open_weights.pop()[1]
            run = 0
        if level + run > deepest:
            deepest, where = level + run, token
        before = kind
    assert where is not None, "an empty text has no nesting"
    return deepest, where


def node_below(tree: exp.Expr, levels_max: int) -> exp.Expr | None:
    """A node more than so many levels below the top of a tree, if there is one; a chain of AND or OR is one level."""
    stack: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while stack:
        node, level = stack.pop()
        if level > levels_max:
            return node
        for child in node.iter_expressions():
            flat = isinstance(node, (exp.Paren, exp.Subquery, exp.Alias)) or (
                isinstance(node, (exp.And, exp.Or)) and type(child) in (type(node), exp.Paren)
            )
            stack.append((child, level + (0 if flat else 1)))
    return None


def with_room(work: Callable[[], T], frames: int) -> T:
    """Run `work` where it may use `frames` Python frames; its exceptions come back as they are."""
    if frames <= _FRAMES_FREE:
        return work()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as e:  # handed to the caller below, whatever it is
            failure.append(e)

    with _lock:
        limit_before, stack_before = sys.getrecursionlimit(), threading.stack_size()
        sys.setrecursionlimit(max(limit_before, frames + 1_000))
        threading.stack_size(min(_STACK_BYTES_MAX, max(_STACK_BYTES_MIN, frames * _STACK_BYTES_PER_FRAME)))
        try:
            thread = threading.Thread(target=run, name="weir-parse")
            thread.start()
            thread.join()
        finally:
            threading.stack_size(stack_before)
            sys.setrecursionlimit(limit_before)
    if failure:
        raise failure[0]
    return outcome[0]
