"""Standing queries by id: from a registry group and a row of constants to something that can be answered.

Shapes are lowered once; a query's own part is one row of constants, looked up when it is asked for. Nothing
here is kept per query.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Catalog, DataType, Table
from weir.answer.fetch import Standing, StandingCore
from weir.answer.literal_texts import literal_text
from weir.answer.together import Together, constants_of
from weir.boxes.attributes import too_many_residuals
from weir.errors import QueryError, RegisterError, StoreError
from weir.families.contract import Checked
from weir.plan.registration import Planned, Registration, constant_value, stored_shape
from weir.settings import Settings
from weir.store.ascending import common, ranges
from weir.store.catalog import CatalogLog
from weir.store.labels import Labels
from weir.store.matches import CHANNEL
from weir.store.query_groups import GroupRef
from weir.store.registry import Registry

ShapeKey = tuple[str, tuple[DataType, ...], int]  # text, types of constants, changes of the catalog
_REMEMBERED_MAX = 1_000  # shapes, of some 10 kB each
_NO_LIMITS = Settings(boxes_per_query_max=1 << 30, residuals_per_stream_max=1 << 30)
_SLOT = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|:c(\d+)\b")  # or something quoted, which is left alone


class Library:
    """All standing queries of a weir."""

    def __init__(self, registry: Registry, catalog_log: CatalogLog, settings: Settings) -> None:
        self.registry = registry
        self.labels = Labels(registry)
        self.catalog_log = catalog_log
        self.settings = settings
        self._shapes: dict[ShapeKey, Planned] = {}
        self._residuals: dict[str, set[str]] = {}  # by stream: derived attributes of the groups below _counted
        self._counted = 0
        self._counting = threading.Lock()  # held while the two above change
        self._families: set[str] = set()  # join families of the groups below _families_counted
        self._families_counted = 0

    def group_of(self, id: int) -> GroupRef:
        """The group of a query that stands; unknown and dropped ones are errors."""
        group = self.registry.group_of(id)
        if self.registry.drop_number(id) is not None:
            raise self._gone(id)
        return group

    def _gone(self, id: int) -> QueryError:
        """What to say of a query that was dropped."""
        heir = self.labels.replaced_by(id)
        if heir is None:
            return QueryError(f"query {id} was dropped", hint="register it again; it gets a new id")
        name = self.labels.names_of(np.array([heir]))[0].as_py()
        hint = f"ask for query {heir}" if name is None else f"ask for it by its name, '{name}'"
        return QueryError(f"query {id} was replaced by query {heir}", hint=hint)

    def standing(self, id: int) -> Standing:
        """The query, ready to be answered."""
        group = self.group_of(id)
        self.catalog_log.refresh()
        planned = self._shape(group)
        constants = self._constants(group, id)
        parts = planned.classified.parts
        assert parts is not None, f"'{group.shape_text}' was registered, yet has no finish"
        tables = self._tables(planned, group)
        cores = [
            StandingCore(id + k * group.count, id, core, seen, constants, group.number, tables)
            for k, (core, seen) in enumerate(zip(parts.cores, planned.classified.seen, strict=True))
        ]
        return Standing(id, planned.query, constants, group.number, tuple(cores), parts, tables, group.kept_as)

    def together(self, ids: np.ndarray) -> list[Together]:
        """Standing queries, given ascending, by their shapes; unknown and dropped ones are errors."""
        for dropped in common(ids, self.registry.dropped()):
            self.group_of(int(dropped))
        self.catalog_log.refresh()
        groups, group = self.registry.groups_of(ids)
        by_shape: dict[ShapeKey, list[int]] = {}
        for place, ref in enumerate(groups):
            by_shape.setdefault(self._key(ref), []).append(place)
        ends = np.searchsorted(group, np.arange(len(groups) + 1))  # ids ascend, and so do their groups
        return [self._together(groups, np.array(places), ids, ends) for places in by_shape.values()]

    def _together(self, groups: Sequence[GroupRef], places: np.ndarray, ids: np.ndarray, ends: np.ndarray) -> Together:
        """The queries of some groups, which have one shape."""
        own = tuple(groups[place] for place in places.tolist())
        mine = ids[ranges(ends[places], ends[places + 1])]
        group = np.repeat(np.arange(len(own)), ends[places + 1] - ends[places])
        planned = self._shape(own[0])
        return Together(
            planned, self._tables(planned, own[0]), own, mine, group, constants_of(self.registry, own, mine, group)
        )

    def planned(self, id: int) -> Planned:
        """The query as it was planned, for `explain`."""
        return self._shape(self.group_of(id))

    def text(self, id: int) -> str:
        """The query's SQL with its constants put back."""
        group = self.group_of(id)
        constants = self._constants(group, id)

        def put_back(slot: re.Match[str]) -> str:
            return slot[0] if slot[1] is None else literal_text(constants[f"c{slot[1]}"], group.types[int(slot[1])])

        return _SLOT.sub(put_back, group.shape_text)

    def check_quota(self, planned: Planned, checked: Checked) -> None:
        """Refuse queries that need more derived attributes of a stream or more join families than the quotas allow."""
        self._check_families(planned)
        if checked.residuals:
            self._check_residuals(planned, checked)

    def remember(self, group: GroupRef, registered: Registration, checked: Checked, catalog: Catalog) -> None:
        """Count a group that was just registered, so that the next registration need not check it again.

        How its shape is run is known as well; with more shapes than a few, whoever asks for one plans it.
        """
        if registered.stored is not None and len(self._shapes) < _REMEMBERED_MAX:
            self._shapes.setdefault((group.shape_text, group.types, catalog.changes), registered.stored)
        with self._counting:
            groups = self.registry.groups()
            if checked.residuals and self._counted < len(groups) and groups[self._counted] is group:
                self._add_residuals(checked)
                self._counted += 1

    def _add_residuals(self, checked: Checked) -> None:
        for stream, residuals in checked.residuals_of.items():
            self._residuals.setdefault(stream, set()).update(residuals)

    def _check_families(self, planned: Planned) -> None:
        limit = self.settings.join_families_max
        wanted = _families_of(planned)
        if not wanted:
            return
        self.registry.refresh()
        groups = self.registry.groups()
        for group in groups[self._families_counted :]:
            self._families |= self._families_in(group)
        self._families_counted = len(groups)
        if len(wanted | self._families) <= max(limit, len(self._families)):
            return
        dropped = self.registry.dropped()
        firsts = np.array([g.first_id for g in groups], np.int64)
        counts = np.array([g.count for g in groups], np.int64)
        gone = np.searchsorted(dropped, firsts + counts) - np.searchsorted(dropped, firsts)
        stand: set[str] = set()
        for group in (g for g, none in zip(groups, gone == counts, strict=True) if not none):
            stand |= self._families_in(group)
        if len(wanted | stand) > max(limit, len(stand)):
            raise RegisterError(
                f"this join needs a family of its own ({', '.join(planned.channels)}), and {len(stand):,} join "
                f"families stand, at most {limit:,} are allowed",
                hint="a family is some streams and their equalities: use the same equalities, with other conditions "
                "beside them; drop queries; or raise the setting join_families_max",
            )

    def _families_in(self, group: GroupRef) -> set[str]:
        planned = self._readable(group)
        return set() if planned is None else _families_of(planned)

    def _check_residuals(self, planned: Planned, checked: Checked) -> None:
        self.registry.refresh()
        with self._counting:
            groups = self.registry.groups()
            for group in groups[self._counted :]:
                planned_group = self._readable(group)
                if planned_group is not None:
                    constants = self.registry.constants(group)
                    for seen in planned_group.classified.seen:
                        self._add_residuals(seen.check(constants, _NO_LIMITS))
            self._counted = len(groups)
        for stream in {name for channel in planned.channels for name in channel.split(CHANNEL)}:
            together = self._residuals.get(stream, set()) | set(checked.residuals_of.get(stream, ()))
            if len(together) > self.settings.residuals_per_stream_max:
                raise too_many_residuals(len(together), self.settings.residuals_per_stream_max)

    def reading(self, stream: str) -> Iterator[tuple[np.ndarray, Planned | None, pa.Table]]:
        """The groups with standing queries that read a stream: ids of these, how they are planned, their constants.

        None: its text cannot be read any more.
        """
        self.registry.refresh()
        dropped = self.registry.dropped()
        for group in self.registry.groups():
            if any(stream in channel.split(CHANNEL) for channel in group.channels):
                ids = np.arange(group.first_id, group.first_id + group.count)
                stands = ~np.isin(ids, dropped, assume_unique=True)
                if stands.any():
                    yield ids[stands], self._readable(group), self.registry.constants(group).filter(pa.array(stands))

    def reading_table(self, table: str) -> list[np.ndarray]:
        """The ids of standing queries that read a table, by group."""
        self.registry.refresh()
        dropped = self.registry.dropped()
        found = []
        for group in self.registry.groups():
            if table.lower() not in group.shape_text.lower():
                continue
            planned = self._readable(group)
            sources = () if planned is None else planned.query.sources
            if planned is None or any(s.is_table and s.relation.lower() == table.lower() for s in sources):
                ids = np.arange(group.first_id, group.first_id + group.count)
                found.append(np.setdiff1d(ids, dropped, assume_unique=True))
        return found

    def _tables(self, planned: Planned, group: GroupRef) -> dict[str, Table]:
        """The tables that a group's queries read, by lower-case name."""
        catalog = self.catalog_log.known(group.catalog)
        return {s.relation.lower(): catalog.tables[s.relation.lower()] for s in planned.query.sources if s.is_table}

    def _key(self, group: GroupRef) -> ShapeKey:
        """What groups have in common that are planned as one shape."""
        return group.shape_text, group.types, self.catalog_log.known(group.catalog).changes

    def _shape(self, group: GroupRef) -> Planned:
        """A group's shape as it is run, planned once for all groups of that shape."""
        key = self._key(group)
        if key not in self._shapes:
            catalog = self.catalog_log.known(group.catalog)
            self._shapes[key] = stored_shape(group.shape_text, group.types, catalog, self.settings)
        return self._shapes[key]

    def _readable(self, group: GroupRef) -> Planned | None:
        """The same, or None: a text that cannot be read is quarantined, and must not refuse other people's queries."""
        try:
            return self._shape(group)
        except StoreError:
            raise
        except Exception:  # the next batch meets the same error, and keeps it as the reason of the quarantine
            return None

    def _constants(self, group: GroupRef, id: int) -> dict[str, object]:
        row = self.registry.constants(group).slice(id - group.first_id, 1)
        return {f"c{k}": constant_value(row.column(f"c{k}")[0], t) for k, t in enumerate(group.types)}


def _families_of(planned: Planned) -> set[str]:
    """The families that count against the quota."""
    return {seen.family.name for seen in planned.classified.seen if seen.counts_as_family}
