"""The language's expressions: for each class of sqlglot's nodes what lowers it, and the names of all functions.

A class that is in none of these tables is not part of the language; a new one is a function in the file that it
belongs to, and a line in that file's table.
"""

from __future__ import annotations

from weir.algebra.aggregates import AGGREGATE_NAMES, WINDOW_NAMES
from weir.algebra.functions import NAMED
from weir.sql.arithmetic import ARITHMETIC
from weir.sql.casts import CASTS
from weir.sql.conditions import CONDITIONS
from weir.sql.constants import CONSTANTS
from weir.sql.expressions import Language
from weir.sql.forms import FORMS, SYNTAX
from weir.sql.function_calls import FUNCTION_CALLS
from weir.sql.grouping_sets import GROUPING
from weir.sql.membership import MEMBERSHIP
from weir.sql.names import NAMES
from weir.sql.row_sets import ROW_SETS
from weir.sql.stretches import STRETCHES
from weir.sql.subqueries import SUBQUERIES

LANGUAGE = Language(
    methods={
        **NAMES,
        **CONSTANTS,
        **ARITHMETIC,
        **CASTS,
        **CONDITIONS,
        **MEMBERSHIP,
        **FUNCTION_CALLS,
        **ROW_SETS,
        **SUBQUERIES,
        **SYNTAX,
    },
    functions=tuple(sorted({"cast", "if", *AGGREGATE_NAMES, *WINDOW_NAMES, *NAMED, *FORMS, *STRETCHES, *GROUPING})),
)
