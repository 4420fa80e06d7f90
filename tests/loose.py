"""Whether join partners of small tests are files, or made by the tasks that need them."""

from __future__ import annotations


def some_loose(seed: int) -> dict[str, int]:
    """A setting: none, few, or (as users have it) all rows of a small test are loose."""
    return ({"loose_rows_max": 0}, {"loose_rows_max": 30}, {})[seed % 3]
