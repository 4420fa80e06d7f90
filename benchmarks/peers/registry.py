"""All peers by name; each is imported only when it is asked for, so that none of them is needed to measure another."""

from __future__ import annotations

import importlib

from benchmarks.peers.peer import Peer

_WHERE = {
    "scan": ("strategies", "SCAN"),
    "predicate": ("strategies", "PREDICATE"),
    "ncls": ("ncls_lists", "PEER"),
    "numpy-sort": ("sorted_batch", "PEER"),
    "polars": ("polars_joins", "PEER"),
    "duckdb": ("duckdb_joins", "PEER"),
    "spark-nested": ("spark_joins", "NESTED"),
    "spark-binned": ("spark_joins", "BINNED"),
}
NAMES = tuple(_WHERE)


def load(name: str) -> Peer:
    module, attribute = _WHERE[name]
    peer = getattr(importlib.import_module(f"benchmarks.peers.{module}"), attribute)
    assert isinstance(peer, Peer)
    return peer
