"""Compile kernels once, before the first batch needs them, by as many processes as there are cores; say how it goes.

Kernels come in *kinds*: those of a strategy of selections, of the boxes of select joins, of joining pairs, of bands, of
windows, of joins of many streams. A weir needs the kinds of its standing queries only (`query_segments` knows
which). Of each kind a small sample is built and searched in every way, within budget and over it, so that each kernel
is compiled (or loaded from its cache) for exactly the argument types that real tables give it; a test holds that
nothing is compiled later.

`ready` (or `python -m weir.index.warm`, for all kinds) compiles what is missing from the cache on disk: a process for
each kind, as many at a time as there are cores. A mark beside the cached kernels says that a kind is whole, for this
machine's processor and this Python and Numba. Without a cache folder nothing can be passed on, so nothing is done
ahead.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
from numba.core.registry import cpu_target

from weir.index import strings
from weir.index.bands import band_strategies
from weir.index.bands.band_index import BandIndex
from weir.index.bands.spread import spread
from weir.index.box_tables import BoxTable, Matches, Uint8s, check, frozen, read_only
from weir.index.histograms import Floats
from weir.index.jit import cache_folder, config
from weir.index.joining.pairs import match_pairs
from weir.index.joining.routing import EitherIndex, RoutedIndex
from weir.index.joins import join_strategies
from weir.index.joins.join_index import JoinIndex, batch_order
from weir.index.keys import encode_doubles
from weir.index.meeting.checks import Remaining, make_checks
from weir.index.meeting.collector import CollectedIndex
from weir.index.meeting.index_contract import (
    AUTO,
    Found,
    Meeting,
    Side,
    Tuning,
    band_meeting,
    plain_meeting,
    timed_meeting,
)
from weir.index.meeting.partner_runs import cut, make_run
from weir.index.meeting.partners import build_partners, locate
from weir.index.meeting.planes import Plane
from weir.index.samples import Sample
from weir.index.strategies import MADE_OF, STRATEGIES, Choosing
from weir.index.sweep import candidates_of, lay_out
from weir.index.trees.grid_file import GridFileIndex
from weir.index.trees.partial_index import PartialIndex
from weir.index.trees.rtree import TreeIndex
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_layout import Ages

_BOXES = 2_000
_WIDTH = 20  # of an interval, in a thousand
_KEYS = 1_000
_PAIRED = 200  # boxes whose pairs are enumerated


def warm(say: Callable[[str], None] | None, kinds: Collection[str] | None = None) -> float:
    """Seconds it took to have the kernels of these kinds, or of all, in this process."""
    started = time.perf_counter()
    wanted = [kind for kind in KINDS if kinds is None or kind in kinds]
    if not config.DISABLE_JIT:
        ready(wanted, say)
        for kind in wanted:
            KINDS[kind]()
    return time.perf_counter() - started


def ready(kinds: Collection[str], say: Callable[[str], None] | None = None) -> None:
    """Have the kernels of these kinds in the cache; what is missing is compiled by processes of its own."""
    if config.DISABLE_JIT:
        return
    folder = cache_folder()
    if folder is None or not _missing(kinds):
        return
    say = say or (lambda _: None)
    try:
        with _alone(folder):
            missing = _missing(kinds)
            if missing:
                say(f"compiling kernels, once for this version of Weir: {', '.join(missing)}")
                _compile(missing, say)
    except OSError as error:  # a disk that is full, or too little memory: whoever calls a kernel compiles it
        say(f"kernels were not compiled ahead: {error}")


def ready_kinds() -> list[str]:
    """The kinds whose kernels are in the cache."""
    missing = _missing(KINDS) if cache_folder() is not None else list(KINDS)
    return [kind for kind in KINDS if kind not in missing]


def _missing(kinds: Collection[str]) -> list[str]:
    return [kind for kind in (*KINDS, *OTHERS) if kind in kinds and not _mark(kind).exists()]


def _mark(kind: str) -> Path:
    """The file that is there if a kind is cached for this processor, Python and Numba."""
    folder = cache_folder()
    assert folder is not None
    return folder / f"{kind}-{_machine()}.whole"


@functools.cache
def _machine() -> str:
    """What Numba's cache tells apart, beside the source text."""
    about = (sys.version_info[:3], numba.__version__, cpu_target.target_context.codegen().magic_tuple())
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process of a machine compiles, the others wait for it."""
    with (folder / "compiling").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _compile(kinds: Sequence[str], say: Callable[[str], None]) -> None:
    """Compile each kind in a process of its own, as many at a time as there are cores, the longest first."""
    started = time.perf_counter()
    waiting, running, done = list(kinds), dict[str, subprocess.Popen[str]](), 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                kind = waiting.pop(0)
                command = [sys.executable, "-m", "weir.index.warm", kind]
                running[kind] = subprocess.Popen(
                    command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
                )
            for kind in [kind for kind, process in running.items() if process.poll() is not None]:
                process = running.pop(kind)
                _, errors = process.communicate()
                done += 1
                if process.returncode == 0:
                    elapsed = time.perf_counter() - started
                    say(f"kernels of {kind} compiled: {done} of {len(kinds)}, {elapsed:.1f} s")
                else:  # they will be compiled where they are called
                    say(f"kernels of {kind} were not compiled ahead: {errors.strip()[-300:]}")
            time.sleep(0.02)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


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


def _warm_selections(strategy: str) -> Callable[[], None]:
    def warm_strategy() -> None:
        """Search a small table, within budget and over it."""
        table, keys = _sample()
        muted = np.zeros(_BOXES, dtype=np.uint8)
        # Rows in the corners of boxes: attributes depend on each other, and boxes are chosen by pairs too.
        sample = Sample(keys, np.ones(len(keys), np.bool_))
        made = STRATEGIES[strategy].build(table, _BOXES, len(keys), sample)
        again = STRATEGIES[strategy].from_arrays(made.arrays())
        if isinstance(again, Choosing):
            again.foreseen(sample)
        index = STRATEGIES[strategy].build(table, _BOXES, len(keys))
        index.search(keys, muted, _BOXES * keys.shape[1])
        index.search(keys, muted, 0)
        _warm_strings()

    return warm_strategy


def _warm_sweep() -> None:
    """Search by a sweep, and ask how many candidates events have, as is done before it is chosen."""
    _warm_selections("sweep")()
    table, keys = _sample()
    swept = lay_out(check(table, _BOXES, len(keys)), len(keys) - 1)
    candidates_of(frozen(swept), read_only(keys))


def _warm_strings() -> None:
    dictionary = strings.build(pa.array(["a", "b"]))
    strings.find(dictionary, pa.array(["a", None]))


def _warm_joins() -> None:
    """Search a small plane by every strategy."""
    box = np.arange(_BOXES, dtype=np.int64)
    a_lo, c_lo = box * 37 % _KEYS, box * 91 % _KEYS
    plane = Plane(a_lo, a_lo + _WIDTH, c_lo, c_lo + _WIDTH)
    partners = build_partners(box % 9, c_lo)
    JoinIndex.build(plane, thrifty=True)  # asks the cost model whether stabbing sets pay
    index = JoinIndex.from_arrays(JoinIndex.build(plane).arrays())
    keys, a = box[:300] % 11, box[:300]
    order = batch_order(keys, a)
    begin, end = locate(partners, keys[order])
    _search(index, plain_meeting(a[order], begin, end, partners.values), join_strategies.NAMES)
    _warm_strings()


def _search(index: CollectedIndex, meeting: Meeting, strategies: Sequence[str]) -> None:
    """Search a meeting in every way, within budget and over it."""
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for strategy in ("auto", *strategies):
        for budget in (0, _BOXES * len(meeting.a)):
            index.search(meeting, muted, budget, Tuning(strategy))


class _Affected:
    """Stands in for an index, whose kernels are another kind: affected boxes by looking at all of them."""

    names = ("scan",)
    listed = None
    finder = None

    def __init__(self, plane: Plane) -> None:
        self.plane = plane

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        a_lo, a_hi, c_lo, c_hi = self.plane
        found = []
        for key, first, last in zip(meeting.a, meeting.begin, meeting.end, strict=True):
            run = meeting.run.values[first:last]
            meets = np.searchsorted(run, c_lo) < np.searchsorted(run, c_hi, side="right")
            found.append(np.flatnonzero(meets & (a_lo <= key) & (key <= a_hi)).astype(np.int32))
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return Found(Matches(offsets, np.concatenate(found)), np.array([len(found)]))

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> Floats:
        return np.zeros((len(meeting.a), 1))


def _warm_pairs() -> None:
    """Enumerate pairs with and without checks, within budget and over it."""
    box = np.arange(_PAIRED, dtype=np.int64)
    a_lo, c_lo = box * 37 % _KEYS, box * 91 % _KEYS
    index = _Affected(Plane(a_lo, a_lo + _WIDTH, c_lo, c_lo + _WIDTH))
    partners = build_partners(box % 9, c_lo)
    a = box[:20]
    events, rows = Side(a, a[None, :]), Side(partners.values, partners.values[None, :])
    meeting = plain_meeting(a, *locate(partners, a % 11), partners.values)._replace(events=events, partners=rows)
    nothing, apart = np.zeros(0, dtype=np.int64), np.full(_PAIRED, _KEYS, dtype=np.int64)
    for slots in (box, box // 2):  # one box a slot, and several
        for checked in (0, 1):
            offsets = np.arange(_PAIRED + 1, dtype=np.int64) * checked
            bounds = (a_lo, a_lo + _WIDTH) if checked else (nothing, nothing)
            left = Remaining(offsets, np.zeros(_PAIRED * checked, dtype=np.int32), *bounds)
            checks = make_checks(left, left, slots.astype(np.int32), (-apart, apart))
            for budget in (0, _PAIRED * len(a)):
                match_pairs(index, meeting, checks, np.zeros(int(slots[-1]) + 1, dtype=np.uint8), budget)


def _warm_bands() -> None:
    """The same for band joins: runs with every kind of ladder and without."""
    box = np.arange(_BOXES, dtype=np.int64)
    lo = box * 37 % _KEYS
    plane = Plane(lo, lo + _WIDTH, lo, lo + _WIDTH)
    partners = np.sort(box * 91 % _KEYS)
    values = {False: partners, True: partners.astype(np.float64).view(np.int64)}
    events = box[:50]
    begin, end = np.zeros(50, dtype=np.int64), np.full(50, _BOXES, dtype=np.int64)
    for is_double in (False, True):
        bounds = encode_doubles(lo.astype(np.float64)), encode_doubles((lo + _WIDTH).astype(np.float64))
        bands = plane._replace(c_lo=bounds[0], c_hi=bounds[1]) if is_double else plane
        index = BandIndex.from_arrays(BandIndex.build(bands, is_double=is_double).arrays())
        spent = spread(partners, events, begin, end, is_double=False)
        offset = events.astype(np.float64).view(np.int64) if is_double else spent.offset
        for is_one in (True, False):
            run = make_run(values[is_double], is_double, is_one=is_one)
            _search(index, band_meeting(events, offset, begin, end, run), band_strategies.NAMES)
    cut(read_only(partners), read_only(events), begin, end)


def _warm_windows() -> None:
    """The same for window joins, on lists of their own and on those of a select join, as in a segment."""
    box = np.arange(_BOXES, dtype=np.int64)
    a_lo, c_lo = box * 37 % _KEYS, box * 91 % _KEYS
    plane = Plane(a_lo, a_lo + _WIDTH, c_lo, c_lo + _WIDTH)
    partners = build_partners(box % 9, c_lo)
    keys = box[:50] % 9
    meeting = timed_meeting(keys, box[:50], *locate(partners, keys), partners.values, box)
    ages = Ages(-box, box)
    joins, index = JoinIndex.build(plane), WindowIndex.build(plane, ages)
    assert joins.listed is not None, "all strategies were built"
    shared = WindowIndex.sharing(joins.listed, index.points, ages)
    for one in (index, shared):
        one.estimates(meeting)
        _search(one, meeting, one.strategies)
    shared.walked_in_vain(meeting, keys, box[:50].astype(np.int32))
    forced = Tuning("window join-first")  # the other way of a routed search is a select join's
    RoutedIndex(joins, shared).search(meeting, np.zeros(_BOXES, dtype=np.uint8), _BOXES * len(keys), forced)


def _warm_partial() -> None:
    """Find pairs by all attributes of boxes: one box a slot and several, within budget and over it."""
    table, keys = _sample()
    n_own = len(keys) // 2
    box = np.arange(_BOXES, dtype=np.int64)
    plane = Plane(box % _KEYS, box % _KEYS + _WIDTH, box % _KEYS, box % _KEYS + _WIDTH)
    index = PartialIndex.restored(plane, PartialIndex.build(plane, table, n_own, len(keys)).arrays())
    begin, end = np.zeros(50, dtype=np.int64), np.full(50, 3, dtype=np.int64)
    meeting = plain_meeting(keys[0, :50], begin, end, keys[n_own])
    events = meeting.events._replace(columns=np.ascontiguousarray(keys[1:n_own, :50]))
    partners = meeting.partners._replace(columns=np.ascontiguousarray(keys[n_own + 1 :]))
    meeting = meeting._replace(events=events, partners=partners)
    index.estimates(meeting)
    index.batch_order(meeting.a, events.columns)
    nothing = Remaining(np.zeros(_BOXES + 1, np.int64), np.zeros(0, np.int32), *np.zeros((2, 0), np.int64))
    either = EitherIndex(_Affected(plane), index)
    for slots in (box, box // 2):
        checks = make_checks(nothing, nothing, slots.astype(np.int32), (-box, box))
        for budget in (0, _BOXES * len(begin)):
            match_pairs(either, meeting, checks, np.zeros(_BOXES, np.uint8), budget, Tuning(index.name))


def _warm_many() -> None:
    """Find runs of partners; whole combinations are searched by a strategy of selections."""
    box = np.arange(_PAIRED, dtype=np.int64)
    locate(build_partners(box % 9, box), box)
    _warm_strings()


def _warm_changed() -> None:
    """Put boxes into trees, and take them out again."""
    table, keys = _sample()
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for strategy in (TreeIndex, GridFileIndex):
        index = strategy.build(table, _BOXES, len(keys))
        index.insert(table)
        index.delete(np.arange(2 * _BOXES, dtype=np.int32))
        index.insert(table)
        index.search(keys, muted, _BOXES * keys.shape[1])


def _warm_cycles() -> None:
    """Say what strategies of joins and of bands cost, and count it."""
    box = np.arange(_PAIRED, dtype=np.int64)
    plane = Plane(box, box + _WIDTH, box, box + _WIDTH)
    partners = build_partners(box % 9, box)
    meeting = plain_meeting(box[:20], *locate(partners, box[:20] % 9), partners.values)
    begin, end = np.zeros(20, dtype=np.int64), np.full(20, _PAIRED, dtype=np.int64)
    band = band_meeting(box[:20], box[:20], begin, end, make_run(box, False, is_one=True))
    for index, of in ((JoinIndex.build(plane), meeting), (BandIndex.build(plane, is_double=False), band)):
        index.estimates(of)
        index.cycles(of, index.strategies[0])


# What compiles longest comes first.
KINDS: dict[str, Callable[[], None]] = {
    "joins": _warm_joins,
    "windows": _warm_windows,
    "bands": _warm_bands,
    "pairs": _warm_pairs,
    **{name: _warm_selections(name) for name in STRATEGIES if name not in MADE_OF},
    "sweep": _warm_sweep,
    "partial": _warm_partial,
    "many": _warm_many,
}
# What no weir needs: what is asked of indexes when strategies are measured, and of trees that change.
OTHERS: dict[str, Callable[[], None]] = {"changed": _warm_changed, "cycles": _warm_cycles}


def main(kinds: Sequence[str]) -> None:
    """Compile these kinds in this process, and mark them; without any, have all kinds ready and say how it goes."""
    if not kinds:
        ready([*KINDS, *OTHERS], lambda line: print(line, flush=True))
    for kind in kinds:
        (KINDS | OTHERS)[kind]()
        if cache_folder() is not None:
            _mark(kind).touch()


if __name__ == "__main__":
    main(sys.argv[1:])
