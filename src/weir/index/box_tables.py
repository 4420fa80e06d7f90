"""Boxes: what a predicate becomes, and what a search over boxes returns.

A box is a conjunction of closed intervals over order-preserving int64 keys, at most one for an attribute; a
slot (the place of a query in a segment) has any number of boxes and matches an event that lies in one of
them. Open bounds are closed ones here because keys are integers. OR, IN and <> give several boxes of one
slot, so a search must remove duplicates for each (event, slot), or bag semantics would break.

Invariants, checked by `check`: slots nondecreasing over boxes; attributes strictly ascending within a box;
KEY_MIN <= lo <= hi. An attribute that is NULL (NULL_KEY) satisfies no constraint; a box without constraints
matches every event; a slot without boxes matches none.

Size: 4 bytes a box, 8 for its offset, 20 a constraint. DESIGN.md section 2; CSJQ section 3 has the geometry.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from weir.index.keys import KEY_MIN

T = TypeVar("T", bound=np.generic)
S = TypeVar("S", bound=tuple[Any, ...])
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint8s = npt.NDArray[np.uint8]


class BoxTable(NamedTuple):
    """Boxes of a segment's queries in CSR form, ordered by slot."""

    slot_of_box: Int32s  # int32[b]: nondecreasing
    constraint_offsets: Int64s  # int64[b+1]: the constraints of box i are offsets[i] .. offsets[i+1]
    constraint_attribute: Int32s  # int32[c]: strictly ascending within a box
    constraint_lo: Int64s  # int64[c]: least key that satisfies the constraint
    constraint_hi: Int64s  # int64[c]: greatest key that satisfies it


class Matches(NamedTuple):
    """The slots that each event matches: CSR by event."""

    offsets: Int64s  # int64[n_events+1]
    slots: Int32s  # int32[pairs]: ascending and unique within an event


class OverBudget(NamedTuple):
    """The batch has more pairs than allowed: how many events each slot would match."""

    counts: Int64s  # int64[n_slots]: 0 for muted slots
    is_shared: bool = False  # what is too much is not of single slots, but of all of them together


def check(table: BoxTable, n_slots: int, n_attributes: int) -> BoxTable:
    """`table` with contiguous, read-only arrays of the stated types; a broken invariant is our own mistake."""
    slot_of_box = np.ascontiguousarray(table.slot_of_box, dtype=np.int32)
    offsets = np.ascontiguousarray(table.constraint_offsets, dtype=np.int64)
    attribute = np.ascontiguousarray(table.constraint_attribute, dtype=np.int32)
    lo = np.ascontiguousarray(table.constraint_lo, dtype=np.int64)
    hi = np.ascontiguousarray(table.constraint_hi, dtype=np.int64)
    n_boxes, n_constraints = len(slot_of_box), len(attribute)
    assert len(offsets) == n_boxes + 1, f"{n_boxes} boxes need {n_boxes + 1} offsets, got {len(offsets)}"
    assert len(lo) == n_constraints, f"{n_constraints} attributes, but {len(lo)} lower bounds"
    assert len(hi) == n_constraints, f"{n_constraints} attributes, but {len(hi)} upper bounds"
    assert offsets[0] == 0, "constraints start at 0"
    assert offsets[-1] == n_constraints, f"offsets end at {offsets[-1]}, not at {n_constraints}"
    assert bool(np.all(offsets[1:] >= offsets[:-1])), "offsets are nondecreasing"
    if n_boxes:
        assert slot_of_box[0] >= 0, "slots are not negative"
        assert slot_of_box[-1] < n_slots, f"slot {slot_of_box[-1]} of {n_slots}"
        assert bool(np.all(slot_of_box[1:] >= slot_of_box[:-1])), "slots are nondecreasing over boxes"
    if n_constraints:
        assert attribute.min() >= 0, "attributes are not negative"
        assert attribute.max() < n_attributes, f"attribute {attribute.max()} of {n_attributes}"
        assert bool(np.all(lo <= hi)), "an interval is not empty"
        assert lo.min() >= KEY_MIN, "no interval contains NULL"
        begins_box = np.zeros(n_constraints, dtype=np.bool_)
        begins_box[offsets[:-1][offsets[:-1] < offsets[1:]]] = True
        ascending = attribute[1:] > attribute[:-1]
        assert bool(np.all(ascending | begins_box[1:])), "attributes are strictly ascending within a box"
    return frozen(BoxTable(slot_of_box, offsets, attribute, lo, hi))


def check_events(keys: Int64s, muted: Uint8s, n_slots: int, n_attributes: int) -> tuple[Int64s, Uint8s]:
    """The arguments of a search with one layout, so that kernels are compiled once."""
    keys = np.ascontiguousarray(keys, dtype=np.int64)
    muted = np.ascontiguousarray(muted, dtype=np.uint8)
    assert keys.ndim == 2, f"keys are [attribute, event], got {keys.ndim} dimensions"
    assert keys.shape[0] == n_attributes, f"keys of {keys.shape[0]} attributes, the index has {n_attributes}"
    assert muted.shape == (n_slots,), f"muted has shape {muted.shape}, the index has {n_slots} slots"
    return read_only(keys), read_only(muted)


def read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """A read-only view: memory-mapped or not, kernels see one type of array and are compiled once."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def frozen(structure: S) -> S:
    """A NamedTuple of arrays, or of such tuples, with every array read-only."""

    def part(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return read_only(value)
        return frozen(value) if isinstance(value, tuple) else value

    return cast(S, cast(Any, type(structure))(*(part(value) for value in structure)))
