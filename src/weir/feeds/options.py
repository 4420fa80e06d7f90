"""The options of a Spark source, checked: where the weir is, what to read of it, and of which queries."""

from __future__ import annotations

from collections.abc import Mapping

from weir.errors import FeedError, did_you_mean
from weir.feeds.contents import AnswerChanges, Answers, Content, QueryList, Steps
from weir.feeds.folder import Folder, ids_of, open_folder
from weir.feeds.rows import Matches, StreamRows
from weir.handles import to_us

KNOWN = ("path", "what", "query", "stream", "at")
TAKEN = {
    "answers": ("query", "at"),
    "changes": ("query",),
    "matches": ("query",),
    "streams": ("stream",),
    "queries": (),
}  # by what is read, the options that it takes beside `path` and `what`


def content_of(options: Mapping[str, str]) -> Content | Steps:
    """What the options ask for, as of now."""
    what = _checked(options)
    folder = open_folder(options["path"])
    seen = folder.newest()
    if what == "queries":
        return QueryList.of(folder)
    if what == "streams":
        return StreamRows.of(folder, _needed(options, what, "stream", _streams(folder)), seen)
    if what == "matches":
        ids = ids_of(options["query"]) if "query" in options else ()
        return Matches.of(folder, ids, seen)
    ids = ids_of(_needed(options, what, "query", "the id of a query, or several: 3,5,10-19"))
    if what == "changes":
        return AnswerChanges.of(folder, ids)
    return Answers.of(folder, ids, seen.at(_time(options["at"])) if "at" in options else seen)


def _checked(options: Mapping[str, str]) -> str:
    """What is to be read; FeedError if an option is not known or does not go with it."""
    for name in options:
        if name.lower() not in KNOWN:
            raise FeedError(
                f"there is no option '{name}'", hint=did_you_mean(name, KNOWN) or f"options: {', '.join(KNOWN)}"
            )
    if not options.get("path"):
        raise FeedError("the option 'path' is missing", hint="give the folder of a weir: .option('path', …) or load(…)")
    what = options.get("what", "answers").lower()
    if what not in TAKEN:
        raise FeedError(f"option what is '{what}', expected one of {', '.join(TAKEN)}")
    for name in options:
        if name.lower() not in ("path", "what", *TAKEN[what]):
            raise FeedError(f"option '{name.lower()}' means nothing for what={what}", hint="leave it out")
    return what


def _needed(options: Mapping[str, str], what: str, name: str, expected: str) -> str:
    if not options.get(name):
        raise FeedError(f"what={what} needs the option '{name}'", hint=f"expected {expected}")
    return options[name]


def _streams(folder: Folder) -> str:
    return "one of " + (", ".join(s.name for s in folder.catalog_log.read().streams.values()) or "none yet")


def _time(text: str) -> int:
    """A moment as options have it: a time as text, or µs since the epoch."""
    return to_us(int(text) if text.lstrip("-").isdigit() else text, FeedError)
