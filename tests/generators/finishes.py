"""Random queries with a finish: everything that is computed over the results of cores, reproducible from a seed.

A query is one block (an aggregation, a set operation, window functions, a selection with queries in its conditions …)
over joins of all kinds of sources that are streams, tables, derived tables or common table expressions, which are
blocks again. Answers are determined as bags: LIMIT comes only with an order that decides, and `finish_parts` says what
else is taken care of. `uses` names the constructs, so that a test can count what it has covered.

Sums of doubles depend on the order of addition and `approximate` names those columns; draw rows with `extremes=0.0`,
with which sums of whole numbers do not overflow either.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from tests.generators import domains
from tests.generators.finish_parts import Part, aggregate, order_key, window_function
from tests.generators.phrases import Phrases, Source
from tests.generators.queries import MEETING, Draft
from weir.algebra.schema import BIGINT, INT, NULL, TINYINT, Catalog, Column, DataType, Kind, Stream, Table

JOINS = ("LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "JOIN")
BLOCKS = ("aggregate", "aggregate", "windows", "windows", "top", "set operation", "selection", "distinct")


class FinishQuery(NamedTuple):
    """A generated query."""

    text: str
    params: dict[str, object]
    uses: frozenset[str]
    ordered: bool  # ORDER BY decides the place of every row
    approximate: frozenset[int]  # columns that are sums or averages of doubles


class Block(NamedTuple):
    """A query, its columns, and which of them are approximate."""

    text: str
    columns: list[tuple[str, DataType]]
    approximate: frozenset[int] = frozenset()
    ordered: bool = False


def random_finish(
    catalog: Catalog,
    seed: int,
    blocks: Sequence[str] = BLOCKS,
    *,
    depth: int = 2,
    start_us: int = domains.START_US,
    span_us: int = domains.SPAN_US,
) -> FinishQuery:
    """A query whose outermost block is one of `blocks`, with others nested in it up to `depth`."""
    rng = random.Random(f"finish {seed}")
    draft = FinishDraft(rng, catalog, start_us, span_us)
    block = draft.block(rng.choice(list(blocks)), depth, last=True)
    text = f"WITH {', '.join(draft.ctes)} {block.text}" if draft.ctes else block.text
    text = f"{text} {draft.window()}".rstrip()
    # A phrase may have been drawn and not used.
    params = {name: value for name, value in draft.params.items() if re.search(rf":{name}\b", text)}
    return FinishQuery(text, params, frozenset(draft.uses), block.ordered, block.approximate)


class FinishDraft(Draft):
    """One query being written."""

    def __init__(self, rng: random.Random, catalog: Catalog, start_us: int, span_us: int) -> None:
        super().__init__(rng, catalog, start_us, span_us)
        self.uses: set[str] = set()
        self.ctes: list[str] = []
        self.names = 0

    def block(self, kind: str, depth: int, *, last: bool) -> Block:
        """A query of this kind; `last` if nothing is around it."""
        self.uses.add(kind)
        if kind == "aggregate":
            return self.aggregation(depth, last)
        if kind == "set operation":
            return self.sets(depth, last)
        if kind == "windows":
            return self.windows(depth, last)
        phrases, body = self.from_where(depth)
        if kind == "selection" and last and self.rng.random() < 0.2:
            self.uses.add("star")
            return Block(f"SELECT * {body}", [])
        ordered = kind == "top" or self.rng.random() < 0.15
        # Expressions may be rounded otherwise in another engine, and then an order over them decides otherwise.
        items = self.items(phrases, last and not ordered)
        if kind == "distinct":
            items = items[:2]
        listed, columns = self.listed(items)
        block = Block(f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{listed} {body}", columns)
        return self.sorted(block, last, limit=kind == "top") if ordered else block

    # FROM and WHERE

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def source(self, depth: int) -> tuple[str, Source]:
        """An item of FROM: a stream or a table, or a query."""
        if depth > 0 and self.rng.random() < 0.3:
            block = self.block(self.rng.choice(BLOCKS), depth - 1, last=False)
            name, alias = self.name("q"), self.name("s")
            source = Source(alias, Table(name, tuple(Column(n, t) for n, t in block.columns), block.columns[0][0]))
            if self.rng.random() < 0.5:
                self.uses.add("with")
                self.ctes.append(f"{name} AS ({block.text})")
                return f"{name} {alias}", source
            self.uses.add("subquery in from")
            return f"({block.text}) {self.rng.choice(('', 'AS '))}{alias}", source
        relations: list[Stream | Table] = [*self.catalog.streams.values()] * 3 + [*self.catalog.tables.values()]
        source = Source(self.name("s"), self.rng.choice(relations))
        return self.from_item(source), source

    def from_where(self, depth: int) -> tuple[Phrases, str]:
        """FROM … WHERE …, and the columns that are in scope then."""
        first, source = self.source(depth)
        sources, visible = [source], [source]
        text = f"FROM {first}"
        for _ in range(self.rng.choices((0, 1, 2), (6, 4, 1))[0]):
            item, new = self.source(depth - 1)
            join = self.rng.choice(JOINS)
            if join != "JOIN":
                self.uses.add(join.replace(" OUTER", "").lower())
            text += f" {join} {item} {self.met(visible, new)}"
            sources.append(new)
            if "SEMI" not in join and "ANTI" not in join:
                visible = [*visible, new]
        if depth > 0 and self.rng.random() < 0.12:
            item, new = self.lateral(visible)
            text += self.rng.choice((f", {item}", f" CROSS JOIN {item}", f" LEFT JOIN {item} ON TRUE"))
            sources.append(new)
            visible = [*visible, new]
        phrases = self.phrases(visible)
        conditions = [phrases.predicate(2)] if self.rng.random() < 0.4 else []
        if depth > 0 and self.rng.random() < 0.35:
            conditions.append(self.subquery_condition(phrases))
        self.rng.shuffle(conditions)
        if conditions:
            text += f" WHERE {self.rng.choice((' AND ', ' AND ', ' OR ')).join(f'({c})' for c in conditions)}"
        return phrases, text

    def lateral(self, visible: Sequence[Source]) -> tuple[str, Source]:
        """A query in FROM that looks at a source before it; its rows are decided, whatever engine looks for them."""
        self.uses.add("lateral")
        outer = self.rng.choice(list(visible))
        inner = Source(self.name("s"), self.rng.choice(list(self.catalog.streams.values())))
        pairs = self.pairs(self.phrases([outer, inner]), outer, inner, lambda t: t.kind in MEETING, same=True)
        where = f" WHERE {' = '.join(self.rng.choice(pairs) if pairs else ('1', '2'))}"  # else too many pairs of rows
        column, type_ = self.rng.choice(Phrases(self.rng, [inner], params=self.params).columns())
        first, second = self.name("y"), self.name("y")
        item = self.from_item(inner)
        if self.rng.random() < 0.5:
            query = f"SELECT max({column}) AS {first}, count(*) AS {second} FROM {item}{where}"
            columns = (Column(first, type_), Column(second, BIGINT))
        else:
            query = f"SELECT DISTINCT {column} AS {first} FROM {item}{where} ORDER BY 1 LIMIT {self.rng.randint(1, 3)}"
            columns = (Column(first, type_),)
        alias = self.name("s")
        return f"LATERAL ({query}) {alias}", Source(alias, Table(self.name("q"), columns, first))

    def met(self, visible: Sequence[Source], new: Source) -> str:
        """ON, or USING where one source is left of the join and has a column of the same name and type."""
        if len(visible) == 1 and self.rng.random() < 0.25:
            types = {(c.name.lower(), c.type) for c in visible[0].relation.columns}
            shared = [
                c.name for c in new.relation.columns if (c.name.lower(), c.type) in types and c.type.kind in MEETING
            ]
            if shared:
                self.uses.add("using")
                return f"USING ({', '.join(self.rng.sample(shared, k=min(len(shared), self.rng.choice((1, 1, 2)))))})"
        return f"ON {self.on(visible, new)}"

    def on(self, visible: Sequence[Source], new: Source) -> str:
        """The condition of a join: an equality mostly, and something more now and then."""
        old = self.rng.choice(list(visible))
        phrases = self.phrases([old, new])
        pairs = self.pairs(phrases, old, new, lambda t: t.kind in MEETING, same=True) or self.pairs(
            phrases, old, new, lambda t: t.kind not in (Kind.BOOLEAN, Kind.NULL)
        )
        condition = " = ".join(self.rng.choice(pairs)) if pairs else "TRUE = TRUE"
        roll = self.rng.random()
        if pairs and roll < 0.1:
            left, right = self.rng.choice(pairs)
            condition += f" AND {left} {self.rng.choice(('<', '>=', '<>'))} {right}"
        elif roll < 0.25:
            side = Phrases(self.rng, [self.rng.choice((old, new))], params=self.params)
            condition += f" AND ({_qualified(side)})"
        return condition

    def subquery_condition(self, phrases: Phrases) -> str:
        """IN, EXISTS or a comparison with a scalar query, correlated or not."""
        outer = self.rng.choice(list(phrases.sources))
        inner = Source(self.name("s"), self.rng.choice(list(self.catalog.streams.values())))
        item = self.from_item(inner)
        own = Phrases(self.rng, [inner], params=self.params)
        pairs = self.pairs(self.phrases([outer, inner]), outer, inner, lambda t: t.kind in MEETING, same=True)
        where = [own.predicate(1)] if self.rng.random() < 0.4 else []
        kind = self.rng.choice(("in", "not in", "exists", "not exists", "scalar", "count"))
        correlated = ""
        if pairs and self.rng.random() < (0.85 if "exists" in kind else 0.45):
            correlated = "correlated "
            a, b = self.rng.choice(pairs)
            equal = "scalar" in kind or "count" in kind or self.rng.random() < 0.75
            where.append(f"{b} {'=' if equal else self.rng.choice(('<', '<=', '<>'))} {a}")
        self.uses.add(f"{correlated}{kind} subquery")
        body = f"FROM {item}" + (f" WHERE {' AND '.join(f'({w})' for w in where)}" if where else "")
        if "exists" in kind:
            return f"{kind.upper()} (SELECT 1 {body})"
        if "in" in kind.split():
            if not pairs:
                return f"EXISTS (SELECT * {body})"
            if len(pairs) > 1 and self.rng.random() < 0.3:
                self.uses.add("in subquery of two columns")
                (a, b), (c, d) = self.rng.sample(pairs, k=2)
                return f"({a}, {c}) {kind.upper()} (SELECT {b}, {d} {body})"
            a, b = self.rng.choice(pairs)
            if self.rng.random() < 0.2:
                self.uses.add("union in subquery")
                more = self.from_item(Source(self.name("s"), inner.relation))
                column = b.rpartition(".")[2]
                return f"{a} {kind.upper()} (SELECT {b} {body} UNION SELECT {column} FROM {more})"
            return f"{a} {kind.upper()} (SELECT {b} {body})"
        if kind == "count" or not pairs:
            return f"(SELECT count(*) {body}) {self.rng.choice(('>', '<=', '='))} {self.rng.randint(0, 3)}"
        a, b = self.rng.choice(pairs)
        word, op = self.rng.choice(("min", "max")), self.rng.choice(("<", "<=", ">", "=", "<>"))
        return f"{a} {op} (SELECT {word}({b}) {body})"

    # SELECT

    def listed(self, items: Sequence[Part]) -> tuple[str, list[tuple[str, DataType]]]:
        """The items under names that no other block has, and those as columns."""
        columns = [(self.name("y"), item.type) for item in items]
        return ", ".join(f"{item.text} AS {name}" for item, (name, _) in zip(items, columns, strict=True)), columns

    def items(self, phrases: Phrases, last: bool) -> list[Part]:
        """Columns, and now and then a scalar query; expressions in the last query only, whose types nobody asks for."""
        items = []
        for _ in range(self.rng.randint(1, 4)):
            roll = self.rng.random()
            text, type_ = self.rng.choice(phrases.columns())
            if last and roll < 0.08:
                items.append(self.scalar_item(phrases))
            elif last and roll < 0.2 and phrases.columns(lambda t: t.is_numeric):
                items.append(Part(phrases.arithmetic(), NULL, ""))
            elif last and roll < 0.3:
                items.append(Part(phrases.call()[0], NULL, ""))
            else:
                items.append(Part(text, type_, ""))
        return items

    def scalar_item(self, phrases: Phrases) -> Part:
        """A scalar query in the select list."""
        outer = self.rng.choice(list(phrases.sources))
        inner = Source(self.name("s"), self.rng.choice(list(self.catalog.streams.values())))
        item = self.from_item(inner)
        x, type_ = self.rng.choice(Phrases(self.rng, [inner], params=self.params).columns())
        pairs = self.pairs(self.phrases([outer, inner]), outer, inner, lambda t: t.kind in MEETING, same=True)
        where = ""
        self.uses.add("scalar subquery item")
        if pairs and self.rng.random() < 0.6:
            self.uses.add("correlated scalar subquery item")
            where = f" WHERE {' = '.join(self.rng.choice(pairs))}"
        call, of = self.rng.choice(((f"max({x})", type_), ("count(*)", BIGINT)))
        return Part(f"(SELECT {call} FROM {item}{where})", of, "")

    def aggregation(self, depth: int, last: bool) -> Block:
        phrases, body = self.from_where(depth)
        keys = self.rng.sample(phrases.columns(), k=min(len(phrases.columns()), self.rng.choice((0, 1, 1, 1, 2))))
        parts = [aggregate(self.rng, phrases, last=last) for _ in range(self.rng.randint(1, 3))]
        for part in parts:
            self.uses.add(part.use.removesuffix(" filter"))
            if part.use.endswith(" filter"):
                self.uses.add("filter")
        times = phrases.columns(lambda t: t.kind is Kind.TIMESTAMP)
        spans = last and bool(keys and times) and self.rng.random() < 0.12
        if spans:
            self.uses.add("window of time")
            time = self.rng.choice(times)[0]
            slide = self.rng.choice(("", ", '5 minutes'", ", '7 minutes', '1 minute'"))
            keys[0] = (f"window({time}, '10 minutes'{slide})", NULL)
        sessions = not spans and last and bool(keys and times) and self.rng.random() < 0.12
        items = [*(Part(text, type_, "") for text, type_ in keys), *parts]
        if sessions:
            self.uses.add("session window")
            gap = self.rng.choice(("90 seconds", "5 minutes", "20 minutes"))
            keys[0] = (f"session_window({self.rng.choice(times)[0]}, '{gap}')", NULL)
            items[0] = Part(f"session_window.{self.rng.choice(('start', 'end'))}", NULL, "")
        sets = bool(keys) and not spans and not sessions and self.rng.random() < 0.15
        if sets:
            chosen = self.rng.choice([text for text, _ in keys])
            items += [Part(f"grouping({chosen})", TINYINT, ""), Part("grouping_id()", BIGINT, "")]
        listed, columns = self.listed(items)
        text = f"SELECT {listed} {body}"
        if keys:
            self.uses.add("group by")
            roll = 0.5 if sessions else 0.9 if spans else self.rng.random()
            named = ", ".join(
                str(i + 1) if roll < 0.15 else key if roll < 0.9 else columns[i][0] for i, (key, _) in enumerate(keys)
            )
            if sets:
                text += f" GROUP BY {self.sets_of([key for key, _ in keys])}"
            else:
                text += " GROUP BY ALL" if roll > 0.94 and not last else f" GROUP BY {named}"
        if self.rng.random() < 0.25:
            self.uses.add("having")
            text += f" HAVING {self.having_of(phrases)}"
        approximate = frozenset(i for i, p in enumerate(items) if p.approximate)
        block = Block(text, columns, approximate)
        return self.sorted(block, last) if last and self.rng.random() < 0.2 else block

    def sets_of(self, keys: Sequence[str]) -> str:
        """Several sets of some keys."""
        word = self.rng.choice(("rollup", "cube", "with rollup", "with cube", "grouping sets", "listed sets"))
        self.uses.add(word)
        listed = ", ".join(keys)
        if word.startswith("with"):
            return f"{listed} {word.upper()}"
        if word in ("rollup", "cube"):
            return f"{word.upper()}({listed})" if self.rng.random() < 0.7 else f"{keys[0]}, {word.upper()}({keys[-1]})"
        sets = [f"({listed})", f"({keys[0]})", keys[-1], "()"]
        chosen = self.rng.sample(sets, k=self.rng.randint(1, 4))
        if word == "listed sets":  # DuckDB does not know a key that is in no set
            return f"{listed} GROUPING SETS ({', '.join(dict.fromkeys([*chosen, sets[0]]))})"
        return f"GROUPING SETS ({', '.join([*chosen, f'ROLLUP({listed})'])})"

    def having_of(self, phrases: Phrases) -> str:
        column, type_ = self.rng.choice(phrases.columns())
        roll = self.rng.randrange(3)
        if roll == 0:
            return f"count(*) {self.rng.choice(('>', '<=', '<>'))} {self.rng.randint(1, 4)}"
        if roll == 1:
            return f"min({column}) < {phrases.constant(type_)}"
        return f"count(DISTINCT {column}) > 1 AND max({column}) IS NOT NULL"

    def windows(self, depth: int, last: bool) -> Block:
        phrases, body = self.from_where(depth)
        functions = [window_function(self.rng, phrases, last=last)]
        if self.rng.random() < 0.5:
            functions.append(window_function(self.rng, phrases, last=last, loosely=True))
        self.uses.update(f.use for f in functions)
        items = [*self.items(phrases, False)[:3], *functions]
        approximate = frozenset(i for i, p in enumerate(items) if p.approximate)
        listed, columns = self.listed(items)
        return Block(f"SELECT {listed} {body}", columns, approximate)

    def sets(self, depth: int, last: bool) -> Block:
        """Two or three operands of the same column types."""
        first = self.rng.choice(list(self.catalog.streams.values()))
        types = [self.rng.choice(first.columns).type for _ in range(self.rng.randint(1, 2))]
        text = self.operand(types, first)
        for _ in range(self.rng.choice((1, 1, 2))):
            word = self.rng.choice(("UNION", "EXCEPT", "INTERSECT")) + self.rng.choice(("", " ALL", " ALL"))
            self.uses.add(word.lower())
            other = first if self.rng.random() < 0.6 else self.rng.choice(list(self.catalog.streams.values()))
            text = f"{text} {word} {self.operand(types, other)}"
        # An operand's int may meet another's bigint.
        columns = [(f"x{i}", BIGINT if t == INT else t) for i, t in enumerate(types)]
        block = Block(text, columns)
        return self.sorted(block, last) if self.rng.random() < 0.2 else block

    # ORDER BY, LIMIT

    def sorted(self, block: Block, last: bool, *, limit: bool = False) -> Block:
        """With an order over all columns, if they have one that does not depend on rounding."""
        if block.approximate or "collect_" in block.text or "array_agg" in block.text:
            return block
        keys = [name for name, _ in block.columns]
        self.rng.shuffle(keys)
        if self.rng.random() < 0.2 and not block.text.startswith("SELECT DISTINCT"):
            keys = [str([n for n, _ in block.columns].index(k) + 1) for k in keys]
        text = f"{block.text} ORDER BY {', '.join(order_key(self.rng, k) for k in keys)}"
        self.uses.add("order by")
        if limit or self.rng.random() < 0.3:
            self.uses.add("limit")
            text += f" LIMIT {self.rng.choice((0, 1, 3, 10, 1000))}"
            if self.rng.random() < 0.3:
                self.uses.add("offset")
                text += f" OFFSET {self.rng.choice((0, 1, 2, 5))}"
        return block._replace(text=text, ordered=last)


def _qualified(phrases: Phrases) -> str:
    """A condition over one source of a join, every column with its alias."""
    (source,) = phrases.sources
    phrases.sources = [source, Source(source.alias, Table("none", (), ""))]  # names are qualified where there are two
    return phrases.leaf()
