"""Tools for testing Weir and queries over it: the oracle, a model of ingest, and seeded generators."""

from weir.testing.bags import differ
from weir.testing.domains import SPAN_US, START_US
from weir.testing.intake import Batch, Intake, Rejected, accept, rows_until
from weir.testing.many_joins import random_many_join, random_many_join_template
from weir.testing.oracle import answer
from weir.testing.queries import KINDS, RandomQuery, random_query
from weir.testing.schemas import random_catalog
from weir.testing.select_joins import PLACEMENTS, join_catalog, random_join_template, random_select_join
from weir.testing.streams import arrow_schema, random_rows, split_batches
from weir.testing.templates import RandomTemplate, random_template

__all__ = [
    "KINDS",
    "PLACEMENTS",
    "SPAN_US",
    "START_US",
    "Batch",
    "Intake",
    "RandomQuery",
    "RandomTemplate",
    "Rejected",
    "accept",
    "answer",
    "arrow_schema",
    "differ",
    "join_catalog",
    "random_catalog",
    "random_join_template",
    "random_many_join",
    "random_many_join_template",
    "random_query",
    "random_rows",
    "random_select_join",
    "random_template",
    "rows_until",
    "split_batches",
]
