"""What sqlglot reads but the language does not have: its name in the user's words, and what to write instead.

Everything that is not listed is refused too, by the word that the user wrote there: sqlglot's names for it mean nothing
to anybody else.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+|`[^`]*`|\S")

# Expressions, by sqlglot's class: what it is called, and what to write instead.
REFUSED_NODES: dict[str, tuple[str, str]] = {
    "Subquery": ("a subquery", "write it as a join"),
    "Select": ("a subquery", "write it as a join"),
    "Exists": ("EXISTS", "write it as a join"),
    "Window": ("a window function (OVER)", "use GROUP BY, or a window in FROM: trade [ROWS 100]"),
    "Tuple": ("a list in parentheses", "compare the parts one by one with AND"),
    "Bracket": ("an element in brackets", "columns hold single values"),
    "WithinGroup": ("WITHIN GROUP", "use min, max or avg"),
    "Concat": ("two texts side by side", "write them with ||"),
    "Filter": ("FILTER", "use WHERE"),
    "Lambda": ("a lambda", ""),
    "BitwiseAnd": ("&", ""),
    "BitwiseOr": ("|", ""),
    "BitwiseXor": ("^", ""),
    "BitwiseNot": ("~", ""),
    "BitwiseLeftShift": ("<<", ""),
    "BitwiseRightShift": (">>", ""),
    "IgnoreNulls": ("IGNORE NULLS", "leave it out"),
    "RespectNulls": ("RESPECT NULLS", "leave it out"),
    "GroupingSets": ("GROUPING SETS outside GROUP BY", ""),
    "Rollup": ("ROLLUP outside GROUP BY", ""),
    "Cube": ("CUBE outside GROUP BY", ""),
    "HexString": ("a binary constant (x'…')", ""),
    "National": ("a text N'…'", "leave out the N"),
    "Dot": ("a field of a value", "write alias.column"),
    "Alias": ("an alias inside an expression", "leave it out"),
    "Any": ("ANY", "write the comparisons out with OR"),
    "All": ("ALL", "write the comparisons out with AND"),
    "Values": ("VALUES", "name streams and tables only"),
    "Table": ("TABLE", "write SELECT * FROM it"),
    "Star": ("*", "name the columns; * stands alone in the select list or in count(*)"),
}

# Clauses, by sqlglot's argument name.
REFUSED_CLAUSES: dict[str, tuple[str, str]] = {
    "order": ("ORDER BY", "an answer is a bag of rows; sort it after fetch"),
    "sort": ("SORT BY", "use ORDER BY"),
    "cluster": ("CLUSTER BY", "use ORDER BY"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "limit": ("LIMIT", "cut the answer after fetch, or use a window: trade [ROWS 100]"),
    "offset": ("OFFSET", "cut the answer after fetch"),
    "with_": ("WITH", "write the query without common table expressions"),
    "windows": ("WINDOW", "use a window in FROM: trade [RANGE 1 HOUR]"),
    "laterals": ("LATERAL", ""),
    "hint": ("a hint", "leave it out"),
    "into": ("INTO", "fetch the answer instead"),
    "sample": ("TABLESAMPLE", ""),
    "pivots": ("PIVOT", "use GROUP BY, and FILTER for each value"),
    "unpivots": ("UNPIVOT", "use UNION ALL, one query for each column"),
    "match": ("MATCH_RECOGNIZE", ""),
    "kind": ("SELECT AS STRUCT", ""),
    "prewhere": ("PREWHERE", "use WHERE"),
    "connect": ("CONNECT BY", ""),
    "locks": ("FOR UPDATE", ""),
    "exclude": ("* EXCLUDE", "name the columns"),
    "by_name": ("BY NAME", "list the columns in the same order"),
    "except_": ("* EXCEPT", "name the columns"),
    "replace": ("* REPLACE", "name the columns"),
    "rename": ("* RENAME", "name the columns with aliases"),
    "columns": ("a list of column names behind a source", "rename columns in the select list"),
    "db": ("a qualified source", "streams and tables have plain names"),
    "alias": ("an alias for a whole query", "leave it out"),
    "version": ("a table version", "use a window: trade [RANGE 1 HOUR]"),
    "on": ("DISTINCT ON", "use GROUP BY with min or max"),
    "side": ("a set operation with a side", ""),
}


def refused(kind: str, text: str, start: int | None) -> tuple[str, str]:
    """What a node of sqlglot's that is not in the language is called, and what to write instead."""
    if kind in REFUSED_NODES:
        return REFUSED_NODES[kind]
    found = None if start is None else _WORD.search(text, start)
    written = f"what is written at '{found[0][:40]}'" if found else "a part of the text"
    return written, "see docs/language.md for the grammar"
