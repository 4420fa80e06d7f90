"""Registering queries, with what people call them and sort them by; and registering some in the place of others.

What is said of queries is checked here, before anything is parsed: a name is a text of at most `NAME_MAX` characters, a
tag and an owner are, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.answer import written_texts
from weir.answer.keeping import kept_with
from weir.answer.listing import Filters, chosen
from weir.answer.standing import Library
from weir.errors import QueryError, RegisterError, WeirError
from weir.plan.registration import Registration, constants_table, plan_registration
from weir.runtime.intake import NAME_MAX, as_id, as_table, expect_text
from weir.store.naming import Named, register_named, replace_query
from weir.store.query_groups import NO_LABEL, Label, NewQueries
from weir.store.registry import Ids

TAGS_MAX = 100  # of a query


class Registering:
    """How queries come to the registry of one weir, and how they are found there by what people call them."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.registry = library.registry
        self.labels = library.labels

    def register(
        self, sql: str, params: pa.Table | None, names: pa.Array | None, label: Label, kept: bool
    ) -> range | Ids:
        """Register a query for each row of parameters; the ids, a range if they are consecutive."""

        def store(new: NewQueries) -> Named:
            if names is not None:
                return register_named(self.labels, new, names)
            group = self.registry.register(new)
            return Named(np.arange(group.first_id, group.first_id + group.count), group)

        return as_range(self._store(sql, params, label, kept, store))

    def replace(self, query: int | str, sql: str | None, params: Mapping[str, Any] | None) -> int:
        """Register a query in the place of another one."""
        if sql is None and params is None:
            raise RegisterError("neither a text nor parameters were given", hint="replace(name, sql, params)")
        table = one_row(params)
        while True:
            id = self.find(query)
            try:
                return self._replace(id, sql, table)
            except QueryError:
                if self.find(query) == id:  # else somebody was quicker, and the name is another query's now
                    raise

    def _replace(self, id: int, sql: str | None, params: pa.Table | None) -> int:
        kept = self.library.group_of(id).is_kept
        if sql is None:
            written = self.labels.written(id)
            if written is None or not written.slots:
                raise RegisterError(f"the text of query {id} has no parameters", hint="give the whole new text: sql=…")
            sql = written.sql
        (new,) = self._store(sql, params, NO_LABEL, kept, lambda new: replace_query(self.labels, new, id))
        return int(new)

    def _store(
        self, sql: str, params: pa.Table | None, label: Label, kept: bool, store: Callable[[NewQueries], Named]
    ) -> Ids:
        """Plan queries, check them, and store them by the rule that is given."""
        library = self.library
        if not isinstance(kept, bool):
            raise RegisterError(f"kept is True or False, got a {type(kept).__name__}")
        if params is not None and not params.num_rows:
            raise RegisterError("there are no rows of parameters, expected one for each query")
        catalog = library.catalog_log.read()
        planned = plan_registration(sql, params, catalog, library.settings)
        constants = constants_table(planned, params)
        checked = planned.check(constants)
        library.check_quota(planned, checked)
        named = store(self._new(planned, constants, label, kept))
        if named.group is not None:
            library.remember(named.group, planned, checked, catalog)
        return named.ids

    def _new(self, planned: Registration, constants: pa.Table, label: Label, kept: bool) -> NewQueries:
        shape, written = planned.shape, planned.written
        kept_as = kept_with(planned.stored or planned, shape.text, shape.types, constants) if kept else None
        if constants.num_rows == 1 and written.slots:
            (text,) = written_texts.texts(written, shape.types, constants)
            written = written._replace(text=text[0].as_py())
        return NewQueries(
            shape.text,
            shape.types,
            constants,
            planned.classified.forms,
            planned.channels,
            self.library.catalog_log.count(),
            kept_as,
            written,
            label,
        )

    def find(self, query: object) -> int:
        """The id of a standing query, by its id or its name."""
        self.registry.refresh()
        if not isinstance(query, str):
            id = as_id(query)
            self.library.group_of(id)
            return id
        found = self.labels.find(query)
        if found is None:
            raise QueryError(f"there is no query named '{query}'", hint="queries() lists those that stand")
        return found

    def drop(self, wanted: Filters) -> int:
        """Drop the queries that are asked for, all that are there when the document is written, and count them."""

        def choose() -> Ids:
            if wanted.ids is not None:
                self.registry.expect_standing(wanted.ids)
            found = chosen(self.labels, wanted)
            if not len(found) and wanted.ids is None:
                raise QueryError(f"there is no query {_described(wanted)}", hint="queries() lists those that stand")
            return found

        return len(self.registry.drop_chosen(choose))


def as_range(ids: Ids) -> range | Ids:
    """Ids as a range, if they are one."""
    first = int(ids[0])
    return range(first, first + len(ids)) if bool((np.diff(ids) == 1).all()) else ids


# ── what people say of queries ──


