"""Regular expressions as Java reads them, written for RE2, which runs in time linear in the text.

Spark's RLIKE, regexp_extract and regexp_replace are Java's `java.util.regex`. What both read alike is copied, what they
read differently is written out (`.` and `$` know more line ends in Java, `\\s` another blank, `(?i)` ASCII only), and
what RE2 lacks, or where the two might part (look-around, back references, `\\b`, possessive and nested empty
repetition), is refused when the query is registered: nothing is answered differently from Spark.

`$` stands at the end of the whole pattern only, for it is true at two places: at the end, and before a last line end.
Whether there is a match is asked of the text with and without that line end. Where the match itself counts, patterns
that could take the line end along, or match the empty text, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_LINE_END_CODES = (0x0A, 0x0D, 0x85, 0x2028, 0x2029)
LINE_END = rf"(?:\r\n|[{_LINE_ENDS}])"
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t-\r "}
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_REPEATS_MAX = 1000
_STEPS_MAX = 1001  # characters of a pattern, repetitions written out: RE2 gives up on very large ones
_SPECIAL = "()[]{}*+?|^$.\\"


class RegexFaultError(Exception):
    """What is wrong with a pattern, in words."""


@dataclass(frozen=True, slots=True)
class Translated:
    body: str  # in RE2, its groups plain
    groups: int
    is_ended: bool  # by $
    nullable: bool  # whether it can match the empty text
    takes_line_ends: bool  # whether a part of it can match one


@lru_cache(maxsize=1024)
def translated(pattern: str, named: int = -1) -> Translated:
    """The pattern for RE2; of its groups only number `named` remains one, as `(?P<found>…)`, if that is not −1."""
    reading = _Reading(pattern, named)
    body, nullable = reading.alternatives()
    if reading.at < len(pattern):
        raise RegexFaultError("a ')' closes nothing")
    if reading.ended and reading.knows_the_end:
        raise RegexFaultError(r"\z and $ do not stand together")
    return Translated(body, reading.groups, reading.ended, nullable, reading.takes_line_ends)


def regex_fault(pattern: str, *, replacing: bool = False, group: int | None = None) -> str:
    """Why a pattern is refused; "" if it is not."""
    try:
        found = translated(pattern)
    except RegexFaultError as e:
        return str(e)
    if replacing and found.nullable:
        return "it matches the empty text, and what is replaced then differs between engines"
    if found.is_ended and (replacing or group is not None) and (found.takes_line_ends or found.nullable):
        return "before '$' it can match the end of a line, or nothing, and engines then find different matches"
    if found.is_ended and replacing and found.groups > 7:
        return "it has more than 7 groups"
    if group is not None and not 0 <= group <= found.groups:
        return f"its groups are numbered up to {found.groups}, and there is no group {group}"
    return ""


def replacement_fault(pattern: str, replacement: str) -> str:
    """Why a replacement is refused; "" if it is not."""
    try:
        rewritten(replacement, translated(pattern))
    except RegexFaultError as e:
        return str(e)
    return ""


def rewritten(replacement: str, pattern: Translated) -> str:
    """Java's replacement ($1, \\$) as RE2 takes it (\\1, \\\\); of a pattern with $, the body is its first group."""
    groups = pattern.groups
    out, at = [], 0
    while at < len(replacement):
        c = replacement[at]
        at += 1
        if c == "\\":
            if at == len(replacement):
                raise RegexFaultError("the replacement ends with a backslash")
            c = replacement[at]
            at += 1
            out.append("\\\\" if c == "\\" else c)
        elif c == "$":
            digits = replacement[at : at + 1]
            if not (digits.isascii() and digits.isdigit()):
                raise RegexFaultError("a '$' in the replacement takes the number of a group")
            number = int(digits)
            at += 1
            following = replacement[at : at + 1]
            if number > groups or number > 8 or (groups > 9 and following.isdigit()):
                raise RegexFaultError(f"the replacement names group {number} of {groups}; groups 0 to 8 can be named")
            out.append(f"\\{number + pattern.is_ended}")
        else:
            out.append(c)
    return "".join(out)


def _character(code: int) -> str:
    c = chr(code)
    return c if c.isalnum() and code < 128 else f"\\x{{{code:x}}}"


