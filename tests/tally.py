"""How many answers a run of tests compared with an oracle, by what was compared with what.

Tests say it as they go; the controller adds up what passed, also over several workers, and prints it at the end.
"""

from __future__ import annotations

from collections import Counter

KEY = "comparisons"  # of the properties of a test's report
_since: Counter[str] = Counter()


def tally(what: str, count: int) -> None:
    """So many comparisons were made by the test that runs."""
    _since[what] += count


def taken() -> dict[str, int]:
    """What was said since this was asked last."""
    found = dict(_since)
    _since.clear()
    return found
