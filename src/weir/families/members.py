"""Members of a join segment: all queries of one predicate and one kind of windows, whichever groups they came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query, Scan
from weir.families.bounds import Ints
from weir.families.segments import Group, without


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Seen(Protocol):
    """A query as its family sees it."""

    @property
    def family(self) -> _Named: ...

    @property
    def scans(self) -> tuple[Scan, ...]: ...

    @property
    def predicate(self) -> Expression | None: ...


S = TypeVar("S", bound=_Seen)


def by_shape(
    family: _Named, groups: Sequence[Group], see: Callable[[Query], S], excluded: np.ndarray | None
) -> Iterator[tuple[S, pa.Table, Ints]]:
    """Groups of one shape together, with their constants and ids: a thousand registrations of one query are one table.

    `see` shows a query as its family does; the `excluded` ids (ascending) are left out.
    """
    known: dict[int, S] = {}  # by the identity of a query, which many groups share
    together: dict[Any, tuple[S, list[Group]]] = {}
    for group in groups:
        if id(group.query) not in known:
            known[id(group.query)] = see(group.query)
        found = known[id(group.query)]
        assert found.family.name == family.name, f"a query of {found.family.name} among those of {family.name}"
        windows = tuple(scan.window for scan in found.scans)
        shape = (found.predicate, windows, tuple(map(str, group.constants.schema)))
        together.setdefault(shape, (found, []))[1].append(group)
    for found, members in together.values():
        constants, ids = without(members, excluded)
        if len(ids):
            yield found, constants, ids
