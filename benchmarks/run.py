"""`weir bench`: kernels on W1 to W5, window joins, joins of 2 to 6 streams, long lists, finishes and
fetches, then the pipeline on Spark, and kept queries (W6).

python -m benchmarks.run [--workload W1,W2,W3,W4,W5,W6,windows,many,sets,finishes,fetches] [--queries 1000,…]
                         [--skip-peers] [--only kernels|pipeline] [--quick]

Ratios are from one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SELECTIONS = ("W1", "W2")
WORKLOADS = (*SELECTIONS, "W3", "W4", "W5", "W6", "windows", "many", "sets", "finishes", "fetches")
SIZES = "1000,10000,100000,1000000"
JOIN_SIZES = "10000,100000,1000000"
BAND_SIZES = "1000,10000,100000"
BOX_SIZES = "100000,1000000"


def main(argv: list[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(prog="weir bench", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="smoke size: a few seconds, figures mean nothing")
    arguments.add_argument("--workload", default=",".join(WORKLOADS), help="default: " + ", ".join(WORKLOADS))
    by_workload = f"for W3 {JOIN_SIZES}, for W4 {BAND_SIZES}, for W5 {BOX_SIZES}"
    arguments.add_argument("--queries", default=None, help=f"default: {SIZES}, {by_workload}")
    arguments.add_argument("--only", choices=("kernels", "pipeline"), default=None)
    arguments.add_argument("--skip-peers", action="store_true")
    args = arguments.parse_args(argv)
    wanted = args.workload.split(",")
    unknown = [name for name in wanted if name not in WORKLOADS]
    if unknown:
        arguments.error(f"unknown workloads: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    if args.only == "pipeline":
        _pipeline(args, wanted)
        return 0
    _kernels(args, wanted)
    if args.only is None:
        # In a process of its own: the peers' Spark session would lend it its Java machine and settings.
        command = [sys.executable, "-m", "benchmarks.run", *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run([*command, "--only", "pipeline"], cwd=ROOT, check=False).returncode
    return 0


def _kernels(args: argparse.Namespace, wanted: list[str]) -> None:
    given = ["--quick"] if args.quick else []
    given += ["--peers", "none"] if args.skip_peers else []
    selected = [name for name in wanted if name in SELECTIONS]
    if selected:
        from benchmarks.micro import selections

        selections.main(["--workload", ",".join(selected), "--queries", args.queries or SIZES, *given])
    if "W3" in wanted:
        from benchmarks.micro import joins

        joins.main(["--queries", args.queries or JOIN_SIZES, *given])
    if "W4" in wanted:
        from benchmarks.micro import bands

        bands.main(["--queries", args.queries or BAND_SIZES, *given])
    if "W5" in wanted:
        from benchmarks.micro import boxes, partial

        boxes.main(["--queries", args.queries or BOX_SIZES, *given])
        partial.main(["--queries", args.queries or BOX_SIZES, *(["--quick"] if args.quick else [])])
    if "windows" in wanted:
        from benchmarks.micro import windows

        windows.main(["--quick"] if args.quick else [])
    if "many" in wanted:
        from benchmarks.micro import many

        many.main(given)
    if "sets" in wanted:
        from benchmarks.micro import sets

        sets.main(["--quick"] if args.quick else [])
    if "finishes" in wanted:
        from benchmarks.micro import finishes

        finishes.main(["--quick"] if args.quick else [])
    if "fetches" in wanted:
        from benchmarks.micro import fetches

        fetches.main(["--quick"] if args.quick else [])


def _pipeline(args: argparse.Namespace, wanted: list[str]) -> None:
    from benchmarks import pipeline

    if "W1" in wanted:
        if args.quick:
            pipeline.main([1_000], rows=2_000, batches=3)
        else:
            pipeline.main([int(n) for n in (args.queries or SIZES).split(",")], rows=200_000, batches=8)
    if "W3" in wanted:
        from benchmarks import join_pipeline

        if args.quick:
            join_pipeline.main([1_000], rows=2_000, batches=3)
        else:
            join_pipeline.main([100_000], rows=200_000, batches=8)
    if "many" in wanted:
        from benchmarks import mixed

        mixed.main(["--quick"] if args.quick else [])
    if "W6" in wanted:
        from benchmarks import kept

        given = ["--quick"] if args.quick else []
        given += ["--skip-peers"] if args.skip_peers else []
        kept.main([*given, "--queries", args.queries.split(",")[0]] if args.queries and not args.quick else given)


if __name__ == "__main__":
    sys.exit(main())
