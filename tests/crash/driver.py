"""A driver process for the crash tests: takes what is there, then ends. `WEIR_FAULT` says where it dies."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import weir
from tests.crash.jvm import PORT, take_over
from weir.errors import WeirError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "batch_rows_max": 63,  # one push of each stream: `ROWS`, and the `CHANGES` of both tables of the world
    "compact_every_batches": 1,
    "vacuum_every_batches": 2,
    "fold_every_batches": 4,
    "tail_queries_max": 3,
    "orphan_grace_s": 0,
}


def _session() -> SparkSession | None:
    """A session of the cluster that the test has started, or None for a local one."""
    if "WEIR_MASTER" not in os.environ:
        return None
    from pyspark.sql import SparkSession

    builder = weir.configure(SparkSession.builder.master(os.environ["WEIR_MASTER"]))
    plain = {"ui.enabled": "false", "log.level": "ERROR", "driver.host": "127.0.0.1", "executor.memory": "700m"}
    for name, value in plain.items():
        builder = builder.config(f"spark.{name}", value)
    return builder.getOrCreate()


def main(folder: str) -> int:
    os.setpgid(0, 0)  # the test can kill driver, JVM and workers together
    if PORT in os.environ:
        take_over({name: value for name, value in os.environ.items() if name.startswith("WEIR_FAULT")})
    w = weir.open(folder, spark=_session(), settings=SETTINGS)
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
