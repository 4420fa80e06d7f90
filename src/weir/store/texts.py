"""Texts of a given length: what a char or varchar column holds.

As in Spark, blanks beyond the length are cut off, any other character there is too much, and a shorter char is filled
up with blanks.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import DataType

A = TypeVar("A", pa.Array, pa.ChunkedArray)


class TooLongError(ValueError):
    """A text that does not fit."""


def sized(texts: A, type_: DataType) -> A:
    """The texts as a column of the type has them; TooLongError if one does not fit. Types without a length take all."""
    if not type_.precision or not type_.variant:
        return texts
    longer = beyond(texts, type_)
    if pc.any(longer).as_py():
        text = texts.filter(longer)[0].as_py()
        raise TooLongError(f"a text of {len(text)} characters: '{text[:40]}'")
    return fitted(texts, type_)


def beyond(texts: A, type_: DataType) -> A:
    """Where texts have more than blanks beyond the length of a char or varchar."""
    return pc.greater(pc.utf8_length(pc.utf8_rtrim(texts, characters=" ")), type_.precision)


def fitted(texts: A, type_: DataType) -> A:
    """Texts that fit, without the blanks beyond the length; a char has all of its length."""
    texts = pc.utf8_slice_codeunits(texts, 0, type_.precision)
    return padded(texts, type_)


def met(texts: A, type_: DataType) -> A:
    """Constants that are compared with a column of the type; beside a char, blanks at their end do not count."""
    return padded(pc.utf8_rtrim(texts, characters=" "), type_) if type_.variant == "char" else texts


def padded(texts: A, type_: DataType) -> A:
    """Texts, longer ones too, filled up to the length of a char."""
    return pc.utf8_rpad(texts, width=type_.precision, padding=" ") if type_.variant == "char" else texts
