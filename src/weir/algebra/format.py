"""The algebra as text: SQL that `parse` and `lower` read back, and a tree for people.

`sql_text` writes a query in the Spark-flavoured language of docs/language.md with as few parentheses as its
precedences need; lowering the result gives the same tree, with sources called by their aliases. Windows are
written at their sources. `tree_text` draws the operators, one a line, with an optional note on every edge.
Cost: linear in the query.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from weir.algebra import nodes
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Expression, Literal, Node, Param, Window
from weir.algebra.rebuild import inputs, sources_in, subqueries
from weir.algebra.schema import STRING, Kind

# How tightly an operator binds; an operand that binds less tightly needs parentheses.
_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _UNARY, _ATOM = range(8)
_ARITHMETIC_LEVEL = {"+": _ADD, "-": _ADD, "*": _MULTIPLY, "/": _MULTIPLY, "%": _MULTIPLY}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_EPOCH = dt.datetime(1970, 1, 1)
_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))
_EDGE_US_MAX = 60_000_000_000_000_000  # the year 3871; later edges are written as seconds
_PARAM_UNITS = (*_UNITS, ("WEEK", 604_800_000_000), ("MILLISECOND", 1_000), ("MICROSECOND", 1))

_RESERVED_WORDS = (
    "all alter and any as begin between by case cast connect_by_root create cross cube current_catalog "
    "current_date current_schema current_time current_timestamp current_user date delete desc describe "
    "distinct drop else end except exists false fetch for from full glob grant group having ilike in inner "
    "insert intersect interval into is isnull join lateral left like limit localtime localtimestamp lock merge "
    "minus natural not notnull now null offset on or order outer partitioned_by qualify regexp returning "
    "revoke right rlike rollback rollup select serdeproperties session_user set some table tablesample then "
    "timestamp true uncache union update using values when where window with xor "
)
# Words that end a name or start a clause; as names they are quoted.
_RESERVED = frozenset(_RESERVED_WORDS.split())

_ITEMS_SHOWN = 8
Names = Mapping[int, str]  # what each source occurrence is called


class MaskedNames(dict[int, str]):
    """Names for a text that tells no constants apart: each is written as `:c`."""


class ShownNames(dict[int, str]):
    """Names for a text that people read: long lists are cut."""


def quoted(name: str) -> str:
    """A name as it must be written: with backticks when it is no plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def literal_text(constant: Literal) -> str:
    """A constant in the language, of exactly this type."""
    text = _constant_text(constant)
    value = constant.value
    if isinstance(value, Decimal):
        digits = len(value.as_tuple().digits)
        natural = constant.type.precision == max(digits, constant.type.scale, 1)
        return text if natural else f"CAST({text} AS {constant.type})"
    is_variant = constant.type.variant and constant.type.kind is not Kind.STRING
    if value is not None and (constant.type.kind is Kind.INT or is_variant):
        return f"CAST({text} AS {constant.type})"
    return text


def _constant_text(constant: Literal) -> str:
    """A constant where its precision follows from what it meets, as beside a comparison."""
    value, kind = constant.value, constant.type.kind
    if value is None:
        return "NULL" if kind in (Kind.NULL, Kind.INTERVAL) else f"CAST(NULL AS {constant.type})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if kind is Kind.TIMESTAMP and isinstance(value, int):
        return _instant(value)
    if kind is Kind.INTERVAL and isinstance(value, int):
        return interval_text(value)
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text if "." in text else text + "."
    if isinstance(value, float):
        return _double_text(value)
    return str(value)


def interval_text(length_us: int) -> str:
    """INTERVAL with the largest unit that divides it."""
    for unit, size in _UNITS:
        if length_us % size == 0 and length_us:
            return f"INTERVAL {length_us // size} {unit}"
    return f"INTERVAL {length_us} MICROSECOND" if length_us else "INTERVAL 0 SECOND"


def _instant(value_us: int) -> str:
    try:
        return f"TIMESTAMP '{(_EPOCH + dt.timedelta(microseconds=value_us)).isoformat(sep=' ')}'"
    except OverflowError:  # beyond the years 1 to 9999, where only arithmetic leads
        return f"(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {value_us} MICROSECOND)"


