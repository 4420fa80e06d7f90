"""The kinds of joins: which index serves each of them, all their strategies, and the weights that they come with.

A new index is one file with what `weir.index.meeting.index_contract.StoredIndex` says, and one entry here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index import by_batch
from weir.index.bands import band_strategies
from weir.index.bands.band_index import BandIndex
from weir.index.box_tables import read_only
from weir.index.histograms import Floats
from weir.index.joins import join_strategies
from weir.index.joins.join_index import JoinIndex
from weir.index.meeting.index_contract import Costs, StoredIndex
from weir.index.trees import partial_index
from weir.index.windows import window_strategies

INDEXES: dict[str, type[StoredIndex]] = {"select": JoinIndex, "band": BandIndex}

# A user may set one of these; other kinds know what stands for it.
SELECT_STRATEGIES = (*join_strategies.NAMES, *partial_index.NAMES)
BAND_STRATEGIES = tuple(f"band {name}" for name in band_strategies.NAMES)
WINDOW_STRATEGIES = tuple(f"window {name}" for name in window_strategies.NAMES)
STRATEGIES = (*SELECT_STRATEGIES, *BAND_STRATEGIES, *WINDOW_STRATEGIES)  # by which events are counted


def make_costs(
    terms: npt.ArrayLike,
    bands: npt.ArrayLike = band_strategies.WEIGHTS,
    batches: npt.ArrayLike = by_batch.WEIGHTS,
) -> Costs:
    """Costs whose arrays have the layout that kernels are compiled for."""
    return Costs(
        _weights(terms, join_strategies.WEIGHTS),
        _weights(bands, band_strategies.WEIGHTS),
        _weights(batches, by_batch.WEIGHTS),
    )


def _weights(terms: npt.ArrayLike, known: Floats) -> Floats:
    table = np.ascontiguousarray(terms, dtype=np.float64)
    assert table.shape == known.shape, f"terms have shape {table.shape}, not {known.shape}"
    assert bool(np.all(np.isfinite(table))), "terms are finite"
    return read_only(table)


DEFAULT = make_costs(join_strategies.WEIGHTS)
