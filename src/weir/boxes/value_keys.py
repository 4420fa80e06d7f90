"""Keys of values: numbers by themselves, texts by the constants that they are compared with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weir.algebra.schema import DataType, Kind
from weir.boxes.bounds import Ints
from weir.index.keys import encode_column
from weir.index.strings import StringDictionary, find

_NO_STRINGS = StringDictionary(np.zeros(1, np.int64), np.empty(0, np.uint8))


def keys_of_values(values: pa.Array | pa.ChunkedArray, type_: DataType, dictionary: StringDictionary | None) -> Ints:
    """The key of each value; a text that is compared with nothing, as in IS NOT NULL, needs no dictionary."""
    if type_.kind is not Kind.STRING:
        return encode_column(values, type_)
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return find(_NO_STRINGS if dictionary is None else dictionary, values)
