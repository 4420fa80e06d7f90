"""Joins of many streams: of three to six, and those of two that no join family takes.

A query's condition is an AND of keys (equalities of two sources, without parameters) and the rest, as in
`join_family`. All queries with the same streams and the same keys are one `ManyFamily`, whatever the rest: its
rows are joined once for all of them (`many_probes`), and each combination of rows that the keys let
through is an event to an index over the queries (`many_segments`). PSoup (5.4) shares the factors that
many candidates have in common; here a family *is* what its queries have in common.

Keys need not connect all sources. A difference of two rows (`r.a - s.b < 3`, `abs(r.t - s.t) <= w`) connects them too
if every way to satisfy the condition bounds it; the difference is then part of the family. Sources that nothing
connects would be a cross product in every batch. A query with such sources is not matched: its answer is evaluated
when it is asked for, within a limit on the combinations of rows (`weir.answer.recompute`).

Sides are in a canonical order, so that the order of FROM does not matter: they are sorted by stream, and sides of one
stream stand in the order that gives the keys the least texts. Cost: k sources of one stream have k! orders, at most
720, and all of them are tried once for each shape.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby, permutations, product
from typing import Any

import pyarrow as pa

from weir.algebra.format import expression_text
from weir.algebra.nodes import Arithmetic, Comparison, Expression, Join, Query, Scan, conjunction
from weir.algebra.schema import Catalog, Stream, called
from weir.boxes.attributes import meets_payload, params_of, sources_of, with_values
from weir.boxes.templates import template
from weir.errors import RegisterError
from weir.families.contract import Checked
from weir.families.joins.join_family import at_home, bounded_differences, checked, no_join, on_side, terms_of
from weir.families.joins.join_keys import has_keys
from weir.families.query_parts import join_of
from weir.families.selections import selection_family
from weir.settings import Settings
from weir.values.codec import canonical, from_json, to_json

__all__ = ["SOURCES_MAX", "Key", "Many", "ManyFamily", "check", "describe", "joined", "name", "refusal"]

name = "many-join"

SOURCES_MAX = 6
_MANY_BOXES = 1 << 10  # a predicate of more boxes is not written out to find the differences that all of them bound


@dataclass(frozen=True)
class Key:
    """An equality of rows of two sides."""

    sides: tuple[int, int]  # ascending
    values: tuple[Expression, Expression]  # over a row of either side: every ColumnRef has source 0

    def of(self, side: int) -> Expression:
        return self.values[self.sides.index(side)]

    def to_json(self) -> list[Any]:
        return [*self.sides, *(to_json(e) for e in self.values)]

    @classmethod
    def from_json(cls, written: Sequence[Any]) -> Key:
        return cls((written[0], written[1]), (from_json(written[2]), from_json(written[3])))


@dataclass(frozen=True)
class ManyFamily:
    """All joins of the same streams on the same keys."""

    streams: tuple[str, ...]  # as in the catalog, by side
    keys: tuple[Key, ...]
    bands: tuple[Expression, ...]  # differences of two sides that every query bounds, where keys do not connect them

    @cached_property
    def channel(self) -> str:
        """The streams of the sides."""
        return "~".join(self.streams)

    @cached_property
    def name(self) -> str:
        """What users call the sides, and a digest that tells families of the same sides apart."""
        digest = hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()[:12]
        return f"{'~'.join(map(called, self.streams))}:{digest}"

    @property
    def has_hints(self) -> bool:
        """Whether boxes use differences that follow from comparisons of doubles: only if keys leave sides apart."""
        return bool(self.bands)

    def to_json(self) -> dict[str, Any]:
        return {
            "streams": list(self.streams),
            "keys": [key.to_json() for key in self.keys],
            "bands": [to_json(e) for e in self.bands],
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> ManyFamily:
        return cls(
            tuple(written["streams"]),
            tuple(Key.from_json(key) for key in written["keys"]),
            tuple(from_json(e) for e in written["bands"]),
        )


@dataclass(frozen=True)
class Many:
    """One query as its family sees it."""

    family: ManyFamily
    sides: tuple[int, ...]  # of the query's sources, in their order
    scans: tuple[Scan, ...]  # by side
    predicate: Expression | None  # all but the keys; ColumnRef.source is the side
    is_connected: (
        bool  # keys and bands lead from every side to every other, and rows that wait have all that is asked for
    )

    def by_source(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """What is given in the order of sides, put into the order of the query's own sources."""
        return tuple(rows[side] for side in self.sides)


