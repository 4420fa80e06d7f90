"""Ticks of a job that is idle: Spark makes no batch when no data come, so the run puts a tick into the inbox.

A thread of the run waits until nothing has happened for `idle_s`, then ticks once. It does not tick again before a
batch has begun: where Spark makes batches rarely, ticks do not pile up in the inbox.
A tick that cannot be written (the disk is full, say) is tried again after the same time, and the job goes on.

Cost: a wait that times out every `idle_s`; nothing if `idle_s` is 0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from weir.errors import WeirError


class IdleTicks:
    """Calls `tick` when no batch ran for `idle_s`, from `start` to `close` or until the run is not active any more.

    A tick that says False was not needed yet; it is asked for again after the same time.
    """

    def __init__(self, idle_s: float, tick: Callable[[], bool | None], is_active: Callable[[], bool]) -> None:
        self.error: str | None = None  # of the last tick
        self._idle_s = min(idle_s, threading.TIMEOUT_MAX)
        self._tick = tick
        self._is_active = is_active
        self._changed = threading.Condition()
        self._changes = 0  # batches that began and that ended
        self._in_batch = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look, also once more after `close` or when the run had ended."""
        self.close()
        if self._idle_s > 0:
            self._is_closed = False
            self._thread = threading.Thread(target=self._run, name="weir-idle", daemon=True)
            self._thread.start()

    def batch_began(self) -> None:
        """What was put in before may be in this batch."""
        self._note(is_in_batch=True)

    def batch_ended(self) -> None:
        """From now on the job is idle."""
        self._note(is_in_batch=False)

    def _note(self, *, is_in_batch: bool) -> None:
        with self._changed:
            self._in_batch = is_in_batch
            self._changes += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, and wait for a tick that is under way."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        ticked = -1  # when we ticked last, counted in changes
        while not self._is_closed:
            with self._changed:
                seen = self._changes
                is_idle = self._is_quiet_since(seen)
                may_tick = not self._in_batch and ticked != seen
            if is_idle and not self._is_running():
                return
            if is_idle and may_tick and self._try():
                ticked = seen

    def _is_quiet_since(self, seen: int) -> bool:
        """Wait for `idle_s`; False as soon as a batch begins or ends, or the ticks are closed."""
        return not self._changed.wait_for(lambda: self._is_closed or self._changes != seen, self._idle_s)

    def _is_running(self) -> bool:
        try:
            return self._is_active()
        except Exception:  # Spark itself is gone, and the run with it
            return False

    def _try(self) -> bool:
        try:
            ticked = self._tick() is not False
        except Exception as error:  # whatever it is, the job goes on, and `progress` says what it was
            self.error = str(error) if isinstance(error, WeirError) else f"{type(error).__name__}: {error}"
            return False
        self.error = None
        return ticked
