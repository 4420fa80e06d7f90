"""Boxes, checked by a brute-force search of their own, against the evaluator and its plain twin."""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import (
    COLUMNS,
    OPS,
    TWICE_ROUNDED,
    WIDE,
    Writer,
    pool,
    random_rows,
    table_of,
    to_arrow,
)
from tests.marks import few_are_quick
from tests.oracle import plain_expressions as plain
from weir.algebra.nodes import (
    And,
    Arithmetic,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Param,
)
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from weir.boxes.attributes import Attributes
from weir.boxes.instances import RowBoxes, instantiate
from weir.boxes.templates import template
from weir.boxes.value_keys import keys_of_values
from weir.errors import RegisterError
from weir.families.members import boxes_of
from weir.index.keys import KEY_MIN
from weir.index.strings import StringDictionary
from weir.sql.types import arithmetic
from weir.values.evaluate import evaluate, truth


def column(name: str) -> ColumnRef:
    return ColumnRef(0, name, COLUMNS[name])


def keys_of(e: Expression, rows: pa.Table, dictionary: StringDictionary | None) -> np.ndarray:
    array = evaluate(e, rows)
    return keys_of_values(array, e.type, dictionary)


def brute_force(
    boxes: RowBoxes, attributes: Attributes, dictionaries: dict[int, StringDictionary], rows: pa.Table, queries: int
) -> np.ndarray:
    """matched[query, row], one box and one constraint at a time; the invariants of boxes are checked on the way."""
    keys = [keys_of(e, rows, dictionaries.get(n)) for n, e in enumerate(attributes.expressions)]
    matched = np.zeros((queries, rows.num_rows), bool)
    assert np.all(boxes.row_of_box[1:] >= boxes.row_of_box[:-1])
    for b, query in enumerate(boxes.row_of_box):
        inside = np.ones(rows.num_rows, bool)
        previous = -1
        for c in range(boxes.constraint_offsets[b], boxes.constraint_offsets[b + 1]):
            attribute, lo, hi = (a[c] for a in boxes[2:])
            assert attribute > previous
            assert KEY_MIN <= lo <= hi
            previous = attribute
            inside &= (keys[attribute] >= lo) & (keys[attribute] <= hi)
        matched[query] |= inside
    return matched


def matches(predicate: Expression | None, constants: pa.Table, rows: pa.Table) -> np.ndarray:
    attributes = Attributes()
    boxes, dictionaries = instantiate(template(predicate, 10_000), constants, attributes)
    return brute_force(boxes, attributes, dictionaries, rows, constants.num_rows)


def constants_table(rows: list[dict[str, Any]], types: dict[str, DataType]) -> pa.Table:
    columns = {"extra": pa.array(range(len(rows)))}
    columns |= {n: to_arrow([row[n] for row in rows], t) for n, t in types.items()}
    return pa.table(columns)


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=1, tested=6))
def test_random_predicates_agree_with_the_evaluator(seed: int) -> None:
    rng = random.Random(f"boxes {seed}")
    rows = random_rows(rng, 80)
    table = table_of(rows)
    for number in range(120):
        writer = Writer(rng, params=True)
        predicate = writer.predicate(rng.randint(0, 3))
        constants = [writer.constants() for _ in range(rng.choice([1, 2, 5]))]
        found = matches(predicate, constants_table(constants, writer.types), table)
        for given, mine in zip(constants, found, strict=True):
            expected = truth(predicate, table, given)
            wrong = np.flatnonzero(expected != mine)
            assert not len(wrong), (seed, number, predicate, given, rows[wrong[0]], bool(expected[wrong[0]]))


@pytest.mark.slow
def test_every_numeric_pair_rounds_exactly() -> None:
    types = [INT, BIGINT, DOUBLE, decimal(9, 2), decimal(18, 6), decimal(4, 4), decimal(18, 18), decimal(18, 0), *WIDE]
    for left in types:
        values = pool(left)
        rows = pa.table({"x": to_arrow(values, left)})
        for right in types:
            constants = [{"c0": v} for v in [*pool(right), None]]
            for op in OPS:
                e = Comparison(op, ColumnRef(0, "x", left), Param("c0", right))
                found = matches(e, constants_table(constants, {"c0": right}), rows)
                for given, mine in zip(constants, found, strict=True):
                    expected = [plain.value(e, {"x": x}, given) is True for x in values]
                    assert mine.tolist() == expected, (left, op, right, given, values, expected)


