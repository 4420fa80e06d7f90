"""The attributes of a segment: what boxes constrain, numbered in order of first use.

An attribute is a base column or a derived one: an expression of one row without params. An expression *with*
params (`price * :c0`, `name LIKE :c1`) stands for one attribute for each distinct combination of its constants;
equal expressions of different shapes are one attribute. Numbers only grow, so boxes may refer to them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.nodes import And, ColumnRef, Expression, Literal, Not, Or, Param, children, walk
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import DataType, Kind
from weir.errors import RegisterError
from weir.store.row_files import arrow_type
from weir.values.codec import canonical
from weir.values.columns import distinct_rows

Ints = npt.NDArray[np.int64]


class Attributes:
    """Attributes by number; `limit` is how many derived ones may be asked for."""

    def __init__(self, limit: int | None = None) -> None:
        self.expressions: list[Expression] = []
        self.limit = limit
        self._numbers: dict[str, int] = {}

    def number(self, e: Expression) -> int:
        """The number of a param-free expression."""
        text = canonical(e)
        if text not in self._numbers:
            self._numbers[text] = len(self.expressions)
            self.expressions.append(e)
        return self._numbers[text]

    def numbers(self, e: Expression, constants: pa.Table) -> int | Ints:
        """The number of an expression, or with params one for each row of constants."""
        params = params_of(e)
        if not params:
            return self.number(e)
        firsts, inverse = distinct_rows([constants_column(constants, p) for p in params])
        if self.limit is not None and len(firsts) > self.limit:
            raise too_many_residuals(len(firsts), self.limit)
        values = {p.name: _python_values(constants_column(constants, p).take(pa.array(firsts)), p) for p in params}
        known = np.empty(len(firsts), np.int64)
        for k in range(len(firsts)):
            known[k] = self.number(with_values(e, {name: column[k] for name, column in values.items()}))
        return known[inverse]

    def derived(self) -> list[str]:
        """The canonical texts of the attributes that are not columns."""
        return [t for t, n in self._numbers.items() if not isinstance(self.expressions[n], ColumnRef)]


def too_many_residuals(count: int, limit: int) -> RegisterError:
    return RegisterError(
        f"these queries need {count:,} distinct derived attributes (arithmetic, LIKE, IS NULL, …), "
        f"at most {limit:,} are allowed for one stream",
        hint="compare plain columns with the constants, use fewer distinct constants inside expressions, "
        "or raise the setting residuals_per_stream_max",
    )


def params_of(e: Expression) -> tuple[Param, ...]:
    """The params of an expression, each once, in order of first use."""
    return tuple({p.name: p for p in walk(e) if isinstance(p, Param)}.values())


def is_constant(e: Expression) -> bool:
    """Whether no column occurs in it."""
    stack = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, ColumnRef):
            return False
        stack += children(part)
    return True


def sources_of(e: Expression) -> set[int]:
    """The sources whose columns occur in it."""
    return {n.source for n in walk(e) if isinstance(n, ColumnRef)}


def meets_payload(conditions: Sequence[Expression]) -> bool:
    """Whether a part of a condition reads payloads of several sources at once.

    Rows that wait for partners are kept as keys, which payloads do not have.
    """
    stack = list(conditions)
    while stack:
        e = stack.pop()
        if isinstance(e, (And, Or, Not)):
            stack += children(e)
        elif len(sources_of(e)) > 1 and any(isinstance(n, ColumnRef) and n.type.kind is Kind.PAYLOAD for n in walk(e)):
            return True
    return False


def with_values(e: Expression, values: Mapping[str, object]) -> Expression:
    """The expression with literals in place of those of its params that have a value."""

    def put(n: Expression) -> Expression:
        return Literal(values[n.name], n.type) if isinstance(n, Param) and n.name in values else n

    return rebuild(e, put)


def constants_column(constants: pa.Table, param: Param) -> pa.Array:
    """A param's values, in the Arrow type of the param."""
    column = constants.column(param.name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    wanted = arrow_type(param.type)
    return array if array.type == wanted else array.cast(wanted)


def _python_values(array: pa.Array, param: Param) -> list[object]:
    """Values as `Literal.value` holds them; whole microseconds for times."""
    if param.type.kind is Kind.LIST:
        lists = array.cast(pa.list_(pa.int64())) if _is_time(param.type.item) else array
        return [tuple(items) for items in lists.to_pylist()]
    if _is_time(param.type):
        array = pc.cast(array, pa.int64())
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped


def _is_time(type_: DataType) -> bool:
    return type_.kind in (Kind.TIMESTAMP, Kind.INTERVAL)
