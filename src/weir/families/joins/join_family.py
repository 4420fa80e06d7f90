"""The join family: equi-joins of two streams (or of one with itself), any local predicates, windows and projection.

All select joins with the same two streams and the same equality keys are one `JoinFamily`, whatever their local
predicates (CSJQ groups queries so): they share the partners of an event, and only their boxes differ. What surrounds
the matching (`join_segments`) is here: which queries are taken, how their condition is taken apart, what
a registration needs, and what `explain` says.

The condition (WHERE and all ON together) is an AND of

    keys     t.area = w.area        one side over one source, the other over the other; no parameters inside
    the rest                        becomes boxes; AND, OR and NOT may mix the sources, and so may a comparison

A condition over both sources that is no key (r.a < s.b, an equality below OR) is about an attribute of pairs. If that
is a difference (s.b − r.b between two bounds, or beyond one) queries are reached through it; what is left is evaluated
for the pairs that keys, windows and the conditions of each side let through. A join needs a key, or in every part
of its OR the same difference bounded: else every row would meet every other. A key may contain constants, which then
belong to the query's shape, and so to the family; an equality with a parameter is no key, because each of its values
would be a family of its own.

Sides are in a canonical order, by (stream, texts of the keys), so that R JOIN S and S JOIN R are one family; keys are
sorted too. When nothing tells the sides of a self-join apart they stay as the query has them: either order is right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from weir.algebra.format import expression_text
from weir.algebra.nodes import (
    And,
    ColumnRef,
    Comparison,
    Expression,
    Join,
    Not,
    Or,
    Project,
    Query,
    Scan,
    conjunction,
    walk,
)
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import Catalog, Stream, called
from weir.boxes.attributes import Attributes, meets_payload, params_of, sources_of, too_many_residuals, with_values
from weir.boxes.differences import difference_of
from weir.boxes.instances import resolve
from weir.boxes.templates import OPPOSITE, Disjunct, template
from weir.errors import RegisterError
from weir.families.contract import Checked
from weir.families.joins.join_keys import has_keys
from weir.families.query_parts import columns_of, join_of
from weir.families.selections import selection_family
from weir.settings import Settings
from weir.values.codec import canonical, from_json, to_json

__all__ = [
    "BOTH",
    "Checked",
    "JoinFamily",
    "JoinOfTwo",
    "at_home",
    "bounded_differences",
    "check",
    "checked",
    "describe",
    "joined",
    "name",
    "no_join",
    "on_side",
    "refusal",
    "side_of",
    "terms_of",
]

name = "join"

_BOUNDS = ("=", "<", "<=", ">", ">=")
BOTH = 2  # the side of an attribute of pairs
_ANY_BOXES = 1 << 30
_MANY_BOXES = 1 << 10  # more are not written out to find what they have in common


@dataclass(frozen=True)
class JoinFamily:
    """All joins of two streams on the same keys."""

    streams: tuple[str, str]  # as in the catalog, side 0 and side 1
    keys: tuple[tuple[Expression, Expression], ...]  # equal pairs (side 0, side 1); every ColumnRef has source 0

    @cached_property
    def channel(self) -> str:
        """The streams of the sides."""
        return "~".join(self.streams)

    @cached_property
    def name(self) -> str:
        """What users call the sides, and a digest that tells families of the same sides apart."""
        text = json.dumps([self.streams, [[canonical(e) for e in pair] for pair in self.keys]])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{'~'.join(map(called, self.streams))}:{digest}"

    def to_json(self) -> dict[str, Any]:
        return {"streams": list(self.streams), "keys": [[to_json(e) for e in pair] for pair in self.keys]}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> JoinFamily:
        first, second = written["streams"]
        return cls((first, second), tuple((from_json(a), from_json(b)) for a, b in written["keys"]))


@dataclass(frozen=True)
class JoinOfTwo:
    """One query as its family sees it."""

    family: JoinFamily
    swapped: bool  # the query's first source is side 1
    scans: tuple[Scan, Scan]  # by side
    predicate: Expression | None  # all but the keys, None if there is no more; ColumnRef.source is the side
    condition: Expression | None  # the whole of it, with the query's own source numbers
    has_hints: bool  # it has no keys, so that differences which follow from comparisons of doubles are used too
    columns: tuple[tuple[str, Expression], ...]  # the projection, with the query's own source numbers


@dataclass(frozen=True, slots=True)
class _JoinSplit:
    """A join's condition, taken apart; sources are the query's."""

    keys: tuple[tuple[Expression, Expression], ...]  # (over the first scan, over the second)
    rest: tuple[Expression, ...]


def refusal(query: Query, catalog: Catalog) -> str | None:
    """Why a query is no equi-join of two streams with local predicates; None if it is one."""
    reason = no_join(query, catalog)
    if reason is not None:
        return reason
    join = join_of(query)
    names = {scan.source: scan.alias for scan in query.sources}
    listed = ", ".join(names.values())
    if len(join.children) != 2:
        return f"it joins {len(join.children)} sources ({listed}), not two"
    for scan in _scans(join):
        if scan.is_table or not catalog.has_side(scan.relation):
            return f"'{scan.relation}' is not a stream"
    split = _split(join)
    reason = _key_refusal(split, names)
    if reason is None and meets_payload(split.rest):
        return f"a condition reads payloads of {' and '.join(names.values())} at once"
    if reason is None and not split.keys and not _is_banded(split):
        return (
            f"neither an equality without parameters nor a bounded difference connects {' with '.join(names.values())}"
        )
    return reason


def no_join(query: Query, catalog: Catalog) -> str | None:
    """Why a query is no projection of a join; None if it is one."""
    if not isinstance(query.root, Project):
        return selection_family.refusal(query, catalog)
    return None if isinstance(query.root.child, Join) else "it reads one source"


@lru_cache(maxsize=1024)  # a shape is asked for several times while it is registered
def _is_banded(split: _JoinSplit) -> bool:
    """Whether one difference of the two sources is bounded in every way to satisfy the condition."""
    try:
        disjuncts = template(conjunction(split.rest) if split.rest else None, _MANY_BOXES, hints=True).disjuncts
    except RegisterError:
        return True  # whoever counts boxes will say that they are too many
    return not disjuncts or bool(bounded_differences(disjuncts))


def bounded_differences(disjuncts: Sequence[Disjunct]) -> set[Expression]:
    """The differences that every disjunct bounds."""
    bounded = [
        {atom.attribute for atom in d.atoms if atom.op in _BOUNDS and difference_of(atom.attribute) is not None}
        for d in disjuncts
    ]
    return set.intersection(*bounded) if bounded else set()


def _key_refusal(split: _JoinSplit, names: Mapping[int, str]) -> str | None:
    for pair in split.keys:
        if not has_keys(pair[0].type, pair[1].type):
            return f"{expression_text(Comparison('=', *pair), names)} compares {pair[0].type} with {pair[1].type}"
    return None


def joined(query: Query, catalog: Catalog) -> JoinOfTwo:
    """A query that the family takes, by side."""
    reason = refusal(query, catalog)
    assert reason is None, reason
    join = join_of(query)
    scans, split = _scans(join), _split(join)
    straight = tuple(sorted(((at_home(a), at_home(b)) for a, b in split.keys), key=_pair_text))
    turned = tuple(sorted(((b, a) for a, b in straight), key=_pair_text))
    first, second = scans
    orders = [(s.relation.lower(), [_pair_text(p) for p in keys]) for s, keys in ((first, straight), (second, turned))]
    swapped = orders[1] < orders[0]
    sides = (second, first) if swapped else (first, second)
    number_of = {scan.source: side for side, scan in enumerate(sides)}
    family = JoinFamily((sides[0].relation, sides[1].relation), turned if swapped else straight)
    predicate = on_side(conjunction(split.rest), number_of) if split.rest else None
    return JoinOfTwo(family, swapped, sides, predicate, join.predicate, not family.keys, columns_of(query))


def check(found: JoinOfTwo, constants: pa.Table, streams: Sequence[Stream], settings: Settings) -> Checked:
    """What a registration needs, by side; RegisterError when a query needs too many boxes or a stream too much.

    `streams` are those of the sides. Quotas count by stream: what a residual of this join needs, a selection over the
    same stream may share, so their texts do not say that they are of a join.
    """
    return checked(found.predicate, constants, streams, settings, hints=found.has_hints)


def checked(
    predicate: Expression | None, constants: pa.Table, streams: Sequence[Stream], settings: Settings, *, hints: bool
) -> Checked:
    """What the part of a condition that becomes boxes needs; sources of the predicate are places in `streams`."""
    made = template(predicate, settings.boxes_per_query_max, hints=hints)
    attributes = Attributes(settings.residuals_per_stream_max)
    resolve(made, constants, attributes)
    residuals: dict[str, dict[str, None]] = {s.name: {} for s in streams}
    compared: set[tuple[int, str]] = set()
    for e in attributes.expressions:
        sides = sources_of(e)
        compared |= {(c.source, c.name) for c in walk(e) if isinstance(c, ColumnRef)}
        if len(sides) > 1:  # it counts for all its streams, by a text that no selection has
            for side in sides:
                residuals[streams[side].name][canonical(e)] = None
        elif not isinstance(e, ColumnRef):
            residuals[streams[next(iter(sides))].name][canonical(at_home(e))] = None
    for texts in residuals.values():
        if len(texts) > settings.residuals_per_stream_max:
            raise too_many_residuals(len(texts), settings.residuals_per_stream_max)
    return Checked(
        made.boxes_count,
        tuple(f"{s.name}.{c.name}" for side, s in enumerate(streams) for c in s.columns if (side, c.name) in compared),
        tuple(dict.fromkeys(text for texts in residuals.values() for text in texts)),
        {stream: tuple(texts) for stream, texts in residuals.items()},
    )


def describe(found: JoinOfTwo, constants: Mapping[str, object] | None, streams: Sequence[Stream]) -> dict[str, object]:
    """For `explain`: keys, boxes and attributes of one query, in the words of its SQL.

    `streams` are those of the sides; `constants` are the values of the query's params, if they are known.
    """
    names = {side: scan.alias for side, scan in enumerate(found.scans)}
    predicate = found.predicate
    if predicate is not None and constants is not None:
        predicate = with_values(predicate, constants)
    keys = [expression_text(Comparison("=", a, on_side(b, {0: 1})), names) for a, b in found.family.keys]
    sides = [f"{called(s.name)} {names[side]}" for side, s in enumerate(streams)]
    return {
        "join family": found.family.name,
        "sides": " and ".join(sides),
        "join keys": ", ".join(keys) or "none",
        **selection_family.describe_boxes(predicate, names, hints=found.has_hints),
        **_pairs_text(predicate, names, found.has_hints),
        "access attributes": "; ".join(f"{names[side]}: {_access_text(predicate, side, names)}" for side in (0, 1)),
    }


def _pairs_text(predicate: Expression | None, names: Mapping[int, str], hints: bool) -> dict[str, object]:
    """The differences that all boxes bound, and what else is asked of pairs."""
    disjuncts = template(predicate, _ANY_BOXES, hints=hints).disjuncts
    asked = {e for d in disjuncts for e in (atom.attribute for atom in d.atoms) if side_of(e) == BOTH}
    bounded = bounded_differences(disjuncts)
    said = {"bounded differences": bounded, "evaluated for pairs": asked - bounded}
    return {what: ", ".join(sorted(expression_text(e, names) for e in of)) for what, of in said.items() if of}


def _access_text(predicate: Expression | None, side: int, names: Mapping[int, str]) -> str:
    """Through which attributes of a side the index may reach a query: those that all its boxes constrain."""
    disjuncts = template(predicate, _ANY_BOXES).disjuncts
    common = [
        e
        for e in dict.fromkeys(atom.attribute for d in disjuncts for atom in d.atoms)
        if side_of(e) == side and all(any(atom.attribute == e for atom in d.atoms) for d in disjuncts)
    ]
    shown = ", ".join(expression_text(e, names) for e in common)
    return f"the most selective of {shown}" if len(common) > 1 else shown or "none"


def side_of(e: Expression) -> int:
    """The side whose columns an attribute refers to, or BOTH."""
    sources = sources_of(e)
    assert sources, f"{e} is over no source"
    return BOTH if len(sources) > 1 else next(iter(sources))


def on_side(e: Expression, number_of: Mapping[int, int]) -> Expression:
    """The expression with its sources renumbered."""

    def put(n: Expression) -> Expression:
        return replace(n, source=number_of[n.source]) if isinstance(n, ColumnRef) else n

    return rebuild(e, put)


def at_home(e: Expression) -> Expression:
    """The expression over rows of its own stream, whichever side or source that is."""
    return on_side(e, dict.fromkeys(sources_of(e), 0))


def _pair_text(pair: tuple[Expression, Expression]) -> tuple[str, str]:
    return canonical(pair[0]), canonical(pair[1])


def _scans(join: Join) -> tuple[Scan, Scan]:
    first, second = join.children
    assert isinstance(first, Scan)
    assert isinstance(second, Scan)
    return first, second


@lru_cache(maxsize=1024)
def _split(join: Join) -> _JoinSplit:
    first, second = (scan.source for scan in _scans(join))
    keys: dict[tuple[Expression, Expression], None] = {}
    rest: list[Expression] = []
    for term in () if join.predicate is None else terms_of(join.predicate, True):
        if isinstance(term, Comparison) and term.op == "=" and not params_of(term):
            left, right = sources_of(term.left), sources_of(term.right)
            if left == {first} and right == {second}:
                keys[term.left, term.right] = None
                continue
            if left == {second} and right == {first}:
                keys[term.right, term.left] = None
                continue
        rest.append(term)
    return _JoinSplit(tuple(keys), tuple(rest))


def terms_of(e: Expression, wanted: bool) -> Iterator[Expression]:
    """What must be true for `e` to be true (wanted), or false: an AND taken apart, a NOT pushed down as far as that."""
    if isinstance(e, Not):
        yield from terms_of(e.arg, not wanted)
    elif isinstance(e, (And, Or)) and isinstance(e, And) == wanted:
        for arg in e.args:
            yield from terms_of(arg, wanted)
    elif isinstance(e, Comparison) and not wanted:
        yield replace(e, op=OPPOSITE[e.op])
    else:
        yield e if wanted else Not(e)
