"""Compile every kernel once, before the first batch needs it, and say how long it took.

A small table with every kind of constraint is built and searched by every strategy, within budget and over it, and a
small plane by every strategy of select joins, of band joins and of window joins, so that each kernel is compiled (or
loaded from its cache) for exactly the argument types that real tables give it; a test holds that nothing is compiled
later. Compile time is thereby reported apart from run time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from weir.index import strings
from weir.index.bands.costs import NAMES as BAND_STRATEGIES
from weir.index.bands.index import BandIndex
from weir.index.bands.layout import Meeting
from weir.index.bands.runs import cut, make_run
from weir.index.bands.spread import spread
from weir.index.boxes import BoxTable, read_only
from weir.index.jit import KERNELS
from weir.index.joins.costs import DEFAULT
from weir.index.joins.enumeration import Checks, Side
from weir.index.joins.pairs import Band, match_pairs
from weir.index.joins.partners import build_partners, locate
from weir.index.joins.planes import Plane
from weir.index.joins.search import STRATEGIES as JOIN_STRATEGIES
from weir.index.joins.search import JoinIndex, batch_order
from weir.index.keys import encode_doubles
from weir.index.strategies import STRATEGIES
from weir.index.windows.index import WindowIndex, meeting
from weir.index.windows.routing import Routed, walked_in_vain
from weir.index.windows.strategies import STRATEGIES as WINDOW_STRATEGIES
from weir.index.windows.strategies import Ages

_BOXES = 2_000
_WIDTH = 20  # of an interval, in a thousand
_KEYS = 1_000


def warm(progress: Callable[[str], None] | None) -> float:
    """Seconds it took to compile all kernels, or to load them from their cache."""
    started = time.perf_counter()
    table, keys = _sample()
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for number, (name, strategy) in enumerate(STRATEGIES.items()):
        if progress is not None:
            progress(f"kernels of strategy {number + 1} of {len(STRATEGIES)}: {name}")
        index = strategy.build(table, _BOXES, len(keys))
        index.search(keys, muted, _BOXES * keys.shape[1])
        index.search(keys, muted, 0)
    if progress is not None:
        progress("kernels of joins")
    _warm_joins()
    _warm_bands()
    _warm_windows()
    dictionary = strings.build(pa.array(["a", "b"]))
    strings.find(dictionary, pa.array(["a", None]))
    elapsed = time.perf_counter() - started
    if progress is not None:
        progress(f"{len(KERNELS)} kernels ready in {elapsed:.1f} s")
    return elapsed


def _sample() -> tuple[BoxTable, np.ndarray]:
    """Boxes over two categories and two numbers, one to four constraints each, and a few events."""
    box = np.arange(_BOXES)
    constants = np.stack([box % 7, box // 7 % 5, box * 37 % _KEYS, box * 91 % _KEYS], axis=1)
    widths = np.array([0, 0, _WIDTH, _WIDTH])
    both_numbers = 0b1100  # most boxes, so that a grid of two dimensions pays
    which = np.where(box % 4 == 0, 1 + box // 4 % 15, both_numbers)
    asked = (which[:, None] >> np.arange(4)) & 1 == 1
    at = np.nonzero(asked)
    lo = constants[at].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(asked, axis=1))])
    table = BoxTable(box.astype(np.int32), offsets, at[1].astype(np.int32), lo, lo + widths[at[1]])
    return table, np.ascontiguousarray(constants[:300].T, dtype=np.int64)


def _warm_joins() -> None:
    """Search a small plane by every strategy; enumerate pairs with and without checks, within budget and over it."""
    box = np.arange(_BOXES, dtype=np.int64)
    a_lo, c_lo = box * 37 % _KEYS, box * 91 % _KEYS
    plane = Plane(a_lo, a_lo + _WIDTH, c_lo, c_lo + _WIDTH)
    partners = build_partners(box % 9, c_lo)
    index = JoinIndex.from_arrays(JoinIndex.build(plane).arrays())
    keys, a = box[:300] % 11, box[:300]
    order = batch_order(keys, a)
    begin, end = locate(partners, keys[order])
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for strategy in ("auto", *JOIN_STRATEGIES):
        for budget in (0, _BOXES * len(a)):
            index.search(a[order], begin, end, partners.values, muted, budget, strategy=strategy)
    nothing = np.zeros(0, dtype=np.int64)
    for slots in (box, box // 2):  # one box a slot, and several
        for checked in (0, 1):
            offsets = np.arange(_BOXES + 1, dtype=np.int64) * checked
            attribute = np.zeros(_BOXES * checked, dtype=np.int32)
            lo, hi = (a_lo, a_lo + _WIDTH) if checked else (nothing, nothing)
            apart = np.full(_BOXES, _KEYS, dtype=np.int64)
            of_slot = slots.astype(np.int32)
            checks = Checks(offsets, attribute, lo, hi, offsets, attribute, lo, hi, of_slot, -apart, apart)
            events = Side(a[order], np.ascontiguousarray(a[order][None, :]))
            rows = Side(partners.values, np.ascontiguousarray(partners.values[None, :]))
            n_slots = int(slots[-1]) + 1
            for budget in (0, _BOXES * len(a)):
                match_pairs(
                    index,
                    checks,
                    a[order],
                    begin,
                    end,
                    partners.values,
                    events,
                    rows,
                    np.zeros(n_slots, dtype=np.uint8),
                    budget,
                )


def _warm_bands() -> None:
    """The same for band joins: runs with every kind of ladder and without, and pairs."""
    box = np.arange(_BOXES, dtype=np.int64)
    lo = box * 37 % _KEYS
    plane = Plane(lo, lo + _WIDTH, lo, lo + _WIDTH)
    partners = np.sort(box * 91 % _KEYS)
    values = {False: partners, True: partners.astype(np.float64).view(np.int64)}
    events = box[:50]
    begin, end = np.zeros(50, dtype=np.int64), np.full(50, _BOXES, dtype=np.int64)
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for is_double in (False, True):
        bounds = encode_doubles(lo.astype(np.float64)), encode_doubles((lo + _WIDTH).astype(np.float64))
        bands = plane._replace(c_lo=bounds[0], c_hi=bounds[1]) if is_double else plane
        index = BandIndex.from_arrays(BandIndex.build(bands, is_double=is_double).arrays())
        spent = spread(partners, events, begin, end, is_double=False)
        offset = events.astype(np.float64).view(np.int64) if is_double else spent.offset
        for is_one in (True, False):
            run = make_run(values[is_double], is_double, is_one=is_one)
            for strategy in ("auto", *BAND_STRATEGIES):
                for budget in (0, _BOXES * len(events)):
                    index.search(Meeting(events, offset, begin, end), run, muted, budget, strategy=strategy)
    nothing, none = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    no_checks = np.zeros(_BOXES + 1, dtype=np.int64), none, nothing, nothing
    apart = np.full(_BOXES, _KEYS, dtype=np.int64)
    checks = Checks(*no_checks, *no_checks, box.astype(np.int32), -apart, apart)
    columns = np.empty((0, len(events)), dtype=np.int64)
    rows = Side(partners, np.empty((0, _BOXES), dtype=np.int64))
    band = Band(index, run, offset)
    match_pairs(band, checks, events, begin, end, run.values, Side(events, columns), rows, muted, _BOXES * len(events))
    cut(read_only(partners), read_only(events), begin, end)


def _warm_windows() -> None:
    """The same for window joins, on lists of their own and on those of a select join, as in a segment."""
    box = np.arange(_BOXES, dtype=np.int64)
    a_lo, c_lo = box * 37 % _KEYS, box * 91 % _KEYS
    plane = Plane(a_lo, a_lo + _WIDTH, c_lo, c_lo + _WIDTH)
    partners = build_partners(box % 9, c_lo)
    keys = box[:50] % 9
    begin, end = locate(partners, keys)
    muted = np.zeros(_BOXES, dtype=np.uint8)
    ages = Ages(-box, box)
    joins = JoinIndex.build(plane)
    index = WindowIndex.build(plane, ages)
    of = joins.plane, joins.built.codes, joins.built.lists, joins.built.selected, index.points
    shared = WindowIndex.over(*of, ages)
    events = meeting(keys, box[:50], begin, end, partners.values, box)
    for one in (index, shared):
        one.estimates(events)
        for strategy in ("auto", *(name for name in WINDOW_STRATEGIES if name in one.strategies)):
            for budget in (0, _BOXES * len(keys)):
                one.search(events, muted, budget, strategy=strategy)
    walked_in_vain(joins.plane, shared.ages, events, read_only(keys), read_only(box[:50].astype(np.int32)))
    routed = Routed(joins, shared, 1, box)
    routed.search(
        box[:50], keys, begin, end, partners.values, muted, _BOXES * len(keys), strategy="auto", costs=DEFAULT
    )