@dataclass(frozen=True)
class _ManySplit:
    """A join's condition, taken apart; sources are the query's."""

    keys: tuple[tuple[Expression, Expression], ...]
    rest: tuple[Expression, ...]

    def on_sides(self, number_of: Mapping[int, int]) -> _ManySplit:
        return _ManySplit(
            tuple((on_side(a, number_of), on_side(b, number_of)) for a, b in self.keys),
            tuple(on_side(term, number_of) for term in self.rest),
        )


def refusal(query: Query, catalog: Catalog) -> str | None:
    """Why a query is no join of two to six streams; None if it is one."""
    reason = no_join(query, catalog)
    if reason is not None:
        return reason
    join = join_of(query)
    if len(join.children) > SOURCES_MAX:
        return f"it joins {len(join.children)} sources, at most {SOURCES_MAX} are joined"
    for scan in _scans(join):
        if scan.is_table or not catalog.has_side(scan.relation):
            return f"'{scan.relation}' is not a stream"
    return None


def joined(query: Query, catalog: Catalog) -> Many:
    """A query that the family takes, by side."""
    reason = refusal(query, catalog)
    assert reason is None, reason
    return _joined(join_of(query))


@lru_cache(maxsize=256)
def _joined(join: Join) -> Many:
    scans, split = _scans(join), _split(join)
    bands = _bands(split, [scan.source for scan in scans])
    best: tuple[Any, list[Key], dict[int, int]] | None = None
    for number_of in _orders(scans):
        keys = sorted({_key(pair, number_of) for pair in split.keys}, key=_key_text)
        text = [_key_text(key) for key in keys], sorted(_band_text(on_side(e, number_of)) for e in bands)
        if best is None or text < best[0]:
            best = text, keys, number_of
    assert best is not None, "a join has sources"
    _, keys, number_of = best
    # Boxes are made over sides, where a difference that follows from a comparison may be the other way round than
    # over sources. Bands are taken again over sides, so that they are written as boxes have them.
    turned = sorted(_bands(split.on_sides(number_of), range(len(scans))), key=canonical)
    by_side = sorted(scans, key=lambda scan: number_of[scan.source])
    linked = [*(key.sides for key in keys), *(sorted(sources_of(e)) for e in turned)]
    return Many(
        ManyFamily(tuple(scan.relation for scan in by_side), tuple(keys), tuple(turned)),
        tuple(number_of[scan.source] for scan in scans),
        tuple(by_side),
        on_side(conjunction(split.rest), number_of) if split.rest else None,
        len(_reached(0, linked)) == len(scans) and not meets_payload([*split.rest, *_equalities(split)]),
    )


def check(found: Many, constants: pa.Table, streams: Sequence[Stream], settings: Settings) -> Checked:
    """What a registration needs, by side; RegisterError when a query or a stream needs more than its limit.

    `streams` are those of the sides. A query that is not matched needs nothing.
    """
    if not found.is_connected:
        return Checked(0, (), ())
    return checked(found.predicate, constants, streams, settings, hints=found.family.has_hints)


def describe(found: Many, constants: Mapping[str, object] | None, streams: Sequence[Stream]) -> dict[str, object]:
    """For `explain`: what connects the sources, and the boxes of one query, in the words of its SQL."""
    names = {side: scan.alias for side, scan in enumerate(found.scans)}
    keys = []
    for key in found.family.keys:
        left, right = (on_side(key.of(side), {0: side}) for side in key.sides)
        keys.append(expression_text(Comparison("=", left, right), names))
    bands = [expression_text(e, names) for e in found.family.bands]
    said: dict[str, object] = {"join keys": ", ".join(keys) or "none"}
    if bands:
        said["bounded differences"] = ", ".join(bands)
    keyed = [
        Comparison("=", on_side(k.of(k.sides[0]), {0: 0}), on_side(k.of(k.sides[1]), {0: 1})) for k in found.family.keys
    ]
    if meets_payload([*keyed, *([] if found.predicate is None else [found.predicate])]):
        return said | {
            "not matched": "a condition reads payloads of several sources at once: the answer is evaluated over the "
            "kept rows at every fetch; to have it matched as rows come, compare plain columns"
        }
    if not found.is_connected:
        why = f"{_apart_text(found, names)}: every row would meet every other; to have it matched as rows come, "
        return said | {
            "not connected": f"{why}add an equality, or a bound on a difference (a.x - b.y <= 3, a.x <= b.y + 3)"
        }
    predicate = found.predicate
    if predicate is not None and constants is not None:
        predicate = with_values(predicate, constants)
    sides = ", ".join(f"{called(s.name)} {names[side]}" for side, s in enumerate(streams))
    boxes = selection_family.describe_boxes(predicate, names, hints=found.family.has_hints)
    return {"join family": found.family.name, "sides": sides} | said | boxes


