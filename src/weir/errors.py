"""Every error that a user can meet: one base, one subclass for each stage.

A message names the stage, the thing, what was expected, what was found and what to do, and for SQL the
position: `register: column 'prize' is not in stream 'trade' (name, price, area, ts), line 1, column 34;
did you mean 'price'?`. Our own mistakes are assertions, never one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class WeirError(Exception):
    """Base of all errors that Weir raises on purpose."""

    stage: ClassVar[str] = "weir"

    def __init_subclass__(cls, *, stage: str | None = None) -> None:
        super().__init_subclass__()
        cls.stage = stage or cls.stage

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, hint: str = "") -> None:
        self.line = line
        self.column = column
        self.hint = hint
        position = f", line {line}, column {column}" if line is not None else ""
        tail = f"; {hint}" if hint else ""
        super().__init__(f"{self.stage}: {message}{position}{tail}")


class OpenError(WeirError, stage="open"):
    """The folder or its settings cannot be used."""


class StreamError(WeirError, stage="stream"):
    """A stream or table definition is wrong or conflicts with an earlier one."""


class PushError(WeirError, stage="push"):
    """Pushed rows do not fit their stream; none of them was taken."""


class RegisterError(WeirError, stage="register"):
    """A query's text is malformed, does not type-check, or cannot be executed yet; nothing was registered."""


class QueryError(WeirError, stage="query"):
    """There is no such query, or it was dropped."""


class FetchError(WeirError, stage="fetch"):
    """An answer was asked for that cannot be given whole."""


class FeedError(WeirError, stage="feed"):
    """What another engine asked for cannot be given: an option is wrong, or a batch is not known any more."""


class TooLargeError(WeirError, stage="evaluate"):
    """An expression would make values that do not fit into the memory they may take."""


class RunError(WeirError, stage="run"):
    """The streaming job cannot start or cannot go on."""


class FencedError(RunError):
    """Another driver committed the batch that this one was working on."""


class StoreError(WeirError, stage="store"):
    """A file of the ledger, the registry or the rows is missing or damaged."""


class DiskError(StoreError):
    """The disk is full, or does not let us write; what was there before is as it was."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt name, or nothing."""
    close = difflib.get_close_matches(word.lower(), [k.lower() for k in known], n=1, cutoff=0.6)
    if not close:
        return ""
    original = next(k for k in known if k.lower() == close[0])
    return f"did you mean '{original}'?"
