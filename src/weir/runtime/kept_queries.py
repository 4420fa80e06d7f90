"""The kept queries of a weir, by shape, as the running job knows them: read from the registry once.

All kept queries of one text (with its constants taken out) and one set of types are one shape, however many
registrations they came in. Nothing is kept a query: of a registration its first id and its number of queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weir.algebra.schema import Catalog, DataType
from weir.plan.maintenance import Upkeep, shape_name, upkeep_of
from weir.plan.registration import Planned, stored_shape
from weir.runtime.arrived import Groups
from weir.settings import Settings
from weir.store.registry import GroupRef, Registry


@dataclass
class KeptShape:
    """The kept queries of one shape."""

    name: str
    text: str
    types: tuple[DataType, ...]
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


class KeptQueries:
    """All kept queries of the first so many registry documents."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self.registry = registry
        self.settings = settings
        self._shapes: dict[str, KeptShape] = {}
        self._upto = 0
        self._planned: dict[tuple[str, int], tuple[Planned, Upkeep]] = {}

    def shapes(self, upto: int) -> list[KeptShape]:
        """The shapes of registry documents 0 … upto − 1."""
        if upto < self._upto:  # another driver's plan, older than what this one knows
            self._shapes, self._upto = {}, 0
        known = len(self.registry.groups(self._upto))
        for group in self.registry.groups(upto)[known:]:
            if group.is_kept:
                name = shape_name(group.shape_text, group.types)
                self._shapes.setdefault(name, KeptShape(name, group.shape_text, group.types)).add(group)
        self._upto = upto
        return list(self._shapes.values())

    def planned(self, shape: KeptShape, catalog: Catalog) -> tuple[Planned, Upkeep]:
        """How a shape is run, and how it is kept."""
        key = (shape.name, catalog.changes)
        if key not in self._planned:
            planned = stored_shape(shape.text, shape.types, catalog, self.settings)
            self._planned[key] = planned, upkeep_of(planned)
        return self._planned[key]
