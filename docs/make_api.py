"""Makes docs/api.md from the docstrings of what users touch.

    python -m docs.make_api

A test holds that the page is what this script makes, so a docstring and the page change together.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import weir
from weir import errors
from weir.runtime.run import BatchFigures, RunProgress
from weir.settings import Settings
from weir.store.vacuum import Removed

PAGE = Path(__file__).parent / "api.md"
INTERNAL = {"start", "add_frame", "remove_frame"}  # methods of Run that the project itself calls

HEAD = """# API reference

Made from the docstrings by `docs/make_api.py`. The [tutorial](tutorial.md) shows these in use; the SQL is in
[language.md](language.md), the folder and the messages are in [operations.md](operations.md), and `weir --help` has the
command line.

"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## weir.open\n\n", *_callable("weir.open", weir.open)]
    parts += ["## weir.configure\n\n", *_callable("weir.configure", weir.configure)]
    parts += ["## weir.register_source\n\n", *_callable("weir.register_source", weir.register_source)]
    for kind in (weir.Weir, weir.Query, weir.Queries, weir.Answers, weir.Changes, weir.Run):
        parts += [f"## {kind.__name__}\n\n", _text(kind), *_members(kind)]
    for figures in (RunProgress, BatchFigures, Removed):
        parts += [f"## {figures.__name__}\n\n", _text(figures), *_fields(figures)]
    parts += _errors()
    parts += ["## Settings\n\nGiven to `weir.open(path, settings={…})`. Units are the last part of a name.\n\n"]
    parts += _fields(Settings, defaults=True)
    return "".join(parts).rstrip() + "\n"


def _members(kind: type) -> Iterator[str]:
    """Fields, properties and methods of a class, in the order in which the source has them."""
    if dataclasses.is_dataclass(kind):
        yield from _fields(kind)
    for name, member in vars(kind).items():
        if name.startswith("_") or name in INTERNAL:
            continue
        title = f"{kind.__name__}.{name}"
        if isinstance(member, property):
            assert member.fget is not None
            returns = inspect.signature(member.fget).return_annotation
            yield f"### {title}\n\n```\n{name}: {returns}\n```\n\n"
            yield _text(member)
        elif inspect.isfunction(member):
            yield f"### {title}\n\n"
            yield from _callable(name, member)


def _callable(name: str, function: object) -> Iterator[str]:
    yield f"```\n{_signature(name, function)}\n```\n\n"
    yield _text(function)


def _signature(name: str, function: object) -> str:
    """A signature on one line, or with one parameter a line if it is long."""
    assert callable(function)
    signature = inspect.signature(function)
    shown: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{parameter.name}: {parameter.annotation}{default}")
    line = f"{name}({', '.join(shown)}) -> {signature.return_annotation}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f") -> {signature.return_annotation}"


def _fields(kind: type, *, defaults: bool = False) -> Iterator[str]:
    """A table of a dataclass's fields, with the comments that stand beside them in the source."""
    comments = dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", inspect.getsource(kind), re.MULTILINE))
    yield "| name | default | what |\n|---|---|---|\n" if defaults else "| name | type | what |\n|---|---|---|\n"
    for field in dataclasses.fields(kind):
        second = f"{field.default:,}" if isinstance(field.default, int) else str(field.default)
        if not defaults:
            second = f"`{field.type}`".replace("|", "\\|")
        yield f"| `{field.name}` | {second} | {comments[field.name]} |\n"
    yield "\n"


def _errors() -> Iterator[str]:
    """All errors, each below its base."""
    yield "## Errors\n\nIn `weir.errors`; all of them are a `weir.WeirError`. A message names the stage, the thing,\n"
    yield "what was expected and found, and what to do. An error in SQL text has `line` and `column`; `hint` is the\n"
    yield "advice at the end of the message.\n\n"
    yield "| error | stage | when |\n|---|---|---|\n"
    for error in vars(errors).values():
        if inspect.isclass(error) and issubclass(error, errors.WeirError):
            yield f"| `{error.__name__}` | {error.stage} | {inspect.getdoc(error)} |\n"
    yield "\n"


def _text(documented: object) -> str:
    text = inspect.getdoc(documented)
    assert text, f"{documented} has no docstring"
    return text + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written to {PAGE}")
