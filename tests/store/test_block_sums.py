"""Arrays that are checked by block: what is taken is right or an error, wherever the damage is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weir.errors import StoreError
from weir.store.arrays import save_arrays
from weir.store.block_sums import BLOCK, CheckedArrays, with_sums
from weir.store.files import Files, LocalFiles

PATH = "cache/one.run"
COUNT = 3 * BLOCK + 17


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = LocalFiles(tmp_path)
    arrays = {"ids": 2 * np.arange(COUNT), "rows": np.arange(COUNT) % 1000, "none": np.empty(0, np.int64)}
    save_arrays(made, PATH, with_sums(arrays, "ids"), {})
    return made


def opened(files: Files) -> CheckedArrays:
    return CheckedArrays(files, PATH, ("ids", "rows", "none"), "ids")


def test_every_key_is_found_and_no_other(files: Files) -> None:
    arrays = opened(files)
    for at in (0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5, COUNT - 1):
        assert arrays.find(2 * at) == at
        assert arrays.find(2 * at + 1) is None
    assert arrays.find(-1) is None


def test_parts_are_what_was_saved(files: Files) -> None:
    arrays, rows = opened(files), np.arange(COUNT) % 1000
    assert np.array_equal(arrays.whole("rows"), rows)
    assert np.array_equal(arrays.part("rows", BLOCK - 2, BLOCK + 3), rows[BLOCK - 2 : BLOCK + 3])
    begin, end = np.array([5, 7, BLOCK - 1]), np.array([7, 7, 2 * BLOCK + 1])
    expected = np.concatenate([rows[a:b] for a, b in zip(begin, end, strict=True)])
    assert np.array_equal(arrays.parts("rows", begin, end), expected)
    assert not len(arrays.whole("none"))


@pytest.mark.parametrize("block", range(4))
def test_damage_is_an_error_for_who_takes_it(files: Files, tmp_path: Path, block: int) -> None:
    path = tmp_path / PATH
    data = bytearray(path.read_bytes())
    data[64 + 8 * (block * BLOCK + 3)] ^= 1  # of the ids, the first array
    path.write_bytes(data)
    arrays = opened(files)
    for other in range(4):
        if other == block:
            with pytest.raises(StoreError, match="array 'ids' does not have its checksum"):
                arrays.find(2 * other * BLOCK)
        else:
            assert arrays.find(2 * other * BLOCK) == other * BLOCK
    with pytest.raises(StoreError, match="array 'ids' does not have its checksum"):
        arrays.whole("ids")
    assert arrays.part("rows", 1, 3).tolist() == [1, 2]


def test_a_run_without_checksums_is_another_version(files: Files) -> None:
    save_arrays(files, PATH, {"ids": np.arange(3), "rows": np.arange(3), "none": np.arange(3)}, {})
    with pytest.raises(StoreError, match="of another version"):
        opened(files)
