"""Expressions over rows of many queries, against the same expressions over the rows of each query alone."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from tests.generators import domains, random_catalog, random_finish
from tests.generators.many_finishes import many_queries, rows_of
from weir.algebra.nodes import NOW, ColumnRef, Comparison, InSet, Like, Param, walk
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, STRING, Column, decimal, list_of
from weir.answer.many_finish import projected_many
from weir.answer.slot_values import Asked, SlotValues, whole_bounds
from weir.answer.views import qualified
from weir.errors import RegisterError, WeirError
from weir.families.query_parts import columns_of
from weir.plan.finishes import OWN
from weir.plan.registration import constant_value
from weir.store.row_files import arrow_type
from weir.testing import differ
from weir.values.evaluate import evaluate, truth

X = ColumnRef(OWN, "x", BIGINT)
DOUBLES = [
    0.0,
    -0.0,
    2.5,
    -2.5,
    7.0,
    1e300,
    -1e300,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53,
    2.0**63,
    -(2.0**63),
    2.0**62,
]
WHOLE = [0, 1, -1, 2, 3, -2, -3, 7, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63) + 1]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_a_double_is_rounded_to_a_bound_of_whole_numbers(op: str) -> None:
    rows = pa.table({"x": pa.array(WHOLE, pa.int64())})
    bound_op, bounds = whole_bounds(op, pa.array([*DOUBLES, None]))
    assert bounds[-1].as_py() is None
    for double, bound in zip(DOUBLES, bounds.to_pylist(), strict=False):
        expected = truth(Comparison(op, X, Param("d", DOUBLE)), rows, {"d": double})
        beside = rows.append_column("b", pa.array([bound] * len(WHOLE), pa.int64()))
        got = truth(Comparison(bound_op, X, ColumnRef(OWN, "b", BIGINT)), beside)
        assert got.tolist() == expected.tolist(), f"{op} {double}"


@pytest.mark.parametrize("mirrored", [False, True])
def test_whole_numbers_and_decimals_compare_with_each_querys_double_exactly(mirrored: bool) -> None:
    values = SlotValues(pa.table({"c0": pa.array([*DOUBLES, None])}), 0)
    of = np.repeat(np.arange(len(DOUBLES) + 1), len(WHOLE))
    for type_ in (BIGINT, decimal(19, 0)):
        x = ColumnRef(OWN, "x", type_)
        rows = pa.table({"x": pa.array(WHOLE * (len(DOUBLES) + 1), arrow_type(type_))})
        c = Param("c0", DOUBLE)
        e = Comparison("<", c, x) if mirrored else Comparison(">=", x, c)
        got = values.evaluated(e, rows, of).to_pylist()
        for place, double in enumerate([*DOUBLES, None]):
            mine = rows.slice(place * len(WHOLE), len(WHOLE))
            expected = evaluate(e, mine, {"c0": double}).to_pylist()
            assert got[place * len(WHOLE) : (place + 1) * len(WHOLE)] == expected, f"{type_} {double}"


def test_each_query_has_a_pattern_and_a_list_of_its_own() -> None:
    patterns = ["a%", "%b", "_", None, "", "%a%b%", "\\%", "a%"]
    texts = ["", "a", "ab", "b", "xaxb", "%", None]
    lists = [["a"], ["a", None], ["b", "ab"], ["%"], ["", "a", "b"], ["x"], [None], ["ab"]]
    constants = pa.table({"c0": pa.array(patterns), "c1": pa.array(lists)})
    values = SlotValues(constants, 0)
    of = np.tile(np.arange(len(patterns)), len(texts))
    rows = pa.table({"x": pa.array([t for t in texts for _ in patterns])})
    x = ColumnRef(OWN, "x", STRING)
    for e in (Like(x, Param("c0", STRING)), InSet(x, Param("c1", list_of(STRING)))):
        got = values.evaluated(e, rows, of)
        for place in range(len(patterns)):
            mine = pa.array(of == place)
            own = {"c0": patterns[place], "c1": tuple(lists[place])}
            assert got.filter(mine).to_pylist() == evaluate(e, rows.filter(mine), own).to_pylist()
        assert values.evaluated(e, rows.slice(0, 0), of[:0]).type == arrow_type(BOOLEAN)


def projected_alone(seed: int) -> int:
    """Random projections: compare those of many queries with those of each; the number of queries."""
    catalog = random_catalog(seed, tables=0, variants=seed % 2 == 0)
    made = random_finish(catalog, seed, ("selection", "top", "aggregate"), depth=0)
    count = 12
    try:
        queries = many_queries(catalog, made.text, made.params, seed, count=count, rows=1)
    except RegisterError:
        return 0
    rng = random.Random(seed)
    for core in queries.parts.cores:
        columns = columns_of(core)
        refs = {part for _, e in columns for part in walk(e) if isinstance(part, ColumnRef)}
        named = [Column(f"{ref.source}.{ref.name}", ref.type) for ref in sorted(refs, key=str)]
        rows = rows_of(named, 5 * count, seed).append_column("row", pa.array(np.arange(5 * count)))
        owners = np.array([rng.choice(queries.slots.tolist()) for _ in range(5 * count)], np.int64)
        found = projected_many(columns, rows, owners, Asked(queries.slots, queries.constants), domains.START_US)
        for place, slot in enumerate(queries.slots.tolist()):
            mine = rows.filter(pa.array(owners == slot))
            row = queries.constants.slice(place, 1)
            own = {f"c{k}": constant_value(row.column(f"c{k}")[0], t) for k, t in enumerate(queries.types)}
            own[NOW.name] = domains.START_US
            about = f"seed {seed}, slot {slot}: {made.text} {own}"
            try:
                arrays = [evaluate(qualified(e), mine, own).cast(arrow_type(e.type)) for _, e in columns]
            except WeirError as error:
                assert found.failed.get(slot) == str(error), about
                continue
            assert slot not in found.failed, about
            got = found.table.filter(pa.array(found.table.column(0).to_numpy() == slot)).drop_columns(
                [found.table.column_names[0]]
            )
            expected = pa.table(arrays, names=got.column_names)
            difference = differ(expected, got, ordered=True)
            assert difference is None, f"{about}: {difference}"
    return count


def test_random_projections_of_many_queries_are_those_of_each_alone() -> None:
    assert sum(projected_alone(seed) for seed in range(150)) >= 1_200
