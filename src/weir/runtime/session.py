"""The Spark session: Weir's own local one, or what Weir needs of a session that the user gives.

Tasks may be retried (`local[N,4]`): a killed Python worker costs one attempt, not the batch.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

from weir.errors import RunError
from weir.runtime.java import NoJavaError, ensure_bash, ensure_java
from weir.runtime.machine import examine, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def local_session(*, cores: int | None = None, app: str = "weir") -> SparkSession:
    """A local session set up as Weir likes it; an active session is returned as it is."""
    try:
        ensure_java()
    except NoJavaError as missing:
        raise RunError(f"no session without Java\n{report(examine())}") from missing
    ensure_bash()
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        os.environ["LC_ALL"] = "C.UTF-8"  # else Java cannot open a folder whose name is not ASCII
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    from pyspark.sql import SparkSession

    cores = cores or os.cpu_count() or 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session: SparkSession = (
            SparkSession.builder.master(f"local[{cores},4]")
            .appName(app)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.python.daemon.module", "weir.runtime.worker")
            .config("spark.speculation", "false")
            .config("spark.sql.shuffle.partitions", str(cores))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "262144")
            .config("spark.log.level", "ERROR")
            .config(EVOLUTION, "true")
            .getOrCreate()
        )
    return session


def prepare(session: SparkSession) -> None:
    """Set what Weir needs of any session before its first batch.

    Sources must be named from batch 0 on: otherwise no stream could be added to a running checkpoint.
    """
    session.conf.set(EVOLUTION, "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    if str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise RunError(
            "spark.speculation is on", hint="set spark.speculation=false: two attempts of a task would both write"
        )
