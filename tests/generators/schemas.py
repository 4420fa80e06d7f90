"""Random catalogs: streams and tables over all types, reproducible from a seed.

Columns of one type draw from one pool of values (`domains`), so any two of them can be joined.
Names are short and lower or mixed case; the first letters say the type, which makes a failing text readable.
"""

from __future__ import annotations

import random

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
    Kind,
    Stream,
    Table,
    array,
    char,
    decimal,
    map_of,
    struct,
    varchar,
)

KEEPS_US: tuple[int | None, ...] = (None, 86_400_000_000, 3_600_000_000, 600_000_000)
_PREFIXES = {
    Kind.INT: "qty",
    Kind.BIGINT: "big",
    Kind.DOUBLE: "price",
    Kind.DECIMAL: "fee",
    Kind.STRING: "name",
    Kind.BOOLEAN: "flag",
    Kind.DATE: "day_",
    Kind.TIMESTAMP: "seen",
}
_DECIMALS = tuple(decimal(p, s) for p, s in ((4, 1), (9, 2), (12, 4), (18, 0), (18, 6), (18, 18), (3, 3)))
_WIDE = tuple(decimal(p, s) for p, s in ((19, 0), (20, 4), (38, 0), (38, 10), (38, 6), (24, 24)))


_VARIANTS = {
    Kind.INT: (TINYINT, SMALLINT),
    Kind.DOUBLE: (FLOAT,),
    Kind.STRING: (varchar(3), char(3), char(6)),
    Kind.TIMESTAMP: (TIMESTAMP_NTZ,),
}


def random_type(rng: random.Random, *, variants: bool = True) -> DataType:
    """One of the eight kinds of column types; decimals of several precisions, and variants of the others.

    Without variants there are no decimals of many digits either: Spark rounds some of them to compare them.
    """
    kind = rng.choice(list(_PREFIXES))
    if kind is Kind.DECIMAL:
        return rng.choice(_WIDE if variants and rng.random() < 0.35 else _DECIMALS)
    if variants and kind in _VARIANTS and rng.random() < 0.4:
        return rng.choice(_VARIANTS[kind])
    return {t.kind: t for t in (INT, BIGINT, DOUBLE, STRING, BOOLEAN, DATE, TIMESTAMP)}[kind]


PAYLOADS = (
    struct(("a", INT), ("b", STRING), ("in", struct(("d", DOUBLE), ("xs", array(BIGINT))))),
    array(INT),
    array(struct(("k", STRING), ("n", SMALLINT))),
    map_of(STRING, decimal(9, 2)),
    BINARY,
)


def random_catalog(
    seed: int,
    *,
    payloads: bool = False,
    variants: bool = True,
    streams: int | None = None,
    tables: int | None = None,
    columns_max: int = 8,
    keep_us: tuple[int | None, ...] = KEEPS_US,
) -> Catalog:
    """1–3 streams and 0–2 tables of 2–`columns_max` columns; a stream's time column is `ts`.

    `streams` and `tables` fix the counts; `keep_us` lists what a stream's keep may be. With `payloads`, streams have
    one or two columns of payloads beside; without `variants`, columns have the usual types of their kinds.
    """
    rng = random.Random(f"catalog {seed}")
    n_streams = rng.randint(1, 3) if streams is None else streams
    n_tables = rng.randint(0, 2) if tables is None else tables
    stream_names = ["trade", "weather", "Quote"][:n_streams] + [f"stream{i}" for i in range(3, n_streams)]
    table_names = ["stock", "Area"][:n_tables] + [f"table{i}" for i in range(2, n_tables)]
    made_streams = {}
    for name in stream_names:
        columns = _columns(rng, rng.randint(1, columns_max - 1), variants)
        if payloads:
            columns += [Column(f"load{i}", rng.choice(PAYLOADS)) for i in range(rng.choice((1, 2)))]
        columns.insert(rng.randint(0, len(columns)), Column("ts", TIMESTAMP))
        made_streams[name.lower()] = Stream(name, tuple(columns), time="ts", keep_us=rng.choice(keep_us))
    made_tables = {}
    for name in table_names:
        key = Column("id", rng.choice((STRING, INT, BIGINT)))
        columns = [key, *_columns(rng, rng.randint(1, columns_max - 1), variants)]
        made_tables[name.lower()] = Table(name, tuple(columns), key=(key.name,))
    return Catalog(made_streams, made_tables)


def _columns(rng: random.Random, n: int, variants: bool) -> list[Column]:
    columns = []
    for i in range(n):
        type_ = random_type(rng, variants=variants)
        name = f"{_PREFIXES[type_.kind]}{i}"
        columns.append(Column(name.title() if rng.random() < 0.1 else name, type_))
    return columns
