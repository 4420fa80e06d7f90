"""`weir bench`: the kernels on W1 and W2 with their peers, then the whole pipeline on Spark; ratios from one run.

python -m benchmarks.run [--quick] [--queries 1000,10000,100000,1000000] [--skip-peers] [--only kernels|pipeline]
"""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(prog="weir bench", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="smoke size: a few seconds, figures mean nothing")
    arguments.add_argument("--queries", default="1000,10000,100000,1000000")
    arguments.add_argument("--only", choices=("kernels", "pipeline"), default=None)
    arguments.add_argument("--skip-peers", action="store_true")
    args = arguments.parse_args(argv)
    sizes = [int(n) for n in args.queries.split(",")]
    if args.only in (None, "kernels"):
        from benchmarks.micro import selections

        given = ["--workload", "W1,W2", "--queries", args.queries]
        given += ["--quick"] if args.quick else []
        given += ["--peers", "none"] if args.skip_peers else []
        selections.main(given)
    if args.only in (None, "pipeline"):
        from benchmarks import pipeline

        if args.quick:
            pipeline.main([1_000], rows=2_000, batches=3)
        else:
            pipeline.main(sizes, rows=200_000, batches=8)
    return 0


if __name__ == "__main__":
    sys.exit(main())
