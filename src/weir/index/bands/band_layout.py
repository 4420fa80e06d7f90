"""The layout of a band-join index: boxes in classes by the widths of their intervals and, within a class, by lo.

All strategies work on it (`weir.index.bands.band_strategies`); how it is built is said in `band_index`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.histograms import Floats
from weir.index.jit import Scalar
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.lean import lean
from weir.index.searches import halved

SHORT = 56  # intervals shorter than this are looked for in one word of bits
WIDE = (1 << 31) - 1  # a width that stands for itself and all greater ones


class Bands(NamedTuple):
    """Boxes by class of width and, within a class, by ascending lo; and in stabbing groups."""

    lo: Int64s  # int64[n]: least key of the difference
    hi: Int64s  # int64[n]: greatest
    aids: Int64s  # int64[n]: of doubles lo as a number, its bits; of whole numbers, bits for a short interval's
    boxes: Int32s  # int32[n]: the box
    near: Int64s  # int64[2n]: lo, then in its upper half hi − lo, or WIDE, and in its lower the box: what partners see
    a_lo: Int64s  # int64[n], or empty if no box constrains a
    a_hi: Int64s
    marks: Int64s  # int64[c−1]: ascending keys of a that part its cells
    cells: Int32s  # int32[c+1]: the entries of each cell; empty if a is not selective
    entries: Int32s  # int32[·]: places of the boxes whose a-interval meets the cell
    classes: Int64s  # int64[k+1]: the boxes of class i are classes[i] .. classes[i+1]
    longest: Int64s  # int64[k]: the longest interval of a class, in keys
    steps: Int32s  # int32[·]: ladders over the lo of each class: the first place of each cell, counted within the class
    step_offsets: Int64s  # int64[k+1]: where those of class i begin
    step_scale: Floats  # float64[k, 2]: cell = lo · scale[0] + scale[1]
    group_offsets: Int64s  # int64[g+1]
    low: Int32s  # int32[n]: places of the boxes of each group, by ascending lo
    high: Int32s  # int32[n]: the same by descending hi
    points: Int64s  # int64[g]: what stabs the group, ascending
    lowest: Int64s  # int64[g]: its least lo
    highest: Int64s  # int64[g]: its greatest hi
    numbers: Int32s  # int32[g]: 0, 1, …: all groups
    hot: Int32s  # int32[η]: the hotspots
    scattered: Int32s  # int32[·]: places of the boxes of other groups, ascending


class BandPoint(NamedTuple):
    """An event as the strategies see it."""

    a: Scalar  # key of its own attribute
    offset: Scalar  # what it brings to differences, as runs have it
    begin: Scalar
    end: Scalar  # its partners are the places begin .. end


@lean
def least_lo(d: Scalar, longest: Scalar) -> Scalar:
    """The least lo of a box that may contain d, in a class whose longest interval is given.

    The class of the longest has intervals with open ends, and such that are too long for int64.
    """
    return d - longest if longest < KEY_MAX and d >= KEY_MIN + longest else np.int64(KEY_MIN)


@lean
def first_lo(lo: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The first place of a class whose lo is not below `key`."""
    return halved(lo, first, last - first, key, False)
