"""Every setting: name, default, unit, one line. Units are the last part of the name.

Settings are given to `weir.open(path, settings={...})`; unknown names are refused, and so are strategies that there are
not (`weir.families.forms`, which knows them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from weir.errors import OpenError, did_you_mean


@dataclass(frozen=True, slots=True)
class Settings:
    batch_rows_max: int = 1_000_000  # rows that one micro-batch takes from the embedded source
    slices: int = 0  # tasks a job; 0 means one for each core
    strategy: str = "auto"  # how selections and joins of many are matched: auto chooses by segment; or one for all
    join_strategy: str = "auto"  # how select joins are matched: auto chooses for every event; or one for all
    hotspot_share: float = 0.001  # α: a stabbing group with at least this share of a family's queries is a hotspot
    pairs_per_batch_max: int = 100_000_000  # (event, query) pairs one batch may write before queries are demoted
    demote_share: float = 0.001  # a selection that matches a larger share of a batch than this is demoted …
    demote_pairs_min: int = 10_000  # … if it also matched at least this many of the batch's rows
    boxes_per_query_max: int = 64  # boxes one query may need after OR, IN and <> are written out
    set_items_max: int = 1_000_000  # values in one list behind IN
    residuals_per_stream_max: int = 1_000  # distinct derived attributes (arithmetic, LIKE, …) a stream may need
    join_families_max: int = 1_000  # different (two streams, equalities) that standing joins may have
    kept_results_max: int = 1_000_000  # results in the windows of one kept query; with more it is computed when asked
    sql_chars_max: int = 100_000  # length of one SQL text
    sql_terms_max: int = 10_000  # ANDs and ORs in one SQL text
    sql_depth_max: int = 200  # nesting of one SQL text
    partner_rows_max: int = 4_000_000  # rows that one segment of join partners holds at most
    loose_rows_max: int = 2_048  # join partners that are so few are indexed by the tasks that need them, not in a file
    tail_queries_max: int = 50_000  # queries in the tail segment before it is merged into the main one
    measure_every_batches: int = 16  # how often recent rows are asked whether queries are reached well; 0 never
    checkpoint: str = ""  # where Spark keeps its offsets; "" means the folder `checkpoint` of the weir
    vacuum_every_batches: int = 100  # how often the running job removes expired and orphaned files; 0 never
    orphan_grace_s: int = 3_600  # age at which a file that no document names is removed
    fold_every_batches: int = 500  # documents of so many batches are folded into one; 0 never
    late_keep_s: int = 604_800  # how long rows that were not taken can be looked at
    compact_every_batches: int = 16  # how often match files are inverted to runs by query
    idle_tick_s: float = 0.0  # on the arrival clock, an idle job makes a batch so often; 0 when a kept answer is due

    @classmethod
    def of(cls, given: Mapping[str, object] | None) -> Settings:
        """Defaults, overridden by `given`; an unknown name or a wrong type is an error."""
        if not given:
            return cls()
        if not isinstance(given, Mapping):
            raise OpenError(f"settings are a {type(given).__name__}, expected a dict")
        known = {f.name: type(getattr(cls(), f.name)) for f in fields(cls)}
        for name, value in given.items():
            if name not in known:
                hint = did_you_mean(name, known) or "settings: " + ", ".join(sorted(known))
                raise OpenError(f"there is no setting '{name}'", hint=hint)
            wanted = known[name]
            ok = isinstance(value, (int, float)) if wanted is float else isinstance(value, wanted)
            if not ok or isinstance(value, bool):
                raise OpenError(f"setting '{name}' takes {wanted.__name__}, got {value!r}")
        return replace(cls(), **given)  # type: ignore[arg-type]  # names and types were checked just above
