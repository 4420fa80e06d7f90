"""Costs: what one event costs under each strategy, in nanoseconds, as a linear model (SSI, 4.1).

cost[s] = Σ_k terms[s, k] · x[s, k], where x follows from what the router knows of an event and `terms` is fitted. Let
|S| be the rows on the partners' side, |Q| the boxes, |Qs| the scattered ones, m' the event's partners, n' the boxes
whose a-interval contains it, n" the scattered ones among them, τ the number of stabbing groups, η of hotspots and κ of
width classes (the lists that an event visits). A run is coded if it is short (m^ = m' up to CODED_MAX partners, else
0) or the strategy needs that; ω is the number of codes of c, 2^λ. With log for log2(1 + …), the columns x[s, k] are

    k  name      vanilla     join-first  select-first  ssi          hotspot            sweep
    0  event     1           1           1             1            1                  1
    1  rows      log|S|      log|S|      log|S|        log|S|       log|S|             log|S|
    2  boxes     ·           log|Q|      log|Q|        log|Q|       log|Qs|            log|Q|
    3  lookups   |Q|·log m'  ·           n'·log m'     ·            n"·log m'          ·
    4  turns     ·           ·           min(n', m')   τ·log m'     min(n", m')        min(n', m')
    5  probes    ·           m'·√|Q|     ·             Σ√|group|    Σ√|hotspot|        m'·√|Q|
    6  touched   |Q|         n'·m'·ρ     n'            n'·μ(m')     (n' − n")·μ(m')    n'·σ(m')
    7  visits    n'·log m'   κ·m'        κ             τ            η                  κ·m'
    8  coded     ·           m'·λ        m^·λ          ·            m^·λ               m'·λ
    9  selected  ·           δ·κ·m'      ·             n'           n"                 δ·κ·m'
   10  unsure    ·           δ·n'·m'/ω   n' if m^ = 0  δ·n'·m'/ω    n" if m^ = 0       δ·n'·m'/ω
   11  reached   ·           κ           ·             ν(m')        ν(m')              κ
   12  doubted   ·           δ·n'·m'·ρ   δ·n'          δ·n'·μ(m')   δ·n"               δ·n'·σ(m')

Every formula of the paper is a row of this with some columns 0: C_J is columns 1 and 5, C_S and C_V are columns 1, (2)
and 3, C_H is columns 1, 2, 3 and 5. The others are there because the structures differ from the paper's. A run of
partners is given and not looked up in a B-tree, so |S| tells only how cold its memory is; but partners are *coded*.
Rectangles are not in an R-tree: a visit to a list looks at the same number of words for any |Q|, and √|Q| is how cold
they are; and boxes of a list are *touched* faster than one of them is looked up in a run. Boxes are looked up in the
order of c_lo, so the processor foresees the way unless it *turns*, which it does for a partner or for a box, whichever
are fewer. ρ is the share of its list that one partner
touches, that is, how far the c-intervals of a class reach; σ(m') = Σ min(1, m'·ρ) over classes is the share that m'
partners touch at least once. If codes leave doubts (δ = 1, else 0), both cost more, and boxes that share a
partner's code are *unsure* and cost a look at their keys, as do all whose run is not coded. A group is passed over
unless a partner lies between its least and greatest bound, a share w of all c: ν(m') = Σ min(1, m'·w) of the groups
(hotspots) are *reached*, with the share μ(m') of their boxes. Which columns a strategy really has, the fit says
(`weir.runtime.calibration`); the weights in the rows of `weir.index.joins.join_strategies` are such a fit.

Cost: `describe` is linear in the number of groups and done once an index; `prepare` multiplies out what is the same for
all events of a search, in some 20 µs; then an event costs about 15 ns (`event_costs`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, read_only
from weir.index.histograms import Floats
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.meeting.codes import Codes, n_codes
from weir.index.meeting.lists import Lists, reach_of_classes
from weir.index.meeting.planes import Plane

VANILLA, JOIN_FIRST, SELECT_FIRST, SSI, HOTSPOT, SWEEP = range(6)  # rows, in the order of join_strategies.STRATEGIES
N_STRATEGIES = 6
TERMS = (
    "event",
    "rows",
    "boxes",
    "lookups",
    "turns",
    "probes",
    "touched",
    "visits",
    "coded",
    "selected",
    "unsure",
    "reached",
    "doubted",
)
N_TERMS = 13
CODED_MAX = 256  # partners of a run that is coded so that boxes can be looked up in it

_TRIED_RUNS = (1, 8, 64, 256, 1_024)  # partners of an event
_TRIED_ROWS = 100_000
_CLEARLY = 1.25  # by so much a strategy must be cheaper to be worth structures of its own

_STEPS = 4  # places of a table over m' for a doubling of it
_N_PLACES = 32 * _STEPS
_LOGS = np.log2(1.0 + np.arange(512))
_N_FACTORS = 31  # numbers of `prepare` before the tables


class JoinDescription(NamedTuple):
    """What the model knows of an index."""

    n_boxes: float  # |Q|
    n_scattered: float  # |Qs|
    n_hotspots: float  # η
    hot_root_sum: float  # Σ√|hotspot|
    n_groups: float  # τ
    group_root_sum: float  # Σ√|group|
    n_classes: float  # κ
    reach: float  # ρ
    n_codes: float  # ω
    doubt: float  # δ
    tables: Floats  # float64[5, ·]: σ, ν and μ of all groups, ν and μ of the hotspots; by log2(1 + m')


class Groups(NamedTuple):
    """What the model needs to know of stabbing groups."""

    lowest: Int64s  # int64[g]: least c_lo
    highest: Int64s  # int64[g]: greatest c_hi
    sizes: Int64s  # int64[g]: boxes
    hot: Int32s  # int32[η]: which are hotspots


def describe(plane: Plane, of: Codes, lists: Lists, groups: Groups, n_scattered: int) -> JoinDescription:
    """What the model needs to know of an index, whose stabbing sets may not be built."""
    codes = n_codes(of.c)
    share, reach = reach_of_classes(lists, codes)
    bounds = np.concatenate((plane.c_lo[plane.c_lo > KEY_MIN], plane.c_hi[plane.c_hi < KEY_MAX]))
    least, greatest = (float(bounds.min()), float(bounds.max())) if len(bounds) else (0.0, 0.0)
    tables = [_reached(reach, share)]
    for which in (np.arange(len(groups.sizes)), groups.hot):
        low = np.maximum(groups.lowest[which].astype(np.float64), least)
        high = np.minimum(groups.highest[which].astype(np.float64), greatest)
        width = np.clip((high - low) / max(greatest - least, 1.0), 0.0, 1.0)
        sizes = groups.sizes[which]
        tables += [_reached(width, np.ones(len(width))), _reached(width, sizes / max(int(sizes.sum()), 1))]
    return JoinDescription(
        float(len(plane.a_lo)),
        float(n_scattered),
        float(len(groups.hot)),
        float(np.sqrt(groups.sizes[groups.hot]).sum()),
        float(len(groups.sizes)),
        float(np.sqrt(groups.sizes).sum()),
        float(len(share)),
        float(share @ reach),
        float(codes),
        float(of.doubt[0]),
        np.stack(tables),
    )


def _reached(widths: Floats, weights: Floats) -> Floats:
    """Σ weight · min(1, m'·width) for the places of a table: those wide enough count whole, the others by m'."""
    order = np.argsort(widths)
    widths, weights = widths[order], weights[order]
    partners = 2.0 ** (np.arange(_N_PLACES) / _STEPS) - 1.0
    narrow = np.searchsorted(widths, 1.0 / np.maximum(partners, 1e-9))
    of_narrow = np.concatenate(([0.0], np.cumsum(weights * widths)))
    of_all = np.concatenate(([0.0], np.cumsum(weights)))
    return np.asarray(partners * of_narrow[narrow] + of_all[-1] - of_all[narrow], dtype=np.float64)


def prepare(weights: Floats, of: JoinDescription, m_rows: int) -> Floats:
    """Weights and what is fixed multiplied out, for `event_costs`: the factors of an event's own m', n' and n"."""
    w = weights
    log_boxes, log_codes = math.log2(1.0 + of.n_boxes), math.log2(1.0 + of.n_codes)
    base = w[:, 0] + w[:, 1] * math.log2(1.0 + m_rows)
    base[1:] += w[1:, 2] * log_boxes
    base[VANILLA] += w[VANILLA, 6] * of.n_boxes
    base[JOIN_FIRST] += w[JOIN_FIRST, 11] * of.n_classes
    base[SELECT_FIRST] += w[SELECT_FIRST, 7] * of.n_classes
    base[SSI] += w[SSI, 5] * of.group_root_sum + w[SSI, 7] * of.n_groups
    base[HOTSPOT] += w[HOTSPOT, 2] * (math.log2(1.0 + of.n_scattered) - log_boxes)
    base[HOTSPOT] += w[HOTSPOT, 5] * of.hot_root_sum + w[HOTSPOT, 7] * of.n_hotspots
    base[SWEEP] += w[SWEEP, 11] * of.n_classes
    root_boxes = math.sqrt(of.n_boxes)
    touched, unsure = w[:, 6] + w[:, 12] * of.doubt, w[:, 10] * of.doubt / of.n_codes
    visits = w[:, 5] * root_boxes + (w[:, 7] + w[:, 9] * of.doubt) * of.n_classes + w[:, 8] * log_codes
    factors = (
        *base,
        *(w[VANILLA, 3] * of.n_boxes, w[VANILLA, 7]),
        *(visits[JOIN_FIRST], touched[JOIN_FIRST] * of.reach + unsure[JOIN_FIRST]),
        *(w[SELECT_FIRST, 3], touched[SELECT_FIRST], w[SELECT_FIRST, 8] * log_codes, w[SELECT_FIRST, 10]),
        *(w[SELECT_FIRST, 4], w[HOTSPOT, 4], w[SWEEP, 4]),
        *(w[SSI, 4] * of.n_groups, touched[SSI], w[SSI, 9], unsure[SSI], w[SSI, 11]),
        *(w[HOTSPOT, 3], w[HOTSPOT, 6], w[HOTSPOT, 8] * log_codes, w[HOTSPOT, 9] + w[HOTSPOT, 12] * of.doubt),
        *(w[HOTSPOT, 10], w[HOTSPOT, 11]),
        *(visits[SWEEP], touched[SWEEP], unsure[SWEEP]),
    )
    assert len(factors) == _N_FACTORS, f"{len(factors)} factors"
    # By place, so that one line of the cache has all that an event reads of the tables.
    return read_only(np.concatenate((factors, of.tables.T.reshape(-1))))


def worthwhile(weights: Floats, of: JoinDescription, selected: Floats) -> set[int]:
    """Which of ssi and hotspot would clearly be the cheapest for some kind of event: worth their memory.

    `selected` are numbers of boxes that events select; numbers of partners are tried from one to a thousand.
    """
    if of.n_boxes == 0:
        return set()
    prepared = prepare(weights, of, _TRIED_ROWS)
    each = np.empty(N_STRATEGIES, dtype=np.float64)
    found = set()
    for m_run in _TRIED_RUNS:
        for n in selected:
            event_costs(prepared, m_run, n, n * of.n_scattered / of.n_boxes, each)
            others = min(each[s] for s in (VANILLA, JOIN_FIRST, SELECT_FIRST, SWEEP))
            found |= {s for s in (SSI, HOTSPOT) if each[s] * _CLEARLY < others}
    return found


@kernel
def event_costs(prepared: Floats, m_run: Scalar, n_selected: Scalar, n_scattered_selected: Scalar, out: Floats) -> None:
    """cost[strategy] of one event in ns into `out`, float64[6]."""
    p = prepared
    m = np.float64(m_run)
    n = np.float64(n_selected)
    n_scattered = np.float64(n_scattered_selected)
    log_run = _LOGS[m_run] if m_run < len(_LOGS) else math.log2(1.0 + m)
    at = _N_FACTORS + 5 * min(int(log_run * _STEPS), _N_PLACES - 1)
    is_coded = m_run <= CODED_MAX
    n_m = n * m
    out[0] = p[0] + log_run * (p[6] + n * p[7])
    out[1] = p[1] + m * p[8] + n_m * p[9]
    lookups = n * (log_run * p[10] + p[11]) + min(n, m) * p[14]
    out[2] = p[2] + lookups + (m * p[12] if is_coded else n * p[13])
    out[3] = p[3] + log_run * p[17] + n * (p[at + 2] * p[18] + p[19]) + n_m * p[20] + p[at + 1] * p[21]
    hot = (n - n_scattered) * p[at + 4] * p[23] + p[at + 3] * p[27]
    lookups = n_scattered * (log_run * p[22] + p[25]) + min(n_scattered, m) * p[15]
    out[4] = p[4] + hot + lookups + (m * p[24] if is_coded else n_scattered * p[26])
    out[5] = p[5] + m * p[28] + n * p[at] * p[29] + n_m * p[30] + min(n, m) * p[16]
