"""The join family around its segments: what it takes and refuses, sides and families, keys, windows, needs, words."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import COLUMNS, EXACT, TWICE_ROUNDED, pool, to_arrow
from tests.sql.market import CATALOG, SETTINGS, TRADE, WEATHER, lowered
from weir.algebra.nodes import ColumnRef, Comparison, Expression, Literal, walk
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, TIMESTAMP, DataType, Kind, Stream, decimal
from weir.boxes.attributes import Attributes
from weir.boxes.instances import instantiate
from weir.boxes.templates import template
from weir.errors import RegisterError
from weir.families.forms import FORMS
from weir.families.joins.join_family import JoinFamily, JoinOfTwo, check, describe, joined, refusal
from weir.families.joins.join_keys import are_texts, has_keys, key_of, texts_of_keys
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.join_windows import apart
from weir.families.many import many_family
from weir.families.members import Group
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_doubles
from weir.index.strings import build, find
from weir.plan.registration import constants_table, literal_scalar, plan_registration
from weir.settings import Settings
from weir.sql.shapes import shape_of
from weir.values.codec import canonical
from weir.values.columns import column_operand
from weir.values.comparisons import compare
from weir.values.evaluate import truth

MINUTE_US = 60_000_000


def family_of(sql: str) -> JoinFamily:
    return joined(lowered(sql), CATALOG).family


# What is taken.


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trade t JOIN weather w ON t.area = w.area",
        "SELECT t.name FROM trade t, weather w WHERE w.area = t.area AND t.price < 5",
        "SELECT t.name FROM trade t JOIN weather w USING (area) WHERE t.qty IN (1, 2, 3) OR w.wind > 4",
        "SELECT 1 AS one FROM trade a JOIN trade b ON a.name = b.name AND a.qty = b.qty",
        "SELECT a.name FROM trade a, trade b WHERE a.qty + a.volume = b.volume AND NOT (a.name LIKE 'x%' AND b.urgent)",
        "SELECT t.name FROM trade t, weather w WHERE NOT (t.area <> w.area OR t.price < 5)",
        "SELECT t.name FROM trade t [ROWS 5] JOIN weather w [RANGE 1 DAY] ON t.day = w.ts AND 1 = 1",
        "SELECT t.name FROM trade t, weather w WHERE t.area = w.area AND (t.qty < 1 AND w.wind > 2 OR t.urgent)",
    ],
)
def test_equi_joins_of_two_streams_are_taken(sql: str) -> None:
    query = lowered(sql)
    assert refusal(query, CATALOG) is None
    # A query and its shape are of one family, or segments would be built for the wrong one.
    assert joined(shape_of(query).query, CATALOG).family == joined(query, CATALOG).family


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT name FROM trade", "it reads one source"),
        ("SELECT DISTINCT t.name FROM trade t, weather w WHERE t.area = w.area", "DISTINCT compares rows"),
        ("SELECT count(*) FROM trade t, weather w WHERE t.area = w.area", "aggregates combine rows"),
        ("SELECT area FROM trade UNION ALL SELECT area FROM weather", "UNION combines two queries"),
        (
            "SELECT t.name FROM trade t JOIN weather w ON t.area = w.area JOIN weather v ON v.area = w.area",
            "it joins 3 sources (t, w, v), not two",
        ),
        ("SELECT name FROM trade, stock WHERE name = symbol", "'stock' is not a stream"),
        (
            "SELECT t.name FROM trade t, weather w",
            "neither an equality without parameters nor a bounded difference connects t with w",
        ),
        (
            "SELECT t.name FROM trade t CROSS JOIN weather w WHERE t.price < 5",
            "neither an equality without parameters nor a bounded difference connects t with w",
        ),
        ("SELECT t.name FROM trade t, weather w WHERE t.area <> w.area", "connects t with w"),
        ("SELECT t.name FROM trade t, weather w WHERE t.qty = w.category OR t.area = w.area", "connects t with w"),
        ("SELECT t.name FROM trade t, weather w WHERE t.qty = w.category % :n", "equality without parameters"),
    ],
)
def test_what_is_refused_and_why(sql: str, reason: str) -> None:
    found = refusal(lowered(sql), CATALOG)
    assert found is not None
    assert reason in found


def test_the_family_is_asked_after_selections() -> None:
    assert [f.name for f in FORMS] == ["selection", "join", "many-join"]


# Sides, keys, families.


def test_sides_are_the_same_however_a_join_is_written() -> None:
    texts = [
        "SELECT t.name FROM trade t JOIN weather w ON t.area = w.area AND t.qty = w.category",
        "SELECT w.wind FROM weather w JOIN trade t ON w.category = t.qty AND t.area = w.area WHERE w.wind > 3",
        "SELECT 1 AS x FROM weather a, trade b WHERE a.area = b.area AND NOT a.category <> b.qty AND b.area = a.area",
    ]
    families = {family_of(t) for t in texts}
    assert len(families) == 1
    (family,) = families
    assert family.streams == ("trade", "weather")
    assert family.channel == "trade~weather"
    assert len(family.keys) == 2
    assert all(c.source == 0 for pair in family.keys for e in pair for c in walk(e) if isinstance(c, ColumnRef))
    assert family.name.startswith("trade~weather:")
    assert len(family.name) == len("trade~weather:") + 12
    assert JoinFamily.from_json(json.loads(json.dumps(family.to_json()))) == family
    others = {
        family_of("SELECT t.name FROM trade t JOIN weather w ON t.area = w.area").name,
        family_of("SELECT t.name FROM trade t JOIN weather w ON t.qty = w.category").name,
        family_of("SELECT t.name FROM trade t JOIN weather w ON t.area = w.area AND t.volume = w.category").name,
        family.name,
    }
    assert len(others) == 4


def test_constants_of_keys_tell_families_apart() -> None:
    text = "SELECT t.name FROM trade t, weather w WHERE t.qty + {} = w.category AND t.price < {}"
    same = {family_of(text.format(1, 5)), family_of(text.format(1, 6))}
    assert len(same) == 1
    (family,) = same
    assert family != family_of(text.format(2, 5))
    assert JoinFamily.from_json(json.loads(json.dumps(family.to_json()))) == family
    planned = plan_registration(text.format(1, 5), None, CATALOG, SETTINGS)
    assert joined(planned.shape.query, CATALOG).family == family


@pytest.mark.parametrize(
    "condition",
    [
        "w.wind - t.price BETWEEN 1 AND 5",
        "abs(t.price - w.wind) < 2",
        "t.qty - w.category > 3",
        "abs(t.ts - w.ts) <= INTERVAL 5 MINUTES",
        "t.ts < w.ts + INTERVAL :n SECONDS AND t.price > 3",
        "t.fee < w.category + 2.5",
        "w.category BETWEEN t.fee - 1.25 AND t.fee + 5",
        "t.fee <= w.category",
        "t.price < w.wind",
        "t.volume > w.category - 3",
        "t.price BETWEEN w.wind - :a AND w.wind + :b",
        "(t.price - w.wind > 1 AND t.qty = 1) OR (t.price - w.wind < -1 AND t.qty = 2)",
    ],
)
def test_a_bounded_difference_connects_without_an_equality(condition: str) -> None:
    query = lowered(f"SELECT t.name FROM trade t, weather w WHERE {condition}")
    assert refusal(query, CATALOG) is None
    found = joined(query, CATALOG)
    assert found.family == JoinFamily(("trade", "weather"), ())
    assert JoinFamily.from_json(json.loads(json.dumps(found.family.to_json()))) == found.family
    assert joined(shape_of(query).query, CATALOG).family == found.family


@pytest.mark.parametrize(
    "sql",
    [
        "FROM trade t, weather w WHERE (t.qty - w.category * 2 < 5 OR t.qty - w.category * 2 > 9)",
        "FROM trade t, weather w WHERE t.qty - w.category IN (5, 9) AND 1 = 2 OR 1 = 2",
        "FROM weather w, trade t WHERE (w.ts < t.ts OR w.ts - t.ts > INTERVAL 1 MINUTE)",
        "FROM trade t, weather w WHERE 1 = 2",
    ],
)
def test_what_only_its_constants_connect_is_not_matched(sql: str) -> None:
    """Its shape stands for other constants too, so it is evaluated when it is asked for."""
    planned = plan_registration(f"SELECT t.name {sql}", None, CATALOG, SETTINGS)
    assert planned.classified.family == many_family.name
    assert not many_family.joined(planned.shape.query, CATALOG).is_connected


def test_many_parts_are_not_written_out_before_they_are_refused() -> None:
    condition = " AND ".join(f"(t.qty = {k} OR w.category = {k})" for k in range(40))
    planned = plan_registration(f"SELECT t.name FROM trade t, weather w WHERE {condition}", None, CATALOG, SETTINGS)
    with pytest.raises(RegisterError, match="boxes"):
        planned.check(constants_table(planned, None))


def test_nan_in_a_key_is_one_family() -> None:
    text = "SELECT t.name FROM trade t, weather w WHERE (t.price = CAST('nan' AS double)) = (w.wind > 1)"
    texts = [text, f"{text} AND t.qty > 3"]
    groups = []
    for first, text in enumerate(texts):
        planned = plan_registration(text, None, CATALOG, SETTINGS)
        groups.append(Group(planned.shape.query, constants_table(planned, None), first))
    family = joined(groups[0].query, CATALOG).family
    assert len(JoinSegment.build(family, groups, CATALOG, settings=SETTINGS).ids) == 2


def test_constants_that_are_too_large_to_be_moved_are_refused() -> None:
    text = "SELECT t.name FROM trade t, weather w WHERE t.area = w.area AND t.ts < w.ts + INTERVAL :n MILLISECONDS"
    planned = plan_registration(text, pa.table({"n": [5]}), CATALOG, SETTINGS)
    planned.check(constants_table(planned, pa.table({"n": [5]})))
    with pytest.raises(RegisterError, match="beyond"):
        planned.check(constants_table(planned, pa.table({"n": [5, 9_223_372_036_854_775]})))


def test_a_distance_may_be_bounded_by_nan() -> None:
    """NaN lies above all numbers, so it bounds nothing; −NaN must not bound from below."""
    query = lowered("SELECT t.name FROM trade t, weather w WHERE abs(t.price - w.wind) <= :c")
    made = template(joined(query, CATALOG).predicate, 64)
    constants = pa.table({"c": pa.array([float("nan"), 2.0, -1.0, None], pa.float64())})
    boxes, _ = instantiate(made, constants, Attributes())
    nan, two = (int(encode_doubles(np.array([x]))[0]) for x in (np.nan, 2.0))
    minus_two = int(encode_doubles(np.array([-2.0]))[0])
    found = list(zip(boxes.row_of_box, boxes.constraint_lo, boxes.constraint_hi, strict=True))
    assert found == [(0, KEY_MIN, nan), (1, minus_two, two)]


def test_explain_says_what_is_asked_of_pairs() -> None:
    text = "SELECT t.name FROM trade t, weather w WHERE w.wind - t.price BETWEEN 1 AND 5 AND t.qty * w.category > 3"
    found = describe(joined(lowered(text), CATALOG), None, (TRADE, WEATHER))
    assert found["join keys"] == "none"
    assert found["bounded differences"] == "w.wind - t.price"
    assert found["evaluated for pairs"] == "t.qty * w.category"
    bare = joined(lowered("SELECT t.name FROM trade t, weather w WHERE w.area = t.area"), CATALOG)
    plain = describe(bare, None, (TRADE, WEATHER))
    assert not {"bounded differences", "evaluated for pairs"} & set(plain)


@pytest.mark.parametrize(
    "condition",
    [
        "t.price < w.wind + 1e0 + 2e0",  # what rounds twice is not moved
        "t.price - w.wind <> 3",
        "t.price - w.wind > 3 OR t.qty = 1",
        "t.price - w.wind > 3 OR t.qty - w.category > 1",
        "t.price * w.wind > 3",
        " AND ".join(f"(t.qty = {k} OR w.category = {k})" for k in range(9)),
    ],
)
def test_what_lets_every_row_meet_every_other_is_refused(condition: str) -> None:
    found = refusal(lowered(f"SELECT t.name FROM trade t, weather w WHERE {condition}"), CATALOG)
    assert found is not None
    assert "bounded difference" in found


def test_a_swapped_query_is_seen_by_side() -> None:
    found = joined(
        lowered("SELECT w.wind, t.name FROM weather w, trade t WHERE w.area = t.area AND w.wind > 3 AND t.qty < 5"),
        CATALOG,
    )
    assert found.swapped
    assert [s.relation for s in found.scans] == ["trade", "weather"]
    assert _columns(found.predicate) == {(1, "wind"), (0, "qty")}
    assert _columns(found.condition) == {(0, "wind"), (1, "qty"), (0, "area"), (1, "area")}
    assert [(e.source, e.name) for _, e in found.columns if isinstance(e, ColumnRef)] == [(0, "wind"), (1, "name")]
    straight = joined(lowered("SELECT 1 AS x FROM trade t, weather w WHERE w.area = t.area"), CATALOG)
    assert not straight.swapped
    assert straight.predicate is None


def _columns(e: Expression | None) -> set[tuple[int, str]]:
    assert e is not None
    return {(c.source, c.name) for c in walk(e) if isinstance(c, ColumnRef)}


def test_sides_of_self_joins_follow_their_keys() -> None:
    texts = (
        "SELECT a.name FROM trade a, trade b WHERE a.qty = b.volume AND a.price < 5",
        "SELECT b.name FROM trade a, trade b WHERE a.volume = b.qty AND b.price < 5",
    )
    first, second = (joined(lowered(t), CATALOG) for t in texts)
    assert first.family == second.family
    assert first.swapped != second.swapped
    assert _columns(first.predicate) == _columns(second.predicate)
    assert first.family.channel == "trade~trade"
    # Nothing tells these sides apart: the query's order stays, and it is one family.
    texts = (
        "SELECT a.name FROM trade a, trade b WHERE a.name = b.name AND a.price < 5",
        "SELECT a.name FROM trade a, trade b WHERE a.name = b.name AND b.price < 5",
        "SELECT a.name FROM trade a, trade b WHERE b.name = a.name AND b.price < 5",
    )
    found: list[JoinOfTwo] = [joined(lowered(t), CATALOG) for t in texts]
    assert len({f.family for f in found}) == 1
    assert not any(f.swapped for f in found)
    assert [_columns(f.predicate) for f in found] == [{(0, "price")}, {(1, "price")}, {(1, "price")}]
    # Two keys that mirror one another.
    texts = (
        "SELECT a.name FROM trade a, trade b WHERE a.qty = b.volume AND a.volume = b.qty",
        "SELECT a.name FROM trade a, trade b WHERE b.qty = a.volume AND b.volume = a.qty",
    )
    assert len({family_of(t) for t in texts}) == 1


# Keys.

TYPES: tuple[DataType, ...] = (
    INT, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, INTERVAL,
    decimal(9, 2), decimal(18, 6), decimal(18, 18), decimal(18, 0), decimal(4, 4), decimal(18, 17), decimal(18, 9),
    decimal(38, 0), decimal(38, 10), decimal(38, 38), decimal(21, 2),
)  # fmt: skip


def values_of(type_: DataType, rng: random.Random) -> pa.Array:
    values: list[Any] = [*pool(type_), None]
    if type_.kind is Kind.BIGINT:
        values += [2**63 - 1, -(2**63) + 1, 922_337_203_685_477_580, 9_223_372_036_854_775, 10**17, -(10**18)]
    if type_.kind is Kind.DECIMAL:
        top = 10**type_.precision
        units = [u for u, scale in TWICE_ROUNDED if scale == type_.scale]
        units += [rng.randrange(-top + 1, top) for _ in range(10)]
        units += [u for u in (10**type_.scale, 5 * 10**type_.scale) if u < top]
        values += [Decimal(u).scaleb(-type_.scale, EXACT) for u in units]
    if type_.kind is Kind.DOUBLE:
        values += [float(Decimal(u).scaleb(-scale)) for u, scale in TWICE_ROUNDED]
        values += [9.223372036854775807e18, 0.01, 1e-18, 0.5]
    return to_arrow(values, type_)


@pytest.mark.parametrize("own", TYPES, ids=str)
def test_keys_are_equal_exactly_where_values_are(own: DataType) -> None:
    for other in TYPES:
        if not has_keys(own, other):
            continue
        rng = random.Random(f"{own} {other}")
        left, right = values_of(own, rng), values_of(other, rng)
        if are_texts(own, other):  # a place in a dictionary of one side is what the other finds there
            texts = texts_of_keys(right, other, own)
            dictionary = build(texts)
            keys, other_keys = find(dictionary, texts_of_keys(left, own, other)), find(dictionary, texts)
            keys = np.where(keys & 1, keys, NULL_KEY)
        else:
            keys, other_keys = key_of(left, own, other), key_of(right, other, own)
        assert keys.dtype == other_keys.dtype == np.int64
        found = (keys[:, None] == other_keys[None, :]) & (keys != NULL_KEY)[:, None]
        for k in range(len(left)):
            alone = pa.concat_arrays([left.slice(k, 1)] * len(right))
            said = compare("=", column_operand(alone, own), column_operand(right, other))
            expected = said.values if said.valid is None else said.values & said.valid
            wrong = np.flatnonzero(expected != found[k])
            assert not len(wrong), (own, other, left[k], [right[int(w)] for w in wrong])


def test_keys_of_slices_chunks_and_nothing() -> None:
    whole = pa.array([None, 1, 2, None, 3], pa.int32())
    assert key_of(whole.slice(1, 3), INT, decimal(9, 2)).tolist() == [100, 200, NULL_KEY]
    assert key_of(pa.chunked_array([whole, whole.slice(4)]), INT, BIGINT).tolist() == [NULL_KEY, 1, 2, NULL_KEY, 3, 3]
    assert key_of(pa.chunked_array([], pa.int32()), INT, DOUBLE).tolist() == []
    assert key_of(pa.array([2**62, 10**16], pa.int64()), BIGINT, decimal(18, 2)).tolist() == [NULL_KEY, 10**18]


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_of_a_condition_is_its_keys_and_its_predicate(seed: int) -> None:
    """Splitting loses nothing: over all pairs of rows, the condition is TRUE where the parts are."""
    rng = random.Random(f"split {seed}")
    sql = rng.choice(
        [
            "SELECT a.name FROM trade a, trade b WHERE NOT (a.qty <> b.volume OR (a.urgent AND b.price > 3)) "
            "AND (a.name = 'a' OR b.name = 'ab')",
            "SELECT a.name FROM trade a JOIN trade b ON b.price = a.volume WHERE a.area = b.area AND b.qty IN (-3, -2)",
        ]
    )
    found = joined(lowered(sql), CATALOG)
    assert found.condition is not None
    count = 40
    sides = []
    for side in range(2):
        columns = {}
        for c in TRADE.columns:
            values = [None if rng.random() < 0.1 else rng.choice(list(pool(c.type))[:6]) for _ in range(count)]
            columns[f"{side}.{c.name}"] = to_arrow(values, c.type)
        sides.append(pa.table(columns))
    first = sides[0].take(pa.array(np.repeat(np.arange(count), count)))
    second = sides[1].take(pa.array(np.tile(np.arange(count), count)))
    product = pa.table({n: t.column(n) for t in (first, second) for n in t.column_names})
    own = {0: 1, 1: 0} if found.swapped else {0: 0, 1: 1}
    whole = truth(_qualified(found.condition, own), product)
    parts = np.ones(count * count, bool) if found.predicate is None else truth(_qualified(found.predicate), product)
    for a, b in found.family.keys:
        parts &= truth(Comparison("=", _qualified(a, {0: 0}), _qualified(b, {0: 1})), product)
    assert np.array_equal(whole, parts)
    assert whole.any()


def _qualified(e: Expression, number_of: dict[int, int] | None = None) -> Expression:
    known = number_of or {0: 0, 1: 1}

    def put(n: Expression) -> Expression:
        return ColumnRef(0, f"{known[n.source]}.{n.name}", n.type) if isinstance(n, ColumnRef) else n

    return rebuild(e, put)


# Windows.


@pytest.mark.parametrize(
    ("windows", "lo", "hi"),
    [
        # trade keeps an hour, weather for ever
        (("", ""), -60 * MINUTE_US + 1, KEY_MAX),
        (("[RANGE 1 MINUTE]", "[RANGE 2 MINUTES]"), -MINUTE_US + 1, 2 * MINUTE_US - 1),
        (("[ROWS 7]", "[RANGE 2 MINUTES]"), -60 * MINUTE_US + 1, 2 * MINUTE_US - 1),
        (("[RANGE 1 MINUTE]", "[ROWS 7]"), -MINUTE_US + 1, KEY_MAX),
    ],
)
def test_how_far_apart_two_rows_may_be(windows: tuple[str, str], lo: int, hi: int) -> None:
    query = lowered(f"SELECT 1 AS x FROM trade t {windows[0]} JOIN weather w {windows[1]} ON t.area = w.area")
    found = apart(joined(query, CATALOG).scans, (TRADE, WEATHER), pa.table({"none": [None, None]}))
    assert found.lo.tolist() == [lo, lo]
    assert found.hi.tolist() == [hi, hi]


def test_windows_that_are_parameters_and_edges_that_stand_still() -> None:
    sql = "SELECT 1 AS x FROM weather a, weather b WHERE a.area = b.area BEGIN NOW - :w END NOW - :e"
    params = pa.table({"w": [10, 20], "e": [1, 15]})
    planned = plan_registration(sql, params, CATALOG, SETTINGS)
    found = apart(joined(planned.shape.query, CATALOG).scans, (WEATHER, WEATHER), constants_table(planned, params))
    assert found.lo.tolist() == [-9_000_000 + 1, -5_000_000 + 1]
    assert found.hi.tolist() == [9_000_000 - 1, 5_000_000 - 1]
    for clause in ("BEGIN '2026-01-31' END NOW", "BEGIN '2026-01-31' END '2026-02-01'"):
        query = lowered(f"SELECT 1 AS x FROM weather a, weather b WHERE a.area = b.area {clause}")
        found = apart(joined(query, CATALOG).scans, (WEATHER, WEATHER), pa.table({"none": [None]}))
        assert (found.lo.tolist(), found.hi.tolist()) == ([KEY_MIN], [KEY_MAX])


# What a registration needs.


def test_check_says_what_each_stream_needs() -> None:
    shape = shape_of(
        lowered(
            "SELECT t.name FROM weather w, trade t WHERE w.area = t.area AND t.name LIKE '%y' AND w.area LIKE '%y' "
            "AND t.price * 2 < 9 AND t.qty <> 3 AND w.category = 4"
        )
    )
    constants = pa.table(
        {f"c{k}": pa.repeat(literal_scalar(s, s.type), 1) for k, s in enumerate(shape.slots) if isinstance(s, Literal)}
    )
    needed = check(joined(shape.query, CATALOG), constants, (TRADE, WEATHER), SETTINGS)
    assert needed.boxes_per_query == 2
    assert needed.attributes == ("trade.name", "trade.price", "trade.qty", "weather.area", "weather.category")
    assert set(needed.residuals_of) == {"trade", "weather"}
    assert [len(needed.residuals_of[n]) for n in ("trade", "weather")] == [2, 1]
    assert set(needed.residuals) == {t for texts in needed.residuals_of.values() for t in texts}
    # A selection's residual is the same one.
    alone = plan_registration("SELECT area FROM weather WHERE area LIKE '%y'", None, CATALOG, SETTINGS)
    assert alone.check(constants_table(alone, None)).residuals_of == {"weather": needed.residuals_of["weather"]}


def test_check_counts_both_sides_of_a_self_join_together() -> None:
    sql = "SELECT a.name FROM trade a, trade b WHERE a.name = b.name AND a.price * :x > 1 AND b.price * :y > 1"
    params = pa.table({"x": np.arange(60.0), "y": np.arange(30.0, 90.0)})
    planned = plan_registration(sql, params, CATALOG, SETTINGS)
    needed = planned.check(constants_table(planned, params))
    assert list(needed.residuals_of) == ["trade"]
    assert len(needed.residuals_of["trade"]) == 90
    tight = Settings(residuals_per_stream_max=89)
    planned = plan_registration(sql, params, CATALOG, tight)
    with pytest.raises(RegisterError, match=r"90 distinct derived attributes.*at most 89"):
        planned.check(constants_table(planned, params))


def test_check_refuses_too_many_boxes() -> None:
    planned = plan_registration(
        "SELECT t.name FROM trade t, weather w WHERE t.area = w.area AND t.qty IN (1, 2, 3) AND w.category IN (4, 5)",
        None,
        CATALOG,
        Settings(boxes_per_query_max=5),
    )
    with pytest.raises(RegisterError, match=r"needs 6 or more boxes.*at most 5"):
        planned.check(constants_table(planned, None))


def test_every_window_is_held_against_its_own_stream() -> None:
    """weather is kept for ever, trade for an hour; in the shape their order may be another than in the text."""
    for sql in (
        "SELECT t.name FROM trade t [RANGE :w SECOND], weather w [RANGE 1 DAY] WHERE t.area = w.area",
        "SELECT t.name FROM weather w [RANGE 1 DAY], trade t [RANGE :w SECOND] WHERE t.area = w.area",
    ):
        planned = plan_registration(sql, pa.table({"w": [3600]}), CATALOG, SETTINGS)
        planned.check(constants_table(planned, pa.table({"w": [3600]})))
        with pytest.raises(RegisterError, match="a window of 'trade' begins 1 hour 1 second before now"):
            planned.check(constants_table(planned, pa.table({"w": [3601]})))
    long = plan_registration(
        "SELECT t.name FROM trade t, weather w [RANGE :w DAY] WHERE t.area = w.area",
        pa.table({"w": [3]}), CATALOG, SETTINGS,
    )  # fmt: skip
    long.check(constants_table(long, pa.table({"w": [3]})))


@pytest.mark.parametrize(
    ("sql", "streams", "channel"),
    [
        ("SELECT w.wind FROM weather w, trade t WHERE t.area = w.area", (TRADE, WEATHER), "trade~weather"),
        ("SELECT a.wind FROM weather a, weather b WHERE a.area = b.area", (WEATHER, WEATHER), "weather~weather"),
        ("SELECT wind FROM weather", (WEATHER,), "weather"),
    ],
)
def test_a_registration_knows_its_streams_and_channel(sql: str, streams: tuple[Stream, ...], channel: str) -> None:
    planned = plan_registration(sql, None, CATALOG, SETTINGS)
    assert planned.classified.seen[0].streams == streams
    assert planned.channels == (channel,)


def test_describe_speaks_the_words_of_the_query() -> None:
    query = lowered(
        "SELECT w.wind FROM weather w, trade t WHERE t.area = w.area AND t.price < 5 AND (w.wind > 3 OR t.qty = :n)"
    )
    said = describe(joined(query, CATALOG), {"n": 7}, (TRADE, WEATHER))
    assert said["join family"] == joined(query, CATALOG).family.name
    assert said["sides"] == "trade t and weather w"
    assert said["join keys"] == "t.area = w.area"
    assert said["boxes"] == "2: t.price < 5.0D AND w.wind > 3.0D; t.price < 5.0D AND t.qty = 7"
    assert said["attributes"] == "t.price, w.wind, t.qty"
    assert said["derived attributes"] == "none"
    assert said["access attributes"] == "t: t.price; w: none"
    self_join = joined(lowered("SELECT 1 AS x FROM trade a, trade b WHERE a.name = b.name"), CATALOG)
    bare = describe(self_join, None, (TRADE, TRADE))
    assert bare["boxes"] == "1: every row"
    assert bare["access attributes"] == "a: none; b: none"


def test_names_do_not_depend_on_the_run() -> None:
    """Folders of caches are called by them."""
    family = JoinFamily(("a", "B"), ((ColumnRef(0, "i", COLUMNS["i"]), ColumnRef(0, "b", COLUMNS["b"])),))
    assert family.channel == "a~B"
    assert family.name == JoinFamily.from_json(family.to_json()).name
    assert canonical(family.keys[0][0]) == '{"is":"column","name":"i","source":0,"type":"int"}'
