"""Golden files: blocks of an input and, indented, what is expected of it.

With WEIR_UPDATE=1 in the environment the expected parts are rewritten; read the difference before keeping it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

UPDATING = "WEIR_UPDATE" in os.environ
FIXTURES = Path(__file__).parents[1] / "fixtures" / "plans"


def blocks(path: Path) -> list[tuple[str, str]]:
    """(input, expected) pairs, the indent taken off."""
    found = []
    for block in path.read_text().strip("\n").split("\n\n"):
        lines = block.split("\n")
        given = "\n".join(line for line in lines if not line.startswith("    "))
        expected = "\n".join(line[4:] for line in lines if line.startswith("    "))
        found.append((given, expected))
    return found


def check(path: Path, produce: Callable[[str], str]) -> None:
    """Every input of the file produces what the file says; one that does not is shown with both."""
    pairs = blocks(path)
    assert pairs, f"{path} holds no cases"
    got = [(given, produce(given)) for given, _ in pairs]
    if UPDATING:
        written = ["\n".join([given, *("    " + line for line in out.split("\n"))]) for given, out in got]
        path.write_text("\n\n".join(written) + "\n")
        return
    for (given, expected), (_, out) in zip(pairs, got, strict=True):
        assert out == expected, f"{path.name}: {given}"
