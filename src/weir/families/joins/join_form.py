"""Joins of two streams as a form: what `join_family`, `join_segments` and `partner_rows` do, behind the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Catalog, Stream
from weir.boxes.attributes import sources_of
from weir.families.contract import Checked, Encounter, Needs, NewRows, QueriesOf, Results, Seen
from weir.families.joins import join_family
from weir.families.joins.join_family import JoinFamily, JoinOfTwo, terms_of
from weir.families.joins.join_matching import JoinMatches
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.families.members import Group
from weir.families.query_parts import width_of
from weir.families.recent import Recent
from weir.index.box_tables import OverBudget
from weir.index.joining import kinds
from weir.settings import Settings

name = join_family.name
strategies = kinds.STRATEGIES
refusal = join_family.refusal
open_rows = PartnerRows.from_arrays


class SeenJoin(Seen):
    """A join of two streams, by side."""

    def __init__(self, joined: JoinOfTwo, streams: tuple[Stream, ...]) -> None:
        self.joined = joined
        self.family = joined.family
        self.streams = streams
        self.sides = (1, 0) if joined.swapped else (0, 1)

    def check(self, constants: pa.Table, settings: Settings) -> Checked:
        return join_family.check(self.joined, constants, self.streams, settings)

    def describe(self, constants: Mapping[str, object] | None) -> dict[str, object]:
        return join_family.describe(self.joined, constants, self.streams)

    def kernels(self, settings: Settings) -> frozenset[str]:
        terms = () if self.joined.predicate is None else terms_of(self.joined.predicate, True)
        over_both = any(len(sources_of(term)) > 1 for term in terms)
        partial = ("partial",) if width_of(self.joined.predicate) > 1 else ()
        return frozenset({"joins", "pairs", "windows", *(("bands",) if over_both else ()), *partial})


def see(core: Query, catalog: Catalog) -> SeenJoin:
    joined = join_family.joined(core, catalog)
    return SeenJoin(joined, tuple(catalog.side(name) for name in joined.family.streams))


class JoinQueries(QueriesOf[JoinSegment]):
    """A segment of joins of two."""

    @property
    def needs(self) -> tuple[Needs, ...]:
        return tuple(Needs(tuple(self.segment.accesses(s)), tuple(self.segment.asked(s))) for s in (0, 1))

    def match(self, asked: Encounter) -> Iterator[Results | OverBudget]:
        events = asked.events
        lifetimes = asked.lifetimes[1 - asked.side] if asked.lifetimes else None
        for rows in asked.partners[1 - asked.side]:
            found = self.segment.match(
                asked.side, events.table, events.times, rows, asked.muted, asked.left(), asked.tuning, lifetimes
            )
            if isinstance(found, JoinMatches):
                found = _met(found, asked)
            yield found if isinstance(found, OverBudget) else Results(*found)


def _met(found: JoinMatches, asked: Encounter) -> JoinMatches:
    """The matches in which rows of streams meet versions of tables, as far as is known before partners are read."""
    if not any(asked.lifetimes):
        return found
    own, partners = asked.lifetimes[asked.side], asked.lifetimes[1 - asked.side]
    if partners is not None:
        return found.where(partners.meet(found.partners[0], found.of_events(asked.events.times)))
    assert own is not None, "one of the sides is a table's"
    return found.where(own.hold()[found.of_events(asked.events.row_ids)])


def build(
    family: JoinFamily,
    groups: Sequence[Group],
    catalog: Catalog,
    settings: Settings,
    excluded: np.ndarray,
    recent: Recent | None = None,
) -> JoinQueries:
    return JoinQueries(JoinSegment.build(family, groups, catalog, settings=settings, excluded=excluded, recent=recent))


def open(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> JoinQueries:
    return JoinQueries(JoinSegment.from_arrays(arrays, meta))


def columns_of_rows(family: JoinFamily, side: int, needs: Needs) -> list[Expression]:
    ordered = [e for e in needs.accesses if e is not None]
    return [*needs.columns, *ordered, *(pair[side] for pair in family.keys)]


def build_rows(family: JoinFamily, side: int, rows: NewRows, needs: Needs) -> PartnerRows:
    return PartnerRows.build(family, side, *rows, accesses=needs.accesses or (None,), columns=needs.columns)