@pytest.mark.slow
def test_doubles_near_a_decimal_fall_on_the_right_side() -> None:
    rng = random.Random("doubles and decimals")
    for scale in (1, 2, 6, 9, 17, 18):
        type_ = decimal(18, scale)
        units = [0, 1, -1, 10**18 - 1, *(rng.randint(-(10**18) + 1, 10**18 - 1) for _ in range(40))]
        near = [float(Decimal(u).scaleb(-scale)) for u in units]
        doubles = [y for x in near for y in (x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf))]
        rows = pa.table({"x": to_arrow([Decimal(u).scaleb(-scale) for u in units], type_)})
        constants = [{"c0": d} for d in doubles]
        for op in OPS:
            e = Comparison(op, ColumnRef(0, "x", type_), Param("c0", DOUBLE))
            found = matches(e, constants_table(constants, {"c0": DOUBLE}), rows)
            expected = [
                [plain.value(e, {"x": Decimal(u).scaleb(-scale)}, given) is True for u in units] for given in constants
            ]
            assert found.tolist() == expected, (scale, op)


def test_a_decimal_constant_meets_doubles_as_its_nearest_double() -> None:
    for units, scale in TWICE_ROUNDED:
        value, type_ = Decimal(units).scaleb(-scale), decimal(18, scale)
        near = [float(value), math.nextafter(float(value), math.inf), math.nextafter(float(value), -math.inf)]
        e = Comparison("=", ColumnRef(0, "x", DOUBLE), Param("c0", type_))
        found = matches(e, constants_table([{"c0": value}], {"c0": type_}), pa.table({"x": near}))
        assert found.tolist() == [[True, False, False]]


def test_excluded_intervals_may_contain_one_another() -> None:
    t = column("t")
    e = And(
        (
            Comparison("<>", Cast(t, DATE), Param("c0", DATE)),
            Comparison("<>", t, Param("c1", TIMESTAMP)),
            Comparison("<>", t, Param("c2", TIMESTAMP)),
        )
    )
    day = 1_704_067_200_000_000  # 2024-01-01, all of which is excluded; c1 and c2 lie inside it, or not
    times = [day - 1, day, day + 5, day + 6, day + 7, day + 86_399_999_999, day + 86_400_000_000, None]
    given = [
        {"c0": dt.date(2024, 1, 1), "c1": a, "c2": b}
        for a in (day, day + 6, day + 86_399_999_999, day - 1)
        for b in (day + 5, day + 86_400_000_000)
    ]
    rows = pa.table({"t": to_arrow(times, TIMESTAMP)})
    found = matches(e, constants_table(given, {"c0": DATE, "c1": TIMESTAMP, "c2": TIMESTAMP}), rows)
    assert found.tolist() == [[plain.value(e, {"t": x}, g) is True for x in times] for g in given]
    nothing = Comparison("<>", Arithmetic("*", column("b"), Param("c0", BIGINT), BIGINT), Param("c1", BIGINT))
    zero = constants_table([{"c0": 0, "c1": 0}, {"c0": 0, "c1": 1}], {"c0": BIGINT, "c1": BIGINT})
    assert matches(nothing, zero, pa.table({"b": [0, 7, None]})).tolist() == [[False] * 3, [True, True, False]]


X = ColumnRef(0, "x", BIGINT)
C = Param("c0", BIGINT)


