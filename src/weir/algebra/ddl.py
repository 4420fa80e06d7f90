"""Types as text: every name that Spark has for a type of the language, and the inverse of `str(type)`."""

from __future__ import annotations

import re

from weir.algebra import schema
from weir.algebra.decimals import DIGITS_MAX
from weir.algebra.schema import DataType, Kind, decimal

_DEPTH_MAX = 100
_TEXT_CHARS_MAX = 2**31 - 1  # of a char or varchar
_WORD = re.compile(r"\s*([A-Za-z_]\w*)")
_FIELD = re.compile(r"\s*(?:([A-Za-z_]\w*)|`((?:[^`]|``)+)`)\s*:?\s*(?=\S)")
_MARK = re.compile(r"\s*([<>,])")
_EMPTY = re.compile(r"\s*<\s*>")
_SIZES = re.compile(r"\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")

_PLAIN = {
    "boolean": schema.BOOLEAN,
    "tinyint": schema.TINYINT,
    "byte": schema.TINYINT,
    "smallint": schema.SMALLINT,
    "short": schema.SMALLINT,
    "int": schema.INT,
    "integer": schema.INT,
    "bigint": schema.BIGINT,
    "long": schema.BIGINT,
    "float": schema.FLOAT,
    "real": schema.FLOAT,
    "double": schema.DOUBLE,
    "string": schema.STRING,
    "date": schema.DATE,
    "timestamp": schema.TIMESTAMP,
    "timestamp_ltz": schema.TIMESTAMP,
    "timestamp_ntz": schema.TIMESTAMP_NTZ,
    "binary": schema.BINARY,
}
_DECIMALS = ("decimal", "dec", "numeric")
_SIZED = {"varchar": schema.varchar, "char": schema.char, "character": schema.char}
_NESTED = ("array", "map", "struct")
NAMES = (*_PLAIN, *_DECIMALS, *_SIZED, *_NESTED)
KNOWN = (
    "tinyint, smallint, int, bigint, float, double, decimal(p,s) with p at most 38, string, varchar(n), char(n), "
    "boolean, date, timestamp, timestamp_ntz, binary, array<…>, map<…,…>, struct<name:…>"
)


class TypeFaultError(ValueError):
    """A text that names no type; `word` is what should be one."""

    def __init__(self, message: str, word: str) -> None:
        super().__init__(message)
        self.word = word


def read_type(text: str, at: int = 0, depth: int = 0) -> tuple[DataType, int]:
    """The type whose name begins at a place of a text, and where it ends; TypeFaultError if there is none.

    `depth` is how many types it stands in.
    """
    found = _WORD.match(text, at)
    if found is None:
        raise TypeFaultError(f"one of {KNOWN}", text[at:].strip())
    word, at = found[1].lower(), found.end()
    if word in _PLAIN:
        return _PLAIN[word], at
    if word in _NESTED:
        return _read_nested(word, text, at, depth)
    sizes = _SIZES.match(text, at)
    numbers = [int(size) for size in sizes.groups() if size is not None] if sizes is not None else []
    end = at if sizes is None else sizes.end()
    if word in _DECIMALS:
        precision, scale = (*numbers, 10, 0)[:2] if len(numbers) != 1 else (numbers[0], 0)
        if not (1 <= precision <= DIGITS_MAX and scale <= precision):
            wrong = text[found.start() : end].strip()
            raise TypeFaultError(f"a precision of 1 to {DIGITS_MAX} and a scale not above it", wrong)
        return decimal(precision, scale), end
    if word in _SIZED:
        if len(numbers) != 1 or not 1 <= numbers[0] <= _TEXT_CHARS_MAX:
            wrong = text[found.start() : end].strip()
            raise TypeFaultError(f"how many characters it has, as in {word}(10)", wrong)
        return schema.STRING if depth else _SIZED[word](numbers[0]), end
    raise TypeFaultError(f"one of {KNOWN}", word)


def _read_nested(word: str, text: str, at: int, depth: int) -> tuple[DataType, int]:
    """An array, map or struct, from behind its first word on."""
    if depth >= _DEPTH_MAX:
        raise TypeFaultError(f"types within types at most {_DEPTH_MAX} levels deep", word)
    if word == "struct":
        if (empty := _EMPTY.match(text, at)) is not None:
            return schema.struct(), empty.end()
        fields: list[tuple[str, DataType]] = []
        mark = "<"
        while mark != ">":
            at = _mark(text, at, mark, word)
            named = _FIELD.match(text, at)
            if named is None:
                raise TypeFaultError("a name and a type, as in struct<a:int>", text[at:].strip()[:40])
            type_, at = read_type(text, named.end(), depth + 1)
            fields.append((named[1] or named[2].replace("``", "`"), type_))
            mark = _next(text, at) or ">"
        names = [name.lower() for name, _ in fields]
        if len(set(names)) < len(names):
            raise TypeFaultError("fields of different names", next(n for n in names if names.count(n) > 1))
        return schema.struct(*fields), _mark(text, at, ">", word)
    first, at = read_type(text, _mark(text, at, "<", word), depth + 1)
    if word == "array":
        return schema.array(first), _mark(text, at, ">", word)
    second, at = read_type(text, _mark(text, at, ",", word), depth + 1)
    return schema.map_of(first, second), _mark(text, at, ">", word)


def _next(text: str, at: int) -> str:
    found = _MARK.match(text, at)
    return found[1] if found is not None else ""


def _mark(text: str, at: int, mark: str, word: str) -> int:
    """The place behind a mark that must be next."""
    found = _MARK.match(text, at)
    if found is None or found[1] != mark:
        shape = {"array": "array<int>", "map": "map<string,int>", "struct": "struct<a:int>"}[word]
        raise TypeFaultError(f"something like {shape}", (word + text[at:]).strip()[:40])
    return found.end()


def parse_type(text: str) -> DataType:
    """The type that a whole text names, such as `str(type)`."""
    if text in ("interval", "null"):  # these are stored with expressions, and no column has them
        return {"interval": schema.INTERVAL, "null": schema.NULL}[text]
    if text.startswith("list<"):  # constants behind IN
        return schema.list_of(parse_type(text[5:-1]))
    type_, end = read_type(text)
    if text[end:].strip():
        raise TypeFaultError("the end of the type", text[end:].strip())
    return type_


def spark_type(type_: DataType) -> str:
    """The type as a column of a DataFrame has it, where texts have no length."""
    return str(type_.usual if type_.kind is Kind.STRING else type_)
