"""Nexmark, the benchmark of auctions: its queries stand in a Weir, and Spark answers them over the same rows.

People register, open auctions and bid. The queries are q0 to q22 of the suites of Apache Beam and Flink, in Spark's
SQL: tumbling and hopping windows are arithmetic of times, sessions are running sums. Where a query is about what
happens now, it stands a second time with a window of Weir's. A line for each says whether both answers are the same.

python examples/nexmark.py
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

import weir
from weir.runtime.session import local_session

COLUMNS = {
    "person": "id bigint, name string, emailAddress string, creditCard string, city string, state string,"
    " dateTime timestamp, extra string",
    "auction": "id bigint, itemName string, description string, initialBid bigint, reserve bigint, dateTime timestamp,"
    " expires timestamp, seller bigint, category bigint, extra string",
    "bid": "auction bigint, bidder bigint, price bigint, channel string, url string, dateTime timestamp, extra string",
}
SIDE_INPUT = pa.table({"key": list(range(1000, 1100)), "value": [f"lot {key}" for key in range(1000, 1100)]})
QUICKLY = {  # Spark's settings for a few rows
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
PEOPLE, AUCTIONS_EACH, BIDS_EACH = 40, 3, 46  # as in the benchmark: of 50 events 1 is a person, 3 are auctions


class Query(NamedTuple):
    name: str
    about: str
    sql: str
    last: int | None = None  # seconds: the window of Weir that the query is over; None is all that the streams keep


TUMBLE = "timestamp_seconds(unix_seconds(dateTime) DIV 10 * 10)"  # the beginning of the ten seconds that a row is in
HOP = (  # five windows of ten seconds that a bid is in, one every two seconds
    "(SELECT auction, timestamp_seconds(unix_seconds(dateTime) DIV 2 * 2 - back) AS start FROM bid CROSS JOIN"
    " (SELECT 0 AS back UNION ALL SELECT 2 UNION ALL SELECT 4 UNION ALL SELECT 6 UNION ALL SELECT 8) AS hops)"
)
RANKS = (
    "",
    " FILTER (WHERE price < 10000)",
    " FILTER (WHERE price >= 10000 AND price < 1000000)",
    " FILTER (WHERE price >= 1000000)",
)
RANKED = ", ".join(
    f"{count}{rank} AS {name}_{k}"
    for name, count in (
        ("bids", "count(*)"),
        ("bidders", "count(DISTINCT bidder)"),
        ("auctions", "count(DISTINCT auction)"),
    )
    for k, rank in enumerate(RANKS)
)

QUERIES = [
    Query("q0", "pass through", "SELECT auction, bidder, price, dateTime, extra FROM bid"),
    Query("q1", "currency conversion", "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid"),
    Query("q2", "selection", "SELECT auction, price FROM bid WHERE mod(auction, 123) = 0"),
    Query(
        "q3",
        "local item suggestion",
        """
        SELECT P.name, P.city, P.state, A.id
        FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    ),
    Query(
        "q4",
        "average price for a category",
        """
        SELECT category, avg(final) AS average
        FROM (SELECT max(B.price) AS final, A.category
              FROM auction A, bid B
              WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
              GROUP BY A.id, A.category) Q
        GROUP BY category""",
    ),
    Query(
        "q5",
        "hot items, hopping windows",
        f"""
        WITH counts AS (SELECT auction, start, count(*) AS num FROM {HOP} GROUP BY auction, start)
        SELECT c.auction, c.num, c.start
        FROM counts c JOIN (SELECT max(num) AS maxn, start FROM counts GROUP BY start) m
          ON c.start = m.start AND c.num >= m.maxn""",
    ),
    Query(
        "q5",
        "hot items, now",
        """
        SELECT auction, num
        FROM (SELECT auction, count(*) AS num, rank() OVER (ORDER BY count(*) DESC) AS place FROM bid GROUP BY auction)
        WHERE place = 1""",
        last=10,
    ),
    Query(
        "q6",
        "average selling price by seller",
        """
        SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY dateTime, id
                                        ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
        FROM (SELECT A.id, A.seller, B.price, B.dateTime,
                     row_number() OVER (PARTITION BY A.id, A.seller ORDER BY B.price DESC, B.dateTime) AS nth
              FROM auction AS A, bid AS B
              WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires) AS Q
        WHERE nth <= 1""",
    ),
    Query(
        "q7",
        "highest bid, tumbling windows",
        f"""
        SELECT B.auction, B.bidder, B.price, B.dateTime, B.extra
        FROM bid B
        JOIN (SELECT max(price) AS maxprice, {TUMBLE} AS start FROM bid GROUP BY {TUMBLE}) M ON B.price = M.maxprice
        WHERE B.dateTime >= M.start AND B.dateTime < M.start + INTERVAL 10 SECONDS""",
    ),
    Query(
        "q7",
        "highest bid, now",
        "SELECT auction, bidder, price, dateTime FROM bid WHERE price = (SELECT max(price) FROM bid)",
        last=10,
    ),
    Query(
        "q8",
        "monitor new users, tumbling windows",
        f"""
        SELECT P.id, P.name, P.start
        FROM (SELECT id, name, {TUMBLE} AS start FROM person GROUP BY id, name, {TUMBLE}) P
        JOIN (SELECT seller, {TUMBLE} AS start FROM auction GROUP BY seller, {TUMBLE}) A
          ON P.id = A.seller AND P.start = A.start""",
    ),
    Query(
        "q8",
        "monitor new users, now",
        "SELECT DISTINCT P.id, P.name FROM person P JOIN auction A ON P.id = A.seller",
        last=30,
    ),
    Query(
        "q9",
        "winning bids",
        """
        SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
               auction, bidder, price, bid_dateTime, bid_extra
        FROM (SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
                     row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS nth
              FROM auction A, bid B
              WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires)
        WHERE nth <= 1""",
    ),
    Query(
        "q11",
        "user sessions",
        """
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECONDS AS endtime
        FROM (SELECT bidder, dateTime, sum(opens) OVER (PARTITION BY bidder ORDER BY dateTime) AS session
              FROM (SELECT bidder, dateTime,
                           CASE WHEN dateTime < lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
                                                + INTERVAL 10 SECONDS THEN 0 ELSE 1 END AS opens
                    FROM bid))
        GROUP BY bidder, session""",
    ),
    Query(
        "q13",
        "bounded side input join",
        """
        SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
        FROM bid B JOIN side_input S ON mod(B.auction, 10000) = S.key""",
    ),
    Query(
        "q14",
        "calculation",
        """
        SELECT auction, bidder, 0.908 * price AS price,
               CASE WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
                    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS bidTimeType,
               dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    Query(
        "q15",
        "bidding statistics",
        f"SELECT date_format(dateTime, 'yyyy-MM-dd') AS day, {RANKED} FROM bid"
        " GROUP BY date_format(dateTime, 'yyyy-MM-dd')",
    ),
    Query(
        "q16",
        "channel statistics",
        f"SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day, max(date_format(dateTime, 'HH:mm')) AS minute,"
        f" {RANKED} FROM bid GROUP BY channel, date_format(dateTime, 'yyyy-MM-dd')",
    ),
    Query(
        "q17",
        "auction statistics",
        f"""
        SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day, count(*) AS total_bids,
               {", ".join(f"count(*){rank} AS rank{k}_bids" for k, rank in enumerate(RANKS) if rank)},
               min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')""",
    ),
    Query(
        "q18",
        "find last bid",
        """
        SELECT auction, bidder, price, channel, url, dateTime, extra
        FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS nth FROM bid)
        WHERE nth <= 1""",
    ),
    Query(
        "q19",
        "auction TOP-10",
        """
        SELECT *
        FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS nth FROM bid)
        WHERE nth <= 10""",
    ),
    Query(
        "q20",
        "expand bid with auction",
        """
        SELECT auction, bidder, price, channel, url, B.dateTime, B.extra, itemName, description, initialBid, reserve,
               A.dateTime, expires, seller, category, A.extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id
        WHERE A.category = 10""",
    ),
    Query(
        "q21",
        "add channel id",
        """
        SELECT auction, bidder, price, channel,
               CASE WHEN lower(channel) = 'apple' THEN '0'
                    WHEN lower(channel) = 'google' THEN '1'
                    WHEN lower(channel) = 'facebook' THEN '2'
                    WHEN lower(channel) = 'baidu' THEN '3'
                    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
           OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    ),
    Query(
        "q22",
        "get URL directories",
        """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
               split_part(url, '/', 6) AS dir3
        FROM bid""",
    ),
]
# A sink writes it to files, whenever a batch is done.
Q10 = Query(
    "q10",
    "log to file system",
    "SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt,"
    " date_format(dateTime, 'HH:mm') AS hm FROM bid",
)
# By the clock of arrival: when the rows came, not what they say.
Q12 = Query(
    "q12",
    "processing time windows",
    f"SELECT bidder, count(*) AS bid_count, {TUMBLE} AS starttime FROM bid GROUP BY bidder, {TUMBLE}",
)


def generate(seed: int) -> dict[str, pa.Table]:
    """The rows of each stream: prices over six powers of ten, hot auctions, and bidders who come and go."""
    chance = random.Random(seed)
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in COLUMNS}
    now = datetime(2026, 3, 1, 7, 58, tzinfo=UTC)

    def moment() -> datetime:
        nonlocal now
        now += timedelta(milliseconds=chance.randint(1, 200))  # no two events at once
        return now

    def price() -> int:
        return round(10 ** (chance.random() * 6) * 100)

    def extra() -> str:
        return "".join(chance.choices("abcdefgh", k=chance.randint(0, 12)))

    for id in range(1000, 1000 + PEOPLE):
        name = f"{chance.choice(('Peter', 'Ana', 'Zoé'))} {chance.choice(('Shultz', 'Abrams', 'Noris'))}"
        city, state = chance.choice((("Portland", "OR"), ("Boise", "ID"), ("Kent", "WA"), ("Phoenix", "AZ")))
        card = f"{chance.randrange(10**16):016}"
        rows["person"].append(
            {"id": id, "name": name, "emailAddress": f"{id}@example.com", "creditCard": card}
            | {"city": city, "state": state, "dateTime": moment(), "extra": extra()}
        )
        for k in range(AUCTIONS_EACH):
            first, start = price(), moment()
            rows["auction"].append(
                {"id": AUCTIONS_EACH * id - 2000 + k, "itemName": f"item {extra()}", "description": extra()}
                | {"initialBid": first, "reserve": first + price(), "dateTime": start}
                | {"expires": start + timedelta(seconds=chance.randint(1, 60)), "seller": chance.randint(1000, id)}
                | {"category": chance.randint(10, 14), "extra": extra()}
            )
        for _ in range(BIDS_EACH):
            opened = rows["auction"]
            auction = chance.choice(opened[-4:] if chance.random() < 0.5 else opened)["id"]
            channel = chance.choice(("Google", "Facebook", "Baidu", "Apple", f"channel-{chance.randint(0, 20)}"))
            asked = chance.choice(("", f"&channel_id={chance.randrange(10**6)}"))
            url = f"https://www.nexmark.com/{extra()}/{extra()}/item.htm?query=1{asked}"
            rows["bid"].append(
                {"auction": auction, "bidder": max(1000, id - int(chance.expovariate(0.3))), "price": price()}
                | {"channel": channel, "url": url, "dateTime": moment(), "extra": extra()}
            )
    return {name: pa.Table.from_pylist(of_stream) for name, of_stream in rows.items()}


def halves(rows: dict[str, pa.Table]) -> Iterator[dict[str, pa.Table]]:
    """The rows in two parts, out of order: every second row of each stream comes before all others."""
    for k in range(2):
        yield {name: table.take(list(range(k, table.num_rows, 2))) for name, table in rows.items()}


def in_weir(root: Path, spark: SparkSession, rows: dict[str, pa.Table]) -> Iterator[tuple[Query, pa.Table]]:
    """The answers of the queries that stood while the rows came, and the files that the sink wrote for q10."""
    w = weir.open(root / "weir", spark=spark)
    for name, columns in COLUMNS.items():
        w.stream(name, columns, time="dateTime", keep="1 day")
    w.table("side_input", "key bigint, value string", key="key")
    w.upsert("side_input", SIDE_INPUT)  # changes that come before the first row have always held
    standing = [(query, w.register(weirs_text(query))) for query in QUERIES]
    logged = w.register("SELECT * FROM bid").id

    def log(matches: DataFrame, batch: int) -> None:
        """A folder a batch: a batch that is told twice is written once."""
        bids = matches.where(matches.query == logged).select("bid.*")
        day, minute = functions.date_format("dateTime", "yyyy-MM-dd"), functions.date_format("dateTime", "HH:mm")
        bids = bids.select("auction", "bidder", "price", "dateTime", "extra", day.alias("dt"), minute.alias("hm"))
        bids.write.partitionBy("dt", "hm").mode("overwrite").parquet(str(root / "log" / f"batch={batch}"))

    for part in halves(rows):
        for name, table in part.items():
            w.push(name, table)
        w.run(available_now=True, sink=log)
    for query, registered in standing:
        yield query, registered.fetch()
    columns = "auction bigint, bidder bigint, price bigint, dateTime timestamp, extra string, dt string, hm string"
    yield Q10, spark.read.schema(columns).parquet(str(root / "log")).drop("batch").toArrow()


def by_arrival(root: Path, spark: SparkSession, bids: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The answer of q12 by the clock of arrival, and the bids with the times at which they came."""
    w = weir.open(root / "by-arrival", spark=spark, clock="arrival")
    w.stream("bid", COLUMNS["bid"], time="dateTime", keep="1 day")
    counts, stamped = w.register(Q12.sql), w.register("SELECT * FROM bid")
    for part in halves({"bid": bids}):
        w.push("bid", part["bid"])
        w.run(available_now=True)
    return counts.fetch(), stamped.fetch()


def weirs_text(query: Query) -> str:
    return query.sql if query.last is None else f"{query.sql} BEGIN NOW - INTERVAL {query.last} SECONDS END NOW"


def in_spark(spark: SparkSession, frames: dict[str, DataFrame], query: Query, now: datetime) -> pa.Table:
    """What batch SQL gives over the rows that the query's window shows at the newest time."""
    for name, frame in frames.items():
        seen = frame if query.last is None else frame.where(frame.dateTime > now - timedelta(seconds=query.last))
        seen.createOrReplaceTempView(name)
    return spark.sql(query.sql).toArrow()


def equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers are the same bag of rows; numbers with a fraction may be off by a relative 1e-9."""
    if (one.num_columns, one.num_rows) != (other.num_columns, other.num_rows):
        return False
    return all(map(alike, in_order(one), in_order(other)))


def in_order(table: pa.Table) -> list[list[object]]:
    rows = [
        [float(value) if isinstance(value, Decimal) else value for value in row]
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
    return sorted(rows, key=lambda row: [f"{value:.6e}" if isinstance(value, float) else repr(value) for value in row])


def alike(one: list[object], other: list[object]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


def tell(query: Query, got: pa.Table, expected: pa.Table) -> bool:
    same = equal(expected, got)
    verdict = "equal to Spark" if same else f"NOT EQUAL: Spark has {expected.num_rows:,} rows"
    print(f"{query.name:4} {query.about:36} {got.num_rows:6,} rows  {verdict}")
    return same


def main() -> None:
    spark = local_session()
    rows = generate(seed=14)
    now = max(time for table in rows.values() for time in table.column("dateTime").to_pylist())
    batch = spark.newSession()
    for key, value in QUICKLY.items():
        batch.conf.set(key, value)
    frames = {name: batch.createDataFrame(table) for name, table in rows.items()}
    batch.createDataFrame(SIDE_INPUT).createOrReplaceTempView("side_input")
    with tempfile.TemporaryDirectory() as root:
        same = [
            tell(query, got, in_spark(batch, frames, query, now)) for query, got in in_weir(Path(root), spark, rows)
        ]
        counts, stamped = by_arrival(Path(root), spark, rows["bid"])
        same.append(tell(Q12, counts, in_spark(batch, {"bid": batch.createDataFrame(stamped)}, Q12, now)))
    print(f"{sum(same)} of {len(same)} answers are Spark's")


if __name__ == "__main__":
    main()
