"""The values that generated data is drawn from, a small pool for each type.

Rows and the constants of queries are drawn from the same pools, which is what makes predicates neither always
true nor always false and joins neither empty nor full. A pool has three parts: `ordinary` values, which lie
close together and repeat; `extreme` ones, at the ends of the type or where a lossy cast would show (2^53 + 1,
the ends of int64, empty, long and non-ASCII strings); and `special` doubles (NaN, infinities, −0.0).
The bigint −2^63 is in no pool: it is reserved and ingest refuses it.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Context, Decimal
from functools import cache

from weir.algebra.schema import DataType, Kind

START_US = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z, where generated streams begin
_EXACT = Context(prec=100)
SPAN_US = 3_600_000_000  # the length of time that generated streams cover
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_STRINGS = ["a", "ab", "abc", "abd", "b", "ba", "bab", "c", "Z", "orange", "oranges", "apple", "pear", "a_c", "a%c"]
_STRINGS_EXTREME = [
    "",
    " ",
    " aB ",
    "é",
    "日本",
    "日本語",
    "😀",
    "a😀c",
    "\uffff",
    "it's",
    "A" * 300,
    "a" * 299 + "b",
    "\t",
]


_FLOATS = (0.10000000149011612, 0.20000000298023224, 1.100000023841858)  # the floats that are nearest to 0.1, 0.2, 1.1


def instant(time_us: int) -> dt.datetime:
    """The UTC datetime of a time in microseconds since the epoch."""
    return EPOCH + dt.timedelta(microseconds=time_us)


@cache
def ordinary(type_: DataType) -> tuple[object, ...]:
    """Values that lie close together and occur often."""
    kind = type_.kind
    if kind in (Kind.INT, Kind.BIGINT):
        return tuple(range(-12, 13))
    if kind is Kind.DOUBLE:
        return (
            *(k / 4 for k in range(-40, 41)),
            0.1,
            0.2,
            0.30000000000000004,
            0.3,
            *(_FLOATS if type_.variant else ()),
        )
    if kind is Kind.DECIMAL:
        limit = min(10**type_.precision - 1, 1_250)
        step = max(1, limit // 25)
        return tuple(Decimal(k).scaleb(-type_.scale, _EXACT) for k in range(-limit, limit + 1, step))
    if kind is Kind.STRING:
        return tuple(s for s in _STRINGS if not type_.precision or len(s) <= type_.precision)
    if kind is Kind.BOOLEAN:
        return (True, False)
    if kind is Kind.PAYLOAD:
        return _payloads(type_)
    if kind is Kind.DATE:
        return tuple(dt.date(2023, 12, 22) + dt.timedelta(days=k) for k in range(21))
    assert kind is Kind.TIMESTAMP, kind
    return tuple(instant(START_US + k * SPAN_US // 12) for k in range(-6, 19))


def _payloads(type_: DataType) -> tuple[object, ...]:
    """Some values of a payload type: empty ones, ones with NULL inside, and ordinary ones."""
    rng = random.Random(f"payloads {type_}")

    def value(of: DataType, nulls: float) -> object:
        if rng.random() < nulls:
            return None
        if of.variant == "array":
            return [value(of.parts[0][1], 0.2) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        if of.variant == "struct":
            return {name: value(part, 0.15) for name, part in of.parts}
        if of.variant == "map":
            keys = rng.sample(("a", "ab", "b", "c"), rng.randint(0, 3))
            return [(key, value(of.parts[1][1], 0.2)) for key in keys]
        return rng.randbytes(rng.randint(0, 3)) if of.variant == "binary" else rng.choice(ordinary(of))

    return tuple(value(type_, 0.0) for _ in range(30))


@cache
def extreme(type_: DataType) -> tuple[object, ...]:
    """Values at the ends of a type, and those that a lossy cast confuses with a neighbour."""
    kind = type_.kind
    if kind is Kind.PAYLOAD:
        return ()
    if kind is Kind.INT and type_.variant:
        top = 2 ** (type_.bits - 1)
        return (top - 1, -top, top - 2, 100)
    if kind is Kind.INT:
        return (2**31 - 1, -(2**31), 2**31 - 2, 46_341, 2**24 + 1)
    if kind is Kind.BIGINT:
        return (2**63 - 1, 2**63 - 2, -(2**63) + 1, -(2**63) + 2, 2**53, 2**53 + 1, -(2**53) - 1, 2**31, 3_037_000_500)
    if kind is Kind.DOUBLE and type_.variant:
        return (3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, 2.0**24, 2.0**24 - 1, 1e30)
    if kind is Kind.DOUBLE:
        return (1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -5e-324, 2.0**53, 2.0**63, -(2.0**63), 1e300)
    if kind is Kind.DECIMAL:
        top = 10**type_.precision - 1
        beyond = (2**63, -(2**63), 2**64 + 1, 10**18, top // 3) if type_.precision > 19 else ()
        return tuple(Decimal(k).scaleb(-type_.scale, _EXACT) for k in (top, -top, top - 1, 1, -1, *beyond))
    if kind is Kind.STRING:
        return tuple(s for s in _STRINGS_EXTREME if not type_.precision or len(s) <= type_.precision)
    if kind is Kind.BOOLEAN:
        return (True, False)
    if kind is Kind.DATE:
        return (dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1900, 1, 1), dt.date(2199, 12, 31))
    assert kind is Kind.TIMESTAMP, kind
    return tuple(instant(t) for t in (0, -1, START_US + 1, -2_208_988_800_000_000, 7_258_118_399_999_999))


@cache
def special(type_: DataType) -> tuple[object, ...]:
    """The doubles that are no ordinary numbers; nothing for the other types."""
    return (math.nan, math.inf, -math.inf, -0.0) if type_.kind is Kind.DOUBLE else ()
