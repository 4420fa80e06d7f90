"""Seeded generators of schemas, streams and queries, and a model of ingest."""

from tests.generators.domains import SPAN_US, START_US
from tests.generators.finishes import BLOCKS, FinishQuery, random_finish
from tests.generators.intake import Batch, Intake, Rejected, accept, rows_until
from tests.generators.many_joins import random_many_join, random_many_join_template
from tests.generators.queries import KINDS, RandomQuery, random_query
from tests.generators.schemas import random_catalog
from tests.generators.select_joins import PLACEMENTS, join_catalog, random_join_template, random_select_join
from tests.generators.streams import random_rows, split_batches
from tests.generators.templates import RandomTemplate, random_template
from tests.generators.wide import WideWorld
from tests.generators.wide_streams import wide_catalog, wide_rows

__all__ = [
    "BLOCKS",
    "KINDS",
    "PLACEMENTS",
    "SPAN_US",
    "START_US",
    "Batch",
    "FinishQuery",
    "Intake",
    "RandomQuery",
    "RandomTemplate",
    "Rejected",
    "WideWorld",
    "accept",
    "join_catalog",
    "random_catalog",
    "random_finish",
    "random_join_template",
    "random_many_join",
    "random_many_join_template",
    "random_query",
    "random_rows",
    "random_select_join",
    "random_template",
    "rows_until",
    "split_batches",
    "wide_catalog",
    "wide_rows",
]
