"""A small market whose answers can be worked out by hand: six trades, five quotes, three stocks."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa

from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    Stream,
    Table,
    decimal,
)
from weir.testing import answer
from weir.testing.arrow_types import arrow_schema

SECOND = 1_000_000
T0 = 1_704_067_200 * SECOND  # 2024-01-01 00:00:00 UTC
TAU = T0 + 100 * SECOND

TRADE = Stream(
    "trade",
    (
        Column("id", INT),
        Column("name", STRING),
        Column("price", DOUBLE),
        Column("Big", BIGINT),
        Column("fee", decimal(9, 2)),
        Column("flag", BOOLEAN),
        Column("day", DATE),
        Column("ts", TIMESTAMP),
    ),
    time="ts",
    keep_us=None,
)
QUOTE = Stream("quote", (Column("name", STRING), Column("bid", BIGINT), Column("ts", TIMESTAMP)), "ts", 60 * SECOND)
STOCK = Table("stock", (Column("name", STRING), Column("company", STRING)), key=("name",))
CATALOG = Catalog({"trade": TRADE, "quote": QUOTE}, {"stock": STOCK})


def at(second: float) -> dt.datetime:
    return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)


def day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


TRADES = [
    (0, "apple", 1.5, 10, "1.25", True, day("2024-01-01"), at(10)),
    (1, "orange", 2.5, 2**53 + 1, "2.50", False, day("2024-01-02"), at(20)),
    (2, "pear", math.nan, -5, None, None, None, at(30)),
    (3, None, None, None, None, None, None, at(40)),
    (4, "orange", -0.0, 2**63 - 1, "-1.25", True, day("2024-02-29"), at(50)),
    (5, "Éclair", math.inf, 0, "0.00", False, day("1969-12-31"), at(60)),
]
QUOTES = [("apple", 1, at(30)), ("orange", 2, at(41)), ("orange", 3, at(42)), (None, 4, at(100)), ("apple", 5, at(101))]
STOCKS = [("apple", "Apple Co"), ("orange", "Orange Ltd"), ("plum", None)]


def rows() -> dict[str, pa.Table]:
    trades = [(*t[:4], None if t[4] is None else Decimal(t[4]), *t[5:]) for t in TRADES]
    return {
        name: pa.table(
            [pa.array(c, f.type) for c, f in zip(zip(*values, strict=True), schema, strict=True)], schema=schema
        )
        for name, values, schema in (
            ("trade", trades, arrow_schema(TRADE)),
            ("quote", QUOTES, arrow_schema(QUOTE)),
            ("stock", STOCKS, arrow_schema(STOCK)),
        )
    }


def ask(sql: str, params: dict[str, object] | None = None, tau_us: int = TAU) -> list[tuple[object, ...]]:
    found = answer(sql, params, CATALOG, rows(), tau_us)
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr)


def ids(where: str, params: dict[str, object] | None = None) -> list[object]:
    return [row[0] for row in ask(f"SELECT id FROM trade WHERE {where}", params)]


def value(expression: str, id_: int, params: dict[str, object] | None = None) -> object:
    [(found,)] = ask(f"SELECT {expression} AS x FROM trade WHERE id = {id_}", params)
    return found
