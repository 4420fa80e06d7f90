"""A standalone cluster of one master and two workers on this machine, and who of it can be killed."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

WORKERS = 2
EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON_WORKER = "weir.runtime.worker"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with workers, for as long as the block lasts."""
    import pyspark

    from weir.runtime.java import ensure_bash, ensure_java

    ensure_java()
    ensure_bash()
    home = Path(pyspark.__file__).parent
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = os.environ | {
        "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }  # fmt: skip
    spark_class = str(home / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    commands += [
        [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", url]
    ] * WORKERS
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context(open(folder / f"{number}.log", "w"))
            process = subprocess.Popen(
                [spark_class, *command], env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(_end, process)
            if number == 0:
                _wait_for(port)
        for _ in range(600):
            if (folder / "0.log").read_text().count("Registering worker") == WORKERS:
                break
            time.sleep(0.1)
        yield url


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the master never listened")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 15)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)


def processes(word: str, folder: Path) -> list[int]:
    """The processes whose command has a word, of executors that work under this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                where = os.readlink(entry / "cwd")
                if word in command and where.startswith(str(folder)):
                    found.append(int(entry.name))
    return found
