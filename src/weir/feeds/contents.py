"""What a feed holds: answers, their changes, matches, rows of a stream, or the list of queries.

Each is cut into parts that any worker can read: all of what is there (`parts`), or what came between two places
(`steps`). What a part gives does not depend on who reads it, and when. What came and is not kept any more is an error,
never less. A reader that begins gets what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import Column
from weir.answer.fetch import Token, answer_as_of, changes_between
from weir.answer.listing import listing
from weir.errors import FeedError
from weir.feeds.folder import Folder, Place, open_folder, pieces
from weir.store.row_files import arrow_type
from weir.store.state import State

PARTS_MAX = 32  # tasks that share the work
CAME, WENT = 1, -1


class Content(Protocol):
    """What can be read of a weir at once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    def parts(self) -> Sequence[Any]:
        """Pieces of all of it; each can be pickled, and is read by itself."""
        ...

    def read(self, part: Any) -> Iterator[pa.Table]:
        """The rows of one piece."""
        ...


class Steps(Protocol):
    """What can be read of a weir as it comes."""

    @property
    def location(self) -> str:
        """Where the weir is."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    def steps(self, after: Place, upto: Place) -> Sequence[Any]:
        """Pieces of what came between two places."""
        ...

    def read(self, part: Any) -> Iterator[pa.Table]:
        """The rows of one piece."""
        ...


def beside(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names for our columns beside a user's: one that is taken, in any case of letters, ends in `_`."""
    known, found = {name.lower() for name in taken}, []
    for name in names:
        while name.lower() in known:
            name += "_"
        known.add(name.lower())
        found.append(name)
    return found


def _columns_of(folder: Folder, ids: Sequence[int]) -> list[Column]:
    """The columns of the answers of some queries; they must be the same ones."""
    folder.registry.refresh()
    first_of = {folder.library.group_of(id).number: id for id in reversed(ids)}  # queries of a group are alike
    found = {id: folder.standing(id).query.output for id in sorted(first_of.values(), key=ids.index)}
    (first, columns), *others = found.items()
    wanted = [(c.name, c.type) for c in columns]
    for other, theirs in others:
        if [(c.name, c.type) for c in theirs] != wanted:
            shown = [", ".join(f"{c.name} {c.type}" for c in of) for of in (columns, theirs)]
            raise FeedError(
                f"queries {first} and {other} have answers with different columns: ({shown[0]}) and ({shown[1]})",
                hint="read them one by one",
            )
    return list(columns)


def _answer_schema(columns: Sequence[Column]) -> list[pa.Field]:
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    return [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in fields]  # Spark has no such rows


@dataclass(frozen=True)
class Answers:
    """The answers of queries at one token; with the query's id before each row, if there are several."""

    location: str
    ids: tuple[int, ...]
    seen: Token
    schema: pa.Schema

    @classmethod
    def of(cls, folder: Folder, ids: tuple[int, ...], seen: Place) -> Answers:
        own = _answer_schema(_columns_of(folder, ids))
        head = beside(["query"], [f.name for f in own]) if len(ids) > 1 else []
        fields = [*(pa.field(name, pa.int64()) for name in head), *own]
        return cls(folder.files.location, ids, seen.token, pa.schema(fields))

    def parts(self) -> Sequence[Sequence[int]]:
        return pieces(self.ids, PARTS_MAX)

    def read(self, part: Sequence[int]) -> Iterator[pa.Table]:
        folder = open_folder(self.location)
        for id in part:
            answer = folder.read(self.seen.batch, self._answer, folder, id)
            head = [pa.repeat(id, answer.num_rows)] if len(self.ids) > 1 else []
            yield pa.table([*head, *answer.columns], names=self.schema.names)

    def _answer(self, state: State, folder: Folder, id: int) -> pa.Table:
        return answer_as_of(folder.standing(id), folder.files, state, self.seen)


@dataclass(frozen=True)
class AnswerChanges:
    """What came to answers and went from them, batch by batch; first all that is there comes."""

    location: str
    ids: tuple[int, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, folder: Folder, ids: tuple[int, ...]) -> AnswerChanges:
        own = _answer_schema(_columns_of(folder, ids))
        query, batch, change = beside(["query", "batch", "change"], [f.name for f in own])
        head = [pa.field(query, pa.int64()), pa.field(batch, pa.int64()), pa.field(change, pa.int32())]
        return cls(folder.files.location, ids, pa.schema([*head, *own]))

    def steps(self, after: Place, upto: Place) -> Sequence[Sequence[tuple[int, Token, Token]]]:
        """For each query, the pairs of tokens between which it may have changed."""
        begun = after.batch >= 0
        ends = (after.token, upto.token)
        tokens = open_folder(self.location).tokens(*ends) if begun else ends
        pairs = list(pairwise(tokens))
        return pieces([(id, *pair) for id in self.ids for pair in pairs], PARTS_MAX)

    def read(self, part: Sequence[tuple[int, Token, Token]]) -> Iterator[pa.Table]:
        folder = open_folder(self.location)
        for id, after, upto in part:
            came, went = folder.read(upto.batch, _changes, folder, id, after, upto)
            for rows, change in ((came, CAME), (went, WENT)):
                n = rows.num_rows
                head = [pa.repeat(id, n), pa.repeat(upto.batch, n), pa.repeat(pa.scalar(change, pa.int32()), n)]
                yield pa.table([*head, *rows.columns], names=self.schema.names)


def _changes(state: State, folder: Folder, id: int, after: Token, upto: Token) -> tuple[pa.Table, pa.Table]:
    standing = folder.standing(id)
    if after.batch < 0:
        answer = answer_as_of(standing, folder.files, state, upto)
        return answer, answer.slice(0, 0)
    found = changes_between(standing, folder.files, state, after, upto)
    return found.came, found.went


@dataclass(frozen=True)
class QueryList:
    """All standing queries, as `Weir.queries` lists them."""

    location: str
    schema: pa.Schema

    @classmethod
    def of(cls, folder: Folder) -> QueryList:
        return cls(folder.files.location, _listing(folder).schema)

    def parts(self) -> Sequence[None]:
        return [None]

    def read(self, part: None) -> Iterator[pa.Table]:
        yield _listing(open_folder(self.location))


def _listing(folder: Folder) -> pa.Table:
    folder.registry.refresh()
    listed = folder.read(-1, partial(listing, folder.library.labels))
    plain = [pc.cast(c, c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in listed.columns]
    return pa.table(plain, names=listed.column_names)
