"""The families, in the order in which they are asked: the first that takes a query runs it.

A family is a module or object with a name and a refusal; a new one is one file and one entry here.
"""

from __future__ import annotations

from typing import Protocol

from weir.algebra.nodes import Query
from weir.algebra.schema import Catalog
from weir.families import joins, many_joins, selection


class Family(Protocol):
    """All queries of one form."""

    @property
    def name(self) -> str: ...

    def refusal(self, query: Query, catalog: Catalog) -> str | None:
        """Why the family does not take this query, naming the part; None if it takes it."""


FAMILIES: tuple[Family, ...] = (selection, joins, many_joins)
