"""W6, queries whose answers are kept: what their upkeep costs a batch, and what others need for the same answers.

    python -m benchmarks.kept [--parts batch,state,expiry,joins,spark,peers] [--queries 100000] [--events 50000]
                              [--step 5] [--measured 12] [--slices 2] [--skip-peers] [--quick]

batch   one batch with the alerts of `benchmarks.alerts` kept beside the same batch with them not kept, in this process
        and by turns, after as many batches as fill the window: the phases of a batch, and the ratio of the whole.
state   what the newest done document says is kept of them, in bytes a query and a result in a window.
expiry  batches of a fifth of the events, and one after which a million results are over at once: it beside the median.
joins   1,000 kept joins with negation: orders that have no shipment yet.
spark   the batch on Spark: all batches stand in the inbox, and what is measured are those after the window is full.
peers   DuckDB and Spark with the same events and rules (`benchmarks.peers.alerts_duckdb`, `.alerts_spark`). All answers
        of all systems are compared; a sample of Weir's is fetched. Slow peers run fewer batches, which is said.

Figures are medians of one run, and go to bench-results/kept.json. Events wait in memory before a peer's clock starts,
and in the inbox before Weir's.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import weir
from benchmarks.alerts import START_US, TEXT, Alerts, w6
from benchmarks.peers.alerts_duckdb import RecomputedInDuckDB
from benchmarks.peers.alerts_spark import PanesInSpark, RecomputedInSpark, streamed
from weir.api import Weir
from weir.handles import Queries
from weir.runtime.session import configure
from weir.store.maintained import FOLDER, read_part
from weir.testing.direct import DirectWeir

PARTS = ("batch", "state", "expiry", "joins", "spark", "peers")
PHASES = ("ingest", "match", "upkeep")
SAMPLE = 200  # answers that are fetched and compared
STREAM_BATCHES = 4  # of Spark's own windows, over an empty state: each event is in as many windows as steps fit in one
EXPIRING = 1_000_000
WANTED = {"batch": 2.0, "expiry": 3.0, "peers": 50.0}
Figures = dict[str, Any]

say = functools.partial(print, flush=True)


def opened(folder: Path, alerts: Alerts, slices: int) -> Weir:
    """A weir with the stream of alerts."""
    w = weir.open(folder, settings={"batch_rows_max": alerts.batch_events, "slices": slices})
    w.stream("event", "k bigint, v double, ts timestamp", time="ts", keep="6 minutes")
    return w


def registered(w: Weir, alerts: Alerts, *, kept: bool) -> Queries:
    """All rules as queries; the id of a rule is the place of its query."""
    return w.register_many(TEXT, alerts.rules.drop_columns(["id"]), kept=kept)


class Driven:
    """A weir whose batches run in this process, each with its times."""

    def __init__(self, w: Weir, slices: int) -> None:
        self.weir = w
        self.direct = DirectWeir(w, slices=slices, wall_us=START_US + 86_400_000_000)
        self.times: list[dict[str, float]] = []  # by batch, milliseconds by phase, and of the processor

    def batch(self, **rows: pa.Table) -> None:
        begun, worked = time.perf_counter(), time.process_time()
        self.direct.batch(rows)
        whole, worked = (time.perf_counter() - begun) * 1e3, (time.process_time() - worked) * 1e3
        jobs = self.direct.jobs
        assert jobs is not None, "a batch was run"
        self.times.append(
            {"whole": whole, "processor": worked, **{phase: getattr(jobs, f"{phase}_ms") for phase in PHASES}}
        )

    def median(self, measured: int) -> dict[str, float]:
        """Of the last batches, by phase."""
        last = self.times[-measured:]
        return {phase: statistics.median(one[phase] for one in last) for phase in last[0]}


def batch_costs(folder: Path, alerts: Alerts, measured: int, slices: int, parts: set[str]) -> Figures:
    """A batch with the alerts kept beside the same batch with them not kept; and what is kept."""
    driven = {}
    for name, kept in (("kept", True), ("not kept", False)):
        w = opened(folder / name, alerts, slices)
        queries = registered(w, alerts, kept=kept)
        driven[name] = Driven(w, slices), queries
    for number in range(alerts.window_batches + measured):
        events = alerts.events(number)
        for one, _ in driven.values():
            one.batch(event=events)
    found: Figures = {name: one.median(measured) for name, (one, _) in driven.items()}
    for clock in ("whole", "processor"):
        found[f"ratio of {clock}"] = found["kept"][clock] / found["not kept"][clock]
    found["events_per_s"] = alerts.batch_events / found["kept"]["whole"] * 1e3
    (kept, queries), last = driven["kept"], alerts.window_batches + measured - 1
    compared(queries, alerts, expected(alerts, last))
    for name in driven:
        phases = ", ".join(f"{phase} {found[name][phase]:.0f}" for phase in PHASES)
        worked = found[name]["processor"]
        say(f"  {name:9} {found[name]['whole']:7.0f} ms a batch ({phases}), {worked:.0f} ms of the processor")
    whole, worked = found["ratio of whole"], found["ratio of processor"]
    say(f"  kept / not kept {whole:.2f}, of the processor's time {worked:.2f} (wanted ≤ {WANTED['batch']:.0f})")
    return found | ({"state": state_bytes(kept.weir, len(queries))} if "state" in parts else {})


def expected(alerts: Alerts, batch: int) -> dict[int, int]:
    """The alerts that show after a batch, as DuckDB says."""
    duck = RecomputedInDuckDB(alerts)
    for number in range(max(0, batch + 1 - alerts.window_batches), batch + 1):
        duck.put(number)
    return as_dict(duck.answers())


def as_dict(answers: pa.Table) -> dict[int, int]:
    return dict(zip(answers.column("id").to_pylist(), answers.column("n").to_pylist(), strict=True))


def compared(queries: Queries, alerts: Alerts, wanted: dict[int, int]) -> None:
    """Fetch a sample of all alerts, those that show and those that do not, and compare."""
    sample = np.random.default_rng(5).choice(len(alerts.rules), min(SAMPLE, len(alerts.rules)), replace=False)
    shown = 0
    for place in sample.tolist():
        answer = queries[place].fetch().column("n").to_pylist()
        assert answer == ([wanted[place]] if place in wanted else []), f"alert {place}: {answer}, {wanted.get(place)}"
        shown += len(answer)
    assert 0 < shown < len(sample), f"{shown} of {len(sample)} alerts show, so the comparison says little"


def state_bytes(w: Weir, n_queries: int) -> Figures:
    """How large the files are that the newest done document names for kept queries, and what of them is in use."""
    w.state.refresh(w.ledger)
    paths = {path for part in w.state.kept.values() for path in part.files}
    total = sum(entry.size for entry in w.files.list(FOLDER) if entry.path in paths)
    by_kind: dict[str, int] = {}
    results = 0
    for part in w.state.kept.values():
        for shape in read_part(w.files, part.path).shapes.values():
            kinds = {kind: getattr(shape, kind) for kind in ("constants", "answers", "dues", "sums")}
            kinds["results"] = tuple(run for of in shape.results for run in of)
            results += sum(run.count for run in kinds["results"])
            for kind, runs in kinds.items():
                used = sum(len(read_part(w.files, run.path).arrays[run.key]) for run in runs)
                by_kind[kind] = by_kind.get(kind, 0) + used
    alone = sum(size for kind, size in by_kind.items() if kind != "results")
    figures = {
        "files_bytes": total,
        "used_bytes": by_kind,
        "results": results,
        "bytes_a_query": total / n_queries,
        "bytes_a_query_without_results": alone / n_queries,
        "bytes_a_result": by_kind["results"] / max(1, results),
    }
    kinds_said = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in by_kind.items())
    say(f"  {len(paths)} files, {total / 1e6:.1f} MB: {figures['bytes_a_query']:,.0f} bytes a query of one group")
    say(
        f"  in use, MB: {kinds_said}; {alone / n_queries:.0f} bytes a query beside its results, "
        f"{figures['bytes_a_result']:.1f} a result of {results:,}"
    )
    return figures


def expiry(folder: Path, alerts: Alerts, measured: int, slices: int, expiring: int) -> Figures:
    """The batch after which many results are over at once, beside its neighbours."""
    few = alerts._replace(batch_events=max(10, alerts.batch_events // 5))
    w = opened(folder / "expiry", few, slices)
    queries = registered(w, alerts, kept=True)
    one = Driven(w, slices)
    at_once = measured  # the batch in whose last microsecond many events are
    for number in range(at_once + few.window_batches + measured):
        events = few.events(number)
        if number == at_once:
            more = few.events(10**6 + number, expiring * 2 // 20)
            times = pa.array(np.full(len(more), few.now_us(number)), pa.timestamp("us", "UTC"))
            events = pa.concat_tables([events, more.set_column(2, "ts", times)])
        one.batch(event=events)
    last = one.times[-2 * measured + 1 :]
    median, longest = statistics.median(t["whole"] for t in last), max(t["whole"] for t in last)
    figures = {"results": expiring, "median_ms": median, "longest_ms": longest, "ratio": longest / median}
    spread = [round(t["whole"]) for t in last]
    figures["batches_ms"] = spread
    assert len(queries) == len(alerts.rules)
    say(
        f"  about {expiring:,} results over at once, batches of {few.batch_events:,} events: median {median:.0f} ms, "
        f"longest {longest:.0f} ms, ratio {longest / median:.2f} (wanted ≤ {WANTED['expiry']:.0f})"
    )
    return figures


# ── joins with negation ──

JOIN_TEXT = (
    "SELECT o.id, o.amount FROM orders o WHERE o.area = :area AND o.amount > :least AND NOT EXISTS "
    "(SELECT 1 FROM shipment s WHERE s.id = o.id) BEGIN NOW - INTERVAL 1 MINUTE END NOW"
)
ORDER_STEP_US = 2_000_000
ORDER_WINDOW_US = 60_000_000


def orders(number: int, count: int, n_areas: int) -> tuple[pa.Table, pa.Table]:
    """The orders of a batch, and shipments of nine in ten orders of the batch before."""
    random = np.random.default_rng([9, number])
    times = np.sort(random.integers(0, ORDER_STEP_US, count)) + START_US + number * ORDER_STEP_US
    placed = pa.table(
        {
            "id": number * count + np.arange(count),
            "area": random.integers(0, n_areas, count),
            "amount": random.random(count),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    shipped = (number - 1) * count + np.flatnonzero(np.random.default_rng([9, number, 1]).random(count) < 0.9)
    at = pa.array(np.full(len(shipped), times[-1]), pa.timestamp("us", "UTC"))
    return placed, pa.table({"id": shipped, "ts": at})


def open_orders(number: int, count: int, n_areas: int, area: int, least: float) -> set[int]:
    """What one query shows after a batch, by DuckDB over everything that came."""
    import duckdb

    batches = [orders(k, count, n_areas) for k in range(number + 1)]
    now_us = max(int(table.column("ts").cast(pa.int64()).to_numpy().max()) for table in batches[-1])
    database = duckdb.connect()
    database.register("o", pa.concat_tables([placed for placed, _ in batches]))
    database.register("s", pa.concat_tables([shipped for _, shipped in batches]))
    text = (
        "SELECT id FROM o WHERE area = ? AND amount > ? AND epoch_us(ts) > ? AND NOT EXISTS "
        "(SELECT 1 FROM s WHERE s.id = o.id AND epoch_us(s.ts) > ?)"
    )
    edge = now_us - ORDER_WINDOW_US
    return {id for (id,) in database.execute(text, [area, least, edge, edge]).fetchall()}


def joins(folder: Path, n_queries: int, count: int, measured: int, slices: int) -> Figures:
    """Batches of orders and shipments before kept joins with negation."""
    n_areas = max(1, n_queries // 2)
    w = weir.open(folder / "joins", settings={"batch_rows_max": 2 * count, "slices": slices})
    w.stream("orders", "id bigint, area bigint, amount double, ts timestamp", time="ts", keep="2 minutes")
    w.stream("shipment", "id bigint, ts timestamp", time="ts", keep="2 minutes")
    random = np.random.default_rng(11)
    params = pa.table({"area": np.arange(n_queries) % n_areas, "least": random.random(n_queries) / 2})
    queries = w.register_many(JOIN_TEXT, params, kept=True)
    one = Driven(w, slices)
    number, came = -1, 0
    for number in range(ORDER_WINDOW_US // ORDER_STEP_US + measured):
        placed, shipped = orders(number, count, n_areas)
        one.batch(orders=placed, shipment=shipped)
        came = len(placed) + len(shipped)
    for place in range(0, n_queries, max(1, n_queries // 10)):
        area, least = (params.column(name)[place].as_py() for name in ("area", "least"))
        shown = set(queries[place].fetch().column("id").to_pylist())
        assert shown == open_orders(number, count, n_areas, area, least), f"query {place}"
    median = one.median(measured)
    figures = {"queries": n_queries, "rows": came, **median, "rows_per_s": came / median["whole"] * 1e3}
    phases = ", ".join(f"{phase} {median[phase]:.0f}" for phase in PHASES)
    say(
        f"  {n_queries:,} kept joins with negation, {came:,} rows a batch: {median['whole']:.0f} ms ({phases}), "
        f"{figures['rows_per_s']:,.0f} rows a second"
    )
    return figures


# ── on Spark, and beside others ──


def session() -> SparkSession:
    """As Weir makes it, with the memory that peers need; whoever asks for a session later is given this one."""
    builder = configure(SparkSession.builder).master("local[2,4]").appName("weir benchmark of kept queries")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def on_spark(folder: Path, alerts: Alerts, measured: int, slices: int, *, kept: bool) -> Figures:
    """Milliseconds of the last batches of a run over an inbox that has them all."""
    w = opened(folder / ("spark kept" if kept else "spark"), alerts, slices)
    queries = registered(w, alerts, kept=kept)
    last = alerts.window_batches + measured
    for number in range(last):
        w.push("event", alerts.events(number))
    run = w.run(trigger="0 seconds")
    ends: list[float] = []
    by_phase: list[float] = []
    while len(ends) < last:
        progress = run.progress()
        if progress.batches > len(ends):
            ends += [time.perf_counter()] * (progress.batches - len(ends))
            assert progress.last_batch is not None, "there was one"
            by_phase.append(progress.last_batch.upkeep_ms)
        run.wait(0.005)
    run.stop()
    if kept:
        compared(queries, alerts, expected(alerts, last - 1))
    batch_s = (ends[-1] - ends[-1 - measured]) / measured
    upkeep_ms = statistics.median(by_phase[-measured:])
    return {"batch_ms": batch_s * 1e3, "upkeep_ms": upkeep_ms, "events_per_s": alerts.batch_events / batch_s}


def spark_costs(folder: Path, alerts: Alerts, measured: int, slices: int) -> Figures:
    """The whole batch on Spark, kept and not."""
    found = {name: on_spark(folder, alerts, measured, slices, kept=name == "kept") for name in ("kept", "not kept")}
    ratio = found["kept"]["batch_ms"] / found["not kept"]["batch_ms"]
    for name, one in found.items():
        say(f"  {name:9} {one['batch_ms']:7.0f} ms a batch (upkeep {one['upkeep_ms']:.0f})")
    say(
        f"  kept / not kept {ratio:.2f} (wanted ≤ {WANTED['batch']:.0f}), {found['kept']['events_per_s']:,.0f} events/s"
    )
    return {**found, "ratio": ratio}


def peers(alerts: Alerts, measured: int) -> Iterator[tuple[str, float, int]]:
    """Each peer's name, its seconds a batch, and over how many batches; their answers are compared."""
    few = max(1, min(3, measured))
    last = alerts.window_batches + few - 1
    wanted = expected(alerts, last)
    duck = RecomputedInDuckDB(alerts)
    yield "DuckDB, window recomputed", _timed(alerts, few, duck.take, duck.answers, wanted), few
    for name, of in (("Spark, window recomputed", RecomputedInSpark), ("Spark, panes by hand", PanesInSpark)):
        peer = of(alerts)
        yield name, _timed(alerts, few, lambda events, _, peer=peer: peer.take(events), peer.answers, wanted), few
    seconds, shown = streamed(alerts, STREAM_BATCHES)
    right = expected(alerts, STREAM_BATCHES - 1)
    assert as_dict(shown).items() <= right.items(), "a streaming query says what changed, and nothing else"
    yield "Spark, sliding windows", statistics.median(seconds[1:]), len(seconds) - 1


