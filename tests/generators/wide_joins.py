"""Equi-joins of 1 to 6 wide streams, and combinations of rows that really meet.

A join is a tree of equalities over the sources, each with one that came before it, and sometimes a further equality.
How many combinations of rows it has is counted, so that joins whose answers would be empty or huge are not drawn. A
*witness* is one of these combinations: who writes conditions that it fulfils has a query with an answer, however many
attributes they are about.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from tests.generators.wide_streams import KEYS
from weir.algebra.schema import Catalog, Stream

COMBINATIONS = (20, 2_000)  # so many a join has at least and at most, if one can be drawn
TRIES = 40
Columns = Mapping[str, Sequence[object]]  # the values of a stream's rows by column


class Edge(NamedTuple):
    """An equality of a source with one before it."""

    before: int
    key_before: str
    place: int
    key: str


@dataclass(frozen=True)
class WideJoin:
    """Sources, the equalities that connect them as a tree (one for each source but the first), and further ones."""

    streams: tuple[Stream, ...]
    tree: tuple[Edge, ...]
    more: tuple[Edge, ...]
    columns: tuple[Columns, ...]  # by source

    @cached_property
    def weights(self) -> list[list[int]]:
        """By source and row, how many combinations of the sources that hang on this one the row is part of."""
        found = [[1] * len(columns["ts"]) for columns in self.columns]
        for edge in reversed(self.tree):
            met: Counter[object] = Counter()
            for value, weight in zip(self.columns[edge.place][edge.key], found[edge.place], strict=True):
                met[value] += weight
            met[None] = 0  # NULL equals nothing
            before = self.columns[edge.before][edge.key_before]
            found[edge.before] = [weight * met[v] for weight, v in zip(found[edge.before], before, strict=True)]
        return found

    @cached_property
    def rows_by_key(self) -> list[dict[object, list[int]]]:
        """For each edge of the tree, the rows of its later source that are in a combination, by key."""
        found = []
        for edge in self.tree:
            rows: dict[object, list[int]] = defaultdict(list)
            for row, (value, weight) in enumerate(
                zip(self.columns[edge.place][edge.key], self.weights[edge.place], strict=True)
            ):
                if weight and value is not None:
                    rows[value].append(row)
            found.append(rows)
        return found

    @property
    def combinations(self) -> int:
        """Of rows that meet along the tree."""
        return sum(self.weights[0])

    def witness(self, rng: random.Random) -> list[int]:
        """A row of each source; they meet, unless nothing does."""
        rows = [0]
        for _ in range(TRIES):
            roots = [row for row, weight in enumerate(self.weights[0]) if weight]
            if not roots:
                return [rng.randrange(len(columns["ts"])) for columns in self.columns]
            rows = [rng.choice(roots)]
            for edge, by_key in zip(self.tree, self.rows_by_key, strict=True):
                rows.append(rng.choice(by_key[self.columns[edge.before][edge.key_before][rows[edge.before]]]))
            if all(self._meet(edge, rows) for edge in self.more):
                break
        return rows

    def _meet(self, edge: Edge, rows: Sequence[int]) -> bool:
        value = self.columns[edge.before][edge.key_before][rows[edge.before]]
        return value is not None and value == self.columns[edge.place][edge.key][rows[edge.place]]


def columns_of(rows: pa.Table) -> dict[str, list[object]]:
    return {name: rows.column(name).to_pylist() for name in rows.column_names}


def random_wide_join(rng: random.Random, catalog: Catalog, columns: Mapping[str, Columns], count: int) -> WideJoin:
    """A join of `count` sources; of those that were drawn the one whose combinations are nearest to what is wanted."""
    best, distance = None, 0.0
    for _ in range(TRIES):
        join = _draw(rng, catalog, columns, count)
        n = join.combinations
        away = COMBINATIONS[0] / max(n, 0.1) if n < COMBINATIONS[0] else max(1.0, n / COMBINATIONS[1])
        if best is None or away < distance:
            best, distance = join, away
        if distance == 1.0:
            break
    assert best is not None
    return best


def _draw(rng: random.Random, catalog: Catalog, columns: Mapping[str, Columns], count: int) -> WideJoin:
    known = list(catalog.streams.values())
    streams = rng.sample(known, min(count, len(known)))
    streams += [rng.choice(known) for _ in range(count - len(streams))]
    if count > 1 and rng.random() < 0.1:
        streams = [streams[0]] * count
    rng.shuffle(streams)
    shape = rng.choice(("chain", "star", "tree"))
    tree = []
    for place in range(1, count):
        before = {"chain": place - 1, "star": 0, "tree": rng.randrange(place)}[shape]
        tree.append(_edge(rng, streams, before, place))
    more = []
    if count > 1 and rng.random() < 0.15:  # a second key of one pair, or a cycle
        before, place = sorted(rng.sample(range(count), 2))
        edge = _edge(rng, streams, before, place)
        more += [] if edge in tree else [edge]
    return WideJoin(tuple(streams), tuple(tree), tuple(more), tuple(columns[s.name.lower()] for s in streams))


def _edge(rng: random.Random, streams: Sequence[Stream], before: int, place: int) -> Edge:
    """An equality of keys of one name, or of different ones if they can be compared."""
    keys = [rng.choice(KEYS), rng.choice(KEYS)]
    found = [streams[at].column(key) for at, key in zip((before, place), keys, strict=True)]
    if rng.random() < 0.8 or any(c is None or not c.type.is_numeric for c in found):
        keys[1] = keys[0]
    return Edge(before, keys[0], place, keys[1])
