"""Named arrays in one file: they come back equal and aligned; a file that is not whole is refused."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest

from weir.errors import StoreError
from weir.store.files import on_reach
from weir.store.segment_files import ALIGN, map_arrays, write_arrays

ARRAYS = {
    "ids": np.arange(1000, dtype=np.int64),
    "muted": np.array([True, False]),
    "cells": np.arange(60, dtype=np.int32).reshape(3, 4, 5),
    "empty": np.empty((0, 7), np.float64),
    "scalar": np.array(3.5),
    "times": np.array(["2026-01-01", "NaT"], "datetime64[us]"),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20, dtype=np.uint8)[::3],
}
META = {"shape": "SELECT 'ü'", "count": 3, "nested": {"a": [1, None]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "a.seg"
    write_arrays(path, ARRAYS, META)
    return path


def test_arrays_and_meta_come_back(path: Path) -> None:
    for verify in (False, True):
        arrays, meta = map_arrays(path, verify)
        assert meta == META
        assert list(arrays) == list(ARRAYS)
        for name, array in arrays.items():
            assert array.dtype == ARRAYS[name].dtype
            assert array.shape == ARRAYS[name].shape
            np.testing.assert_array_equal(array, ARRAYS[name])
            assert array.flags.c_contiguous


def test_arrays_are_aligned_and_read_only(path: Path) -> None:
    for array in map_arrays(path)[0].values():
        assert array.size == 0 or array.ctypes.data % ALIGN == 0
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        if array.size:
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True


def test_nothing_but_the_file_is_left(path: Path) -> None:
    write_arrays(path, {}, {})
    assert [p.name for p in path.parent.iterdir()] == ["a.seg"]
    assert map_arrays(path) == ({}, {})


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in {*range(200), *range(len(whole) - 200, len(whole)), *range(0, len(whole), 97)}:
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"a\.seg"):
            map_arrays(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(StoreError, match="is cut"):
        map_arrays(path)


def test_a_file_whose_end_was_never_written_is_refused(path: Path) -> None:
    """The right length, but zeros where the disk lost pages."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-64] + b"\0" * 64)
    with pytest.raises(StoreError, match="is damaged"):
        map_arrays(path)


def test_every_flipped_byte_is_noticed_when_asked(path: Path) -> None:
    whole = path.read_bytes()
    assert map_arrays(path, verify=True)
    for at in range(len(whole)):  # also those between the arrays, which belong to nothing
        flipped = bytearray(whole)
        flipped[at] ^= 16
        path.write_bytes(flipped)
        with pytest.raises(StoreError):
            map_arrays(path, verify=True)


@pytest.mark.parametrize("content", [b"", b"WEIRSEG\x01", b"x" * 5000, b"\0" * 5000])
def test_a_stranger_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StoreError):
        map_arrays(tmp_path / "x")
    with pytest.raises(StoreError, match="cannot be opened"):
        map_arrays(tmp_path / "nothing")
    with pytest.raises(StoreError, match="cannot be opened"):
        map_arrays(tmp_path)


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="array 'o' holds Python objects"):
        write_arrays(tmp_path / "x", {"o": np.array([{}])}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write segment .*a\.seg: No space left on device; free some space"):
        write_arrays(path, {"x": np.arange(3)}, {})
    monkeypatch.undo()
    assert [p.name for p in path.parent.iterdir()] == ["a.seg"]
    assert map_arrays(path)[1] == META


def test_a_writer_that_dies_half_way_leaves_the_old_file(path: Path) -> None:
    def die(point: str) -> None:
        raise KeyboardInterrupt(point)

    on_reach(die)
    try:
        with pytest.raises(KeyboardInterrupt, match="half a segment file"):
            write_arrays(path, {"x": np.arange(3)}, {})
    finally:
        on_reach(None)
    assert map_arrays(path)[1] == META


def test_replacing_a_mapped_file_leaves_its_readers_alone(path: Path) -> None:
    arrays, _ = map_arrays(path)
    write_arrays(path, {"ids": np.zeros(5, np.int64)}, {})
    np.testing.assert_array_equal(arrays["ids"], ARRAYS["ids"])
    assert len(map_arrays(path)[0]["ids"]) == 5
    path.unlink()
    np.testing.assert_array_equal(arrays["ids"], ARRAYS["ids"])


def test_opening_is_cheap_whatever_the_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    write_arrays(path, {f"a{i}": np.zeros(500_000, np.int64) for i in range(12)}, {})
    took_ms = []
    for _ in range(20):
        started = time.perf_counter()
        map_arrays(path)
        took_ms.append((time.perf_counter() - started) * 1e3)
    assert min(took_ms) < 0.3


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted through /proc")
def test_a_mapped_file_is_not_an_open_one(path: Path) -> None:
    """Workers keep thousands of them mapped, and may have a thousand open files."""
    before = len(os.listdir("/proc/self/fd"))
    mapped = [map_arrays(path) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert mapped[0][0]["ids"][999] == 999