@pytest.mark.parametrize(
    "e",
    few_are_quick(
        [
            Arithmetic("+", X, C, BIGINT),
            Arithmetic("-", X, C, BIGINT),
            Arithmetic("-", C, X, BIGINT),
            Arithmetic("*", X, C, BIGINT),
            Arithmetic("*", Arithmetic("-", C, X, BIGINT), Param("c1", BIGINT), BIGINT),
            Negate(Arithmetic("+", X, C, BIGINT), BIGINT),
            Cast(Arithmetic("+", X, C, BIGINT), INT),
            Cast(X, decimal(12, 3)),
        ]
    ),
)
def test_whole_arithmetic_is_solved_for_the_column(e: Expression) -> None:
    """No derived attribute is left, and overflow still is NULL."""
    edge = [*range(-5, 6), 2**63 - 1, 2**63 - 2, 1 - 2**63, 2**62, -(2**62), 2**31, -(2**31) - 1, 10**9, -(10**9)]
    rows = pa.table({"x": pa.array([*edge, None], pa.int64())})
    given = [{"c0": a, "c1": b, "c2": c} for a in edge[::2] for b in (0, -1, 3) for c in edge]
    constants = constants_table(given, {"c0": BIGINT, "c1": BIGINT, "c2": BIGINT})
    for op in OPS:
        predicate = Comparison(op, e, Param("c2", BIGINT))
        attributes = Attributes()
        boxes, dictionaries = instantiate(template(predicate, 64), constants, attributes)
        assert attributes.expressions == [X]
        found = brute_force(boxes, attributes, dictionaries, rows, len(given))
        expected = [[plain.value(predicate, {"x": x}, g) is True for x in [*edge, None]] for g in given]
        assert found.tolist() == expected, op


@pytest.mark.slow
def test_decimal_and_time_arithmetic_is_solved_too() -> None:
    rng = random.Random("solved")
    rows = random_rows(rng, 60)
    table = table_of(rows)
    i, m, day, t = column("i"), column("m"), column("day"), column("t")
    cents, thirds = Param("c0", decimal(4, 2)), Param("c0", decimal(3, 3))
    length, moment = Param("c0", INTERVAL), Param("c0", TIMESTAMP)
    cases: list[tuple[Expression, DataType, list[Any]]] = [
        (Arithmetic("+", m, cents, decimal(10, 2)), decimal(9, 2), [Decimal("1.25"), Decimal("-9.99")]),
        (Arithmetic("-", thirds, m, decimal(11, 3)), decimal(12, 3), [Decimal("0.125"), Decimal("0.500")]),
        (
            Arithmetic("*", m, cents, decimal(13, 4)),
            decimal(9, 2),
            [Decimal("-1.50"), Decimal("0.00"), Decimal("3.00")],
        ),
        (Arithmetic("+", i, cents, decimal(13, 2)), decimal(12, 1), [Decimal("0.50"), Decimal("-7.00")]),
        (Arithmetic("-", t, length, TIMESTAMP), TIMESTAMP, [1, -86_400_000_000]),
        (Arithmetic("-", t, moment, INTERVAL), INTERVAL, [1_704_067_200_000_000, 0]),
        (Arithmetic("+", day, length, DATE), DATE, [86_400_000_000, -3 * 86_400_000_000, 1]),
        (Cast(day, TIMESTAMP), TIMESTAMP, []),
        (Cast(t, DATE), DATE, []),
    ]
    for e, type_, values in cases:
        (base,) = [
            n
            for n in (i, m, day, t)
            if n in (getattr(e, "left", None), getattr(e, "right", None), getattr(e, "arg", None))
        ]
        given = [{"c0": a, "c1": b} for a in values or [None] for b in pool(type_)]
        param = next(
            (
                c.type
                for c in (cents, thirds, length, moment)
                if c in (getattr(e, "left", None), getattr(e, "right", None))
            ),
            INT,
        )
        constants = constants_table(given, {"c0": param, "c1": type_})
        for op in OPS:
            predicate = Comparison(op, e, Param("c1", type_))
            attributes = Attributes()
            boxes, dictionaries = instantiate(template(predicate, 64), constants, attributes)
            assert attributes.expressions == [base]
            found = brute_force(boxes, attributes, dictionaries, table, len(given))
            for g, mine in zip(given, found, strict=True):
                expected = [plain.value(predicate, row, g) is True for row in rows]
                assert mine.tolist() == expected, (predicate, g)


def test_prefix_patterns_are_ranges_of_the_column() -> None:
    s = column("s")
    patterns = ["ab%", "a%", "%", "abc", "a\\%c%", "é%", "\x7f%", "a¿%", "\U0010ffff%", "a\U0010ffff%", None, "\ud7ff%"]
    texts = [*pool(STRING), "abz", "ac", "ê", "\x80", "aÀ", "\ue000", "\ud7ffx", "a\U0010ffffz", "\U0010ffff\U0010ffff"]
    rows = pa.table({"s": texts})
    constants = pa.table({"c0": pa.array(patterns, pa.string())})
    attributes = Attributes()
    boxes, dictionaries = instantiate(template(Like(s, Param("c0", STRING)), 1), constants, attributes)
    assert attributes.expressions == [s]
    found = brute_force(boxes, attributes, dictionaries, rows, len(patterns))
    for p, mine in zip(patterns, found, strict=True):
        expected = [plain.value(Like(s, Literal(p, STRING)), {"s": t}, {}) is True for t in texts]
        assert mine.tolist() == expected, p


