"""Sets of ids as ascending arrays without repetition: what one needs of them, without sorting or hashing them again.

NumPy's `union1d` and its relatives cannot know that their arguments ascend, and hash or sort both. Here a set is looked
up in another by bisection, and two are merged by a sort that takes runs as it finds them. Equal sets and empty ones,
which are what upkeep mostly meets, cost a comparison.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
NONE: Ids = np.empty(0, np.int64)


def inside(values: Ids, of: Ids) -> npt.NDArray[np.bool_]:
    """Which of some values, in any order, are in a set."""
    if not len(of) or not len(values):
        return np.zeros(len(values), bool)
    first, last = int(of[0]), int(of[-1])
    if last - first + 1 == len(of):  # every number between them
        return (values >= first) & (values <= last)
    if len(values) == len(of) and np.array_equal(values, of):
        return np.ones(len(values), bool)
    if last - first < 8 * (len(of) + len(values)):
        marked = np.zeros(last - first + 1, bool)
        marked[of - first] = True
        return marked[np.clip(values, first, last) - first] & (values >= first) & (values <= last)
    place = np.minimum(np.searchsorted(of, values), len(of) - 1)
    found: npt.NDArray[np.bool_] = of[place] == values
    return found


def common(one: Ids, other: Ids) -> Ids:
    """What both have."""
    if len(one) > len(other):
        one, other = other, one
    return one[inside(one, other)]


def without(one: Ids, other: Ids) -> Ids:
    """What the first has and the second has not."""
    return one[~inside(one, other)] if len(one) and len(other) else one


def together(*sets: Ids) -> Ids:
    """What any of them has."""
    whole = NONE
    for one in sets:
        if not len(one) or (len(one) == len(whole) and np.array_equal(one, whole)):
            continue
        whole = one if not len(whole) else distinct(np.sort(np.concatenate([whole, one]), kind="stable"))
    return whole


def distinct(values: Ids) -> Ids:
    """Values that ascend, each once."""
    if not len(values):
        return values
    fresh = values[1:] != values[:-1]
    return values if bool(fresh.all()) else values[np.concatenate(([True], fresh))]


def numbered(values: Ids) -> tuple[Ids, Ids]:
    """The distinct ones of some values, which ascend, and where among these each value is."""
    first = int(values.min()) if len(values) else 0
    reach = int(values.max()) - first + 1 if len(values) else 0
    if reach > 8 * len(values):
        found, position = np.unique(values, return_inverse=True)
        return found, position
    marked = np.zeros(reach, bool)
    marked[values - first] = True
    return np.flatnonzero(marked) + first, (np.cumsum(marked) - 1)[values - first]


def by_bytes(places: Ids) -> Ids:
    """The stable order of places, small numbers from 0: a radix sort, two bytes at a time."""
    if not len(places) or bool((places[1:] >= places[:-1]).all()):
        return np.arange(len(places))
    order = np.argsort((places & 0xFFFF).astype(np.uint16), kind="stable")
    shift, largest = 16, int(places.max())
    while largest >> shift:
        more = ((places >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(more[order], kind="stable")]
        shift += 16
    return order


def ranges(begin: Ids, end: Ids) -> Ids:
    """The numbers of several ranges, one range after the other."""
    there = np.flatnonzero(end > begin)
    if len(there) == 1:
        return np.arange(begin[there[0]], end[there[0]])
    count = (end - begin)[there]
    before = np.concatenate([[0], np.cumsum(count)[:-1]]) if len(there) else count
    return np.repeat(begin[there] - before, count) + np.arange(int(count.sum()))
