"""Alerts over a folder of JSON files: a streaming DataFrame as the source, a sink that prints who is to be told.

python examples/alerts_from_files.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

import weir
from weir.runtime.session import local_session


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        incoming = Path(root) / "incoming"
        incoming.mkdir()
        readings = [
            {"sensor": f"s{k % 5}", "celsius": 15 + k % 17, "at": f"2026-03-01T12:00:{k:02d}Z"} for k in range(60)
        ]
        (incoming / "one.json").write_text("\n".join(json.dumps(r) for r in readings))

        spark = local_session()
        frame = spark.readStream.schema("sensor string, celsius int, at timestamp").json(str(incoming))
        w = weir.open(Path(root) / "weir", spark=spark)
        w.stream("reading", frame, time="at", keep="1 day")
        alerts = w.register_many(
            "SELECT sensor, celsius FROM reading WHERE sensor = :sensor AND celsius >= :limit",
            [{"sensor": "s0", "limit": 30}, {"sensor": "s1", "limit": 29}, {"sensor": "s2", "limit": 31}],
        )

        def tell(matches: DataFrame, batch: int) -> None:
            for row in matches.orderBy("query", "row").collect():
                sensor, celsius = row["reading"]["sensor"], row["reading"]["celsius"]
                print(f"batch {batch}: query {row['query']}: {sensor} has {celsius} °C")

        w.run(available_now=True, sink=tell)
        for query in alerts:
            print(query.sql, "→", query.fetch().num_rows, "readings")


if __name__ == "__main__":
    main()