def test_not_in_needs_one_box_more_than_values() -> None:
    values = tuple(Comparison("<>", column("i"), Param(f"c{k}", BIGINT)) for k in range(20))
    made = template(And(values), 64)
    assert made.boxes_count == 21
    given = [{f"c{k}": v for k in range(20)} for v in (3, -2)] + [{f"c{k}": (k * 7) % 11 - 5 for k in range(20)}]
    rows = pa.table({"i": pa.array([*range(-8, 9), None], pa.int32())})
    found = matches(And(values), constants_table(given, {f"c{k}": BIGINT for k in range(20)}), rows)
    expected = [[x is not None and x not in g.values() for x in [*range(-8, 9), None]] for g in given]
    assert found.tolist() == expected


def test_in_and_or_become_boxes_and_not_is_pushed_down() -> None:
    i, d = column("i"), column("d")
    either = Or((Comparison("=", i, Literal(1, BIGINT)), Comparison("=", i, Literal(2, BIGINT))))
    assert template(either, 64).boxes_count == 2
    assert template(Not(either), 64).boxes_count == 3
    assert template(And((either, Comparison("<>", d, Literal(0.5, DOUBLE)))), 64).boxes_count == 4
    assert template(Not(And((Comparison("<", i, Literal(1, BIGINT)), IsNull(d)))), 64).boxes_count == 2


def test_constant_predicates_fold() -> None:
    rows = pa.table({"i": pa.array([1, None], pa.int32())})
    nothing = pa.table({"c0": pa.array([True, False, None])})
    i = column("i")
    assert len(template(None, 1).disjuncts) == 1
    assert template(Literal(False, BOOLEAN), 1).disjuncts == ()
    assert template(Comparison("<", i, Literal(None, NULL)), 1).disjuncts == ()
    assert template(And((Comparison("<", i, Literal(5, BIGINT)), Literal(None, BOOLEAN))), 1).disjuncts == ()
    always = template(Or((Literal(True, BOOLEAN), Comparison("<", i, Literal(5, BIGINT)))), 1)
    assert [d.atoms for d in always.disjuncts] == [()]
    assert matches(None, nothing, rows).tolist() == [[True, True]] * 3
    assert matches(Param("c0", BOOLEAN), nothing, rows).tolist() == [[True, True], [False, False], [False, False]]
    assert matches(Not(Param("c0", BOOLEAN)), nothing, rows).tolist() == [[False, False], [True, True], [False, False]]


def test_empty_boxes_are_dropped() -> None:
    i = column("i")
    e = And((Comparison(">", i, Param("c0", BIGINT)), Comparison("<", i, Param("c1", BIGINT))))
    constants = pa.table({"c0": [1, 5, 5, None, 2**63 - 1], "c1": [9, 6, 5, 5, 0]})
    boxes, _ = instantiate(template(e, 1), constants, Attributes())
    assert boxes.row_of_box.tolist() == [0]
    assert (boxes.constraint_lo.tolist(), boxes.constraint_hi.tolist()) == ([2], [8])


def test_the_cap_names_itself_and_costs_nothing() -> None:
    i, b = column("i"), column("b")
    wide = And(
        tuple(
            Or(tuple(Comparison("=", c, Literal(k, BIGINT)) for k in range(10)))
            for c in (i, b, column("i2"), column("b2"))
        )
    )
    start = time.perf_counter()
    with pytest.raises(RegisterError, match=r"boxes .* at most 64 are allowed.*boxes_per_query_max"):
        template(wide, 64)
    deep: Expression = Comparison("=", i, Literal(0, BIGINT))
    for k in range(100):
        deep = And(
            (Or((deep, Comparison("=", i, Literal(k, BIGINT)))), Or((Comparison("=", b, Literal(k, BIGINT)), deep)))
        )
    with pytest.raises(RegisterError, match="boxes_per_query_max"):
        template(deep, 64)
    assert time.perf_counter() - start < 5


