"""Scalar functions over operands of columns: each row of `weir.algebra.functions` by its evaluation.

Most are some passes of NumPy or Arrow; a function that only has a value for constants is asked for every row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.algebra.functions import FUNCTIONS, SIGNATURES
from weir.algebra.schema import DataType, Kind
from weir.algebra.signatures import Signature
from weir.values import payloads
from weir.values.array_calls import ARRAY_CALLS
from weir.values.choice_calls import CHOICE_CALLS
from weir.values.columns import Operand, null_operand
from weir.values.evaluations import Evaluation, mapped
from weir.values.hash_calls import HASH_CALLS
from weir.values.number_calls import NUMBER_CALLS
from weir.values.room import take
from weir.values.text_calls import TEXT_CALLS
from weir.values.time_calls import TIME_CALLS

_PAYLOAD_CALLS: dict[str, Evaluation] = {"size": payloads.size, "array_contains": payloads.array_contains}
_VECTORISED = {
    **NUMBER_CALLS,
    **TEXT_CALLS,
    **HASH_CALLS,
    **CHOICE_CALLS,
    **TIME_CALLS,
    **_PAYLOAD_CALLS,
    **ARRAY_CALLS,
}


def call(function: str, args: Sequence[Operand], type_: DataType) -> Operand:
    """The function of the operands, of type `type_` as the algebra says."""
    if not SIGNATURES[function].sees_nulls and any(arg.kind is Kind.NULL for arg in args):
        return null_operand(type_)
    with np.errstate(all="ignore"):  # NULL places hold anything
        found = EVALUATIONS[function](args, type_)
    if found.kind is Kind.STRING:
        take(function, found.values.nbytes, sum(arg.values.nbytes for arg in args if arg.kind is Kind.STRING))
    return found


def _evaluation(function: Signature) -> Evaluation:
    if function.name in _VECTORISED:
        return _VECTORISED[function.name]
    assert function.value is not None, f"{function.name} is not evaluated"
    return mapped(function.value, sees_nulls=function.sees_nulls)


EVALUATIONS: dict[str, Evaluation] = {f.name: _evaluation(f) for f in FUNCTIONS}
