"""The catalog that the tests of the language, the planner and docs/language.md are written against."""

from __future__ import annotations

from weir.algebra.nodes import Query
from weir.algebra.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Catalog,
    Column,
    DataType,
    Stream,
    Table,
    array,
    char,
    decimal,
    map_of,
    struct,
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
READING = Stream(
    "reading",
    (
        Column("sensor", TINYINT),
        Column("lots", SMALLINT),
        Column("rate", FLOAT),
        Column("country", char(2)),
        Column("noted", TIMESTAMP_NTZ),
        Column("device", struct(("id", INT), ("name", STRING), ("at", struct(("x", DOUBLE), ("y", DOUBLE))))),
        Column("marks", array(INT)),
        Column("tags", map_of(STRING, STRING)),
        Column("raw", BINARY),
        Column("body", STRING),
        Column("ts", TIMESTAMP),
    ),
    time="ts",
    keep_us=HOUR_US,
)
STOCK = Table("stock", (Column("symbol", STRING), Column("company", STRING), Column("rating", INT)), key=("symbol",))
CATALOG = Catalog({"trade": TRADE, "weather": WEATHER, "reading": READING}, {"stock": STOCK})


def lowered(text: str, param_types: dict[str, DataType] | None = None) -> Query:
    return lower(parse(text, SETTINGS), CATALOG, param_types)
