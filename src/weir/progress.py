"""Progress on long work: one line that is redrawn on a terminal, plain lines elsewhere, nothing when quiet.

Everything goes through one rich console, so that a line which is said while a live view is shown appears above it.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.table import Table

BAR_WIDTH = 30


class Progress:
    """Says what is being done and how long it took; cheap enough to call often."""

    def __init__(self, out: TextIO | None = None, *, quiet: bool = False) -> None:
        # Texts are shown as they are: SQL has brackets and colons that rich would take for its own.
        self.console = Console(
            file=out or sys.stderr, quiet=quiet, markup=False, emoji=False, highlight=False, soft_wrap=True
        )
        self._started = time.monotonic()
        self._status: Status | None = None  # the line that is redrawn

    @property
    def is_terminal(self) -> bool:
        """Whether something can be redrawn, and somebody sees it."""
        return self.console.is_terminal and not self.console.quiet

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(text)

    def bar(self, what: str, done: int, total: int) -> None:
        """Redraw a bar on a terminal; elsewhere only its end is printed. The time counts from where nothing is done."""
        if not done:
            self._started = time.monotonic()
        if done >= total:
            if self._status is not None:
                self._status.stop()
                self._status = None
            now = time.monotonic()
            self.say(f"{what}: {total:,} in {now - self._started:.1f} s")
            self._started = now
        elif self.is_terminal:
            line = Table.grid(padding=(0, 1))
            line.add_row(what, ProgressBar(total, done, width=BAR_WIDTH), f"{done:,} / {total:,}")
            if self._status is None:
                self._status = self.console.status(line)
                self._status.start()
            self._status.update(line)
