"""Query-outer with a ladder over the partners: every box goes to the cell of its lo, and on from there."""

from __future__ import annotations

import numpy as np

from weir.index.bands.band_layout import SHORT, BandPoint, Bands, first_lo
from weir.index.box_tables import Int32s
from weir.index.jit import Scalar
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.instructions import double_of, word_at
from weir.index.meeting.lean import lean
from weir.index.meeting.partner_runs import PartnerRun, difference, walk


@lean
def climb_boxes(bands: Bands, run: PartnerRun, point: BandPoint, found: Int32s) -> Scalar:
    """Query-outer with a ladder: each box goes to the cell of its lo, or to the one before, and on from there.

    Of each class only boxes are looked at that can reach the partners at all.
    """
    a, offset, end = point.a, point.offset, point.end
    least = difference(run.values[point.begin], offset, run.is_double)
    greatest = difference(run.values[end - 1], offset, run.is_double)
    used = np.int64(0)
    for k in range(len(bands.longest)):
        first, last = bands.classes[k], bands.classes[k + 1]
        longest = bands.longest[k]
        if longest < KEY_MAX and least >= KEY_MIN + longest:
            first = first_lo(bands.lo, first, last, least - longest)
        if greatest < KEY_MAX:
            last = first_lo(bands.lo, first, last, greatest + 1)
        if run.units[1] == 1 and longest < SHORT:
            used = _look_at_bits(bands, run, offset, least, first, last, found, used)
        elif run.units[1] == 1:
            used = _climb_units(bands, run, offset, least, end, first, last, found, used)
        else:
            used = _climb_cells(bands, run, offset, end, first, last, found, used)
    if len(bands.a_lo) == 0:
        for i in range(used):
            found[i] = bands.boxes[found[i]]
        return used
    kept = 0
    for i in range(used):
        place = found[i]
        found[kept] = bands.boxes[place]
        kept += bands.a_lo[place] <= a and a <= bands.a_hi[place]
    return kept


@lean
def _look_at_bits(
    bands: Bands,
    run: PartnerRun,
    offset: Scalar,
    least: Scalar,
    first: Scalar,
    last: Scalar,
    found: Int32s,
    used: Scalar,
) -> Scalar:
    """Places of the boxes first .. last with a partner, where every number has a bit, and intervals are short."""
    lo, hi, masks, bits = bands.lo, bands.hi, bands.aids, run.bits
    shift = offset - run.units[0]
    whole = first_lo(lo, first, last, least)
    for place in range(first, whole):  # they begin below all partners
        ahead = word_at(bits, np.uint64(0)) >> np.uint64(1)  # cell 0 is that of the number before the first
        reach = hi[place] - least
        found[used] = place
        used += reach >= 0 and (ahead & ((np.uint64(2) << np.uint64(max(reach, 0))) - np.uint64(1))) != np.uint64(0)
    out = np.uint64(used)
    for place in range(np.uint64(whole), np.uint64(last)):
        cell = np.uint64(lo[place] + shift)
        ahead = word_at(bits, cell >> np.uint64(3)) >> (cell & np.uint64(7))
        found[out] = place
        out += np.uint64((ahead & np.uint64(masks[place])) != np.uint64(0))
    return np.int64(out)


@lean
def _climb_units(
    bands: Bands,
    run: PartnerRun,
    offset: Scalar,
    least: Scalar,
    end: Scalar,
    first: Scalar,
    last: Scalar,
    found: Int32s,
    used: Scalar,
) -> Scalar:
    """The same for intervals of any length, by the cells of their lo."""
    lo, hi, cells, values = bands.lo, bands.hi, run.cells, run.values
    shift = offset - run.units[0]
    at_end = np.uint32(end)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        at = np.uint32(cells[np.uint64(max(lo[place], least) + shift)])
        found[out] = place
        out += np.uint64((at < at_end) & (values[np.uint64(at)] - offset <= hi[place]))
    return np.int64(out)


@lean
def _climb_cells(
    bands: Bands, run: PartnerRun, offset: Scalar, end: Scalar, first: Scalar, last: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """The same where cells are found by floating point."""
    lo, hi, aids = bands.lo, bands.hi, bands.aids
    values, cells, is_double = run.values, run.cells, run.is_double
    number = double_of(offset) if is_double else 0.0
    factor, shift = run.scale[0], run.scale[1]
    top = np.float64(len(cells) - 1)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        least = lo[place]
        if is_double:
            near = (double_of(aids[place]) + number) * factor + shift
        else:  # whole numbers are added before they are rounded; a sum that leaves int64 is beyond all partners
            moved = least + offset
            left = (least ^ moved) & (offset ^ moved) < 0
            near = np.float64(moved) * factor + shift if not left else top if offset > 0 else 0.0
        at = np.int64(cells[np.uint64(min(max(near, 0.0), top))]) if near == near else np.int64(0)
        if at > 0 and difference(values[np.uint64(at - 1)], offset, is_double) >= least:
            at = walk(run, at, end, least, offset)
        d = difference(values[np.uint64(at)], offset, is_double)
        while d < least and at < end:
            at += 1
            d = difference(values[np.uint64(at)], offset, is_double)
        found[out] = place
        out += np.uint64((at < end) & (d <= hi[place]))
    return np.int64(out)
