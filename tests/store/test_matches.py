"""Match files of joins, against the pairs they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.store.pieces import selected
from weir.store.arrays import read_data_arrays
from weir.store.files import LocalFiles
from weir.store.matches import (
    Piece,
    channels_of,
    read_matches,
    results_of,
    write_matches,
)


def piece(channel: str, side: int, lists: list[tuple[int, list[tuple[int, int]]]]) -> Piece:
    """From (event, [(query, partner), …]) by event."""
    pairs = [pair for _, found in lists for pair in found]
    return Piece(
        channel,
        side,
        np.array([event for event, _ in lists], np.int64),
        np.cumsum([0, *(len(found) for _, found in lists)]),
        np.array([query for query, _ in pairs], np.int64),
        np.array([[partner for _, partner in pairs]], np.int64),
    )


def test_a_join_piece_comes_back_beside_selections(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    alone = selected("a", 5, np.array([0, 2, 3]), np.array([3, 4, 3], np.int64))
    first = piece("a~b", 0, [(9, [(3, 70), (3, 71), (8, 70)]), (7, []), (9, [(8, 60)])])
    second = piece("a~b", 1, [(71, [(3, 9)])])
    empty = piece("b~b", 1, [])
    pieces = (alone, first, second, empty)
    path = write_matches(files, 0, pieces)
    for wrote, read in zip(pieces, read_matches(files, path), strict=True):
        assert (wrote.channel, wrote.side) == (read.channel, read.side)
        for name in ("events", "offsets", "items", "partners"):
            assert getattr(wrote, name).tolist() == getattr(read, name).tolist(), name
    assert channels_of(files, path) == {"a", "a~b", "b~b"}
    rows0, rows1 = results_of(files, path, "a~b", 3)
    assert list(zip(rows0.tolist(), rows1.tolist(), strict=True)) == [(9, 70), (9, 71), (9, 71)]
    assert [rows.tolist() for rows in results_of(files, path, "a", 3)] == [[5, 6]]
    assert results_of(files, path, "b~b", 3)[0].tolist() == []
    assert results_of(files, path, "a~c", 3)[0].tolist() == []


def test_consecutive_events_are_not_written(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    path = write_matches(files, 0, [selected("a", 5, np.array([0, 1, 1]), np.array([3], np.int64))])
    arrays, _ = read_data_arrays(files, path)
    assert sorted(arrays) == ["0.items", "0.offsets"]
    (back,) = read_matches(files, path)
    assert back.events.tolist() == [5, 6]
    assert read_matches(files, path, "b") == []
    assert channels_of(files, path) == {"a"}


@pytest.mark.parametrize("far", [0, 2**31, 2**33, 2**60])
def test_ids_are_32_bits_wide_where_they_fit(tmp_path: Path, far: int) -> None:
    files = LocalFiles(tmp_path)
    base = 2**50
    made = piece("a~b", 0, [(base, [(base, base + far), (base + far, base)]), (base + far, [(base, base)])])
    path = write_matches(files, 0, [made])
    arrays, _ = read_data_arrays(files, path)
    width = 4 if far < 2**32 else 8
    assert {arrays[f"0.{name}"].itemsize for name in ("events", "items", "partners.0")} == {width}
    (back,) = read_matches(files, path)
    assert back.events.tolist() == made.events.tolist()
    assert back.items.tolist() == made.items.tolist()
    assert back.partners.tolist() == made.partners.tolist()
    rows0, rows1 = results_of(files, path, "a~b", base)
    expected = [(base, base + far), (base + far, base)] if far else [(base, base), (base, base), (base, base)]
    assert list(zip(rows0.tolist(), rows1.tolist(), strict=True)) == expected
    assert results_of(files, path, "a~b", base - 1)[0].tolist() == []
    assert results_of(files, path, "a~b", base + 1)[0].tolist() == []


@pytest.mark.parametrize("seed", range(8))
def test_the_pairs_of_a_query_are_those_that_were_written(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    files = LocalFiles(tmp_path)
    joins, expected = [], []
    for _ in range(int(random.integers(1, 5))):
        channel, side = str(random.choice(["a~b", "b~b"])), int(random.integers(0, 2))
        lists = []
        for _ in range(int(random.integers(0, 6))):
            event = int(random.integers(0, 5))  # repeats, in any order
            found = [
                (int(random.integers(0, 4)), int(random.integers(0, 9))) for _ in range(int(random.integers(0, 5)))
            ]
            lists.append((event, found))
            for query, partner in found:
                expected.append((channel, query, *((event, partner) if side == 0 else (partner, event))))
        joins.append(piece(channel, side, lists))
    path = write_matches(files, 0, joins)
    for channel in ("a~b", "b~b"):
        for query in range(5):
            rows0, rows1 = results_of(files, path, channel, query)
            assert rows0.dtype == rows1.dtype == np.int64
            assert [(channel, query, *pair) for pair in zip(rows0.tolist(), rows1.tolist(), strict=True)] == [
                e for e in expected if e[:2] == (channel, query)
            ]
