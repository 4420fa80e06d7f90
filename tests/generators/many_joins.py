"""Random joins of three to six sources: a graph of equalities, and conditions over one, two or three of them.

The equalities are a chain, a star, a tree or a cycle over the sources, on different keys and of mixed types, as
two-stream joins draw them (`select_joins`); a stream may occur several times. Without a bound the answers
of six sources would hold millions of rows, as rows of one frequent key meet in powers. So sources are *narrowed*, the
more of them the more sources there are: to a window of few rows, a short range, a short distance in time.

`loose` is the share of queries in which one source is reached by no equality: by a bounded difference, by an
inequality, or by nothing at all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from tests.generators import domains
from tests.generators.phrases import Phrases, Source, comparable, literal
from tests.generators.queries import RandomQuery
from tests.generators.select_joins import (
    PLACEMENTS,
    JoinDraft,
    LocalPhrases,
    Ranges,
    named,
    paired_template,
    slot_values,
    template_window,
    with_where,
)
from tests.generators.templates import RandomTemplate
from weir.algebra.schema import INT, Catalog, Column, Kind, Stream

KIND = "many_join"
SHAPES = ("chain", "chain", "star", "tree", "cycle")
COUNTS = (3,) * 9 + (4,) * 7 + (5,) * 3 + (6,)
LOOSE_FORMS = ("{0} < {1} + {2}", "{0} >= {1} - {2}", "{0} + {2} <= {1}", "{0} <> {1}", "{0} > {1}")
THREE_FORMS = (
    "{0} + {1} > {2}",
    "{0} - {1} <= {2}",
    "{0} BETWEEN {1} AND {2}",
    "{0} + {1} <> {2}",
    "abs({0} - {1}) <= abs({2})",
    "({0} < {1} OR {1} < {2})",
    "NOT ({0} > {1} AND {1} > {2})",
    "{0} IN ({1}, {2} + 1, 3)",
    "({0} = {1} OR {0} = {2} OR {1} IS NULL)",
)


class Term(NamedTuple):
    """A condition, and the place in FROM from which on all its sources are known."""

    text: str
    last: int


def random_many_join(
    catalog: Catalog,
    seed: int,
    *,
    sources: int | None = None,
    loose: float = 0.0,
    start_us: int = domains.START_US,
    span_us: int = domains.SPAN_US,
) -> RandomQuery:
    """A join of 3 to 6 sources, or of as many as said, over the catalog's streams; one stream may occur repeatedly."""
    rng = random.Random(f"many join {seed}")
    draft = _ManyDraft(rng, catalog, start_us, span_us)
    text = draft.many_join(sources, rng.random() < loose)
    text = f"{text} {draft.window()}".rstrip()
    return RandomQuery(text, {name: draft.params[name] for name in _mentioned(text, draft.params)}, KIND, False)


def random_many_join_template(
    catalog: Catalog, seed: int, count: int = 20, *, placement: str = "", loose: float = 0.0
) -> RandomTemplate:
    """A join of 3 to 6 sources with parameters, and `count` rows of them; ranges lie as `placement` says."""
    rng = random.Random(f"many join template {seed}")
    placement = placement or rng.choice(PLACEMENTS)
    if placement not in PLACEMENTS:
        raise ValueError(f"placement {placement!r} is none of {', '.join(PLACEMENTS)}")
    draft = _ManyDraft(rng, catalog, domains.START_US, domains.SPAN_US)
    sources = draft.draw_many(None)
    phrases = LocalPhrases(rng, sources, template=True)
    keys, narrowed, conditions = draft.graph(phrases, rng.random() < loose)
    table: dict[str, pa.Array] = {}
    for number in sorted(rng.sample(range(len(sources)), rng.choice((1, 1, 2)))):
        ranges = Ranges(rng, placement, count, "abcdef"[number], table)
        column, pool = draft.ordered_column(sources[number])
        text = ranges.condition(phrases.name(sources[number], column), column.type, pool)
        conditions.append(Term(text, number))
    if rng.random() < 0.15:
        conditions.append(Term(phrases.predicate(2), len(sources) - 1))
    if rng.random() < 0.3:
        pair, last = draft.some(phrases, 2)
        conditions.append(Term(paired_template(rng, draft, pair, count, table), last))
    items = []
    for place, source in enumerate(sources):
        rows = narrowed.get(place, "")
        if rows and rng.random() < 0.3:
            table[f"rows{place}"] = pa.array([rng.choice((1, 3, 8)) for _ in range(count)], pa.int64())
            rows = f"[ROWS :rows{place}]"
        items.append(f"{named(source)} {rows}".rstrip())
    body = draft.from_many(phrases, items, keys, conditions)
    shown = draft.projection(Phrases(rng, sources, template=True, slots=phrases.slots))
    text = f"SELECT {shown} {body} {template_window(rng, sources, count, table)}".rstrip()
    table |= {slot.name: slot_values(rng, slot, count) for slot in phrases.slots}
    return RandomTemplate(text, pa.table({name: table[name] for name in _mentioned(text, table)}))


