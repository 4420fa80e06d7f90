"""LIKE patterns that are ranges of strings.

`'abc%'` holds exactly for the strings from 'abc' up to, not including, the next string that does not start with
it ('abd'), because strings are ordered by their UTF-8 bytes; a pattern without wildcards is an equality. So a
million prefixes are a million intervals on one attribute, where each other pattern needs an attribute of its
own. Sorting patterns into these classes is a handful of Arrow kernels over all of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_PREFIX = r"(?s)\A(?:[^%_\\]|\\.)*%+\z"
_TEXT = r"(?s)\A(?:[^%_\\]|\\.)*\z"
_LAST_POINT = 0x10FFFF


class Patterns(NamedTuple):
    """LIKE patterns by class; `text` is what an exact pattern equals and a prefix pattern starts with."""

    text: pa.Array
    exact: npt.NDArray[np.bool_]
    prefix: npt.NDArray[np.bool_]


def classify(patterns: pa.Array) -> Patterns:
    """Which patterns (none of them NULL) are texts, which prefixes; the others are neither."""
    exact = pc.match_substring_regex(patterns, pattern=_TEXT).to_numpy(zero_copy_only=False)
    prefix = pc.match_substring_regex(patterns, pattern=_PREFIX).to_numpy(zero_copy_only=False)
    bare = pc.replace_substring_regex(patterns, pattern=r"%+\z", replacement="")
    text = pc.replace_substring_regex(
        pc.if_else(pa.array(prefix), bare, patterns), pattern=r"(?s)\\(.)", replacement=r"\1"
    )
    return Patterns(text, exact, prefix)


def successors(prefixes: pa.Array) -> pa.Array:
    """For each prefix the least string above all strings that start with it; NULL when there is none.

    Nearly always that is the prefix with its last byte one higher. Where the result would not be UTF-8 (after
    0x7f and 0xbf), the last character that has a successor is replaced, once for each distinct prefix.
    """
    offsets = np.frombuffer(prefixes.buffers()[1], np.int32)[prefixes.offset : prefixes.offset + len(prefixes) + 1]
    data = prefixes.buffers()[2]
    octets = np.array(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))
    last = offsets[1:] - 1
    empty = offsets[1:] == offsets[:-1]
    plain = ~empty
    plain[plain] = ~np.isin(octets[last[plain]], (0x7F, 0xBF))
    octets[last[plain]] += 1
    raised = pa.StringArray.from_buffers(
        len(prefixes), pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(octets)
    )
    if plain.all():
        return raised
    rare = prefixes.filter(pa.array(~plain)).dictionary_encode()
    by_hand = pa.array([_successor(p) for p in rare.dictionary.to_pylist()], pa.string()).take(rare.indices)
    return pc.replace_with_mask(raised, pa.array(~plain), by_hand)


def _successor(prefix: str) -> str | None:
    while prefix:
        point = ord(prefix[-1])
        if point < _LAST_POINT:
            following = 0xE000 if point == 0xD7FF else point + 1  # no character lies between
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None
