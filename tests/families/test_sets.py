"""IN of long lists: boxes against the evaluator, and the evaluator against equalities written out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import COLUMNS, Writer, pool, random_rows, table_of
from tests.families.test_boxes import column, matches
from tests.marks import few_are_quick
from weir.algebra.nodes import And, Comparison, Expression, InSet, Literal, Not, Or, Param
from weir.algebra.schema import DataType, list_of
from weir.boxes.sets import TOGETHER_MAX
from weir.errors import RegisterError
from weir.sql.types import slot_type
from weir.values.codec import canonical, from_json, to_json
from weir.values.columns import list_array
from weir.values.evaluate import evaluate, truth, truth_of_constants


def items_of(rng: random.Random, name: str) -> tuple[Any, ...]:
    of = list(pool(slot_type(COLUMNS[name])))
    found = rng.choices(of, k=rng.choice((1, 2, 5, 12)))
    return tuple([*found, None] if rng.random() < 0.15 else found)


def list_type(name: str) -> DataType:
    return list_of(slot_type(COLUMNS[name]))


def written_out(name: str, items: tuple[Any, ...]) -> Expression:
    return Or(
        (*(Comparison("=", column(name), Literal(v, slot_type(COLUMNS[name]))) for v in items), Literal(False, BOOL))
    )


def connected(connect: type[And | Or], negated: list[bool], rest: Expression, parts: list[Expression]) -> Expression:
    return connect((*(Not(p) if n else p for p, n in zip(parts, negated, strict=True)), rest))


BOOL = Comparison("=", Literal(1, COLUMNS["i"]), Literal(1, COLUMNS["i"])).type


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=2, tested=6))
def test_lists_agree_with_equalities_and_with_boxes(seed: int) -> None:
    rng = random.Random(f"sets {seed}")
    rows = table_of(random_rows(rng, 80))
    for _ in range(60):
        names = rng.choices(list(COLUMNS), k=rng.choice((1, 1, 2)))
        count = rng.choice((1, 3))
        lists = [[items_of(rng, name) for name in names] for _ in range(count)]
        params = {
            f"l{k}": pa.concat_arrays([list_array(mine[k], list_type(n)) for mine in lists])
            for k, n in enumerate(names)
        }
        writer = Writer(rng, params=False)
        rest = writer.predicate(rng.randint(0, 2))
        negated = [rng.random() < 0.4 for _ in names]
        connect = rng.choice((And, Or))

        with_params = connected(
            connect, negated, rest, [InSet(column(n), Param(f"l{k}", list_type(n))) for k, n in enumerate(names)]
        )
        found = matches(with_params, pa.table(params), rows)
        for mine, got in zip(lists, found, strict=True):
            out = connected(
                connect, negated, rest, [written_out(n, items) for n, items in zip(names, mine, strict=True)]
            )
            literal = connected(
                connect,
                negated,
                rest,
                [InSet(column(n), Literal(i, list_type(n))) for n, i in zip(names, mine, strict=True)],
            )
            expected = truth(out, rows)
            given = {f"l{k}": items for k, items in enumerate(mine)}
            for form in (truth(with_params, rows, given), truth(literal, rows), got, matches(literal, ONE, rows)[0]):
                wrong = np.flatnonzero(expected != form)
                assert not len(wrong), (seed, with_params, mine, rows.slice(int(wrong[0]), 1).to_pylist())
            assert evaluate(literal, rows).equals(evaluate(out, rows))
            assert canonical(from_json(to_json(literal))) == canonical(literal)


ONE = pa.table({"none": [0]})


@pytest.mark.parametrize("name", list(COLUMNS))
def test_values_that_are_constants_themselves(name: str) -> None:
    """A list for each row of constants, and a value of its own."""
    rng = random.Random(name)
    type_ = slot_type(COLUMNS[name])
    values = [*rng.choices(list(pool(type_)), k=40), None]
    lists = [items_of(rng, name) for _ in values]
    constants = pa.table(
        {
            "v": pa.concat_arrays([list_array((v,), list_of(type_)) for v in values]).flatten(),
            "l": pa.concat_arrays([list_array(items, list_of(type_)) for items in lists]),
        }
    )
    e = InSet(Param("v", type_), Param("l", list_of(type_)))
    for form, wanted in ((e, True), (Not(e), False)):
        got = truth_of_constants(form, constants)
        for value, items, mine in zip(values, lists, got, strict=True):
            out: Expression = Or(
                tuple(Comparison("=", Literal(value, type_), Literal(i, type_)) for i in (*items, *items))
            )
            assert bool(truth(out if wanted else Not(out), ONE)[0]) == bool(mine), (value, items)


def test_lists_that_are_multiplied_have_a_limit() -> None:
    long = tuple(range(TOGETHER_MAX // 1_000 + 1))
    both = And(tuple(InSet(column(n), Literal(long, list_type(n))) for n in ("i", "b")))
    with pytest.raises(RegisterError, match=r"the lists of one query make 1,002,001 combinations"):
        matches(both, ONE, table_of(random_rows(random.Random(1), 1)))
