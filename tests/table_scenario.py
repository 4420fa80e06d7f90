"""One random life of a weir whose queries read tables, of both kinds, that change all the time.

Rows, changes and queries come from a seed. What a table holds is known from a list of its changes, without a line of
the weir's: a retroactive one is given to DuckDB as it is at τ, one that is not as all its versions, and the text that
DuckDB runs says which of them a row meets. After each batch every standing query is fetched, now and at an earlier
moment, and `changes` since the batch before is held against both answers.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import weir
from tests.fetched_together import hold_together
from tests.loose import some_loose
from tests.oracle.plain_tables import Change, table_at, versions_of
from tests.tables import instant
from weir.algebra.schema import ENDLESS_US, TIMESTAMP, Catalog, Column, Table
from weir.handles import Query
from weir.store.core_runs import compact
from weir.store.ledger import Done, Ledger
from weir.store.row_files import arrow_schema
from weir.store.state import State
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
START = 1_000_000 * SECOND
BATCH_S = 10  # of event time a batch
FAR = 5 * 10**16  # an edge of a lifetime that is no edge
STREAMS = {
    "r": "k int, g string, a int, ts timestamp",
    "s": "k int, g string, b double, ts timestamp",
    "q": "k int, c bigint, ts timestamp",
}
KEYS = range(5)
GROUPS = ("x", "y", "z", None)
Row = dict[str, object]


@dataclass
class Asked:
    """A query as it is registered, and as DuckDB is asked."""

    text: str
    to_oracle: str
    query: Query | None = None
    last: pa.Table | None = None
    token: str | None = None


@dataclass
class TableScenario:
    """Everything that happens, made from the seed alone."""

    place: Path
    seed: int
    slices: int = 2
    compared: int = 0
    filled: int = 0
    forms: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"tables {self.seed}")
        dice = self.dice
        # Some lives have little room, so that queries are demoted and answered from rows.
        settings = {"pairs_per_batch_max": dice.choice([4, 20])} if dice.random() < 0.25 else {}
        settings |= some_loose(self.seed)
        w = self.weir = weir.open(self.place, settings=settings)
        for name, columns in STREAMS.items():
            w.stream(name, columns, time="ts", keep=dice.choice(["forever", "40 seconds"]), future="forever")
        self.tables = [
            w.table("u", "k int, name string, w int null", key="k", retroactive=dice.random() < 0.4),
            w.table(
                "v",
                "g string, x double, m int, since timestamp",
                key="g",
                time="since",
                retroactive=dice.random() < 0.4,
            ),
        ]
        self.direct = self._driver()
        self.rows: dict[str, list[Row]] = {name: [] for name in STREAMS}
        self.changes: dict[str, list[Change]] = {t.name: [] for t in self.tables}
        self.texts: list[tuple[str, str]] = []  # of all queries, as they are registered and as DuckDB is asked
        self.batches = 0
        self.now_us: int | None = None
        versions = {
            t.name: Table(f"{t.name}_all", (*t.columns, *EDGES), t.key) for t in self.tables if not t.retroactive
        }
        known = {t.name: versions.get(t.name, t) for t in self.tables}
        self.known = known  # by name, the table as DuckDB knows it
        self.oracle = Catalog(dict(w.catalog.streams), {t.name: t for t in known.values()})

    # What happens.

    def change(self) -> None:
        dice = self.dice
        table = dice.choice(self.tables)
        deletes = dice.random() < 0.25
        given: list[Row] = []
        for _ in range(dice.randint(1, 4)):
            row: Row = {"k": dice.choice(KEYS)} if table.name == "u" else {"g": dice.choice(GROUPS[:3])}
            if table.name == "v":
                row["since"] = instant(START + dice.randint(-10, 10 * self.batches + 15) * SECOND)
            if not deletes:
                own: Row = {"name": dice.choice("abc"), "w": dice.choice([None, 1, 2, 3])}
                other: Row = {"x": dice.choice([0.5, 1.5, 2.5]), "m": dice.randint(0, 4)}
                row |= own if table.name == "u" else other
            given.append(row)
        (self.weir.delete if deletes else self.weir.upsert)(table.name, given)
        is_after = not table.retroactive
        stamp = -ENDLESS_US if self.now_us is None else self.now_us + is_after
        for row in given:
            key = tuple(row[name] for name in table.key)
            since = _us(row["since"]) if table.time else stamp
            whole = None if deletes else tuple(row.get(c.name) for c in table.columns)
            self.changes[table.name].append(Change(self.batches, key, whole, since))

    def arrive(self) -> None:
        dice = self.dice
        for name in STREAMS:
            if dice.random() < 0.25:
                continue
            given = []
            for _ in range(dice.randint(1, 6)):
                at = START + (BATCH_S * self.batches + dice.randint(-4, BATCH_S)) * SECOND
                row: Row = {"k": dice.choice([*KEYS, None])}
                if name != "q":
                    row["g"] = dice.choice(GROUPS)
                row |= {
                    "r": {"a": dice.randint(0, 4)},
                    "s": {"b": dice.choice([0.0, 1.5, 3.0])},
                    "q": {"c": dice.randint(0, 3)},
                }[name]
                given.append(row | {"ts": instant(at)})
            self.weir.push(name, given)
            self.rows[name] += given

    def batch(self) -> Done:
        done = self.direct.batch({})
        self.now_us = done.now_us
        self.batches += 1
        self._keep_house()
        return done

    def _keep_house(self) -> None:
        """What may happen to a weir between batches, and changes no answer."""
        happens = self.dice.choice(
            ["nothing", "nothing", "nothing", "compact", "restart", "no cache", "vacuum", "retry"]
        )
        self.forms[happens] += 1
        if happens == "compact":
            state, registry = State(), self.weir.registry
            state.refresh(Ledger(self.weir.files))
            registry.refresh()
            for channel in sorted({channel for group in registry.groups() for channel in group.channels}):
                compact(self.weir.files, state, channel)
        elif happens == "restart":
            self.direct = self._driver()
        elif happens == "no cache":
            shutil.rmtree(self.place / "cache", ignore_errors=True)
        elif happens == "vacuum":
            self.weir.vacuum()
        elif happens == "retry":
            listed = self.weir.queries()
            demoted = listed.filter(listed["demoted"])["id"].to_pylist()
            if demoted:
                self.weir.retry(demoted)

    def _driver(self) -> DirectWeir:
        return DirectWeir(self.weir, slices=self.slices, wall_us=10**15, takes_pushes=True)

    # Queries.

    def ask(self) -> Asked:
        text, to_oracle = self._again() or Phrases(self.dice, self.tables).query(self.forms)
        self.texts.append((text, to_oracle))
        asked = Asked(text, to_oracle)
        asked.query = self.weir.register(text)
        return asked

    def _again(self) -> tuple[str, str] | None:
        """Now and then a query of before with a window of another length, so that families have several queries."""
        if not self.texts or self.dice.random() < 0.7:
            return None
        whole = f"BEGIN NOW - INTERVAL {self.dice.choice([5, 15, 25])} SECONDS END NOW"
        text, to_oracle = (
            re.sub(r"BEGIN NOW - INTERVAL \d+ SECONDS END NOW(?=[^\]]*$)", whole, one)
            for one in self.dice.choice(self.texts)
        )
        return text, to_oracle

    def expected(self, asked: Asked, tau_us: int) -> pa.Table:
        rows = {
            name: pa.Table.from_pylist(of, schema=arrow_schema(self.weir.catalog.streams[name].columns))
            for name, of in self.rows.items()
        }
        for table in self.tables:
            changes = self.changes[table.name]
            if table.retroactive:
                of: Sequence[tuple[object, ...]] = list(table_at(changes, tau_us, self.batches).values())
                columns = table.columns
            else:
                of = [
                    (*row, instant(max(since, -FAR)), instant(min(until, FAR)))
                    for row, since, until in versions_of(changes, self.batches)
                ]
                columns = (*table.columns, *EDGES)
            schema = arrow_schema(columns)
            dicts = [dict(zip(schema.names, row, strict=True)) for row in of]
            rows[self.known[table.name].name] = pa.Table.from_pylist(dicts, schema=schema)
        return answer(asked.to_oracle, None, self.oracle, rows, tau_us)

    def compare(self, asked: Asked) -> None:
        assert asked.query is not None
        if self.now_us is None:
            return
        moments: list[int | None] = [None]
        if self.dice.random() < 0.4:
            moments.append(self.now_us + self.dice.randint(-9, 4) * SECOND)
        for at in moments:
            tau_us = self.now_us if at is None else at
            got = asked.query.fetch(at=None if at is None else instant(at))
            expected = self.expected(asked, tau_us)
            difference = differ(expected, got, approximate=True)
            said = f"seed {self.seed}, batch {self.batches - 1}, at {tau_us}\n{asked.text}\n{asked.to_oracle}"
            assert not difference, f"{said}\n{difference}\n{asked.query.explain()}"
            self.compared += 1
            self.filled += bool(expected.num_rows)
        now = asked.query.fetch()
        if asked.token is not None and asked.last is not None:
            found = asked.query.changes(after=asked.token)
            before = Counter(map(repr, [*asked.last.to_pylist(), *found.came.to_pylist()]))
            after = Counter(map(repr, [*now.to_pylist(), *found.went.to_pylist()]))
            assert before == after, f"changes, seed {self.seed}, batch {self.batches - 1}: {asked.text}"
        asked.last, asked.token = now, asked.query.token()

    def compare_together(self, asked: Sequence[Asked]) -> None:
        """Fetch all of them at once, and hold that against what they give alone."""
        if self.now_us is not None:
            queries = [one.query for one in asked if one.query is not None]
            hold_together(self.weir, queries, self.now_us, 15 * SECOND, self.dice)


EDGES = (Column("vf", TIMESTAMP), Column("vt", TIMESTAMP))


def _us(moment: object) -> int:
    return (moment - instant(0)) // _ONE  # type: ignore[operator]  # a datetime


_ONE = instant(1) - instant(0)


@dataclass
class Phrases:
    """Texts of queries over streams and tables."""

    dice: random.Random
    tables: Sequence[Table]

    def query(self, forms: Counter[str]) -> tuple[str, str]:
        dice = self.dice
        streams = [dice.choice("rsq") for _ in range(dice.choice([1, 1, 1, 2, 2, 3]))]
        tables = [dice.choice(self.tables) for _ in range(dice.choice([1, 1, 2]))]
        forms[f"{len(streams)}+{len(tables)}"] += 1
        aliases = {f"s{n}": name for n, name in enumerate(streams)}
        of_tables = {f"t{n}": table for n, table in enumerate(tables)}
        conditions, links = [], []
        for n in range(1, len(streams)):
            links.append(f"s{n}.k = s{dice.randrange(n)}.k")
            if dice.random() < 0.4:
                conditions.append(f"abs(s{n}.ts - s{n - 1}.ts) <= INTERVAL {dice.choice([3, 8, 20])} SECONDS")
        for alias, table in of_tables.items():
            links.append(self._link(alias, table, aliases, of_tables))
        for alias, name in aliases.items():
            if dice.random() < 0.5:
                column, low = {"r": ("a", 3), "s": ("b", 2), "q": ("c", 2)}[name]
                conditions.append(f"{alias}.{column} {dice.choice(['<', '<=', '>='])} {dice.randint(1, low)}")
        for alias, table in of_tables.items():
            if dice.random() < 0.5:
                conditions.append(
                    f"{alias}.{'w' if table.name == 'u' else 'm'} {dice.choice(['<', '>', '='])} {dice.randint(1, 3)}"
                )
        if "s0" in aliases and streams[0] == "r" and dice.random() < 0.3:
            alias, table = dice.choice(list(of_tables.items()))
            conditions.append(f"s0.a {dice.choice(['<', '>='])} {alias}.{'w' if table.name == 'u' else 'm'}")
        window = "" if dice.random() < 0.4 else f" BEGIN NOW - INTERVAL {dice.choice([5, 15, 30])} SECONDS END NOW"
        if window and dice.random() < 0.25:
            window = window.replace(
                "END NOW", dice.choice(["END NOW - INTERVAL 2 SECONDS", "END NOW + INTERVAL 7 SECONDS"])
            )
        kind = dice.choice(["plain", "plain", "plain", "group", "left", "distinct", "exists"])
        forms[kind] += 1
        return self._texts(kind, aliases, of_tables, links, conditions, window)

    def _link(self, alias: str, table: Table, streams: Mapping[str, str], tables: Mapping[str, Table]) -> str:
        """What connects a table: a key with a stream's, now and then with another table's."""
        dice = self.dice
        key = table.key[0]
        having = [a for a, name in streams.items() if key == "k" or name != "q"]
        before = [a for a, t in tables.items() if a < alias and key in t.key]
        if before and dice.random() < 0.5:
            return f"{alias}.{key} = {before[0]}.{key}"
        if not having:
            return f"{alias}.m = s0.k"
        return f"{dice.choice(having)}.{key} = {alias}.{key}"

    def _texts(
        self,
        kind: str,
        streams: Mapping[str, str],
        tables: Mapping[str, Table],
        links: Sequence[str],
        conditions: Sequence[str],
        window: str,
    ) -> tuple[str, str]:
        dice = self.dice
        newest = [f"{a}.ts" for a in streams]
        time = newest[0] if len(newest) == 1 else f"greatest({', '.join(newest)})"
        dated = {a: f"{a}.vf <= {time} AND {time} < {a}.vt" for a, t in tables.items() if not t.retroactive}
        names = {a: t.name if t.retroactive else f"{t.name}_all" for a, t in tables.items()}
        windows = [""] * 10 + [" [RANGE 20 SECONDS]", " [ROWS 6]"]
        windows += [
            f" [BEGIN NOW - INTERVAL 15 SECONDS END NOW {end} SECONDS]" for end in ("- INTERVAL 2", "+ INTERVAL 9")
        ]
        own = [f"{name}{dice.choice(windows)} {a}" for a, name in streams.items()]
        shown = [f"{a}.{'a' if n == 'r' else 'b' if n == 's' else 'c'} AS {a}c" for a, n in streams.items()]
        shown += [f"{a}.{'name' if t.name == 'u' else 'x'} AS {a}c" for a, t in tables.items()]
        select = ", ".join(shown)
        last = list(tables)[-1]
        where, text_from, oracle_from = [*links, *conditions], [*own], [*own]
        left = exists = ""
        if kind in ("left", "exists"):
            on = [c for c in where if f"{last}." in c]
            if any(f"{other}." in c for c in on for other in tables if other != last):
                kind = "plain"
            else:
                where = [c for c in where if c not in on]
                left, exists = (" AND ".join(on), "") if kind == "left" else ("", " AND ".join(on))
        for alias, table in tables.items():
            if kind in ("left", "exists") and alias == last:
                continue
            text_from.append(f"{table.name} {alias}")
            oracle_from.append(f"{names[alias]} {alias}")
        if kind == "exists":
            # In a subquery of an expression a table is as of τ, whatever it is: only retroactive ones are drawn.
            if not tables[last].retroactive:
                kind, exists = "plain", ""
                where += [c for c in [*links, *conditions] if c not in where]
                text_from.append(f"{tables[last].name} {last}")
                oracle_from.append(f"{names[last]} {last}")
            else:
                select = ", ".join(c for c in shown if not c.startswith(f"{last}."))
        dice.shuffle(text_from)
        of_where = [dated[a] for a in dated if not (kind in ("left", "exists") and a == last)]

        def whole(sources: Sequence[str], name: str, where: Sequence[str], on: str) -> str:
            head, tail = f"SELECT {select}", ""
            if kind == "distinct":
                head = f"SELECT DISTINCT {shown[-1]}"
            if kind == "group":
                value = shown[0].split(" AS ")[0]
                key = shown[-1].split(" AS ")[0]
                head, tail = f"SELECT {key} AS g, count(*) AS n, sum({value}) AS total", f" GROUP BY {key}"
            text = f"{head} FROM {', '.join(sources)}"
            if kind == "left":
                text = f"{head} FROM ({' CROSS JOIN '.join(sources)}) LEFT JOIN {name} {last} ON {on}"
                if len(sources) == 1:
                    text = f"{head} FROM {sources[0]} LEFT JOIN {name} {last} ON {on}"
            clauses = list(where)
            if kind == "exists":
                clauses.append(f"EXISTS (SELECT 1 FROM {name} {last} WHERE {on})")
            if clauses:
                text += f" WHERE {' AND '.join(clauses)}"
            return text + tail + window

        on = left or exists
        oracle_on = on if kind == "exists" or last not in dated else f"{on} AND {dated[last]}"
        return whole(text_from, tables[last].name, where, on), whole(
            oracle_from, names[last], [*where, *of_where], oracle_on
        )
