"""Progress on long work: one line that is redrawn on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Says what is being done and how long it took; cheap enough to call often."""

    def __init__(self, out: TextIO | None = None, *, quiet: bool = False) -> None:
        self.out = out or sys.stderr
        self.quiet = quiet
        self.is_terminal = self.out.isatty()
        self._started = time.monotonic()
        self._shown_s = 0.0

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self._clear()
            print(text, file=self.out, flush=True)

    def bar(self, what: str, done: int, total: int) -> None:
        """Redraw a bar (terminals only, at most ten times a second; elsewhere only the end is printed)."""
        if self.quiet:
            return
        now = time.monotonic()
        if done >= total:
            self.say(f"{what}: {total:,} in {now - self._started:.1f} s")
            self._started = now
        elif self.is_terminal and now - self._shown_s > 0.1:
            filled = int(30 * done / max(1, total))
            self._clear()
            self.out.write(f"{what} [{'█' * filled}{'·' * (30 - filled)}] {done:,} / {total:,}")
            self.out.flush()
            self._shown_s = now

    def _clear(self) -> None:
        if self.is_terminal:
            self.out.write("\r\x1b[2K")
