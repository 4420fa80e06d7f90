"""The benchmark of joins over many attributes: a small run, in which all ways find the same pairs."""

from __future__ import annotations

import pytest

from benchmarks.micro import partial

pytestmark = pytest.mark.soak


def test_a_small_run(capsys: pytest.CaptureFixture[str]) -> None:
    rows = partial.main(["--quick"])
    printed = capsys.readouterr().out
    assert [set(row["ways"]) for row in rows] == [set(partial.WAYS)] * 2
    for words in ("× the best by two attributes", "chosen:", "groups,"):
        assert words in printed
