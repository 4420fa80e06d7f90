"""DuckDB, 2 threads: the window's events are a table, and every batch asks for all alerts anew.

What is over is deleted and what is new inserted; then the events of the window are joined with the rules (a hash join
on the key) and counted.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from benchmarks.alerts import WINDOW_US, Alerts

ASKED = (
    "SELECT r.id, count(*) AS n FROM shown e JOIN rules r ON e.k = r.k AND e.v > r.lo "
    "GROUP BY r.id, r.n HAVING count(*) > r.n"
)


class RecomputedInDuckDB:
    """A window of events and the rules in one database."""

    def __init__(self, alerts: Alerts, threads: int = 2) -> None:
        self.alerts = alerts
        self.database = duckdb.connect(config={"threads": threads})
        self.database.execute("SET TimeZone = 'UTC'")
        self.database.register("given_rules", alerts.rules)
        self.database.execute("CREATE TABLE rules AS SELECT * FROM given_rules")
        self.database.register("given", alerts.events(0).slice(0, 0))
        self.database.execute("CREATE TABLE shown AS SELECT k, v, epoch_us(ts) AS us FROM given")

    def put(self, batch: int) -> None:
        """The events of a batch come, and those that are over go."""
        self.take(self.alerts.events(batch), self.alerts.now_us(batch))

    def take(self, events: pa.Table, now_us: int) -> None:
        """Events that are there already come."""
        self.database.register("given", events)
        self.database.execute("INSERT INTO shown SELECT k, v, epoch_us(ts) FROM given")
        self.database.execute("DELETE FROM shown WHERE us <= ?", [now_us - WINDOW_US])

    def answers(self) -> pa.Table:
        """The alerts that show: `id` and `n`."""
        return self.database.sql(ASKED).to_arrow_table()
