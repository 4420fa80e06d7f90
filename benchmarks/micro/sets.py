"""IN of long lists: registration and the cost of an event, beside one equality.

    python -m benchmarks.micro.sets [--events 200000] [--quick]

`one` is a query with 100,000 constants, `many` are 1,000 queries with 1,000 constants each, `both` are these with a
second condition (`price > :low`), `equality` is one query with one constant. One event in two has a constant of the
first. Registration is planning, converting, checking and building the index, from list parameters; `text` is the time
of `one` with its constants in the SQL text. Rates are medians of three on one thread, keys of the texts included, and
every match is counted against a plain dictionary.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.micro.timing import rate, seconds_of
from weir.algebra.schema import DOUBLE, STRING, TIMESTAMP, Catalog, Column, Stream
from weir.families.members import Group
from weir.families.selections.selection_segments import Segment
from weir.index.box_tables import Matches
from weir.index.warm import warm
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings

STREAM = Stream("trade", (Column("name", STRING), Column("price", DOUBLE), Column("ts", TIMESTAMP)), "ts", None)
CATALOG = Catalog({"trade": STREAM})
SETTINGS = Settings(sql_chars_max=1 << 30)
IN = "SELECT name FROM trade WHERE name IN (:names)"

say = functools.partial(print, flush=True)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run and print; returns the rows of the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.micro.sets")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    part = 100 if args.quick else 1
    say(f"kernels compiled or loaded in {warm(None, ['grid']):.1f} s")
    longest, queries, each = 100_000 // part, 1_000 // min(part, 10), 1_000 // min(part, 10)
    rng = np.random.default_rng(1)
    events = _events(rng, args.events // part, longest)
    one = pa.table({"names": pa.array([[f"n{k}" for k in range(longest)]])})
    many_lists = [[f"n{k}" for k in rng.choice(2 * longest, each, replace=False)] for _ in range(queries)]
    many = pa.table({"names": pa.array(many_lists), "low": rng.uniform(0, 100, queries)})
    rows = [
        measure("equality", "SELECT name FROM trade WHERE name = :names", pa.table({"names": ["n1"]}), events),
        measure("one", IN, one, events),
        measure("many", IN, many.select(["names"]), events),
        measure("both", IN + " AND price > :low", many, events),
    ]
    text = IN.replace(":names", ", ".join(f"'n{k}'" for k in range(longest)))
    rows[1]["text_s"] = round(seconds_of(lambda: plan_registration(text, None, CATALOG, SETTINGS)), 2)
    say(f"one, its {longest:,} constants in the text: planned in {rows[1]['text_s']} s")
    return rows


def _events(rng: np.random.Generator, count: int, longest: int) -> pa.Table:
    names = pa.array([f"n{k}" for k in rng.integers(0, 2 * longest, count)])
    times = pa.array(np.arange(count), pa.timestamp("us", "UTC"))
    return pa.table({"name": names, "price": rng.uniform(0, 100, count), "ts": times})


def measure(name: str, sql: str, params: pa.Table, events: pa.Table) -> dict[str, Any]:
    """One workload: registered, built and matched."""
    begun = time.perf_counter()
    planned = plan_registration(sql, params, CATALOG, SETTINGS)
    constants = constants_table(planned, params)
    planned.check(constants)
    planned_s = time.perf_counter() - begun
    segment = Segment.build(STREAM, [Group(planned.shape.query, constants, 0)], strategy="grid")
    registered_s = time.perf_counter() - begun
    muted = np.zeros(len(segment.ids), bool)
    found = segment.match(events, muted, 1 << 40)
    assert isinstance(found, Matches)
    assert len(found.slots) == _matches(params, events), f"{name}: the index finds other pairs than a dictionary"
    items = sum(len(x) if isinstance(x, list) else 1 for x in params.column("names").to_pylist())
    row = {
        "workload": name,
        "queries": params.num_rows,
        "items": items,
        "planned_s": round(planned_s, 3),
        "registered_s": round(registered_s, 3),
        "bytes_per_item": round(sum(a.nbytes for a in segment.arrays().values()) / items, 1),
        "matches_per_event": round(len(found.slots) / events.num_rows, 3),
        "us_per_event": round(1e6 / rate(lambda: segment.match(events, muted, 1 << 40), events.num_rows), 3),
    }
    say("  ".join(f"{key} {value:,}" if not isinstance(value, str) else f"{value:9}" for key, value in row.items()))
    return row


def _matches(params: pa.Table, events: pa.Table) -> int:
    """How many pairs there are, by a dictionary from values to the lower bounds of their queries."""
    has_low = "low" in params.column_names
    lows: dict[str, list[float]] = {}
    given = params.column("names").to_pylist()
    bounds = params.column("low").to_pylist() if has_low else [-1.0] * len(given)
    for names, low in zip(given, bounds, strict=True):
        for value in names if isinstance(names, list) else [names]:
            lows.setdefault(value, []).append(low)
    if not has_low:
        counts = Counter(events.column("name").to_pylist())
        return sum(n * len(lows.get(value, ())) for value, n in counts.items())
    pairs = zip(events.column("name").to_pylist(), events.column("price").to_pylist(), strict=True)
    return sum(price > low for value, price in pairs for low in lows.get(value, ()))


if __name__ == "__main__":
    main()
