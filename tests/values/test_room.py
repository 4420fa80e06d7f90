"""Texts and rows that would fill the memory: refused before they are made, or taken in parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.nodes import Call, ColumnRef, Expression, Literal
from weir.algebra.schema import BIGINT, INT, STRING
from weir.errors import TooLargeError
from weir.values import room
from weir.values.evaluate import evaluate

S = ColumnRef(0, "s", STRING)
ROWS = pa.table({"s": pa.array(["nab", None, "nnn", ""] * 50)})


def text(value: str) -> Literal:
    return Literal(value, STRING)


def call(function: str, *args: Expression) -> Call:
    return Call(function, args, INT if function == "levenshtein" else STRING)


def repeated(count: int) -> Call:
    return call("repeat", S, Literal(count, BIGINT))


ENDLESS: dict[str, Callable[[], Expression]] = {
    "replace": lambda: call("replace", repeated(2_000), text("n"), text("x" * 60_000)),
    "regexp_replace": lambda: call("regexp_replace", repeated(2_000), text("n"), text("x" * 60_000)),
    "groups": lambda: call("regexp_replace", repeated(20_000), text("(.+)"), text("$1" * 1_000)),
    "concat": lambda: call("concat", *(repeated(20_000) for _ in range(200))),
    "one after the other": lambda: call("concat_ws", text(","), *(repeated(20_000) for _ in range(200))),
    "levenshtein": lambda: call("levenshtein", repeated(20_000), repeated(19_999)),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_endless_texts_are_refused_before_they_are_made(kind: str) -> None:
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLargeError, match="are allowed"):
        evaluate(ENDLESS[kind](), ROWS)
    pa.default_memory_pool().release_unused()
    assert pa.total_allocated_bytes() - before < room.TEXTS_BYTES_MAX


def test_what_fits_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts what one expression makes, and begins anew with the next."""
    made = call(
        "concat", call("replace", S, text("n"), text("xy")), call("regexp_replace", S, text("(n)"), text("$1-"))
    )
    wanted = ["xyabn-ab", None, "xyxyxyn-n-n-", ""] * 50
    monkeypatch.setattr(room, "TEXTS_BYTES_MAX", 3_000)
    for _ in range(20):
        assert evaluate(made, ROWS).to_pylist() == wanted
    monkeypatch.setattr(room, "TEXTS_BYTES_MAX", 300)
    with pytest.raises(TooLargeError):
        evaluate(made, ROWS)


@pytest.mark.parametrize("chunks", [1, 3])
def test_combinations_are_cut_by_their_bytes(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    rng = np.random.default_rng(chunks)
    lengths = rng.integers(0, 400, 90)
    texts = [None if n % 7 == 0 else "x" * int(n) for n in lengths]
    column = pa.chunked_array([texts[k::chunks] for k in range(chunks)], pa.string())
    one = pa.table({"t": column})
    other = pa.table({"n": pa.array(range(20), pa.int64())})
    sizes = np.array([0 if t is None else len(t) for t in column.to_pylist()])
    places = rng.integers(0, 90, 500), rng.integers(0, 20, 500)
    assert room.stretches((one, other), places) == [slice(0, 500)]
    assert room.bytes_taken(one, places[0]) == sizes[places[0]].sum() + 500
    assert room.bytes_taken(one, np.full(3, -1)) == 0
    monkeypatch.setattr(room, "STRETCH_BYTES", 2_000)
    found = room.stretches((one, other), places)
    assert np.array_equal(np.concatenate([np.arange(500)[part] for part in found]), np.arange(500))
    took = [int((sizes[places[0][part]] + 10).sum()) for part in found]
    assert len(found) > 10
    assert max(took) <= 2_000
    assert min(a + b for a, b in itertools.pairwise(took)) > 2_000 - 410, "no part is needlessly small"
    assert room.stretches((one, other), (places[0][:0], places[1][:0])) == [slice(0, 0)]
