"""Names in one SELECT of the oracle: its sources, the columns they bring, what joins show of them, and what is around.

A qualified name belongs to a source; any other to exactly one column that the joins show. USING and NATURAL show a
merged column once and first: the left one's, of a right join the right one's, of a full join the one that is known;
semi and anti joins show nothing of their right side. A name that no source has is an alias of the select list, as far
as it has been read, and else a name of the query around this one. Names are case-insensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from weir.algebra.schema import TIMESTAMP, Kind
from weir.testing.arrow_types import SPANNED
from weir.testing.constants import Scalar
from weir.testing.payloads import field as payload_field

Named = tuple[str, Scalar]


def quoted(name: str) -> str:
    """A name as a DuckDB identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class OracleSource:
    """One source occurrence: a relation's window, a derived table, a common table expression."""

    alias: str
    columns: tuple[Named, ...]

    def column(self, name: str) -> Scalar | None:
        return next((s for n, s in self.columns if n.lower() == name.lower()), None)


@dataclass(frozen=True)
class Joined:
    """Sources put together: DuckDB SQL for FROM, and what names may mean."""

    sql: str
    sources: tuple[OracleSource, ...]
    shown: tuple[Named, ...]
    behind: tuple[Scalar, ...] = ()  # columns that merged ones stand for, of the last join first

    def star_of(self, source: OracleSource) -> list[Named]:
        """What alias.* shows: the columns that others stand for, then those that are shown."""
        own = {scalar.sql: (name, scalar) for name, scalar in source.columns}
        ordered = dict.fromkeys([s.sql for s in self.behind] + [s.sql for _, s in self.shown])
        return [own[sql] for sql in ordered if sql in own]

    def only(self, name: str) -> Scalar:
        found = [s for n, s in self.shown if n.lower() == name.lower()]
        assert len(found) == 1, f"column {name} means {len(found)} things"
        return found[0]

    def has(self, name: str) -> bool:
        return any(n.lower() == name.lower() for n, _ in self.shown)


class OracleScope:
    """Finds the column that a name means."""

    def __init__(self, joined: Joined, outer: OracleScope | None = None) -> None:
        self.joined = joined
        self.outer = outer
        self.aliases: dict[str, Scalar] = {}  # of the select list, by lower-case name

    def source(self, alias: str) -> OracleSource | None:
        return next((s for s in self.joined.sources if s.alias.lower() == alias.lower()), None)

    def column(self, e: exp.Column) -> Scalar:
        if len(e.parts) > 2:
            first, *rest = [part.name for part in e.parts]
            source = self.source(first)
            of = None if source is None else source.column(rest[0])
            return reduce(payload_field, rest[of is not None :], self.column(exp.column(first)) if of is None else of)
        if e.table:
            source = self.source(e.table)
            found = None if source is None else source.column(e.name)
            if found is None:
                whole = exp.column(e.table)
                if self.joined.has(e.table) or e.table.lower() in self.aliases:
                    return field(self.column(whole), e.name)  # a column that is a struct
                assert source is None, f"{e.table} has no column {e.name}"
                assert self.outer is not None, f"there is no source {e.table}"
                return self.outer.column(e)
            return found
        if self.joined.has(e.name):
            return self.joined.only(e.name)
        alias = self.aliases.get(e.name.lower())
        if alias is not None:
            return alias
        assert self.outer is not None, f"there is no column {e.name}"
        return self.outer.column(e)


def field(of: Scalar, name: str) -> Scalar:
    """A part of a payload, or `start` or `end` of what window(ts, …) gives."""
    if of.type.kind is Kind.PAYLOAD:
        return payload_field(of, name)
    assert of.type == SPANNED, f"{of.type} has no field {name}"
    assert name.lower() in ("start", "end"), f"a window has a start and an end, no {name}"
    return Scalar(f"struct_extract({of.sql}, '{name.lower()}')", TIMESTAMP)


def merged(
    names: Sequence[str], side: str, left: Joined, right: Joined
) -> tuple[tuple[Named, ...], tuple[Scalar, ...]]:
    """What a join shows that merges columns of these names, and the columns that these stand for."""
    first = []
    for name in names:
        ours = left.only(name)
        theirs = right.only(name) if right.sources else ours  # a semi join shows its left side only
        spelt = next(n for n, _ in left.shown if n.lower() == name.lower())
        if side == "FULL":
            assert ours.type == theirs.type, f"{name} is {ours.type} and {theirs.type}"
            first.append((spelt, Scalar(f"coalesce({ours.sql}, {theirs.sql})", ours.type)))
        else:
            first.append((spelt, theirs if side == "RIGHT" else ours))
    taken = {name.lower() for name in names}
    shown = (*first, *((n, s) for n, s in (*left.shown, *right.shown) if n.lower() not in taken))
    behind = [left.only(name) for name in names if side in ("RIGHT", "FULL")]
    behind += [right.only(name) for name in names if side != "RIGHT" and right.sources]
    return shown, (*behind, *left.behind, *right.behind)
