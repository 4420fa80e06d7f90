"""The documents are true: every setting, command and crash point is there, and the README's example runs."""

from __future__ import annotations

import dataclasses
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    import weir.cli

    for verb in verbs:
        assert re.search(rf"\b{verb}\b", weir.cli.__doc__ or ""), verb


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


@pytest.mark.spark
def test_the_example_of_the_readme_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code.group(1), "README.md", "exec"), {})  # our own document, not a user's text
    promised = re.findall(r"^print.*?# (.+)$", code.group(1), re.MULTILINE)
    lines = said.getvalue().splitlines()
    assert lines[: len(promised)] == promised
