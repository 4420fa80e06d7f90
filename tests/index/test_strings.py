"""String codes against Python's order of the UTF-8 bytes."""

from __future__ import annotations

import bisect
import random

import pyarrow as pa
import pytest

from weir.index import strings
from weir.index.keys import NULL_KEY

LETTERS = "ab\0é￿\U0001f600z"  # one to four bytes; UTF-16 would order the last but one above the last but two


def word(rng: random.Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 5)))


def entries(dictionary: strings.StringDictionary) -> list[bytes]:
    return [bytes(dictionary.data[b:e]) for b, e in zip(dictionary.offsets[:-1], dictionary.offsets[1:], strict=True)]


def code(known: list[bytes], text: str | None) -> int:
    if text is None:
        return NULL_KEY
    k = bisect.bisect_left(known, text.encode())
    return 2 * k + int(k < len(known) and known[k] == text.encode())


@pytest.mark.parametrize("seed", range(60))
def test_codes_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    constants = [word(rng) for _ in range(rng.choice([0, 1, 30]))] + [None] * rng.randint(0, 2)
    known = sorted({c.encode() for c in constants if c is not None})
    dictionary = strings.build(pa.array(constants, pa.string()))
    assert entries(dictionary) == known
    pool = [word(rng) for _ in range(rng.choice([3, 4000]))] + constants
    rows = [None if rng.random() < 0.1 else rng.choice(pool) for _ in range(rng.choice([0, 1, 40, 3000]))]
    wanted = [code(known, row) for row in rows]
    plain = pa.array(rows, pa.string())
    half = len(rows) // 2
    chunks = pa.chunked_array([plain.slice(0, half), plain.slice(half)])
    for kind in (plain, plain.cast(pa.large_string()), plain.dictionary_encode(), chunks, chunks.dictionary_encode()):
        assert strings.find(dictionary, kind).tolist() == wanted
    assert strings.find(dictionary, pa.array(rows, pa.string_view())).tolist() == wanted
    assert strings.find(dictionary, plain.slice(half)).tolist() == wanted[half:]
    assert strings.find(dictionary, plain.dictionary_encode().slice(half)).tolist() == wanted[half:]


def test_a_dictionary_whose_values_hold_a_null() -> None:
    dictionary = strings.build(pa.array(["b"]))
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1]), pa.array(["b", None]))
    assert strings.find(dictionary, values).tolist() == [1, NULL_KEY, NULL_KEY, NULL_KEY]


def test_long_common_beginnings() -> None:
    texts = [f"{'customer-' * 20}{i:05d}" for i in range(0, 2000, 2)]
    dictionary = strings.build(pa.array(texts[::-1]))
    rows = [f"{'customer-' * 20}{i:05d}" for i in range(2001)] + ["customer-" * 20, "customer-" * 19, "customer-" * 21]
    assert strings.find(dictionary, pa.array(rows)).tolist() == [*range(1, 2001), 2000, 0, 0, 2000]


def test_a_dictionary_from_a_slice_or_from_chunks() -> None:
    sliced = pa.array(["z", "b", "a", "b", None]).slice(1)
    assert entries(strings.build(sliced)) == [b"a", b"b"]
    assert entries(strings.build(pa.chunked_array([sliced, pa.array(["c"])]))) == [b"a", b"b", b"c"]
    assert entries(strings.build(sliced.dictionary_encode())) == [b"a", b"b"]
    assert strings.build(pa.array([], pa.string())).offsets.tolist() == [0]
