"""Anybody's session: made without Weir, by a Python whose environment is not activated, with streams of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from weir.runtime.session import for_starting
from weir.runtime.sources import unite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAIN = textwrap.dedent("""
    import json, sys, time
    from pathlib import Path
    from pyspark.sql import SparkSession, functions as F
    import weir
    from weir.errors import StreamError

    folder = Path(sys.argv[1])
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.sql.session.timeZone", "Europe/Berlin").config("spark.log.level", "ERROR").getOrCreate())

    def feed(name, *rows):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"{time.time_ns()}.json").write_text("".join(json.dumps(row) + chr(10) for row in rows))

    def read(name, columns):
        return spark.readStream.schema(columns).json(str(folder / name))

    feed("trade", {"name": "a", "price": 1.0, "ts": "2026-03-01T12:00:00Z"})
    feed("other", {"x": 1})
    w = weir.open(folder / "weir", spark=spark)
    w.stream("trade", read("trade", "name string, price double, ts timestamp"), time="ts", keep="1 hour")
    states = [lambda f: f.groupBy("name").count(), lambda f: f.dropDuplicates(["name"]), lambda f: f.join(f, "name")]
    for make in states:
        try:
            w.stream("state", make(read("trade", "name string, ts timestamp")).withColumn("ts", F.current_timestamp()),
                     time="ts")
            raise SystemExit("a stream with a state was taken")
        except StreamError as refused:
            assert "cannot be part of Weir's own query" in str(refused), refused
    assert list(w.catalog.streams) == ["trade"]
    query = w.register("SELECT name FROM trade WHERE price < 10")
    w.run(available_now=True)
    assert query.fetch().to_pylist() == [{"name": "a"}]

    # The session is as it was: unnamed streams of the user's own, and the time zone.
    assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    counted = read("other", "x int").writeStream.format("memory").queryName("other").trigger(availableNow=True).start()
    counted.awaitTermination()
    assert spark.sql("SELECT count(*) FROM other").first()[0] == 1

    # A stream that comes while the job runs, and one that goes.
    run = w.run(trigger="0 seconds")
    feed("quote", {"name": "q", "ts": "2026-03-01T12:00:01Z"})
    w.stream("quote", read("quote", "name string, ts timestamp"), time="ts", keep="1 hour")
    quotes = w.register("SELECT name FROM quote")
    def until(done, what):
        for _ in range(600):
            if done():
                return
            time.sleep(0.1)
        raise SystemExit(what)
    until(lambda: quotes.fetch().num_rows == 1, "the quote never came")
    quotes.drop()
    w.drop_stream("quote")
    feed("trade", {"name": "b", "price": 2.0, "ts": "2026-03-01T12:00:02Z"})
    until(lambda: query.fetch().num_rows == 2, "the job did not go on without the stream")
    run.stop()

    # A sink that raises stops the job with its own error; the batch is not lost for the next one.
    class Oops(Exception):
        pass
    seen = []
    def sink(frame, number):
        seen.append((number, frame.count()))
        if len(seen) == 1:
            raise Oops("not now")
    feed("trade", {"name": "c", "price": 3.0, "ts": "2026-03-01T12:00:03Z"})
    try:
        w.run(available_now=True, sink=sink)
        raise SystemExit("the error of the sink was lost")
    except Oops:
        pass
    assert query.fetch().num_rows == 3
    w.run(available_now=True, sink=sink)
    assert seen[0] == seen[1] and seen[0][1] == 1, seen
    with w:
        assert "1 standing queries" in repr(w), repr(w)
    assert spark.range(3).count() == 3, "a session that was given stays"
    print("all well")
""")


def test_a_plain_session_of_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(sys.prefix))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "VIRTUAL"))} | {"PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "all well" in done.stdout


def test_several_sessions_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """Each knows its own data sources; the one that Spark takes for active may be another than the job's."""
    one, two = spark.newSession(), spark.newSession()
    for session in (one, two, one):
        with for_starting(session):
            unite(session, str(tmp_path), {}, slices=1, rows_max=1)
        one.createDataFrame([(1,)], "a int")  # what makes it the active one
