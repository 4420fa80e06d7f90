"""A plain model of ingest: which rows a batch accepts, which are late and why, and what `now` is afterwards.

Written row by row from the text of the semantics, sharing nothing with the runtime, so that the two can be held
against each other. A batch sees the `now` that earlier batches left behind, over all streams: how a batch is
sliced, or which of its streams is looked at first, must not matter. `now` never goes back.

Reasons, the first that applies: `reserved value` (a bigint of −2^63), `null time`, `future` (t > wall clock +
the stream's future bound), `late` (t < now − keep; a row exactly at now − keep is accepted).
With clock="arrival" rows are stamped with the batch's pinned clock, so only `reserved value` is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from tests.generators.streams import RESERVED
from weir.algebra.schema import Catalog, Kind, Stream
from weir.testing.arrow_types import arrow_schema


class Batch(NamedTuple):
    """What arrives together: rows by stream name, and the wall clock when the batch is planned."""

    rows: Mapping[str, pa.Table]
    wall_us: int


class Rejected(NamedTuple):
    """One row that went to `late`: its position among the batch's rows of that stream, and the reason."""

    position: int
    reason: str


class Intake(NamedTuple):
    """What became of one batch."""

    accepted: Mapping[str, pa.Table]  # by lower-case stream name, in arrival order
    rejected: Mapping[str, tuple[Rejected, ...]]
    now_us: int | None  # after the batch; None as long as nothing was accepted (event clock)


def accept(catalog: Catalog, batches: Sequence[Batch], *, clock: str = "event") -> list[Intake]:
    """Take the batches one after the other. `clock` is "event" or "arrival"."""
    assert clock in ("event", "arrival"), f"clock is event or arrival, got {clock!r}"
    now_us: int | None = None
    intakes = []
    for batch in batches:
        pinned_us = now_us  # what rows of this batch are judged by
        if clock == "arrival":
            now_us = pinned_us = batch.wall_us if now_us is None else max(now_us, batch.wall_us)
        accepted: dict[str, pa.Table] = {}
        rejected: dict[str, tuple[Rejected, ...]] = {}
        for name, rows in batch.rows.items():
            stream = catalog.streams[name.lower()]
            rows = rows.select([c.name for c in stream.columns]).cast(arrow_schema(stream))
            if clock == "arrival":
                assert pinned_us is not None
                stamp = pa.array([pinned_us] * rows.num_rows, pa.int64()).cast(pa.timestamp("us", "UTC"))
                rows = rows.set_column(rows.schema.get_field_index(stream.time), stream.time, stamp)
            times = rows.column(stream.time).cast(pa.int64()).to_pylist()
            reasons = _reasons(stream, rows, times, pinned_us, batch.wall_us, clock)
            keep = [i for i, reason in enumerate(reasons) if reason is None]
            accepted[name.lower()] = rows.take(pa.array(keep, pa.int64()))
            rejected[name.lower()] = tuple(Rejected(i, r) for i, r in enumerate(reasons) if r is not None)
            for i in keep:
                if now_us is None or times[i] > now_us:
                    now_us = times[i]
        intakes.append(Intake(accepted, rejected, now_us))
    return intakes


def rows_until(catalog: Catalog, intakes: Sequence[Intake], n: int) -> dict[str, pa.Table]:
    """The accepted rows of batches 0 … n, by lower-case stream name: what `answer(q, τ, n)` is computed from."""
    return {
        name: pa.concat_tables(
            [arrow_schema(stream).empty_table(), *(i.accepted[name] for i in intakes[: n + 1] if name in i.accepted)]
        )
        for name, stream in catalog.streams.items()
    }


def _reasons(
    stream: Stream, rows: pa.Table, times: list[int | None], now_us: int | None, wall_us: int, clock: str
) -> list[str | None]:
    bigints = [rows.column(c.name).to_pylist() for c in stream.columns if c.type.kind is Kind.BIGINT]
    reasons: list[str | None] = []
    for i, t in enumerate(times):
        if any(values[i] == RESERVED for values in bigints):
            reasons.append("reserved value")
        elif t is None:
            reasons.append("null time")
        elif clock == "event" and t > wall_us + stream.future_us:
            reasons.append("future")
        elif stream.keep_us is not None and now_us is not None and t < now_us - stream.keep_us:
            reasons.append("late")
        else:
            reasons.append(None)
    return reasons
