"""A weir's folder as those see it who only read: in workers of Spark, and in a process that publishes.

Nothing of Spark is needed, and nothing is written but caches. What is read is told by *places*: a batch, the clock
after it, and how many rows the streams had by then. So a task that runs twice, or later, reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec, TypeVar

from weir.answer.fetch import Standing, Token, moment
from weir.answer.standing import Library
from weir.errors import FeedError, StoreError
from weir.families.forms import with_known_strategies
from weir.settings import Settings
from weir.store.catalog import CatalogLog, identity
from weir.store.files import open_files
from weir.store.folds import folds
from weir.store.ledger import Ledger
from weir.store.registry import Registry
from weir.store.state import State

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Place:
    """How far a reader has got: behind a batch."""

    batch: int
    tau_us: int
    rows: Mapping[str, int] = field(default_factory=dict)  # by stream, the next row
    engine: str = ""  # which weir it is of; "": of any, where nobody has read anything

    @property
    def token(self) -> Token:
        """The same as answers know it."""
        return Token(self.batch, self.tau_us)

    def at(self, tau_us: int) -> Place:
        """The same batch, asked about another time."""
        return replace(self, tau_us=tau_us)

    def said(self) -> dict[str, Any]:
        """The same as what Spark keeps of it, an offset."""
        return asdict(self)


START = Place(-1, 0)  # where nobody has read anything


class Folder:
    """One weir, to be read by one thread."""

    def __init__(self, location: str) -> None:
        self.files = open_files(location)
        self.identity = identity(self.files, create=False)
        self.catalog_log = CatalogLog(self.files)
        self.registry = Registry(self.files)
        self.ledger = Ledger(self.files)
        self.state = State()
        self.library = Library(self.registry, self.catalog_log, with_known_strategies(Settings()))

    def newest(self) -> Place:
        """The end of the last batch."""
        self.state.refresh(self.ledger)
        return Place(self.state.last, moment(self.state, None), dict(self.state.row_counts), self.identity.engine)

    def require(self, place: Place) -> None:
        """FeedError unless this weir has been at a place."""
        if place.engine not in ("", self.identity.engine):
            raise FeedError(
                f"{self.files.location} is another weir than the one that was read before",
                hint="begin with a new checkpoint",
            )
        self._refreshed(place.batch)

    def standing(self, id: int) -> Standing:
        """The query, ready to be answered."""
        self.registry.refresh()
        return self.library.standing(id)

    def read(self, least: int, read: Callable[Concatenate[State, P], T], *args: P.args, **more: P.kwargs) -> T:
        """Read when batch `least` is known; once more if files expired and were removed while we read them."""
        before = self._refreshed(least)
        try:
            return read(self.state, *args, **more)
        except StoreError:
            if self.state.refresh(self.ledger) == before:
                raise
            return read(self.state, *args, **more)

    def _refreshed(self, least: int) -> int:
        """The last batch; FeedError if it is older than one that was there."""
        last = self.state.refresh(self.ledger)
        if last < least:
            raise FeedError(
                f"batch {least} was read before, but {self.files.location} ends with batch {last}",
                hint="the folder was restored from a backup: begin with a new checkpoint",
            )
        return last

    def tokens(self, after: Token, upto: Token) -> list[Token]:
        """The tokens of two batches and those between; a batch whose document was folded away has none."""
        between = [(batch, self.ledger.done(batch)) for batch in range(after.batch + 1, upto.batch)]
        known = self._documents_since()  # asked last: what a driver writes that slept through a fold is not believed
        told = [Token(b, done.now_us or 0) for b, done in between if done is not None and b >= known]
        return [after, *told, upto]

    def _documents_since(self) -> int:
        """The first batch whose documents are kept; those of the fold before the newest one are."""
        numbers = folds(self.files)
        return numbers[-2] if len(numbers) > 1 else 0


_opened = lru_cache(maxsize=8)(Folder)


def open_folder(location: str) -> Folder:
    """The folder at a place, opened once in a process, for workers of Spark run many tasks; and once more if it is
    another weir by now.
    """
    folder = _opened(location)
    if identity(folder.files, create=False) == folder.identity:
        return folder
    _opened.cache_clear()
    return _opened(location)


def ids_of(text: str) -> tuple[int, ...]:
    """The ids that an option lists, such as `7` or `3, 5, 10-19`."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.strip().isdigit() or (last and not last.strip().isdigit()):
            raise FeedError(f"'{text}' lists no queries", hint="write ids, such as 7 or 3,5,10-19")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1))
    if not found:
        raise FeedError(f"'{text}' lists no queries", hint="the first id of a range is the smaller one")
    return tuple(found)


def pieces(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Items in at most so many pieces of neighbours, of nearly equal length."""
    count = min(len(items), most)
    ends = [len(items) * k // count for k in range(count + 1)] if count else []
    return [items[a:b] for a, b in pairwise(ends)]
