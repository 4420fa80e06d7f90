"""The generated connection logs are what the exhibits of UPA take them for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.exhibits.upa.connections import DESTINATION, FTP, PROTOCOL, SOURCE, TELNET, connections
from benchmarks.exhibits.upa.upa_q1 import SOURCES

WINDOW = 8_000


def test_a_link_has_about_one_connection_in_a_time_unit() -> None:
    log = connections(WINDOW, 3, 2_000)
    assert np.all(np.diff(log.times) >= 0)
    assert log.times[0] >= 0
    assert log.times[-1] < WINDOW
    assert np.bincount(log.links) / WINDOW == pytest.approx([1, 1, 1], rel=0.05)
    again = connections(WINDOW, 3, 2_000)
    assert np.array_equal(log.rows, again.rows)


@pytest.mark.parametrize("window", [WINDOW, 4 * WINDOW])
def test_ftp_joins_as_much_as_it_has_and_telnet_ten_times_that(window: int) -> None:
    log = connections(window, 2, int(SOURCES * window))
    results = {}
    for protocol in (FTP, TELNET):
        left, right = (
            Counter(log.rows[(log.links == link) & (log.rows[:, PROTOCOL] == protocol), SOURCE].tolist())
            for link in (0, 1)
        )
        results[protocol] = sum(n * right[source] for source, n in left.items())
    inputs = np.sum(log.rows[:, PROTOCOL] == FTP)
    assert 0.5 <= results[FTP] / inputs <= 2
    assert 8 <= results[TELNET] / results[FTP] <= 12


def test_sources_are_about_two_thousand_and_pairs_ten_times_as_many() -> None:
    rows = connections(100_000, 1, 2_000).rows
    sources, pairs = len(np.unique(rows[:, SOURCE])), len(np.unique(rows[:, [SOURCE, DESTINATION]], axis=0))
    assert 1_900 <= sources <= 2_000
    assert 7 <= pairs / sources <= 13
    heaviest = Counter(rows[:, SOURCE].tolist()).most_common(20)
    assert sum(n for _, n in heaviest) > 5 * 20 * len(rows) / sources, "the tail is heavy"


def test_some_sources_use_one_link_only() -> None:
    log = connections(WINDOW, 2, 500, shared=0.4)
    on = [set(log.rows[log.links == link, SOURCE].tolist()) for link in (0, 1)]
    both = len(on[0] & on[1])
    assert 0.25 <= both / 500 <= 0.55
    assert len(on[0] | on[1]) > both
