"""Where in the SQL text something stands, and the error that says so.

Everything is a character offset into the text that the user gave; lines and columns (both from 1) are
computed only when an error is raised. Window clauses are blanked out with spaces of the same length before
sqlglot parses the rest, therefore sqlglot's offsets are offsets into the user's text too.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from weir.errors import RegisterError

_NAMED = ("STRING", "IDENTIFIER")
_MESSAGE_CHARS_MAX = 1_000


def line_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both counted from 1."""
    offset = max(0, min(offset, len(text)))
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


def start_of(node: exp.Expr) -> int | None:
    """The first character of a parsed node, as far as its parts carry positions."""
    starts = [n.meta["start"] for n in node.walk() if n.meta.get("start") is not None]
    return min(starts) if starts else None


def keyword_start(text: str, words: Collection[str]) -> int | None:
    """Where one of these keywords (upper case) stands first; the text must be one that parses."""
    found = (t.start for t in Spark().tokenize(text) if t.text.upper() in words and t.token_type.name not in _NAMED)
    return next(found, None)


def refuse(text: str, message: str, offset: int | None, hint: str = "") -> RegisterError:
    """The error for a fault at `offset`; raise what this returns. Names may be as long as the text: they are cut."""
    message, hint = _cut(message), _cut(hint)
    if offset is None:
        return RegisterError(message, hint=hint)
    line, column = line_column(text, offset)
    return RegisterError(message, line=line, column=column, hint=hint)


def _cut(words: str) -> str:
    return words if len(words) <= _MESSAGE_CHARS_MAX else words[:_MESSAGE_CHARS_MAX] + " …"
