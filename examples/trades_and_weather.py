"""Orders that depend on the weather: standing joins of two streams, answered for rows that came in any order.

python examples/trades_and_weather.py
"""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import weir
from weir.runtime.session import local_session

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def at(minute: int) -> datetime.datetime:
    return NOON + datetime.timedelta(minutes=minute)


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        w = weir.open(Path(root) / "weir", spark=local_session())
        w.stream("trade", "name string, price double, area string, ts timestamp", time="ts", keep="1 day")
        w.stream("weather", "area string, category int, ts timestamp", time="ts", keep="1 day")
        orders = w.register_many(
            "SELECT t.name, t.price, t.area, w.category FROM trade t JOIN weather w ON t.area = w.area "
            "WHERE t.name = :name AND t.price < :limit AND w.category > :category "
            "BEGIN NOW - INTERVAL 1 HOUR END NOW",
            [
                {"name": "orange", "limit": 25.0, "category": 3},  # oranges before a storm spoils the harvest
                {"name": "orange", "limit": 25.0, "category": 0},
                {"name": "lemon", "limit": 15.0, "category": 4},
            ],
        )

        w.push("trade", [{"name": "orange", "price": 24.0, "area": "south", "ts": at(0)}])
        w.push("weather", [{"area": "south", "category": 2, "ts": at(5)}])
        w.run(available_now=True)
        print("a calm day:", [order.fetch().num_rows for order in orders])

        # The storm meets the trade that is there already; later trades meet the storm.
        w.push("weather", [{"area": "south", "category": 5, "ts": at(30)}])
        w.push("trade", [{"name": "orange", "price": 19.0, "area": "south", "ts": at(35)}])
        w.push("trade", [{"name": "lemon", "price": 12.0, "area": "north", "ts": at(36)}])
        w.run(available_now=True)
        for order in orders:
            for row in order.fetch().to_pylist():
                print(
                    f"order {order.id}: {row['name']} at {row['price']} in the {row['area']}, storm {row['category']}"
                )
        print("a stormy one:", [order.fetch().num_rows for order in orders])

        w.push("trade", [{"name": "plum", "price": 9.0, "area": "west", "ts": at(75)}])  # time goes on
        w.run(available_now=True)
        print("an hour later:", [order.fetch().num_rows for order in orders])


if __name__ == "__main__":
    main()
