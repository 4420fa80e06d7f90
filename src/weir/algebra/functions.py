"""The table of scalar functions: for each its names, what it takes, what type it gives, and its value for constants.

A row here is all that most functions need: parsing, typing, printing, walking, storing and indexing work from these,
and columns are evaluated by the value for constants, row by row. Functions that are vectorised, or have no such value,
have a row in `weir.values.calls` too. (docs/language.md has a line for each; a test compares each with Spark.)
Semantics are Spark's; where a value does not fit into a type, or Spark raises an error, the result is NULL.
"""

from __future__ import annotations

from weir.algebra.array_functions import ARRAYS
from weir.algebra.choice_functions import CHOICES
from weir.algebra.number_functions import NUMBERS
from weir.algebra.payload_functions import PAYLOADS
from weir.algebra.text_functions import TEXTS
from weir.algebra.time_functions import TIMES

FUNCTIONS = (*NUMBERS, *TEXTS, *CHOICES, *TIMES, *PAYLOADS, *ARRAYS)
SIGNATURES = {f.name: f for f in FUNCTIONS}  # by the name that `Call.function` has
NAMED = {name: f for f in FUNCTIONS if not f.is_syntax for name in (f.name, *f.also)}  # by every name that SQL may use
