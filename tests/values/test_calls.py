"""Scalar functions: the table is complete, and three implementations of each one agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.families.random_expressions import STREAM, from_arrow, pool, random_rows, same, table_of
from weir.algebra.array_functions import ARRAYS
from weir.algebra.fold import fold_one
from weir.algebra.functions import FUNCTIONS, NAMED, SIGNATURES
from weir.algebra.nodes import Call, Comparison, Literal, Param, Project
from weir.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Catalog, DataType, Kind, decimal
from weir.algebra.signatures import VALUE, Signature
from weir.families.query_parts import condition_of
from weir.settings import Settings
from weir.sql.forms import FORMS
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing import answer, differ
from weir.testing.duck_calls import _CALLS
from weir.values.calls import EVALUATIONS, call
from weir.values.columns import constant_operand, to_arrow
from weir.values.evaluate import evaluate, truth_of_constants

LANGUAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
CATALOG = Catalog({"trade": STREAM})
TYPES: tuple[DataType, ...] = (INT, BIGINT, DOUBLE, decimal(9, 2), decimal(3, 0), STRING, BOOLEAN, DATE, TIMESTAMP)
LATER_US = 4_000_000_000_000_000


OF_PAYLOADS = (
    "size",
    "array_contains",
    *(f.name for f in ARRAYS),
)  # there are no constants of payloads; the oracle has them in a file of their own


def test_every_function_is_evaluated_translated_and_documented() -> None:
    """(By DuckDB, or by Spark alone: tests/spark/test_functions.py has a case of each.)"""
    assert set(SIGNATURES) == set(EVALUATIONS)
    assert set(_CALLS) <= set(SIGNATURES)
    assert len(SIGNATURES) == len(FUNCTIONS)
    assert len(NAMED) == sum(1 + len(f.also) for f in FUNCTIONS if not f.is_syntax), "a name means one function"
    missing = [name for name in (*NAMED, *FORMS) if f"`{name}(" not in LANGUAGE]
    assert not missing, f"not in docs/language.md: {', '.join(missing)}"


def constants_of(function: Signature, rng: random.Random) -> list[Literal]:
    """Arguments of the types that it takes; NULLs among them."""
    takes = next(t for k in rng.sample(range(7), 7) if (t := function.takes.of(k)) is not None)
    value = rng.choice(TYPES)
    args = []
    for taken in takes:
        kinds = [t for t in TYPES if taken.kinds is not None and t.kind in taken.kinds]
        kinds = kinds or ([taken.untyped] if taken.untyped else kinds)
        type_ = value if taken.kinds is None else rng.choice(kinds)
        values = ("year", "MM", "week", "second") if function.name == "date_trunc" and type_ is STRING else pool(type_)
        values = range(-20, 20) if taken.words == "a whole number" else values
        args.append(Literal(None if rng.random() < 0.15 else rng.choice(values), type_))
    return args


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS if f.value is not None])
def test_constants_fold_to_what_is_evaluated(name: str) -> None:
    rng = random.Random(f"fold {name}")
    for _ in range(300):
        args = constants_of(SIGNATURES[name], rng)
        e = Call(name, tuple(args), SIGNATURES[name].type_of(args))
        folded = fold_one(e)
        assert isinstance(folded, Literal), f"{e} is not folded"
        evaluated = call(name, [constant_operand(a.value, a.type) for a in args], e.type)
        (found,) = from_arrow(to_arrow(evaluated, 1), e.type)
        assert same(folded.value, found), f"{e}: {folded.value!r} folded, {found!r} evaluated"


EXPRESSIONS = """
abs(i); abs(d); abs(m); abs(b - i); sign(d); sign(m3); sign(i); signum(b)
floor(d); ceil(d); floor(m); ceiling(m2); floor(i); ceil(b); round(d); round(m); round(m3); round(i); round(d / 7)
upper(s); lower(s2); ucase(s || s2); lcase('ABC'); length(s); char_length(s || '日'); len(s); character_length('')
trim(' ' || s || ' '); ltrim('  ' || s); rtrim(s || '  '); trim(s)
substring(s, 1); substring(s, 0, 2); substring(s, 2, 1); substring(s, -2); substring(s, -2, 1); substring(s, -9, 8)
substring(s, 2, 0); substring(s, 2, -1); substr(s, i); substring(s, i, i2); substring(s, b, b2); substring('日本語', i)
substring(s, 9223372036854775807, 9223372036854775807); substring(NULL, 1); substring(s, NULL)
concat(s); concat(s, s2); concat(s, 'x', s2, NULL); s || s2 || 'y'; 'a' || 'b'
replace(s, 'a'); replace(s, 'a', 'bb'); replace(s, '', 'x'); replace(s, s2, 'é'); replace(s, 'b', s2); replace(s, NULL)
coalesce(i, 0); coalesce(i, b, 1.5); coalesce(m, i); coalesce(m, 5); coalesce(d, m, i); coalesce(s, s2, 'none')
coalesce(f, TRUE); coalesce(day, t); coalesce(day, '2024-01-01'); nvl(t, '2024-01-01 12:00:00'); ifnull(s, 'x')
coalesce(NULL, NULL, i2); coalesce(m2, m3); coalesce(b, m)
nullif(i, 2); nullif(s, 'a'); nullif(d, 0.5); nullif(i, d); nullif(day, t); nullif(5, i); nullif(f, TRUE)
nullif(day, '2024-01-01'); nullif(m, 5.49); nullif(d, i)
greatest(i, i2); greatest(i, b, 3); greatest(d, d2, 0.1); least(d, d2); least(s, s2, 'b'); greatest(m, m2)
least(m, 1.5); greatest(day, t); least(day, day2, DATE '2024-01-01'); greatest(i, NULL); least(NULL, d, NULL)
greatest(f, FALSE); if(f, i, b); if(i > 2, s, 'other'); if(NULL, 1, 2); if(i > i2, d, m)
CASE WHEN i > 2 THEN 'big' WHEN i < 0 THEN s ELSE s2 END; CASE WHEN f THEN i END; CASE WHEN i IS NULL THEN d ELSE 1 END
CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END; CASE s WHEN s2 THEN 1 WHEN NULL THEN 2 ELSE 3 END
CASE d WHEN i THEN 1 ELSE 0 END; CASE WHEN f THEN day ELSE t END; CASE WHEN f THEN 1.25 ELSE m END
CASE WHEN s LIKE 'a%' THEN CASE WHEN i > 0 THEN 1 ELSE 2 END ELSE 3 END; CASE WHEN f OR i > 1 THEN f ELSE i = 2 END
year(t); month(t); day(t); dayofmonth(day); year(day); month(day); hour(t); minute(t); second(t); hour(t2)
year('2024-02-29'); hour(day); second(t2); month(t2); date_trunc('day', t2)
date_trunc('year', t); date_trunc('QUARTER', t); date_trunc('mon', t); date_trunc('week', t); date_trunc('dd', day)
date_trunc('hour', t); date_trunc('minute', t); date_trunc('second', t); date_trunc('millisecond', t)
date_trunc('microsecond', t); date_trunc('no unit', t); date_trunc(s, t); date_trunc(if(f, 'year', 'hour'), t)
length(upper(s)) + i; abs(coalesce(i, -3)) * 2; floor(d) = i; upper(s) < s2; round(m) > 1; hour(t) BETWEEN 3 AND 13
"""


LINES = EXPRESSIONS.strip().split("\n")


@pytest.mark.parametrize("line", LINES)
def test_each_is_what_the_oracle_says(line: str) -> None:
    rows = random_rows(random.Random(f"functions {line}"), 200)
    rows = table_of([row for row in rows if row["t"] is not None])  # a stream's time is never NULL
    for text in line.split("; "):
        sql = f"SELECT {text} AS x FROM trade WHERE ({text}) IS NOT NULL OR i > 0"
        query = lower(parse(sql, Settings()), CATALOG)
        assert isinstance(query.root, Project)
        predicate = condition_of(query)
        assert predicate is not None
        kept = rows.filter(evaluate(predicate, rows))
        found = pa.table([evaluate(query.root.columns[0][1], kept)], names=["x"])
        expected = answer(sql, {}, CATALOG, {"trade": rows}, LATER_US)
        difference = differ(expected, found)
        assert difference is None, f"{text}: {difference}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper('straße ŉ')", "STRASSE ʼN"),
        ("lower('ΑΣ ΣΑ İ')", "ας σα i̇"),
        ("upper(s || 'ß')", "AßSS".replace("ß", "SS")),
        ("trim(s || '\\t ')", "aß\t"),
        ("length('e\u0301😀')", 3),
        ("substring('日本語', -2, 1)", "本"),
        ("ceil(-0.5)", 0),
        ("floor(1e19)", None),
        ("round(-2.5)", -3),
        ("round(CAST(0.49999999999999994 AS double))", 0.0),
    ],
)
def test_what_the_oracle_cannot_say(text: str, expected: Any) -> None:
    """As Spark has it, of a row and of constants."""
    query = lower(parse(f"SELECT {text} AS x FROM trade", Settings()), CATALOG)
    assert isinstance(query.root, Project)
    rows = table_of([{**random_rows(random.Random(1), 1)[0], "s": "aß"}])
    assert evaluate(query.root.columns[0][1], rows).to_pylist() == [expected]


def test_no_rows_and_tables_of_constants() -> None:
    empty = table_of([])
    for line in LINES:
        for text in line.split("; "):
            query = lower(parse(f"SELECT {text} AS x FROM trade", Settings()), CATALOG)
            assert isinstance(query.root, Project)
            assert len(evaluate(query.root.columns[0][1], empty)) == 0, text
    names = pa.table({"p": pa.array(["a", "b", None, "c"]), "q": pa.array(["b", "b", "c", "a"])})
    p, q = Param("p", STRING), Param("q", STRING)
    assert truth_of_constants(Comparison("<", p, q), names).tolist() == [True, False, False, False]
    upper = Call("upper", (p,), STRING)
    assert truth_of_constants(Comparison("=", upper, Literal("B", STRING)), names).tolist() == [
        False,
        True,
        False,
        False,
    ]
    chosen = Call("case", (Comparison("=", p, q), p, Literal("z", STRING)), STRING)
    assert truth_of_constants(Comparison("=", chosen, Literal("z", STRING)), names).tolist() == [
        True,
        False,
        True,
        True,
    ]
    numbers = pa.table({"p": pa.array([1.0, 2.0, float("nan")]), "q": pa.array([1.0, float("nan"), float("nan")])})
    less = Comparison("<", Param("p", DOUBLE), Param("q", DOUBLE))
    assert truth_of_constants(less, numbers).tolist() == [False, True, False]


def test_values_are_alike_in_the_table() -> None:
    """A call whose arguments stand for one another has their type."""
    for function in FUNCTIONS:
        takes = function.takes.of(3) or function.takes.of(2) or ()
        if VALUE in takes and function not in ARRAYS:
            assert function.result([BOOLEAN if t.kinds else INT for t in takes]).kind is Kind.INT
