"""Standing queries by id: from a registry group and a row of constants to something that can be answered.

Shapes are lowered once; a query's own part is one row of constants, looked up when it is asked for. Nothing
here is kept per query.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Query
from weir.algebra.schema import DataType, Kind
from weir.answer.fetch import Standing
from weir.errors import QueryError, RegisterError
from weir.families import joins, many_joins
from weir.families.attributes import too_many_residuals
from weir.families.joins import Joined, joined
from weir.families.many_joins import Many
from weir.families.selection import Checked
from weir.plan.registration import Registration, check, constant_value, lower_shape, registration_of
from weir.settings import Settings
from weir.store.catalog import CatalogLog
from weir.store.matches import CHANNEL
from weir.store.registry import GroupRef, Registry
from weir.store.state import State

_NO_LIMITS = Settings(boxes_per_query_max=1 << 30, residuals_per_stream_max=1 << 30)
_SLOT = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|:c(\d+)\b")  # or something quoted, which is left alone
_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))


class Library:
    """All standing queries of a weir."""

    def __init__(self, registry: Registry, catalog_log: CatalogLog, settings: Settings) -> None:
        self.registry = registry
        self.catalog_log = catalog_log
        self.settings = settings
        self._queries: dict[tuple[str, tuple[DataType, ...]], Query] = {}
        self._joined: dict[tuple[str, tuple[DataType, ...]], Joined] = {}  # of those that are joins of two
        self._many: dict[tuple[str, tuple[DataType, ...]], Many] = {}  # of those that are joins of many
        self._residuals: dict[str, set[str]] = {}  # by stream: derived attributes of the groups below _counted
        self._counted = 0
        self._families: set[str] = set()  # join families of the groups below _families_counted
        self._families_counted = 0

    def group_of(self, id: int) -> GroupRef:
        """The group of a query that stands; unknown and dropped ones are errors."""
        group = self.registry.group_of(id)
        if self.registry.drop_number(id) is not None:
            raise QueryError(f"query {id} was dropped", hint="register it again; it gets a new id")
        return group

    def standing(self, id: int) -> Standing:
        """The query, ready to be answered."""
        group = self.group_of(id)
        catalog = self.catalog_log.read()
        query = self._query(group)
        streams = tuple(catalog.streams[scan.relation.lower()] for scan in query.sources)
        constants = self._constants(group, id)
        return Standing(
            id, group.family, query, constants, streams, group.number, self._join(group), self._many_join(group)
        )

    def planned(self, id: int) -> Registration:
        """The query as it was planned, for `explain`."""
        group = self.group_of(id)
        return registration_of(group.shape_text, self._query(group), self.catalog_log.read(), self.settings)

    def text(self, id: int) -> str:
        """The query's SQL with its constants put back."""
        group = self.group_of(id)
        constants = self._constants(group, id)

        def put_back(slot: re.Match[str]) -> str:
            return slot[0] if slot[1] is None else literal_text(constants[f"c{slot[1]}"], group.types[int(slot[1])])

        return _SLOT.sub(put_back, group.shape_text)

    def check_quota(self, planned: Registration, checked: Checked) -> None:
        """Refuse queries that would need more derived attributes of a stream, or join families, than the quotas."""
        if planned.classified.family in (joins.name, many_joins.name):
            self._check_families(planned)
        if checked.residuals:
            self._check_residuals(planned.channel, checked)

    def _check_families(self, planned: Registration) -> None:
        catalog, limit = self.catalog_log.read(), self.settings.join_families_max
        if planned.classified.family == joins.name:
            new = joined(planned.shape.query, catalog).family.name  # as it will be stored
        else:
            many = many_joins.joined(planned.shape.query, catalog)
            if not many.is_connected:  # it is of no family
                return
            new = many.family.name
        self.registry.refresh()
        groups = self.registry.groups()
        self._families |= self._families_of(groups[self._families_counted :])
        self._families_counted = len(groups)
        if new in self._families or len(self._families) < limit:
            return
        dropped = self.registry.dropped()
        firsts = np.array([g.first_id for g in groups], np.int64)
        ends = firsts + np.array([g.count for g in groups], np.int64)
        gone = np.searchsorted(dropped, ends) - np.searchsorted(dropped, firsts)
        stand = self._families_of([g for g, none in zip(groups, gone == ends - firsts, strict=True) if not none])
        if new not in stand and len(stand) >= limit:
            raise RegisterError(
                f"this join needs a family of its own ({planned.channel}), and {len(stand):,} join families stand, "
                f"at most {limit:,} are allowed",
                hint="a family is some streams and their equalities: use the same equalities, with other conditions "
                "beside them; drop queries; or raise the setting join_families_max",
            )

    def _families_of(self, groups: Sequence[GroupRef]) -> set[str]:
        found = {join.family.name for g in groups if (join := self._join(g)) is not None}
        return found | {
            many.family.name for g in groups if (many := self._many_join(g)) is not None and many.is_connected
        }

    def _check_residuals(self, channel: str, checked: Checked) -> None:
        self.registry.refresh()
        catalog = self.catalog_log.read()
        for group in self.registry.groups()[self._counted :]:
            streams = [catalog.streams[name.lower()] for name in group.streams]
            constants = self.registry.constants(group)
            needed = check(group.family, self._query(group), constants, streams, _NO_LIMITS)
            for stream, residuals in needed.residuals_of.items():
                self._residuals.setdefault(stream, set()).update(residuals)
        self._counted = len(self.registry.groups())
        for stream in channel.split(CHANNEL):
            together = self._residuals.get(stream, set()) | set(checked.residuals_of.get(stream, ()))
            if len(together) > self.settings.residuals_per_stream_max:
                raise too_many_residuals(len(together), self.settings.residuals_per_stream_max)

    def listing(self, state: State) -> pa.Table:
        """All standing queries, a row each."""
        groups = self.registry.groups()
        counts = np.array([g.count for g in groups], np.int64)
        ids = np.arange(int(counts.sum()), dtype=np.int64)
        which = np.repeat(np.arange(len(groups)), counts)
        stands = ~np.isin(ids, self.registry.dropped(), assume_unique=True)
        first = [state.active_from(g.number) for g in groups]
        columns = {
            "id": pa.array(ids),
            "shape": _spread([g.shape_text for g in groups], which),
            "stream": _spread([g.stream for g in groups], which),
            "family": _spread([g.family for g in groups], which),
            "first_batch": pa.array(first, pa.int64()).take(pa.array(which)),
            "demoted": pa.array(np.isin(ids, np.fromiter(state.demoted, np.int64, len(state.demoted)))),
        }
        return pa.table(columns).filter(pa.array(stands))

    def _query(self, group: GroupRef) -> Query:
        key = (group.shape_text, group.types)
        if key not in self._queries:
            catalog = self.catalog_log.read()
            self._queries[key] = lower_shape(group.shape_text, group.types, catalog, self.settings)
        return self._queries[key]

    def _join(self, group: GroupRef) -> Joined | None:
        if group.family != joins.name:
            return None
        key = (group.shape_text, group.types)
        if key not in self._joined:
            self._joined[key] = joined(self._query(group), self.catalog_log.read())
        return self._joined[key]

    def _many_join(self, group: GroupRef) -> Many | None:
        if group.family != many_joins.name:
            return None
        key = (group.shape_text, group.types)
        if key not in self._many:
            self._many[key] = many_joins.joined(self._query(group), self.catalog_log.read())
        return self._many[key]

    def _constants(self, group: GroupRef, id: int) -> dict[str, object]:
        row = self.registry.constants(group).slice(id - group.first_id, 1)
        return {f"c{k}": constant_value(row.column(f"c{k}")[0], t) for k, t in enumerate(group.types)}


def _spread(texts: list[str], which: np.ndarray) -> pa.Array:
    """A text for each query, stored once a distinct one."""
    distinct = list(dict.fromkeys(texts))
    code = np.array([distinct.index(t) for t in texts], np.int32)
    indices = code[which] if len(texts) else np.empty(0, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(distinct, pa.string()))


def literal_text(value: object, type: DataType) -> str:
    """A constant as SQL."""
    if value is None:
        return "NULL"
    if type.kind is Kind.STRING:
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type.kind is Kind.TIMESTAMP:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(str(value)))
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    if type.kind is Kind.DATE:
        return f"DATE '{value}'"
    if type.kind is Kind.INTERVAL:
        us = int(str(value))
        for unit, length in _UNITS:
            if us and us % length == 0:
                return f"INTERVAL '{us // length}' {unit}"
        return f"INTERVAL '{us}' MICROSECOND"
    if type.kind is Kind.DOUBLE:
        text = repr(float(str(value)))
        return text if "e" in text or "n" in text else f"{text}E0"
    return str(value).upper() if type.kind is Kind.BOOLEAN else str(value)
