"""Names in scope: the sources of one SELECT and the columns they bring.

Names are case-insensitive. A column without a qualifier must be in exactly one source; columns merged by USING
count once, as the first source's. `SELECT *` lists every source's columns in order, merged ones first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weir.algebra.nodes import ColumnRef, Scan
from weir.algebra.schema import Column, Stream, Table
from weir.errors import did_you_mean

# Words that people write where a column stands, and what they mean.
_SPECIAL = {
    "now": "NOW stands only in window clauses: BEGIN NOW - INTERVAL 5 MINUTES END NOW",
    "nan": "write CAST('nan' AS double)",
    "infinity": "write CAST('inf' AS double)",
    "inf": "write CAST('inf' AS double)",
}


class NameFaultError(Exception):
    """A name that means nothing, or several things; the caller adds the position."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Source:
    scan: Scan
    relation: Stream | Table

    @property
    def kind(self) -> str:
        return "table" if self.scan.is_table else "stream"

    def ref(self, column: Column) -> ColumnRef:
        return ColumnRef(self.scan.source, column.name, column.type)


@dataclass(slots=True)
class Scope:
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, list[int]] = field(default_factory=dict)  # USING columns: the sources they were merged from

    def source(self, alias: str) -> Source:
        folded = alias.lower()
        found = next((s for s in self.sources if s.scan.alias.lower() == folded), None)
        if found is not None:
            return found
        aliases = [s.scan.alias for s in self.sources]
        hidden = next((s for s in self.sources if s.scan.relation.lower() == folded), None)
        if hidden is not None:
            hint = f"'{alias}' has the alias '{hidden.scan.alias}' here; write {hidden.scan.alias}"
        else:
            hint = did_you_mean(alias, aliases)
        raise NameFaultError(f"'{alias}' is no source of this query ({', '.join(aliases)})", hint)

    def resolve(self, name: str, qualifier: str | None = None) -> ColumnRef:
        """The column a name means, or NameFaultError."""
        if qualifier:
            source = self.source(qualifier)
            column = source.relation.column(name)
            if column is None:
                raise self._unknown(name, [source])
            return source.ref(column)
        merged = self.merged.get(name.lower(), [])
        found = [
            (s, c)
            for s in self.sources
            if (c := s.relation.column(name)) is not None and s.scan.source not in merged[1:]
        ]
        if not found:
            raise self._unknown(name, self.sources)
        if len(found) > 1:
            aliases = [s.scan.alias for s, _ in found]
            raise NameFaultError(
                f"column '{name}' is ambiguous: it is in {', '.join(repr(a) for a in aliases)}",
                f"write {aliases[0]}.{found[0][1].name}",
            )
        return found[0][0].ref(found[0][1])

    def has(self, name: str) -> bool:
        return any(s.relation.column(name) is not None for s in self.sources)

    def star(self) -> list[ColumnRef]:
        """All columns of all sources, those merged by USING first and once."""
        refs: list[ColumnRef] = []
        for name, places in self.merged.items():
            source = next(s for s in self.sources if s.scan.source == places[0])
            column = source.relation.column(name)
            assert column is not None
            refs.append(source.ref(column))
        for source in self.sources:
            own = source.scan.source
            refs += [source.ref(c) for c in source.relation.columns if own not in self.merged.get(c.name.lower(), [])]
        return refs

    def _unknown(self, name: str, sources: list[Source]) -> NameFaultError:
        known = [c.name for s in sources for c in s.relation.columns]
        if len(sources) == 1:
            where = f"{sources[0].kind} '{sources[0].scan.relation}'"
        else:
            where = "any of " + ", ".join(f"'{s.scan.relation}'" for s in sources)
        hint = did_you_mean(name, known)
        hint = _SPECIAL.get(name.lower(), "") or hint
        shown = ", ".join(known[:40]) + (", …" if len(known) > 40 else "")
        return NameFaultError(f"column '{name}' is not in {where} ({shown})", hint)
