"""Pairing heaps over slots: the least of a group, where any member may leave (Fredman and others, 1986).

A slot is a member of at most one heap, ordered by its FLAG; `heap` holds its first child, its next sibling, and its
previous one (or its parent, if it is a first child). Inserting is O(1), taking out any member O(log n) amortised: no
input is scanned for a new least value. Greatest values are least negated ones.
"""

from __future__ import annotations

from weir.index.jit import Scalar
from weir.index.meeting.lean import lean
from weir.operators.layout import FLAG, NONE, Memory

CHILD, SIBLING, BACK = range(3)


@lean
def merge(m: Memory, a: Scalar, b: Scalar) -> Scalar:
    """One heap of two; either may be NONE."""
    if a < 0:
        return b
    if b < 0:
        return a
    if m.slots[b, FLAG] < m.slots[a, FLAG]:
        a, b = b, a
    child = m.heap[a, CHILD]
    m.heap[b, SIBLING] = child
    m.heap[b, BACK] = a
    if child >= 0:
        m.heap[child, BACK] = b
    m.heap[a, CHILD] = b
    return a


@lean
def add_to_heap(m: Memory, root: Scalar, s: Scalar) -> Scalar:
    """The root after slot `s` has come."""
    m.heap[s, CHILD] = m.heap[s, SIBLING] = m.heap[s, BACK] = NONE
    return merge(m, root, s)


@lean
def merge_siblings(m: Memory, first: Scalar) -> Scalar:
    """One heap of a list of siblings: in pairs from the left, then all pairs from the right."""
    pairs = NONE  # heaps already paired, the last one first, linked by SIBLING
    while first >= 0:
        a, b = first, m.heap[first, SIBLING]
        first = m.heap[b, SIBLING] if b >= 0 else NONE
        m.heap[a, SIBLING] = m.heap[a, BACK] = NONE
        if b >= 0:
            m.heap[b, SIBLING] = m.heap[b, BACK] = NONE
        a = merge(m, a, b)
        m.heap[a, SIBLING] = pairs
        pairs = a
    root = NONE
    while pairs >= 0:
        following = m.heap[pairs, SIBLING]
        m.heap[pairs, SIBLING] = m.heap[pairs, BACK] = NONE
        root = merge(m, root, pairs)
        pairs = following
    return root


@lean
def take_from_heap(m: Memory, root: Scalar, s: Scalar) -> Scalar:
    """The root after slot `s` has gone."""
    below = merge_siblings(m, m.heap[s, CHILD])
    if s == root:
        return below
    back, sibling = m.heap[s, BACK], m.heap[s, SIBLING]
    if m.heap[back, CHILD] == s:
        m.heap[back, CHILD] = sibling
    else:
        m.heap[back, SIBLING] = sibling
    if sibling >= 0:
        m.heap[sibling, BACK] = back
    m.heap[s, CHILD] = m.heap[s, SIBLING] = m.heap[s, BACK] = NONE
    return merge(m, root, below)
