"""`explain`: what becomes of a query, for people.

The plan as a tree with the update pattern of every edge, the family that runs the query and why others refused it,
and whatever the caller knows besides (boxes, access attributes, expected matches, state).
"""

from __future__ import annotations

from collections.abc import Mapping

from weir.algebra.format import tree_text
from weir.algebra.nodes import Node, Query, Scan
from weir.algebra.schema import Catalog
from weir.algebra.update_patterns import UpdatePattern
from weir.plan.classify import Classified
from weir.plan.drop_distinct import drop_distinct
from weir.plan.finishes import CoreRows, finish_text
from weir.plan.update_pattern import pattern_of
from weir.plan.window_limits import length_text

_MEANING = {
    UpdatePattern.MONOTONIC: "monotonic: no result ever expires",
    UpdatePattern.WKS: "weakest non-monotonic (WKS): results expire in the order in which they came",
    UpdatePattern.WK: "weak non-monotonic (WK): results expire out of order, at times known beforehand",
    UpdatePattern.STR: "strict non-monotonic (STR): results may expire at any time",
}


def explain(query: Query, catalog: Catalog, classified: Classified, details: Mapping[str, object]) -> str:
    """The whole explanation, several lines."""
    planned = drop_distinct(query)  # as `cores_of` takes it apart

    def note(node: Node) -> str:
        if isinstance(node, Scan) and node.is_table:
            return "-- relation" if catalog.tables[node.relation.lower()].retroactive else "-- NRR"
        return f"-- {pattern_of(node, catalog).name}"

    lines = ["query: " + " ".join(query.text.split()), "plan:"]
    lines += ["  " + line for line in tree_text(planned, note).split("\n")]
    lines.append("updates: " + _MEANING[pattern_of(planned.root, catalog)])
    for scan in planned.sources:
        lines.append(f"source {scan.alias}: {_source(scan, catalog)}")
    without = "none, it cannot be executed yet"
    if classified.parts is not None and not classified.parts.cores:
        without = "none, no stream is read: all is done when the answer is asked for"
    lines.append(f"family: {classified.family or without}")
    if classified.parts is not None and not isinstance(classified.parts.finish, CoreRows):
        lines.append(f"finish: {finish_text(classified.parts.finish)}")
    lines += [f"refused by {family}: {reason}" for family, reason in classified.refusals]
    lines += [f"{name}: {value}" for name, value in details.items()]
    return "\n".join(lines)


def _source(scan: Scan, catalog: Catalog) -> str:
    if scan.is_table:
        if catalog.tables[scan.relation.lower()].retroactive:
            return f"table {scan.relation}, retroactive: all rows meet the versions that are valid at the answer's time"
        return f"table {scan.relation}, non-retroactive: a row meets the version that was valid at its time"
    stream = catalog.streams[scan.relation.lower()]
    kept = "for ever" if stream.keep_us is None else length_text(stream.keep_us)
    return f"stream {stream.name}, rows kept {kept}"
