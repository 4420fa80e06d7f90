"""Queries whose answers are maintained as rows come and as time passes: which can be, and what changes an answer.

What a batch changes of an answer are the results of cores that came, and those that are over: a result is shown from
its last row's time on (later where a window ends before NOW) until its first row leaves its window. So an answer is
looked at again when something came for its query or when its next such moment is due (UPA 2.2: expiration times of
results follow from those of their rows). What has no such moments makes every answer of a shape due at once:

    a window of the last n rows     a new row of its stream (UPA 7: arrivals decide when rows leave)
    a table                         a change of it: versions end that results were made of

An expression over current_timestamp changes at every moment, so such a query cannot be maintained.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from weir.algebra.nodes import NOW, Scan
from weir.algebra.schema import CHANGES, DataType, is_changes
from weir.plan.registration import Planned

# Columns that stand beside those of users in what is known of kept answers.
_OF_WEIR = re.compile(
    r"(slot|came) of row|slot of other row|(from|to|due|newest) us|rows of group|(row|time) of \d+|constant \d+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Upkeep:
    """What maintaining the answers of a shape takes."""

    refusal: str | None  # why they cannot be maintained
    moved_by: frozenset[str] = frozenset()  # streams, in lower case, of which new rows make every answer due


def upkeep_of(planned: Planned) -> Upkeep:
    """How the answers of a shape are maintained."""
    parts = planned.classified.parts
    assert parts is not None, "a query that stands has a finish"
    if not parts.cores:
        return Upkeep("it reads no stream")
    if taken := taken_name(planned):
        return Upkeep(f"Weir calls a column of its own `{taken}`; call yours otherwise")
    if _looks_at_now(parts):
        return Upkeep("it compares with current_timestamp, so its answer changes at every moment")
    for core, seen in zip(parts.cores, planned.classified.seen, strict=True):
        if not seen.is_matched:
            names = ", ".join(scan.relation for scan in core.sources)
            return Upkeep(f"nothing that is matched as rows come connects its sources ({names})")
    return Upkeep(None, frozenset(_moving([*planned.query.sources, *(s for c in parts.cores for s in c.sources)])))


def taken_name(planned: Planned) -> str | None:
    """The name of a column that Weir calls one of its own so, where the rows of many queries are in one table."""
    parts = planned.classified.parts
    assert parts is not None, "a query that stands has a finish"
    columns = (c.name for of in (planned.query.output, *(core.output for core in parts.cores)) for c in of)
    return next((name for name in columns if _OF_WEIR.fullmatch(name)), None)


def shape_name(text: str, types: tuple[DataType, ...], fixed: Mapping[str, object]) -> str:
    """What a shape with some fixed constants is called in files: the same in every process, whatever is registered."""
    return hashlib.sha256(f"{text}\0{types}\0{sorted(fixed.items())}".encode()).hexdigest()[:16]


def _looks_at_now(part: object) -> bool:
    """Whether current_timestamp occurs anywhere below; edges of windows are not written with it."""
    if part == NOW:
        return True
    if isinstance(part, tuple):
        return any(_looks_at_now(one) for one in part)
    return is_dataclass(part) and any(_looks_at_now(getattr(part, field.name)) for field in fields(part))


def _moving(scans: list[Scan]) -> Iterator[str]:
    for scan in scans:
        if scan.is_table:
            yield (scan.relation + CHANGES).lower()
        elif is_changes(scan.relation) or scan.window.rows is not None:
            yield scan.relation.lower()
