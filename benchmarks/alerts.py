"""W6: alerts that are kept. Each counts the newer events of one key above a bound, and shows itself above a number.

Rules are spread evenly over keys, so that an event matches ten on average whatever its key; keys of events are skewed
(Zipf, exponent 0.8), so a few rules count thousands of events a batch and most count a handful. Thresholds are drawn
around what a rule expects in a full window: about half of them show.

Batches are `step` of event time apart, and the last event of a batch is in its last microsecond. So windows end where
steps end, and what systems with fixed panes and what Weir say at the clock of a batch is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

START_US = 1_767_225_600_000_000
WINDOW_US = 300_000_000
RULES_A_KEY = 20  # half of which an event is above the bound of
SKEW = 0.8
TEXT = (
    "SELECT count(*) AS n FROM event WHERE k = :k AND v > :lo HAVING count(*) > :n "
    "BEGIN NOW - INTERVAL 5 MINUTES END NOW"
)


class Alerts(NamedTuple):
    """The rules and the stream that they stand before."""

    rules: pa.Table  # id (int32, from 0), k, lo, n
    shares: np.ndarray  # float64[keys], what share of the events each key has
    batch_events: int
    step_us: int

    @property
    def window_batches(self) -> int:
        """Batches until the window is full."""
        return WINDOW_US // self.step_us

    def events(self, batch: int, count: int | None = None) -> pa.Table:
        """The events of a batch, in the order of their times."""
        count = self.batch_events if count is None else count
        random = np.random.default_rng([7, batch])
        times = np.sort(random.integers(0, self.step_us, count)) + START_US + batch * self.step_us
        times[-1] = self.now_us(batch)
        return pa.table(
            {
                "k": random.choice(len(self.shares), count, p=self.shares).astype(np.int64),
                "v": random.random(count),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )

    def now_us(self, batch: int) -> int:
        """The clock after a batch."""
        return START_US + (batch + 1) * self.step_us - 1


def w6(n_rules: int, batch_events: int, step_us: int = 5_000_000, seed: int = 1) -> Alerts:
    """So many rules, before batches of so many events."""
    random = np.random.default_rng(seed)
    n_keys = max(1, n_rules // RULES_A_KEY)
    shares = np.arange(1, n_keys + 1) ** -SKEW
    shares = random.permutation(shares / shares.sum())
    key, low = np.arange(n_rules) % n_keys, random.random(n_rules)
    expected = batch_events * (WINDOW_US // step_us) * shares[key] * (1 - low)
    threshold = (expected * random.uniform(0.8, 1.2, n_rules)).astype(np.int64)
    rules = pa.table({"id": np.arange(n_rules, dtype=np.int32), "k": key, "lo": low, "n": threshold})
    return Alerts(rules, shares, batch_events, step_us)
