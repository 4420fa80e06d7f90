"""Lean kernels: compiled without counting references to arrays.

A strategy is called for each event, with tuples of some dozens of arrays. Numba counts a reference for every array that
is taken out of a tuple, atomically, and takes it back at the end: 1 µs an event, as much as a search among a hundred
thousand boxes. A kernel that makes no arrays needs no counting, because its caller holds all that it sees and returns
while it runs. Everything else is as in `weir.index.jit`.

A tuple is passed by value, array by array, so a call with a whole index among its arguments costs as much as finding a
few boxes. What only takes such tuples apart is *thin*: it is made part of whoever calls it. Long loops are not, because
what has too many of them is compiled badly. A thin kernel is called by kernels only: to compile the way in from Python,
which takes such tuples apart as well, would take longer than to compile what it does.

Invariant: a lean kernel allocates nothing; Numba refuses to compile one that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba.core.registry import CPUDispatcher

from weir.index.jit import config, kernel

F = TypeVar("F", bound=Callable[..., Any])

THIN = {"forceinline": True, "no_cpython_wrapper": True}


def lean(function: F) -> F:
    """`kernel` for a function that makes no arrays."""
    compiled = kernel(function)
    if not config.DISABLE_JIT:
        # Read at the first call, which compiles it; what is not said here is inherited from the caller.
        cast(Any, compiled).targetoptions |= {"_nrt": False, "forceinline": False}
    return compiled


def thin(function: F) -> F:
    """`lean` for a function whose call would cost more than what it does; only kernels can call it."""
    compiled = lean(function)
    if not config.DISABLE_JIT:
        cast(Any, compiled).targetoptions |= THIN
        cast(Any, compiled).__class__ = _Within
    return compiled


class _Within(CPUDispatcher):
    """A compiled function without an entry for Python: to call it from there would end the process."""

    def __call__(self, *arguments: object) -> object:
        raise TypeError(f"{self.py_func.__name__} is called by kernels only")
