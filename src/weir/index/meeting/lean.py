"""Lean kernels: compiled without counting references to arrays.

A strategy is called for each event, with tuples of some dozens of arrays. Numba counts a reference for every array that
is taken out of a tuple, atomically, and takes it back at the end: 1 µs an event, as much as a search among a hundred
thousand boxes. A kernel that makes no arrays needs no counting, because its caller holds all that it sees and returns
while it runs. Everything else is as in `weir.index.jit`.

Invariant: a lean kernel allocates nothing; Numba refuses to compile one that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from weir.index.jit import config, kernel

F = TypeVar("F", bound=Callable[..., Any])


def lean(function: F) -> F:
    """`kernel` for a function that makes no arrays."""
    compiled = kernel(function)
    if not config.DISABLE_JIT:
        cast(Any, compiled).targetoptions["_nrt"] = False  # read when it is compiled, at the first call
    return compiled
