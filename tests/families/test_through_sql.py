"""Random SQL texts and templates, from text to matches: segments against the evaluator on the same shapes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.generators.queries import random_query
from tests.generators.schemas import random_catalog
from tests.generators.streams import random_rows
from tests.generators.templates import random_template
from tests.marks import few_are_quick
from weir.algebra.nodes import Query
from weir.algebra.schema import Stream
from weir.errors import RegisterError
from weir.families.query_parts import parts_of
from weir.families.selections.selection_family import Group, Segment, describe
from weir.index.box_tables import Matches
from weir.index.strategies import STRATEGIES
from weir.plan.registration import Registration, constant_value, constants_table, plan_registration
from weir.settings import Settings
from weir.values.evaluate import truth

SETTINGS = Settings()


def planned_groups(seed: int, stream: Stream, count: int) -> list[tuple[Registration, pa.Table]]:
    """Registrations of single queries and of templates over one stream."""
    catalog = random_catalog(seed, streams=1, tables=0)
    found = []
    refused = 0
    for k in range(count):
        if k % 2:
            text, params = random_template(catalog, 1000 * seed + k, 8)
        else:
            query = random_query(catalog, 1000 * seed + k, ["selection"])
            text = query.text
            params = pa.table({n: pa.array([v]) for n, v in query.params.items()}) if query.params else None
        try:
            planned = plan_registration(text, params, catalog, SETTINGS)
            constants = constants_table(planned, params)
            planned.check(constants)
        except RegisterError as refusal:
            allowed = ("boxes_per_query_max", "parameter")
            assert any(word in str(refusal) for word in allowed), (text, str(refusal))
            refused += 1
            continue
        assert planned.classified.seen[0].streams == (stream,)
        found.append((planned, constants))
    assert refused <= count // 4
    return found


def core_of(planned: Registration) -> Query:
    """The one core of a selection, with or without DISTINCT."""
    assert planned.classified.parts is not None
    (core,) = planned.classified.parts.cores
    return core


@pytest.mark.parametrize("seed", few_are_quick(range(12)))
def test_matches_of_random_sql_are_what_recompute_says(seed: int) -> None:
    stream = next(iter(random_catalog(seed, streams=1, tables=0).streams.values()))
    made = planned_groups(seed, stream, 24)
    rows = random_rows(stream, 120, seed)
    groups, expected, first = [], [], 100
    for planned, constants in made:
        query, types = core_of(planned), planned.shape.types
        groups.append(Group(query, constants, first))
        first += constants.num_rows
        predicate = parts_of(query)[1]
        for row in range(constants.num_rows):
            values = {f"c{k}": constant_value(constants.column(f"c{k}")[row], t) for k, t in enumerate(types)}
            expected.append(np.ones(120, bool) if predicate is None else truth(predicate, rows, values))
        assert describe(query, None, stream)["boxes"]
    for strategy in STRATEGIES:
        segment = Segment.build(stream, groups, strategy=strategy)
        found = segment.match(rows, np.zeros(len(segment.ids), np.uint8), 1 << 40)
        assert isinstance(found, Matches)
        matched = np.zeros((120, len(segment.ids)), bool)
        matched[np.repeat(np.arange(120), np.diff(found.offsets)), found.slots] = True
        wrong = np.argwhere(np.array(expected) != matched.T)
        assert not len(wrong), (seed, strategy, _text_of(made, wrong[0][0]), rows.slice(wrong[0][1], 1).to_pylist())


def _text_of(made: list[tuple[Registration, pa.Table]], number: int) -> tuple[str, list[object]]:
    for planned, constants in made:
        if number < constants.num_rows:
            return planned.query.text, constants.slice(number, 1).to_pylist()
        number -= constants.num_rows
    raise AssertionError(number)
