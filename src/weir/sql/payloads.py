"""Access to parts of payloads: `payload.field`, `array[0]`, `map['key']`, and what the functions of payloads take."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weir.algebra.array_functions import ARRAYS, COMPARING, MEETING, OF_MAPS, common_element
from weir.algebra.array_functions import element as element_type
from weir.algebra.functions import SIGNATURES
from weir.algebra.json_paths import steps_of
from weir.algebra.nodes import Cast, ColumnRef, Element, Expression, Field, JsonField, Literal
from weir.algebra.schema import STRING, DataType, Kind, array
from weir.algebra.signatures import LIKE_ELEMENTS, PAYLOAD
from weir.errors import did_you_mean
from weir.sql import types
from weir.sql.types import MismatchError

_PLACES = ("element_at", "try_element_at", "get")
OTHERS = (*_PLACES, "get_json_object")  # functions that this file knows, and the table of functions does not
OF_ARRAYS = frozenset(f.name for f in ARRAYS if any(taken is PAYLOAD for taken in f.takes.needed)) | {"array_repeat"}
_INDEX_MAX = 2**31 - 1


def field(e: Expression, name: str) -> Expression:
    """`e.name`: a field of a struct, or of each struct of an array; of a map, the value of a key."""
    type_ = e.type
    if type_.variant == "map":
        return element(e, Literal(name, STRING))
    is_array = type_.variant == "array"
    of = type_.parts[0][1] if is_array else type_
    if of.variant != "struct":
        raise MismatchError(f"{types.described(e)} has no field '{name}'", "structs have fields")
    found = next(((n, t) for n, t in of.parts if n.lower() == name.lower()), None)
    if found is None:
        names = [n for n, _ in of.parts]
        raise MismatchError(f"there is no field '{name}' ({', '.join(names)})", did_you_mean(name, names))
    return Field(e, found[0], array(found[1]) if is_array else found[1])


def element(e: Expression, key: Expression, first: int = 0) -> Expression:
    """`e[key]`, where an array's first element is at the place `first`; with 1, −1 is the last one."""
    value = key.value if isinstance(key, Literal) else None
    if e.type.variant == "map":
        (_, of_key), (_, of_value) = e.type.parts
        return Element(e, _map_key(e, value, of_key), of_value)
    if e.type.variant != "array":
        raise MismatchError(f"{types.described(e)} has no elements", "arrays and maps have elements")
    of = e.type.parts[0][1]
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _INDEX_MAX:
        raise MismatchError("a place in an array is a whole constant", "write x[0]")
    if value < first and (first == 0 or value == 0):
        hint = "places count from 0; element_at(x, -1) is the last one" if first == 0 else "the first is at 1"
        raise MismatchError(f"an array has nothing at {value}", hint)
    return Element(e, value - first if value >= 0 else value, of)


def _map_key(e: Expression, value: object, of_key: DataType) -> int | str:
    if isinstance(value, str) and of_key == STRING:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and of_key.kind in types.WHOLE:
        return value
    if of_key == STRING or of_key.kind in types.WHOLE:
        raise MismatchError(f"a key of {types.described(e)} is a {of_key} constant", "write x['key']")
    raise MismatchError(f"a map by {of_key} is not looked up", "only maps by texts and whole numbers are")


def other(name: str, args: Sequence[Expression]) -> Expression:
    """One of `OTHERS`."""
    if len(args) != 2:
        raise MismatchError(f"{name}() takes 2 arguments, got {len(args)}")
    e, of = args
    if name != "get_json_object":
        return element(e, of, 0 if name == "get" else 1)
    if e.type.kind is not Kind.STRING:
        raise MismatchError(f"get_json_object() takes a string, got {types.described(e)}")
    path = of.value if isinstance(of, Literal) else None
    if not isinstance(path, str):
        raise MismatchError("a path into JSON is a quoted constant", "write get_json_object(x, '$.name')")
    if steps_of(path) is None:
        raise MismatchError(f"'{path[:40]}' is no path, or has a wildcard", "write '$.name[0]' or $['a name']")
    return JsonField(e, path)


def adapted(name: str, args: Sequence[Expression]) -> tuple[Expression, ...]:
    """The arguments of a function of the table, checked and brought together where it takes payloads."""
    if name in ("greatest", "least") and args[0].type.kind is Kind.PAYLOAD:
        raise MismatchError(f"{name}() does not order {types.described(args[0])}", types.TAKE_A_PART)
    if name == "size" and args[0].type.variant not in ("array", "map"):
        raise MismatchError(f"size() takes an array or a map, got {types.described(args[0])}")
    if name in OF_ARRAYS:
        return _of_arrays(name, list(args))
    if name != "array_contains":
        return tuple(args)
    if args[0].type.variant != "array":
        raise MismatchError(f"array_contains() takes an array, got {types.described(args[0])}")
    beside = ColumnRef(0, "an element", args[0].type.parts[0][1])
    return args[0], types.align(beside, args[1])[1]


def _of_arrays(name: str, args: list[Expression]) -> tuple[Expression, ...]:
    """The arguments of a function of arrays or maps."""
    said = name.removeprefix("array_") if name in ("array_reverse", "array_concat") else name
    taken = SIGNATURES[name].takes.of(len(args)) or ()
    wanted = "map" if name in OF_MAPS else "array"
    for arg, of in zip(args, taken, strict=True):
        if of is PAYLOAD and arg.type.variant != wanted:
            words = "a map" if wanted == "map" else "an array"
            raise MismatchError(f"{said}() takes {words}, got {types.described(arg)}")
        if of is PAYLOAD and name in COMPARING and element_type(arg.type).kind is Kind.PAYLOAD:
            raise MismatchError(f"{said}() does not compare elements of {types.described(arg)}", types.TAKE_A_PART)
    if name in MEETING and common_element([arg.type for arg in args]) is None:
        raise MismatchError(f"{said}() takes arrays of one type, got {' and '.join(str(a.type) for a in args)}")
    if name == "flatten" and element_type(args[0].type).variant != "array":
        raise MismatchError(f"flatten() takes an array of arrays, got {types.described(args[0])}")
    if name == "array_join" and element_type(args[0].type).kind not in (*types.WHOLE, Kind.STRING, Kind.BOOLEAN):
        raise MismatchError("array_join() takes an array of texts", "CAST the elements")
    if any(of is LIKE_ELEMENTS for of in taken):
        of_place = args[0].type.parts[0][1]
        args[1] = _as_element(said, args[1], of_place)
    if name == "array_repeat" and types.is_open(args[0]):
        raise MismatchError("the type of what array_repeat() repeats is unknown", "write CAST(NULL AS int)")
    return tuple(args)


def _as_element(said: str, e: Expression, of: DataType) -> Expression:
    """A value in the type of an array's elements, or of a map's keys."""
    if types.is_open(e):
        return types.with_type(e, of)
    if e.type.usual == of.usual or (e.type.kind is Kind.INT and of.kind is Kind.BIGINT):
        return e if e.type == of else Cast(e, of.usual)
    if isinstance(e, Literal):
        found = types.fit(e, of)
        if isinstance(found, Literal) and found.type.kind is of.kind:
            return found
        if of.kind is Kind.INT and isinstance(e.value, int) and abs(e.value) < 2**31:
            return Literal(e.value, of.usual)
    raise MismatchError(f"{said}() takes a value of type {of}, got {types.described(e)}", "CAST it")


def index_of(node: exp.Bracket) -> exp.Expr:
    """What stands in the brackets."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise MismatchError("brackets take one place or key", "write x[0] or x['key']")
    index: exp.Expr = node.expressions[0]
    return index