def test_derived_attributes_are_made_once_for_distinct_constants_and_have_a_quota() -> None:
    d = column("d")
    e = Comparison("<", Arithmetic("*", d, Param("c0", DOUBLE), DOUBLE), Param("c1", DOUBLE))
    constants = pa.table({"c0": np.arange(3000) % 7 / 2, "c1": np.arange(3000.0)})
    attributes = Attributes(limit=7)
    boxes, _ = instantiate(template(e, 1), constants, attributes)
    assert len(attributes.expressions) == len(attributes.derived()) == 7
    assert len(boxes.row_of_box) == 3000
    with pytest.raises(RegisterError, match=r"7 distinct derived attributes.*at most 6.*residuals_per_stream_max"):
        instantiate(template(e, 1), constants, Attributes(limit=6))


def test_a_million_constants_take_no_python_for_each() -> None:
    rng = np.random.default_rng(3)
    lo = rng.random(1_000_000)
    constants = pa.table({"c0": lo, "c1": lo + 0.01, "c2": pa.array(rng.integers(0, 50, 1_000_000)).cast(pa.string())})
    e = And(
        (
            Comparison(">=", column("d"), Param("c0", DOUBLE)),
            Comparison("<=", column("d"), Param("c1", DOUBLE)),
            Comparison("=", column("s"), Param("c2", STRING)),
        )
    )
    start = time.perf_counter()
    boxes, _ = instantiate(template(e, 1), constants, Attributes())
    assert len(boxes.row_of_box) == 1_000_000
    assert time.perf_counter() - start < 5  # about 0.3 s on an idle core


@pytest.mark.parametrize(
    ("x", "y", "c"),
    [
        (INT, INT, decimal(3, 1)),
        (INT, INT, BIGINT),
        (INT, decimal(9, 2), decimal(5, 0)),
        (decimal(9, 2), decimal(9, 2), decimal(4, 3)),
        (decimal(16, 4), decimal(9, 2), decimal(3, 1)),
        (decimal(17, 0), decimal(17, 0), decimal(2, 0)),
        (decimal(18, 0), decimal(18, 0), decimal(2, 0)),
        (decimal(18, 0), decimal(3, 2), decimal(2, 0)),  # a sum of it is not within 64 bits
    ],
)
def test_comparisons_of_two_sources_are_about_their_difference(x: DataType, y: DataType, c: DataType) -> None:
    """Exactly what is asked, at the ends of the types too; and of one attribute where nothing rounds."""
    own, other = [list(pool(t)) for t in (x, y)]
    rows = pa.table(
        {
            "x": to_arrow([v for v in own for _ in other], x),
            "y": to_arrow([v for _ in own for v in other], y),
        }
    )
    left, right, param = ColumnRef(0, "x", x), ColumnRef(1, "y", y), Param("c", c)
    given = [v for v in pool(c) if v is None or abs(v) < 2**59]
    constants = constants_table([{"c": v} for v in given], {"c": c})
    sums = {op: Arithmetic(op, *arithmetic(op, right, param)) for op in "+-"}
    mirrored = Arithmetic("-", *arithmetic("-", left, param))
    for op, (a, b) in product(
        ("=", "<>", "<", "<=", ">", ">="), ((left, sums["+"]), (sums["-"], left), (mirrored, right))
    ):
        predicate = Comparison(op, a, b)
        found = matches(predicate, constants, rows)
        for value, mine in zip(given, found, strict=True):
            expected = truth(predicate, rows, {"c": value})
            wrong = np.flatnonzero(expected != mine)
            assert not len(wrong), (predicate, value, rows.slice(wrong[0], 1).to_pylist())
        attributes = {atom.attribute for d in template(predicate, 64).disjuncts for atom in d.atoms}
        difference = Arithmetic("-", *arithmetic("-", left, right))
        assert (attributes == {difference}) == all(t.precision <= 19 for t in (a.type, b.type, difference.type))


NEAR = [
    1e16,
    1e16 + 2,
    1e16 + 4,
    0.1,
    0.30000000000000004,
    0.2,
    0.3,
    1.5,
    2.5,
    -1.5,
    2.0**53,
    2.0**53 - 1,
    3e-320,
    5e-324,
]
ODD = [math.nan, math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308]


