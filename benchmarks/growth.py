"""Does anything grow? Thousands of batches over streams that keep an hour: files, bytes, memory, open files, times.

    python -m benchmarks.growth [--batches 10000] [--spark]

Rows come for ten seconds a batch, so that after 360 batches as many expire as come. Without --spark tasks run in this
process, with the same files, documents and housekeeping. The last column that grows tells what leaks.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import weir
from weir.runtime.housekeeping import Housekeeping
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STEP_S = 10
ROWS = {"trade": 100, "weather": 20}
SETTINGS = {"vacuum_every_batches": 50, "orphan_grace_s": 0}
KINDS = ("ledger", "inbox", "rows", "matches", "late", "cache", "checkpoint")  # folders of a weir
LATE_KEEP_S = {False: 3_600, True: 60}  # by whether Spark runs it: there a batch takes half a second, not ten


def rows_of(batch: int, random: np.random.Generator) -> dict[str, pa.Table]:
    """The rows of one batch; some are too old to be taken."""
    made = {}
    for name, count in ROWS.items():
        seconds = batch * STEP_S + np.sort(random.uniform(0, STEP_S, count))
        seconds[random.random(count) < 0.01] -= 7_200
        times = [START + datetime.timedelta(seconds=float(s)) for s in seconds]
        made[name] = pa.table(
            {
                "area": random.integers(0, 50, count),
                "x": np.round(random.uniform(0, 1000, count), 1),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
    return made


def make(folder: str, spark: Any) -> tuple[weir.Weir, list[weir.Query]]:
    w = weir.open(folder, spark=spark, settings=SETTINGS | {"late_keep_s": LATE_KEEP_S[spark is not None]})
    for name in ROWS:
        w.stream(name, "area bigint, x double, ts timestamp", time="ts", keep="1 hour")
    lows = [float(x) for x in range(1000)]
    ranges = {"lo": lows, "hi": [x + 1 for x in lows]}
    selections = w.register_many("SELECT x FROM trade WHERE x BETWEEN :lo AND :hi", ranges)
    joins = w.register_many(
        "SELECT t.x, r.x AS y FROM trade t JOIN weather r ON t.area = r.area WHERE t.x BETWEEN :lo AND :hi",
        {"lo": lows[:200], "hi": [x + 5 for x in lows[:200]]},
    )
    return w, [selections[500], joins[100]]


def files_by_kind(folder: Path, files: list[Path]) -> dict[str, int]:
    """How many files each folder of the weir has; seals go with what they seal."""
    kinds = (p.relative_to(folder).parts for p in files)
    counts = Counter(parts[1] if parts[0] == "seals" and len(parts) > 2 else parts[0] for parts in kinds)
    return {f"{kind} files": counts[kind] for kind in KINDS}


def measured(folder: Path, batch_ms: list[float], queries: list[weir.Query]) -> dict[str, float]:
    files = [p for p in folder.rglob("*") if p.is_file()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    fetch_ms = []
    for _ in range(5):
        for query in queries:
            begun = time.perf_counter()
            query.fetch()
            fetch_ms.append((time.perf_counter() - begun) * 1e3)
    status = Path("/proc/self/status").read_text()
    return {
        "files": len(files),
        "MB": sum(p.stat().st_size for p in files if p.exists()) / 1e6,
        **files_by_kind(folder, files),
        "RSS MB": int(status.split("VmRSS:")[1].split()[0]) / 1e3,
        "open files": len(os.listdir("/proc/self/fd")),
        "mapped, deleted": sum("(deleted)" in line and str(folder) in line for line in maps),
        "batch ms": statistics.median(batch_ms),
        "fetch ms": statistics.median(fetch_ms),
    }


def run(batches: int, spark: Any) -> list[dict[str, float]]:
    """Figures after every tenth of the batches."""
    found: list[dict[str, float]] = []
    random = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "weir"
        w, queries = make(str(folder), spark)
        if spark is None:
            direct = DirectWeir(w)  # its clock is set with every batch
            keeper = Housekeeping(w.files, w.settings, direct.context.registry, direct.segments.in_use)
        else:
            job = w.run(trigger="0 seconds")
        recent: list[float] = []
        for batch in range(batches):
            rows = rows_of(batch, random)
            begun = time.perf_counter()
            if spark is None:
                direct.wall_us = int((START + datetime.timedelta(seconds=(batch + 1) * STEP_S)).timestamp() * 1e6)
                direct.batch(rows)
                recent.append((time.perf_counter() - begun) * 1e3)
                keeper.after(batch)
                keeper.close()
            else:
                done = job.progress().batches
                for name, table in rows.items():
                    w.push(name, table)
                while job.progress().batches == done:
                    time.sleep(0.002)
                recent.append(job.progress().last_batch.batch_ms)
            if (batch + 1) % (batches // 10) == 0:
                found.append({"batch": batch + 1, **measured(folder, recent, queries)})
                print(_line(found[-1]), flush=True)
                recent = []
        if spark is not None:
            job.stop()
    return found


def _line(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:,.1f}".replace(".0", "") for name, value in figures.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    spark = None
    if given.spark:
        from weir.runtime.session import local_session

        spark = local_session(cores=2)
    found = run(given.batches, spark)
    middle, last = found[len(found) // 2], found[-1]
    print("last over middle: " + ", ".join(f"{k} {last[k] / max(middle[k], 1e-9):.2f}" for k in last if k != "batch"))
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / f"growth-{'spark' if given.spark else 'direct'}.json").write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
