"""What a row of the table of scalar functions says: its names, what it takes, and what type comes out.

Arguments are brought to the types that a function takes before anything is evaluated (`weir.sql.arguments`): those
that stand for one another (`VALUE`: the branches of CASE, the arguments of coalesce) have one type; a number that
stands where a text is taken becomes a text, as in Spark. A function of a NULL is NULL, and neither `value` nor the
evaluation of columns sees it, unless the row says `sees_nulls`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from weir.algebra import schema
from weir.algebra.schema import DataType, Kind

if TYPE_CHECKING:
    from weir.algebra.nodes import Expression


class Taken(NamedTuple):
    """What may stand as an argument."""

    words: str  # in an error
    kinds: frozenset[Kind] | None  # None: any
    untyped: DataType | None  # what a parameter or NULL is that stands there; None: what is asked of the whole call
    cast: frozenset[Kind] = frozenset()  # what else may stand there, and is cast …
    into: DataType | None = None  # … to this type; None: to `untyped`
    fixed: bool = False  # a constant that is no slot: the type of the result, or what is refused, depends on it
    word: bool = False  # a plain word is read as a text: dateadd(DAY, 1, t)
    narrow: bool = False  # a whole constant of 32 bits is an int, because its size counts (hash, shiftleft)


_WHOLE = frozenset({Kind.INT, Kind.BIGINT})
_NUMBERS = _WHOLE | {Kind.DOUBLE, Kind.DECIMAL}
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})
_TEXT = frozenset({Kind.STRING})
TEXT = Taken("a string", _TEXT, schema.STRING, _NUMBERS | _TIMES | {Kind.BOOLEAN})
BYTES = Taken("a string", _TEXT, schema.STRING)  # whose UTF-8 bytes count: nothing else has them
FIXED_TEXT = Taken("a quoted text", _TEXT, schema.STRING, fixed=True)
WORD = Taken("a unit", _TEXT, schema.STRING, fixed=True, word=True)
WHOLE = Taken("a whole number", _WHOLE, schema.BIGINT)
FIXED_WHOLE = Taken("a whole number", _WHOLE, schema.BIGINT, fixed=True)
NARROW_WHOLE = Taken("a whole number", _WHOLE, schema.BIGINT, narrow=True)
NUMBER = Taken("a number", _NUMBERS, None)
OPERAND = Taken("a number of arithmetic", _NUMBERS, None)  # beside a decimal a whole constant is its own digits
DOUBLE = Taken("a number", frozenset({Kind.DOUBLE}), schema.DOUBLE, _NUMBERS | _TEXT)
SIZED = Taken("a number or an interval", _NUMBERS | {Kind.INTERVAL}, None)
TIME = Taken("a date or a timestamp", _TIMES, schema.TIMESTAMP, _TEXT, schema.DATE)
MOMENT = Taken("a timestamp", frozenset({Kind.TIMESTAMP}), schema.TIMESTAMP, _TIMES | _TEXT)  # a date is its midnight
DAY = Taken("a date", frozenset({Kind.DATE}), schema.DATE, _TIMES | _TEXT)  # a timestamp is the day that it is in
CONDITION = Taken("a condition", frozenset({Kind.BOOLEAN}), schema.BOOLEAN)
ANY = Taken("a value", None, None)
HASHED = Taken("a value", None, schema.STRING, narrow=True)
VALUE = Taken("values of one type", None, None)  # stands for the others of the call, and has their type
LIKE_ELEMENTS = Taken("a value", None, None)  # is compared with the elements of the argument before it
PAYLOAD = Taken("an array or a map", frozenset({Kind.PAYLOAD}), None)
MET = Taken("something to compare with", None, None)  # is compared with the argument before it
MET_FIRST = Taken("something to compare with", None, None)  # is compared with the first argument


class Takes(NamedTuple):
    """The arguments: `needed`, then some or all of `optional`, or any number of `repeated` and then `last`."""

    needed: tuple[Taken, ...] = ()
    optional: tuple[Taken, ...] = ()
    repeated: tuple[Taken, ...] = ()
    last: tuple[Taken, ...] = ()

    def of(self, count: int) -> tuple[Taken, ...] | None:
        """What each of so many arguments is; None if there cannot be so many."""
        more = count - len(self.needed) - len(self.last)
        if more < 0 or (more > len(self.optional) and (not self.repeated or more % len(self.repeated))):
            return None
        between = self.repeated * (more // len(self.repeated)) if self.repeated else self.optional[:more]
        return (*self.needed, *between, *self.last)

    @property
    def count_text(self) -> str:
        """How many there are, for an error."""
        least, most = len(self.needed) + len(self.last), len(self.needed) + len(self.optional) + len(self.last)
        if self.repeated:
            return f"{least} or more arguments"
        many = str(least) if least == most else f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
        return f"{many} argument{'' if most == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    takes: Takes
    result: Callable[[Sequence[DataType]], DataType]  # of the arguments' types
    value: Callable[..., object] | None = None  # of constants, as `Literal.value` has them; None: they stay unfolded
    also: tuple[str, ...] = ()  # other names
    sees_nulls: bool = False  # it is asked also where arguments are NULL
    written: Callable[[Sequence[str]], str] | None = None  # how it is printed, if not as name(a, b)
    sized: Callable[[Sequence[Expression]], DataType] | None = None  # the result, where it depends on constants
    checked: Callable[[Sequence[Any]], str] | None = None  # what is wrong with fixed constants, "" if nothing
    is_syntax: bool = False  # it has no name of its own in SQL, but words or an operator

    @property
    def shown(self) -> str:
        """Its name in an error."""
        return self.name.upper() if self.is_syntax else f"{self.name}()"

    def type_of(self, args: Sequence[Expression]) -> DataType:
        """The type of a call with these arguments."""
        return self.result([arg.type for arg in args]) if self.sized is None else self.sized(args)


# What types come out.


def always(type_: DataType) -> Callable[[Sequence[DataType]], DataType]:
    return lambda _: type_


def first(types: Sequence[DataType]) -> DataType:
    return types[0]


def last(types: Sequence[DataType]) -> DataType:
    return types[-1]


def whole(types: Sequence[DataType]) -> DataType:
    """int of ints, else bigint."""
    return schema.INT if all(t.kind is Kind.INT for t in types) else schema.BIGINT
