"""Joins of two over many attributes (W5): the partial index beside those that reach boxes through two attributes.

    python -m benchmarks.micro.partial [--queries 100000,1000000] [--results 1,5,50] [--batch N] [--quick]

The same queries, tuples and join results as `benchmarks.micro.boxes`, but as a family of joins has them: an event meets
its partners, boxes that it affects are found by an index, and joining pairs are enumerated from these with all checks.
So the figures hold the whole way from an event to its pairs. `auto` chooses for every event. All ways must find the
same pairs, as many as a plain scan of the boxes on the first events. Then stabbing groups in one, two and three
dimensions: how many groups there are, and how many boxes an event looks at.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import time
from typing import Any

import numpy as np

from benchmarks.micro.timing import events_within, rate
from benchmarks.workloads import BoxWorkload, w5
from weir.index.joining.pairs import Pairs, match_pairs
from weir.index.joining.routing import EitherIndex
from weir.index.joins.join_index import JoinIndex
from weir.index.meeting.checks import Remaining, make_checks
from weir.index.meeting.index_contract import Meeting, Side, Tuning
from weir.index.meeting.partner_runs import plain_run
from weir.index.meeting.planes import Plane
from weir.index.papers.stabbing_boxes import build_stabbing_boxes, search_stabbing_boxes
from weir.index.strategies import STRATEGIES
from weir.index.trees.partial_index import PartialIndex
from weir.index.warm import warm

WAYS = ("auto", "partial", "sweep", "select-first")
_ANY = 1 << 50
_CHECKED = 20  # events whose pairs are compared with a scan
_STABBED = 20_000  # boxes whose stabbing groups are measured

say = functools.partial(print, flush=True)


class Standing:
    """The queries of a workload as boxes of a join, seen from the arriving side, and its tuples with their partners."""

    def __init__(self, workload: BoxWorkload) -> None:
        own, others = workload.streams
        n, d = workload.n_queries, own + others
        lo, hi = (bounds.reshape(n, d) for bounds in (workload.table.constraint_lo, workload.table.constraint_hi))
        plane = Plane(*(np.ascontiguousarray(b[:, k]) for k in (0, own) for b in (lo, hi)))
        begun = time.perf_counter()
        self._by_two = JoinIndex.build(plane, thrifty=True)
        self.build_two_s = time.perf_counter() - begun
        begun = time.perf_counter()
        self._partial = PartialIndex.build(plane, workload.table, own, d)
        self.build_partial_s = time.perf_counter() - begun
        self.bytes = self._partial.nbytes / n
        self.bytes_in_all = self.bytes + self._by_two.nbytes / n
        self._checks = make_checks(
            _remaining(lo[:, 1:own], hi[:, 1:own]),
            _remaining(lo[:, own + 1 :], hi[:, own + 1 :]),
            np.arange(n, dtype=np.int32),
            (np.zeros(n, np.int64), np.zeros(n, np.int64)),
            is_timed=False,
        )
        self._muted = np.zeros(n, dtype=np.uint8)
        self.choices: dict[str, int] = {}
        self.meet(workload)

    def meet(self, workload: BoxWorkload) -> None:
        """Go on with other tuples; kept rows lie in the order of their first attribute."""
        self.workload = workload
        partners = workload.keys[workload.streams[0] :].reshape(-1, workload.n_events, workload.n_results)
        self._by_c = np.argsort(partners[0], axis=1, kind="stable")
        self._partners = np.take_along_axis(partners, self._by_c[None], axis=2).reshape(len(partners), -1)

    def pairs(self, strategy: str, n_events: int, first: int = 0) -> Pairs:
        """The pairs of the events `first` .. `n_events`, in the order in which they were searched."""
        index = EitherIndex(self._by_two, self._partial.for_batch())
        meeting, _ = self._meeting(first, n_events)
        found, choices = match_pairs(index, meeting, self._checks, self._muted, _ANY, Tuning(strategy))
        assert isinstance(found, Pairs), "the budget is boundless"
        self.choices = {name: int(count) for name, count in zip(index.names, choices, strict=True) if count}
        return found

    def by_result(self, strategy: str, n_events: int) -> tuple[np.ndarray, np.ndarray]:
        """The queries of each join result of the first events, as CSR."""
        n_results = self.workload.n_results
        found, (_, order) = self.pairs(strategy, n_events), self._meeting(0, n_events)
        event = order[np.repeat(np.arange(n_events), np.diff(found.offsets))]
        result = event * n_results + self._by_c[event, found.places - event * n_results]
        by_result = np.lexsort((found.slots, result))
        offsets = np.searchsorted(result[by_result], np.arange(n_events * n_results + 1))
        return offsets, found.slots[by_result]

    def _meeting(self, first: int, stop: int) -> tuple[Meeting, np.ndarray]:
        """Events in the order that suits the tree, each with its partners by their first attribute; and that order."""
        w, own = self.workload, self.workload.streams[0]
        n_events, at = stop - first, slice(first * w.n_results, stop * w.n_results)
        events = np.ascontiguousarray(w.keys[:own, at][:, :: w.n_results])
        order = self._partial.batch_order(events[0], events[1:])
        partners = self._partners[:, at]
        begin = order * w.n_results
        meeting = Meeting(
            events[0][order],
            begin,
            begin + w.n_results,
            plain_run(partners[0]),
            np.empty(0, np.int64),
            Side(np.zeros(n_events, np.int64), np.ascontiguousarray(events[1:, order])),
            Side(np.zeros(partners.shape[1], np.int64), np.ascontiguousarray(partners[1:])),
        )
        return meeting, order


def _remaining(lo: np.ndarray, hi: np.ndarray) -> Remaining:
    n, width = lo.shape
    attribute = np.tile(np.arange(width, dtype=np.int32), n)
    offsets = np.arange(n + 1, dtype=np.int64) * width
    return Remaining(offsets, attribute, np.ascontiguousarray(lo).reshape(-1), np.ascontiguousarray(hi).reshape(-1))


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run and print; returns the rows of the table."""
    args = _arguments(argv)
    say(f"joins of two over 5 + 5 attributes; {platform.machine()}, {os.cpu_count()} cores; one thread, medians")
    warm(None, {"joins", "pairs", "partial"})
    rows = []
    for n_queries in args.queries:
        for n_results in args.results:
            workload = w5(n_queries, max(args.batch // n_results, 1), n_results)
            rows += [measure(workload)]
    _stabbing(w5(min(min(args.queries), _STABBED), 50, 1))
    return rows


def measure(workload: BoxWorkload) -> dict[str, Any]:
    """One row: every way from events to pairs."""
    standing = Standing(workload)
    checked = min(_CHECKED, workload.n_events)
    scan = STRATEGIES["scan"].build(workload.table, workload.n_queries, workload.n_attributes)
    keys = np.ascontiguousarray(workload.keys[:, : checked * workload.n_results])
    expected: Any = scan.search(keys, np.zeros(workload.n_queries, np.uint8), _ANY)
    say(
        f"\n{workload.name}  {workload.n_queries:,} queries, {workload.n_results} join results an event, "
        f"{len(expected.slots) / checked:.1f} pairs an event; built in {standing.build_two_s:.1f} s by two attributes, "
        f"{standing.build_partial_s:.1f} s by all, {standing.bytes:.0f} bytes a query"
    )
    row: dict[str, Any] = {"queries": workload.n_queries, "results": workload.n_results, "ways": {}}
    for name in WAYS:
        found = standing.pairs(name, checked)
        assert len(found.slots) == len(expected.slots), f"{name} finds {len(found.slots)}, not {len(expected.slots)}"
        assert np.array_equal(np.sort(found.slots), np.sort(expected.slots)), f"{name} finds other queries"
        count = functools.partial(_count, standing, name)
        events = events_within(count, workload.n_events, 0.5, first=checked)
        row["ways"][name] = each = rate(lambda count=count, events=events: count(events), events)
        chosen = f"; chosen: {standing.choices}" if name == "auto" else ""
        say(f"  {name:14}{each:>10,.0f} events/s, {1e6 / each / workload.n_results:,.1f} µs a join result{chosen}")
    by_two = max(row["ways"][name] for name in WAYS[2:])
    row["gain"] = round(row["ways"]["auto"] / by_two, 1)
    say(f"  auto: {row['gain']} × the best by two attributes")
    return row


def _count(standing: Standing, strategy: str, n_events: int) -> int:
    return len(standing.pairs(strategy, n_events).slots)


def _stabbing(workload: BoxWorkload) -> None:
    """Stabbing groups in several dimensions against one dimension with checks."""
    n, d = workload.n_queries, workload.n_attributes
    lo, hi = (bounds.reshape(n, d) for bounds in (workload.table.constraint_lo, workload.table.constraint_hi))
    say(f"\nstabbing groups of {n:,} boxes in {d} dimensions")
    for dims in (1, 2, 3):
        boxes = build_stabbing_boxes(lo, hi, dims)
        search_stabbing_boxes(boxes, workload.keys[:, :1])
        _, looked = search_stabbing_boxes(boxes, workload.keys)
        each = rate(functools.partial(search_stabbing_boxes, boxes, workload.keys), workload.keys.shape[1])
        seen = looked / workload.keys.shape[1]
        say(f"  by {dims}: {len(boxes.points):,} groups, {seen:,.0f} boxes looked at an event, {1e6 / each:,.0f} µs")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.partial", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", default="100000,1000000")
    parser.add_argument("--results", default="1,5,50")
    parser.add_argument("--batch", type=int, default=10_000, help="join results")
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.queries, args.results, args.batch = "3000", "1,3", 60
    args.queries = [int(n) for n in args.queries.split(",")]
    args.results = [int(n) for n in args.results.split(",")]
    return args


if __name__ == "__main__":
    main()
