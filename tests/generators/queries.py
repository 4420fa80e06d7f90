"""Random queries over the whole grammar, reproducible from a seed.

A query is text and parameter values; `kinds` says which parts of the grammar may be drawn. Windows always fit
into the keep of the streams they cover: sliding and lagging ones reach back no further, landmarks and snapshots
are drawn only when every stream they cover keeps its rows for ever.

Sums and averages of doubles depend on the order of addition: `approximate` says that an answer has such a
column. Over rows with extreme doubles (1e300) they are not even close to one another; draw those rows with
`extremes=0`. HAVING compares only aggregates that have no rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.generators import domains
from tests.generators.phrases import Phrases, Source, comparable, literal
from tests.generators.windows import global_window, source_window
from weir.algebra.schema import Catalog, DataType, Kind, Stream, Table

KINDS = (
    "selection",
    "join",
    "band",
    "window_join",
    "multi_join",
    "distinct",
    "aggregate",
    "union",
    "except",
    "intersect",
    "table",
)
MEETING = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL, Kind.STRING, Kind.DATE)
_SET_OPERATIONS = ("union", "except", "intersect")


class RandomQuery(NamedTuple):
    """A generated query."""

    text: str
    params: dict[str, object]  # Python values, by parameter name
    kind: str  # the one of KINDS it was drawn for
    approximate: bool  # a column is a sum or an average of doubles


def random_query(
    catalog: Catalog,
    seed: int,
    kinds: Sequence[str] = KINDS,
    *,
    start_us: int = domains.START_US,
    span_us: int = domains.SPAN_US,
) -> RandomQuery:
    """A query of one of `kinds`; absolute windows are drawn around (start, start + span]."""
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise ValueError(f"kinds {sorted(unknown)} are not among {', '.join(KINDS)}")
    possible = [k for k in kinds if k != "table" or catalog.tables]
    if not possible:
        raise ValueError("the kind 'table' needs a table in the catalog")
    rng = random.Random(f"query {seed}")
    kind = rng.choice(possible)
    draft = Draft(rng, catalog, start_us, span_us)
    text = draft.set_operation(kind) if kind in _SET_OPERATIONS else draft.select(kind)
    window = draft.window()
    return RandomQuery(f"{text} {window}".rstrip(), draft.params, kind, draft.approximate)


class Draft:
    """One query being written: the parameters and streams that its parts have in common."""

    def __init__(self, rng: random.Random, catalog: Catalog, start_us: int, span_us: int) -> None:
        self.rng = rng
        self.catalog = catalog
        self.start_us, self.span_us = start_us, span_us
        self.params: dict[str, object] = {}
        self.covered: list[Stream] = []  # streams without a window of their own
        self.own_windows = rng.random() < 0.35
        self.approximate = False
        self.n_sources = 0

    # FROM

    def draw_sources(self, kind: str) -> list[Source]:
        streams, tables = list(self.catalog.streams.values()), list(self.catalog.tables.values())
        both: list[Stream | Table] = [*streams, *tables]
        drawn: list[Stream | Table]
        if kind == "table":
            drawn = [self.rng.choice(tables), self.rng.choice(streams)]
        elif kind == "multi_join":
            drawn = [self.rng.choice(both) for _ in range(self.rng.choice((3, 3, 4)))]
            drawn[0] = self.rng.choice(streams)
        elif kind in ("join", "band", "window_join"):
            drawn = [self.rng.choice(streams) for _ in range(2)]  # the same stream twice is a self-join
        elif kind in ("distinct", "aggregate") and self.rng.random() < 0.25:
            drawn = [self.rng.choice(streams), self.rng.choice(both)]
        else:
            drawn = [self.rng.choice(streams)]
        self.rng.shuffle(drawn)
        sources = []
        for relation in drawn:
            single = len(drawn) == 1 and self.rng.random() < 0.5
            sources.append(Source(relation.name if single else f"s{self.n_sources}", relation))
            self.n_sources += 1
        return sources

    def from_item(self, source: Source, window: str = "") -> str:
        """`name [window] alias` or `name alias [window]`; a window is drawn where none is given."""
        relation = source.relation
        name = relation.name.upper() if self.rng.random() < 0.05 else relation.name
        aliased = source.alias != relation.name
        alias = self.rng.choice((f"{source.alias}", f"AS {source.alias}")) if aliased else ""
        if isinstance(relation, Stream) and not window:
            if self.own_windows and self.rng.random() < 0.7:
                window = source_window(self.rng, relation, self.params)
            else:
                self.covered.append(relation)
        parts = [name, window, alias] if self.rng.random() < 0.5 else [name, alias, window]
        return " ".join(p for p in parts if p)

    def window(self) -> str:
        """The BEGIN … END clause, or nothing."""
        if not self.covered or self.rng.random() < 0.3:
            return ""
        return global_window(self.rng, self.covered, self.params, self.start_us, self.span_us)

    # SELECT

    def phrases(self, sources: Sequence[Source]) -> Phrases:
        return Phrases(self.rng, sources, params=self.params)

    def select(self, kind: str) -> str:
        sources = self.draw_sources(kind)
        phrases = self.phrases(sources)
        if kind == "aggregate":
            return self.aggregate(phrases)
        word = "SELECT DISTINCT" if kind == "distinct" or self.rng.random() < 0.05 else "SELECT"
        star = word == "SELECT" or not phrases.payloads()  # DISTINCT compares no payloads
        return f"{word} {self.projection(phrases, few=kind == 'distinct', star=star)} {self.body(phrases, kind)}"

    def body(self, phrases: Phrases, kind: str) -> str:
        """FROM and WHERE; join conditions stand in ON or, after commas, in WHERE."""
        sources = phrases.sources
        items = [self.from_item(s) for s in sources]
        conditions = [self.join_condition(phrases, sources[:i], sources[i], kind) for i in range(1, len(sources))]
        depth = {"selection": 4, "table": 1, "multi_join": 1}.get(kind, 2)
        share = 0.95 if kind == "selection" else 0.7 if len(sources) == 1 else 0.35
        where = [phrases.predicate(depth)] if self.rng.random() < share else []
        shared = self.shared(sources) if kind == "join" else []
        if shared and self.rng.random() < 0.2:
            text = f"FROM {items[0]} JOIN {items[1]} USING ({self.rng.choice(shared)})"
        elif self.rng.random() < 0.4:
            text = f"FROM {', '.join(items)}"
            where = conditions + where
        else:
            text = f"FROM {items[0]}" + "".join(
                f" {self.rng.choice(('JOIN', 'INNER JOIN'))} {item} ON {condition}"
                for item, condition in zip(items[1:], conditions, strict=True)
            )
        if len(where) > 1:
            where = [f"({w})" for w in where]
        return f"{text} WHERE {' AND '.join(where)}" if where else text

    def shared(self, sources: Sequence[Source]) -> list[str]:
        """Names of columns that two sources have in common and that may be compared."""
        left, right = (s.relation.columns for s in sources)
        return [a.name for a in left for b in right if a.name.lower() == b.name.lower() and comparable(a.type, b.type)]

    def join_condition(self, phrases: Phrases, before: Sequence[Source], new: Source, kind: str) -> str:
        """A predicate between `new` and one of the sources before it."""
        old = self.rng.choice(list(before))
        if kind == "window_join" and isinstance(old.relation, Stream) and isinstance(new.relation, Stream):
            return self.time_condition(phrases, old, new)
        if kind == "band":
            band = self.band_condition(phrases, old, new)
            if band:
                return band
        pairs = self.pairs(phrases, old, new, lambda t: t.kind is not Kind.BOOLEAN)
        # Equal instants and exact equality across numeric types hardly occur, so they are drawn seldom.
        likely = self.pairs(phrases, old, new, lambda t: t.kind in MEETING, same=True)
        if likely and self.rng.random() < 0.85:
            pairs = likely
        if not pairs:
            return "TRUE = TRUE"
        left, right = self.rng.choice(pairs)
        condition = f"{left} = {right}"
        if kind == "join" and self.rng.random() < 0.2:
            left, right = self.rng.choice(pairs)
            condition += f" AND {left} {self.rng.choice(('=', '<=', '>'))} {right}"
        return condition

    def band_condition(self, phrases: Phrases, old: Source, new: Source) -> str:
        pairs = self.pairs(phrases, old, new, lambda t: t.is_numeric)
        if not pairs:
            return ""
        a, b = self.rng.choice(pairs)
        low = self.rng.randint(-3, 2)
        if self.rng.random() < 0.5:
            return f"{b} - {a} BETWEEN {low} AND {low + self.rng.randint(0, 2)}"
        return f"{a} {self.rng.choice(('<', '<=', '>', '>='))} {b} + {self.rng.randint(0, 9)} AND {a} < 0"

    def time_condition(self, phrases: Phrases, old: Source, new: Source) -> str:
        assert isinstance(old.relation, Stream)
        assert isinstance(new.relation, Stream)
        a, b = f"{old.alias}.{old.relation.time}", f"{new.alias}.{new.relation.time}"
        gap = self.rng.choice(("10 SECONDS", "1 MINUTE", "5 MINUTES"))
        return self.rng.choice(
            (
                f"{b} BETWEEN {a} - INTERVAL {gap} AND {a}",
                f"{a} - {b} < INTERVAL {gap} AND {a} >= {b}",
                f"{a} <= {b} AND {b} < {a} + INTERVAL {gap}",
            )
        )

    def pairs(
        self, phrases: Phrases, old: Source, new: Source, wanted: Callable[[DataType], bool], *, same: bool = False
    ) -> list[tuple[str, str]]:
        """Columns of the two sources that may be compared with one another."""
        return [
            (phrases.name(old, a), phrases.name(new, b))
            for a in old.relation.columns
            for b in new.relation.columns
            if wanted(a.type) and wanted(b.type) and (a.type == b.type if same else comparable(a.type, b.type))
        ]

    def projection(self, phrases: Phrases, *, few: bool = False, star: bool = True) -> str:
        """Star, columns, expressions, constants; duplicates and aliases."""
        if not few and self.rng.random() < 0.25 and star:
            return self.rng.choice(("*", f"{phrases.sources[0].alias}.*"))
        items = []
        for i in range(self.rng.randint(1, 2 if few else 5)):
            roll = self.rng.random()
            if roll < 0.6 or not phrases.columns(lambda t: t.is_numeric):
                text, _ = self.rng.choice(phrases.columns())
                items.append(text if self.rng.random() < 0.6 else f"{text} AS x{i}")
            elif roll < 0.72:
                items.append(f"{phrases.arithmetic()} AS x{i}")
            elif roll < 0.82:
                items.append(f"{phrases.call()[0]} AS x{i}")
            elif roll < 0.9:
                items.append(f"({phrases.leaf()}) AS x{i}")
            else:
                kind = self.rng.choice([t for _, t in phrases.columns()])
                items.append(f"{literal(self.rng.choice(domains.ordinary(kind)), kind)} AS x{i}")
        return ", ".join(items)

    # GROUP BY and HAVING

    def aggregate(self, phrases: Phrases) -> str:
        keys = [text for text, _ in self.rng.sample(phrases.columns(), k=self.rng.randint(0, 2))]
        if keys and phrases.columns(lambda t: t.is_numeric) and self.rng.random() < 0.15:
            keys[0] = f"{self.rng.choice(phrases.columns(lambda t: t.is_numeric))[0]} % 3"
        items = [f"{key} AS k{i}" if self.rng.random() < 0.4 else key for i, key in enumerate(keys)]
        of_keys = list(items)
        items += [f"{self.aggregate_call(phrases)} AS a{i}" for i in range(self.rng.randint(1, 3))]
        self.rng.shuffle(items)
        text = f"SELECT {', '.join(items)} {self.body(phrases, 'aggregate')}"
        if keys:
            text += (
                f" GROUP BY {', '.join(self.group_key(k, item, items) for k, item in zip(keys, of_keys, strict=True))}"
            )
            if self.rng.random() < 0.35:
                text += f" HAVING {self.having(phrases, keys)}"
        elif self.rng.random() < 0.2:
            text += " HAVING count(*) > 3"
        return text

    def group_key(self, key: str, item: str, items: Sequence[str]) -> str:
        """A key by its expression, its alias or its place in the select list."""
        roll = self.rng.random()
        if roll < 0.2:
            return str(items.index(item) + 1)
        return item.rpartition(" AS ")[2] if roll < 0.4 else key

    def aggregate_call(self, phrases: Phrases) -> str:
        column, type_ = self.rng.choice(phrases.columns())
        calls = ["count(*)", f"count({column})", f"count(DISTINCT {column})"]
        if type_.kind is not Kind.BOOLEAN:
            calls += [f"min({column})", f"max({column})"]
        if type_.is_numeric:
            calls += [f"sum({column})", f"avg({column})"]
        call = self.rng.choice(calls)
        self.approximate |= call.startswith("avg") or (call.startswith("sum") and type_.kind is Kind.DOUBLE)
        return call

    def having(self, phrases: Phrases, keys: Sequence[str]) -> str:
        column, type_ = self.rng.choice(phrases.columns(lambda t: t.kind is not Kind.BOOLEAN))
        shape = self.rng.randrange(4)
        if shape == 0:
            return f"count(*) {self.rng.choice(('>', '<=', '<>'))} {self.rng.randint(1, 4)}"
        if shape == 1:
            return f"min({column}) < {phrases.constant(type_)}"
        if shape == 2:
            return f"max({column}) >= {phrases.constant(type_)} OR count(*) = 1"
        return f"count(DISTINCT {column}) > 1 AND {keys[0]} IS NOT NULL"

    # UNION, EXCEPT, INTERSECT

    def set_operation(self, kind: str) -> str:
        """Two or three selections with the same column types; the same stream mostly, so that rows meet."""
        first = self.rng.choice(list(self.catalog.streams.values()))
        scalars = [c.type for c in first.columns if c.type.kind is not Kind.PAYLOAD]
        types = [self.rng.choice(scalars) for _ in range(self.rng.randint(1, 2))]
        text = self.operand(types, first)
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            word = kind.upper() + self.rng.choice(("", " ALL", " ALL"))
            other = first if self.rng.random() < 0.6 else self.rng.choice(list(self.catalog.streams.values()))
            text = f"{text} {word} {self.operand(types, other)}"
        return text

    def operand(self, types: Sequence[DataType], stream: Stream) -> str:
        alias = f"s{self.n_sources}"
        self.n_sources += 1
        phrases = self.phrases([Source(alias, stream)])
        items = [f"{self.of_type(phrases, type_)} AS x{i}" for i, type_ in enumerate(types)]
        return f"SELECT {', '.join(items)} {self.body(phrases, 'operand')}"

    def of_type(self, phrases: Phrases, type_: DataType) -> str:
        """A column of this type (a bigint also unites with an int), or a constant."""
        fitting = phrases.columns(lambda t: t == type_ or {t.kind, type_.kind} <= {Kind.INT, Kind.BIGINT})
        if fitting:
            return self.rng.choice(fitting)[0]
        return f"CAST({literal(self.rng.choice(domains.ordinary(type_)), type_)} AS {type_})"
