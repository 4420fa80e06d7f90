"""Names in scope: the sources of one SELECT and the columns they bring.

Names are case-insensitive. A column without a qualifier must be in exactly one source; columns merged by USING
count once, as the first source's. `SELECT *` lists every source's columns in order, merged ones first, those of the
last USING before those of earlier ones, as Spark does. A name that the sources of a subquery do not have is looked up
in the query around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weir.algebra.nodes import Call, ColumnRef, Derived, Expression, Scan
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
class Answer:
    """What a query in FROM brings."""

    name: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Source:
    scan: Scan | Derived
    relation: Stream | Table | Answer

    @property
    def kind(self) -> str:
        if isinstance(self.scan, Derived):
            return "subquery"
        return "table" if self.scan.is_table else "stream"

    @property
    def name(self) -> str:
        """What it is called where it is defined."""
        return self.relation.name

    def ref(self, column: Column) -> ColumnRef:
        # How long texts may be matters where they come in; beside a constant a char has blanks at its end.
        type_ = column.type.usual if column.type.variant == "varchar" else column.type
        return ColumnRef(self.scan.source, column.name, type_)


@dataclass(slots=True)
class Scope:
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, list[int]] = field(default_factory=dict)  # USING columns: the sources they were merged from
    values: dict[str, Expression] = field(default_factory=dict)  # what merged columns of outer joins are
    outer: Scope | None = None  # that of the query around a subquery
    hidden: set[int] = field(default_factory=set)  # sources of which no column is shown: right sides of semi joins
    usings: dict[int, list[str]] = field(default_factory=dict)  # source: the columns that its USING names, in order

    def source(self, alias: str) -> Source:
        folded = alias.lower()
        scope: Scope | None = self
        while scope is not None:
            found = next((s for s in scope.visible if s.scan.alias.lower() == folded), None)
            if found is not None:
                return found
            scope = scope.outer
        aliases = [s.scan.alias for s in self.sources]
        hidden = next((s for s in self.sources if s.name.lower() == folded), None)
        if hidden is not None:
            hint = f"'{alias}' has the alias '{hidden.scan.alias}' here; write {hidden.scan.alias}"
        else:
            hint = did_you_mean(alias, aliases)
        raise NameFaultError(f"'{alias}' is no source of this query ({', '.join(aliases)})", hint)

    @property
    def visible(self) -> list[Source]:
        return [s for s in self.sources if s.scan.source not in self.hidden] if self.hidden else self.sources

    def resolve(self, name: str, qualifier: str | None = None) -> Expression:
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
            for s in self.visible
            if (c := s.relation.column(name)) is not None and s.scan.source not in merged[1:]
        ]
        if not found and self.outer is not None and self.outer.reaches(name):
            return self.outer.resolve(name)
        if not found:
            raise self._unknown(name, self.visible)
        if len(found) == 1 and name.lower() in self.values:
            return self.values[name.lower()]
        if len(found) > 1:
            aliases = [s.scan.alias for s, _ in found]
            raise NameFaultError(
                f"column '{name}' is ambiguous: it is in {', '.join(repr(a) for a in aliases)}",
                f"write {aliases[0]}.{found[0][1].name}",
            )
        return found[0][0].ref(found[0][1])

    def is_source_of(self, alias: str, name: str) -> bool:
        """Whether a source is called so and has such a column: then `a.b` is that, and no field b of a column a."""
        return any(s.scan.alias.lower() == alias.lower() and s.relation.column(name) is not None for s in self.sources)

    def has(self, name: str) -> bool:
        return any(s.relation.column(name) is not None for s in self.visible)

    def reaches(self, name: str) -> bool:
        """Whether the name is a column here or further outside."""
        return self.has(name) or (self.outer is not None and self.outer.reaches(name))

    def star(self) -> list[tuple[str, Expression]]:
        """All columns of all sources by name; each USING puts its columns, once, before what was joined so far."""
        shown: list[ColumnRef] = []
        for source in self.sources:
            names = self.usings.get(source.scan.source, [])
            is_hidden = source.scan.source in self.hidden
            merged = [next(r for r in shown if self._stands_for(r, name, anyhow=is_hidden)) for name in names]
            own = () if is_hidden else source.relation.columns
            others = [source.ref(c) for c in own if c.name.lower() not in names]
            shown = [*merged, *(r for r in shown if r not in merged), *others]
        return [(r.name, self._value_of(r)) for r in shown]

    def _stands_for(self, ref: ColumnRef, name: str, *, anyhow: bool = False) -> bool:
        """Whether a column is what USING made of a name; `anyhow`: a semi join makes nothing new of it."""
        first = self.merged.get(name, [ref.source] if anyhow else [None])[0]
        return ref.source == first and ref.name.lower() == name

    def _value_of(self, ref: ColumnRef) -> Expression:
        name = ref.name.lower()
        return self.values.get(name, ref) if self._stands_for(ref, name) else ref

    def merge(self, name: str, left: Expression, right: ColumnRef, side: str) -> None:
        """Have a column of USING count once; in an outer join it is the one of the side whose rows all stay."""
        folded = name.lower()
        first = left.source if isinstance(left, ColumnRef) else self.merged[folded][0]
        self.merged.setdefault(folded, [first]).append(right.source)
        self.usings.setdefault(right.source, []).append(folded)
        if side == "right":
            self.values[folded] = right
        elif side == "full":
            self.values[folded] = Call("coalesce", (left, right), left.type)
        elif not isinstance(left, ColumnRef):
            self.values[folded] = left

    def _unknown(self, name: str, sources: list[Source]) -> NameFaultError:
        if not sources:
            return NameFaultError(f"column '{name}' has no source", "add FROM")
        known = [c.name for s in sources for c in s.relation.columns]
        if len(sources) == 1:
            where = f"{sources[0].kind} '{sources[0].name}'"
        else:
            where = "any of " + ", ".join(f"'{s.name}'" for s in sources)
        hint = did_you_mean(name, known)
        hint = _SPECIAL.get(name.lower(), "") or hint
        shown = ", ".join(known[:40]) + (", …" if len(known) > 40 else "")
        return NameFaultError(f"column '{name}' is not in {where} ({shown})", hint)
