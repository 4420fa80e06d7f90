"""The catalog that the tests of the language, the planner and docs/language.md are written against."""

from __future__ import annotations

from weir.algebra.nodes import Query
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
    DataType,
    Stream,
    Table,
    decimal,
)
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import parse

HOUR_US = 3_600_000_000
SETTINGS = Settings()

TRADE = Stream(
    "trade",
    (
        Column("name", STRING),
        Column("price", DOUBLE),
        Column("qty", INT),
        Column("volume", BIGINT),
        Column("fee", decimal(10, 2)),
        Column("urgent", BOOLEAN),
        Column("day", DATE),
        Column("area", STRING),
        Column("ts", TIMESTAMP),
    ),
    time="ts",
    keep_us=HOUR_US,
)
WEATHER = Stream(
    "weather",
    (Column("area", STRING), Column("category", INT), Column("wind", DOUBLE), Column("ts", TIMESTAMP)),
    time="ts",
    keep_us=None,
)
STOCK = Table("stock", (Column("symbol", STRING), Column("company", STRING), Column("rating", INT)), key=("symbol",))
CATALOG = Catalog({"trade": TRADE, "weather": WEATHER}, {"stock": STOCK})


def lowered(text: str, param_types: dict[str, DataType] | None = None) -> Query:
    return lower(parse(text, SETTINGS), CATALOG, param_types)
