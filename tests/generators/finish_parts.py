"""Random aggregates and window functions as SQL text, such that their values do not depend on the order of rows.

Where a function needs an order (row_number, lag, a frame of rows), it is over all columns in scope: rows that are equal
in all of them are interchangeable. Lists are compared as bags, sums of doubles with a tolerance, and neither is used
within another query.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.generators.phrases import Phrases
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, DataType, Kind, decimal

WHOLE = (Kind.INT, Kind.BIGINT)
_SPREADS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "std")


class Part(NamedTuple):
    """An item of a select list."""

    text: str
    type: DataType  # NULL: not to be used within another query
    use: str  # the construct
    approximate: bool = False


def aggregate(rng: random.Random, phrases: Phrases, *, last: bool) -> Part:
    """An aggregate of columns; `last` allows what only the last query may have."""
    part = _aggregate(rng, phrases, last)
    if rng.random() < 0.22:
        return part._replace(text=f"{part.text} FILTER (WHERE {phrases.predicate(2)})", use=f"{part.use} filter")
    return part


def _aggregate(rng: random.Random, phrases: Phrases, last: bool) -> Part:
    x, type_ = rng.choice(phrases.columns())
    calls: list[Callable[[], Part]] = [
        lambda: Part("count(*)", BIGINT, "count"),
        lambda: Part(f"count({x})", BIGINT, "count"),
        lambda: Part(f"count(DISTINCT {x})", BIGINT, "count distinct"),
        lambda: Part(f"{_either(rng, 'min', 'max')}({x})", type_, "min max"),
        lambda: Part(f"count_if({phrases.predicate(1)})", BIGINT, "count_if"),
        lambda: Part(f"count(DISTINCT {x}, {rng.choice(phrases.columns())[0]})", BIGINT, "count distinct two"),
    ]
    if last:
        calls += [
            lambda: Part(f"{_either(rng, 'collect_list', 'array_agg')}({x})", NULL, "collect_list"),
            lambda: Part(f"collect_set({x})", NULL, "collect_set"),
        ]
    own = _of_its_type(rng, phrases, x, type_, last)
    return rng.choice(own if own and rng.random() < 0.6 else calls)()


def _of_its_type(rng: random.Random, phrases: Phrases, x: str, type_: DataType, last: bool) -> list[Callable[[], Part]]:
    """What only columns of such a type have."""
    if type_.kind is Kind.BOOLEAN:
        word = rng.choice(("bool_and", "every", "bool_or", "any", "some"))
        return [lambda: Part(f"{word}({x})", BOOLEAN, "bool_and or")]
    if type_.kind is Kind.STRING:
        return [lambda: _listagg(rng, x)]
    if not type_.is_numeric:
        return []
    calls: list[Callable[[], Part]] = []
    exact = type_.kind is not Kind.DOUBLE
    if exact:
        summed = BIGINT if type_.kind in WHOLE else decimal(min(38, type_.precision + 10), type_.scale)
        calls += [lambda: Part(f"sum({_distinct(rng)}{x})", summed, "sum")] * 2
        calls.append(lambda: Part(f"percentile_approx({x}, {_share(rng)})", type_, "percentile_approx"))
    if last:
        calls.append(lambda: Part(f"{_either(rng, 'avg', 'mean')}({_distinct(rng)}{x})", NULL, "avg", True))
        calls.append(lambda: Part(f"{rng.choice(_SPREADS)}({x})", NULL, "stddev variance", True))
    if last and exact:
        calls.append(lambda: Part(f"percentile({x}, {_share(rng)})", NULL, "percentile", True))
        calls.append(lambda: Part(f"median({x})", NULL, "percentile", True))
        within = f"WITHIN GROUP (ORDER BY {x}{rng.choice(('', ' DESC'))})"
        calls.append(lambda: Part(f"percentile_cont({_share(rng)}) {within}", NULL, "percentile_cont", True))
        calls.append(lambda: Part(f"percentile_disc({_share(rng)}) {within}", NULL, "percentile_cont"))
    elif last:
        calls.append(lambda: Part(f"sum({x})", NULL, "sum", True))
    return calls


def _either(rng: random.Random, one: str, other: str) -> str:
    return one if rng.random() < 0.5 else other


def _distinct(rng: random.Random) -> str:
    return "DISTINCT " if rng.random() < 0.2 else ""


def _share(rng: random.Random) -> str:
    return rng.choice(("0.5", "0.25", "0.9", "0.0", "1.0"))


def _listagg(rng: random.Random, x: str) -> Part:
    word, down = _either(rng, "listagg", "string_agg"), rng.choice(("", " DESC"))
    return Part(f"{word}({_distinct(rng)}{x}, ',') WITHIN GROUP (ORDER BY {x}{down})", STRING, "listagg")


def order_key(rng: random.Random, text: str) -> str:
    """A key with any direction, its NULLs anywhere."""
    nulls = rng.choice(("", "", "", " NULLS FIRST", " NULLS LAST"))
    return f"{text}{rng.choice(('', '', ' ASC', ' DESC', ' DESC'))}{nulls}"


def window_function(rng: random.Random, phrases: Phrases, *, last: bool, loosely: bool = False) -> Part:
    """A function OVER (…).

    `loosely`: one for which the order of equal rows means nothing; two others of a query could order them differently.
    """
    if loosely:
        return _loose_function(rng, phrases, last)
    x, type_ = rng.choice(phrases.columns())
    deciding = _deciding(rng, phrases)
    partition = f"PARTITION BY {rng.choice(phrases.columns())[0]} " if rng.random() < 0.6 else ""
    ordered = f"OVER ({partition}ORDER BY {deciding})"
    offset = rng.choice(("", ", 1", ", 2", ", 0"))
    nulls, end = rng.choice(("", "", " IGNORE NULLS")), _either(rng, "first_value", "last_value")
    calls: list[Callable[[], Part]] = [
        lambda: Part(f"row_number() {ordered}", INT, "row_number"),
        lambda: _loose_function(rng, phrases, last),
        lambda: Part(f"{_either(rng, 'lag', 'lead')}({x}{offset}){nulls} {ordered}", type_, "lag lead"),
        lambda: Part(f"ntile({rng.randint(1, 5)}) {ordered}", INT, "ntile"),
        lambda: _loose_function(rng, phrases, last),
        lambda: Part(
            f"{end}({x}){nulls} OVER ({partition}ORDER BY {deciding}{_frame(rng)})", type_, "first_value last_value"
        ),
        lambda: _rows_frame(rng, phrases, partition, deciding, last),
    ]
    return rng.choice(calls)()


def _loose_function(rng: random.Random, phrases: Phrases, last: bool) -> Part:
    partition = f"PARTITION BY {rng.choice(phrases.columns())[0]} " if rng.random() < 0.6 else ""
    loose = f"OVER ({partition}ORDER BY {order_key(rng, rng.choice(phrases.columns())[0])})"
    roll = rng.randrange(5)
    if roll == 0:
        return Part(f"{_either(rng, 'rank', 'dense_rank')}() {loose}", INT, "rank")
    if roll == 1:
        return Part(f"{_either(rng, 'percent_rank', 'cume_dist')}() {loose}", DOUBLE, "percent_rank cume_dist")
    return _aggregate_over(rng, phrases, partition, last)


def _deciding(rng: random.Random, phrases: Phrases) -> str:
    """All columns in scope, in any order: rows that tie are equal."""
    names = [f"{s.alias}.{c.name}" for s in phrases.sources for c in s.relation.columns]
    rng.shuffle(names)
    return ", ".join(order_key(rng, name) for name in names)


def _frame(rng: random.Random) -> str:
    """A frame of rows, or none."""
    begin = rng.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING"))
    end = rng.choice(("UNBOUNDED FOLLOWING", "3 FOLLOWING", "1 FOLLOWING", "CURRENT ROW"))
    if begin == "1 FOLLOWING" and end == "CURRENT ROW":
        end = "2 FOLLOWING"
    return rng.choice(("", f" ROWS BETWEEN {begin} AND {end}", f" ROWS BETWEEN {begin} AND {end}"))


def _aggregated(rng: random.Random, phrases: Phrases, last: bool) -> tuple[str, DataType, bool]:
    """An aggregate that may stand before OVER: its text, its type, and whether it is approximate."""
    x, type_ = rng.choice(phrases.columns())
    calls = [
        ("count(*)", BIGINT, False),
        (f"count({x})", BIGINT, False),
        (f"{_either(rng, 'min', 'max')}({x})", type_, False),
    ]
    if type_.kind in WHOLE:
        calls += [(f"sum({x})", BIGINT, False)] * 2
    if type_.kind is Kind.DECIMAL:
        calls += [(f"sum({x})", decimal(min(38, type_.precision + 10), type_.scale), False)] * 2
    if type_.is_numeric and last:
        calls += [(f"avg({x})", NULL, True), (f"stddev_pop({x})", NULL, True)]
    return rng.choice(calls)


def _aggregate_over(rng: random.Random, phrases: Phrases, partition: str, last: bool) -> Part:
    call, of, approximate = _aggregated(rng, phrases, last)
    frame = rng.randrange(3)
    if frame == 0:
        return Part(f"{call} OVER ({partition.strip()})", of, "aggregate over partition", approximate)
    ranged = phrases.columns(lambda t: t.kind in (*WHOLE, Kind.TIMESTAMP, Kind.DATE))
    if frame == 1 or not ranged:
        key = order_key(rng, rng.choice(phrases.columns())[0])
        return Part(f"{call} OVER ({partition}ORDER BY {key})", of, "aggregate over peers", approximate)
    key, key_type = rng.choice(ranged)
    unit = "INTERVAL {} MINUTES" if key_type.kind is Kind.TIMESTAMP else "{}"
    before, after = (unit.format(rng.randint(0, 9)) for _ in range(2))
    bounds = f"RANGE BETWEEN {before} PRECEDING AND {rng.choice(('CURRENT ROW', f'{after} FOLLOWING'))}"
    return Part(f"{call} OVER ({partition}ORDER BY {order_key(rng, key)} {bounds})", of, "range frame", approximate)


def _rows_frame(rng: random.Random, phrases: Phrases, partition: str, deciding: str, last: bool) -> Part:
    call, of, approximate = _aggregated(rng, phrases, last)
    return Part(f"{call} OVER ({partition}ORDER BY {deciding}{_frame(rng)})", of, "rows frame", approximate)
