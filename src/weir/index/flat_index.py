"""What indexes have in common that are one structure of flat arrays and two numbers: how they are stored and measured.

A subclass says which structure it is made of, builds it and searches it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from weir.index.box_tables import frozen


class FlatIndex:
    """A structure, a NamedTuple of arrays, over boxes of `n_slots` queries and `n_attributes` attributes."""

    structure: ClassVar[type[Any]]
    takes_steps = False

    def __init__(self, flat: Any, n_slots: int, n_attributes: int) -> None:
        self._flat = frozen(flat)
        self._n_slots = n_slots
        self._n_attributes = n_attributes

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self._flat._asdict(), "numbers": np.array([self._n_slots, self._n_attributes], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        n_slots, n_attributes = arrays["numbers"].tolist()
        return cls(cls.structure(*(arrays[name] for name in cls.structure._fields)), n_slots, n_attributes)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())