def _apart_text(found: Many, names: Mapping[int, str]) -> str:
    """The sources that nothing connects with the first."""
    linked = [*(key.sides for key in found.family.keys), *(sorted(sources_of(e)) for e in found.family.bands)]
    reached = _reached(0, linked)
    there, apart = ([alias for side, alias in names.items() if (side in reached) == is_in] for is_in in (True, False))
    return f"{', '.join(apart)} with {', '.join(there)}"


def _scans(join: Join) -> list[Scan]:
    scans = [scan for scan in join.children if isinstance(scan, Scan)]
    assert len(scans) == len(join.children), "a join is one of scans"
    return scans


def _split(join: Join) -> _ManySplit:
    keys: dict[tuple[Expression, Expression], None] = {}
    rest: list[Expression] = []
    for term in () if join.predicate is None else terms_of(join.predicate, True):
        if isinstance(term, Comparison) and term.op == "=" and not params_of(term):
            left, right = sources_of(term.left), sources_of(term.right)
            if len(left) == len(right) == 1 and left != right and has_keys(term.left.type, term.right.type):
                keys[term.left, term.right] = None
                continue
        rest.append(term)
    return _ManySplit(tuple(keys), tuple(rest))


def _equalities(split: _ManySplit) -> list[Expression]:
    return [Comparison("=", *pair) for pair in split.keys]


def _bands(split: _ManySplit, sources: Sequence[int]) -> list[Expression]:
    """Differences that every query bounds, of two sources that keys do not connect."""
    linked = [sorted(sources_of(a) | sources_of(b)) for a, b in split.keys]
    if len(_reached(sources[0], linked)) == len(sources) or not split.rest:
        return []
    try:
        disjuncts = template(conjunction(split.rest), _MANY_BOXES, hints=True).disjuncts
    except RegisterError:
        return []
    found = []
    for e in bounded_differences(disjuncts):
        first, second = sorted(sources_of(e))
        if second not in _reached(first, linked) and not params_of(e):
            found.append(e)
    return found


def _reached(start: int, linked: Iterable[Sequence[int]]) -> set[int]:
    """All sides or sources that links lead to from `start`, which is one of them."""
    reached, links = {start}, [set(link) for link in linked]
    while grown := {s for link in links if link & reached for s in link} - reached:
        reached |= grown
    return reached


def _orders(scans: Sequence[Scan]) -> Iterator[dict[int, int]]:
    """Every way to number sources as sides: streams in their order, the sources of one stream in any."""
    by_stream = sorted(scans, key=lambda scan: scan.relation.lower())
    groups = [list(group) for _, group in groupby(by_stream, key=lambda scan: scan.relation.lower())]
    for orders in product(*(permutations(group) for group in groups)):
        yield {scan.source: side for side, scan in enumerate(scan for group in orders for scan in group)}


def _key(pair: tuple[Expression, Expression], number_of: Mapping[int, int]) -> Key:
    sided = sorted((number_of[next(iter(sources_of(e)))], at_home(e)) for e in pair)
    (first, left), (second, right) = sided
    return Key((first, second), (left, right))


def _band_text(e: Expression) -> str:
    """A text that x − y and y − x have in common."""
    assert isinstance(e, Arithmetic), "a band is a difference"
    return min(canonical(e), canonical(replace(e, left=e.right, right=e.left)))


def _key_text(key: Key) -> tuple[int, int, str, str]:
    return *key.sides, canonical(key.values[0]), canonical(key.values[1])
