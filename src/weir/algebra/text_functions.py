"""Scalar functions of texts: their types, and their values for constants.

Most of them are evaluated over columns by these very values, one distinct text at a time; those that Arrow has are
vectorised in `weir.values.text_calls`. A text of more than `CHARS_MAX` characters that a count asks for (`repeat`,
`lpad`) is NULL, so that one number cannot fill the memory; `replace` and `levenshtein` have limits of their own, and
`weir.values.room` has one for all texts that an expression makes. Characters are code points.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import zlib
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any
from urllib.parse import quote_plus

from weir.algebra import schema
from weir.algebra.java_regex import regex_fault, replacement_fault, translated
from weir.algebra.like_patterns import like
from weir.algebra.schema import Kind
from weir.algebra.signatures import (
    BYTES,
    FIXED_TEXT,
    FIXED_WHOLE,
    HASHED,
    NUMBER,
    TEXT,
    WHOLE,
    Signature,
    Taken,
    Takes,
    always,
)
from weir.errors import TooLargeError

CHARS_MAX = 1 << 16
REPLACED_CHARS_MAX = 1 << 24  # of one text
STEPS_MAX = 1 << 20  # of one Levenshtein distance: the product of the lengths, a tenth of a second


def _substring(text: str, start: int, length: int | None = None) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start else 0
    end = len(text) if length is None else begin + length
    return text[max(begin, 0) : max(end, 0)]


def _left(text: str, count: int) -> str:
    return text[: max(count, 0)]


def _right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count > 0 else ""


def _replace(text: str, search: str, replacement: str = "") -> object:
    if not search:
        return text
    size = len(text) + text.count(search) * (len(replacement) - len(search))
    if size > REPLACED_CHARS_MAX:
        raise TooLargeError(
            f"replace() makes a text of {size:,} characters, at most {REPLACED_CHARS_MAX:,} are allowed"
        )
    return text.replace(search, replacement)


def _padded(text: str, count: int, pad: str, *, left: bool) -> object:
    if count > CHARS_MAX:
        return None
    missing = count - len(text)
    if missing <= 0 or not pad:
        return text[: max(count, 0)]
    more = (pad * (missing // len(pad) + 1))[:missing]
    return more + text if left else text + more


def _repeat(text: str, count: int) -> object:
    return text * max(count, 0) if len(text) * count <= CHARS_MAX else None


def _split_part(text: str, delimiter: str, number: int) -> object:
    if not number:
        return None
    parts = text.split(delimiter) if delimiter else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def _instr(text: str, search: str) -> int:
    return text.find(search) + 1


def _locate(search: object, text: object, start: object = 1) -> object:
    """A NULL place finds nothing, as in Spark."""
    if start is None:
        return 0
    if search is None or text is None:
        return None
    assert isinstance(search, str)
    assert isinstance(text, str)
    assert isinstance(start, int)
    if start < 1:
        return 0
    return 1 if not search else text.find(search, start - 1) + 1


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def _chr(number: int) -> str:
    return "" if number < 0 else chr(number & 0xFF)


def _translate(text: str, search: str, replacement: str) -> str:
    mapped: dict[int, str | None] = {}
    for k, c in enumerate(search):
        mapped.setdefault(ord(c), replacement[k] if k < len(replacement) else None)
    return text.translate(mapped)


def _concat_ws(separator: object, *texts: object) -> object:
    return None if separator is None else str(separator).join(str(t) for t in texts if t is not None)


def _overlay(text: str, replacement: str, start: int, length: int = -1) -> str:
    length = len(replacement) if length < 0 else length
    return _substring(text, 1, start - 1) + replacement + _substring(text, start + length)


def _substring_index(text: str, delimiter: str, count: int) -> str:
    """What is before the count-th delimiter, or behind it from the end; delimiters may overlap, as in Spark."""
    if not count or not delimiter:
        return ""
    at = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(min(abs(count), len(text) + 1)):
        at = text.find(delimiter, at + 1) if count > 0 else text.rfind(delimiter, 0, max(at - 1 + len(delimiter), 0))
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def _stripped(strip: Callable[[str, str], str]) -> Callable[..., str]:
    return lambda text, characters=" ": strip(text, characters)


def _trimmed(name: str, side: str) -> Callable[[Sequence[str]], str]:
    return lambda p: f"trim({side}{p[1]} FROM {p[0]})" if len(p) > 1 else f"{name}({p[0]})"


def _sha2(text: str, bits: int) -> object:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, text.encode()).hexdigest()


def _levenshtein(a: str, b: str) -> int:
    if len(a) * len(b) > STEPS_MAX:
        raise TooLargeError(
            f"levenshtein() compares texts of {len(a):,} and {len(b):,} characters; "
            f"{STEPS_MAX:,} are allowed for the product"
        )
    row = list(range(len(b) + 1))
    for i, c in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, d in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (c != d))
    return row[-1]


def _find_in_set(text: str, texts: str) -> int:
    return 0 if "," in text else next((k for k, part in enumerate(texts.split(","), 1) if part == text), 0)


def _hex(value: object) -> str:
    if isinstance(value, int):
        return format(value & (2**64 - 1), "X")
    return str(value).encode().hex().upper()


_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))  # 7: H and W


def _soundex(text: str) -> str:
    """A text that begins with no ASCII letter is its own sound."""
    first = text[:1].upper() if text[:1].isascii() else ""
    if first not in _SOUNDS:
        return text
    code, previous = first, _SOUNDS[first]
    for c in text[1:]:
        upper = c.upper() if c.isascii() else ""
        if upper not in _SOUNDS:
            previous = "0"
            continue
        sound = _SOUNDS[upper]
        if sound == "7":
            continue
        if sound not in ("0", previous):
            code += sound
        previous = sound
        if len(code) == 4:
            break
    return code.ljust(4, "0")


def _regex_checked(args: Sequence[Any]) -> str:
    return regex_fault(str(args[0])) if args and args[0] is not None else ""


def _replacing_checked(args: Sequence[Any]) -> str:
    if args[0] is None or args[1] is None:
        return ""
    return regex_fault(str(args[0]), replacing=True) or replacement_fault(str(args[0]), str(args[1]))


def _extracting_checked(args: Sequence[Any]) -> str:
    if any(arg is None for arg in args):
        return ""
    group = args[1] if len(args) > 1 else 1
    assert isinstance(group, int)
    return regex_fault(str(args[0]), group=group)


_HEXED = Taken("a string or a whole number", frozenset({Kind.STRING, Kind.INT, Kind.BIGINT}), schema.STRING)
_INT, _BIGINT, _STRING, _BOOLEAN = (always(t) for t in (schema.INT, schema.BIGINT, schema.STRING, schema.BOOLEAN))


def _counting_checked(args: Sequence[Any]) -> str:
    if not args or args[0] is None:
        return ""
    fault = regex_fault(str(args[0]), replacing=True)
    return fault or ("'$' is not supported here" if translated(str(args[0])).is_ended else "")


def _like(text: str, pattern: str) -> object:
    """LIKE with any pattern; NULL where its backslash escapes nothing, of which Spark makes an error."""
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![%_\\])", pattern):
        return None
    return like(text, pattern)


def _elt(place: int | None, *texts: str | None) -> object:
    return texts[place - 1] if place is not None and 1 <= place <= len(texts) else None


def _format_number(x: Any, places: int) -> object:
    """With commas between thousands, halves to the even digit.

    Of a double its shortest digits are written; whether one that is cut off is a half, the double itself says.
    """
    if places < 0 or places > CHARS_MAX:
        return None
    if isinstance(x, float) and not math.isfinite(x):
        return "NaN" if x != x else "∞" if x > 0 else "-∞"
    shown = Decimal(repr(x)) if isinstance(x, float) else Decimal(x)
    exponent = shown.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -places:
        shown = Decimal(x)
    return f"{shown.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, Context(prec=700)):,f}"


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


TEXTS = (
    Signature("upper", Takes((TEXT,)), _STRING, str.upper, also=("ucase",)),
    Signature("lower", Takes((TEXT,)), _STRING, str.lower, also=("lcase",)),
    Signature("initcap", Takes((TEXT,)), _STRING, _initcap),
    Signature("length", Takes((TEXT,)), _INT, len, also=("char_length", "character_length", "len")),
    Signature("octet_length", Takes((TEXT,)), _INT, lambda text: len(text.encode())),
    Signature("bit_length", Takes((TEXT,)), _INT, lambda text: 8 * len(text.encode())),
    Signature(
        "trim", Takes((TEXT,), (TEXT,)), _STRING, _stripped(str.strip), also=("btrim",), written=_trimmed("trim", "")
    ),
    Signature("ltrim", Takes((TEXT,), (TEXT,)), _STRING, _stripped(str.lstrip), written=_trimmed("ltrim", "LEADING ")),
    Signature("rtrim", Takes((TEXT,), (TEXT,)), _STRING, _stripped(str.rstrip), written=_trimmed("rtrim", "TRAILING ")),
    Signature("substring", Takes((TEXT, WHOLE), (WHOLE,)), _STRING, _substring, also=("substr",)),
    Signature("left", Takes((TEXT, WHOLE)), _STRING, _left),
    Signature("right", Takes((TEXT, WHOLE)), _STRING, _right),
    Signature("concat", Takes((TEXT,), repeated=(TEXT,)), _STRING, lambda *texts: "".join(texts)),
    Signature("concat_ws", Takes((TEXT,), repeated=(TEXT,)), _STRING, _concat_ws, sees_nulls=True),
    Signature("replace", Takes((TEXT, TEXT), (TEXT,)), _STRING, _replace),
    Signature("lpad", Takes((TEXT, WHOLE), (TEXT,)), _STRING, lambda s, n, pad=" ": _padded(s, n, pad, left=True)),
    Signature("rpad", Takes((TEXT, WHOLE), (TEXT,)), _STRING, lambda s, n, pad=" ": _padded(s, n, pad, left=False)),
    Signature("repeat", Takes((TEXT, WHOLE)), _STRING, _repeat),
    Signature("space", Takes((WHOLE,)), _STRING, lambda count: _repeat(" ", count)),
    Signature("reverse", Takes((TEXT,)), _STRING, lambda text: text[::-1]),
    Signature("split_part", Takes((TEXT, TEXT, WHOLE)), _STRING, _split_part),
    Signature("substring_index", Takes((TEXT, TEXT, WHOLE)), _STRING, _substring_index),
    Signature("instr", Takes((TEXT, TEXT)), _INT, _instr),
    Signature("locate", Takes((TEXT, TEXT), (WHOLE,)), _INT, _locate, also=("position",), sees_nulls=True),
    Signature("startswith", Takes((TEXT, TEXT)), _BOOLEAN, str.startswith),
    Signature("endswith", Takes((TEXT, TEXT)), _BOOLEAN, str.endswith),
    Signature("contains", Takes((TEXT, TEXT)), _BOOLEAN, lambda text, search: search in text),
    Signature("overlay", Takes((TEXT, TEXT, WHOLE), (WHOLE,)), _STRING, _overlay),
    Signature("translate", Takes((TEXT, TEXT, TEXT)), _STRING, _translate),
    Signature("ascii", Takes((TEXT,)), _INT, lambda text: ord(text[0]) if text else 0),
    Signature("chr", Takes((WHOLE,)), _STRING, _chr, also=("char",)),
    Signature("find_in_set", Takes((TEXT, TEXT)), _INT, _find_in_set),
    Signature("levenshtein", Takes((TEXT, TEXT)), _INT, _levenshtein),
    Signature("soundex", Takes((TEXT,)), _STRING, _soundex),
    Signature("regexp_like", Takes((TEXT, FIXED_TEXT)), _BOOLEAN, also=("regexp", "rlike"), checked=_regex_checked),
    Signature("regexp_extract", Takes((TEXT, FIXED_TEXT), (FIXED_WHOLE,)), _STRING, checked=_extracting_checked),
    Signature("regexp_replace", Takes((TEXT, FIXED_TEXT, FIXED_TEXT)), _STRING, checked=_replacing_checked),
    Signature("regexp_count", Takes((TEXT, FIXED_TEXT)), _INT, checked=_counting_checked),
    Signature("regexp_substr", Takes((TEXT, FIXED_TEXT)), _STRING, checked=_counting_checked),
    Signature(
        "like_of", Takes((TEXT, TEXT)), _BOOLEAN, _like, written=lambda p: f"({p[0]} LIKE {p[1]})", is_syntax=True
    ),
    Signature("elt", Takes((WHOLE, TEXT), repeated=(TEXT,)), _STRING, _elt, sees_nulls=True),
    Signature("format_number", Takes((NUMBER, FIXED_WHOLE)), _STRING, _format_number),
    Signature("url_encode", Takes((TEXT,)), _STRING, _url_encode),
    # digests
    Signature("md5", Takes((BYTES,)), _STRING, lambda text: hashlib.md5(text.encode()).hexdigest()),
    Signature("sha1", Takes((BYTES,)), _STRING, lambda text: hashlib.sha1(text.encode()).hexdigest(), also=("sha",)),
    Signature("sha2", Takes((BYTES, WHOLE)), _STRING, _sha2),
    Signature("crc32", Takes((BYTES,)), _BIGINT, lambda text: zlib.crc32(text.encode())),
    Signature("hash", Takes((HASHED,), repeated=(HASHED,)), _INT, sees_nulls=True),
    Signature("xxhash64", Takes((HASHED,), repeated=(HASHED,)), _BIGINT, sees_nulls=True),
    Signature("hex", Takes((_HEXED,)), _STRING, _hex),
    Signature("base64", Takes((BYTES,)), _STRING, lambda text: base64.b64encode(text.encode()).decode()),
)
