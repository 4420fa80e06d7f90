"""Run exhibits, print a line for each, and write numbers, plots and the page.

    python -m benchmarks.exhibits.run [NAME …] [--full] [--smoke] [--out DIR] [--redraw]

Quick sizes go to docs/exhibits/, full ones to docs/exhibits/full/ and smoke sizes to bench-results/exhibits/, unless
another folder is given. Without names all exhibits run, in the order of the page. `--redraw` measures nothing: plots
and page are made again from the numbers that are there.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.exhibits.exhibit import Exhibit, Size
from benchmarks.exhibits.page import write, write_page
from benchmarks.exhibits.registry import discover

FOLDERS: dict[Size, str] = {
    "quick": "docs/exhibits",
    "full": "docs/exhibits/full",
    "smoke": "bench-results/exhibits",
}


def main(argv: Sequence[str] | None = None) -> list[Exhibit]:
    """Run, print and write; returns the exhibits."""
    args = _arguments(argv)
    size: Size = "full" if args.full else "smoke" if args.smoke else "quick"
    folder = Path(args.out or FOLDERS[size])
    found = []
    for name in args.names:
        if args.redraw:
            exhibit = Exhibit.from_json((folder / f"{name}.json").read_text(encoding="utf-8"))
        else:
            exhibit = measure(name, size)
        write(exhibit, folder)
        print(f"{exhibit.name:8}  {exhibit.seconds:6.1f} s  {exhibit.verdict}", flush=True)
        found.append(exhibit)
    write_page(folder)
    print(f"written to {folder}", flush=True)
    return found


def measure(name: str, size: Size) -> Exhibit:
    """One exhibit with the seconds it took; kernels are compiled before, by a run at smoke size."""
    run = discover()[name]
    if size != "smoke":
        run("smoke")
    begun = time.perf_counter()
    exhibit = run(size)
    assert exhibit.name == name, f"{name} calls itself {exhibit.name}"
    return dataclasses.replace(exhibit, seconds=round(time.perf_counter() - begun, 1))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weir bench exhibits", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="exhibits to run; all if none is named")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="the papers' own sizes: minutes an exhibit")
    sizes.add_argument("--smoke", action="store_true", help="a second or two in all; the figures mean nothing")
    parser.add_argument("--redraw", action="store_true", help="plots and page again, from the numbers in the folder")
    parser.add_argument("--out", default=None, metavar="DIR", help="folder of the results")
    args = parser.parse_args(argv)
    known = discover()
    unknown = [name for name in args.names if name not in known]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; exhibits: {', '.join(known)}")
    args.names = args.names or list(known)
    return args


if __name__ == "__main__":
    main()
    sys.exit(0)