class _ManyDraft(JoinDraft):
    """A join of many sources being written."""

    def draw_many(self, count: int | None) -> list[Source]:
        streams = list(self.catalog.streams.values())
        self.n_sources = self.rng.choice(COUNTS) if count is None else count
        drawn = self.rng.sample(streams, min(len(streams), self.n_sources))
        drawn += [self.rng.choice(streams) for _ in range(self.n_sources - len(drawn))]
        if self.rng.random() < 0.2:
            drawn = [self.rng.choice(drawn)] * self.n_sources
        self.rng.shuffle(drawn)
        bare = self.rng.random() < 0.2  # a stream that occurs once under its own name
        return [Source(s.name if bare and drawn.count(s) == 1 else f"{'rstuvw'[i]}{i}", s) for i, s in enumerate(drawn)]

    def many_join(self, count: int | None, loose: bool) -> str:
        sources = self.draw_many(count)
        phrases = LocalPhrases(self.rng, sources, params=self.params)
        keys, narrowed, conditions = self.graph(phrases, loose)
        conditions += self.local_and_paired(phrases)
        items = [self.from_item(s, narrowed.get(place, "")) for place, s in enumerate(sources)]
        text = self.from_many(phrases, items, keys, conditions)
        return f"SELECT {self.projection(self.phrases(sources))} {text}"

    def some(self, phrases: LocalPhrases, count: int) -> tuple[LocalPhrases, int]:
        """Phrases about a few of the sources, and the last of their places."""
        places = self.rng.sample(range(len(phrases.sources)), count)
        return self.at(phrases, *places), max(places)

    def at(self, phrases: LocalPhrases, *places: int) -> LocalPhrases:
        return replace(phrases, sources=[phrases.sources[k] for k in places], scope=phrases.sources)

    # What connects the sources

    def graph(
        self, phrases: LocalPhrases, loose: bool
    ) -> tuple[dict[tuple[int, int], list[str]], dict[int, str], list[Term]]:
        """Equalities by the places they connect, windows of few rows by place, and conditions that narrow."""
        count = len(phrases.sources)
        order = self.rng.sample(range(count), count)
        apart = order.pop() if loose else None
        keys = {edge: self.edge(phrases, *edge) for edge in self.edges(order)}
        narrowed: dict[int, str] = {}
        conditions = []
        if apart is not None:
            found = self.loose(phrases, apart, self.rng.choice(order), narrowed)
            conditions += [found] if found else []
        for number, place in enumerate(self.rng.sample(order, len(order))):
            if number > 3 or self.rng.random() < (0.1, 0.15, 0.2, 0.3)[count - 3]:
                conditions += self.narrow(phrases, place, narrowed, few=number > 3)
        return keys, narrowed, conditions

    def edges(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of places, the smaller one first, that connect all of `order`."""
        shape = self.rng.choice(SHAPES)
        if shape == "star":
            found = [(order[0], place) for place in order[1:]]
        elif shape == "tree":
            found = [(self.rng.choice(order[:k]), order[k]) for k in range(1, len(order))]
        else:
            found = list(pairwise(order))
        if shape == "cycle" and len(order) > 2:
            found.append((order[-1], order[0]))
        return [(min(edge), max(edge)) for edge in found]

    def edge(self, phrases: LocalPhrases, first: int, second: int) -> list[str]:
        """The equalities of one edge: columns, arithmetic with constants, or written as what is not unequal."""
        left, right = phrases.sources[first], phrases.sources[second]
        roll = self.rng.random()
        wholes = [[c for c in s.relation.columns if c.type.kind in (Kind.INT, Kind.BIGINT)] for s in (left, right)]
        if roll < 0.08 and all(wholes):
            a, b = (phrases.name(s, self.rng.choice(c)) for s, c in zip((left, right), wholes, strict=True))
            other = phrases.name(left, self.rng.choice(wholes[0]))
            constant = str(self.rng.choice((1, 2, 3, 12, "2.0", "1e0")))
            if self.rng.random() < 0.25:
                constant = phrases.slot(INT) if phrases.template else phrases.param(self.rng.randint(-3, 3))
            forms = ("{0} + {3} = {1}", "{1} = {0} - {3}", "{0} - {2} = {1} - {3}", "{3} - {0} = {1}")
            return [self.rng.choice(forms).format(a, b, other, constant)]
        found = self.equalities(phrases, left, right, 0.93)
        if roll > 0.95:
            return [f"NOT ({' OR '.join(key.replace(' = ', ' <> ') for key in found)})"]
        return found

    def loose(self, phrases: LocalPhrases, apart: int, near: int, narrowed: dict[int, str]) -> Term | None:
        """What brings in a source that no equality reaches; few of its rows where that excludes little."""
        pair, last = self.at(phrases, apart, near), max(apart, near)
        roll = self.rng.random()
        if roll < 0.45:
            return Term(self.bounded(pair), last)
        narrowed[apart] = f"[ROWS {self.rng.choice((1, 2, 4))}]"
        if roll > 0.75:
            return None
        constant = str(self.rng.choice((1, 3, 10, "0.5")))
        return Term(self.band(pair, [constant, constant], LOOSE_FORMS, connects=True), last)

    # What keeps answers small

    def narrow(self, phrases: LocalPhrases, place: int, narrowed: dict[int, str], *, few: bool) -> list[Term]:
        """A window of few rows, a short range or a short distance in time, for one source."""
        roll = self.rng.random()
        source = phrases.sources[place]
        if few or roll < 0.3:
            narrowed[place] = f"[ROWS {self.rng.choice((6, 12, 25))}]"
            return []
        if roll < 0.6:
            other = self.rng.choice([k for k in range(len(phrases.sources)) if k != place])
            gap = f"INTERVAL {self.rng.choice((5, 10, 20))} MINUTE"
            forms = ("abs({0} - {1}) <= {2}", "{0} - {1} BETWEEN -{3} AND {2}", "{0} < {1} AND {1} - {0} < {2}")
            return [Term(self.distance(self.at(phrases, place, other), [gap, gap], forms), max(place, other))]
        column, pool = self.ordered_column(source)
        width = len(pool) // self.rng.choice((3, 2))
        low = self.rng.randint(0, len(pool) - 1 - width)
        ends = [literal(pool[k], column.type) for k in (low, low + width)]
        return [Term(f"{phrases.name(source, column)} BETWEEN {ends[0]} AND {ends[1]}", place)]

    # Further conditions

    def local_and_paired(self, phrases: LocalPhrases) -> list[Term]:
        """Conditions of single sources, of two and of three; few, as each takes rows away."""
        found = []
        places = range(len(phrases.sources))
        for place in self.rng.sample(places, self.rng.choice((0, 0, 1, 1, 2))):
            one, source = self.at(phrases, place), phrases.sources[place]
            kinds: list[Callable[[], str]] = [one.in_list, one.is_null, one.leaf, partial(one.predicate, 2)]
            kinds += [partial(self.wide, one, source), partial(self.half_open, one, source)] * 4
            found.append(Term(self.rng.choice(kinds)(), place))
        if self.rng.random() < 0.1:
            some, last = self.some(phrases, self.rng.choice((2, 3)))
            found.append(Term(" OR ".join(phrases.about(s, phrases.comparison) for s in some.sources), last))
        if self.rng.random() < 0.08:
            found.append(Term(phrases.predicate(3), len(places) - 1))
        if self.rng.random() < 0.3:
            some, last = self.some(phrases, self.rng.choice((2, 2, 3)))
            found.append(Term(self.paired(some), last))
        if self.rng.random() < 0.2:
            some, last = self.some(phrases, 3)
            text = self.of_three(some)
            found += [Term(text, last)] if text else []
        return found

    def of_three(self, phrases: LocalPhrases) -> str:
        """A condition over columns of three sources."""
        columns: list[Column] = []
        for source in phrases.sources:
            numbers = [c for c in source.relation.columns if c.type.is_numeric]
            if not numbers:
                return ""
            columns.append(self.rng.choice(numbers))
        names = [phrases.name(s, c) for s, c in zip(phrases.sources, columns, strict=True)]
        return self.rng.choice(THREE_FORMS).format(*names)

    # FROM and WHERE

    def from_many(
        self,
        phrases: LocalPhrases,
        items: Sequence[str],
        keys: dict[tuple[int, int], list[str]],
        conditions: Sequence[Term],
    ) -> str:
        """Commas, or JOIN with ON, USING or, where no condition is complete yet, CROSS JOIN."""
        others = [Term(f"({t.text})" if " OR " in t.text else t.text, t.last) for t in conditions]
        if self.rng.random() < 0.35:
            every = [text for texts in keys.values() for text in texts] + [t.text for t in others]
            return with_where(f"FROM {', '.join(items)}", self.rng.sample(every, len(every)))
        text = f"FROM {items[0]}"
        where: list[str] = []
        keys = dict(keys)
        hidden: set[tuple[int, str]] = set()
        for place in range(1, len(items)):
            name = self.using(phrases.sources, place, keys, hidden) if self.rng.random() < 0.3 else ""
            on: list[str] = []
            for term in [Term(t, e[1]) for e, texts in keys.items() for t in texts] + others:
                if max(term.last, 1) == place:
                    (on if not name and self.rng.random() < 0.8 else where).append(term.text)
            self.rng.shuffle(on)
            word = self.rng.choice(("JOIN", "INNER JOIN"))
            if name:
                text += f" {word} {items[place]} USING ({name})"
            else:
                text += f" {word} {items[place]} ON {' AND '.join(on)}" if on else f" CROSS JOIN {items[place]}"
        return with_where(text, where)

    def using(
        self,
        sources: Sequence[Source],
        place: int,
        keys: dict[tuple[int, int], list[str]],
        hidden: set[tuple[int, str]],
    ) -> str:
        """A name that one earlier source shows, to be used in place of an equality; it is taken out of `keys`."""
        replaced = [edge for edge in keys if edge[1] == place]
        if not replaced:
            return ""
        edge = self.rng.choice(replaced)
        found = []
        for column in sources[place].relation.columns:
            name = column.name.lower()
            shown = [(k, c) for k in range(place) if (c := _column(sources[k], name)) and (k, name) not in hidden]
            if len(shown) == 1 and comparable(shown[0][1].type, column.type):
                found.append((shown[0][0], column))
        relation = sources[place].relation
        assert isinstance(relation, Stream)
        found = [f for f in found if f[1].name.lower() != relation.time.lower() or self.rng.random() < 0.1]
        if not found:
            return ""
        earlier, column = self.rng.choice(found)
        rest = [e for e in keys if e != edge]
        if _parts([*rest, (earlier, place)], len(sources)) > _parts(list(keys), len(sources)):
            return ""
        del keys[edge]
        keys[earlier, place] = keys.get((earlier, place), [])  # what USING says connects as well
        hidden.add((place, column.name.lower()))
        return column.name


def _mentioned(text: str, params: Iterable[str]) -> list[str]:
    """Not every form of a band has both ends, and USING takes the place of an equality that may have had one."""
    found = set(re.findall(r":(\w+)", text))
    return [name for name in params if name in found]


def _column(source: Source, name: str) -> Column | None:
    return next((c for c in source.relation.columns if c.name.lower() == name), None)


def _parts(edges: Sequence[tuple[int, int]], places: int) -> int:
    """In how many connected parts the edges leave the places."""
    part = list(range(places))
    for a, b in edges:
        part = [part[b] if p == part[a] else p for p in part]
    return len(set(part))
