"""The kept queries of a weir, by shape, as the running job knows them: read from the registry once.

All kept queries of one text (with its constants taken out), one set of types, and the same values of fixed constants
(`weir.answer.common_cores`) are one shape, however many registrations they came in. Nothing is kept a query: of a
registration its first id and its number of queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weir.algebra.schema import Catalog, DataType
from weir.answer.keeping import Keeping, keeping_of
from weir.plan.maintenance import Upkeep, upkeep_of
from weir.plan.registration import Planned, stored_shape
from weir.runtime.arrived import Groups
from weir.settings import Settings
from weir.store.query_groups import GroupRef
from weir.store.registry import Registry


@dataclass
class KeptShape:
    """The kept queries of one shape."""

    name: str
    text: str
    types: tuple[DataType, ...]
    fixed: frozenset[str] = frozenset()  # constants that are the same for all of them
    registrations: list[tuple[int, int, int]] = field(default_factory=list)  # first id, count, document
    _groups: Groups | None = None

    def add(self, group: GroupRef) -> None:
        self.registrations.append((group.first_id, group.count, group.number))
        self._groups = None

    @property
    def groups(self) -> Groups:
        """The registrations as arrays."""
        if self._groups is None:
            self._groups = Groups(*np.array(self.registrations, np.int64).reshape(-1, 3).T.copy())
        return self._groups

    def since(self, number: int) -> np.ndarray:
        """The queries of registry documents from this number on, ascending."""
        later = [(first, count) for first, count, of in self.registrations if of >= number]
        return np.concatenate([np.empty(0, np.int64), *(np.arange(f, f + n, dtype=np.int64) for f, n in later)])


class KeptPlan(NamedTuple):
    """How a shape is run, and how it is kept."""

    planned: Planned
    upkeep: Upkeep
    keeping: Keeping
    cores: int

    @property
    def matched(self) -> list[int]:
        """The cores whose results are found by matching; the others are read off the rows."""
        return [core for core in range(self.cores) if core not in self.keeping.common]


class KeptQueries:
    """All kept queries of the first so many registry documents."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self.registry = registry
        self.settings = settings
        self._shapes: dict[str, KeptShape] = {}
        self._upto = 0
        self._planned: dict[str, KeptPlan] = {}
        self._planned_for = -1  # the number of changes of the catalog that these are of

    def shapes(self, upto: int) -> list[KeptShape]:
        """The shapes of registry documents 0 … upto − 1."""
        if upto < self._upto:  # another driver's plan, older than what this one knows
            self._shapes, self._upto = {}, 0
        known = len(self.registry.groups(self._upto))
        for group in self.registry.groups(upto)[known:]:
            if group.kept_as is not None:
                name = group.kept_as.shape
                shape = KeptShape(name, group.shape_text, group.types, frozenset(group.kept_as.fixed))
                self._shapes.setdefault(name, shape).add(group)
        self._upto = upto
        return list(self._shapes.values())

    def planned(self, shape: KeptShape, catalog: Catalog) -> KeptPlan:
        """How a shape is run, and how it is kept."""
        if catalog.changes != self._planned_for:
            self._planned, self._planned_for = {}, catalog.changes
        if shape.name not in self._planned:
            planned = stored_shape(shape.text, shape.types, catalog, self.settings)
            upkeep, parts = upkeep_of(planned), planned.classified.parts
            assert parts is not None, "it was registered"
            self._planned[shape.name] = KeptPlan(
                planned, upkeep, keeping_of(parts, upkeep, shape.fixed), len(parts.cores)
            )
        return self._planned[shape.name]