def _timed(
    alerts: Alerts, measured: int, take: Callable[[pa.Table, int], None], answers: Callable[[], pa.Table], wanted: Any
) -> float:
    """Seconds a batch once the window is full; the last answers are compared."""
    for number in range(alerts.window_batches - 1):
        take(alerts.events(number), alerts.now_us(number))
    answers()  # warm
    seconds = []
    for number in range(alerts.window_batches - 1, alerts.window_batches + measured):
        events = alerts.events(number)
        begun = time.perf_counter()
        take(events, alerts.now_us(number))
        found = answers()
        seconds.append(time.perf_counter() - begun)
    assert as_dict(found) == wanted, "the alerts of a peer are others"
    return statistics.median(seconds[1:])


def beside(alerts: Alerts, measured: int, ours: float | None) -> list[Figures]:
    """The peers, beside Weir's events a second if they were measured."""
    found = []
    for name, batch_s, batches in peers(alerts, measured):
        rate = alerts.batch_events / batch_s
        found.append({"name": name, "batch_s": batch_s, "batches": batches, "events_per_s": rate})
        times = "" if ours is None else f", Weir is {ours / rate:.1f} times as fast"
        say(f"  {name:26} {batch_s * 1e3:8.0f} ms a batch over {batches} batches: {rate:,.0f} events/s{times}")
    return found


