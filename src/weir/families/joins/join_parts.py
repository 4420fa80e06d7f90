"""Parts of a join segment: the boxes of all slots that are reached through the same two attributes.

The rectangles of a part's boxes over its access attributes, one a side, are a plane, indexed once for events of side 0
and, with the axes exchanged, once for events of side 1 (`weir.index.joining.kinds`). A side without access attribute
reaches from NULL to the last key, so every event, or every partner, is inside. The constraints that are left are kept
as CSR by box, once for both directions: what is checked of events in one is checked of partners in the other.

Conditions over both sides are attributes of pairs. The difference of the two times becomes part of the time bounds.
Slots that bound another difference (or that one, if there are no join keys, or nothing to reach a side by) are reached
through it: the plane of
events of a side is then their own access attribute by the difference (`weir.index.bands`), and the partners' is checked
with the others. What else is asked of pairs is kept for whoever evaluates it (`join_conditions`).

Invariants: boxes are in the order of their slots, and all boxes of a slot are in one part; every box constrains the
part's access attributes and its difference.
Size: two indexes over one plane, 4 bytes a box for its slot, 16 if windows differ, 8 a side that is checked any further
and 20 a constraint left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from weir.algebra.nodes import Arithmetic, ColumnRef, Expression
from weir.boxes.bounds import Bools, Ints
from weir.boxes.differences import difference_of
from weir.boxes.instances import RowBoxes
from weir.families.joins.join_accesses import choose_accesses
from weir.families.joins.join_family import BOTH, on_side, side_of
from weir.families.joins.join_windows import TimeBounds, seen_from
from weir.index.box_tables import BoxTable, Int32s, Int64s
from weir.index.joining import kinds
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.checks import Checks, Remaining, make_checks
from weir.index.meeting.index_contract import Indexing, StoredIndex
from weir.index.meeting.planes import Plane
from weir.index.samples import Sample
from weir.index.stabbing import canonical
from weir.index.trees.partial_index import PartialIndex
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_layout import Ages

T = TypeVar("T")
_NO_ATTRIBUTE: Int32s = np.empty(0, np.int32)
_REACH_BITS, _REACH_CLASSES = 4, 8  # windows within a factor of 16 are together, and at most so many classes of them
_NO_BOUND: Int64s = np.empty(0, np.int64)
# The arrays of a plane as an index names them, and those of the same plane with its axes exchanged.
_EXCHANGED = {
    "plane_a_lo": "plane_c_lo",
    "plane_a_hi": "plane_c_hi",
    "plane_c_lo": "plane_a_lo",
    "plane_c_hi": "plane_a_hi",
}
_SHARED = {"plane_c_lo": "plane_c_lo", "plane_c_hi": "plane_c_hi"}  # of the planes of a difference


@dataclass(frozen=True, eq=False)
class Part:
    """The boxes of all slots with the same access attributes."""

    access: tuple[int, int]  # attribute of each side, −1 for none
    checked: tuple[tuple[int, ...], tuple[int, ...]]  # attributes of each side that are checked
    difference: int  # number among the attributes of pairs through which queries are reached, −1 for none
    indexes: tuple[StoredIndex, StoredIndex]  # by the side of the events
    remaining: tuple[Remaining | None, Remaining | None]  # by side; None: nothing is left to check
    slot_of_box: Int32s  # int32[n]
    conditions: Remaining | None  # on attributes of pairs
    apart: TimeBounds | None  # of each box: bounds of t0 − t1; None: all have the same
    tightest: tuple[int, int]  # the greatest lower and the least upper bound
    widest: tuple[int, int]  # the least lower and the greatest upper one
    points: tuple[Int64s, Int64s]  # by the side of the events: what stabs the partners' intervals, if times are bounded
    partial: tuple[PartialIndex | None, PartialIndex | None]  # by the side of the events; None where there is none

    def can_meet(self, least: int, greatest: int) -> bool:
        """Whether any box may show a pair whose t0 − t1 lies in least..greatest."""
        return self.widest[0] <= greatest and least <= self.widest[1]

    def is_timed(self, least: int, greatest: int) -> bool:
        """Whether times need to be checked at all of pairs whose t0 − t1 lies in least..greatest."""
        return least < self.tightest[0] or greatest > self.tightest[1]

    def checks(self, side: int, timed: bool) -> Checks:
        """What is checked when events come on `side`; with times or without."""
        if (side, timed) not in self._checks:
            count = len(self.slot_of_box)
            # Where nothing is checked kernels read nothing, and zeros that nobody reads take no memory.
            none = Remaining(np.zeros(count + 1, np.int64), _NO_ATTRIBUTE, _NO_BOUND, _NO_BOUND)
            event, partner = (self.remaining[k] or none for k in (side, 1 - side))
            apart = TimeBounds(*np.zeros((2, count), np.int64))
            if timed:
                apart = self.apart or TimeBounds(*(np.full(count, bound, np.int64) for bound in self.tightest))
            # Conditions are of boxes, so pairs are needed by box.
            slots = self.slot_of_box if self.conditions is None else np.arange(count, dtype=np.int32)
            self._checks[side, timed] = make_checks(event, partner, slots, seen_from(side, *apart), is_timed=timed)
        return self._checks[side, timed]

    def windows(self, side: int) -> WindowIndex | None:
        """The index of its boxes by age too, for events of `side`; None if it has none."""
        if side not in self._windows:
            self._windows[side] = None
            listed = self.indexes[side].listed
            if listed is not None and len(self.points[side]):
                checks = self.checks(side, True)
                ages = Ages(checks.apart_lo, checks.apart_hi)
                self._windows[side] = WindowIndex.sharing(listed, self.points[side], ages)
        return self._windows[side]

    @cached_property
    def _windows(self) -> dict[int, WindowIndex | None]:
        return {}

    @cached_property
    def _checks(self) -> dict[tuple[int, bool], Checks]:
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays; the plane, which both indexes have, once."""
        found: dict[str, np.ndarray] = {"slot_of_box": self.slot_of_box}
        if self.conditions is not None:
            found |= {f"conditions.{name}": array for name, array in self.conditions._asdict().items()}
        if self.apart is not None:
            found |= {f"apart.{name}": array for name, array in self.apart._asdict().items()}
        for side in (0, 1):
            left = self.remaining[side]
            if left is not None:
                found |= {f"remaining.{side}.{name}": array for name, array in left._asdict().items()}
            found |= {f"index.{side}.{name}": array for name, array in self.indexes[side].arrays().items()}
            found[f"points.{side}"] = self.points[side]
            if (partial := self.partial[side]) is not None:
                found |= {f"partial.{side}.{name}": array for name, array in partial.arrays().items()}
        for own in _EXCHANGED if self.difference < 0 else _SHARED:
            del found[f"index.1.{own}"]
        return found

    def meta(self) -> dict[str, Any]:
        return {
            "access": list(self.access),
            "difference": self.difference,
            "checked": [list(numbers) for numbers in self.checked],
            "tightest": list(self.tightest),
            "widest": list(self.widest),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Part:
        first, second = meta["access"]
        straight, turned = below(arrays, "index.0."), below(arrays, "index.1.")
        is_band = meta["difference"] >= 0
        turned |= {own: straight[other] for own, other in (_SHARED if is_band else _EXCHANGED).items()}
        indexes = two(_kind(meta["difference"]).from_arrays(index) for index in (straight, turned))
        trees = [below(arrays, f"partial.{side}.") for side in (0, 1)]
        return cls(
            (first, second),
            two(tuple(numbers) for numbers in meta["checked"]),
            meta["difference"],
            indexes,
            two(_read(Remaining, below(arrays, f"remaining.{side}.")) for side in (0, 1)),
            arrays["slot_of_box"],
            _read(Remaining, below(arrays, "conditions.")),
            _read(TimeBounds, below(arrays, "apart.")),
            two(meta["tightest"]),
            two(meta["widest"]),
            (arrays["points.0"], arrays["points.1"]),
            two(PartialIndex.restored(indexes[s].plane, trees[s]) if trees[s] else None for s in (0, 1)),
        )


def _kind(difference: int) -> type[StoredIndex]:
    """The index of parts that are reached through this difference, or through none."""
    return kinds.INDEXES["select" if difference < 0 else "band"]


def _read(kind: Callable[..., T], arrays: Mapping[str, np.ndarray]) -> T | None:
    """A tuple of arrays by their names; None if they were not written."""
    return kind(**arrays) if arrays else None


class Sides:
    """Attributes split by side, those of pairs (BOTH) as a third one, and numbered within it."""

    def __init__(self, expressions: Sequence[Expression], times: tuple[str, str]) -> None:
        self.side = np.array([side_of(e) for e in expressions], np.int64)  # int64[k]: of each attribute
        self.number = np.zeros(len(expressions), np.int64)  # int64[k]: within its side
        self.times = [_time_form(e, times) for e in expressions]  # of each attribute
        self.differences = [difference_of(e) for e in expressions]  # of each attribute
        home: tuple[list[Expression], list[Expression], list[Expression]] = ([], [], [])
        for k, e in enumerate(expressions):
            mine = home[self.side[k]]
            self.number[k] = len(mine)
            mine.append(e if self.side[k] == BOTH else on_side(e, {0: 0, 1: 0}))
        self.expressions = home


def _time_form(e: Expression, times: tuple[str, str]) -> str:
    """How an attribute of pairs is made of their two times, which are the columns `times`; "" if it is not."""
    if not (isinstance(e, Arithmetic) and e.op == "-"):
        return ""
    first, second = e.left, e.right
    if not (isinstance(first, ColumnRef) and isinstance(second, ColumnRef) and first.source != second.source):
        return ""
    if any(c.name != times[c.source] for c in (first, second)):
        return ""
    return "t0 - t1" if first.source == 0 else "t1 - t0"


def accesses_of(
    boxes: RowBoxes, slots_count: int, sides: Sides, *, has_keys: bool, sample: Sample | None = None
) -> Ints:
    """int64[n_slots, 3]: through which attribute of each side, and which difference, a slot is reached; −1 for none."""
    timed = np.array([bool(form) for form in sides.times], bool)
    fit = np.array(
        [side != BOTH or of is not None for side, of in zip(sides.side, sides.differences, strict=True)], bool
    )
    # Times are compared anyway, so queries are reached through them only where there is nothing better.
    chosen = choose_accesses(boxes, slots_count, np.where(fit & ~(timed & has_keys), sides.side, -1), sample)
    if has_keys and timed.any():
        bare = (chosen[:, 2] < 0) & ((chosen[:, 0] < 0) | (chosen[:, 1] < 0))
        chosen[bare, 2] = choose_accesses(boxes, slots_count, np.where(timed, sides.side, -1))[bare, 2]
    return chosen


def build_parts(boxes: RowBoxes, bounds: TimeBounds, chosen: Ints, sides: Sides, how: Indexing) -> list[Part]:
    """The boxes by the access attributes of their slots, and by how far apart in time their rows may be."""
    slots_count = len(chosen)
    keys = np.column_stack([chosen, _reach_classes(boxes, bounds, slots_count, sides)])[boxes.row_of_box]
    kinds, part_of_box = np.unique(keys, axis=0, return_inverse=True)
    return [
        _part(boxes, np.flatnonzero(part_of_box.ravel() == k), kinds[k].tolist(), bounds, sides, how)
        for k in range(len(kinds))
    ]


class _Constraints(NamedTuple):
    """What some boxes ask for, box by box."""

    boxes_count: int
    box: Ints  # int64[c], ascending: which of the boxes
    attribute: Ints  # int64[c]
    lo: Ints  # int64[c]
    hi: Ints  # int64[c]

    @classmethod
    def of(cls, boxes: RowBoxes, mine: Ints) -> _Constraints:
        """Those of the boxes `mine`, which ascend."""
        counts = np.diff(boxes.constraint_offsets)[mine]
        box = np.repeat(np.arange(len(mine)), counts)
        first = np.cumsum(counts) - counts
        at = np.repeat(boxes.constraint_offsets[mine] - first, counts) + np.arange(len(box))
        return cls(len(mine), box, boxes.constraint_attribute[at], boxes.constraint_lo[at], boxes.constraint_hi[at])

    def span(self, attribute: int) -> tuple[Ints, Ints]:
        """The bounds on an attribute that every box constrains; without one also a NULL is inside."""
        if attribute < 0:
            count = self.boxes_count
            return np.full(count, NULL_KEY, np.int64), np.full(count, KEY_MAX, np.int64)
        at = np.flatnonzero(self.attribute == attribute)
        assert np.array_equal(self.box[at], np.arange(self.boxes_count)), "every box constrains what it is reached by"
        return self.lo[at], self.hi[at]

    def remaining(self, at: Ints, numbers: Ints) -> Remaining | None:
        """Some of the constraints, with these numbers for their attributes; None if there are none."""
        offsets = np.zeros(self.boxes_count + 1, np.int64)
        np.cumsum(np.bincount(self.box[at], minlength=self.boxes_count), out=offsets[1:])
        return Remaining(offsets, numbers.astype(np.int32), self.lo[at], self.hi[at]) if len(at) else None

    def narrow(self, own: TimeBounds, at: Ints, sides: Sides) -> Bools:
        """Which of some constraints are about times; these narrow the bounds of their boxes."""
        taken = np.zeros(len(at), bool)
        for number in np.unique(self.attribute[at]).tolist():
            form = sides.times[number]
            if not form:
                continue
            mine = self.attribute[at] == number
            box, least, most = (column[at[mine]] for column in (self.box, self.lo, self.hi))
            if form == "t1 - t0":
                least, most = np.where(most == KEY_MAX, KEY_MIN, -most), np.where(least == KEY_MIN, KEY_MAX, -least)
            own.lo[box] = np.maximum(own.lo[box], least)
            own.hi[box] = np.minimum(own.hi[box], most)
            taken |= mine
        return taken


def _reach_classes(boxes: RowBoxes, bounds: TimeBounds, slots_count: int, sides: Sides) -> Ints:
    """int64[n_slots]: 0 if its rows may be nearly as far apart as any, more if they must be much nearer.

    Queries with short windows then do not look at rows that only those with long ones can show.
    """
    own = TimeBounds(bounds.lo[boxes.row_of_box], bounds.hi[boxes.row_of_box])
    asked = _Constraints.of(boxes, np.arange(len(boxes.row_of_box)))
    asked.narrow(own, _paired(asked, sides), sides)
    far = np.where((own.lo == KEY_MIN) | (own.hi == KEY_MAX), 2.0**62, own.hi.astype(np.float64) - own.lo)
    reach = np.zeros(slots_count)
    np.maximum.at(reach, boxes.row_of_box, np.log2(np.maximum(far, 1.0)))
    nearer = reach.max(initial=0.0) - reach
    classes: Ints = np.clip(nearer // _REACH_BITS, 0, _REACH_CLASSES - 1).astype(np.int64)
    return classes


def _paired(asked: _Constraints, sides: Sides) -> Ints:
    """The constraints on attributes of pairs."""
    return np.flatnonzero(sides.side[asked.attribute] == BOTH) if len(asked.attribute) else np.empty(0, np.int64)


def _part(
    boxes: RowBoxes,
    mine: Ints,
    chosen: Sequence[int],
    bounds: TimeBounds,
    sides: Sides,
    how: Indexing,
) -> Part:
    """The part of the boxes `mine`, which ascend, with the access attributes and the difference chosen."""
    access, difference = two(chosen[:2]), chosen[2]
    asked = _Constraints.of(boxes, mine)
    spans = [asked.span(number) for number in access]
    left: list[Remaining | None] = []
    checked: list[tuple[int, ...]] = []
    dims: list[list[int]] = []  # attributes by side, that through which boxes are reached first
    for side in (0, 1):
        # Of a difference's part, what an event is reached through is checked of partners, so it is kept for both.
        is_left = asked.attribute != access[side] if difference < 0 else np.ones(len(asked.attribute), bool)
        rest = np.flatnonzero((sides.side[asked.attribute] == side) & is_left)
        named, place = np.unique(asked.attribute[rest], return_inverse=True)
        left.append(asked.remaining(rest, place))
        checked.append(tuple(sides.number[named].tolist()))
        dims.append([access[side], *named.tolist()])
    slots = boxes.row_of_box[mine]
    own = TimeBounds(bounds.lo[slots], bounds.hi[slots])
    paired = _paired(asked, sides)
    taken = asked.narrow(own, paired, sides) | (asked.attribute[paired] == difference)
    evaluated = paired[~taken]
    if difference < 0:
        planes = two((Plane(*spans[0], *spans[1]), Plane(*spans[1], *spans[0])))
    else:
        of = sides.differences[difference]
        assert of is not None
        planes = two(Plane(*span, *asked.span(difference)) for span in spans)
        how = how._replace(is_double=of.is_double)
    indexes = two(_kind(difference).over(plane, how) for plane in planes)
    tightest, widest = (int(own.lo.max()), int(own.hi.min())), (int(own.lo.min()), int(own.hi.max()))
    points = two((_NO_BOUND, _NO_BOUND))
    if difference < 0 and (tightest[0] > KEY_MIN or tightest[1] < KEY_MAX):
        points = two(canonical(plane.c_lo, plane.c_hi).points for plane in planes)
    return Part(
        two(-1 if n < 0 else int(sides.number[n]) for n in access),
        two(checked),
        -1 if difference < 0 else int(sides.number[difference]),
        indexes,
        two(left),
        slots.astype(np.int32),
        asked.remaining(evaluated, sides.number[asked.attribute[evaluated]]),
        None if tightest == widest else own,
        tightest,
        widest,
        points,
        (None, None) if difference >= 0 else two(_partial(asked, planes[s], dims[s], dims[1 - s], how) for s in (0, 1)),
    )


def _partial(
    asked: _Constraints, plane: Plane, own: Sequence[int], others: Sequence[int], how: Indexing
) -> PartialIndex | None:
    """The index of boxes by all their attributes, for events of the side whose attributes are `own`; None without one.

    Attributes of pairs are left to others.
    """
    if how.partial is False:
        return None
    number = np.full(max([int(asked.attribute.max(initial=-1)), *own, *others]) + 1, -1)
    for place, named in enumerate((*own, *others)):
        if named >= 0:  # without one, every box is reached
            number[named] = place
    known = np.flatnonzero(number[asked.attribute] >= 0) if len(asked.attribute) else np.empty(0, np.int64)
    known = known[np.lexsort((number[asked.attribute[known]], asked.box[known]))]
    offsets = np.zeros(asked.boxes_count + 1, np.int64)
    np.cumsum(np.bincount(asked.box[known], minlength=asked.boxes_count), out=offsets[1:])
    slots = np.arange(asked.boxes_count, dtype=np.int32)
    attribute = number[asked.attribute[known]].astype(np.int32)
    table = BoxTable(slots, offsets, attribute, asked.lo[known], asked.hi[known])
    return PartialIndex.where_it_pays(plane, table, len(own), len(own) + len(others), always=how.partial is True)


def below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def two(items: Iterable[T]) -> tuple[T, T]:
    """Exactly two things: one for each side."""
    first, second = items
    return first, second
