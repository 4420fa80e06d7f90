"""Names in one SELECT of the oracle: its sources, the columns they bring, and what USING merges.

A name is qualified, or belongs to exactly one source, or is an alias of the select list (in GROUP BY and HAVING,
when no source has such a column). USING shows a merged column once, as the left source's, and first in `*`.
Names are case-insensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from weir.algebra.schema import Stream, Table
from weir.testing.constants import Scalar


def quoted(name: str) -> str:
    """A name as a DuckDB identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class OracleSource:
    """One source occurrence: its contents are the common table expression `cte`."""

    alias: str
    relation: Stream | Table
    cte: str
    using: tuple[str, ...] = ()  # columns that its JOIN … USING merges with those of earlier sources

    def columns(self) -> list[tuple[str, Scalar]]:
        return [(c.name, Scalar(f"{self.cte}.{quoted(c.name)}", c.type)) for c in self.relation.columns]

    def column(self, name: str) -> Scalar | None:
        return next((s for n, s in self.columns() if n.lower() == name.lower()), None)


class OracleScope:
    """Finds the column that a name means."""

    def __init__(self, sources: Sequence[OracleSource]) -> None:
        self.sources = sources
        self.aliases: dict[str, Scalar] = {}  # of the select list, by lower-case name
        self.equal: list[tuple[Scalar, Scalar]] = []  # what USING demands
        self._merged: dict[str, tuple[str, Scalar]] = {}  # by lower-case name: as it is spelt, and what it shows
        self._hidden: set[str] = set()  # SQL of columns that a merged one stands for
        for i, right in enumerate(sources):
            for name in right.using:
                left, of_right = self._only(name, sources[:i]), right.column(name)
                assert of_right is not None, f"{right.alias} has no column {name} to use"
                self.equal.append((left, of_right))
                self._hidden |= {of_right.sql}
                spelt = next(n for s in sources for n, _ in s.columns() if n.lower() == name.lower())
                self._merged.setdefault(name.lower(), (spelt, left))

    def source(self, alias: str) -> OracleSource:
        return next(s for s in self.sources if s.alias.lower() == alias.lower())

    def column(self, e: exp.Column) -> Scalar:
        if e.table:
            found = self.source(e.table).column(e.name)
            assert found is not None, f"{e.table} has no column {e.name}"
            return found
        alias = self.aliases.get(e.name.lower())
        if alias is not None and all(s.column(e.name) is None for s in self.sources):
            return alias
        return self._only(e.name, self.sources)

    def star(self) -> list[tuple[str, Scalar]]:
        """Merged columns first and once, then the others source by source."""
        shown = list(self._merged.values())
        taken = self._hidden | {column.sql for _, column in shown}
        return shown + [(n, c) for s in self.sources for n, c in s.columns() if c.sql not in taken]

    def _only(self, name: str, sources: Sequence[OracleSource]) -> Scalar:
        found = [c for s in sources if (c := s.column(name)) is not None and c.sql not in self._hidden]
        assert len(found) == 1, f"column {name} means {len(found)} things"
        return found[0]
