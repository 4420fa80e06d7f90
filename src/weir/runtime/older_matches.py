"""Rows that came before kept queries: matched once, when the queries begin, by a match job of their own.

Its files are read by the upkeep of the same batch and by nobody else: no document names them. With all rows of a
family's first source as events, each older result is found once. A query that matches too much there, or cannot be
matched, is given up: its answer is computed when it is asked for, and the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weir.algebra.schema import Stream
from weir.runtime.loop import Matched
from weir.runtime.match import NOT_OF_QUERIES, reason_of
from weir.runtime.quarantine import NotMatchedError, culprits
from weir.store.ledger import RowFile
from weir.store.state import State

if TYPE_CHECKING:
    from weir.runtime.jobs import TaskJobs
    from weir.runtime.query_segments import FamilyRef

TOO_MUCH_BEFORE = "it matches too much among the rows that came before it"
ATTEMPTS = 3  # if cores fail that then work when they are tried again
Ids = np.ndarray


class OlderMatches(NamedTuple):
    """What was found."""

    paths: tuple[str, ...]  # match files
    given_up: dict[int, str]  # by query, why


def older_matches(jobs: TaskJobs, matched: Matched, cores: Ids) -> OlderMatches:
    """Match the rows of earlier batches with these cores, which ascend, without those that are given up."""
    given_up: dict[int, str] = {}
    registry = jobs.context.registry

    def give_up(lost: Ids, reason: str) -> Ids:
        queries = np.unique(registry.queries_of(lost))
        given_up.update(dict.fromkeys(queries.tolist(), reason))
        return np.setdiff1d(cores, registry.cores_of(queries))

    in_vain = 0
    while len(cores) and in_vain < ATTEMPTS:
        try:
            paths, counts = _matched(jobs, matched, cores)
        except NOT_OF_QUERIES:
            raise
        except Exception as error:
            lost = culprits(cores, lambda kept: _works(jobs, matched, kept))
            reason = str(error) if isinstance(error, NotMatchedError) else reason_of(error)
            in_vain += not len(lost)
            cores = give_up(lost, reason)
            continue
        if not counts:
            return OlderMatches(tuple(paths), given_up)
        # The heavier half of those that are named goes, and the rest is tried again.
        heavy = sorted(counts, key=lambda id: (-counts[id], id))[: 1 + len(counts) // 2]
        cores = give_up(np.array(sorted(heavy), np.int64), TOO_MUCH_BEFORE)
    give_up(cores, "it failed again and again with the rows that came before it")
    return OlderMatches((), given_up)


def _works(jobs: TaskJobs, matched: Matched, cores: Ids) -> bool:
    try:
        _matched(jobs, matched, cores)
    except NOT_OF_QUERIES:
        raise
    except Exception:  # whatever it is: it failed with these cores
        return False
    return True


def _matched(jobs: TaskJobs, matched: Matched, cores: Ids) -> tuple[list[str], dict[int, int]]:
    """The match files of these cores; or if that would be too much, the results of some of them."""
    found: list[str] = []
    with jobs.segments.only(cores, matched.plan.registry, matched.catalog) as families:
        for of in families:
            paths, counts = _of_family(jobs, of, matched)
            if counts:
                return [], counts
            found += paths
    return found, {}


def _of_family(jobs: TaskJobs, of: FamilyRef, matched: Matched) -> tuple[list[str], dict[int, int]]:
    state = jobs.context.state
    of_sides = [_files(state, matched.catalog.side(name)) for name in of.family.streams]
    return jobs.match_older(of, of_sides[0], matched) if all(of_sides) else ([], {})


def _files(state: State, stream: Stream) -> list[RowFile]:
    kept = state.row_files(stream.name)
    columns = (kept.paths, kept.first_row.tolist(), kept.count.tolist(), kept.t_min_us.tolist(), kept.t_max_us.tolist())
    return [RowFile(stream.name, *figures) for figures in zip(*columns, strict=True)]
