"""Patterns of dates and instants, as date_format and to_timestamp take them: a part of Spark's pattern letters.

A pattern is read into parts, each a letter with its count, or a text that stands for itself. Which letters there are
is `WRITES` and `READS`; all others are refused when the query is registered. Reading is strict, as in Spark: `MM` takes
two digits, a day that its month does not have is NULL, and the whole text must be used up.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
# By letter the counts in which it may stand: for writing, and for reading.
WRITES = {"y": (2, 4), "M": (1, 2, 3, 4), "d": (1, 2), "H": (1, 2), "h": (1, 2), "m": (1, 2), "s": (1, 2), "a": (1,)}
WRITES |= {"E": (1, 2, 3, 4), "S": tuple(range(1, 10))}
READS = {**WRITES, "E": (), "y": (2, 4)}
_FRACTION_DIGITS = 6
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()


class Part(NamedTuple):
    letter: str  # "" for a text that stands for itself
    times: int  # how often it stands there
    text: str


class PatternFaultError(Exception):
    """What is wrong with a pattern, in words."""


@lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """The parts of a pattern."""
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "'":
            quoted = re.compile(r"'((?:[^']|'')*)'").match(pattern, at)
            if quoted is None:
                raise PatternFaultError("a quotation in it is never closed")
            parts.append(Part("", 0, quoted[1].replace("''", "'") or "'"))
            at = quoted.end()
        elif c.isascii() and c.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == c:
                end += 1
            parts.append(Part(c, end - at, ""))
            at = end
        elif c in "[]{}#":
            raise PatternFaultError(f"'{c}' in it is not taken")
        else:
            parts.append(Part("", 0, c))
            at += 1
    return tuple(parts)


def formatting_fault(pattern: str) -> str:
    """Why a pattern is refused for writing; "" if it is not."""
    return _fault(pattern, WRITES)


def parsing_fault(pattern: str) -> str:
    """Why a pattern is refused for reading; "" if it is not."""
    fault = _fault(pattern, READS)
    if fault:
        return fault
    parts = parts_of(pattern)
    letters = [p.letter for p in parts if p.letter]
    if len(set(letters)) < len(letters):
        return "a letter stands in it twice"
    if ("h" in letters) != ("a" in letters) and "a" in letters:
        return "'a' goes with 'h'"
    if "h" in letters and "H" in letters:
        return "'h' and 'H' exclude each other"
    for before, after in pairwise(parts):
        loose = any(p.letter and p.times == 1 and p.letter != "a" for p in (before, after))
        if loose and before.letter and after.letter:
            return "numbers of no fixed width stand side by side in it"
    return ""


def _fault(pattern: str, counts: dict[str, tuple[int, ...]]) -> str:
    try:
        parts = parts_of(pattern)
    except PatternFaultError as e:
        return str(e)
    for part in parts:
        if part.letter and part.times not in counts.get(part.letter, ()):
            return f"'{part.letter * part.times}' in it is not taken; docs/language.md lists the letters"
    return ""


class _Reader(NamedTuple):
    regex: re.Pattern[str]
    letters: tuple[tuple[str, int], ...]  # of the groups


@lru_cache(maxsize=256)
def _reader(pattern: str) -> _Reader:
    out, letters = [], []
    for part in parts_of(pattern):
        if not part.letter:
            out.append(re.escape(part.text))
            continue
        letters.append((part.letter, part.times))
        if part.letter == "M" and part.times > 2:
            names = [m[:3] if part.times == 3 else m for m in MONTHS]
            out.append(f"({'|'.join(names)})")
        elif part.letter == "a":
            out.append("(AM|PM)")
        elif part.letter == "S":
            out.append(f"([0-9]{{1,{part.times}}})")
        else:
            year = "-?[0-9]{4}|[+-][0-9]{5,9}" if part.letter == "y" and part.times == 4 else ""
            out.append(f"({year})" if year else "([0-9]{1,19})" if part.times == 1 else f"([0-9]{{{part.times}}})")
    return _Reader(re.compile("".join(out), re.IGNORECASE | re.ASCII), tuple(letters))


def parsed_us(text: str, pattern: str) -> int | None:
    """The instant that a text writes, in µs since the epoch; what the pattern leaves out is that of 1970-01-01."""
    reader = _reader(pattern)
    found = reader.regex.fullmatch(text)
    if found is None:
        return None
    values = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0}
    half = 0
    for (letter, count), word in zip(reader.letters, found.groups(), strict=True):
        if letter == "M" and count > 2:
            values["M"] = [m[:3].lower() for m in MONTHS].index(word[:3].lower()) + 1
        elif letter == "a":
            half = 12 if word.upper() == "PM" else 0
        elif letter == "S":
            values["S"] = int(word[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0"))
        elif letter == "y":
            if word == "-0000":
                return None
            values["y"] = int(word) + (2000 if count == 2 else 0)
        elif letter == "h":
            if not 1 <= int(word) <= 12:
                return None
            values["H"] = int(word) % 12
        else:
            values[letter] = int(word)
    days = days_of(values["y"], values["M"], values["d"])
    hour = values["H"] + half
    if days is None or hour > 23 or values["m"] > 59 or values["s"] > 59:
        return None
    moment = (days * 86_400 + hour * 3_600 + values["m"] * 60 + values["s"]) * 1_000_000 + values["S"]
    return moment if abs(moment) < 2**63 else None


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a date in any year; the calendar repeats every 400 years."""
    cycle, within = divmod(year - 1, 400)
    try:
        return dt.date(within + 1, month, day).toordinal() - _EPOCH_ORDINAL + cycle * 146_097
    except (ValueError, OverflowError):
        return None
