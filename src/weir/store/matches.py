"""Match files: which queries each event of a slice affected, and with which partners, as CSR by event.

A file is a list of pieces. A piece is about new rows of one side of a *channel*: a stream's name for selections,
`side 0~side 1~…` for joins. It has the events' row ids, `offsets` (one more than events), `items` (ids of cores, see
`weir.store.registry`) and beside each item its partners, a row id of each other side; a selection has none. Events of a
join may be in any order and repeat; where they are consecutive only the first is stored. Ids of every kind are stored
as 32-bit differences from the array's smallest where they fit: 4 bytes a match, 8 a joining pair, 4 more for each
further side. Times are not stored: row ids lead to every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weir.store.arrays import read_data_arrays, write_data_arrays
from weir.store.ascending import inside
from weir.store.files import Files
from weir.store.mapped import Mapped

CHANNEL = "~"  # joins the streams of a channel


class Piece(NamedTuple):
    """The results that new rows of one side of a channel brought, alone or with rows of the other sides."""

    channel: str
    side: int  # of the events
    events: np.ndarray  # int64[events], row ids on `side`
    offsets: np.ndarray  # int64[events + 1]
    items: np.ndarray  # int64[results], ids of cores
    partners: np.ndarray  # int64[others, results], row ids on the other sides, sides ascending

    def rows(self) -> tuple[np.ndarray, ...]:
        """The row ids of every result, by side."""
        return _by_side(self.side, np.repeat(self.events, np.diff(self.offsets)), self.partners)

    def narrow_items(self) -> tuple[int, np.ndarray]:
        """The items as they are stored."""
        return _narrow(self.items)


class NewPiece(NamedTuple):
    """A piece as it is found: each item is a slot of a segment."""

    channel: str
    side: int
    events: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray  # int64, ascending: the core of each slot
    slots: np.ndarray  # int32[results]
    partners: np.ndarray

    def narrow_items(self) -> tuple[int, np.ndarray]:
        """The items as they are stored: slots are many, so the ids are made narrow before they are looked up."""
        base, ids = _narrow(self.ids)
        return base, ids[self.slots]


def write_matches(files: Files, batch: int, pieces: Sequence[Piece | NewPiece]) -> str:
    """Write a match file under a new name and return its path."""
    arrays: dict[str, np.ndarray] = {}
    directory: list[dict[str, Any]] = []
    for k, piece in enumerate(pieces):
        about: dict[str, Any] = {"channel": piece.channel, "side": piece.side}
        arrays[f"{k}.offsets"] = piece.offsets
        columns = dict(zip(_partners(piece.channel), piece.partners, strict=True))
        if _is_consecutive(piece.events):
            about["first"] = int(piece.events[0]) if len(piece.events) else 0
        else:
            columns["events"] = piece.events
        about["items"], arrays[f"{k}.items"] = piece.narrow_items()
        for name, values in columns.items():
            about[name], arrays[f"{k}.{name}"] = _narrow(values)
        directory.append(about)
    return write_data_arrays(files, "matches", batch, arrays, {"pieces": directory})


def read_matches(files: Files, path: str, channel: str | None = None) -> list[Piece]:
    """The pieces of a match file, of one channel or of all; ids of every kind are int64."""
    arrays, meta = read_data_arrays(files, path)
    found = []
    for k, about in enumerate(meta["pieces"]):
        if channel is None or about["channel"] == channel:
            stored = _Stored(arrays, k, about)
            partners = [stored.wide(name) for name in _partners(about["channel"])]
            offsets = stored.offsets
            together = np.stack(partners) if partners else np.empty((0, len(stored.items)), np.int64)
            events = stored.events(np.arange(len(offsets) - 1))
            found.append(Piece(about["channel"], about["side"], events, offsets, stored.wide("items"), together))
    return found


def channels_of(files: Files, path: str) -> set[str]:
    """The channels that a match file has results of; reads its directory only."""
    return {about["channel"] for about in read_data_arrays(files, path)[1]["pieces"]}


def results_of(files: Files, path: str, channel: str, core: int) -> tuple[np.ndarray, ...]:
    """Row ids by side of one core's results in one match file, in the order of the file; no other item is widened."""
    found = [(np.empty(0, np.int64),) * (channel.count(CHANNEL) + 1)]
    for stored in _stored(files, path, channel):
        wanted = core - stored.about["items"]
        at = np.flatnonzero(stored.items == wanted) if wanted >= 0 else ()
        if len(at):
            events = stored.events(np.searchsorted(stored.offsets, at, side="right") - 1)
            partners = [stored.wide(name, at) for name in _partners(channel)]
            found.append(_by_side(stored.about["side"], events, partners))
    return tuple(np.concatenate(rows) for rows in zip(*found, strict=True))


def results_of_many(
    files: Files, path: str, channel: str, cores: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The results of some cores, which ascend, in one match file: the place of each one's core, and row ids by side."""
    places = [np.empty(0, np.int64)]
    found = [(np.empty(0, np.int64),) * (channel.count(CHANNEL) + 1)]
    for piece in read_matches(files, path, channel):
        at = np.flatnonzero(inside(piece.items, cores))
        events = piece.events[np.searchsorted(piece.offsets, at, side="right") - 1]
        places.append(np.searchsorted(cores, piece.items[at]))
        found.append(_by_side(piece.side, events, piece.partners[:, at]))
    return np.concatenate(places), tuple(np.concatenate(rows) for rows in zip(*found, strict=True))


class _Stored:
    """One piece as the file has it."""

    def __init__(self, arrays: Mapping[str, np.ndarray], number: int, about: Mapping[str, Any]) -> None:
        self.about = about
        self._arrays = arrays
        self._number = number

    @property
    def offsets(self) -> np.ndarray:
        return self._arrays[f"{self._number}.offsets"]

    @property
    def items(self) -> np.ndarray:
        """As they are stored: differences from the smallest."""
        return self._arrays[f"{self._number}.items"]

    def wide(self, name: str, at: Any = slice(None)) -> np.ndarray:
        values: np.ndarray = self._arrays[f"{self._number}.{name}"][at].astype(np.int64) + self.about[name]
        return values

    def events(self, places: np.ndarray) -> np.ndarray:
        """The row ids of events by their places in the piece."""
        return self.wide("events", places) if "events" in self.about else places.astype(np.int64) + self.about["first"]


_mapped: Mapped[tuple[dict[str, np.ndarray], dict[str, Any]]] = Mapped(256)  # of the batches that no run covers yet


def _stored(files: Files, path: str, channel: str) -> Iterator[_Stored]:
    arrays, meta = _mapped.get(files, path, lambda: read_data_arrays(files, path))
    for k, about in enumerate(meta["pieces"]):
        if about["channel"] == channel:
            yield _Stored(arrays, k, about)


def _partners(channel: str) -> list[str]:
    """What the arrays of partners are called, one for each other side."""
    return [f"partners.{k}" for k in range(channel.count(CHANNEL))]


def _is_consecutive(events: np.ndarray) -> bool:
    return not len(events) or bool((np.diff(events) == 1).all())


def _narrow(values: np.ndarray) -> tuple[int, np.ndarray]:
    """The smallest value, and the differences from it."""
    base = int(values.min()) if len(values) else 0
    if len(values) and int(values.max()) - base >= 2**32:
        return base, values - base
    narrow = np.empty(len(values), np.uint32)
    np.subtract(values, base, out=narrow, casting="unsafe")
    return base, narrow


def _by_side(side: int, events: np.ndarray, partners: Sequence[np.ndarray] | np.ndarray) -> tuple[np.ndarray, ...]:
    return (*partners[:side], events, *partners[side:])
