"""The inbox: the embedded, durable source. A push is one data file and one numbered ticket that names it.

    inbox/data/000000000042-<token>.arrow   the rows, an uncompressed Arrow IPC file, written for ticket 42
    inbox/000000000042                      the ticket: {stream, path, rows}; its number orders all pushes
    inbox/released/000000000003             tickets [first, next) are consumed and gone; their tokens in order

Both are sealed documents (`weir.store.documents`), and the data file's name says its checksum. A ticket does not
follow the one before it: a push waits for nobody, and tickets go as they are consumed. Its witness tells that one is
lost.

A push is acknowledged when its ticket exists; the data file is durable before that. Tickets have no gaps. A
reader starts at the ledger's `inbox_next`, since older tickets may be released.

Deleting tickets frees their numbers again, and a pusher that slept through the release could create ticket 42
a second time: acknowledged, and never read. So a release first writes down which tokens it releases, and a
pusher that got its ticket then looks at the newest release. If its number lies below, either the list names
its token (the push was taken and is consumed) or it does not (the number was dead: push again, with a higher one).
Exactly one of the two is true, because the list is durable before the first ticket is deleted.

Data files carry the number they were written for: one whose ticket names another file, or is released, can
never be named any more. That, and not its age, is what lets vacuum remove it while pushers sleep.

Cost: two durable files a push, O(log pushes) probes for a process's first push, three after that; a conflict
writes the data once more. A released ticket costs 35 bytes for ever.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.errors import StoreError
from weir.store.arrow import to_ipc
from weir.store.data_files import batch_of_path, data_path
from weir.store.documents import (
    RESTORE,
    ROOT,
    create_document,
    delete_document,
    exists_document,
    read_document,
)
from weir.store.files import Files, reach
from weir.store.ledger import last_number
from weir.store.row_files import read_table

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Ticket:
    """One push."""

    number: int
    stream: str
    path: str  # of the Arrow IPC file
    rows: int


@dataclass(frozen=True, slots=True)
class Release:
    """Tickets first … next − 1 are consumed and may be gone."""

    first: int
    next: int
    tokens: tuple[str, ...]


class Inbox:
    """The pushes of one weir; any number of processes may push, and threads share one."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._lock = threading.Lock()  # over the newest release and its floor, which belong together
        self._last = -1  # the highest ticket known to have existed
        self._released = -1  # the highest release known to exist
        self._floor = 0  # tickets below this are released, as far as we know

    def push(self, stream: str, table: pa.Table) -> int:
        """Store rows; returns the ticket's number. They are durable and will be read exactly once."""
        data = to_ipc(table)
        number = self.next(self._last + 1)
        while True:
            path = data_path("inbox/data", number, data)
            token = token_of(path)
            self.files.write(path, data)
            ticket = {"format": FORMAT, "stream": stream, "path": path, "rows": table.num_rows}
            if not self._create(ticket_path(number), ticket):
                self.files.delete(path)
                number = self.next(number + 1)
                continue
            self._refresh_floor()
            if number >= self._floor or self._was_released(number, token):
                self._last = max(self._last, number)
                return number
            number = self.next(self._floor)  # that number was dead: nobody reads its ticket

    def ticket(self, number: int) -> Ticket | None:
        """The ticket, or None if it was not pushed yet, or is released."""
        path = ticket_path(number)
        try:
            found = self._read(path)
        except StoreError:
            if number >= self.released():
                raise
            return None  # it is released: whoever pushed it wrote its witness late
        return None if found is None else Ticket(number, *_fields(path, found, "stream", "path", "rows"))

    def next(self, start: int) -> int:
        """The first number at or after `start` that has no ticket and never had one."""
        self._refresh_floor()
        known = max(start, self._floor) - 1
        return last_number(lambda n: exists_document(self.files, ticket_path(n)), known) + 1

    def read(self, ticket: Ticket) -> pa.Table:
        """The rows of a push, memory-mapped."""
        return read_table(self.files, ticket.path)

    def release(self, below: int) -> int:
        """Forget the tickets below a number and their rows. Only after the batches that read them are done
        and Spark has logged their commit. Returns how many files were deleted; safe to repeat, or to race.
        """
        self._refresh_floor()
        if below > self._floor:
            tokens = []
            for number in range(self._floor, below):
                ticket = self.ticket(number)
                if ticket is None:
                    self._refresh_floor()  # somebody else released it meanwhile
                    if number < self._floor:
                        return self.release(below)
                    raise StoreError(f"ticket {number} is missing, yet not released", hint=RESTORE)
                tokens.append(token_of(ticket.path))
            content = {"format": FORMAT, "first": self._floor, "next": below, "tokens": tokens}
            path = release_path(self._released + 1)
            if not self._create(path, content):
                return self.release(below)
            self._refresh_floor()
            reach("mid-release")
        return self._delete_released()

    def dead_data(self) -> list[str]:
        """Data files that no ticket can ever name: what crashed pushes and lost races left behind."""
        found = []
        floor = self.released()
        for entry in self.files.list("inbox/data"):
            number = batch_of_path(entry.path)
            ticket = None if number is None or number < floor else self.ticket(number)
            taken = ticket is not None and ticket.path != entry.path
            if number is None or number < floor or taken:
                found.append(entry.path)
        return found

    def released(self) -> int:
        """Tickets below this number are released."""
        self._refresh_floor()
        return self._floor

    def _refresh_floor(self) -> None:
        with self._lock:
            last = last_number(lambda n: exists_document(self.files, release_path(n)), self._released)
            if last > self._released:
                newest = self._release(last)
                self._released, self._floor = last, newest.next
                self._last = max(self._last, newest.next - 1)

    def _release(self, index: int) -> Release:
        path = release_path(index)
        found = self._read(path)
        if found is None:
            raise StoreError(f"{path} is missing", hint=RESTORE)
        first, end, tokens = _fields(path, found, "first", "next", "tokens")
        return Release(first, end, tuple(tokens))

    def _was_released(self, number: int, token: str) -> bool:
        """Whether a ticket below the floor is ours and consumed. Looks back from the newest release."""
        for index in range(self._released, -1, -1):
            release = self._release(index)
            if number >= release.first:
                return number < release.next and release.tokens[number - release.first] == token
        return False

    def _delete_released(self) -> int:
        """Remove what releases name. By listing, so that a release that died half-way is finished too."""
        deleted = 0
        for entry in list(self.files.list("inbox")):
            name = entry.path.removeprefix("inbox/")
            if name.isdigit() and int(name) < self._floor:
                ticket = self.ticket(int(name))
                if ticket is not None:
                    self.files.delete(ticket.path)
                    delete_document(self.files, entry.path)
                    deleted += 2
        for entry in list(self.files.list("seals/inbox")):  # pushers that slept wrote their witness after the release
            name = entry.path.removeprefix("seals/inbox/")
            if name.isdigit() and int(name) < self._floor:
                self.files.delete(entry.path)
        return deleted

    def _create(self, path: str, content: dict[str, Any]) -> bool:
        body = json.dumps(content, separators=(",", ":")).encode()
        return create_document(self.files, path, ROOT, body) is not None

    def _read(self, path: str) -> bytes | None:
        found = read_document(self.files, path)
        return None if found is None else bytes(found.body)


def ticket_path(number: int) -> str:
    return f"inbox/{number:012d}"


def release_path(index: int) -> str:
    return f"inbox/released/{index:012d}"


def token_of(path: str) -> str:
    """What tells the data file of a push from all others."""
    return path.rpartition("/")[2].partition("-")[2].partition("-")[0]


def _fields(path: str, data: bytes, *names: str) -> list[Any]:
    """The named fields of a document."""
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise StoreError(f"{path} has format {content['format']}, this version reads {FORMAT}")
        return [content[name] for name in names]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not readable: {error!r}", hint=RESTORE) from error
