"""The selection family: queries over one stream with any predicate, projection and window.

Its matches are found by `Segment` (`selection_segments`); windows are cut and projections finished at fetch.
Here is what surrounds that: which queries the family takes, what a registration needs and whether that is within
the limits, and what `explain` says about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from weir.algebra.format import ShownNames, expression_text
from weir.algebra.nodes import (
    ColumnRef,
    Distinct,
    Expression,
    GroupBy,
    Join,
    Literal,
    Project,
    Query,
    Scan,
    Select,
    SetOperation,
    walk,
)
from weir.algebra.schema import Catalog, Stream
from weir.boxes.attributes import Attributes, too_many_residuals, with_values
from weir.boxes.instances import resolve
from weir.boxes.templates import Atom, Disjunct, template
from weir.families.contract import Checked
from weir.families.members import Group
from weir.families.query_parts import parts_of
from weir.families.selections.selection_segments import Segment
from weir.settings import Settings

__all__ = ["Checked", "Group", "Segment", "check", "describe", "describe_boxes", "name", "refusal"]

name = "selection"

_BOXES_SHOWN = 8
_ACCESS_MAX = 3  # attributes through which a box is reached
_GUARD_TEXT = (
    "a row brings a NaN, an infinity or a number too large to be added to exactly (with two bounds: both columns do); "
    "written as a difference (a.x - b.y < 3) it is not"
)
_ANY_BOXES = 1 << 30


def refusal(query: Query, catalog: Catalog) -> str | None:
    """Why a query is no selection over one stream; None if it is one."""
    root = query.root
    if isinstance(root, SetOperation):
        return f"{root.kind.upper()} combines two queries"
    if isinstance(root, Distinct):
        return "DISTINCT compares rows with one another"
    if isinstance(root, GroupBy):
        return "GROUP BY and aggregates combine rows"
    assert isinstance(root, Project)
    child = root.child.child if isinstance(root.child, Select) else root.child
    if isinstance(child, Join):
        names = ", ".join(scan.alias for scan in query.sources)
        return f"it joins {len(query.sources)} sources ({names})"
    if not isinstance(child, Scan):
        return f"its source is a {type(child).__name__}"
    if child.is_table or child.relation.lower() not in catalog.streams:
        return f"'{child.relation}' is not a stream"
    return None


def check(query: Query, constants: pa.Table, stream: Stream, settings: Settings) -> Checked:
    """What a registration needs; RegisterError when one query needs too many boxes or all need too many attributes."""
    made = template(parts_of(query)[1], settings.boxes_per_query_max)
    attributes = Attributes(settings.residuals_per_stream_max)
    resolve(made, constants, attributes)
    residuals = tuple(attributes.derived())
    if len(residuals) > settings.residuals_per_stream_max:
        raise too_many_residuals(len(residuals), settings.residuals_per_stream_max)
    used = {c.name for e in attributes.expressions for c in walk(e) if isinstance(c, ColumnRef)}
    compared = tuple(c.name for c in stream.columns if c.name in used)
    return Checked(made.boxes_count, compared, residuals, {stream.name: residuals})


def describe(query: Query, constants: Mapping[str, object] | None, stream: Stream) -> dict[str, object]:
    """For `explain`: boxes and attributes of one query, in the words of its SQL.

    `constants` are the values of its params, if they are known; otherwise params are shown as they are.
    """
    scan, predicate, _ = parts_of(query)
    if predicate is not None and constants is not None:
        predicate = with_values(predicate, constants)
    names = ShownNames({scan.source: scan.alias})
    disjuncts = template(predicate, _ANY_BOXES).disjuncts
    return {
        "stream": stream.name,
        **describe_boxes(predicate, names),
        "access attributes": "; ".join(dict.fromkeys(_access_text(d, names) for d in disjuncts)) or "none",
    }


def describe_boxes(predicate: Expression | None, names: Mapping[int, str], *, hints: bool = False) -> dict[str, object]:
    """The boxes of a predicate and the attributes they constrain; `names` are those of the sources."""
    names = ShownNames(names)
    made = template(predicate, _ANY_BOXES, hints=hints)
    atoms = [atom for disjunct in made.disjuncts for atom in disjunct.atoms]
    attributes = dict.fromkeys(atom.attribute for atom in atoms)
    derived = [expression_text(e, names) for e in attributes if not isinstance(e, ColumnRef)]
    boxes = [_box_text(disjunct, names) for disjunct in made.disjuncts]
    if len(boxes) > _BOXES_SHOWN:
        boxes[_BOXES_SHOWN:] = [f"… and {len(boxes) - _BOXES_SHOWN} more"]
    return {
        "boxes": f"{made.boxes_count}: {'; '.join(boxes) or 'it is never true'}",
        "attributes": ", ".join(expression_text(e, names) for e in attributes) or "none",
        "derived attributes": ", ".join(derived) or "none",
        **({"lists": lists} if (lists := _lists_text(atoms, names)) else {}),
        **({"demoted when": _GUARD_TEXT} if any(atom.is_guarded for atom in atoms) else {}),
    }


def _lists_text(atoms: Sequence[Atom], names: Mapping[int, str]) -> str:
    """How many boxes the lists behind IN are."""
    found = []
    for atom in atoms:
        if atom.op in ("in", "not in") and isinstance(atom.bound, Literal) and isinstance(atom.bound.value, tuple):
            made = "one box for each value" if atom.op == "in" else "one box for each gap between values"
            found.append(f"{expression_text(atom.attribute, names)}: {len(atom.bound.value):,} values, {made}")
    return "; ".join(found)


def _box_text(disjunct: Disjunct, names: Mapping[int, str]) -> str:
    parts = [atom.meaning for atom in disjunct.atoms] + list(disjunct.guards)
    return " AND ".join(expression_text(e, names) for e in parts) or "every row"


def _access_text(disjunct: Disjunct, names: Mapping[int, str]) -> str:
    """What the index may reach the box through: one equality and two intervals, the most selective ones."""
    equal = dict.fromkeys(a.attribute for a in disjunct.atoms if a.op == "=")
    between = dict.fromkeys(a.attribute for a in disjunct.atoms if a.op not in ("=", "known"))
    parts = [f"{expression_text(e, names)} (equality)" for e in equal]
    parts += [f"{expression_text(e, names)} (interval)" for e in between if e not in equal]
    return ", ".join(parts) if len(parts) <= _ACCESS_MAX else f"the most selective of {', '.join(parts)}"
