"""Random queries over wide streams that constrain most, few or none of the attributes of each of 1 to 6 sources.

A condition is drawn around the values of a *witness*, a combination of rows that meet (`wide_joins`): with 17
conditions any other constants would leave nothing. How wide the intervals are follows from how many results a query
shall have and how many combinations its join has; the share of rows that all conditions together leave over is dealt
out among them at random, so that one query has wide and narrow ones. Now and then one condition misses its witness by
one.

Conditions are ranges written in many ways, open ends, equalities, IN, OR over one attribute or two, <>, IS NULL and IS
NOT NULL, and comparisons of two sources. A template has the same conditions for all its queries, each around a witness
of its own. All queries of a world share a few joins, so that a family has many of them.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tests.generators import domains
from tests.generators.phrases import literal, sort_key
from tests.generators.queries import RandomQuery
from tests.generators.templates import RandomTemplate
from tests.generators.wide_joins import WideJoin, columns_of, random_wide_join
from tests.generators.wide_streams import KEYS, attributes_of
from tests.generators.windows import global_window, reach_of, source_window
from weir.algebra.schema import BIGINT, DOUBLE, Catalog, Column, DataType, Kind, Stream
from weir.testing.arrow_types import arrow_type

KIND = "wide"
COUNTS = (1,) * 3 + (2,) * 5 + (3,) * 3 + (4,) * 2 + (5, 6)
JOINS_OF = {1: 3, 2: 3, 3: 2, 4: 1, 5: 1, 6: 1}  # different joins of so many sources in one world
COVERAGES = (0.0, 0.2, 0.5, 0.9, 0.9, 1.0)  # the share of a source's attributes that is constrained …
COVERAGES_OF_MANY = (0.0, 0.0, 0.2, 0.2, 0.5, 1.0)  # … where there are more than two sources
RESULTS = (0.3, 1.0, 3.0, 10.0, 40.0, 150.0)  # expected, if attributes were independent
BOXES_MAX = 24
MISSES_SHARE = 0.12
Constants = Callable[["Witness"], Sequence[object]]


@dataclass
class Witness:
    """The row of each source around which a query's constants lie."""

    rows: list[int]
    missed: int  # the number of the condition that shall leave it out; -1: none


@dataclass(frozen=True)
class Condition:
    """Text with places {0}, {1}, … for constants, their types, and what they are for a witness."""

    form: str
    types: tuple[DataType, ...] = ()
    constants: Constants = lambda _: ()
    about: tuple[int, str] | None = None  # the source and the attribute that must not be NULL


@dataclass
class Structure:
    """A query without its constants."""

    head: str  # up to the conditions
    conditions: list[Condition] = field(default_factory=list)
    tail: str = ""
    params: dict[str, object] = field(default_factory=dict)  # of windows


