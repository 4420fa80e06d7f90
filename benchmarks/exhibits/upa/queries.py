"""The five queries of UPA, section 6.1, over links that are streams 0, 1 and 2."""

from __future__ import annotations

from benchmarks.exhibits.upa.connections import ARITY, DESTINATION, FTP, PROTOCOL, SOURCE
from weir.operators.plans import (
    DuplicateElimination,
    Filtered,
    Negation,
    PlanNode,
    Projected,
    StreamWindow,
    WindowJoin,
)


def link(number: int, window: int) -> StreamWindow:
    return StreamWindow(number, window, ARITY)


def of_protocol(number: int, window: int, protocol: int) -> Filtered:
    return Filtered(link(number, window), PROTOCOL, protocol, protocol)


def query_1(window: int, protocol: int) -> PlanNode:
    """A join of two links on the source, of one protocol."""
    return WindowJoin(of_protocol(0, window, protocol), of_protocol(1, window, protocol), SOURCE, SOURCE)


def query_2(window: int, *, pairs: bool) -> PlanNode:
    """The distinct sources of a link, or pairs of source and destination."""
    return DuplicateElimination(Projected(link(0, window), (SOURCE, DESTINATION) if pairs else (SOURCE,)))


def query_3(window: int) -> PlanNode:
    """A negation of two links on the source."""
    return Negation(link(0, window), link(1, window), SOURCE, SOURCE)


def query_4(window: int) -> PlanNode:
    """The distinct sources of two links, joined."""
    sources = [DuplicateElimination(Projected(link(k, window), (SOURCE,))) for k in range(2)]
    return WindowJoin(sources[0], sources[1], 0, 0)


def query_5(window: int, *, negation_first: bool) -> PlanNode:
    """A negation of two links joined with the ftp connections of a third, with either operator first."""
    ftp = of_protocol(2, window, FTP)
    if negation_first:
        return WindowJoin(query_3(window), ftp, SOURCE, SOURCE)
    return Negation(WindowJoin(link(0, window), ftp, SOURCE, SOURCE), link(1, window), SOURCE, SOURCE)
