"""Flat arrays: nested NamedTuples of arrays by the path of their names, as segments keep them, and back."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import numpy as np

S = TypeVar("S", bound=tuple[Any, ...])


def flat(structure: Any, name: str = "") -> dict[str, np.ndarray]:
    """The arrays of a structure; one that is within another has its name in front."""
    found: dict[str, np.ndarray] = {}
    for field, part in structure._asdict().items():
        path = f"{name}_{field}" if name else field
        found |= {path: part} if isinstance(part, np.ndarray) else flat(part, path)
    return found


def restored(kind: type[S], arrays: Mapping[str, np.ndarray], name: str = "") -> S:
    """The structure whose arrays `flat` gave; nothing is copied."""

    def part(field: str, hint: Any) -> Any:
        path = f"{name}_{field}" if name else field
        return restored(hint, arrays, path) if hasattr(hint, "_fields") else arrays[path]

    return kind(*(part(field, hint) for field, hint in _fields(kind)))


@functools.cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """The fields of a structure with their types; to work them out takes longer than to restore one."""
    return tuple(get_type_hints(kind).items())