class WideWorld:
    """A catalog with all the rows that will come: what queries are written about."""

    def __init__(self, catalog: Catalog, rows: Mapping[str, pa.Table], seed: int) -> None:
        rng = random.Random(f"wide world {seed}")
        self.catalog = catalog
        self.columns = {name.lower(): columns_of(table) for name, table in rows.items()}
        self.joins = {
            count: [random_wide_join(rng, catalog, self.columns, count) for _ in range(some)]
            for count, some in JOINS_OF.items()
        }
        self._ordered: dict[tuple[str, str], list[object]] = {}

    def query(self, seed: int, *, sources: int | None = None) -> RandomQuery:
        """A query of 1 to 6 sources, or of as many as said."""
        draft = _Draft(random.Random(f"wide query {seed}"), self, sources)
        structure = draft.structure(template=False)
        as_params = draft.rng.random() < 0.3
        params = dict(structure.params)
        texts = []
        for condition, constants in draft.filled(structure, draft.first):
            written = []
            for value, type_ in zip(constants, condition.types, strict=True):
                if as_params or (isinstance(value, float) and not math.isfinite(value)):  # such doubles have no literal
                    params[f"c{len(params)}"] = value
                    written.append(f":c{len(params) - 1}")
                else:
                    written.append(literal(value, type_))
            texts.append(condition.form.format(*written))
        return RandomQuery(_text(structure, texts), params, KIND, False)

    def template(self, seed: int, count: int = 20, *, sources: int | None = None) -> RandomTemplate:
        """A text with parameters, and `count` rows of them."""
        draft = _Draft(random.Random(f"wide template {seed}"), self, sources)
        structure = draft.structure(template=True)
        witnesses = [draft.first, *(draft.another_witness(structure) for _ in range(count - 1))]
        filled = [draft.filled(structure, witness) for witness in witnesses]
        table: dict[str, pa.Array] = {}
        texts = []
        for number, condition in enumerate(structure.conditions):
            names = []
            for k, type_ in enumerate(condition.types):
                names.append(f"c{len(table)}")
                table[names[-1]] = pa.array([one[number][1][k] for one in filled], arrow_type(type_))
            texts.append(condition.form.format(*(f":{name}" for name in names)))
        for name, longest in structure.params.items():  # lengths of windows, in seconds
            assert isinstance(longest, int), (name, longest)
            table[name] = pa.array([draft.rng.randint(max(1, longest // 4), longest) for _ in witnesses], pa.int64())
        return RandomTemplate(_text(structure, texts), pa.table(table))

    def ordered(self, stream: Stream, column: Column) -> list[object]:
        """The values of a column, ascending, without NULL; NaN is the greatest."""
        at = stream.name.lower(), column.name
        if at not in self._ordered:
            values = [v for v in self.columns[at[0]][at[1]] if v is not None]
            self._ordered[at] = sorted(values, key=_place)
        return self._ordered[at]


def _text(structure: Structure, conditions: Sequence[str]) -> str:
    word = " AND " if " WHERE " in structure.head else " WHERE "
    where = word + " AND ".join(conditions) if conditions else ""
    return f"{structure.head}{where} {structure.tail}".rstrip()


class _Draft:
    """One query being written."""

    def __init__(self, rng: random.Random, world: WideWorld, sources: int | None) -> None:
        self.rng = rng
        self.world = world
        self.join: WideJoin = rng.choice(world.joins[rng.choice(COUNTS) if sources is None else sources])
        self.aliases = [f"{'rstuvw'[k]}{k}" for k in range(len(self.join.streams))]
        self.first = Witness(self.join.witness(rng), -1)
        self.boxes = 1

    def another_witness(self, structure: Structure) -> Witness:
        """A witness for the same conditions: of a few the one that has least NULLs where a value is asked for."""
        asked = [condition.about for condition in structure.conditions if condition.about is not None]
        found = min(
            (self.join.witness(self.rng) for _ in range(6)),
            key=lambda rows: sum(self.join.columns[place][name][rows[place]] is None for place, name in asked),
        )
        return Witness(found, self._missed(structure))

    def _missed(self, structure: Structure) -> int:
        some = bool(structure.conditions) and self.rng.random() < MISSES_SHARE
        return self.rng.randrange(len(structure.conditions)) if some else -1

    def filled(self, structure: Structure, witness: Witness) -> list[tuple[Condition, Sequence[object]]]:
        """The conditions with their constants."""
        found = []
        for number, condition in enumerate(structure.conditions):
            given = Witness(witness.rows, 0 if number == witness.missed else -1)
            found.append((condition, condition.constants(given)))
        return found

    def structure(self, *, template: bool) -> Structure:
        made = Structure("")
        items = self._from_items(made, template)
        keys = [
            f"{self.aliases[e.before]}.{e.key_before} = {self.aliases[e.place]}.{e.key}"
            for e in (*self.join.tree, *self.join.more)
        ]
        made.head = f"SELECT {self._shown()} {self._from_where(items, keys)}"
        made.conditions = self._conditions()
        if template and not made.params and not any(c.types for c in made.conditions):  # a template has a parameter
            made.conditions += [self._listed(0, self.rng.choice(attributes_of(self.join.streams[0])), [], 1)]
        self.first.missed = self._missed(made)
        return made

    # FROM

    def _from_items(self, made: Structure, template: bool) -> list[str]:
        """Sources with their windows; `made` gets the window of the whole query, and parameters of windows."""
        streams = self.join.streams
        windows = [""] * len(streams)
        roll = self.rng.random() * (1 if len(streams) < 3 else 2)  # each window of many takes results away
        if roll < 0.25:
            if template:
                made.params["w"] = min(reach_of(s) for s in streams)
                made.tail = "BEGIN NOW - :w END NOW"
            else:
                made.tail = global_window(self.rng, streams, made.params, domains.START_US, domains.SPAN_US)
        elif roll < 0.5:
            for place, stream in enumerate(streams):
                if self.rng.random() < 0.6 and template:
                    made.params[f"w{place}"] = reach_of(stream)
                    windows[place] = f"[RANGE :w{place} SECOND]"
                elif self.rng.random() < 0.6:
                    windows[place] = self._own_window(stream, made.params, template)
        return [
            f"{s.name} {window} {alias}".replace("  ", " ")
            for s, window, alias in zip(streams, windows, self.aliases, strict=True)
        ]

    def _own_window(self, stream: Stream, params: dict[str, object], template: bool) -> str:
        if template:
            return f"[ROWS {self.rng.choice((10, 40))}]"
        return source_window(self.rng, stream, params)

    def _from_where(self, items: Sequence[str], keys: Sequence[str]) -> str:
        """Commas and WHERE, or a JOIN with its equality for each source."""
        if self.rng.random() < 0.5:
            return f"FROM {', '.join(items)}" + (f" WHERE {' AND '.join(keys)}" if keys else "")
        text = f"FROM {items[0]}"
        for item, key in zip(items[1:], keys, strict=False):
            text += f" JOIN {item} ON {key}"
        more = keys[len(items) - 1 :]
        return text + (f" WHERE {' AND '.join(more)}" if more else "")

    def _shown(self) -> str:
        """The time of each source, by which results are told apart, and some columns."""
        shown = [f"{alias}.ts" for alias in self.aliases]
        for _ in range(self.rng.randint(0, 3)):
            place = self.rng.randrange(len(self.aliases))
            shown.append(f"{self.aliases[place]}.{self.rng.choice(self.join.streams[place].columns).name}")
        return ", ".join(f"{text} AS x{k}" for k, text in enumerate(shown))

    # conditions

    def _conditions(self) -> list[Condition]:
        asked: list[tuple[int, Column]] = []
        coverages = COVERAGES if len(self.aliases) < 3 else COVERAGES_OF_MANY
        for place, stream in enumerate(self.join.streams):
            attributes = attributes_of(stream)
            count = round(self.rng.choice(coverages) * len(attributes))
            asked += [(place, column) for column in self.rng.sample(attributes, count)]
            if self.rng.random() < 0.1:
                keys = [c for c in stream.columns if c.name in KEYS]
                asked.append((place, self.rng.choice(keys)))
        self.rng.shuffle(asked)
        left = min(1.0, self.rng.choice(RESULTS) / max(self.join.combinations, 1))
        parts = [self.rng.expovariate(1.0) for _ in asked]
        found = []
        for (place, column), part in zip(asked, parts, strict=True):
            condition = self._single(place, column, left ** (part / sum(parts)))
            if condition is not None:
                found.append(replace(condition, about=(place, column.name) if condition.types else None))
        if self.rng.random() < 0.1 and len(asked) > 1 and self.boxes * 2 <= BOXES_MAX:
            self.boxes *= 2
            found.append(self._either(*self.rng.sample(asked, 2)))
        if len(self.aliases) > 1 and self.rng.random() < 0.25:
            found += [condition for _ in range(self.rng.choice((1, 1, 2))) if (condition := self._paired())]
        return found

    def _name(self, place: int, column: Column) -> str:
        return f"{self.aliases[place]}.{column.name}"

    def _value(self, place: int, column: Column, witness: Witness) -> object:
        return self.join.columns[place][column.name][witness.rows[place]]

    def _single(self, place: int, column: Column, share: float) -> Condition | None:
        """A condition of one attribute that about this share of its rows fulfil; seldom any if the witness has NULL."""
        name = self._name(place, column)
        ordered = self.world.ordered(self.join.streams[place], column)
        if self._value(place, column, self.first) is None and self.rng.random() < 0.9:
            return Condition(f"{name} IS NULL") if self.rng.random() < 0.5 else None
        forms = [
            f"{name} BETWEEN {{0}} AND {{1}}",
            f"{name} >= {{0}} AND {name} <= {{1}}",
            f"{{0}} <= {name} AND {{1}} >= {name}",
            f"NOT ({name} < {{0}} OR {name} > {{1}})",
        ]

        def bounds(witness: Witness) -> tuple[object, object]:
            value = self._value(place, column, witness)
            return _around(self.rng, ordered, value, share, column.type, missed=witness.missed == 0)

        roll = self.rng.random()
        distinct = len({_place(v) for v in ordered})
        types = (column.type, column.type)
        if share > 0.25 and roll < 0.2:  # an open end
            end = self.rng.randrange(2)
            operator = self.rng.choice(((">=", ">"), ("<=", "<"))[end])
            step = {">": -1, "<": 1}.get(operator, 0)
            return Condition(
                f"{name} {operator} {{0}}", types[:1], lambda w: (_step(bounds(w)[end], step, column.type),)
            )
        if share * distinct < 2.5 and roll < 0.6:  # few values: an equality, or a list
            return self._listed(place, column, ordered, max(1, round(share * distinct)))
        if roll > 0.96:
            return Condition(f"{name} IS NOT NULL")
        if self.boxes * 2 <= BOXES_MAX and share > 0.5 and roll > 0.9:
            self.boxes *= 2
            return Condition(f"{name} <> {{0}}", types[:1], lambda w: (self._another(place, column, ordered, w),))
        if self.boxes * 2 <= BOXES_MAX and roll > 0.86:
            self.boxes *= 2
            form = f"({name} BETWEEN {{0}} AND {{1}} OR {name} = {{2}})"
            return Condition(form, (*types, column.type), lambda w: (*bounds(w), self._any(ordered, column.type)))
        if roll > 0.7:  # excluded ends; of whole numbers also between two of them
            by, type_ = (
                (0.5, DOUBLE) if column.type.kind in (Kind.INT, Kind.BIGINT) and roll > 0.82 else (1, column.type)
            )

            def outside(witness: Witness) -> tuple[object, object]:
                lo, hi = bounds(witness)
                return _step(lo, -by, column.type), _step(hi, by, column.type)

            return Condition(f"{name} > {{0}} AND {name} < {{1}}", (type_, type_), outside)
        return Condition(self.rng.choice(forms), types, bounds)

    def _listed(self, place: int, column: Column, ordered: Sequence[object], some: int) -> Condition:
        """An equality with the witness's value, or a list that has it."""
        name = self._name(place, column)
        count = min(some + self.rng.choice((0, 0, 1)), 3)
        if count == 1 or self.boxes * count > BOXES_MAX:
            return Condition(
                f"{name} = {{0}}", (column.type,), lambda w: self._with_others(place, column, ordered, w, 0)
            )
        self.boxes *= count
        places = ", ".join(f"{{{k}}}" for k in range(count))
        return Condition(
            f"{name} IN ({places})",
            (column.type,) * count,
            lambda w: self._with_others(place, column, ordered, w, count - 1),
        )

    def _with_others(
        self, place: int, column: Column, ordered: Sequence[object], witness: Witness, others: int
    ) -> list[object]:
        value = self._value(place, column, witness)
        if value is None:
            value = self._any(ordered, column.type)
        if witness.missed == 0:
            value = _step(value, 1, column.type)
        found = [value, *(self._any(ordered, column.type) for _ in range(others))]
        self.rng.shuffle(found)
        return found

    def _any(self, ordered: Sequence[object], type_: DataType) -> object:
        return self.rng.choice(ordered) if ordered else _nothing(type_)

    def _another(self, place: int, column: Column, ordered: Sequence[object], witness: Witness) -> object:
        """A value that the witness does not have, or, to miss it, the one that it has."""
        value = self._value(place, column, witness)
        if witness.missed == 0 and value is not None:
            return value
        found = self._any(ordered, column.type)
        return _step(found, 1, column.type) if found == value else found

    def _either(self, one: tuple[int, Column], other: tuple[int, Column]) -> Condition:
        """A range of one attribute or an open end of another, of the same source or of two."""
        ends = [self.world.ordered(self.join.streams[place], column) for place, column in (one, other)]

        def constants(witness: Witness) -> tuple[object, ...]:
            values = [self._value(place, column, witness) for place, column in (one, other)]
            lo, hi = _around(self.rng, ends[0], values[0], 0.3, one[1].type, missed=False)
            return lo, hi, _around(self.rng, ends[1], values[1], 0.3, other[1].type, missed=False)[0]

        form = f"({self._name(*one)} BETWEEN {{0}} AND {{1}} OR {self._name(*other)} >= {{2}})"
        return Condition(form, (one[1].type, one[1].type, other[1].type), constants)

    def _paired(self) -> Condition | None:
        """A comparison of attributes of two sources that the witness fulfils; None if they have no numbers."""
        places = self.rng.sample(range(len(self.aliases)), 2)
        if self.rng.random() < 0.25:
            times = [self.join.columns[place]["ts"][self.first.rows[place]] for place in places]
            assert isinstance(times[0], dt.datetime)
            assert isinstance(times[1], dt.datetime)
            minutes = int(abs(times[0] - times[1]).total_seconds() // 60) + self.rng.choice((1, 5, 15))
            one, other = (f"{self.aliases[place]}.ts" for place in places)
            return Condition(f"abs({one} - {other}) <= INTERVAL {minutes} MINUTE")
        columns = []
        for place in places:
            numbers = [c for c in attributes_of(self.join.streams[place]) if c.type.is_numeric]
            if not numbers:
                return None
            columns.append(self.rng.choice(numbers))
        type_ = DOUBLE if any(c.type.kind is Kind.DOUBLE for c in columns) else BIGINT
        a, b = (self._name(place, column) for place, column in zip(places, columns, strict=True))
        pick = self.rng.randrange(5)
        if pick == 0:
            return Condition(f"{a} <> {b}")
        form = (
            "",
            "{a} - {b} BETWEEN {{0}} AND {{1}}",
            "{a} < {b} + {{0}}",
            "{a} + {b} > {{0}}",
            "abs({a} - {b}) <= {{0}}",
        )
        extent = self.rng.choice((500, 5_000, 30_000))

        def constants(witness: Witness) -> tuple[object, ...]:
            one, two = (_finite(self._value(p, c, witness)) for p, c in zip(places, columns, strict=True))
            width = self.rng.randint(1, extent)
            if pick == 1:
                found = [one - two - width, one - two + self.rng.randint(0, extent)]
            elif pick == 2:
                found = [one - two + width]
            elif pick == 3:
                found = [one + two - width]
            else:
                found = [abs(one - two) + width]
            return tuple(float(v) if type_ is DOUBLE else int(v) for v in found)

        return Condition(form[pick].format(a=a, b=b), (type_,) * (2 if pick == 1 else 1), constants)


def _place(value: object) -> tuple[int, object]:
    """Where a value stands among those of its column."""
    return (2, 0) if isinstance(value, float) and math.isnan(value) else sort_key(value)


def _around(
    rng: random.Random, ordered: Sequence[object], value: object, share: float, type_: DataType, *, missed: bool
) -> tuple[object, object]:
    """Bounds that hold the value and about this share of the others, or that begin just above it."""
    if not ordered:
        return _nothing(type_), _nothing(type_)
    if value is None:
        value = rng.choice(ordered)
    if missed:
        lo = _step(value, 1, type_)
        return lo, max(lo, ordered[-1], key=_place)
    width = round(share * len(ordered))
    first = bisect.bisect_left(ordered, _place(value), key=_place) - rng.randint(0, width)
    last = min(max(first, 0) + width, len(ordered) - 1)
    lo, hi = ordered[max(first, 0)], ordered[last]
    return min(lo, value, key=_place), max(hi, value, key=_place)


def _step(value: object, by: float, type_: DataType) -> object:
    """The neighbour of a value, above it or below it; half a step of a whole number is between the two."""
    if by == 0:
        return value
    if isinstance(value, str):
        return value + "a" if by > 0 else value[:-1]
    if type_.kind is Kind.DOUBLE:
        assert isinstance(value, float), value
        return math.nextafter(value, math.copysign(math.inf, by))
    assert isinstance(value, int), (value, type_)
    return value + by


def _nothing(type_: DataType) -> object:
    """A constant for a column that has no values."""
    return "" if type_.kind is Kind.STRING else 0.0 if type_.kind is Kind.DOUBLE else 0


def _finite(value: object) -> float:
    """A number to add to others."""
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else 0
