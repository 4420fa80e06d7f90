"""A Weir text as the Spark SQL that it is, once its windows and parameters are taken out.

Nothing is translated: the user's own text stays, but for five things. Window clauses become blanks. Every occurrence
of a stream or table in FROM, in subqueries and CTEs too, is named after the temporary view that holds what its window
shows, and keeps its name as an alias; a name that a WITH around it defines is none. A `:parameter` becomes a literal
of its value. `current_timestamp`, `current_date` and `now()` become τ. CAST becomes TRY_CAST, which gives NULL where a
value does not fit, as CAST does in Weir (without ANSI, NaN would be 0, and large numbers the largest that fits).
A view is replaced by its text in parentheses; the streams in it that have no window there have the one of the text
around it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.windows import WindowClause, blank, find_windows
from weir.testing.constants import instant_us
from weir.testing.spans import plain

_EPOCH = dt.datetime(1970, 1, 1)
_INT = 2**31
_Cut = tuple[int, int, str]  # from, to (exclusive), and what stands there instead


def spark_text(
    parsed: Parsed,
    params: Mapping[str, object],
    tau_us: int,
    view_of: Callable[[str, WindowClause | None], str],
    views: Mapping[str, str],
    around: WindowClause | None = None,
) -> str:
    """The text for Spark. `view_of` names the temporary view of a relation under a window; `views` are the user's."""
    tokens = Spark().tokenize(parsed.text)
    kept, _, _ = find_windows(parsed.text, tokens)
    whole = parsed.window or around
    cuts = [*_parameters(kept, params), *_moments(kept, tau_us), *_casts(kept)]
    for table in parsed.ast.find_all(exp.Table):
        if is_cte(table):
            continue
        start, end = table.this.meta["start"], table.this.meta["end"] + 1
        clause = parsed.window_of(table) or whole
        text = views.get(table.name.lower())
        if text is None:
            name = view_of(table.name, clause)
        else:
            inner = parse(text, Settings())
            name = f"({spark_text(inner, params, tau_us, view_of, views, clause).strip().rstrip(';')})"
        cuts.append((start, end, name if table.alias else f"{name} AS {parsed.text[start:end]}"))
    return _cut(blank(parsed.text, tokens, kept), cuts)


def is_cte(table: exp.Table) -> bool:
    """Whether a name in FROM means a common table expression of a WITH around it: not its own, nor a later one."""
    node: exp.Expr = table
    name = table.name.lower()
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.With):
            known = parent.expressions
            before = known if parent.args.get("recursive") else known[: _place(known, node)]
            if any(cte.alias.lower() == name for cte in before):
                return True
            node, parent = parent, parent.parent  # the query around it defines nothing more
            assert parent is not None, "a WITH belongs to a query"
        else:
            defined = parent.args.get("with_")
            if defined is not None and any(cte.alias.lower() == name for cte in defined.expressions):
                return True
        node = parent
    return False


def _place(nodes: Sequence[exp.Expr], node: exp.Expr) -> int:
    return next(i for i, n in enumerate(nodes) if n is node)


def _parameters(tokens: Sequence[Token], params: Mapping[str, object]) -> list[_Cut]:
    cuts = []
    before: Token | None = None
    for token, name in pairwise(tokens):
        if token.token_type is TokenType.COLON and name.start == token.end + 1:
            value = plain(params[name.text])
            in_interval = before is not None and before.text.upper() == "INTERVAL"
            cuts.append((token.start, name.end + 1, f"'{value}'" if in_interval else spark_literal(value)))
        before = token
    return cuts


def _moments(tokens: Sequence[Token], tau_us: int) -> list[_Cut]:
    """Where the text asks for the time."""
    now = _EPOCH + dt.timedelta(microseconds=tau_us)
    words = {
        "CURRENT_TIMESTAMP": f"TIMESTAMP '{now}'",
        "NOW": f"TIMESTAMP '{now}'",
        "CURRENT_DATE": f"DATE '{now.date()}'",
    }
    cuts = []
    for i, token in enumerate(tokens):
        word = words.get(token.text.upper())
        called = [t.text for t in tokens[i + 1 : i + 3]] == ["(", ")"]
        bare = token.token_type in (TokenType.CURRENT_TIMESTAMP, TokenType.CURRENT_DATE)
        if word and (called or bare) and (not i or tokens[i - 1].token_type is not TokenType.DOT):
            cuts.append((token.start, (tokens[i + 2] if called else token).end + 1, word))
    return cuts


def _casts(tokens: Sequence[Token]) -> list[_Cut]:
    return [
        (token.start, token.end + 1, "TRY_CAST")
        for token, following in pairwise(tokens)
        if token.text.upper() == "CAST" and following.text == "("
    ]


def _cut(text: str, cuts: Sequence[_Cut]) -> str:
    pieces, done = [], 0
    for start, end, other in sorted(cuts):
        pieces += [text[done:start], other]
        done = end
    return "".join([*pieces, text[done:]])


def spark_literal(value: object) -> str:
    """A value as a literal of its own type; whole numbers are int where they fit, as they are in a text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{_EPOCH + dt.timedelta(microseconds=instant_us(value))}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, dt.timedelta):
        return f"INTERVAL '{value // dt.timedelta(microseconds=1)}' MICROSECOND"
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"CAST('{'NaN' if math.isnan(value) else 'inf' if value > 0 else '-inf'}' AS DOUBLE)"
        text = f"{value!r}D"
    elif isinstance(value, Decimal):
        text = f"{value:f}BD"
    else:
        assert isinstance(value, int), f"no literal for {value!r}"
        text = str(value) if -_INT <= value < _INT else f"{value}L"
    return f"({text})" if text.startswith("-") else text
