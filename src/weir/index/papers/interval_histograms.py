"""Interval histograms: step functions that tell how many intervals a value stabs (thesis, 4.4).

f(x) is the number of intervals that contain x; it changes at break points only. A histogram h is a step function with
few pieces that is close to f: its error is the integral of (h − f)² / f² over the distribution of x, where f > 0.

- `exact` is f itself.
- `stabbing_histogram` divides f over the groups of the canonical stabbing partition. Left of its stabbing point a group
  has as many intervals over x as have begun there, right of it as many as have not ended: either side is monotone. So
  the pieces of a side are clusters of a sorted sequence of heights, and the best ones are weighted 1-d k-means (thesis,
  lemma 14). Sorted points have the quadrangle inequality: the best last cut moves right with the end, and a recursion
  over the middle finds all cuts of one layer in O(m log m), exactly, where the thesis iterates.
- `peaked_histogram` (ours) takes f itself for a single group around its peak. Where f is not quite monotone on either
  side the clusters are not quite the best ones, but it neither leaves intervals out nor pays for many groups.
- `optimal` is the best histogram there is with its breaks among the given candidates, by dynamic programming over all
  pairs of candidates: the yardstick.

A piece is a bucket; a histogram of b buckets has b + 1 breaks. A group with k pieces costs k + 1 breaks, and the sum of
all groups has at most b + 1: groups pay for their outer breaks, which makes the number of buckets that of the result.

How buckets are shared out:
- "cardinality" (the thesis): in proportion to the intervals of each group, most first; a group whose share is less than
  a bucket has none, and its intervals are not counted. The weights of a side are those of its own heights y, dx / y².
- "error" (ours): weights are those of the whole, dx / f², so that the errors of groups can be compared, that of leaving
  a group out too; then a knapsack over groups finds the numbers of buckets with the least sum of errors.

Cost, n intervals and b buckets: O(b n log n) for the groups, O(b c²) for the optimum among c candidates.

One of the papers' structures: importable and tested, not used by production.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from weir.index.box_tables import Int64s
from weir.index.histograms import Floats
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.stabbing import canonical

Distribution = Callable[[Int64s], Floats]  # how much of x lies below each key, up to a factor and a constant


class StepFunction(NamedTuple):
    """heights[i] from breaks[i − 1], inclusive, up to breaks[i], exclusive; the ends reach to infinity."""

    breaks: Int64s  # int64[k]: strictly ascending
    heights: Floats  # float64[k+1]

    def estimate(self, x: Int64s) -> Floats:
        """The value at each x."""
        return self.heights[np.searchsorted(self.breaks, x, side="right")]

    @property
    def buckets(self) -> int:
        """How many pieces it has between its first and its last break."""
        return max(len(self.breaks) - 1, 0)


def exact(lo: Int64s, hi: Int64s) -> StepFunction:
    """How many of the closed intervals [lo, hi] contain x."""
    return _summed(_Pieces(lo, _beyond(hi), np.ones(len(lo))))


def uniform(lo: Int64s, hi: Int64s) -> Distribution:
    """x is as likely everywhere between the least and the greatest finite bound, and nowhere else."""
    finite = np.concatenate((lo[lo > KEY_MIN], _beyond(hi[hi < KEY_MAX])))
    least, greatest = (finite.min(), finite.max()) if len(finite) else (0, 0)
    return lambda keys: np.clip(keys, least, greatest).astype(np.float64)


def stabbing_histogram(
    lo: Int64s, hi: Int64s, buckets: int, *, share: str = "cardinality", mass: Distribution | None = None
) -> StepFunction:
    """A histogram of at most so many buckets: the sum of those of the groups of the canonical stabbing partition."""
    assert share in ("cardinality", "error"), share
    assert buckets > 0, f"{buckets} buckets"
    lo, hi = np.asarray(lo, np.int64), np.asarray(hi, np.int64)
    if not len(lo):
        return exact(lo, hi)
    mass = mass or uniform(lo, hi)
    group_of_interval, points = canonical(lo, hi)
    sizes = np.bincount(group_of_interval, minlength=len(points))
    members = np.split(np.argsort(group_of_interval, kind="stable"), np.cumsum(sizes)[:-1])
    if share == "cardinality":
        wanted = _by_cardinality(sizes, buckets)
        weigh = _own_weights(mass)
        groups = [_Group.of(lo[m], hi[m], p, k, weigh) for m, p, k in zip(members, points, wanted, strict=True) if k]
        wanted = wanted[wanted > 0]
    else:
        weigh = _common_weights(exact(lo, hi), mass)
        groups = [_Group.of(lo[m], hi[m], p, buckets, weigh) for m, p in zip(members, points, strict=True)]
        wanted = _by_error([group.costs for group in groups], buckets)
    return _summed(_concatenated([group.pieces(int(k)) for group, k in zip(groups, wanted, strict=True)]))


def peaked_histogram(lo: Int64s, hi: Int64s, buckets: int, *, mass: Distribution | None = None) -> StepFunction:
    """A histogram of at most so many buckets: that of f itself, as if it rose up to its peak and fell from there on."""
    assert buckets > 0, f"{buckets} buckets"
    lo, hi = np.asarray(lo, np.int64), np.asarray(hi, np.int64)
    whole = exact(lo, hi)
    n = len(whole.breaks) - (whole.heights[-1] == 0)  # what comes after the last interval is no piece
    ends, heights = np.append(whole.breaks[1:], KEY_MAX)[:n], whole.heights[1 : n + 1]
    if n <= 0:
        return whole
    pieces = _Pieces(whole.breaks[:n], ends, heights)
    peak = int(np.argmax(heights)) + 1
    left, right = slice(peak), slice(n - 1, peak - 1, -1)  # from the outer ends inwards
    group = _Group(pieces.part(left), pieces.part(right), buckets, _own_weights(mass or uniform(lo, hi)))
    return _summed(group.pieces(buckets))


def optimal(
    lo: Int64s, hi: Int64s, buckets: int, *, candidates: Int64s | None = None, mass: Distribution | None = None
) -> StepFunction:
    """The histogram of at most so many buckets with the least error, its breaks among the candidates.

    Candidates are breaks of `exact`, all of them if none are given; the first and the last one are among them anyway.
    """
    assert buckets > 0, f"{buckets} buckets"
    lo, hi = np.asarray(lo, np.int64), np.asarray(hi, np.int64)
    whole = exact(lo, hi)
    breaks, heights = whole.breaks, whole.heights[1:-1]
    if len(breaks) < 2:
        return whole
    weights = np.diff((mass or uniform(lo, hi))(breaks)) * _inverse_squares(heights)
    chosen = np.arange(len(breaks))
    if candidates is not None:
        chosen = np.unique(np.concatenate(([0], np.searchsorted(breaks, candidates), [len(breaks) - 1])))
    sums = [_prefix(weights * heights**power)[chosen] for power in range(3)]
    cuts = _best_cuts(sums[0], sums[1], sums[2], min(buckets, len(chosen) - 1))
    total = np.diff(sums[0][cuts])
    means = np.diff(_prefix(heights)[chosen[cuts]]) / np.diff(chosen[cuts])  # where x never is, any height will do
    np.divide(np.diff(sums[1][cuts]), total, out=means, where=total > 0)
    return StepFunction(breaks[chosen[cuts]], np.concatenate(([0.0], means, whole.heights[-1:])))


class _Pieces(NamedTuple):
    """Parts of a step function that are added up: a height from a key, inclusive, to another, exclusive."""

    begins: Int64s
    ends: Int64s  # KEY_MAX: no end
    heights: Floats

    def part(self, places: slice) -> Self:
        return self._replace(begins=self.begins[places], ends=self.ends[places], heights=self.heights[places])


def _summed(pieces: _Pieces) -> StepFunction:
    """The sum of pieces; where one ends as another begins there is one break."""
    bounded = pieces.ends < KEY_MAX
    places = np.concatenate((pieces.begins, pieces.ends[bounded]))
    steps = np.concatenate((pieces.heights, -pieces.heights[bounded]))
    breaks, place_of_step = np.unique(places, return_inverse=True)
    heights = np.cumsum(np.bincount(place_of_step, steps, len(breaks)))
    return StepFunction(breaks, np.concatenate(([0.0], heights)))


def _concatenated(pieces: list[_Pieces]) -> _Pieces:
    return _Pieces(
        np.concatenate([np.empty(0, np.int64), *(each.begins for each in pieces)]),
        np.concatenate([np.empty(0, np.int64), *(each.ends for each in pieces)]),
        np.concatenate([np.empty(0, np.float64), *(each.heights for each in pieces)]),
    )


def _beyond(hi: Int64s) -> Int64s:
    """The first key that is not in an interval any more; KEY_MAX if there is none."""
    return np.where(hi < KEY_MAX, hi, KEY_MAX - 1) + 1


def _prefix(values: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))


def _inverse_squares(heights: Floats) -> Floats:
    """1 / y²; what is not there has no relative error, so its weight is 0."""
    return np.divide(1.0, heights**2, out=np.zeros(len(heights)), where=heights > 0.5)


Weigh = Callable[[Int64s, Int64s, Floats], Floats]  # weights of pieces: begins, ends, heights


def _own_weights(mass: Distribution) -> Weigh:
    """Errors are relative to the heights of the group itself."""
    return lambda begins, ends, heights: (mass(ends) - mass(begins)) * _inverse_squares(heights)


def _common_weights(whole: StepFunction, mass: Distribution) -> Weigh:
    """Errors are relative to the heights of all groups together. Pieces begin and end at breaks of the whole."""
    below = _prefix(np.diff(mass(whole.breaks)) * _inverse_squares(whole.heights[1:-1]))

    def weigh(begins: Int64s, ends: Int64s, heights: Floats) -> Floats:
        first = np.searchsorted(whole.breaks, begins)
        return below[np.minimum(np.searchsorted(whole.breaks, ends), len(below) - 1)] - below[first]

    return weigh


class _Side:
    """One side of a group, from its outer end inwards, and its best clusterings."""

    def __init__(self, pieces: _Pieces, clusters_max: int, weigh: Weigh) -> None:
        self.pieces = pieces  # heights ascend
        self.weights = weigh(*pieces)
        n_clusters = min(clusters_max, len(self.weights))
        self._cuts, costs = _cluster(pieces.heights, self.weights, n_clusters)
        # float64[clusters_max + 1]: least cost with k clusters; with none, the cost of leaving the side out
        self.costs = np.concatenate((costs, np.zeros(clusters_max - n_clusters)))

    def clusters(self, k: int) -> _Pieces:
        """The side in at most k clusters, each as high as the weighted mean of its pieces."""
        cuts = [len(self.weights)]
        for layer in range(min(k, len(self._cuts) - 1), 0, -1):
            cuts.append(int(self._cuts[layer, cuts[-1]]))
        runs = [slice(first, last) for last, first in itertools.pairwise(cuts)]
        return _concatenated([_level(self.pieces.part(run), self.weights[run]) for run in runs])


class _Group:
    """A function that rises on its left side and falls on its right, and how pieces are best divided between them."""

    def __init__(self, left: _Pieces, right: _Pieces, pieces_max: int, weigh: Weigh) -> None:
        self._left, self._right = _Side(left, pieces_max, weigh), _Side(right, pieces_max, weigh)
        self._all = _concatenated([left, right])
        self._weights = np.concatenate((self._left.weights, self._right.weights))
        costs = [self._left.costs[: k + 1] + self._right.costs[k::-1] for k in range(pieces_max + 1)]
        self._to_left = [int(np.argmin(each)) for each in costs]
        self.costs = np.array([np.min(each) for each in costs])  # float64[pieces_max + 1]: least cost with k pieces
        self.costs[1] = self._cost_of_one()

    @classmethod
    def of(cls, lo: Int64s, hi: Int64s, point: int, pieces_max: int, weigh: Weigh) -> Self:
        """A stabbing group: it rises where intervals begin and falls where they end."""
        middle = _beyond(np.array([point], np.int64))
        begins, begun = np.unique(lo, return_counts=True)
        last, ended = np.unique(hi[hi > point], return_counts=True)
        ends = _beyond(last)[::-1]
        left = _Pieces(begins, np.concatenate((begins[1:], middle)), np.cumsum(begun).astype(np.float64))
        right = _Pieces(np.concatenate((ends, middle))[1:], ends, np.cumsum(ended[::-1]).astype(np.float64))
        return cls(left, right, pieces_max, weigh)

    def pieces(self, k: int) -> _Pieces:
        """The group in at most k pieces; a single one is as long as the group."""
        if k == 1:
            return _level(self._all, self._weights)
        on_left = self._to_left[k]
        return _concatenated([self._left.clusters(on_left), self._right.clusters(k - on_left)])

    def _cost_of_one(self) -> float:
        height = _level(self._all, self._weights).heights[0]
        return float(np.sum(self._weights * (self._all.heights - height) ** 2))


def _level(pieces: _Pieces, weights: Floats) -> _Pieces:
    """One piece in the place of several, as high as their weighted mean."""
    total = weights.sum()
    height = np.sum(weights * pieces.heights) / total if total > 0 else pieces.heights.mean()
    return _Pieces(pieces.begins.min(keepdims=True), pieces.ends.max(keepdims=True), np.array([height]))


def _by_cardinality(sizes: Int64s, buckets: int) -> Int64s:
    """Pieces of each group, in proportion to its size; k pieces need k + 1 of the buckets + 1 breaks."""
    breaks = buckets + 1
    largest = np.argsort(-sizes, kind="stable")[: breaks // 2]
    # As many groups as get two breaks each, those of one piece.
    while len(largest) > 1 and breaks * sizes[largest[-1]] < 1.5 * sizes[largest].sum():
        largest = largest[:-1]
    pieces = np.zeros(len(sizes), np.int64)
    shares = breaks * sizes[largest] / sizes[largest].sum()
    given = np.maximum(shares.astype(np.int64), 2)
    for place in np.argsort(given - shares, kind="stable")[: max(breaks - int(given.sum()), 0)]:
        given[place] += 1
    while given.sum() > breaks:  # the minimum of two may have given too much; the largest has most to spare
        given[np.argmax(given)] -= 1
    pieces[largest] = given - 1
    return pieces


def _by_error(costs: list[Floats], buckets: int) -> Int64s:
    """Pieces of each group such that the sum of costs is least: a knapsack of buckets + 1 breaks."""
    breaks = buckets + 1
    least = np.zeros(breaks + 1)  # by breaks to spend: least cost of the groups so far
    chosen = np.zeros((len(costs), breaks + 1), np.int64)
    for group, cost in enumerate(costs):
        found = least + cost[0]
        for k in range(1, min(len(cost), breaks)):
            with_k = least[: breaks - k] + cost[k]
            better = with_k < found[k + 1 :]
            found[k + 1 :][better] = with_k[better]
            chosen[group, k + 1 :][better] = k
        least = found
    pieces = np.zeros(len(costs), np.int64)
    for group in range(len(costs) - 1, -1, -1):
        pieces[group] = k = chosen[group, breaks]
        breaks -= k + 1 if k else 0
    return pieces


@kernel
def _cluster(heights: Floats, weights: Floats, n_clusters: int) -> Scalar:
    """Best clusters of ascending heights, for every number of clusters up to n_clusters <= m.

    Returns `cuts`, int32[n_clusters + 1, m + 1]: where the last of k clusters of the first j heights begins; and
    `costs`, float64[n_clusters + 1]: of all heights in k clusters, without any the sum of weighted squares.
    """
    m = len(heights)
    w, wy, wyy = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1)
    for i in range(m):
        w[i + 1] = w[i] + weights[i]
        wy[i + 1] = wy[i] + weights[i] * heights[i]
        wyy[i + 1] = wyy[i] + weights[i] * heights[i] * heights[i]
    cuts = np.zeros((n_clusters + 1, m + 1), np.int32)
    costs = np.zeros(n_clusters + 1)
    costs[0] = wyy[m]
    before, least = np.empty(m + 1), np.empty(m + 1)
    before[:] = np.inf
    before[0] = 0.0
    stack = np.empty((128, 4), np.int64)  # ranges of ends, and of cuts: depth is logarithmic
    for k in range(1, n_clusters + 1):
        least[:] = np.inf
        top = 0
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = k, m, k - 1, m - 1
        while top >= 0:
            first, last, cut_first, cut_last = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            top -= 1
            if first > last:
                continue
            j = (first + last) >> 1
            least[j], best_cut = _best_cut(w, wy, wyy, before, j, cut_first, min(cut_last, j - 1))
            cuts[k, j] = best_cut
            top += 1
            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = first, j - 1, cut_first, best_cut
            top += 1
            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = j + 1, last, best_cut, cut_last
        costs[k] = least[m]
        before, least = least, before
    return cuts, costs


@kernel
def _best_cut(
    w: Floats, wy: Floats, wyy: Floats, before: Floats, j: Scalar, first: Scalar, last: Scalar
) -> tuple[Scalar, Scalar]:
    """The least cost of pieces that end at j, if the last begins at one of first … last; and where it begins.

    `before` are the costs of the pieces before it; w, wy and wyy are prefix sums.
    """
    best, best_cut = np.inf, first
    for i in range(first, last + 1):
        weight = w[j] - w[i]
        cost = before[i]
        if weight > 0:
            sum_y = wy[j] - wy[i]
            cost += max(wyy[j] - wyy[i] - sum_y * sum_y / weight, 0.0)
        if cost < best:
            best, best_cut = cost, i
    return best, best_cut


@kernel
def _best_cuts(w: Floats, wy: Floats, wyy: Floats, n_pieces: int) -> Int64s:
    """Where at most n_pieces pieces of any heights begin, and the end of the last; from prefix sums over candidates."""
    m = len(w) - 1
    cuts = np.zeros((n_pieces + 1, m + 1), np.int32)
    before, least = np.empty(m + 1), np.empty(m + 1)
    before[:] = np.inf
    before[0] = 0.0
    for k in range(1, n_pieces + 1):
        least[:] = np.inf
        for j in range(k, m + 1):
            least[j], cuts[k, j] = _best_cut(w, wy, wyy, before, j, k - 1, j - 1)
        before, least = least, before
    found = np.empty(n_pieces + 1, np.int64)
    found[n_pieces] = m
    for k in range(n_pieces, 0, -1):
        found[k - 1] = cuts[k, found[k]]
    return found
