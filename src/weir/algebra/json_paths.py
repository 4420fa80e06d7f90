"""Paths into JSON texts, `$.a.b[0]` and `$['a b']`, and what `get_json_object` finds there.

As Spark writes it: a text without its quotation marks, everything else as compact JSON, in which a number with a point
or an exponent is a double (`1.50` becomes `1.5`, `1e2` becomes `100.0`). NULL where the text is no JSON up to what is
looked for, where nothing is there, and where a JSON null is.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

_STEP = re.compile(r"\.\s*([^.\[\s*][^.\[]*)|\[\s*(\d+)\s*\]|\['(?!\*')([^'?]+)'\]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
_BLANKS = " \t\r\n"
_INDEX_MAX = 2**31 - 1
_NOTHING = object()

Step = str | int


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def steps_of(path: str) -> tuple[Step, ...] | None:
    """The names and places of a path; None if it is none, or has a wildcard."""
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, place, quoted = found.groups()
        if place is not None and int(place) > _INDEX_MAX:
            return None
        steps.append(int(place) if place is not None else name or quoted)
        at = found.end()
    return tuple(steps)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, in order; of two that are called alike, the first that leads to something counts."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_no_constant, strict=False)


def json_part(text: str, steps: tuple[Step, ...]) -> str | None:
    """What a JSON text has at a path."""
    text = text.lstrip(_BLANKS)
    try:
        whole, end = _read(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, (str, list)) and text[end : end + 1] not in ("", *_BLANKS):
        return None  # 12x is no number, though what follows an object or a text is not looked at
    found = _found(whole, steps)
    if found is _NOTHING:
        return None
    part = found if isinstance(found, str) else _written(found)
    return part.encode(errors="replace").decode()  # half a surrogate pair, which \\u may write, is no character


def _read(text: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text)
    except ValueError:
        if "'" not in text:
            raise
    return _DECODER.raw_decode(_QUOTED.sub(_in_double_marks, text))


def _in_double_marks(found: re.Match[str]) -> str:
    """A text in single quotation marks, which Spark takes too, as JSON has it."""
    if found[1] is None:
        return found[0]
    return '"' + re.sub(r"""\\(.)|(")""", lambda c: "'" if c[1] == "'" else '\\"' if c[2] else c[0], found[1]) + '"'


def _found(value: Any, steps: tuple[Step, ...]) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str) and isinstance(value, _Pairs):
        for name, inside in value:
            if name == step and inside is not None:
                part = _found(inside, rest)
                if part is not _NOTHING:
                    return part
    elif isinstance(step, int) and type(value) is list and step < len(value):
        return _found(value[step], rest)
    return _NOTHING


def _written(value: Any) -> str:
    """Compact JSON."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return '"' + _ESCAPED.sub(lambda c: _ESCAPES.get(c[0]) or f"\\u{ord(c[0]):04X}", value) + '"'
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{_written(name)}:{_written(inside)}" for name, inside in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return str(value) if isinstance(value, int) else _double_text(value)


def _double_text(value: float) -> str:
    """A double as Java writes it."""
    if not math.isfinite(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exact.exponent, int)
    digits = "".join(map(str, exact.digits))
    mantissa = f"{digits[0]}.{digits[1:] or '0'}"
    return f"{'-' if exact.sign else ''}{mantissa}E{len(digits) - 1 + exact.exponent}"
