"""A walk over the whole truth: every document has its seal and follows the one before it, every file fits its name.

`weir check` prints what it finds. It believes no cache, changes nothing, and goes on after the first fault, so that one
walk names all files that must come from a backup. It may run beside a job; files that expire meanwhile are not missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weir.errors import StoreError, WeirError
from weir.store.catalog import WEIR, identity
from weir.store.catalog import path_of as catalog_path
from weir.store.data_files import checked_path, forget_checks, said_of
from weir.store.documents import ROOT, numbers_in, read_document
from weir.store.files import Files
from weir.store.folds import fold_path, folds
from weir.store.inbox import RELEASED, Inbox, release_path
from weir.store.ledger import Ledger, done_path, plan_path
from weir.store.registry import path_of as registry_path
from weir.store.segment_files import map_arrays
from weir.store.state import State

_FOLDERS = ("rows", "matches", "late", "kept", "inbox/data")
_SAY_EVERY = 1_000  # files


@dataclass
class Findings:
    """What a walk has seen."""

    documents: int = 0
    files: int = 0
    size: int = 0  # bytes of data files
    wrong: dict[str, str] = field(default_factory=dict)  # path → what is wrong with it

    def note(self, path: str, error: WeirError) -> None:
        self.wrong.setdefault(path, str(error).removeprefix(f"{error.stage}: "))


def check(files: Files, say: Callable[[str], None] = lambda _: None) -> Findings:
    """Look at everything that is truth."""
    found = Findings()
    forget_checks()
    _document(files, WEIR, None, found)
    try:
        identity(files, create=False)
    except WeirError as error:
        found.note(WEIR, error)
    for path_of in (catalog_path, registry_path):
        _chain(files, path_of, found)
        say(f"{found.documents:,} documents")
    _ledger(files, found)
    _inbox(files, found)
    say(f"{found.documents:,} documents")
    for folder in _FOLDERS:
        for entry in files.list(folder):
            _data(files, entry.path, found)
            if found.files % _SAY_EVERY == 0:
                say(f"{found.files:,} files, {found.size >> 20:,} MiB")
    _named(files, found)
    return found


def _document(files: Files, path: str, before: str | None, found: Findings) -> str | None:
    """Look at one document; its seal, or None if there is none or it is damaged."""
    try:
        document = read_document(files, path, before)
    except StoreError as error:
        found.note(path, error)
        return None
    found.documents += document is not None
    return None if document is None else document.seal


def _chain(files: Files, path_of: Callable[[int], str], found: Findings) -> None:
    last = _last(files, path_of(0).rpartition("/")[0])
    before: str | None = ROOT
    for number in range(last + 1):
        before = _document(files, path_of(number), before, found)  # None: what follows a damaged one is not known
        if before is None and path_of(number) not in found.wrong:
            found.wrong[path_of(number)] = f"{path_of(number)} is missing, though a later document is there"


def _last(files: Files, folder: str) -> int:
    """The largest number in a folder of documents or of their witnesses."""
    return max(_numbers(files, folder), default=-1)


def _numbers(files: Files, folder: str) -> set[int]:
    """The numbers of documents, or of witnesses, in a folder itself."""
    paths = (e.path.removeprefix("seals/") for place in (folder, f"seals/{folder}") for e in files.list(place))
    names = (path.removeprefix(f"{folder}/").partition(".")[0] for path in paths)
    return {int(name) for name in names if name.isdigit()}


def _ledger(files: Files, found: Findings) -> None:
    folded = folds(files)
    for batch in folded:
        _document(files, fold_path(batch), None, found)
    numbers = _numbers(files, "ledger")
    first, last = min(numbers, default=0), max(numbers, default=-1)
    before: str | None = None if folded else ROOT
    if first > 0 and not any(first - 1 <= batch <= last for batch in folded):
        found.wrong[plan_path(first - 1)] = f"{plan_path(first - 1)} is missing, and no fold covers it"
    covered = folded[-2] if len(folded) > 1 else -1  # what is before may be half removed
    for batch in range(max(first, covered) if folded else 0, last + 1):
        for path in (plan_path(batch), done_path(batch)):
            if path == done_path(last) and not files.exists(path) and not files.exists(f"seals/{path}"):
                return  # the batch at hand is planned and not done
            before = _document(files, path, before, found)
            if before is None and folds(files)[-2:-1] > [batch]:  # it was removed while we looked
                found.wrong.pop(path, None)
            elif before is None and path not in found.wrong:
                found.wrong[path] = f"{path} is missing, though a later document is there"


def _inbox(files: Files, found: Findings) -> None:
    inbox = Inbox(files)
    for index in numbers_in(files, RELEASED)[-2:]:
        _document(files, release_path(index), None, found)
    try:
        for number in range(inbox.released(), _last(files, "inbox") + 1):
            ticket = inbox.ticket(number)
            if ticket is None and number >= inbox.released():
                found.wrong[f"inbox/{number:012d}"] = f"ticket {number} is missing, though a later one is there"
            found.documents += ticket is not None
            if ticket is not None:
                checked_path(files, ticket.path)
    except StoreError as error:
        found.note("inbox", error)


def _data(files: Files, path: str, found: Findings) -> None:
    """Look at one data file; it may expire while we look."""
    try:
        size, checksum = said_of(path)
        if path.endswith(".csr"):
            map_arrays(checked_path(files, path, whole=False), verify=True, expected=checksum)
        else:
            checked_path(files, path)
        found.files += 1
        found.size += size
    except StoreError as error:
        if files.exists(path):
            found.note(path, error)


def _named(files: Files, found: Findings) -> None:
    """Every file that done documents name, and that has not expired, is there."""
    state = State()
    try:
        state.refresh(Ledger(files), caches_allowed=False)
    except StoreError as error:
        found.note("ledger", error)
        return
    for path in sorted(state.named()):
        if not files.exists(path):
            state.refresh(Ledger(files), caches_allowed=False)
            if path in state.named():
                found.wrong.setdefault(path, f"file '{path}' is missing, though a done document names it")
