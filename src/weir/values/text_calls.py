"""Vectorised functions of texts; those that are not here have a value for constants, and are asked text by text.

Texts that are not ASCII change case one distinct text at a time, because Unicode's rules look at whole words ('ß'
becomes 'SS', a Σ at the end of a word ς); so does `replace` with distinct patterns. Regular expressions run in RE2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.java_regex import LINE_END, rewritten, translated
from weir.algebra.schema import STRING, DataType
from weir.values.columns import Bools, Ints, Operand, both_valid
from weir.values.evaluations import Evaluation, Values, by_pattern, size_of, spread, strict, text_operand
from weir.values.room import require


def _cased(ascii_case: Callable[[Any], Any], case: Callable[[str], str]) -> Values:
    def values(text: Operand) -> pa.Array:
        if pc.all(pc.string_is_ascii(text.values)).as_py() is not False:
            return ascii_case(text.values)
        encoded = text.values.dictionary_encode()
        changed = [None if word is None else case(word) for word in encoded.dictionary.to_pylist()]
        return pa.array(changed, pa.string()).take(encoded.indices)

    return values


def _length(text: Operand) -> Ints:
    counts: Ints = pc.utf8_length(text.values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts


def _substring(text: Operand, start: Operand, length: Operand | None = None) -> pa.Array:
    """By the bytes at which characters begin; the rows are cut out of one buffer."""
    given = [text, start] if length is None else [text, start, length]
    count = size_of(given)
    text, start, *more = (spread(arg, count) for arg in given)
    valid = both_valid(text, start, *more)
    offsets, octets = _bytes(text.values)
    begins = np.flatnonzero((octets & 0xC0) != 0x80)  # of characters
    firsts = np.searchsorted(begins, offsets)  # by text, the number of its first character
    begins = np.append(begins, len(octets))
    counts = np.diff(firsts)
    at = start.values
    begin = np.where(at > 0, at - 1, np.where(at < 0, counts + at, 0))
    end = counts
    if more:  # begin + length, which is cut where the sum might overflow
        wanted = np.maximum(more[0].values, 0)
        begin = np.minimum(begin, counts)
        end = begin + np.where(begin < 0, wanted, np.minimum(wanted, counts))
    begin = np.clip(begin, 0, counts)
    end = np.maximum(begin, np.clip(end, 0, counts))
    begin, end = begins[firsts[:-1] + begin], begins[firsts[:-1] + end]
    sizes = end - begin
    cut = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=cut[1:])
    kept = octets[np.repeat(begin - cut[:-1], sizes) + np.arange(cut[-1])]
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(cut), pa.py_buffer(kept), validity)


def _bytes(texts: pa.Array) -> tuple[Ints, np.ndarray]:
    """Where the texts begin and end, and their bytes."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return places - places[0], octets[places[0] : places[-1]]


def _concat(*texts: Operand) -> pa.Array:
    count = size_of(texts)
    require("concat", sum(t.values.nbytes * (count if len(t.values) == 1 else 1) for t in texts))
    return pc.binary_join_element_wise(*(spread(text, count).values for text in texts), "")


def _replace(text: Operand, search: Operand, replacement: Operand | None = None) -> pa.Array:
    patterns = [search, replacement or Operand(pa.array([""]), None, STRING, True)]
    return by_pattern(text, patterns, lambda part, texts: _replaced(part.values, *texts))


def _replaced(texts: pa.Array, search: str | None, replacement: str | None) -> pa.Array:
    if search is None or replacement is None:
        return pa.nulls(len(texts), pa.string())
    if not search:
        return texts
    if len(replacement) > len(search):
        matches = pc.sum(pc.count_substring(texts, pattern=search)).as_py() or 0
        require("replace", texts.nbytes + matches * (len(replacement.encode()) - len(search.encode())))
    return pc.replace_substring(texts, pattern=search, replacement=replacement)


def _left(text: Operand, count: Operand) -> pa.Array:
    return _substring(text, Operand(np.ones(1, np.int64), None, count.type, True), count)


def _right(text: Operand, count: Operand) -> pa.Array:
    return _substring(text, Operand(-count.values, count.valid, count.type, count.constant), count)


def _trimmed(trim: Callable[..., pa.Array]) -> Values:
    """Without some characters at its ends, blanks if none are named."""

    def values(text: Operand, characters: Operand | None = None) -> pa.Array:
        if characters is None:
            return trim(text.values, characters=" ")
        return by_pattern(text, [characters], lambda part, words: one(part.values, words[0]))

    def one(texts: pa.Array, characters: str | None) -> pa.Array:
        if characters is None:
            return pa.nulls(len(texts), pa.string())
        return trim(texts, characters=characters) if characters else texts

    return values


