"""Housekeeping: what the running job does beside its batches, on one thread of its own.

Match files are turned into runs by query, expired and orphaned files are removed. Nothing here is on the path of
a batch, nothing here is needed for an answer; what goes wrong is kept for `progress` and tried again later.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from weir.errors import WeirError
from weir.settings import Settings
from weir.store.catalog import CatalogLog
from weir.store.files import Files
from weir.store.ledger import Ledger
from weir.store.runs import compact
from weir.store.state import State
from weir.store.vacuum import Removed, vacuum


class Housekeeping:
    """Does its work after every so many batches; never two at a time."""

    def __init__(self, files: Files, settings: Settings) -> None:
        self.files = files
        self.settings = settings
        self.error: str | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weir-housekeeping")
        self._under_way: Future[None] | None = None
        self._state = State()  # its own: the state is not for sharing between threads

    def after(self, batch: int) -> None:
        """Called when a batch is done; starts what is due unless something is still under way."""
        compacts = self.settings.compact_every_batches and (batch + 1) % self.settings.compact_every_batches == 0
        vacuums = self.settings.vacuum_every_batches and (batch + 1) % self.settings.vacuum_every_batches == 0
        if not (compacts or vacuums) or (self._under_way is not None and not self._under_way.done()):
            return
        self._under_way = self._thread.submit(self._work, bool(compacts), bool(vacuums), batch)

    def _work(self, compacts: bool, vacuums: bool, batch: int) -> None:
        try:
            ledger = Ledger(self.files)
            self._state.refresh(ledger)
            if compacts:
                for stream in CatalogLog(self.files).read().streams.values():
                    compact(self.files, self._state, stream.name)
            if vacuums:
                # Spark has committed the batch before this one; what that one had consumed may go.
                before = ledger.done(batch - 1)
                vacuum(
                    self.files,
                    self._state,
                    time.time(),
                    self.settings,
                    inbox_committed=before.inbox_next if before is not None else 0,
                )
            self.error = None
        except WeirError as error:
            self.error = str(error)

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown(wait=True)


def vacuum_now(files: Files, settings: Settings) -> Removed:
    """One vacuum at a user's request; pushed rows stay, because only the running job knows Spark's commits."""
    state = State()
    state.refresh(Ledger(files))
    return vacuum(files, state, time.time(), settings, inbox_committed=0)
