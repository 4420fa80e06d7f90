"""Plain twins of window joins: skylines by their definition, and every box compared with every partner.

They share no code with `weir.index.windows`; numbers are Python's.
"""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]


def skyline(points: Sequence[int], run: Sequence[tuple[int, int]], floor: int) -> list[int]:
    """Positions in a run of (c, time), ordered by c, that are on a skyline and not older than the floor."""
    cuts = sorted(points)
    found = set()
    for k in range(len(cuts) + 1):
        left = cuts[k - 1] if k else None  # the segment is (left, right]
        right = cuts[k] if k < len(cuts) else None
        mine = [i for i, (c, _) in enumerate(run) if (left is None or c > left) and (right is None or c <= right)]
        for i in mine:
            nearer_to_left = [j for j in mine if j < i]
            nearer_to_right = [j for j in mine if j > i]
            if left is not None and all(run[j][1] < run[i][1] for j in nearer_to_left):
                found.add(i)
            if right is not None and all(run[j][1] < run[i][1] for j in nearer_to_right):
                found.add(i)
    return sorted(i for i in found if run[i][1] >= floor)


def affected(
    boxes: Sequence[tuple[Interval, Interval, Interval]], a: int, time: int, run: Sequence[tuple[int, int]]
) -> list[int]:
    """Numbers of the boxes (a, c, age) that contain the event's a and, of one partner, both c and age."""
    found = []
    for number, ((a_lo, a_hi), (c_lo, c_hi), (least, most)) in enumerate(boxes):
        if a_lo <= a <= a_hi and any(c_lo <= c <= c_hi and least <= time - at <= most for c, at in run):
            found.append(number)
    return found
