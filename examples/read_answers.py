"""Answers read with pandas, Polars, DuckDB and Spark while the weir runs.

python examples/read_answers.py

`fetch` gives an Arrow table, which pandas, Polars and DuckDB take as it is. Spark reads the folder itself, from any
session: an answer as a DataFrame, and what comes and goes as a stream that goes on where it was.
"""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import polars
from pyspark.sql import DataFrame

import weir
from weir.runtime.session import local_session

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
SPENT = (
    "SELECT symbol, count(*) AS n, sum(price) AS spent FROM trade WHERE price < :limit GROUP BY symbol "
    "BEGIN NOW - INTERVAL 1 MINUTE END NOW"
)


def trades(second: int) -> list[dict[str, object]]:
    """What is traded within ten seconds."""
    return [
        {"symbol": f"S{k % 7}", "price": 5.0 + k % 11, "ts": NOON + datetime.timedelta(seconds=second + k % 10)}
        for k in range(40)
    ]


def by_pandas(query: weir.Query) -> int:
    frame = query.fetch().to_pandas()
    return int(frame["n"].sum())


def by_polars(query: weir.Query) -> int:
    return int(polars.DataFrame(query.fetch())["n"].sum())


def by_duckdb(query: weir.Query) -> int:
    with duckdb.connect() as database:
        database.register("answer", query.fetch())
        ((count,),) = database.sql("SELECT coalesce(sum(n), 0) FROM answer").fetchall()
    return int(count)


def by_spark(query: weir.Query, folder: Path) -> int:
    answer = local_session().read.format("weir").option("query", str(query.id)).load(str(folder))
    return sum(row["n"] for row in answer.collect())


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        read(Path(root) / "weir", Path(root) / "reader")


def read(folder: Path, checkpoint: Path) -> None:
    spark = local_session()
    w = weir.open(folder, spark=spark)
    w.stream("trade", "symbol string, price double, ts timestamp", time="ts", keep="1 hour")
    query = w.register(SPENT, {"limit": 12.0})
    told: Counter[tuple[object, ...]] = Counter()  # how often each row of the answer is there, by its changes

    def add_up(changes: DataFrame, number: int) -> None:
        for row in changes.collect():
            told[row["symbol"], row["n"], row["spent"]] += row["change"]

    run = w.run(trigger="0 seconds")
    changes = spark.readStream.format("weir").options(what="changes", query=str(query.id)).load(str(folder))
    reader = changes.writeStream.foreachBatch(add_up).option("checkpointLocation", str(checkpoint)).start()
    for second in (0, 30, 60, 90):
        w.push("trade", trades(second))
        while run.progress().events < 40 * (second // 30 + 1):
            run.wait(0.01)
        print(f"after {second + 9:2} seconds pandas counts {by_pandas(query)} trades")
    print("while it runs: Polars", by_polars(query), "DuckDB", by_duckdb(query), "Spark", by_spark(query, folder))
    run.stop()
    reader.processAllAvailable()
    reader.stop()

    counts = {by_pandas(query), by_polars(query), by_duckdb(query), by_spark(query, folder)}
    answer = Counter(tuple(row.values()) for row in query.fetch().to_pylist())
    print(f"all count {counts.pop() if len(counts) == 1 else sorted(counts)} trades; ", end="")
    print(f"the changes add up to {'the answer' if +told == answer else 'something else'}")


if __name__ == "__main__":
    main()