def one_row(params: Mapping[str, Any] | None) -> pa.Table | None:
    """The parameters of one query."""
    if params is not None and not isinstance(params, Mapping):
        raise RegisterError(
            f"parameters are a {type(params).__name__}, expected a dict of one value for each `:parameter`",
            hint="register_many takes one row of parameters for each query",
        )
    return None if not params else as_table([dict(params)], "parameters", RegisterError)


def label_of(tags: object, owner: object) -> Label:
    """Tags and an owner, checked."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise RegisterError(f"tags are {tags!r}, expected several texts", hint="one tag is written tags=['alerts']")
    given = list(tags)
    for tag in given:
        _expect_word(tag, "a tag")
    if len(set(given)) > TAGS_MAX:
        raise RegisterError(f"there are {len(set(given))} tags, at most {TAGS_MAX} are taken")
    if owner is not None:
        _expect_word(owner, "the owner")
    return Label(tuple(sorted(set(given))), None if owner is None else str(owner))


def filters(
    ids: Ids | None,
    name: str | None = None,
    tag: str | None = None,
    owner: str | None = None,
    text: str | None = None,
) -> Filters:
    """What queries are looked for by, checked."""
    for what, word in (("name", name), ("tag", tag), ("owner", owner), ("text", text)):
        if word is not None:
            expect_text(word, f"the {what} to look for", QueryError)
            _expect_unicode(word, f"the {what} to look for", QueryError)
    return Filters(ids, name, tag, owner, text)


def _described(wanted: Filters) -> str:
    said = {"name": wanted.name, "tag": wanted.tag, "owner": wanted.owner}
    return " and ".join(f"with the {what} '{word}'" for what, word in said.items() if word is not None)


def _expect_word(given: object, what: str) -> None:
    """Refuse what is no text, an empty one, and one that is too long."""
    expect_text(given, what, RegisterError)
    assert isinstance(given, str)
    _expect_unicode(given, what, RegisterError)
    if not given.strip() or len(given) > NAME_MAX:
        raise RegisterError(f"{what} is '{given[:NAME_MAX]}' of {len(given):,} characters, expected 1 to {NAME_MAX}")


def _expect_unicode(given: str, what: str, error: type[WeirError]) -> None:
    """Refuse half of a character: no file could hold it."""
    try:
        given.encode()
    except UnicodeEncodeError as wrong:
        raise error(f"{what} is no Unicode text: {wrong.reason} at character {wrong.start}") from None


def name_array(name: object) -> pa.Array | None:
    """The name of one query, checked."""
    if name is None:
        return None
    return _checked_names([name])


def names_array(names: object, params: pa.Table) -> pa.Array | None:
    """The names of many queries, checked: a column of the parameters, or a text for each row."""
    if names is None:
        return None
    if isinstance(names, str):
        if names not in params.column_names:
            have = ", ".join(params.column_names)
            raise RegisterError(f"names is '{names}', which is no column of the parameters ({have})")
        given: Any = params.column(names)
    elif isinstance(names, Iterable):
        given = names if isinstance(names, pa.Array | pa.ChunkedArray) else list(names)
    else:
        raise RegisterError(f"names are a {type(names).__name__}, expected a column's name or a text for each query")
    if len(given) != params.num_rows:
        raise RegisterError(f"there are {len(given):,} names for {params.num_rows:,} queries, expected one for each")
    return _checked_names(given)


def _checked_names(given: Any) -> pa.Array:
    """Names as an Arrow array: texts, none of them empty, too long, a number, or there twice."""
    names = _as_texts(given)
    for is_wrong, what in (
        (pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(names)), 0), "is empty"),
        (pc.greater(pc.utf8_length(names), NAME_MAX), f"is longer than {NAME_MAX} characters"),
        (pc.match_substring_regex(names, "^[0-9]+$"), "is a number, and could be taken for an id"),
    ):
        at = pc.index(is_wrong, True).as_py()
        if at >= 0:
            raise RegisterError(f"the name of a query, '{names[at].as_py()[:NAME_MAX]}', {what}")
    counts = pc.value_counts(names)
    at = pc.index(pc.greater(counts.field("counts"), 1), True).as_py()
    if at >= 0:
        name, count = counts.field("values")[at].as_py(), counts.field("counts")[at].as_py()
        raise RegisterError(f"the name '{name}' is given to {count} queries", hint="names are unique")
    return names


def _as_texts(given: Any) -> pa.Array:
    """Names as they are given, in one array of texts."""
    try:
        names = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
        names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        is_text = pa.types.is_string(names.type) or pa.types.is_large_string(names.type)
        if is_text or (pa.types.is_dictionary(names.type) and pa.types.is_string(names.type.value_type)):
            names = names.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
        raise RegisterError(f"the names of queries cannot be read as texts: {wrong}") from wrong
    if not pa.types.is_string(names.type) or names.null_count:
        other = next((name for name in names.to_pylist() if not isinstance(name, str)), None)
        raise RegisterError(f"the name of a query is {other!r}, expected a text")
    return names
