"""Folds: what the ledger's documents add up to, written down as truth, so that old documents can go.

    ledger/folds/000000001023   the state after batch 1023, sealed; it follows the done document of that batch

A fold is made every so many batches. When a second one is durable, the documents that the first covers are removed, and
so are older folds: readers that lag still have a whole fold of documents, and so has who mends a damaged one. So the
ledger holds the documents of one to two folds, however long a weir runs.

Why nobody mistakes a removal for the end of the ledger: documents are removed in order, so a reader that finds nothing
after batch n, and finds batch n itself as it read it, is at the end; if batch n is gone, it was overtaken, and starts
from the newest fold (`State.refresh`). A removed name is free again: a driver that slept through all of that may create
a plan or a done document a second time. No reader believes it, because the document before it is gone or is another
one, and the driver finds that there is a fold beyond its batch and stops (`weir.runtime.loop`). Removing may be
repeated, may race, and may die half-way. Listings are hints: what one misses is removed another time.
"""

from __future__ import annotations

from weir.errors import StoreError
from weir.store.documents import RESTORE, Document, create_document, delete_document, numbers_in, read_document
from weir.store.files import Files, reach

FOLDER = "ledger/folds"


def fold_path(batch: int) -> str:
    return f"{FOLDER}/{batch:012d}"


def folds(files: Files) -> list[int]:
    """The batches after which there are folds, ascending."""
    return numbers_in(files, FOLDER)


def newest_fold(files: Files, above: int) -> tuple[int, Document] | None:
    """The newest fold, if it is of a batch above `above`; StoreError if it is lost or damaged."""
    while True:
        numbers = folds(files)
        if not numbers or numbers[-1] <= above:
            return None
        found = read_document(files, fold_path(numbers[-1]))
        if found is not None:
            return numbers[-1], found
        if folds(files) == numbers:  # it is listed, yet was not removed for a newer one
            raise StoreError(f"{fold_path(numbers[-1])} is missing", hint=RESTORE)


def create_fold(files: Files, batch: int, head: str, body: bytes, every: int) -> None:
    """Write down the state after a batch if it is time, and remove what is covered twice.

    `head` is the seal of the batch's done document.
    """
    numbers = folds(files)
    if batch - (numbers[-1] if numbers else -1) >= every:
        create_document(files, fold_path(batch), head, body)
        numbers.append(batch)
    if len(numbers) < 2:
        return
    for number in numbers[:-2]:
        delete_document(files, fold_path(number))
    covered = numbers[-2]
    places = ("ledger", "seals/ledger")
    paths = {e.path.removeprefix("seals/") for place in places for e in files.list(place)}
    named = (path.removeprefix("ledger/") for path in paths)
    batches = {int(name.partition(".")[0]) for name in named if name.partition(".")[0].isdigit()}
    for number in sorted(n for n in batches if n < covered):
        for ending in ("plan", "done"):  # a done document without its plan is not believed
            delete_document(files, f"ledger/{number:012d}.{ending}")
        reach("mid-vacuum")
