"""Histories of intervals that come and go: random ones, and ones that try to hurt a stabbing partition.

A history is a list of updates; an update inserts the interval number `serial` or deletes it again. Every kind of
history is reproduced from its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

LIVE_MAX = 60  # about as many intervals live at a time, so that a twin can look at all of them after every update


class Update(NamedTuple):
    serial: int  # of the interval
    bounds: tuple[int, int] | None  # None: it is deleted


class _Story:
    """Writes a history: knows what lives, draws numbers."""

    def __init__(self, rng: np.random.Generator, n_updates: int) -> None:
        self.rng = rng
        self.n_updates = n_updates
        self.updates: list[Update] = []
        self.live: list[int] = []
        self.bounds: list[tuple[int, int]] = []
        self._uniforms: Iterator[float] = iter(())

    @property
    def done(self) -> bool:
        return len(self.updates) >= self.n_updates

    def uniform(self) -> float:
        for x in self._uniforms:
            return x
        self._uniforms = iter(self.rng.random(256).tolist())
        return next(self._uniforms)

    def below(self, n: int) -> int:
        return int(self.uniform() * n)

    def insert(self, lo: int, hi: int) -> None:
        self.live.append(len(self.bounds))
        self.updates.append(Update(len(self.bounds), (lo, hi)))
        self.bounds.append((lo, hi))

    def delete(self, place: int) -> None:
        self.updates.append(Update(self.live.pop(place), None))

    def churn(self, draw: Callable[[], tuple[int, int]]) -> None:
        """Insert what is drawn and delete at random, in waves."""
        growing = True
        while not self.done:
            if len(self.live) >= LIVE_MAX:
                growing = False
            elif len(self.live) <= 3:
                growing = True
            if not self.live or self.uniform() < (0.75 if growing else 0.35):
                self.insert(*draw())
            else:
                self.delete(self.below(len(self.live)))


def _clustered(story: _Story) -> None:
    centres = [story.below(10_000) for _ in range(1 + story.below(6))]

    def draw() -> tuple[int, int]:
        centre = centres[story.below(len(centres))]
        return centre - story.below(200), centre + story.below(200)

    story.churn(draw)


def _blurred(story: _Story) -> None:
    """Clusters whose intervals need not have a point in common."""
    centres = [story.below(1_000) for _ in range(1 + story.below(4))]

    def draw() -> tuple[int, int]:
        middle, half = centres[story.below(len(centres))] + story.below(60), story.below(40)
        return middle - half, middle + half

    story.churn(draw)


def _scattered(story: _Story) -> None:
    length = 1 + story.below(300)

    def draw() -> tuple[int, int]:
        lo = story.below(10_000)
        return lo, lo + story.below(length)

    story.churn(draw)


def _points(story: _Story) -> None:
    """Few distinct bounds, many ties, intervals of one key."""

    def draw() -> tuple[int, int]:
        a, b = story.below(12), story.below(12)
        return min(a, b), max(a, b) if story.uniform() < 0.6 else min(a, b)

    story.churn(draw)


def _unbounded(story: _Story) -> None:
    def draw() -> tuple[int, int]:
        lo, length, kind = story.below(1_000), story.below(100), story.below(6)
        lows, highs = (lo, lo, lo, KEY_MIN, NULL_KEY, NULL_KEY), (lo, lo + length, KEY_MAX, lo, lo, KEY_MAX)
        return lows[kind], highs[kind]

    story.churn(draw)


def _identical(story: _Story) -> None:
    story.churn(lambda: (5, 5 + story.below(2)))


def _shrinking(story: _Story) -> None:
    """Nested intervals, each inside the one before; the innermost or the outermost are deleted first."""
    while not story.done:
        centre, depth, inner_first = story.below(50) * 10, 5 + story.below(LIVE_MAX), story.uniform() < 0.5
        for k in range(depth, 0, -1):
            story.insert(centre - k, centre + k)
        for _ in range(depth - story.below(3)):
            story.delete(-1 if inner_first else 0)
        while len(story.live) > LIVE_MAX // 2:
            story.delete(story.below(len(story.live)))


def _first_to_end(story: _Story) -> None:
    """The interval that ends first is deleted first: it ends at the point of its group."""

    def draw() -> tuple[int, int]:
        lo = story.below(500)
        return lo, lo + 1 + story.below(120)

    while not story.done:
        if len(story.live) < LIVE_MAX // 2 or (len(story.live) < LIVE_MAX and story.uniform() < 0.5):
            story.insert(*draw())
        else:
            story.delete(min(range(len(story.live)), key=lambda place: story.bounds[story.live[place]][1]))


def _clusters_vanish(story: _Story) -> None:
    """A cluster comes as a whole and goes as a whole, so that τ falls."""
    while not story.done:
        clusters = 2 + story.below(5)
        for c in range(clusters):
            for _ in range(1 + story.below(LIVE_MAX // clusters)):
                story.insert(c * 100 + story.below(10), c * 100 + 20 + story.below(60))
        for c in story.rng.permutation(clusters)[: 1 + story.below(clusters)]:
            for serial in [s for s in story.live if c * 100 <= story.bounds[s][0] < c * 100 + 10]:
                story.delete(story.live.index(serial))
        while len(story.live) > LIVE_MAX // 2:
            story.delete(story.below(len(story.live)))


def _alternating(story: _Story) -> None:
    """An interval comes, goes and comes back, at the edge of a bound; others stay."""
    for _ in range(2 + story.below(12)):
        lo = story.below(40) * 10
        story.insert(lo, lo + story.below(30))
    while not story.done:
        lo = 1_000 + story.below(3) * 10
        story.insert(lo, lo + 5)
        story.delete(-1 if story.uniform() < 0.8 else story.below(len(story.live)))
        if len(story.live) < 4:
            story.insert(lo - 500, lo - 500 + story.below(20))


def _bridged(story: _Story) -> None:
    """Short disjoint intervals and long ones over many of them; the short ones go."""

    def draw() -> tuple[int, int]:
        lo = story.below(60) * 10
        return (lo, lo + 3) if story.uniform() < 0.7 else (lo, lo + story.below(400))

    while not story.done:
        story_end = len(story.live) + 10 + story.below(40)
        while len(story.live) < min(story_end, LIVE_MAX):
            story.insert(*draw())
        for serial in list(story.live):
            lo, hi = story.bounds[serial]
            if hi - lo <= 3 and story.uniform() < 0.9:
                story.delete(story.live.index(serial))
        while len(story.live) > LIVE_MAX // 2:
            story.delete(story.below(len(story.live)))


def _sliding(story: _Story) -> None:
    """The oldest goes first, while the place where intervals come moves on."""
    while not story.done:
        at = len(story.updates) * 2
        story.insert(at + story.below(80), at + 80 + story.below(80))
        if len(story.live) > LIVE_MAX - 20:
            story.delete(0)


def _tides(story: _Story) -> None:
    """Clusters are filled and drained in turn, over a floor of intervals apart: groups become hot and cool again."""
    for k in range(story.below(LIVE_MAX // 2)):
        story.insert(10_000 + k * 10, 10_000 + k * 10 + story.below(9))
    while not story.done:
        centre = story.below(3) * 100
        for _ in range(1 + story.below(LIVE_MAX // 2)):
            story.insert(centre - story.below(40), centre + story.below(40))
        for place in range(len(story.live) - 1, -1, -1):
            lo, _ = story.bounds[story.live[place]]
            if lo < 1_000 and story.uniform() < 0.85:
                story.delete(place)


KINDS: dict[str, Callable[[_Story], None]] = {
    "clustered": _clustered,
    "blurred": _blurred,
    "scattered": _scattered,
    "points": _points,
    "unbounded": _unbounded,
    "identical": _identical,
    "shrinking": _shrinking,
    "first to end": _first_to_end,
    "clusters vanish": _clusters_vanish,
    "alternating": _alternating,
    "bridged": _bridged,
    "sliding": _sliding,
    "tides": _tides,
}


def history(kind: str, seed: int, n_updates: int) -> list[Update]:
    """At least so many updates of a kind."""
    story = _Story(np.random.default_rng(seed), n_updates)
    KINDS[kind](story)
    return story.updates
