"""All peers by name; each is imported only when it is asked for, so that none of them is needed to measure another."""

from __future__ import annotations

import importlib

from benchmarks.peers.peer import BoxPeer, JoinPeer, Peer

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
_WHERE_JOINS = {
    "scan": ("select_join_scan", "PEER"),
    "polars": ("select_join_polars", "PEER"),
    "duckdb": ("select_join_duckdb", "PEER"),
    "duckdb-binned": ("select_join_duckdb", "BINNED"),
    "spark-nested": ("select_join_spark", "NESTED"),
    "spark-binned": ("select_join_spark", "BINNED"),
}
JOIN_NAMES = tuple(_WHERE_JOINS)
_WHERE_BOXES = {
    "polars": ("box_polars", "PEER"),
    "duckdb": ("box_duckdb", "FILTER"),
    "duckdb-steps": ("box_duckdb", "STEPS"),
    "spark-nested": ("box_spark", "NESTED"),
    "spark-steps": ("box_spark", "STEPS"),
}
BOX_NAMES = tuple(_WHERE_BOXES)


def load(name: str) -> Peer:
    module, attribute = _WHERE[name]
    peer = getattr(importlib.import_module(f"benchmarks.peers.{module}"), attribute)
    assert isinstance(peer, Peer)
    return peer


def load_join(name: str) -> JoinPeer:
    module, attribute = _WHERE_JOINS[name]
    peer = getattr(importlib.import_module(f"benchmarks.peers.{module}"), attribute)
    assert isinstance(peer, JoinPeer)
    return peer


def load_box(name: str) -> BoxPeer:
    module, attribute = _WHERE_BOXES[name]
    peer = getattr(importlib.import_module(f"benchmarks.peers.{module}"), attribute)
    assert isinstance(peer, BoxPeer)
    return peer
