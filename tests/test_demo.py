"""The demo shows queries in their users' words, redraws its view on a terminal, and prints lines elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from weir import demo
from weir.api import open_weir
from weir.handles import Queries
from weir.progress import Progress
from weir.runtime.run import BatchFigures, RunProgress

FIGURES = RunProgress(
    batches=2,
    events=40_000,
    pairs=900,
    late=0,
    demoted=0,
    quarantined=0,
    last_batch=BatchFigures(1, 20_000, 450, 0, 0, 0, 300.0, 100.0, 200.0),
    batch_ms_p50=300.0,
    batch_ms_p99=400.0,
    now_us=0,
    late_rows={},
    queries=1_000,
    housekeeping_error=None,
    join_choices={},
)


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> demo.Screen:
    """A screen over a weir with the demo's streams and a few of its queries, on a terminal of 100 columns."""
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    weir = open_weir(tmp_path / "weir")
    weir.stream("trade", demo.COLUMNS, time="ts", keep="10 minutes")
    weir.stream("weather", demo.WEATHER_COLUMNS, time="ts", keep="10 minutes")
    wordings = demo.Wordings()
    made: list[Queries] = []
    for sql, params in demo.Market(np.random.default_rng(demo.SEED)).wishes(100):
        made.append(weir.register_many(sql, params))
        wordings.add(made[-1].ids, sql, params)
    return demo.Screen(Progress(Terminal()), weir, [queries[0] for queries in made], wordings)


def test_a_wording_is_the_query(screen: demo.Screen) -> None:
    assert len(screen.watched) == 5
    for query in (*screen.watched, screen.reader.query(99)):
        text = screen.wordings.of(query.id)
        assert ":" not in text
        assert screen.reader.register(text).sql == query.sql


def test_a_terminal_shows_figures_and_users_words(screen: demo.Screen) -> None:
    with screen:
        screen.show(FIGURES, 2.0)
        screen.progress.say("said meanwhile")
        screen.close(FIGURES, 4.0)
    out = screen.progress.console.file
    assert isinstance(out, Terminal)
    shown = out.getvalue()
    assert "20,000 events/s" in shown
    assert "10,000 events/s" in shown.partition("said meanwhile")[2]
    words = " ".join(shown.partition("said meanwhile")[2].split())
    start = "SELECT t.symbol, t.price, w.category FROM trade t JOIN weather w ON t.area = w.area"
    assert start in words
    assert "no rows in its window yet" in words
    assert "c0" not in words, "that is the registry's form"


def test_elsewhere_lines_are_plain(screen: demo.Screen) -> None:
    out = io.StringIO()
    screen.progress = Progress(out)
    with screen:
        screen.show(FIGURES, 2.0)
        screen.close(FIGURES, 4.0)
    lines = out.getvalue().splitlines()
    assert "\x1b" not in out.getvalue()
    assert len(lines) == 1 + 2 * len(screen.watched), "one line each, however long"
    assert lines[1] == f"query 0: {screen.wordings.of(0)}"


@pytest.mark.usefixtures("screen")
def test_a_bar_is_redrawn_on_a_terminal_and_ends_as_a_line() -> None:
    out, lines = Terminal(), io.StringIO()
    for progress in (Progress(out), Progress(lines)):
        for done in (1, 2, 3):
            progress.bar("taking [things] :now", done, 3)
    assert "2 / 3" in out.getvalue()
    assert out.getvalue().splitlines()[-1].endswith("s")
    assert lines.getvalue().startswith("taking [things] :now: 3 in ")
    assert len(lines.getvalue().splitlines()) == 1
    quiet = Terminal()
    Progress(quiet, quiet=True).bar("taking", 1, 3)
    Progress(quiet, quiet=True).say("taken")
    assert quiet.getvalue() == ""
