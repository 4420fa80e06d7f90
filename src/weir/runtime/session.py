"""The Spark session: Weir's own local one, one that the user makes with our help, or one that the user has.

A job needs little of a session. What it needs for as long as it is started is set for that long, and put back
(`for_starting`); what can only be set before a session is made is in `configure`, and none of that is necessary.
Tasks may be retried (`local[N,4]`): a killed Python worker costs one attempt, not the batch.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weir.errors import RunError
from weir.runtime.java import NoJavaError, ensure_bash, ensure_java
from weir.runtime.machine import examine, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
# Sources must be named from batch 0 on: otherwise no stream could be added to a running checkpoint.
WHILE_STARTING = {EVOLUTION: "true", "spark.sql.session.timeZone": "UTC"}


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """What Weir likes of a session that is about to be made; returns the builder.

    Java is looked for (or the wheel's is taken), workers get the driver's Python unless PYSPARK_PYTHON says otherwise,
    and import what tasks need once for all of them. On a cluster every host must have Weir in that Python.
    """
    try:
        ensure_java()
    except NoJavaError as missing:
        raise RunError(f"no session without Java\n{report(examine())}") from missing
    ensure_bash()
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        os.environ["LC_ALL"] = "C.UTF-8"  # else Java cannot open a folder whose name is not ASCII
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    return (
        builder.config("spark.python.daemon.module", "weir.runtime.worker")
        .config("spark.executorEnv.NUMBA_NUM_THREADS", "1")
        .config("spark.speculation", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "262144")
    )


def local_session(*, cores: int | None = None, app: str = "weir") -> SparkSession:
    """A local session set up as Weir likes it; a session that there is is returned as it is."""
    found = existing_session()
    if found is not None:
        return found
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    cores = cores or os.cpu_count() or 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session: SparkSession = (
            configure(SparkSession.builder)
            .master(f"local[{cores},4]")
            .appName(app)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", str(cores))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
    return session


def existing_session() -> SparkSession | None:
    """The session that this process has, on whichever thread it was made."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def check(session: SparkSession) -> None:
    """RunError unless a job can run on this session; what can be set without harm is set."""
    if not hasattr(session, "_jvm"):
        raise RunError(
            "the session is a remote one (Spark Connect), expected a classic one",
            hint="make it with SparkSession.builder.master(…) in the process that runs the job",
        )
    context = session.sparkContext
    if str(context.getConf().get("spark.speculation", "false")).lower() == "true":
        raise RunError(
            "spark.speculation is on", hint="set spark.speculation=false: two attempts of a task would both write"
        )
    check_workers(session)


def check_workers(session: SparkSession) -> None:
    """RunError unless workers can import Weir; those of this machine are given the driver's Python."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable  # workers on this machine are of this Python, activated or not
        return
    try:
        context.parallelize([0], 1).map(_import_weir).collect()
    except Exception as error:
        said = str(error).strip()
        reason = next((line for line in reversed(said.split("\n")) if "Error" in line), said[:500]).strip()
        raise RunError(
            f"workers of {context.master} cannot import Weir with '{context.pythonExec}': {reason}",
            hint="install weir in that Python on every host, or name another one: PYSPARK_PYTHON=/path/to/python "
            "before the session is made",
        ) from error


def _import_weir(_: int) -> str:
    import weir

    return weir.__version__


@contextlib.contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """The session as the thread's active one: before Spark registers a data source it looks there for one of that name.

    It would refuse ours if another session of this process knew it.
    """
    known = type(session)._get_j_spark_session_class(session._jvm)
    before = known.getActiveSession()
    try:
        known.setActiveSession(session._jsparkSession)
        yield
    finally:
        known.setActiveSession(before.get()) if before.isDefined() else known.clearActiveSession()


@contextlib.contextmanager
def for_starting(session: SparkSession) -> Iterator[None]:
    """The session as a job needs it while it is started: the job keeps a copy of its settings, the user's come back."""
    before = {name: str(session.conf.get(name)) for name in WHILE_STARTING}
    with active(session):
        try:
            for name, value in WHILE_STARTING.items():
                session.conf.set(name, value)
            yield
        finally:
            for name, value in before.items():
                session.conf.set(name, value)
