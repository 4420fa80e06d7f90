"""A driver process for the crash tests: takes what is there, then ends. `WEIR_FAULT` says where it dies."""

from __future__ import annotations

import os
import sys

import weir
from tests.crash.jvm import PORT, take_over
from weir.errors import WeirError


def main(folder: str) -> int:
    os.setpgid(0, 0)  # the test can kill driver, JVM and workers together
    if PORT in os.environ:
        take_over({name: value for name, value in os.environ.items() if name.startswith("WEIR_FAULT")})
    # A batch is one push of each stream: as many rows as `ROWS` of the world.
    w = weir.open(folder, settings={"batch_rows_max": 55, "compact_every_batches": 1, "vacuum_every_batches": 2,
                                    "tail_queries_max": 3, "orphan_grace_s": 0})  # fmt: skip
    print("started", flush=True)
    try:
        w.run(available_now=True)
    except WeirError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 3
    print("finished", flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # a JVM that was killed must not keep us waiting
