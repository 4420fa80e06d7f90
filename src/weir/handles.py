"""Handles of standing queries: what `register` and `query` give, and what a user asks of them."""

from __future__ import annotations

import datetime
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from weir.answer import many_fetch
from weir.answer.answers import Answers
from weir.answer.describe import describe
from weir.answer.fetch import Changes, Standing, Token, changes, fetch, moment
from weir.errors import FetchError, QueryError, WeirError
from weir.runtime.intake import as_id
from weir.store.state import State

if TYPE_CHECKING:
    from weir.api import Weir

_FAR_US = 1 << 62  # no time is further from 1970
HTML_ROWS = 20  # of an answer that a notebook shows
T = TypeVar("T")


class Query:
    """A standing query, known by its `id`: the same in every process, and for as long as the query stands.

    Once it is dropped, every method raises a `QueryError`.
    """

    def __init__(self, weir: Weir, id: int) -> None:
        self._weir = weir
        self.id = id

    def __repr__(self) -> str:
        try:
            return f"<weir.Query {self.id}: {self.sql}>"
        except WeirError:  # dropped, or its folder is gone
            return f"<weir.Query {self.id}>"

    def _repr_html_(self) -> str:
        """In a notebook: the text and the first rows of the answer."""
        answer = self.fetch()
        shown = answer.slice(0, HTML_ROWS).to_pandas().to_html(index=False)
        more = f"<p>{HTML_ROWS} of {answer.num_rows:,} rows</p>" if answer.num_rows > HTML_ROWS else ""
        return f"<p>query {self.id}: <code>{html.escape(self.sql)}</code></p>{shown}{more}"

    def _standing(self) -> Standing:
        self._weir.registry.refresh()
        return self._weir._library.standing(self.id)

    def _read(self, read: Callable[[Standing, State], T]) -> T:
        try:
            return self._weir._read(lambda state: read(self._standing(), state))
        except (MemoryError, pa.ArrowCapacityError) as error:  # pyarrow's own error of memory is one, too
            raise FetchError(
                f"the answer of query {self.id} does not fit into memory: {error}",
                hint="shorten the windows, add conditions, or show fewer and shorter columns",
            ) from error

    @property
    def sql(self) -> str:
        """The query's text in canonical form, with its constants; `text` is the one that was written."""
        self._weir.registry.refresh()
        return self._weir._library.text(self.id)

    @property
    def text(self) -> str:
        """The text as it was written, with values in the place of its parameters."""
        text: str = self._listed("sql")
        return text

    @property
    def name(self) -> str | None:
        """The name that it was registered under."""
        name: str | None = self._listed("name")
        return name

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, in order."""
        return tuple(self._listed("tags"))

    @property
    def owner(self) -> str | None:
        """Whose it is."""
        owner: str | None = self._listed("owner")
        return owner

    def _listed(self, column: str) -> Any:
        self._standing()
        return self._weir.queries(id=self.id)[column][0].as_py()

    def fetch(self, at: datetime.datetime | str | int | None = None) -> pa.Table:
        """The answer now, or as of an earlier time (a datetime, an ISO text, or µs since the epoch, UTC).

        It is what the one-time SQL gives over the windows' contents at that time, over all rows of the batches that are
        done, also of those from before the query was registered. A time whose windows reach below the rows that a
        stream keeps is a `FetchError`.
        """
        at_us = None if at is None else to_us(at)
        return self._read(lambda standing, state: fetch(standing, self._weir.files, state, at_us=at_us))

    def token(self) -> str:
        """A token of the answer that `fetch` gives now, to ask for `changes` from here on."""
        return self._read(lambda _, state: str(Token(state.last, moment(state, None), self.id)))

    def changes(self, after: str | None = None) -> Changes:
        """What came and went since a token, and the next token.

        Without a token, all of the answer came. Rows go when they leave the window. A token is short text; keep it
        anywhere, use it in any process.
        """
        token = None if after is None else Token.parse(after)
        return self._read(lambda standing, state: changes(standing, self._weir.files, state, token))

    def explain(self) -> str:
        """How the query is executed, as text: plan, update patterns, family, boxes, access attributes, state."""
        planned = self._weir._library.planned(self.id)
        return self._read(lambda standing, state: describe(planned, standing, self._weir.files, state))

    def change(self, params: Mapping[str, Any]) -> Query:
        """The query with other values for the parameters of its text, in the place of this one: see `Weir.replace`."""
        return self._weir.replace(self.id, params=params)

    def drop(self) -> None:
        """Drop the query, as `Weir.drop` does."""
        self._weir.drop(self.id)


class Queries(Sequence[Query]):
    """The queries of one `register_many`, in the order of its parameters.

    A sequence: it has a length, is iterated over, gives a `Query` for an index and a list of them for a slice. Queries
    are made when they are asked for. `ids` is the range of their ids; or an array, if they are not consecutive because
    some queries stood before under their names.
    """

    def __init__(self, weir: Weir, ids: range | np.ndarray) -> None:
        self._weir = weir
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [Query(self._weir, int(id)) for id in self.ids[index]]
        return Query(self._weir, int(self.ids[index]))

    def __iter__(self) -> Iterator[Query]:
        return (Query(self._weir, int(id)) for id in self.ids)

    def fetch(self, at: datetime.datetime | str | int | None = None) -> Answers:
        """The answers of all of them, as `Weir.fetch` gives them; those of a slice with `weir.fetch(queries[:10])`."""
        return fetch_many(self._weir, self, at)

    def __repr__(self) -> str:
        first = repr(self[0]).removeprefix("<weir.Query ").removesuffix(">")
        return f"<weir.Queries {self.ids[0]} … {self.ids[-1]}; the first is {first}>"


def fetch_many(weir: Weir, asked: object, at: datetime.datetime | str | int | None) -> Answers:
    """The answers of many queries, given by their ids or as handles; one pass for those of a shape."""
    ids = ids_of(asked)
    at_us = None if at is None else to_us(at)
    weir.registry.refresh()

    def read(state: State) -> Answers:
        found = many_fetch.fetch_many(weir._library, np.unique(ids), weir.files, state, at_us=at_us)
        return Answers(ids.tolist(), found, lambda: weir.spark)

    try:
        return weir._read(read)
    except (MemoryError, pa.ArrowCapacityError) as error:
        raise FetchError(
            f"the answers of {len(ids):,} queries do not fit into memory together: {error}", hint="fetch fewer at once"
        ) from error


def ids_of(asked: object) -> np.ndarray:
    """Ids of queries, in any form: one or several, as numbers or as handles."""
    if isinstance(asked, Queries):
        asked = asked.ids
    if isinstance(asked, range):
        return np.arange(asked.start, asked.stop, asked.step)
    if hasattr(asked, "to_numpy"):  # of pandas and Arrow
        asked = asked.to_numpy()
    if isinstance(asked, np.ndarray) and asked.dtype.kind in "iu" and asked.ndim == 1:
        return asked.astype(np.int64)
    given = asked if isinstance(asked, Iterable) and not isinstance(asked, str | bytes) else [asked]
    return np.array([as_id(one.id if isinstance(one, Query) else one) for one in given], np.int64)


def to_us(at: datetime.datetime | str | int, error: type[WeirError] = QueryError) -> int:
    """A moment in µs since the epoch; times without a zone are UTC."""
    if not isinstance(at, bool) and isinstance(at, int | np.integer):
        return max(-_FAR_US, min(int(at), _FAR_US))
    if isinstance(at, str):
        try:
            at = datetime.datetime.fromisoformat(at)
        except ValueError as wrong:
            raise error(f"'{at}' is not a time: {wrong}", hint="write it as 2026-01-31 12:00:00") from wrong
    if not isinstance(at, datetime.datetime):
        raise error(
            f"{at!r} is not a time, but a {type(at).__name__}",
            hint="give a datetime, a text such as 2026-01-31 12:00:00, or µs since the epoch",
        )
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (at - epoch) // datetime.timedelta(microseconds=1)
