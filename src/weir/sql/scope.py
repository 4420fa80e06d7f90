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
    """What names mean: of one SELECT, and while FROM is read of what has been joined so far.

    `merged` are the columns that USING made one of: by lower-case name, groups of sources, of which the first stands
    for all. `values` says what such a column of an outer join is, by that source and the name.
    """

    sources: list[Source] = field(default_factory=list)
    merged: dict[str, list[list[int]]] = field(default_factory=dict)
    values: dict[tuple[int, str], Expression] = field(default_factory=dict)
    outer: Scope | None = None  # that of the query around a subquery
    hidden: set[int] = field(default_factory=set)  # sources of which no column is shown: right sides of semi joins
    shown: list[ColumnRef] = field(default_factory=list)  # the columns of *, in order
    behind: list[ColumnRef] = field(default_factory=list)  # those that others stand for, of the last USING first

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
        if not self.has(name) and self.outer is not None and self.outer.reaches(name):
            return self.outer.resolve(name)
        return self._value_of(self.standing(name))

    def standing(self, name: str) -> ColumnRef:
        """The column here that a name alone means; of merged ones the one that stands for all."""
        merged = {s for group in self.merged.get(name.lower(), ()) for s in group[1:]}
        found = [
            (s, c) for s in self.visible if (c := s.relation.column(name)) is not None and s.scan.source not in merged
        ]
        if not found:
            raise self._unknown(name, self.visible)
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
        """The columns of *: each USING puts its columns, once, before all others."""
        return [(r.name, self._value_of(r)) for r in self.shown]

    def star_of(self, source: Source) -> list[tuple[str, Expression]]:
        """The columns of alias.*, as they are in the source: those first that others stand for."""
        own = dict.fromkeys((*self.behind, *self.shown))
        return [(r.name, r) for r in own if r.source == source.scan.source]

    def _value_of(self, ref: ColumnRef) -> Expression:
        return self.values.get((ref.source, ref.name.lower()), ref)

    # FROM is read from left to right: the side of a join that has been read is taken out, the other one is read into
    # the empty scope, and both are put together.

    def add(self, source: Source) -> None:
        self.sources.append(source)
        self.shown += [source.ref(c) for c in source.relation.columns]

    def take(self) -> Scope:
        """What has been read so far, which is then no more here."""
        taken = Scope(self.sources, self.merged, self.values, None, self.hidden, self.shown, self.behind)
        self.put(Scope())
        return taken

    def put(self, side: Scope) -> None:
        self.sources, self.merged, self.values = side.sources, side.merged, side.values
        self.hidden, self.shown, self.behind = side.hidden, side.shown, side.behind

    def join(self, left: Scope, right: Scope) -> None:
        """Have what both sides of a join bring."""
        self.put(
            Scope(
                [*left.sources, *right.sources],
                {n: [*left.merged.get(n, []), *right.merged.get(n, [])] for n in {**left.merged, **right.merged}},
                {**left.values, **right.values},
                None,
                left.hidden | right.hidden,
                [*left.shown, *right.shown],
                [*left.behind, *right.behind],
            )
        )

    def hide(self, side: Scope) -> None:
        """Show nothing of the right side of a semi join."""
        self.hidden |= {s.scan.source for s in side.sources}
        self.shown = [r for r in self.shown if r.source not in self.hidden]

    def merge(self, names: list[str], left: Scope, right: Scope, kind: str) -> None:
        """Have the columns that USING names count once: those of the side that stays whole stand for the others.

        The sides are what `join` put together.
        """
        pairs = [(left.standing(name), right.standing(name)) for name in names]
        if kind == "right":
            pairs = [(b, a) for a, b in pairs]
        for name, (first, other) in zip(names, pairs, strict=True):
            folded = name.lower()
            groups = self.merged.get(folded, [])
            ours = next((g for g in groups if g[0] == first.source), [first.source])
            theirs = next((g for g in groups if g[0] == other.source), [other.source])
            self.merged[folded] = [[*ours, *theirs], *(g for g in groups if g is not ours and g is not theirs)]
            if kind == "full":
                values = left._value_of(first), right._value_of(other)
                self.values[first.source, folded] = Call("coalesce", values, first.type)
        whole, others = [a for a, _ in pairs], [b for _, b in pairs]
        self.shown = [*whole, *(r for r in self.shown if r not in whole and r not in others)]
        self.behind = [*(whole if kind == "full" else []), *others, *self.behind]

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
