"""What the word `window` or `session_window` stands for in a SELECT: a stretch of time, with its edges.

`sql/time_windows` works a stretch out from its call; after that the word is a name like others, `window.start` and
`window.end` are its edges, and the word alone is the pair of both.
"""

from __future__ import annotations

from typing import NamedTuple

from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Call, Expression, Literal
from weir.algebra.schema import STRING
from weir.sql.scope import NameFaultError

STRETCHES = ("window", "session_window")  # functions whose value is a pair of times


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

    def part(self, name: str) -> Expression:
        """The edge that `window.name` is; without a name the whole."""
        if not name:
            return self.whole
        if name.lower() not in ("start", "end"):
            raise NameFaultError(f"{self.word} is a pair of times", f"write {self.word}.start and {self.word}.end")
        return self.end if name.lower() == "end" else self.begin
