"""Random regular expressions: what is accepted is answered as Java answers it, for matches, groups and replacements."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.marks import few_are_quick
from weir.algebra.functions import SIGNATURES
from weir.algebra.java_regex import regex_fault, translated
from weir.algebra.nodes import Call, ColumnRef, Expression, Literal
from weir.algebra.schema import BIGINT, STRING
from weir.values.evaluate import evaluate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = 60
CLASSES = (
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\S",
    r"\W",
    r"\D",
    "[ab]",
    "[^a]",
    "[a-c]",
    r"[^\d]",
    r"[\w-]",
    "[A-Cb]",
    r"[^\n]",
    "[^&]",
    "[&a]",
    r"[\w&]",
)
REPEATS = ("*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??")


def atom(rng: random.Random, depth: int) -> str:
    choice = rng.random()
    if choice < 0.4:
        return rng.choice("abcA-é1& ")
    if choice < 0.62:
        return rng.choice(CLASSES)
    if choice < 0.7:
        return rng.choice(("^", r"\A", r"\n", r"\r"))
    return rng.choice(("(", "(?:")) + alternatives(rng, depth - 1) + ")" if depth else "a"


def alternatives(rng: random.Random, depth: int) -> str:
    def sequence() -> str:
        parts = [atom(rng, depth) for _ in range(rng.randint(1, 3))]
        return "".join(part + (rng.choice(REPEATS) if rng.random() < 0.4 else "") for part in parts)

    return "|".join(sequence() for _ in range(rng.choice((1, 1, 1, 2, 3))))


def accepted(rng: random.Random) -> list[str]:
    found: set[str] = set()
    while len(found) < PATTERNS:
        pattern = rng.choice(("", "", "", "(?i)")) + alternatives(rng, 2) + rng.choice(("", "", "$"))
        if not regex_fault(pattern):
            found.add(pattern)
    return sorted(found)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_one_ampersand_in_brackets_is_a_character_and_two_are_an_intersection() -> None:
    assert [regex_fault(pattern) for pattern in ("[^&]*", "[&a]", "[a&]", r"[\w&-]")] == [""] * 4
    for pattern in ("[a&&b]", "[&&a]", "[a&&&b]"):
        assert regex_fault(pattern) == r"in brackets write \& for '&'"


@pytest.mark.spark
@pytest.mark.parametrize("seed", few_are_quick(range(8), quick=1, tested=1))
def test_they_are_read_as_java_reads_them(spark: SparkSession, seed: int) -> None:
    rng = random.Random(f"regular expressions {seed}")
    texts = ["".join(rng.choice("aabbcA-é1& \n\rC") for _ in range(rng.randint(0, 8))) for _ in range(120)]
    rows = pa.table({"s": texts})
    asked: list[tuple[str, str, tuple[Literal, ...]]] = []
    for pattern in accepted(rng):
        regex = Literal(pattern, STRING)
        asked.append((f"s RLIKE {quoted(pattern)}", "regexp_like", (regex,)))
        group = rng.randint(0, translated(pattern).groups)
        if not regex_fault(pattern, group=group):
            args = (regex, Literal(group, BIGINT))
            asked.append((f"regexp_extract(s, {quoted(pattern)}, {group})", "regexp_extract", args))
        if not regex_fault(pattern, replacing=True):
            args = (regex, Literal("<$0>", STRING))
            asked.append((f"regexp_replace(s, {quoted(pattern)}, '<$0>')", "regexp_replace", args))
    answered = (
        spark.createDataFrame(rows).selectExpr(*(f"{text} AS x{k}" for k, (text, _, _) in enumerate(asked))).toArrow()
    )
    for k, (text, function, constants) in enumerate(asked):
        operands: tuple[Expression, ...] = (ColumnRef(0, "s", STRING), *constants)
        e = Call(function, operands, SIGNATURES[function].type_of(operands))
        expected, found = answered.column(k).to_pylist(), evaluate(e, rows).to_pylist()
        wrong = [(t, a, b) for t, a, b in zip(texts, expected, found, strict=True) if a != b]
        assert not wrong, f"{text} of {wrong[0][0]!r}: {wrong[0][2]!r}, in Spark {wrong[0][1]!r}"
