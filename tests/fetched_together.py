"""What `Weir.fetch` gives of many queries, held against what each of them gives alone.

The answers of single queries are held against DuckDB by whoever calls this, so these are, too.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

import pyarrow as pa

from tests.tally import tally
from weir.api import Weir
from weir.errors import WeirError
from weir.handles import Query
from weir.testing import differ


def hold_together(
    weir: Weir, queries: Sequence[Query], tau_us: int, back_us: int, dice: random.Random, alone_max: int = 12
) -> None:
    """Fetch all queries at once, now and at an earlier moment, and some of them alone.

    The earlier moment may be one at which windows reach below the rows that are kept: then both have the same error.
    """
    for at in (None, tau_us - dice.randrange(back_us + 1)):
        asked = [query.id for query in queries] * 2  # an id that is given twice counts once
        dice.shuffle(asked)
        found = weir.fetch(asked, at)
        assert list(found) == list(dict.fromkeys(asked))
        for query in dice.sample(list(queries), min(alone_max, len(queries))):
            alone = functools.partial(query.fetch, at)
            difference = _difference(alone, functools.partial(found.__getitem__, query.id))
            assert difference is None, f"query {query.id}, at {at or tau_us}, together: {query.sql}\n{difference}"
            tally("answers fetched together, single fetches", 1)


def _difference(alone: Callable[[], pa.Table], together: Callable[[], pa.Table]) -> str | None:
    """None if two answers, or two errors, are the same. Sums of doubles depend on the order of addition."""
    try:
        expected = alone()
    except WeirError as error:
        try:
            return f"an error is expected: {error}\ngot {together()}"
        except WeirError as same:
            return None if str(same) == str(error) else f"expected {error}\ngot {same}"
    got = together()
    if got.schema != expected.schema:
        return f"expected columns {expected.schema}, got {got.schema}"
    return differ(
        expected, got, approximate=True, lists_are_bags=True, room=dict.fromkeys(range(got.num_columns), 1e-9)
    )
