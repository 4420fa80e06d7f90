"""The documents are true: every setting, command and folder is there, the API page is the docstrings, examples run."""

from __future__ import annotations

import dataclasses
import io
import re
import xml.etree.ElementTree as ElementTree
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import weir
from docs import make_api, make_picture
from weir import cli, demo
from weir.cli import parser
from weir.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    for field in dataclasses.fields(Settings):
        value = getattr(Settings(), field.name)
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        assert f"| `{field.name}` | {shown} |" in text, field.name


def test_every_command_is_documented() -> None:
    verbs = next(a for a in parser()._actions if a.dest == "verb").choices
    assert verbs is not None
    for verb in verbs:
        assert re.search(rf"\b{verb}\b", cli.__doc__ or ""), verb


def test_every_folder_is_in_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for folder in (ROOT / "src" / "weir").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert f"`{folder.name}/`" in text, folder.name


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_the_api_page_is_what_the_docstrings_say() -> None:
    assert make_api.PAGE.read_text(encoding="utf-8") == make_api.page(), "run `python -m docs.make_api`"


def test_the_api_page_has_every_public_name() -> None:
    text = make_api.page()
    for name in weir.__all__:
        assert re.search(rf"^## (weir\.)?{name}$", text, re.MULTILINE) or f"| `{name}` |" in text, name


def test_the_picture_is_what_its_script_draws() -> None:
    committed, drawn = make_picture.PICTURE.read_text(encoding="utf-8"), make_picture.picture()
    assert [e.text for e in texts(committed)] == [e.text for e in texts(drawn)], "run `python -m docs.make_picture`"
    # Versions of matplotlib may round differently.
    assert outlines(committed) == pytest.approx(outlines(drawn), abs=0.5), "run `python -m docs.make_picture`"
    assert "var(" not in committed, "not every renderer knows variables of style sheets"


def texts(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


def outlines(svg: str) -> list[float]:
    """The numbers of all paths."""
    paths = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    return [float(number) for path in paths for number in re.findall(r"-?\d+\.?\d*", path.get("d", ""))]


def test_the_capture_in_the_readme_is_of_this_demo() -> None:
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    wordings, first = demo.Wordings(), 0
    for sql, params in demo.Market(np.random.default_rng(demo.SEED)).wishes(100_000):
        wordings.add(range(first, first + params.num_rows), sql, params)
        first += params.num_rows
    for id in (0, 90_000, 90_001):
        assert f"{id:,} {wordings.of(id)} →" in page, "run `weir demo` on a terminal and copy what stays on it"
    assert re.search(r"demo: 100,000 standing queries, [\d,]+ events, ", page)


def blocks(page: Path, kind: str) -> list[str]:
    """The blocks of a page that are tagged with a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def play(code: str, page: Path, names: dict[str, object]) -> list[str]:
    """Run a block of our own document, hold what it prints against its comments, and return what it printed."""
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code, page.name, "exec"), names)
    promised = re.findall(r"^print.*?# (.+)$", code, re.MULTILINE)
    lines = said.getvalue().splitlines()
    assert lines[: len(promised)] == promised
    return lines


@pytest.mark.spark
def test_the_example_of_the_readme_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "README.md"
    play(blocks(page, "python")[0], page, {})


@pytest.mark.spark
def test_the_tutorial_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tutorial.md"
    names: dict[str, object] = {}
    said = [line for code in blocks(page, "python") for line in play(code, page, names)]
    (shown,) = blocks(page, "text")
    assert set(shown.splitlines()) <= set(said)