def _found(find: Callable[..., pa.Array]) -> Evaluation:
    """Whether a text has another one in some place."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        text, search = args
        found = by_pattern(text, [search], lambda part, words: one(part.values, words[0]))
        return _truth(found, type_, all(arg.constant for arg in args))

    def one(texts: pa.Array, search: str | None) -> pa.Array:
        return pa.nulls(len(texts), pa.bool_()) if search is None else find(texts, pattern=search)

    return evaluated


def _truth(found: pa.Array, type_: DataType, constant: bool) -> Operand:
    valid: Bools | None = None if not found.null_count else found.is_valid().to_numpy(zero_copy_only=False)
    return Operand(found.fill_null(False).to_numpy(zero_copy_only=False), valid, type_, constant)


def _regexp_like(args: Sequence[Operand], type_: DataType) -> Operand:
    text, pattern = args
    wanted = translated(pattern.values[0].as_py())
    if not wanted.is_ended:
        return _truth(pc.match_substring_regex(text.values, pattern=wanted.body), type_, text.constant)
    ended = rf"(?:{wanted.body})\z"
    shorter = pc.replace_substring_regex(text.values, pattern=rf"{LINE_END}\z", replacement="")
    whole, without_end = (pc.match_substring_regex(t, pattern=ended) for t in (text.values, shorter))
    return _truth(pc.or_(whole, without_end), type_, text.constant)


def _regexp_extract(text: Operand, pattern: Operand, group: Operand | None = None) -> pa.Array:
    """The group of the first match; the empty text where there is none."""
    number = 1 if group is None else int(group.values[0])
    wanted = translated(pattern.values[0].as_py(), number)
    body = f"(?P<found>{wanted.body})" if number == 0 else f"(?:{wanted.body})"
    body += rf"{LINE_END}?\z" if wanted.is_ended else ""
    found = pc.struct_field(pc.extract_regex(text.values, pattern=body), "found")
    return pc.if_else(text.values.is_valid(), found.fill_null(""), pa.scalar(None, pa.string()))


def _regexp_replace(text: Operand, pattern: Operand, replacement: Operand) -> pa.Array:
    """Every match; a line end behind `$` is put back."""
    wanted = translated(pattern.values[0].as_py())
    made, body = rewritten(replacement.values[0].as_py(), wanted), wanted.body
    if wanted.is_ended:
        made, body = rf"{made}\{wanted.groups + 2}", rf"({body})({LINE_END}?)\z"
    matches = pc.sum(pc.count_substring_regex(text.values, pattern=body)).as_py() or 0
    # A group that is named is at most all of the text, for all matches together.
    require("regexp_replace", text.values.nbytes * (1 + made.count("\\")) + matches * len(made.encode()))
    return pc.replace_substring_regex(text.values, pattern=body, replacement=made)


def _regexp_count(text: Operand, pattern: Operand) -> object:
    body = translated(pattern.values[0].as_py()).body
    found = pc.count_substring_regex(text.values, pattern=body)
    return found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _regexp_substr(args: Sequence[Operand], _type: DataType) -> Operand:
    """The first match, NULL where there is none."""
    text, pattern = args
    body = translated(pattern.values[0].as_py(), 0).body
    found = pc.struct_field(pc.extract_regex(text.values, pattern=f"(?P<found>{body})"), "found")
    return text_operand(found, text.constant)


TEXT_CALLS: dict[str, Evaluation] = {
    "upper": strict(_cased(pc.ascii_upper, str.upper)),
    "lower": strict(_cased(pc.ascii_lower, str.lower)),
    "length": strict(_length),
    "trim": strict(_trimmed(pc.utf8_trim)),
    "ltrim": strict(_trimmed(pc.utf8_ltrim)),
    "rtrim": strict(_trimmed(pc.utf8_rtrim)),
    "substring": strict(_substring),
    "left": strict(_left),
    "right": strict(_right),
    "concat": strict(_concat),
    "replace": strict(_replace),
    "startswith": _found(pc.starts_with),
    "endswith": _found(pc.ends_with),
    "contains": _found(pc.match_substring),
    "regexp_like": _regexp_like,
    "regexp_extract": strict(_regexp_extract),
    "regexp_replace": strict(_regexp_replace),
    "regexp_count": strict(_regexp_count),
    "regexp_substr": _regexp_substr,
}
