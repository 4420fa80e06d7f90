"""Lists of files by columns, beside plain lists."""

from __future__ import annotations

import random

import numpy as np

from weir.store.file_lists import FileList


def test_files_are_added_dropped_and_found_as_in_plain_lists() -> None:
    dice = random.Random(3)
    files, plain = FileList(2), list[tuple[str, int, int]]()
    for number in range(400):
        one = (f"f{number}", number // 3, dice.randrange(100))
        files.add(*one)
        plain.append(one)
        if dice.random() < 0.05:
            gone = np.array([dice.random() < 0.3 for _ in plain])
            assert files.drop(gone) == [path for (path, _, _), is_gone in zip(plain, gone, strict=True) if is_gone]
            plain = [one for one, is_gone in zip(plain, gone, strict=True) if not is_gone]
        assert len(files) == len(plain)
        first = dice.randrange(140)
        last = first + dice.randrange(20)
        found = [files.paths[place] for place in files.between(first, last)]
        assert found == [path for path, batch, _ in plain if first <= batch <= last]
    assert [(path, *figures) for path, figures in zip(files.paths, files.figures.tolist(), strict=True)] == plain
