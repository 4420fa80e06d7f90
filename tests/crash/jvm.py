"""A JVM that several drivers use, one after another: most of what a driver's start costs is its JVM's.

A driver that dies leaves its Spark context behind, as a driver on a cluster leaves its executors; the next driver stops
it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"  # PySpark looks for a JVM there before it starts one


@contextlib.contextmanager
def shared_jvm() -> Iterator[dict[str, str]]:
    """The environment of drivers that are to use one JVM, which lives as long as this block."""
    command = [sys.executable, "-m", "tests.crash.jvm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        words = keeper.stdout.readline().split()
        try:
            assert len(words) == 2, "no JVM was started"
            yield {PORT: words[0], SECRET: words[1]}
        finally:
            keeper.stdin.close()


def take_over(environment: dict[str, str]) -> None:
    """In a driver: stop the context that a dead one left in the JVM, and give `environment` to this one's workers."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    companion = jvm.java.lang.Class.forName("org.apache.spark.SparkContext$").getField("MODULE$").get(None)
    left = companion.getActive()
    if left.isDefined():
        left.get().stop()
    properties = jvm.java.lang.System.getProperties()
    for name in [name for name in properties.stringPropertyNames() if name.startswith("spark.executorEnv.")]:
        properties.remove(name)
    for name, value in environment.items():
        properties.setProperty(f"spark.executorEnv.{name}", value)


def keep() -> None:
    """Start a JVM, say how it is reached, and end it when nobody listens any more."""
    from pyspark.java_gateway import launch_gateway

    from weir.runtime.java import ensure_bash, ensure_java

    ensure_java()
    ensure_bash()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    gateway: Any = launch_gateway()
    print(gateway.gateway_parameters.port, gateway.gateway_parameters.auth_token, flush=True)
    sys.stdin.read()  # the JVM ends with this process: it reads from it


if __name__ == "__main__":
    keep()