class _Reading:
    """Descends through a pattern; each part gives its text for RE2 and whether it can match the empty text."""

    def __init__(self, pattern: str, named: int) -> None:
        self.pattern = pattern
        self.named = named
        self.at = 0
        self.groups = 0
        self.depth = 0
        self.takes_line_ends = False
        self.knows_the_end = False
        self.ended = False
        self.steps = 0  # how many characters the part at hand has, its repetitions written out
        self.folds = pattern.startswith("(?i)")
        if self.folds:
            self.at = 4

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def alternatives(self) -> tuple[str, bool]:
        parts, nullable = [], False
        while True:
            text, empty = self.sequence()
            parts.append(text)
            nullable = nullable or empty
            if self.peek() != "|":
                break
            if self.ended:
                raise RegexFaultError("'$' stands at the end of the whole pattern only")
            self.at += 1
        if self.ended and len(parts) > 1:
            raise RegexFaultError(
                "'$' stands at the end of the whole pattern only; put the alternatives in parentheses"
            )
        return "|".join(parts), nullable

    def sequence(self) -> tuple[str, bool]:
        parts, nullable = [], True
        while self.at < len(self.pattern) and self.peek() not in "|)":
            if self.ended:
                raise RegexFaultError("'$' stands at the end of the whole pattern only")
            steps, self.steps = self.steps, 0
            text, empty, repeatable = self.atom()
            if self.peek() and self.peek() in "*+?{":
                if not repeatable:
                    raise RegexFaultError(f"'{self.peek()}' repeats nothing")
                text, empty = self.repeated(text, empty)
            self.steps += steps + 1
            if self.steps > _STEPS_MAX:
                raise RegexFaultError("it is too large with its repetitions written out")
            parts.append(text)
            nullable = nullable and empty
        return "".join(parts), nullable

    def repeated(self, text: str, empty: bool) -> tuple[str, bool]:
        c = self.peek()
        if c == "{":
            end = self.pattern.find("}", self.at)
            counts = self.pattern[self.at + 1 : end].split(",") if end > 0 else []
            if not 1 <= len(counts) <= 2 or not all(n.isascii() and n.isdigit() for n in counts if n) or not counts[0]:
                raise RegexFaultError("'{' takes a number of times, as {2} or {2,5}; write \\{ for a brace")
            numbers = [int(n) for n in counts if n]
            if max(numbers) > _REPEATS_MAX or sorted(numbers) != numbers:
                raise RegexFaultError(f"repetitions go up to {_REPEATS_MAX}, the smaller number first")
            mark, least = self.pattern[self.at : end + 1], numbers[0]
            self.steps = (self.steps + 1) * max(numbers[-1], 1)
            self.at = end + 1
        else:
            mark, least = c, int(c == "+")
            self.at += 1
        if empty:
            raise RegexFaultError("what is repeated can be empty")
        if self.peek() == "?":
            mark += "?"
            self.at += 1
        if self.peek() and self.peek() in "+*?{":
            raise RegexFaultError(f"a repetition is followed by '{self.peek()}'")
        return text + mark, least == 0

    def atom(self) -> tuple[str, bool, bool]:
        """Text, whether it can be empty, whether it can be repeated."""
        c = self.peek()
        self.at += 1
        if c == "(":
            return (*self.group(), True)
        if c == "[":
            return self.bracket(), False, True
        if c == ".":
            return f"[^{_LINE_ENDS}]", False, True
        if c == "^":
            return r"\A", True, False
        if c == "$":
            if self.depth:
                raise RegexFaultError("'$' stands at the end of the whole pattern only")
            self.ended = True
            return "", True, False
        if c == "\\":
            return self.escaped()
        if c in "*+?{":
            raise RegexFaultError(f"'{c}' repeats nothing")
        if c in "]}":
            raise RegexFaultError(f"'{c}' closes nothing; write \\{c}")
        return self.literal(ord(c)), False, True

    def literal(self, code: int) -> str:
        self.takes_line_ends = self.takes_line_ends or code in _LINE_END_CODES
        if self.folds and chr(code).isascii() and chr(code).isalpha():
            return f"[{chr(code).lower()}{chr(code).upper()}]"
        return _character(code)

    def group(self) -> tuple[str, bool]:
        opening = "(?:"
        if self.peek() == "?":
            if not self.pattern.startswith("?:", self.at):
                raise RegexFaultError("of groups with '(?' only (?: ) and a first (?i) are read alike by all engines")
            self.at += 2
        else:
            self.groups += 1
            opening = "(" if self.named < 0 else "(?P<found>" if self.groups == self.named else "(?:"
        self.depth += 1
        if self.depth > 50:
            raise RegexFaultError("groups nest more than 50 deep")
        text, empty = self.alternatives()
        self.depth -= 1
        if self.peek() != ")":
            raise RegexFaultError("a '(' is never closed")
        self.at += 1
        return f"{opening}{text})", empty

    def escaped(self) -> tuple[str, bool, bool]:
        c = self.peek()
        self.at += 1
        if not c:
            raise RegexFaultError("it ends with a backslash")
        if c in "AZz":
            self.knows_the_end = self.knows_the_end or c == "z"
            if c == "Z":
                raise RegexFaultError(r"\Z is read differently; write $")
            return f"\\{c}", True, False
        if c.lower() in _CLASSES:
            self.takes_line_ends = self.takes_line_ends or c not in "dw"
            return f"[{'^' if c.isupper() else ''}{_CLASSES[c.lower()]}]", False, True
        return self.literal(self.code(c)), False, True

    def code(self, c: str) -> int:
        """The character that a backslash and what follows it mean."""
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c in "xu":
            count = 2 if c == "x" else 4
            digits = self.pattern[self.at : self.at + count]
            if len(digits) < count or any(d not in "0123456789abcdefABCDEF" for d in digits):
                raise RegexFaultError(f"\\{c} takes {count} hexadecimal digits")
            self.at += count
            if 0xD800 <= int(digits, 16) <= 0xDFFF:
                raise RegexFaultError("a half of a character stands alone")
            return int(digits, 16)
        if c.isascii() and c.isalnum():
            raise RegexFaultError(f"\\{c} is not read alike by all engines")
        return ord(c)

    def bracket(self) -> str:
        ranges: list[tuple[int, int]] = []
        sets: list[str] = []
        negated = self.peek() == "^"
        self.at += negated
        first = True
        while self.peek() != "]" or first:
            c = self.peek()
            if not c:
                raise RegexFaultError("a '[' is never closed")
            if c in "[]" or self.pattern.startswith("&&", self.at) or (c == "^" and first and negated):
                raise RegexFaultError(f"in brackets write \\{c} for '{c}'")
            first = False
            self.at += 1
            if c == "\\" and self.peek() and self.peek() in _CLASSES:
                sets.append(_CLASSES[self.peek()])
                self.at += 1
                if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                    raise RegexFaultError("in brackets write \\- for '-'")
                continue
            low = self.bracketed(c)
            high = low
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                c = self.peek()
                self.at += 1
                if c in "[]&" or (c == "\\" and self.peek() in _CLASSES):
                    raise RegexFaultError("a range in brackets ends with a character")
                high = self.bracketed(c)
                if high < low:
                    raise RegexFaultError("a range in brackets runs backwards")
            ranges.append((low, high))
        self.at += 1
        ends = any(low <= code <= high for low, high in ranges for code in _LINE_END_CODES)
        self.takes_line_ends = self.takes_line_ends or negated or ends or _CLASSES["s"] in sets
        if self.folds:
            ranges += _other_case(ranges)
        text = "".join(_character(a) if a == b else f"{_character(a)}-{_character(b)}" for a, b in ranges)
        return f"[{'^' if negated else ''}{text}{''.join(sets)}]"

    def bracketed(self, c: str) -> int:
        if c != "\\":
            return ord(c)
        escaped = self.peek()
        self.at += 1
        if not escaped:
            raise RegexFaultError("it ends with a backslash")
        return self.code(escaped)


def _other_case(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ASCII letters of the ranges in their other case."""
    found = []
    for first, last, shift in ((ord("a"), ord("z"), -32), (ord("A"), ord("Z"), 32)):
        for low, high in ranges:
            a, b = max(low, first), min(high, last)
            if a <= b:
                found.append((a + shift, b + shift))
    return found
