"""Random box tables and events for the battery of all strategies.

A table mixes everything that an index may meet: slots without boxes and with many, boxes without constraints, points,
open ends, the extreme keys, duplicates, hot spots, widths over several orders, correlated attributes, NULLs. The
kinds that make an index choose another layout (few or many boxes, categories, numbers) are drawn for each table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import BoxTable
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY


class Case(NamedTuple):
    table: BoxTable
    n_slots: int
    n_attributes: int
    keys: np.ndarray
    muted: np.ndarray


def draw(seed: int, scale: float = 1.0) -> Case:
    """A table and a batch; `scale` makes both smaller for slow runs."""
    rng = np.random.default_rng(seed)
    n_attributes = int(rng.integers(1, 7))
    n_slots = int(rng.choice([1, 3, 60, 700, 3000]) * scale) + 1
    n_boxes = int(n_slots * rng.choice([0.5, 1.0, 1.0, 4.0]))
    n_events = int(rng.choice([1, 40, 400]) * scale) + 1
    domains = rng.choice([2, 40, 1_000, 10**9], n_attributes)
    slot_of_box = np.sort(rng.integers(0, n_slots, n_boxes)).astype(np.int32)
    n_constraints_max = int(rng.integers(1, n_attributes + 1))
    asked = rng.random((n_boxes, n_attributes)).argsort(axis=1) < rng.integers(0, n_constraints_max + 1, (n_boxes, 1))
    kind = rng.random(5)
    kind /= kind.sum()
    if seed % 10 == 9:  # a category and two narrow ranges in every box, so that a category's boxes are worth a grid
        n_attributes, domains = 3, np.array([6, 10**9, 10**9])
        asked = np.ones((n_boxes, 3), dtype=bool)
        attribute = np.nonzero(asked)[1]
        lo = rng.integers(0, domains[attribute])
        hi = lo + np.where(attribute == 0, 0, 10**7)
    else:
        attribute = np.nonzero(asked)[1]
        lo, hi = _intervals(rng, domains[attribute], kind)
    offsets = np.concatenate([[0], np.cumsum(asked.sum(axis=1))]).astype(np.int64)
    table = BoxTable(slot_of_box, offsets, attribute.astype(np.int32), lo, hi)
    keys = _events(rng, domains, n_events, table)
    muted = (rng.random(n_slots) < rng.choice([0.0, 0.3])).astype(np.uint8)
    return Case(table, n_slots, n_attributes, keys, muted)


def draw_wide(seed: int, scale: float = 1.0) -> Case:
    """Boxes over 6 to 34 attributes of 16-bit numbers that constrain most, few or none of them, and events in boxes.

    A box lies around a point, and attributes follow each other in a part of the tables: an event near a point lies in
    several boxes, however many attributes they constrain.
    """
    rng = np.random.default_rng([seed, 34])
    n_attributes = int(rng.choice([6, 10, 17, 34]))
    n_slots = int(rng.choice([40, 300, 900]) * scale) + 1
    n_boxes = int(n_slots * rng.choice([1.0, 1.0, 2.0]))
    n_events = int(rng.choice([40, 200]) * scale) + 1
    points = rng.integers(-(2**15), 2**15, (int(rng.choice([3, 30])), n_attributes))
    if rng.random() < 0.3:  # correlated attributes
        half = n_attributes // 2
        points[:, 1 : 2 * half : 2] = points[:, : 2 * half : 2] + rng.integers(-50, 50, (len(points), half))
    if rng.random() < 0.3:  # an attribute that tells hardly anything apart
        points[:, 0] = 7
    coverage = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], n_boxes)
    asked = rng.random((n_boxes, n_attributes)) < coverage[:, None]
    asked[:, rng.random(n_attributes) < 0.1] = False  # attributes that no box constrains
    centres = points[rng.integers(0, len(points), n_boxes)]
    reach = rng.choice([0, 30, 2_000, 60_000], (n_boxes, n_attributes), p=[0.1, 0.2, 0.4, 0.3])
    lo = centres - rng.integers(0, reach + 1)
    hi = centres + rng.integers(0, reach + 1)
    open_ends = rng.random((n_boxes, n_attributes))
    lo = np.where(open_ends < 0.1, KEY_MIN, lo)
    hi = np.where(open_ends > 0.9, KEY_MAX, hi)
    slot_of_box = np.sort(rng.integers(0, n_slots, n_boxes)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(asked.sum(axis=1))]).astype(np.int64)
    attribute = np.nonzero(asked)[1].astype(np.int32)
    table = BoxTable(slot_of_box, offsets, attribute, lo[asked], hi[asked])
    keys = points[rng.integers(0, len(points), n_events)].T + rng.integers(-20, 21, (n_attributes, n_events))
    keys[rng.random(keys.shape) < 0.01] = NULL_KEY
    muted = (rng.random(n_slots) < rng.choice([0.0, 0.3])).astype(np.uint8)
    return Case(table, n_slots, n_attributes, np.ascontiguousarray(keys), muted)


def _intervals(rng: np.random.Generator, domain: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points, intervals of all widths around hot spots or anywhere, and intervals open on one side or both."""
    n = len(domain)
    spots = rng.random(4)
    where = np.where(rng.random(n) < 0.5, rng.random(n), np.clip(rng.normal(spots[rng.integers(0, 4, n)], 0.01), 0, 1))
    lo = (where * (domain - 1)).astype(np.int64)
    width = (domain * rng.random(n) ** rng.choice([2, 8, 16])).astype(np.int64)
    hi = lo + width
    which = rng.choice(5, n, p=kind)
    hi[which == 0] = lo[which == 0]
    lo[which == 1] = KEY_MIN
    hi[which == 2] = KEY_MAX
    odd = rng.random(n)
    lo[odd < 0.01], hi[odd < 0.01] = KEY_MIN, KEY_MAX
    lo[(odd > 0.01) & (odd < 0.02)] = hi[(odd > 0.01) & (odd < 0.02)] = KEY_MAX
    lo[(odd > 0.02) & (odd < 0.03)] = hi[(odd > 0.02) & (odd < 0.03)] = KEY_MIN
    return lo, hi


def _events(rng: np.random.Generator, domains: np.ndarray, n: int, table: BoxTable) -> np.ndarray:
    """Events anywhere, exactly on bounds and one beside them, in the corners of boxes, at the extremes, and NULL."""
    _, offsets, attribute, lo, hi = table
    keys = np.empty((len(domains), n), dtype=np.int64)
    for a, domain in enumerate(domains):
        keys[a] = rng.integers(0, domain, n)
        bounds = np.concatenate([lo[attribute == a], hi[attribute == a]])
        if len(bounds):
            on_bound = rng.random(n) < 0.3
            drawn = rng.choice(bounds, n).astype(object) + rng.integers(-1, 2, n)  # object: no overflow at the extremes
            keys[a] = np.where(on_bound, [min(max(k, KEY_MIN), KEY_MAX) for k in drawn], keys[a])
    if len(offsets) > 1:
        for event in np.flatnonzero(rng.random(n) < 0.4):
            box = rng.integers(0, len(offsets) - 1)
            for c in range(offsets[box], offsets[box + 1]):
                keys[attribute[c], event] = lo[c] if rng.random() < 0.5 else hi[c]
    for a in range(len(domains)):
        for extreme in (KEY_MIN, KEY_MAX, NULL_KEY, NULL_KEY):
            keys[a][rng.random(n) < 0.02] = extreme
    return keys
