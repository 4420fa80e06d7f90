"""Match files: which queries each event of a slice affected, as CSR by event.

A file holds pieces of two kinds. A `Piece` covers consecutive row ids of one stream and has `offsets` (one more
than events) and `items` (query ids, ascending within an event). A `JoinPiece` is about new rows of one side of a
channel: `events` are their row ids, which need not be consecutive and may repeat, and beside each item stand the
partners, a row id of each other side. Ids of every kind are stored as 32-bit differences from the array's smallest
where they fit: 4 bytes a match, 8 a joining pair, 4 more for each further side. Times are not stored: row ids lead to
every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.ledger import data_path

CHANNEL = "~"  # joins the streams of a channel: `side 0~side 1`, or more of them


class Piece(NamedTuple):
    """The matches of consecutive rows of one stream."""

    stream: str
    first_row: int
    offsets: np.ndarray  # int64[events + 1]
    items: np.ndarray  # int64[pairs], query ids


class JoinPiece(NamedTuple):
    """The results that new rows of one side of a channel made with rows of the other sides."""

    channel: str
    side: int  # of the events
    events: np.ndarray  # int64[events], row ids on `side`; in any order, repetitions allowed
    offsets: np.ndarray  # int64[events + 1]
    items: np.ndarray  # int64[pairs], query ids
    partners: np.ndarray  # int64[others, pairs], row ids on the other sides, which ascend

    def rows(self) -> tuple[np.ndarray, ...]:
        """The row ids of every result, by side."""
        return _by_side(self.side, np.repeat(self.events, np.diff(self.offsets)), self.partners)


def write_matches(files: Files, batch: int, pieces: Sequence[Piece], joins: Sequence[JoinPiece] = ()) -> str:
    """Write a match file under a new name and return its path."""
    arrays: dict[str, np.ndarray] = {}
    directory: list[dict[str, Any]] = []
    for k, piece in enumerate(pieces):
        arrays[f"offsets{k}"] = piece.offsets
        base, arrays[f"items{k}"] = _narrow(piece.items)
        directory.append({"stream": piece.stream, "first_row": piece.first_row, "base": base})
    meta: dict[str, Any] = {"pieces": directory}
    if joins:
        meta["joins"] = []
    for k, join in enumerate(joins):
        about: dict[str, Any] = {"channel": join.channel, "side": join.side}
        arrays[f"join{k}.offsets"] = join.offsets
        others = dict(zip(_partners(join.channel), join.partners, strict=True))
        for name, values in {"events": join.events, "items": join.items, **others}.items():
            about[name], arrays[f"join{k}.{name}"] = _narrow(values)
        meta["joins"].append(about)
    path = data_path("matches", batch, "csr")
    save_arrays(files, path, arrays, meta)
    return path


def _partners(channel: str) -> list[str]:
    """What the arrays of partners are called, one for each other side."""
    return ["partners", *(f"partners.{k}" for k in range(1, channel.count(CHANNEL)))]


def _narrow(values: np.ndarray) -> tuple[int, np.ndarray]:
    """The smallest value, and the differences from it."""
    base = int(values.min()) if len(values) else 0
    fits = not len(values) or int(values.max()) - base < 2**32
    return base, (values - base).astype(np.uint32) if fits else values - base


def read_matches(files: Files, path: str) -> list[Piece]:
    """The pieces of a match file that are about single rows, items as int64 query ids."""
    arrays, meta = read_arrays(files, path)
    return [
        Piece(
            p["stream"],
            p["first_row"],
            arrays[f"offsets{k}"],
            arrays[f"items{k}"].astype(np.int64) + p["base"],
        )
        for k, p in enumerate(meta["pieces"])
    ]


def read_joins(files: Files, path: str, channel: str | None = None) -> list[JoinPiece]:
    """The pieces of a match file that are about joined rows (of one channel, or of all), all ids as int64."""
    arrays, meta = read_arrays(files, path)
    found = []
    for k, p in enumerate(meta.get("joins", ())):
        if channel is not None and p["channel"] != channel:
            continue
        others = _partners(p["channel"])
        wide = {n: arrays[f"join{k}.{n}"].astype(np.int64) + p[n] for n in ("events", "items", *others)}
        partners = np.stack([wide[n] for n in others])
        offsets = arrays[f"join{k}.offsets"]
        found.append(JoinPiece(p["channel"], p["side"], wide["events"], offsets, wide["items"], partners))
    return found


def channels_of(files: Files, path: str) -> set[str]:
    """The channels that a match file has pairs of; reads its directory only."""
    return {p["channel"] for p in read_arrays(files, path)[1].get("joins", ())}


def rows_of_query(files: Files, path: str, stream: str, query: int) -> np.ndarray:
    """Row ids of one query in one match file, without widening all its items."""
    arrays, meta = read_arrays(files, path)
    found = []
    for k, p in enumerate(meta["pieces"]):
        wanted = query - p["base"]
        if p["stream"] != stream or wanted < 0:
            continue
        at = np.flatnonzero(arrays[f"items{k}"] == wanted)
        if len(at):
            found.append(np.searchsorted(arrays[f"offsets{k}"], at, side="right") - 1 + p["first_row"])
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)


def joins_of_query(files: Files, path: str, channel: str, query: int) -> tuple[np.ndarray, ...]:
    """Row ids by side of one query's results in one match file, in the order of the file."""
    arrays, meta = read_arrays(files, path)
    found = [(np.empty(0, np.int64),) * (channel.count(CHANNEL) + 1)]
    for k, p in enumerate(meta.get("joins", ())):
        wanted = query - p["items"]
        if p["channel"] != channel or wanted < 0:
            continue
        at = np.flatnonzero(arrays[f"join{k}.items"] == wanted)
        if len(at):
            event = np.searchsorted(arrays[f"join{k}.offsets"], at, side="right") - 1
            events = arrays[f"join{k}.events"][event].astype(np.int64) + p["events"]
            partners = [arrays[f"join{k}.{n}"][at].astype(np.int64) + p[n] for n in _partners(channel)]
            found.append(_by_side(p["side"], events, partners))
    return tuple(np.concatenate(rows) for rows in zip(*found, strict=True))


def _by_side(side: int, events: np.ndarray, partners: Sequence[np.ndarray] | np.ndarray) -> tuple[np.ndarray, ...]:
    return (*partners[:side], events, *partners[side:])
