"""The inbox: the embedded, durable source. A push is one data file and one numbered ticket that names it.

    inbox/data/000000000042-<token>.arrow   the rows, an uncompressed Arrow IPC file, written for ticket 42
    inbox/000000000042                      the ticket: {stream, path, rows}; its number orders all pushes
    inbox/released/000000000003             tickets below `next` are consumed and gone; whose pushers are `waiting`

Tickets and releases are sealed documents (`weir.store.documents`), and the data file's name says its checksum. A ticket
does not follow the one before it: a push waits for nobody, and tickets go as they are consumed. Its witness tells that
one is lost. Should the witness be lost with it, or never have been written, the tickets after it do: whoever first asks
for the end of the inbox lists it, and a run asks for the ticket after the one it waits for. And should a release be
lost with its witness, the ledger knows which tickets were consumed: no push takes such a number.

A push is acknowledged when its ticket exists; the data file is durable before that. Tickets have no gaps. A
reader starts at the ledger's `inbox_next`, since older tickets may be released.

Deleting tickets frees their numbers again, and a pusher that slept through the release could create ticket 42
a second time: acknowledged, and never read. So a pusher that got its ticket looks at the newest release, and only then
writes the ticket's witness. If its number lies below `next`, the ticket was consumed, or the number was dead when the
pusher took it. The release tells which: it names the number and the token of every consumed ticket that had no
witness yet. A named pusher is done, another one pushes again, with a higher number. The release is durable before the
first ticket is deleted, and nobody but a pusher that is done writes a witness, so exactly one of the two is true.

A release has everything that releases before it still have to say: a pusher stays named until its witness is seen. So
only the newest one counts, and all but the last two are removed. Pushers that died between ticket and witness stay
named; of those the newest WAITING_MAX are kept. Who comes back when its place in the list is gone is told that nobody
knows. A vacuum that slept may create a release under a number that was removed: nobody believes it, because a higher
one exists.

Data files carry the number they were written for: one whose ticket names another file, or is released, can
never be named any more. That, and not its age, is what lets vacuum remove it while pushers sleep.

An advance of the clock is a push, too: of one row, to a stream whose name no user's stream can have. So it is ordered,
taken, released and checked as all pushes are, and costs what they cost.

Cost: two durable files a push, a listing of the inbox and O(log pushes) probes for a process's first push, three after
that, and two listings of a few names; a conflict writes the data once more. A released ticket costs nothing.
"""

from __future__ import annotations

import itertools
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
    create_witness,
    delete_document,
    exists_document,
    numbers_in,
    read_document,
    witness_path,
)
from weir.store.files import Files, reach
from weir.store.ledger import Ledger, last_number
from weir.store.row_files import read_table

FORMAT = 3
RELEASED = "inbox/released"
CLOCK = "the clock"  # the stream of advances; names of streams have no blanks
ADVANCE = "now_us"  # its only column: where the clock is at least; NULL moves nothing
WAITING_MAX = 1_000  # pushers that died between ticket and witness, of which a release keeps 50 bytes each


@dataclass(frozen=True, slots=True)
class Ticket:
    """One push."""

    number: int
    stream: str
    path: str  # of the Arrow IPC file
    rows: int


@dataclass(frozen=True, slots=True)
class Release:
    """Tickets below `next` are consumed and may be gone."""

    index: int  # its own number; −1: nothing was released yet
    next: int
    waiting: dict[int, str]  # number → token of consumed tickets whose pushers may not know it
    forgotten: int  # below this number `waiting` may lack some