def _double_text(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"CAST('{'nan' if value != value else 'inf' if value > 0 else '-inf'}' AS double)"
    text = repr(value)
    return text if "e" in text else text + "D"


def expression_text(e: Expression, names: Names) -> str:
    """An expression in the language, with columns qualified by their sources' names."""
    return _text(e, names)[0]


def _text(e: Expression, names: Names) -> tuple[str, int]:
    """Text and how tightly its outermost operator binds."""
    if e == nodes.NOW:
        return "current_timestamp()", _ATOM
    if isinstance(e, (Literal, Param)) and isinstance(names, MaskedNames):
        return ":c", _ATOM
    if isinstance(e, nodes.ColumnRef):
        return f"{quoted(names[e.source])}.{quoted(e.name)}", _ATOM
    if isinstance(e, Param):
        return _param_text(e), _ATOM
    if isinstance(e, Literal):
        text = literal_text(e)
        return text, _UNARY if text.startswith("-") else _ATOM
    if isinstance(e, (nodes.And, nodes.Or)):
        level, word = (_AND, " AND ") if isinstance(e, nodes.And) else (_OR, " OR ")
        return word.join([_inside(a, level + 1, names) for a in e.args]), level
    if isinstance(e, nodes.Not):
        return f"NOT {_inside(e.arg, _NOT, names)}", _NOT
    if isinstance(e, nodes.Comparison):
        return f"{_side(e.left, names)} {e.op} {_side(e.right, names)}", _COMPARE
    if isinstance(e, nodes.Threshold):
        return f"least c with {_side(e.left, names)} {e.op} {_inside(e.right, _ADD, names)} + c", _COMPARE
    if isinstance(e, nodes.Like):
        return f"{_inside(e.arg, _ADD, names)} LIKE {_inside(e.pattern, _ADD, names)}", _COMPARE
    if isinstance(e, nodes.InSet):
        return f"{_inside(e.arg, _ADD, names)} IN ({_items_text(e.items, names)})", _COMPARE
    if isinstance(e, nodes.IsNull):
        return f"{_inside(e.arg, _ADD, names)} IS NULL", _COMPARE
    if isinstance(e, nodes.Arithmetic):
        level = _ARITHMETIC_LEVEL[e.op]
        return f"{_inside(e.left, level, names)} {e.op} {_inside(e.right, level + 1, names)}", level
    if isinstance(e, nodes.Negate):
        return f"-{_inside(e.arg, _ATOM, names)}", _UNARY
    if isinstance(e, nodes.Call):
        return _call_text(e, names), _ATOM
    if isinstance(e, nodes.Field):
        return f"{_inside(e.arg, _ATOM, names)}.{quoted(e.name)}", _ATOM
    if isinstance(e, nodes.Element):
        return _element_text(e, names), _ATOM
    if isinstance(e, nodes.JsonField):
        return f"get_json_object({_text(e.arg, names)[0]}, {literal_text(Literal(e.path, STRING))})", _ATOM
    if isinstance(e, nodes.Cast):
        return f"CAST({_text(e.arg, names)[0]} AS {e.type})", _ATOM
    if isinstance(e, nodes.WindowCall):
        return _window_call_text(e, names), _ATOM
    if isinstance(e, nodes.Subquery):
        return _subquery_text(e, names)
    return _aggregate_text(e, names), _ATOM


def _items_text(items: Literal | Param, names: Names) -> str:
    if isinstance(items, Param) or isinstance(names, MaskedNames):
        return _text(items, names)[0]
    assert isinstance(items.value, tuple)
    shown = items.value[:_ITEMS_SHOWN] if isinstance(names, ShownNames) else items.value
    texts = [_constant_text(Literal(value, items.type.item)) for value in shown]
    left = len(items.value) - len(shown)
    return ", ".join(texts) + (f", … {left:,} more" if left else "")


def _element_text(e: nodes.Element, names: Names) -> str:
    if isinstance(e.key, int) and e.key < 0 and e.arg.type.variant == "array":
        return f"element_at({_text(e.arg, names)[0]}, {e.key})"
    key = literal_text(Literal(e.key, STRING)) if isinstance(e.key, str) else str(e.key)
    return f"{_inside(e.arg, _ATOM, names)}[{key}]"


def _param_text(e: Param) -> str:
    """A parameter; one that counts other units than seconds needs them to be said (the sign is the edge's)."""
    if e.type.kind is not Kind.INTERVAL or abs(e.unit_us) == 1_000_000:
        return f":{e.name}"
    unit = next((word for word, size in _PARAM_UNITS if size == abs(e.unit_us)), None)
    assert unit is not None, f"no unit has {e.unit_us} µs"
    return f"INTERVAL :{e.name} {unit}"


def _call_text(e: nodes.Call, names: Names) -> str:
    args = [_text(arg, names)[0] for arg in e.args]
    written = SIGNATURES[e.function].written
    return f"{e.function}({', '.join(args)})" if written is None else written(args)


def _aggregate_text(e: nodes.Aggregate, names: Names) -> str:
    if isinstance(e.parameter, tuple):  # a percentage, and whether the order is descending
        share, descending = e.parameter
        order = _text(e.args[0], names)[0] + (" DESC" if descending else "")
        text = f"{e.function}({share!r}) WITHIN GROUP (ORDER BY {order})"
        return text if e.filter is None else f"{text} FILTER (WHERE {_text(e.filter, names)[0]})"
    args = _arguments_text(e.function, e.args, e.parameter, names)
    text = f"{e.function}({'DISTINCT ' if e.distinct else ''}{args})"
    if e.parameter is True:
        text += " IGNORE NULLS"
    if e.order and e.function == "listagg":  # others see rows in the order of time
        text += f" WITHIN GROUP (ORDER BY {_order_text(e.order, e.directions, names)})"
    return text if e.filter is None else f"{text} FILTER (WHERE {_text(e.filter, names)[0]})"


def _arguments_text(function: str, args: Sequence[Expression], parameter: object, names: Names) -> str:
    """The arguments; a parameter stands behind the first one."""
    texts = [_text(arg, names)[0] for arg in args]
    if isinstance(parameter, str):
        texts.insert(1, _constant_text(Literal(parameter, STRING)))
    elif parameter is not None and not isinstance(parameter, bool):
        texts.insert(0 if function == "ntile" else 1, repr(parameter))
    return ", ".join(texts) or ("*" if function == "count" else "")


def _order_text(order: Sequence[Expression], directions: Sequence[nodes.Direction], names: Names) -> str:
    return ", ".join(
        f"{_key_text(e, names)} {direction_text(d)}".rstrip() for e, d in zip(order, directions, strict=True)
    )


def direction_text(direction: nodes.Direction) -> str:
    """How an item of ORDER BY sorts, where it is not the usual way."""
    words = ["DESC"] if direction.descending else []
    if direction.nulls_first is direction.descending:
        words.append("NULLS FIRST" if direction.nulls_first else "NULLS LAST")
    return " ".join(words)


def _session_text(e: nodes.WindowCall, names: Names) -> str:
    assert isinstance(e.parameter, int), "a gap is a length of time"
    return f"session_window({_text(e.args[0], names)[0]}, '{interval_text(e.parameter).removeprefix('INTERVAL ')}')"


def _window_call_text(e: nodes.WindowCall, names: Names) -> str:
    if e.function in nodes.SESSION_EDGES:
        return f"{_session_text(e, names)}.{e.function.removeprefix('session_')}"
    over: list[str] = []
    if e.partition:
        over.append("PARTITION BY " + ", ".join(_key_text(p, names) for p in e.partition))
    if e.order:
        over.append("ORDER BY " + _order_text(e.order, e.directions, names))
    if e.frame is not None:
        interval = e.frame.unit == "range" and e.order[0].type.kind in (Kind.TIMESTAMP, Kind.DATE)
        begin, end = (_frame_edge(edge, k, interval) for k, edge in enumerate((e.frame.begin, e.frame.end)))
        over.append(f"{e.frame.unit.upper()} BETWEEN {begin} AND {end}")
    nulls = " IGNORE NULLS" if e.ignores_nulls else ""
    return f"{e.function}({_arguments_text(e.function, e.args, e.parameter, names)}){nulls} OVER ({' '.join(over)})"


def _frame_edge(edge: int | None, place: int, interval: bool) -> str:
    if edge is None:
        return "UNBOUNDED FOLLOWING" if place else "UNBOUNDED PRECEDING"
    if edge == 0:
        return "CURRENT ROW"
    distance = interval_text(abs(edge)) if interval else str(abs(edge))
    return f"{distance} {'FOLLOWING' if edge > 0 else 'PRECEDING'}"


def _subquery_text(e: nodes.Subquery, names: Names) -> tuple[str, int]:
    text = f"({node_sql(e.query, names)})"
    if e.kind == "exists":
        return f"EXISTS {text}", _ATOM
    if not e.args:
        return text, _ATOM
    args = [_inside(arg, _ADD, names) for arg in e.args]
    return f"{args[0] if len(args) == 1 else '(' + ', '.join(args) + ')'} IN {text}", _COMPARE


def _side(e: Expression, names: Names) -> str:
    if isinstance(e, Literal) and not isinstance(names, MaskedNames):
        return _constant_text(e)
    return _inside(e, _ADD, names)


def _inside(e: Expression, level: int, names: Names) -> str:
    text, own = _text(e, names)
    return text if own >= level else f"({text})"


def window_text(window: Window) -> str:
    """A window in brackets, or nothing where the source shows all it keeps."""
    if window.rows is not None:
        return f"[ROWS {_text(window.rows, {})[0]}]"
    if window.begin is None:
        return ""
    return f"[BEGIN {_edge(window.begin)} END {_edge(window.end)}]"


def _edge(bound: nodes.Bound | None) -> str:
    if bound is None:
        return "NOW"
    if not bound.relative:
        return _absolute_edge(bound.offset_us)
    offset = bound.offset_us
    if isinstance(offset, Param):
        return f"NOW {'-' if offset.unit_us < 0 else '+'} {_param_text(offset)}"
    if not isinstance(offset.value, int):
        return "NOW + NULL"
    sign = "-" if offset.value < 0 else "+"
    return f"NOW {sign} {interval_text(abs(offset.value))}"


def _absolute_edge(moment: Literal | Param) -> str:
    if isinstance(moment, Literal) and isinstance(moment.value, int) and abs(moment.value) > _EDGE_US_MAX:
        return format(Decimal(moment.value).scaleb(-6), "f")  # seconds since the epoch
    return _text(moment, {})[0]


def scan_text(scan: nodes.Scan, name: str) -> str:
    """One source of FROM."""
    parts = [quoted(scan.relation), window_text(scan.window)]
    if name.lower() != scan.relation.lower():
        parts.append(quoted(name))
    return " ".join(p for p in parts if p)


def sql_text(query: nodes.Query) -> str:
    """The whole query in the language, windows at their sources."""
    return node_sql(query.root, names_of(query.root))


def names_of(root: Node) -> Names:
    """What each source of a query is called."""
    return {source.source: source.alias for source in sources_in(root)}


def node_sql(node: Node, names: Names) -> str:
    """One SELECT or a set operation of several, with their ORDER BY and LIMIT."""
    if isinstance(node, nodes.Ordered):
        return _ordered_sql(node, names)
    if isinstance(node, nodes.SetOperation):
        word = node.kind.upper() + (" ALL" if node.all else "")
        right = node_sql(node.right, names)
        left = node_sql(node.left, names)
        if isinstance(node.left, nodes.SetOperation) and (node.left.kind, node.left.all) != (node.kind, node.all):
            left = f"({left})"
        if isinstance(node.right, (nodes.SetOperation, nodes.Ordered)):
            right = f"({right})"
        if isinstance(node.left, nodes.Ordered):
            left = f"({left})"
        return f"{left} {word} {right}"
    return _select_sql(node, names, 0)


def _select_sql(node: Node, names: Names, hidden: int) -> str:
    distinct = isinstance(node, nodes.Distinct)
    body = node.child if isinstance(node, nodes.Distinct) else node
    if distinct and not isinstance(body, (nodes.Project, nodes.GroupBy)):
        return f"SELECT DISTINCT * FROM ({node_sql(body, names)})"
    assert isinstance(body, (nodes.Project, nodes.GroupBy)), "a SELECT is a Project or a GroupBy"
    shown = body.columns[: len(body.columns) - hidden]
    parts = ["SELECT DISTINCT" if distinct else "SELECT", _columns_text(shown, names)]
    inputs_, conditions = _from_parts(body.child)
    if inputs_ != (nodes.OneRow(),):
        parts += ["FROM", ", ".join(_source_texts(inputs_, names))]
    if conditions:
        parts += ["WHERE", _text(conditions[0] if len(conditions) == 1 else nodes.And(conditions), names)[0]]
    if isinstance(body, nodes.GroupBy):
        if body.keys:
            keys = [k for k in body.keys if not (isinstance(k, nodes.WindowCall) and k.function == "session_end")]
            parts += ["GROUP BY", ", ".join(_grouping_text(k, shown, names) for k in keys)]
        if body.having is not None:
            parts += ["HAVING", _text(body.having, names)[0]]
    return " ".join(parts)


def _grouping_text(key: Expression, columns: tuple[tuple[str, Expression], ...], names: Names) -> str:
    """A key; one with a query inside is the same as a column only if it stands there alone, so its place is written."""
    if isinstance(key, nodes.WindowCall):
        return _session_text(key, names)
    shown = [e for _, e in columns]
    return str(shown.index(key) + 1) if key in shown and next(subqueries(key), None) else _key_text(key, names)


def _ordered_sql(node: nodes.Ordered, names: Names) -> str:
    """Shown columns are sorted by their places, others by what they are."""
    child = node.child
    if isinstance(child, (nodes.Project, nodes.GroupBy, nodes.Distinct)):
        parts = [_select_sql(child, names, node.hidden)]
    else:
        text = node_sql(child, names)
        parts = [f"({text})" if isinstance(child, nodes.Ordered) else text]
    if node.keys:
        columns = child.columns if isinstance(child, (nodes.Project, nodes.GroupBy)) else ()
        shown = len(columns) - node.hidden
        keys = [
            (_key_text(columns[place][1], names) if columns and place >= shown else str(place + 1), direction)
            for place, direction in node.keys
        ]
        parts.append("ORDER BY " + ", ".join(f"{key} {direction_text(d)}".rstrip() for key, d in keys))
    if node.limit is not None:
        parts.append(f"LIMIT {_text(node.limit, names)[0]}")
    if node.offset is not None:
        parts.append(f"OFFSET {_text(node.offset, names)[0]}")
    return " ".join(parts)


def _from_parts(node: Node) -> tuple[tuple[Node, ...], tuple[Expression, ...]]:
    """What FROM lists with commas, and the conditions of WHERE."""
    if isinstance(node, nodes.Select):
        inputs_, conditions = _from_parts(node.child)
        return inputs_, (*conditions, *_terms(node.predicate))
    if isinstance(node, nodes.Join):
        return node.children, () if node.predicate is None else _terms(node.predicate)
    return (node,), ()


def _source_texts(inputs: Sequence[Node], names: Names) -> list[str]:
    """Sources one behind the other; an outer join that is not the first is of its own sources, not of all before it."""
    first, *others = inputs
    listed = [_source_text(first, names)]
    for node in others:
        text = _source_text(node, names)
        listed.append(f"({text})" if isinstance(node, nodes.OuterJoin) else text)
    return listed


def _source_text(node: Node, names: Names) -> str:
    """One item of FROM: a source, or a chain of outer joins."""
    if isinstance(node, nodes.Scan):
        return scan_text(node, names[node.source])
    if isinstance(node, nodes.Derived):
        return _derived_text(node, names)
    if isinstance(node, nodes.OuterJoin):
        word = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(node.kind, node.kind.upper())  # asof left is ASOF LEFT
        left, right = _source_text(node.left, names), _source_text(node.right, names)
        if not isinstance(node.right, (nodes.Scan, nodes.Derived)):
            right = f"({right})"
        on = "TRUE" if node.predicate is None else _text(node.predicate, names)[0]
        return f"{left} {word} JOIN {right} ON {on}"
    assert isinstance(node, nodes.Join), "FROM has sources and joins"
    first, *between, last = _source_texts(node.children, names)
    on = "" if node.predicate is None else f" ON {_text(node.predicate, names)[0]}"
    return " CROSS JOIN ".join([first, *between]) + f" {'JOIN' if on else 'CROSS JOIN'} {last}{on}"


def _derived_text(node: nodes.Derived, names: Names) -> str:
    text = f"{'LATERAL ' if node.lateral else ''}({node_sql(node.child, names)}) {quoted(names[node.source])}"
    outside = [c.name for c in node.columns]
    return text if outside == output_names(node.child) else f"{text}({', '.join(quoted(n) for n in outside)})"


def output_names(node: Node) -> list[str]:
    """The names of an answer's columns."""
    if isinstance(node, (nodes.Project, nodes.GroupBy)):
        return [name for name, _ in node.columns]
    if isinstance(node, nodes.SetOperation):
        return output_names(node.left)
    assert isinstance(node, (nodes.Distinct, nodes.Ordered)), "an answer is made by these"
    shown = output_names(node.child)
    return shown[: len(shown) - node.hidden] if isinstance(node, nodes.Ordered) else shown


def _key_text(key: Expression, names: Names) -> str:
    """A grouping key; parentheses keep a bare constant from being read as a column number."""
    text = _text(key, names)[0]
    return f"({text})" if isinstance(key, Literal) else text


def conjuncts(node: Node) -> tuple[Expression, ...]:
    """Every condition below the select list, joins and selections alike."""
    if isinstance(node, nodes.Select):
        return (*conjuncts(node.child), *_terms(node.predicate))
    if isinstance(node, nodes.Join):
        own = () if node.predicate is None else _terms(node.predicate)
        return (*(c for child in node.children for c in conjuncts(child)), *own)
    return ()


def _terms(e: Expression) -> tuple[Expression, ...]:
    return tuple(term for arg in e.args for term in _terms(arg)) if isinstance(e, nodes.And) else (e,)


def _columns_text(columns: tuple[tuple[str, Expression], ...], names: Names) -> str:
    shown: list[str] = []
    for name, e in columns:
        plain = isinstance(e, nodes.ColumnRef) and e.name == name
        shown.append(_text(e, names)[0] + ("" if plain else f" AS {quoted(name)}"))
    return ", ".join(shown)


def tree_text(query: nodes.Query, note: Callable[[Node], str] = lambda _node: "") -> str:
    """The operators as an indented tree; `note` may say something about the edge above each of them."""
    names = ShownNames(names_of(query.root))
    lines: list[str] = []

    def draw(node: Node, indent: int) -> None:
        said = note(node)
        lines.append("  " * indent + operator_text(node, names) + (f"   {said}" if said else ""))
        for child in inputs(node):
            draw(child, indent + 1)

    draw(query.root, 0)
    return "\n".join(lines)


def operator_text(node: Node, names: Names) -> str:
    """One operator without its inputs."""
    if isinstance(node, nodes.Scan):
        return f"{'table' if node.is_table else 'scan'} {scan_text(node, names[node.source])}"
    if isinstance(node, nodes.Select):
        return f"select {_text(node.predicate, names)[0]}"
    if isinstance(node, nodes.Project):
        return f"project {_columns_text(node.columns, names)}"
    if isinstance(node, nodes.Join):
        return "join " + ("(every pair)" if node.predicate is None else _text(node.predicate, names)[0])
    if isinstance(node, nodes.Distinct):
        return "distinct"
    if isinstance(node, nodes.SetOperation):
        return f"{node.kind}{' all' if node.all else ''}"
    if isinstance(node, nodes.OuterJoin):
        on = "(every pair)" if node.predicate is None else _text(node.predicate, names)[0]
        return f"{node.kind} join {on}"
    if isinstance(node, nodes.Derived):
        return f"query {quoted(node.alias)}"
    if isinstance(node, nodes.OneRow):
        return "one row"
    if isinstance(node, nodes.Ordered):
        parts = [f"{place + 1} {direction_text(d)}".rstrip() for place, d in node.keys]
        cuts = [f"{word} {_text(e, names)[0]}" for word, e in (("limit", node.limit), ("offset", node.offset)) if e]
        return " ".join([*(["sort by " + ", ".join(parts)] if parts else []), *cuts])
    keys = ", ".join(_text(k, names)[0] for k in node.keys)
    having = "" if node.having is None else f" having {_text(node.having, names)[0]}"
    return f"group by ({keys}): {_columns_text(node.columns, names)}{having}"
