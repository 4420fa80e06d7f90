"""The contract of join indexes: a toy that lives here serves joins from registration to answers."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Self

import numpy as np
import pytest

import weir
from weir.index.box_tables import Matches, OverBudget, Uint8s
from weir.index.joining import kinds
from weir.index.meeting.index_contract import AUTO, Found, Indexing, Meeting, StoredIndex, Tuning
from weir.index.meeting.planes import Plane
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
WALL_US = int(START.timestamp() * 1e6) + 10**9
QUERIES = (
    "SELECT r.x, s.y FROM r JOIN s ON r.k = s.k WHERE r.x BETWEEN {k} AND {k} + 9 AND s.y > {k}",
    "SELECT r.x, s.y FROM r JOIN s ON r.k = s.k WHERE r.x < {k} AND abs(r.ts - s.ts) <= INTERVAL {k} SECOND",
    "SELECT r.x, s.y FROM r, s WHERE s.y - r.x BETWEEN {k} AND {k} + 2 AND r.k <> 2",
)


class ToyIndex:
    """The toy: the plane and nothing else, every box compared with every partner."""

    names = ("vanilla",)  # what its events are counted as
    listed = None
    finder = None
    searched = 0  # events, of all toys

    def __init__(self, plane: Plane) -> None:
        self.plane = plane

    @classmethod
    def over(cls, plane: Plane, how: Indexing) -> Self:
        return cls(plane)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(Plane(*(arrays[f"plane_{name}"] for name in Plane._fields)))

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"plane_{name}": array for name, array in self.plane._asdict().items()}

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        a_lo, a_hi, c_lo, c_hi = self.plane
        affected = []
        for e in range(len(meeting.a)):
            c = meeting.run.values[meeting.begin[e] : meeting.end[e]]
            if len(meeting.offset):
                c = c - meeting.offset[e]
            reached = ((c_lo[:, None] <= c) & (c <= c_hi[:, None])).any(axis=1)
            affected.append(reached & (a_lo <= meeting.a[e]) & (meeting.a[e] <= a_hi) & (muted == 0))
        hits = np.array(affected).reshape(len(meeting.a), len(a_lo))
        ToyIndex.searched += len(hits)
        choices = np.array([np.count_nonzero(meeting.end > meeting.begin)])
        if hits.sum() > pairs_max:
            return Found(OverBudget(hits.sum(axis=0)), choices)
        offsets = np.concatenate([[0], np.cumsum(hits.sum(axis=1))])
        return Found(Matches(offsets, np.nonzero(hits)[1].astype(np.int32)), choices)

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> np.ndarray:
        return np.ones((len(meeting.a), 1))


def rows(seed: int, count: int, value: str) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    drawn = zip(*(rng.integers(0, most, count).tolist() for most in (4, 40, 60)), strict=True)
    return [{"k": k, value: v, "ts": START + datetime.timedelta(seconds=s)} for k, v, s in drawn]


def answers(folder: Path) -> list[list[tuple[int, int]]]:
    """What all queries answer after two batches, the second one matched by another process."""
    w = weir.open(folder)
    for name, value in (("r", "x"), ("s", "y")):
        w.stream(name, f"k int, {value} int, ts timestamp", time="ts", keep="1 hour")
    queries = [w.register(text.format(k=k)) for text in QUERIES for k in range(1, 40, 3)]
    DirectWeir(w, wall_us=WALL_US).batch({"r": rows(1, 60, "x"), "s": rows(2, 60, "y")})
    again = DirectWeir(weir.open(folder), wall_us=WALL_US)  # segments come back from their arrays
    again.batch({"r": rows(3, 30, "x"), "s": rows(4, 30, "y")})
    tables = [query.fetch() for query in queries]
    return [sorted(zip(t["x"].to_pylist(), t["y"].to_pylist(), strict=True)) for t in tables]


def test_a_toy_index_gives_the_answers_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(tmp_path / "as it is")
    assert sum(map(len, expected)) > 1_000
    assert ToyIndex.searched == 0
    toy: type[StoredIndex] = ToyIndex
    for kind in kinds.INDEXES:
        monkeypatch.setitem(kinds.INDEXES, kind, toy)
    assert answers(tmp_path / "with the toy") == expected
    assert ToyIndex.searched > 100
