"""Every case of every function, without Spark: it has a shape, folds, stands over constants, is matched by index."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.values.function_cases import CASES, CATALOG, NOT_COMPARED, STREAM, lowered, nasty_rows, texts_of
from weir.algebra.fold import fold
from weir.algebra.format import literal_text, sql_text
from weir.algebra.functions import NAMED, SIGNATURES
from weir.algebra.nodes import Call, ColumnRef, Expression, Literal, Param, walk
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import Kind
from weir.families.query_parts import condition_of
from weir.families.selections.selection_family import Group, Segment
from weir.index.box_tables import Matches
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings
from weir.sql.forms import FORMS
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of
from weir.values.evaluate import evaluate, evaluate_constants, truth

ROWS = nasty_rows(70)
EPOCH = dt.date(1970, 1, 1)
DAYS = range((dt.date.min - EPOCH).days, (dt.date.max - EPOCH).days + 1)
EMPTY = ROWS.slice(0, 0)


def test_every_function_has_a_case() -> None:
    cases = [lowered(text) for block in CASES for text in texts_of(block)]
    called = {part.function for e in cases for part in walk(e) if isinstance(part, Call)}
    assert set(SIGNATURES) - called == {"size", "map_keys", "map_values", "map_contains_key"}
    written = " ".join(CASES.values()).lower()
    names = {*NAMED, *FORMS} - NOT_COMPARED
    assert {name for name in names if not re.search(rf"(?<![a-z0-9_]){name}\(", written)} == set()


def values_of(array: pa.Array | pa.ChunkedArray, kind: Kind) -> list[Any]:
    """As `Literal.value` has them."""
    if kind is Kind.TIMESTAMP:
        array = array.cast(pa.int64())
    if kind is Kind.DATE:  # days; those beyond the year 9999 have no value in Python
        days = array.cast(pa.int32()).to_pylist()
        return [None if d is None else EPOCH + dt.timedelta(days=d) if d in DAYS else d for d in days]
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 2 * math.ulp(a)
    return type(a) is type(b) and bool(a == b)


def with_constants(e: Expression, row: int) -> Expression:
    def put(part: Expression) -> Expression:
        if not isinstance(part, ColumnRef):
            return part
        return Literal(values_of(ROWS.column(part.name).slice(row, 1), part.type.kind)[0], part.type)

    return rebuild(e, put)


@pytest.mark.parametrize("block", CASES)
def test_a_shape_is_sql_for_the_same_expression(block: str) -> None:
    for text in texts_of(block):
        query = lower(parse(f"SELECT {text.partition(' => ')[0]} AS x FROM trade", Settings()), CATALOG)
        assert replace(lower(parse(sql_text(query), Settings()), CATALOG), text="") == replace(query, text=""), text
        shape = shape_of(query)
        again = lower(parse(shape.text, Settings()), CATALOG, shape.param_types)
        assert replace(again, text="") == replace(shape.query, text=""), f"{text}: {shape.text}"


@pytest.mark.parametrize("block", CASES)
def test_rows_and_constants_have_the_same_values(block: str) -> None:
    """No rows, a table of constants, and literals, evaluated and folded."""
    rng = random.Random(block)
    for text in texts_of(block):
        e = lowered(text)
        assert len(evaluate(e, EMPTY)) == 0, text
        expected = values_of(evaluate(e, ROWS), e.type.kind)
        params = rebuild(e, lambda part: Param(part.name, part.type) if isinstance(part, ColumnRef) else part)
        found = values_of(evaluate_constants(params, ROWS), e.type.kind)
        assert all(map(same, expected, found)), f"{text} of params"
        for row in rng.sample(range(ROWS.num_rows), 4):
            constant = with_constants(e, row)
            (one,) = values_of(evaluate(constant, ROWS.slice(0, 1)), e.type.kind)
            assert same(expected[row], one), f"{text} of constants: {one!r}, of row {row} {expected[row]!r}"
            (one,) = values_of(evaluate(fold(constant), ROWS.slice(0, 1)), e.type.kind)
            assert same(expected[row], one), f"{text} folded: {one!r}, of row {row} {expected[row]!r}"


@pytest.mark.parametrize("block", CASES)
def test_what_is_selected_by_it_is_found_by_index(block: str) -> None:
    """A function of a row is an attribute: what the segment matches is what the condition says of every row."""
    rows = ROWS.filter(ROWS.column("t").is_valid())
    groups, expected, conditions = [], [], []
    for k, text in enumerate(texts_of(block)):
        e = lowered(text)
        if e.type.kind in (Kind.NULL, Kind.INTERVAL) or not any(isinstance(part, ColumnRef) for part in walk(e)):
            continue
        value = values_of(evaluate(e, rows), e.type.kind)[k % rows.num_rows]
        value = EPOCH if e.type.kind is Kind.DATE and isinstance(value, int) else value
        condition = text.partition(" => ")[0]
        if e.type.kind is not Kind.BOOLEAN:
            met = "IS NULL" if value is None else f"{('<=', '=', '>')[k % 3]} {literal_text(Literal(value, e.type))}"
            condition = f"({condition}) {met}"
        planned = plan_registration(f"SELECT s FROM trade WHERE {condition}", None, CATALOG, Settings())
        constants = constants_table(planned, None)
        predicate = condition_of(planned.shape.query)
        assert predicate is not None
        groups.append(Group(planned.shape.query, constants, 100 + len(groups)))
        types = enumerate(planned.shape.types)
        slots = {f"c{i}": values_of(constants.column(f"c{i}"), t.kind)[0] for i, t in types}
        expected.append(truth(predicate, rows, slots))
        conditions.append(condition)
    segment = Segment.build(STREAM, groups, strategy="scan")
    found = segment.match(rows, np.zeros(len(segment.ids), np.uint8), 1 << 40)
    assert isinstance(found, Matches)
    matched = np.zeros((rows.num_rows, len(segment.ids)), bool)
    matched[np.repeat(np.arange(rows.num_rows), np.diff(found.offsets)), found.slots] = True
    wrong = sorted({conditions[q] for q, _ in np.argwhere(np.array(expected) != matched.T)})
    assert not wrong, "\n".join(wrong)
