"""Housekeeping: what the running job does beside its batches, on one thread of its own.

It turns match files into runs by query, for every channel that queries were registered on, and removes expired and
orphaned files. No batch waits for this work and no answer needs it; an error is kept for `progress`, and the work is
tried again later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from weir.errors import WeirError
from weir.settings import Settings
from weir.store.core_runs import compact
from weir.store.files import Files
from weir.store.ledger import Ledger
from weir.store.mapped import sweep
from weir.store.registry import Registry
from weir.store.state import State
from weir.store.vacuum import Removed, vacuum


class Housekeeping:
    """Works after every so many batches; never on two things at a time."""

    def __init__(
        self,
        files: Files,
        settings: Settings,
        registry: Registry | None = None,
        segments_in_use: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        self.files = files
        self.settings = settings
        self.error: str | None = None
        self._thread: ThreadPoolExecutor | None = None  # started when there is something to do
        self._under_way: Future[None] | None = None
        self._compacts = self._vacuums = False  # what is due and was not begun
        self._state = State()  # its own: the state is not for sharing between threads
        self._registry = registry or Registry(files)  # may be shared
        self._segments_in_use = segments_in_use

    def after(self, batch: int) -> None:
        """Called when a batch is done; starts what is due. What falls due while something is under way waits for it."""
        self._compacts |= _is_due(batch, self.settings.compact_every_batches)
        self._vacuums |= _is_due(batch, self.settings.vacuum_every_batches)
        if not (self._compacts or self._vacuums) or (self._under_way is not None and not self._under_way.done()):
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weir-housekeeping")
        self._under_way = self._thread.submit(self._work, self._compacts, self._vacuums, batch)
        self._compacts = self._vacuums = False

    def _work(self, compacts: bool, vacuums: bool, batch: int) -> None:
        errors = []
        for due, work in ((compacts, self._compact), (vacuums, self._vacuum)):
            try:
                if due:
                    work(batch)
            except Exception as error:  # whatever it is, the job goes on, and `progress` says what it was
                errors.append(str(error) if isinstance(error, WeirError) else f"{type(error).__name__}: {error}")
        self.error = "; ".join(errors) or None

    def _compact(self, batch: int) -> None:
        self._state.refresh(Ledger(self.files))
        self._registry.refresh()
        for channel in sorted({channel for group in self._registry.groups() for channel in group.channels}):
            compact(self.files, self._state, channel)

    def _vacuum(self, batch: int) -> None:
        ledger = Ledger(self.files)
        self._state.refresh(ledger)
        # Spark has committed the batch before this one; what that one had consumed may go.
        before = ledger.done(batch - 1)
        consumed = before.inbox_next if before is not None else 0
        in_use = self._segments_in_use()
        vacuum(self.files, self._state, time.time(), self.settings, consumed, in_use)
        sweep()

    def close(self) -> None:
        """Wait for what is under way."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True)


def _is_due(batch: int, every: int) -> bool:
    return every > 0 and (batch + 1) % every == 0


def vacuum_now(files: Files, settings: Settings) -> Removed:
    """One vacuum at a user's request; pushed rows stay, because only the running job knows Spark's commits."""
    state = State()
    state.refresh(Ledger(files))
    return vacuum(files, state, time.time(), settings, inbox_committed=0)
