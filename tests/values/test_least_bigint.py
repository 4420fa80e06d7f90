"""−2^63: constants may be it, and so may what they make; columns and what is computed of them keep clear of it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.families.test_boxes import matches
from tests.sql.market import lowered
from weir.algebra.nodes import Arithmetic, ColumnRef, Comparison, Expression, Literal, Param, Project
from weir.algebra.schema import BIGINT
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir
from weir.values.evaluate import evaluate_constants, truth

LEAST = -(2**63)
VALUES = [LEAST, LEAST + 1, LEAST + 2, -(2**62), -2, -1, 0, 1, 2, 2**62, 2**63 - 2, 2**63 - 1, None]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("-1 - 9223372036854775807", LEAST),
        ("-9223372036854775807 - 1", LEAST),
        ("-9223372036854775808", LEAST),
        ("2 * -4611686018427387904", LEAST),
        ("-9223372036854775808 + 9223372036854775807", -1),
        ("-9223372036854775808 % -1", 0),
        ("-2 - 9223372036854775807", None),
        ("-(-1 - 9223372036854775807)", None),
        ("abs(-1 - 9223372036854775807)", None),
        ("(-1 - 9223372036854775807) * -1", None),
    ],
)
def test_constants_are_combined(sql: str, value: int | None) -> None:
    root = lowered(f"SELECT {sql} AS x FROM trade").root
    assert isinstance(root, Project)
    assert root.columns == (("x", Literal(value, BIGINT)),)


@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_constants_of_queries_are_combined(op: str) -> None:
    pairs = [(a, b) for a in VALUES for b in VALUES]
    constants = pa.table(
        {"a": pa.array([a for a, _ in pairs], pa.int64()), "b": pa.array([b for _, b in pairs], pa.int64())}
    )
    got = evaluate_constants(Arithmetic(op, Param("a", BIGINT), Param("b", BIGINT), BIGINT), constants).to_pylist()
    for (a, b), mine in zip(pairs, got, strict=True):
        exact = None if a is None or b is None else {"+": a + b, "-": a - b, "*": a * b}[op]
        assert mine == (exact if exact is not None and LEAST <= exact < -LEAST else None), (a, op, b)


def test_boxes_with_such_constants_agree_with_the_evaluator() -> None:
    rng = random.Random("least")
    rows = pa.table({"v": pa.array(VALUES[1:], pa.int64())})
    column = ColumnRef(0, "v", BIGINT)
    for op in ("=", "<>", "<", "<=", ">", ">="):
        for step in ("", "v + c", "v - c", "c - v", "v * c"):
            pairs = [(rng.choice(VALUES), rng.choice(VALUES)) for _ in range(60)]
            constants = pa.table({f"c{k}": pa.array([p[k] for p in pairs], pa.int64()) for k in (0, 1)})
            c: Expression = Param("c1", BIGINT)
            left: Expression = column
            if step:
                left = (
                    Arithmetic(step[2], c, column, BIGINT) if step[0] == "c" else Arithmetic(step[2], column, c, BIGINT)
                )
            e = Comparison(op, left, Param("c0", BIGINT))
            for (bound, moved), mine in zip(pairs, matches(e, constants, rows), strict=True):
                expected = truth(e, rows, {"c0": bound, "c1": moved})
                assert mine.tolist() == expected.tolist(), (step, op, bound, moved)


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT -1 - 9223372036854775807 AS x, v FROM a WHERE v > -9223372036854775808", {}),
        ("SELECT v + -9223372036854775808 AS x FROM a WHERE v + -9223372036854775808 > -5", {}),
        ("SELECT :p AS x, v FROM a WHERE v - :p > 0".replace(":p AS", "CAST(:p AS bigint) AS"), {"p": LEAST}),
        ("SELECT :p - 1 - :q AS x FROM a WHERE v >= :p", {"p": LEAST + 1, "q": 0}),
        ("SELECT v FROM a WHERE v NOT IN (:p) AND -9223372036854775808 < v", {"p": [LEAST, 1]}),
    ],
)
def test_answers_equal_the_oracle(tmp_path: Path, sql: str, params: dict[str, object]) -> None:
    w = weir.open(tmp_path)
    w.stream("a", "v bigint, ts timestamp", time="ts", keep="forever")
    found = w.register(sql, params or None)
    times = pa.array(range(len(VALUES) - 1), pa.timestamp("us", "UTC"))
    rows = pa.table({"v": pa.array(VALUES[1:], pa.int64()), "ts": times})
    DirectWeir(w, wall_us=10**12).batch({"a": rows})
    w.state.refresh(w.ledger)
    got = found.fetch()
    assert got.num_rows > 0
    assert differ(answer(sql, params, w.catalog, {"a": rows}, w.state.now_us or 0), got) is None