@pytest.mark.parametrize(
    ("x", "y", "c"),
    [
        (DOUBLE, DOUBLE, DOUBLE),
        (INT, DOUBLE, DOUBLE),
        (DOUBLE, decimal(9, 2), DOUBLE),
        (DOUBLE, decimal(18, 0), DOUBLE),
        (BIGINT, BIGINT, BIGINT),
        (BIGINT, INT, BIGINT),
    ],
)
@pytest.mark.parametrize("hints", [False, True])
def test_what_rounds_or_overflows_is_decided_exactly(x: DataType, y: DataType, c: DataType, hints: bool) -> None:
    """A difference reaches all that is true, for rows that are not too large; what decides is no difference."""

    def values(type_: DataType) -> list[Any]:
        return [*NEAR, *(-v for v in NEAR), *ODD, 0.0] if type_ == DOUBLE else list(pool(type_))

    own, other = values(x), values(y)
    rows = pa.table(
        {"x": to_arrow([v for v in own for _ in other], x), "y": to_arrow([v for _ in own for v in other], y)}
    )
    size = np.fmax(*(np.abs(np.array(rows.column(n).to_pylist(), object)).astype(np.float64) for n in "xy"))
    size[[any(isinstance(v, float) and math.isnan(v) for v in row.values()) for row in rows.to_pylist()]] = np.inf
    left, right, param = ColumnRef(0, "x", x), ColumnRef(1, "y", y), Param("c", c)
    given = [v for v in values(c) if (math.isfinite(v) if c == DOUBLE else abs(v) <= 2**62)]
    constants = constants_table([{"c": v} for v in given], {"c": c})
    sums = {op: Arithmetic(op, *arithmetic(op, right, param)) for op in "+-"}
    mirrored = Arithmetic("-", *arithmetic("-", left, param))
    forms = ((left, sums["+"]), (sums["-"], left), (mirrored, right), (left, right))
    kept = 0
    for op, (a, b) in product(("=", "<>", "<", "<=", ">", ">="), forms):
        predicate = Comparison(op, a, b)
        made = boxes_of([(predicate, constants)], np.arange(len(given)), hints=hints)
        attributes = Attributes()
        attributes.expressions = made.attributes
        found = brute_force(made.boxes, attributes, made.dictionaries, rows, len(given))
        reach = np.min([np.full(len(given), np.inf), *(g.reach for _, g in made.guards)], axis=0)
        for value, mine, most in zip(given, found, reach, strict=True):
            within = size <= most
            kept += np.count_nonzero(within)
            expected = truth(predicate, rows, {"c": value})
            wrong = np.flatnonzero((expected != mine) & within)
            assert not len(wrong), (predicate, value, most, rows.slice(wrong[0], 1).to_pylist())
    everything = 6 * len(forms) * len(given) * rows.num_rows
    assert kept > everything / 2
    assert (kept == everything) == (not hints and BIGINT not in (x, y))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("hints", [False, True])
def test_what_is_no_number_is_not_added(value: float, hints: bool) -> None:
    x, y, c = ColumnRef(0, "x", DOUBLE), ColumnRef(1, "y", DOUBLE), Param("c", DOUBLE)
    between = And(
        (Comparison(">=", x, Arithmetic("-", y, c, DOUBLE)), Comparison("<=", x, Arithmetic("+", y, c, DOUBLE)))
    )
    with pytest.raises(RegisterError, match="infinite or NaN"):
        instantiate(template(between, 64, hints=hints), pa.table({"c": [1.0, value]}), Attributes())


def test_constants_that_cancel_out_are_still_too_large() -> None:
    """y + 2^62 + 2^62 − 2^62 − 2^62 overflows, and is NULL, where y − 0 does not."""
    left, right = (ColumnRef(source, name, INT) for source, name in enumerate("xy"))
    large: Expression = right
    for op in "++--":
        large = Arithmetic(op, large, Literal(2**62, BIGINT), BIGINT)
    with pytest.raises(RegisterError, match="beyond"):
        instantiate(template(Comparison("<", left, large), 64), pa.table({"extra": [0]}), Attributes())
