"""Joins of two to six streams: what a new row costs against the number of sources, and DuckDB beside it in one run.

    python -m benchmarks.micro.many [--queries N] [--sources 2,3,…] [--batch N] [--peers all|none] [--seconds S]

Streams s0, s1, … are a chain, s0.j = s1.k, s1.j = s2.k, …, with two partners a probe on average (as CSJQ's Figure 12
has it), and every query has a range for each of them, of such a length that a new row matches ten queries whatever
their number and that of the sources. New rows come on s0; queries and kept rows are loaded before the clock starts.
Two sources are what the family of joins of two does, more the family of joins of many. DuckDB answers as many of the
first events as it can in `--seconds`, counts the matches, and must count as many.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.micro.timing import events_within, rate
from weir.algebra.schema import BIGINT, TIMESTAMP, Catalog, Column, Stream
from weir.families.joins.join_family import joined
from weir.families.joins.join_matching import JoinMatches
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.families.many.many_family import joined as joined_many
from weir.families.many.many_rows import EventRows, ManyRows, Pool
from weir.families.many.many_segments import ManySegment
from weir.families.members import Group
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings

REACH = 1_000_000  # values are uniform on 0 … REACH
MATCHES = 10.0
PARTNERS = 2  # a probe
KEPT_ROWS = 100_000
PAIRS_MAX = 1 << 40

say = functools.partial(print, flush=True)


class Standing:
    """Queries over a chain of sources, their kept rows, and a batch of new rows of the first."""

    def __init__(self, n_sources: int, n_queries: int, n_events: int, rows: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.n_sources, self.n_events = n_sources, n_events
        self.kept = [_rows(rng, rows, rows // PARTNERS) for _ in range(n_sources)]
        self.events = _rows(rng, n_events, rows // PARTNERS)
        share = (MATCHES / n_queries / PARTNERS ** (n_sources - 1)) ** (1 / n_sources)
        width = min(int(share * REACH), REACH - 1)
        lo = rng.integers(0, REACH - width, (n_sources, n_queries))
        ends = {f"lo{k}": lo[k] for k in range(n_sources)} | {f"hi{k}": lo[k] + width for k in range(n_sources)}
        self.params = pa.table(ends)
        columns = (*(Column(name, BIGINT) for name in ("k", "j", "v")), Column("ts", TIMESTAMP))
        streams = [Stream(f"s{k}", columns, "ts", None) for k in range(n_sources)]
        catalog = Catalog({s.name: s for s in streams})
        sources = ", ".join(s.name for s in streams)
        keys = [f"s{k}.j = s{k + 1}.k" for k in range(n_sources - 1)]
        ranges = [f"s{k}.v BETWEEN :lo{k} AND :hi{k}" for k in range(n_sources)]
        sql = f"SELECT s0.v FROM {sources} WHERE {' AND '.join(keys + ranges)}"
        settings = Settings()
        planned = plan_registration(sql, self.params, catalog, settings)
        groups = [Group(planned.shape.query, constants_table(planned, self.params), 0)]
        begun = time.perf_counter()
        self.match: Callable[[int], JoinMatches]
        if n_sources == 2:
            self.segment: JoinSegment | ManySegment = self._two(planned.shape.query, groups, catalog, settings)
        else:
            self.segment = self._many(planned.shape.query, groups, catalog)
        self.build_s = time.perf_counter() - begun

    def _two(self, query: Any, groups: list[Group], catalog: Catalog, settings: Settings) -> JoinSegment:
        found = joined(query, catalog)
        segment = JoinSegment.build(found.family, groups, catalog, settings=settings)
        side = found.family.streams.index("s0")
        partners = PartnerRows.build(
            found.family,
            1 - side,
            self.kept[1],
            np.arange(self.kept[1].num_rows),
            np.zeros(self.kept[1].num_rows, np.int64),
            accesses=segment.accesses(1 - side),
            columns=segment.asked(1 - side),
        )
        muted = np.zeros(len(segment.ids), np.uint8)

        def match(n: int) -> JoinMatches:
            times = np.zeros(n, np.int64)
            return _whole(segment.match(side, self.events.slice(0, n), times, partners, muted, PAIRS_MAX))

        self.match = match
        return segment

    def _many(self, query: Any, groups: list[Group], catalog: Catalog) -> ManySegment:
        found = joined_many(query, catalog)
        segment = ManySegment.build(found.family, groups, catalog, strategy="grid")
        side = found.family.streams.index("s0")
        pools = {}
        for other, name in enumerate(found.family.streams):
            if other != side:
                table = self.kept[int(name[1:])]
                ids, times = np.arange(table.num_rows), np.zeros(table.num_rows, np.int64)
                columns = segment.asked(other)
                pools[other] = Pool([ManyRows.build(found.family, other, table, ids, times, columns=columns)])
        muted = np.zeros(len(segment.ids), np.uint8)

        def match(n: int) -> JoinMatches:
            events = EventRows(self.events.slice(0, n), np.arange(n), np.zeros(n, np.int64))
            return _whole(segment.match(side, events, pools, muted, PAIRS_MAX))

        self.match = match
        return segment

    def duckdb(self) -> Callable[[int], int]:
        """How many matches the first events have, by one SQL query over all standing ones."""
        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        params, events = self.params, self.events
        connection.register("given", params)
        connection.execute("CREATE TABLE q AS SELECT * FROM given")
        for k in range(1, self.n_sources):
            connection.register("given", self.kept[k])
            connection.execute(f"CREATE TABLE s{k} AS SELECT k, j, v FROM given")
        keys = [f"s{k}.j = s{k + 1}.k" for k in range(self.n_sources - 1)]
        ranges = [f"s{k}.v BETWEEN q.lo{k} AND q.hi{k}" for k in range(self.n_sources)]
        sources = ", ".join(f"s{k}" for k in range(self.n_sources))
        text = f"SELECT count(*) FROM {sources}, q WHERE {' AND '.join(keys + ranges)}"

        def answer(n: int) -> int:
            connection.register("s0", events.slice(0, n))
            [(count,)] = connection.execute(text).fetchall()
            return int(count)

        return answer


def _rows(rng: np.random.Generator, count: int, keys: int) -> pa.Table:
    made = {
        "k": rng.integers(0, keys, count),
        "j": rng.integers(0, keys, count),
        "v": rng.integers(0, REACH, count),
    }
    return pa.table(made).append_column("ts", pa.array(np.zeros(count, np.int64)).cast(pa.timestamp("us", "UTC")))


def _whole(found: Any) -> JoinMatches:
    assert isinstance(found, JoinMatches), "the budget is boundless"
    return found


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.many", description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--sources", default="2,3,4,5,6")
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--peers", default="all", choices=("all", "none"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--quick", action="store_true", help="a few seconds in all; the figures mean nothing")
    args = parser.parse_args(argv)
    rows = KEPT_ROWS
    if args.quick:
        args.queries, args.batch, args.sources, args.seconds, rows = 1_000, 500, "2,3,4", 0.2, 2_000
    say(f"{args.queries:,} queries, {rows:,} kept rows a source, {PARTNERS} partners a probe, one thread")
    say("sources | events/s | µs an event | combinations, matches an event | × two sources | × DuckDB | bytes a query")
    found: list[dict[str, Any]] = []
    for n_sources in map(int, args.sources.split(",")):
        standing = Standing(n_sources, args.queries, args.batch, rows)
        matches = len(standing.match(args.batch).slots) / args.batch  # compiles, too
        ours = rate(functools.partial(standing.match, args.batch), args.batch)
        row: dict[str, Any] = {
            "sources": n_sources,
            "events_per_s": ours,
            "matches": matches,
            "build_s": standing.build_s,
            "bytes_per_query": sum(a.nbytes for a in standing.segment.arrays().values()) / args.queries,
        }
        if args.peers == "all":
            answer = standing.duckdb()
            n = events_within(answer, args.batch, args.seconds)
            assert answer(n) == len(standing.match(n).slots), "DuckDB counts other matches"
            row["duckdb"] = rate(functools.partial(answer, n), n)
            row["duckdb_ratio"] = rate(functools.partial(standing.match, n), n) / row["duckdb"]
        found.append(row)
        peer = f"{row['duckdb_ratio']:.1f}" if "duckdb_ratio" in row else "–"
        combinations = PARTNERS ** (n_sources - 1)
        say(
            f"{n_sources} | {ours:,.0f} | {1e6 / ours:.1f} | {combinations}, {matches:.1f} | "
            f"{ours / found[0]['events_per_s']:.3f} | {peer} | {row['bytes_per_query']:.0f}"
        )
    out = Path("bench-results")
    out.mkdir(exist_ok=True)
    (out / f"many-{int(time.time())}.json").write_text(json.dumps(found, indent=1))
    return found


if __name__ == "__main__":
    main()
