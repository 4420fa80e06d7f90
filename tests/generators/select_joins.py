"""Random select joins: two streams, equal join keys, and conditions that mostly concern one source each.

Such a query is what a join family takes whole: an equality of columns (or of an expression of each side) for every
key, and any boolean combination of predicates, in ON, in WHERE or split between them. Some are over both sources: bands
(`s.b - r.b BETWEEN …`), distances in time, inequalities, arithmetic, whole trees; some joins have a band and no
equality. Columns of one type draw from one
pool of values (`domains`), so that keys meet; `join_catalog` makes streams with such columns, of equal and
of mixed types, also under common names (USING).

A template is one text with parameters for `register_many`. Its ranges are clustered around few values, scattered
over the pool, wide or open, a few of them inverted or NULL, which is what index strategies tell apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import pyarrow as pa

from tests.generators import domains
from tests.generators.phrases import Phrases, Slot, Source, comparable, literal, random_value, sort_key
from tests.generators.queries import MEETING, Draft, RandomQuery
from tests.generators.schemas import random_type
from tests.generators.templates import RandomTemplate
from tests.generators.windows import reach_of
from weir.algebra.schema import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    DataType,
    Kind,
    Stream,
    decimal,
)
from weir.testing.arrow_types import arrow_type

KIND = "select_join"
PLACEMENTS = ("clustered", "scattered", "wide", "open")
BANDS_SHARE = 0.12  # of queries that no equality connects, but a band
BAND_FORMS = (
    "{0} - {1} BETWEEN {2} AND {3}",
    "{0} - {1} BETWEEN {2} AND {3}",
    "{0} - {1} >= {2} AND {0} - {1} < {3}",
    "abs({0} - {1}) <= {3}",
    "{0} < {1} + {2}",
    "{0} - {2} <= {1}",
    "{0} BETWEEN {1} + {2} AND {1} + {3}",
    "{0} <> {1}",
)
DISTANCE_FORMS = (
    "abs({0} - {1}) <= {2}",
    "{0} - {1} BETWEEN -{3} AND {2}",
    "{0} <= {1} + {2}",
    "{0} - {2} < {1}",
    "{0} - {1} >= {2}",
    "abs({0} - {1}) > {2}",
    "{0} < {1} AND {1} - {0} < {2}",
)
_NUMBERS = (INT, INT, BIGINT, BIGINT, DOUBLE, decimal(9, 2))
FEW_VALUES = (Kind.INT, Kind.BIGINT, Kind.STRING, Kind.DATE)  # types whose columns meet most often
KEY_FORMS = ("-{0}", "abs({0})", "CAST({0} AS bigint)", "{0} + 1", "2 * {0}", "{0} % 3")
_KEEPS_US = (None, None, 86_400_000_000, 3_600_000_000, 1_800_000_000)


def join_catalog(
    seed: int, *, streams: int | None = None, extra_max: int = 3, keep_us: tuple[int | None, ...] = _KEEPS_US
) -> Catalog:
    """2–3 streams with join columns of small domains: `k` numeric of any type, `area` string, `day` a date.

    Beside them a double, a decimal and up to `extra_max` columns of any type; a stream's time column is `ts`.
    """
    rng = random.Random(f"join catalog {seed}")
    n_streams = rng.randint(2, 3) if streams is None else streams
    names = ["trade", "weather", "Quote"][:n_streams] + [f"stream{i}" for i in range(3, n_streams)]
    made = {}
    for name in names:
        columns = [
            Column("k", rng.choice(_NUMBERS)),
            Column(rng.choice(("area", "area", "Area")), STRING),
            Column(f"price_{name[0].lower()}", DOUBLE),
            Column(rng.choice(("fee", "fee2")), decimal(9, 2)),
        ]
        if rng.random() < 0.3:
            columns.append(Column("day", DATE))
        columns += [Column(f"x{i}", random_type(rng)) for i in range(rng.randint(0, extra_max))]
        rng.shuffle(columns)
        columns.insert(rng.randint(0, len(columns)), Column("ts", TIMESTAMP))
        made[name.lower()] = Stream(name, tuple(columns), time="ts", keep_us=rng.choice(keep_us))
    return Catalog(made, {})


def random_select_join(
    catalog: Catalog, seed: int, *, start_us: int = domains.START_US, span_us: int = domains.SPAN_US
) -> RandomQuery:
    """An equi-join of two streams of the catalog, or of one with itself; absolute windows lie around the span."""
    rng = random.Random(f"select join {seed}")
    draft = JoinDraft(rng, catalog, start_us, span_us)
    text = draft.select_join()
    return RandomQuery(f"{text} {draft.window()}".rstrip(), draft.params, KIND, False)


def random_join_template(catalog: Catalog, seed: int, count: int = 20, *, placement: str = "") -> RandomTemplate:
    """A select join with parameters, and `count` rows of them; ranges lie as `placement` (of PLACEMENTS) says."""
    rng = random.Random(f"join template {seed}")
    placement = placement or rng.choice(PLACEMENTS)
    if placement not in PLACEMENTS:
        raise ValueError(f"placement {placement!r} is none of {', '.join(PLACEMENTS)}")
    draft = JoinDraft(rng, catalog, domains.START_US, domains.SPAN_US)
    sources = draft.draw_sources(KIND)
    phrases = LocalPhrases(rng, sources, template=True)
    table: dict[str, pa.Array] = {}
    conditions = []
    keys: list[str] = []
    if rng.random() < BANDS_SHARE:
        conditions.append(_bounded_template(rng, draft, phrases, count, table))
    else:
        keys = draft.keys(phrases)
    for number, source in enumerate(sources):
        ranges = Ranges(rng, placement, count, f"{'ab'[number]}", table)
        for _ in range(rng.choice((1, 1, 1, 2))):
            column, pool = draft.ordered_column(source)
            conditions.append(ranges.condition(phrases.name(source, column), column.type, pool))
    if rng.random() < 0.25:
        conditions.append(phrases.predicate(2))
    if keys and rng.random() < 0.3:
        conditions.append(paired_template(rng, draft, phrases, count, table))
    rng.shuffle(conditions)
    shown = draft.projection(Phrases(rng, sources, template=True, slots=phrases.slots))
    body = draft.from_where(phrases, [named(s) for s in sources], keys, conditions)
    text = f"SELECT {shown} {body} {template_window(rng, sources, count, table)}".rstrip()
    table |= {slot.name: slot_values(rng, slot, count) for slot in phrases.slots}
    mentioned = set(re.findall(r":(\w+)", text))  # not every form of a band has both ends
    return RandomTemplate(text, pa.table({name: values for name, values in table.items() if name in mentioned}))


@dataclass
class LocalPhrases(Phrases):
    """Predicates each of whose leaves mentions one source; ANDs, ORs and NOTs mix them."""

    only: Source | None = field(default=None)
    scope: Sequence[Source] = ()  # every source of the query, when predicates may be about some of them only

    def columns(self, wanted: Callable[[DataType], bool] = lambda _: True) -> list[tuple[str, DataType]]:
        sources = self.sources if self.only is None else [self.only]
        return [(self.name(s, c), c.type) for s in sources for c in s.relation.columns if wanted(c.type)]

    def leaf(self) -> str:
        return self.about(self.rng.choice(list(self.sources)), super().leaf)

    def about(self, source: Source, write: Callable[[], str]) -> str:
        """What `write` says, about one source alone."""
        before, self.only = self.only, source
        try:
            return write()
        finally:
            self.only = before

    def name(self, source: Source, column: Column) -> str:
        """A name that one source alone has may stand without its alias."""
        others = [c.name.lower() for s in self.scope or self.sources if s is not source for c in s.relation.columns]
        text = super().name(source, column)
        if self.scope and "." not in text:
            text = f"{source.alias}.{text}"
        alone = column.name.lower() not in others and self.rng.random() < 0.15
        return text.rpartition(".")[2] if alone else text


class JoinDraft(Draft):
    """A select join being written."""

    def draw_sources(self, kind: str) -> list[Source]:
        assert kind == KIND
        streams = list(self.catalog.streams.values())
        both = self.rng.sample(streams, 2) if len(streams) > 1 and self.rng.random() < 0.8 else []
        drawn = both or [self.rng.choice(streams)] * 2
        bare = bool(both) and self.rng.random() < 0.2  # sources under their own names
        self.n_sources = 2
        return [Source(s.name if bare else f"{'st'[i]}{i}", s) for i, s in enumerate(drawn)]

    def select_join(self) -> str:
        sources = self.draw_sources(KIND)
        phrases = LocalPhrases(self.rng, sources, params=self.params)
        items = [self.from_item(s) for s in sources]
        if self.rng.random() < BANDS_SHARE:
            conditions = [self.bounded(phrases), *self.conditions(phrases)]
            text = self.from_where(phrases, items, [], self.rng.sample(conditions, len(conditions)))
        else:
            text = self.from_where(phrases, items, self.keys(phrases), self.conditions(phrases))
        return f"SELECT {self.projection(self.phrases(sources))} {text}"

    def keys(self, phrases: LocalPhrases) -> list[str]:
        """One or two equalities; a USING is written as the name alone."""
        left, right = phrases.sources
        times = {s.relation.time.lower() for s in phrases.sources if isinstance(s.relation, Stream)}
        names = [n for n in self.shared(phrases.sources) if n.lower() not in times or self.rng.random() < 0.1]
        if names and self.rng.random() < 0.15:
            return [self.rng.choice(names)]
        return self.equalities(phrases, left, right)

    def equalities(self, phrases: LocalPhrases, left: Source, right: Source, share: float = 0.75) -> list[str]:
        """One or two equalities between two sources, a share of them of columns that meet often."""
        pairs = self.key_pairs(left, right)
        likely = [(a, b) for a, b in pairs if a.type.kind in MEETING and b.type.kind in MEETING]
        often = [(a, b) for a, b in likely if a.type.kind in FEW_VALUES and b.type.kind in FEW_VALUES]
        often += [(a, b) for a, b in likely if a.name.lower() == b.name.lower()]
        keys: list[str] = []
        for _ in range(2 if self.rng.random() < 0.12 else 1):
            roll = self.rng.random()
            drawn = often if often and roll < share else likely if likely and roll < 0.97 else pairs
            a, b = self.rng.choice(drawn)
            sides = [phrases.name(left, a), phrases.name(right, b)]
            if a.type.is_numeric and self.rng.random() < 0.08:
                place = self.rng.randrange(2)
                sides[place] = self.rng.choice(KEY_FORMS).format(sides[place])
            if self.rng.random() < 0.3:
                sides.reverse()
            keys.append(" = ".join(sides))
        return keys

    def key_pairs(self, left: Source, right: Source) -> list[tuple[Column, Column]]:
        return [
            (a, b)
            for a in left.relation.columns
            for b in right.relation.columns
            if comparable(a.type, b.type) and a.type.kind is not Kind.BOOLEAN
        ]

    def conditions(self, phrases: LocalPhrases) -> list[str]:
        """The local part: a few predicates of each source, or one whole tree over both."""
        roll = self.rng.random()
        if roll < 0.1:
            return []
        if roll < 0.25:
            return [phrases.predicate(3)]
        found = []
        for source in phrases.sources:
            for _ in range(self.rng.choice((0, 1, 1, 1, 2))):
                kinds: list[Callable[[], str]] = [phrases.between, phrases.comparison, phrases.in_list, phrases.leaf]
                kinds += [partial(phrases.predicate, 2)]
                kinds += [partial(self.wide, phrases, source), partial(self.half_open, phrases, source)] * 4
                found.append(phrases.about(source, self.rng.choice(kinds)))
        if self.rng.random() < 0.15:
            found.append(" OR ".join(phrases.about(s, phrases.comparison) for s in phrases.sources))
        if self.rng.random() < 0.3:
            found.append(self.paired(phrases))
        return found

    def paired(self, phrases: LocalPhrases) -> str:
        """A condition over both sources."""
        both = Phrases(self.rng, phrases.sources, params=self.params)
        roll = self.rng.random()
        if roll < 0.35:
            return self.band(phrases, [str(self.rng.choice((1, 2, 5, 20, "0.5", "1e1"))) for _ in range(2)])
        if roll < 0.65:
            gaps = [f"INTERVAL {self.rng.choice((1, 5, 40))} {self.rng.choice(('SECOND', 'MINUTE'))}" for _ in "ab"]
            return self.distance(phrases, gaps)
        kinds: list[Callable[[], str]] = [both.columns_compared, both.times_compared, partial(both.predicate, 2)]
        if both.columns(lambda t: t.is_numeric):
            kinds.append(both.arithmetic_compared)
        return self.rng.choice(kinds)()

    def bounded(self, phrases: LocalPhrases) -> str:
        """A band that connects two sources without an equality; narrow, as all pairs are candidates."""
        if self.rng.random() < 0.5:
            gaps = [f"INTERVAL {self.rng.choice((1, 20, 60))} SECOND" for _ in "ab"]
            return self.distance(phrases, gaps, ("abs({0} - {1}) <= {2}", "{0} - {1} BETWEEN -{3} AND {2}"))
        forms = ("{0} - {1} BETWEEN {2} AND {3}", "abs({0} - {1}) <= {3}", "{0} - {1} >= {2} AND {0} - {1} < {3}")
        low = self.rng.choice((-2, -1, 0, 1, 3))
        return self.band(phrases, [str(low), str(low + self.rng.choice((0, 1, 2)))], forms, connects=True)

    def band(
        self,
        phrases: LocalPhrases,
        ends: Sequence[str],
        forms: Sequence[str] = BAND_FORMS,
        *,
        connects: bool = False,
    ) -> str:
        """The difference of two numbers between two ends, or with one; of two times where there are no numbers.

        One that `connects` its sources is within 64 bits: others are evaluated where an equality is beside them.
        """
        a, b = self.rng.sample(list(phrases.sources), 2)
        numbers = [[c for c in source.relation.columns if c.type.is_numeric] for source in (a, b)]
        drawn = [pair for pair in product(*numbers) if not connects or _within_64_bits(*(c.type for c in pair))]
        if not drawn:
            gaps = ["INTERVAL 3 MINUTE", "INTERVAL 2 SECOND"]
            return self.distance(phrases, gaps, DISTANCE_FORMS[:2])
        one, other = self.rng.choice(drawn)
        first, second = phrases.name(a, one), phrases.name(b, other)
        low, high = (f"({end})" if end.startswith("-") else end for end in ends)
        return self.rng.choice(forms).format(first, second, low, high)

    def distance(self, phrases: LocalPhrases, gaps: Sequence[str], forms: Sequence[str] = DISTANCE_FORMS) -> str:
        """How far apart the times of two rows may be."""
        first, second = (
            phrases.name(s, next(c for c in s.relation.columns if c.name.lower() == s.relation.time.lower()))
            for s in self.rng.sample(list(phrases.sources), 2)
            if isinstance(s.relation, Stream)
        )
        return self.rng.choice(forms).format(first, second, *gaps)

    def half_open(self, phrases: LocalPhrases, source: Source) -> str:
        """A range with one end, within the ordinary values; it contains most of them mostly."""
        column, pool = self.ordered_column(source)
        below = self.rng.random() < 0.5
        at = round(len(pool) * self.rng.triangular(0, 1, 0.9 if below else 0.1))
        constant = self.constant(phrases, pool[min(at, len(pool) - 1)], column.type)
        operator = self.rng.choice(("<", "<=") if below else (">", ">="))
        return f"{phrases.name(source, column)} {operator} {constant}"

    def wide(self, phrases: LocalPhrases, source: Source) -> str:
        """A range with both ends, over a third of the ordinary values at least."""
        column, pool = self.ordered_column(source)
        width = self.rng.randint(len(pool) // 3, len(pool) - 1)
        low = self.rng.randint(0, len(pool) - 1 - width)
        ends = [self.constant(phrases, pool[k], column.type) for k in (low, low + width)]
        return f"{phrases.name(source, column)} BETWEEN {ends[0]} AND {ends[1]}"

    def ordered_column(self, source: Source) -> tuple[Column, list[object]]:
        """A column and its ordinary values in order; seldom a time, which windows restrict already."""
        unwanted = (Kind.BOOLEAN, Kind.TIMESTAMP) if self.rng.random() < 0.9 else (Kind.BOOLEAN,)
        columns = [c for c in source.relation.columns if c.type.kind not in unwanted] or [
            c for c in source.relation.columns if c.type.kind is Kind.TIMESTAMP
        ]
        column = self.rng.choice(columns)
        return column, sorted(domains.ordinary(column.type), key=sort_key)

    def constant(self, phrases: LocalPhrases, value: object, type_: DataType) -> str:
        return phrases.param(value) if self.rng.random() < 0.2 else literal(value, type_)

    def from_where(self, phrases: Phrases, items: Sequence[str], keys: Sequence[str], conditions: Sequence[str]) -> str:
        """FROM and WHERE; keys stand in USING, ON or WHERE, conditions in ON or WHERE."""
        rest = [f"({c})" if " OR " in c else c for c in conditions]
        if len(keys) == 1 and "=" not in keys[0]:
            return with_where(f"FROM {items[0]} JOIN {items[1]} USING ({keys[0]})", rest)
        every = [*keys, *rest]
        if self.rng.random() < 0.4:
            return with_where(f"FROM {', '.join(items)}", self.rng.sample(every, len(every)))
        cut = max(1, self.rng.choice((len(keys), len(keys), 1, len(every))))
        on, where = every[:cut], every[cut:]
        self.rng.shuffle(on)
        word = self.rng.choice(("JOIN", "INNER JOIN"))
        return with_where(f"FROM {items[0]} {word} {items[1]} ON {' AND '.join(on)}", where)


def with_where(text: str, where: Sequence[str]) -> str:
    return f"{text} WHERE {' AND '.join(where)}" if where else text


@dataclass
class Ranges:
    """Conditions of one source whose constants are parameters, and the parameters' values."""

    rng: random.Random
    placement: str
    count: int
    prefix: str
    table: dict[str, pa.Array]

    def condition(self, name: str, type_: DataType, pool: Sequence[object]) -> str:
        roll = self.rng.random()
        if self.placement == "open":
            return f"{name} {self.rng.choice(('<', '<=', '>', '>='))} {self.add(type_, self.points(pool))}"
        if roll < 0.05:
            return f"{name} = {self.add(type_, self.points(pool))}"
        if roll < 0.13:
            members = [self.add(type_, self.points(pool)) for _ in range(self.rng.randint(2, 3))]
            return f"{name} IN ({', '.join(members)})"
        pairs = [self.range(pool) for _ in range(self.count)]
        low, high = self.add(type_, [p[0] for p in pairs]), self.add(type_, [p[1] for p in pairs])
        return f"{name} BETWEEN {low} AND {high}" if roll < 0.7 else f"{name} >= {low} AND {name} < {high}"

    def points(self, pool: Sequence[object]) -> list[object]:
        return [self.range(pool)[0] for _ in range(self.count)]

    def range(self, pool: Sequence[object]) -> tuple[object, object]:
        """The ends of one range; a few are inverted, and a few ends NULL."""
        n = len(pool)
        if self.placement == "clustered":
            low = round(self.rng.choice((n // 4, n // 2)) + self.rng.gauss(0, n / 25))
            width = self.rng.randint(n // 12, n // 3)
        elif self.placement == "scattered":
            low, width = self.rng.randrange(n), self.rng.randint(n // 12, n // 2)
        else:
            low, width = self.rng.randint(0, n // 4), self.rng.randint(n // 2, n)
        low = min(max(low, 0), n - 1)
        ends: list[object] = [pool[low], pool[min(low + width, n - 1)]]
        if self.rng.random() < 0.04:
            ends.reverse()
        if self.rng.random() < 0.03:
            ends[self.rng.randrange(2)] = None
        return ends[0], ends[1]

    def add(self, type_: DataType, values: list[object]) -> str:
        name = f"{self.prefix}{len(self.table)}"
        self.table[name] = pa.array(values, arrow_type(type_))
        return f":{name}"


def paired_template(
    rng: random.Random, draft: JoinDraft, phrases: LocalPhrases, count: int, table: dict[str, pa.Array]
) -> str:
    """A band or a distance in time whose ends are parameters; those of time are seconds."""
    if rng.random() < 0.5:
        table["near_s"] = pa.array([rng.choice((0, 1, 30, 600)) for _ in range(count)], pa.int64())
        table["far_s"] = pa.array([rng.choice((0, 5, 120, 900, None)) for _ in range(count)], pa.int64())
        return draft.distance(phrases, ["INTERVAL :near_s SECOND", "INTERVAL :far_s SECOND"])
    table["low"] = pa.array([rng.randint(-40, 10) for _ in range(count)], pa.int64())
    table["high"] = pa.array([rng.choice((rng.randint(-10, 60), None)) for _ in range(count)], pa.int64())
    return draft.band(phrases, [":low", ":high"])


def _bounded_template(
    rng: random.Random, draft: JoinDraft, phrases: LocalPhrases, count: int, table: dict[str, pa.Array]
) -> str:
    """A narrow band whose ends are parameters, clustered or scattered."""
    spread = rng.choice((2, 40))
    lows = [rng.randint(-spread, spread) for _ in range(count)]
    table["low"] = pa.array(lows, pa.int64())
    table["high"] = pa.array([None if rng.random() < 0.03 else low + rng.randint(0, 2) for low in lows], pa.int64())
    forms = ("{0} - {1} BETWEEN {2} AND {3}", "{0} - {1} >= {2} AND {0} - {1} < {3}", "abs({0} - {1}) <= {3}")
    return draft.band(phrases, [":low", ":high"], forms, connects=True)


def _within_64_bits(a: DataType, b: DataType) -> bool:
    """Whether a difference of such numbers, and of what a digit behind the point is added to, has a key of its own."""
    kinds = {a.kind, b.kind}
    if Kind.DECIMAL not in kinds or Kind.DOUBLE in kinds:
        return True
    digits = [(t.precision, t.scale) if t.kind is Kind.DECIMAL else (10, 0) for t in (a, b)]
    return Kind.BIGINT not in kinds and max(p - s for p, s in digits) + max(1, *(s for _, s in digits)) < 18


def named(source: Source) -> str:
    relation = source.relation.name
    return relation if source.alias == relation else f"{relation} {source.alias}"


def template_window(rng: random.Random, sources: Sequence[Source], count: int, table: dict[str, pa.Array]) -> str:
    roll = rng.random()
    reach_s = min(reach_of(s.relation) for s in sources if isinstance(s.relation, Stream))
    if roll < 0.4:
        return ""
    if roll < 0.7:
        return f"BEGIN NOW - INTERVAL {rng.randint(max(1, reach_s // 3), reach_s)} SECOND END NOW"
    shortest = [1 if rng.random() < 0.1 else max(1, reach_s // 3) for _ in range(count)]
    table["w"] = pa.array([rng.randint(least, reach_s) for least in shortest], pa.int64())
    return "BEGIN NOW - :w END NOW"


def slot_values(rng: random.Random, slot: Slot, count: int) -> pa.Array:
    if slot.choices:
        return pa.array([rng.choice(slot.choices) for _ in range(count)], arrow_type(slot.type))
    return pa.array([random_value(rng, slot.type) for _ in range(count)], arrow_type(slot.type))
