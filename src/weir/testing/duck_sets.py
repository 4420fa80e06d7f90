"""ROLLUP, CUBE and GROUPING SETS in the oracle: the sets of keys that they stand for, written out for DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

_Keys = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class KeySets:
    """Every set of keys of a GROUP BY, and all keys in the order of the text."""

    sets: tuple[_Keys, ...]
    keys: _Keys

    def is_column(self, key: exp.Expr, column: Callable[[exp.Column], object]) -> bool:
        """Whether a key is a column of the sources: these come before names of the select list."""
        try:
            column(key)  # type: ignore[arg-type]  # a column, the caller has looked
        except (AssertionError, KeyError):
            return False
        return True


def sets_of(node: exp.Select) -> KeySets | None:
    """The sets of a SELECT's GROUP BY; None if it has none or one."""
    group = node.args.get("group")
    if group is None:
        return None
    items = list(group.expressions)
    parts = [part for word in ("grouping_sets", "rollup", "cube") for part in group.args.get(word) or []]
    if parts and isinstance(parts[0], exp.GroupingSets):
        ways = [_sets(part) for part in parts]
    elif parts:
        ways = [_sets(type(parts[0])(expressions=items))]
    elif any(isinstance(item, (exp.GroupingSets, exp.Rollup, exp.Cube)) for item in items):
        ways = [_sets(item) for item in items]
    else:
        return None
    sets = [_once(key for part in way for key in part) for way in product(*ways)]
    return KeySets(tuple(sets), _once(key for item in (items or parts) for key in _leaves(item)))


def _once(keys: Iterator[exp.Expr]) -> _Keys:
    return tuple({key.sql(): key for key in keys}.values())


def _leaves(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)):
        for part in node.expressions:
            yield from _leaves(part)
    else:
        yield node.this if isinstance(node, exp.Paren) else node


def _sets(item: exp.Expr) -> list[_Keys]:
    if isinstance(item, exp.GroupingSets):
        return [one for part in item.expressions for one in _sets(part)]
    parts = [tuple(_leaves(part)) for part in item.expressions]
    if isinstance(item, exp.Rollup):
        return [sum(parts[:k], ()) for k in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        return [sum(chosen, ()) for k in range(len(parts) + 1) for chosen in combinations(parts, k)]
    return [tuple(_leaves(item))]
