"""Random templates: one text with parameters, and a table of parameter rows, one for each standing query.

All rows of the table have one shape, which is what `register_many` takes. Values come from the pools that rows
come from, so that the queries of a template match different rows; NULL, NaN, infinities, extremes and inverted
ranges occur among them.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pyarrow as pa

from tests.generators.phrases import Phrases, Slot, Source, random_value
from tests.generators.windows import reach_of
from weir.algebra.schema import Catalog, Stream
from weir.testing.arrow_types import arrow_type


class RandomTemplate(NamedTuple):
    """A generated template."""

    text: str
    params: pa.Table  # one row a query, one column a parameter


def random_template(catalog: Catalog, seed: int, n: int = 20, *, depth: int = 3) -> RandomTemplate:
    """A selection over one stream with at least one parameter, and `n` rows of parameters."""
    rng = random.Random(f"template {seed}")
    stream = rng.choice(list(catalog.streams.values()))
    alias = rng.choice((stream.name, "s0"))
    phrases = Phrases(rng, [Source(alias, stream)], template=True)
    predicate = phrases.predicate(depth)
    while not phrases.slots:
        predicate = phrases.predicate(depth)
    lengths: dict[str, list[int]] = {}
    window = _window(rng, stream, lengths, n)
    known = phrases.columns()
    columns = [text for text, _ in rng.sample(known, k=min(rng.randint(1, len(stream.columns)), len(known)))]
    projection = "*" if rng.random() < 0.4 else ", ".join(columns)
    source = stream.name if alias == stream.name else f"{stream.name} {alias}"
    text = f"SELECT {projection} FROM {source} WHERE {predicate} {window}".rstrip()
    arrays = {slot.name: _values(rng, slot, n) for slot in phrases.slots}
    arrays |= {name: pa.array(values, pa.int64()) for name, values in lengths.items()}
    return RandomTemplate(text, pa.table(arrays))


def _window(rng: random.Random, stream: Stream, lengths: dict[str, list[int]], n: int) -> str:
    roll = rng.random()
    if roll < 0.4:
        return ""
    if roll < 0.7:
        return f"BEGIN NOW - INTERVAL {rng.randint(1, reach_of(stream))} SECOND END NOW"
    lengths["w"] = [rng.randint(1, reach_of(stream)) for _ in range(n)]
    return "BEGIN NOW - :w END NOW"


def _values(rng: random.Random, slot: Slot, n: int) -> pa.Array:
    if slot.choices:
        values = [None if rng.random() < 0.04 else rng.choice(slot.choices) for _ in range(n)]
    else:
        values = [random_value(rng, slot.type) for _ in range(n)]
    return pa.array(values, arrow_type(slot.type))