class Inbox:
    """The pushes of one weir; any number of processes may push, and threads share one."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._lock = threading.Lock()  # over the newest release, which never goes back
        self._last = -1  # the highest ticket known to have existed
        self._newest = Release(-1, 0, {}, 0)  # as far as we know
        self._consumed: int | None = None  # tickets below were consumed when we first looked

    def push(self, stream: str, table: pa.Table) -> int:
        """Store rows; returns the ticket's number. They are durable and will be read exactly once."""
        data = to_ipc(table)
        number = self.next(self._last + 1)
        while True:
            path = data_path("inbox/data", number, data)
            self.files.write(path, data)
            content = _dump({"stream": stream, "path": path, "rows": table.num_rows})
            seal = create_document(self.files, ticket_path(number), ROOT, content, is_witnessed=False)
            if seal is None:
                self.files.delete(path)
                number = self.next(number + 1)
                continue
            newest = self._refresh()
            if number >= newest.next or newest.waiting.get(number) == token_of(path):
                create_witness(self.files, ticket_path(number), seal)
                self._last = max(self._last, number)
                return number
            if number < newest.forgotten:
                raise StoreError(
                    f"ticket {number} was released while this push slept, and it is not known whether its rows were "
                    "taken",
                    hint="look whether they are there before you push them again",
                )
            number = self.next(newest.next)  # that number was dead: nobody reads its ticket

    def advance(self, time_us: int | None) -> int:
        """Store that the clock is at least here; returns the ticket's number. None only makes a batch happen."""
        return self.push(CLOCK, pa.table({ADVANCE: pa.array([time_us], pa.int64())}))

    def ticket(self, number: int) -> Ticket | None:
        """The ticket, or None if it was not pushed yet, or is released."""
        path = ticket_path(number)
        try:
            found = read_document(self.files, path)
        except StoreError:
            if number >= self.released():
                raise
            return None  # it is released: whoever pushed it wrote its witness late
        return None if found is None else Ticket(number, *_fields(path, found.body, "stream", "path", "rows"))

    def next(self, start: int) -> int:
        """The first number at or after `start` that has no ticket and never had one."""
        while True:
            floor = self.released()
            try:
                known = max(start, floor, self._consumed or 0) - 1
                found = last_number(lambda n: exists_document(self.files, ticket_path(n)), known) + 1
                if self._consumed is not None:
                    return found
                consumed = self._consumed_by_ledger()
                self._require_gapless(max(floor, consumed))
                self._consumed = consumed
            except StoreError:
                if self.released() == floor:
                    raise  # else it is released: whoever pushed it wrote its witness late

    def _consumed_by_ledger(self) -> int:
        """Tickets below this number were taken by batches that are done."""
        ledger = Ledger(self.files)
        done = ledger.done(ledger.last_done())
        return 0 if done is None else done.inbox_next

    def _require_gapless(self, first: int) -> None:
        """StoreError if a ticket is lost and one after it is there."""
        names = (entry.path.removeprefix("inbox/") for entry in self.files.list("inbox"))
        listed = sorted(number for number in (int(name) for name in names if name.isdigit()) if number >= first)
        for before, number in itertools.pairwise([first - 1, *listed]):
            if number > before + 1:
                self.require_there(before + 1, number)

    def require_there(self, number: int, later: int | None = None) -> None:
        """StoreError if a ticket is lost: there is none of this number, though there is one after it."""
        after = number + 1 if later is None else later
        if self.files.exists(ticket_path(after)) and self.ticket(number) is None and number >= self.released():
            raise StoreError(
                f"{ticket_path(number)} is missing, though {ticket_path(after)} was pushed after it", hint=RESTORE
            )

    def read(self, ticket: Ticket) -> pa.Table:
        """The rows of a push, memory-mapped."""
        return read_table(self.files, ticket.path)

    def release(self, below: int) -> int:
        """Forget the tickets below a number and their rows. Only after the batches that read them are done
        and Spark has logged their commit. Returns how many files were deleted; safe to repeat, or to race.
        """
        while below > (before := self._refresh()).next:
            content = self._release_of(before, below)
            if content is not None:
                path = release_path(before.index + 1)
                if create_document(self.files, path, ROOT, content) is not None:
                    self._refresh()
                    reach("mid-release")
        return self._delete_released()

    def _release_of(self, before: Release, below: int) -> bytes | None:
        """What the next release says; None if somebody else has released some of it meanwhile."""
        witnessed = self._witnessed()  # what a listing misses waits for the next release
        waiting = {number: token for number, token in before.waiting.items() if number not in witnessed}
        for number in range(before.next, below):
            ticket = self.ticket(number)
            if ticket is None:
                if number < self.released():
                    return None
                raise StoreError(f"ticket {number} is missing, yet not released", hint=RESTORE)
            if number not in witnessed:
                waiting[number] = token_of(ticket.path)
        numbers = sorted(waiting)
        kept = numbers[-WAITING_MAX:]
        forgotten = max(before.forgotten, kept[0] if len(kept) < len(numbers) else 0)
        return _dump({"next": below, "waiting": [[n, waiting[n]] for n in kept], "forgotten": forgotten})

    def _witnessed(self) -> set[int]:
        """The numbers of tickets whose pushers are done."""
        names = (entry.path.removeprefix("seals/inbox/") for entry in self.files.list("seals/inbox"))
        return {int(name) for name in names if name.isdigit()}

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
        return self._refresh().next

    def _refresh(self) -> Release:
        """The newest release: a listing says where to begin to look, in case that older ones are removed."""
        while True:
            listed = numbers_in(self.files, RELEASED)
            try:
                known = max([self._newest.index, *listed])
                last = last_number(lambda n: exists_document(self.files, release_path(n)), known)
                if last <= self._newest.index:
                    return self._newest
                newest = self._release(last)
            except StoreError:
                if numbers_in(self.files, RELEASED) == listed:
                    raise
                continue  # it was removed for newer ones
            with self._lock:
                if newest.index > self._newest.index:
                    self._newest = newest
                    self._last = max(self._last, newest.next - 1)

    def _release(self, index: int) -> Release:
        path = release_path(index)
        found = read_document(self.files, path)
        if found is None:
            raise StoreError(f"{path} is missing", hint=RESTORE)
        end, waiting, forgotten = _fields(path, found.body, "next", "waiting", "forgotten")
        return Release(index, end, dict(waiting), forgotten)

    def _delete_released(self) -> int:
        """Remove what is released. By listing, so that a release that died half-way is finished too."""
        newest = self._newest
        deleted = 0
        for entry in list(self.files.list("inbox")):
            name = entry.path.removeprefix("inbox/")
            if name.isdigit() and int(name) < newest.next:
                ticket = self.ticket(int(name))
                if ticket is not None:
                    self.files.delete(ticket.path)
                    if int(name) in newest.waiting:
                        self.files.delete(entry.path)  # not its witness: that tells the next release who is done
                    else:
                        delete_document(self.files, entry.path)
                    deleted += 2
        for number in self._witnessed():  # pushers that slept write theirs after the release
            if number < newest.next and number not in newest.waiting:
                self.files.delete(witness_path(ticket_path(number)))
        for index in numbers_in(self.files, RELEASED)[:-2]:
            delete_document(self.files, release_path(index))
        return deleted


def ticket_path(number: int) -> str:
    return f"inbox/{number:012d}"


def release_path(index: int) -> str:
    return f"{RELEASED}/{index:012d}"


def token_of(path: str) -> str:
    """What tells the data file of a push from all others."""
    return path.rpartition("/")[2].partition("-")[2].partition("-")[0]


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **content}, separators=(",", ":")).encode()


def _fields(path: str, data: memoryview, *names: str) -> list[Any]:
    """The named fields of a document."""
    try:
        content = json.loads(bytes(data))
        if content["format"] != FORMAT:
            raise StoreError(f"{path} has format {content['format']}, this version reads {FORMAT}")
        return [content[name] for name in names]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not readable: {error!r}", hint=RESTORE) from error
