"""All exhibits by id, found by looking: every module below this folder that has `EXHIBITS`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from benchmarks.exhibits.exhibit import Run

_HERE = Path(__file__).parent
_FRAMEWORK = {"exhibit", "registry", "plot", "page", "run"}


def discover() -> dict[str, Run]:
    """Exhibits by id, papers in alphabetical order, figures in the order of their numbers."""
    found: dict[str, Run] = {}
    for path in sorted(_HERE.rglob("*.py")):
        parts = path.relative_to(_HERE).with_suffix("").parts
        if parts[-1] == "__init__" or (len(parts) == 1 and parts[0] in _FRAMEWORK):
            continue
        module = importlib.import_module(".".join(("benchmarks", "exhibits", *parts)))
        for name, run in getattr(module, "EXHIBITS", {}).items():
            assert name not in found, f"two exhibits are called {name}"
            found[name] = run
    return dict(sorted(found.items(), key=lambda item: place(item[0])))


def place(name: str) -> tuple[object, ...]:
    """Sort key of an id: "ssi-7b" after "ssi-7a", "ssi-12" after both; "ssi-t2" and "ssi-w1" after all figures."""
    paper, _, number = name.partition("-")
    kind, digits, _ = re.split(r"(\d+)", number, maxsplit=1) if re.search(r"\d", number) else (number, "0", "")
    return paper, kind, int(digits), number