def main(argv: list[str] | None = None) -> Figures:
    """Run and print; returns the figures, and writes them to bench-results/kept.json."""
    parser = argparse.ArgumentParser(prog="benchmarks.kept", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--step", type=int, default=5, help="seconds of event time between batches")
    parser.add_argument("--measured", type=int, default=12, help="batches that are measured")
    parser.add_argument("--slices", type=int, default=2)
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    parts = set(args.parts.split(","))
    if not parts <= set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(parts - set(PARTS)))}; there are {', '.join(PARTS)}")
    if args.quick:
        args.queries, args.events, args.step, args.measured = 400, 500, 30, 3
    alerts = w6(args.queries, args.events, args.step * 1_000_000)
    rounds = args.measured
    found: Figures = {"queries": args.queries, "events": args.events, "window_batches": alerts.window_batches}
    say(f"W6: {args.queries:,} kept alerts, {args.events:,} events a batch, {alerts.window_batches} batches a window")
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        if parts & {"batch", "state"}:
            found["batch"] = batch_costs(folder, alerts, rounds, args.slices, parts)
        if "expiry" in parts:
            found["expiry"] = expiry(folder, alerts, rounds, args.slices, EXPIRING if not args.quick else 1_000)
        if "joins" in parts:
            size = (20, 200) if args.quick else (1_000, 10_000)
            found["joins"] = joins(folder, *size, rounds, args.slices)
        if "spark" in parts or ("peers" in parts and not args.skip_peers):
            session()
        if "spark" in parts:
            found["spark"] = spark_costs(folder, alerts, rounds, args.slices)
        if "peers" in parts and not args.skip_peers:
            ours = found.get("spark", {}).get("kept") or found.get("batch")
            found["peers"] = beside(alerts, rounds, ours and ours["events_per_s"])
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / "kept.json").write_text(json.dumps(found, indent=2))
    return found


if __name__ == "__main__":
    main()
    sys.exit(0)
