"""Random streams of many attributes: 3 to 17 of them beside the join keys, reproducible from a seed.

Attributes are `a0`, `a1`, …: mostly 16-bit integers as in CSJQ's Table 1, some doubles and strings; a part of them may
be NULL. Their values are uniform, in few places, skewed, few, all the same, or follow another attribute or the join
key, so that neither one attribute nor two of them tell what the others are. Keys are `k0`, `k1` and `k2` in every
stream: of the first a value meets about one row of another stream, of the second about three, of the third a large
part.
"""

from __future__ import annotations

import random
import zlib

import numpy as np
import pyarrow as pa

from tests.generators import domains
from tests.generators.streams import random_times
from weir.algebra.schema import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Catalog, Column, Kind, Stream
from weir.testing.arrow_types import arrow_type

ATTRIBUTES_MIN, ATTRIBUTES_MAX = 3, 17
LEAST, GREATEST = -(2**15), 2**15 - 1
KEYS = ("k0", "k1", "k2")
PARTNERS = (1, 3, 15)  # about so many rows of another stream have a row's key
_LONG = (None, None, None, 86_400_000_000, 2 * domains.SPAN_US)
KEEPS_US = (*_LONG, *_LONG, domains.SPAN_US // 2)
NAMES = ("trade", "weather", "Quote", "sensor", "visit", "fault")
WORDS = tuple(f"{first}{second}" for first in ("b", "ba", "c", "é", "Z") for second in ("", "a", "an", "z", "%", "日"))
WHOLE = ("uniform", "uniform", "uniform", "spots", "skewed", "few", "constant", "ends", "follows", "follows", "keyed")
DOUBLES = ("uniform", "spots", "skewed", "follows", "special")


def wide_catalog(seed: int, *, streams: int | None = None) -> Catalog:
    """1 to 6 streams with their keys, attributes and time column `ts`, in any order."""
    rng = random.Random(f"wide catalog {seed}")
    count = rng.choice((2, 2, 3, 4, 6)) if streams is None else streams
    whole = rng.choice((0.6, 0.8, 1.0))
    key_types = [INT, rng.choice((INT, BIGINT)), rng.choice((INT, STRING))]
    made = {}
    for name in NAMES[:count]:
        width = rng.choice((ATTRIBUTES_MIN, 5, 5, 6, 8, rng.randint(ATTRIBUTES_MIN, ATTRIBUTES_MAX), ATTRIBUTES_MAX))
        types = [INT if rng.random() < whole else rng.choice((DOUBLE, DOUBLE, STRING, BIGINT)) for _ in range(width)]
        columns = [Column(f"a{k}", type_) for k, type_ in enumerate(types)]
        columns += [Column(key, type_) for key, type_ in zip(KEYS, key_types, strict=True)] + [Column("ts", TIMESTAMP)]
        rng.shuffle(columns)
        made[name.lower()] = Stream(name, tuple(columns), time="ts", keep_us=rng.choice(KEEPS_US))
    return Catalog(made, {})


def attributes_of(stream: Stream) -> list[Column]:
    """The attributes of a stream, without its keys and its time."""
    return [c for c in stream.columns if c.name not in (*KEYS, stream.time)]


def wide_rows(
    stream: Stream,
    n: int,
    seed: int,
    *,
    order: str = "ordered",
    start_us: int = domains.START_US,
    span_us: int = domains.SPAN_US,
) -> pa.Table:
    """`n` rows of a stream in arrival order; how an attribute is distributed is drawn from the seed, too."""
    rng = np.random.default_rng([seed, zlib.crc32(stream.name.lower().encode())])
    arrays: dict[str, pa.Array] = {}
    times = random_times(rng, n, order, start_us, span_us)
    arrays[stream.time] = pa.array(times).cast(pa.timestamp("us", "UTC"))
    numbers: list[np.ndarray] = []
    for key, partners in zip(KEYS, PARTNERS, strict=True):
        drawn = rng.integers(0, max(1, n // partners), n)
        if rng.random() < 0.3:  # a part of the rows has one key
            drawn[rng.random(n) < 0.1] = 0
        numbers.append(drawn)
        column = stream.column(key)
        assert column is not None, f"stream {stream.name} has no key {key}"
        arrays[key] = _array(column, drawn, rng.random(n) < rng.choice([0.0, 0.05]))
    bare = rng.random(n) < 0.01  # rows without any attribute
    for column in attributes_of(stream):
        share = rng.uniform(0.05, 0.5) if rng.random() < 0.3 else 0.0
        drawn = _values(column, n, rng, numbers)
        if column.type.kind is not Kind.STRING:
            numbers.append(drawn)
        arrays[column.name] = _array(column, drawn, (rng.random(n) < share) | bare)
    return pa.table({c.name: arrays[c.name] for c in stream.columns})


def _values(column: Column, n: int, rng: np.random.Generator, numbers: list[np.ndarray]) -> np.ndarray:
    """Numbers; of a string the places in the list of words."""
    if column.type.kind is Kind.STRING:
        return (len(WORDS) * rng.random(n) ** rng.choice([1.0, 3.0])).astype(np.int64)
    kind = str(rng.choice(DOUBLES if column.type.kind is Kind.DOUBLE else WHOLE))
    drawn = _numbers(kind, n, rng, numbers)
    if column.type.kind is not Kind.DOUBLE:
        return np.clip(np.rint(drawn), LEAST, GREATEST).astype(np.int64)
    if kind == "special":
        odd = rng.random(n) < 0.15
        drawn[odd] = rng.choice(np.array(domains.special(DOUBLE), dtype=np.float64), odd.sum())
    return drawn / 8 if rng.random() < 0.5 else drawn


def _numbers(kind: str, n: int, rng: np.random.Generator, numbers: list[np.ndarray]) -> np.ndarray:
    """float64[n], mostly within 16 bits."""
    span = GREATEST - LEAST
    if kind == "spots":
        return rng.choice(rng.uniform(LEAST, GREATEST, 3), n) + rng.normal(0, span / 100, n)
    if kind == "skewed":
        return LEAST + span * rng.random(n) ** 6
    if kind == "few":
        return rng.integers(0, rng.choice([2, 5, 12]), n).astype(np.float64)
    if kind == "constant":
        return np.full(n, float(rng.integers(LEAST, GREATEST)))
    if kind == "ends":
        return np.where(rng.random(n) < 0.3, rng.choice([LEAST, GREATEST], n), rng.uniform(LEAST, GREATEST, n))
    if kind == "keyed":
        return LEAST + (numbers[0] * 40_503 % span) + rng.normal(0, span / 50, n)
    if kind == "follows":
        other = np.nan_to_num(numbers[rng.integers(0, len(numbers))].astype(np.float64), posinf=0, neginf=0)
        return rng.choice([-1, 1]) * other + rng.normal(0, rng.choice([0.0, 0.02, 0.2]) * (np.ptp(other) + 1), n)
    return rng.uniform(LEAST, GREATEST, n)


def _array(column: Column, drawn: np.ndarray, nulls: np.ndarray) -> pa.Array:
    if column.type.kind is Kind.STRING:
        return pa.array([None if null else WORDS[int(k) % len(WORDS)] for k, null in zip(drawn, nulls, strict=True)])
    return pa.array(drawn, mask=nulls, from_pandas=False).cast(arrow_type(column.type))
