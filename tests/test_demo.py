"""The demo shows queries in their users' words, redraws its view on a terminal, and prints lines elsewhere."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.keeping import changes_in
from weir import demo
from weir.api import open_weir
from weir.handles import Queries
from weir.progress import Progress
from weir.runtime.maintain import CAME
from weir.runtime.run import BatchFigures, RunProgress
from weir.store.maintained import SLOT
from weir.testing.direct import DirectWeir

FIGURES = RunProgress(
    batches=2,
    events=40_000,
    pairs=900,
    late=0,
    demoted=0,
    quarantined=0,
    came=0,
    went=0,
    given_up=0,
    last_batch=BatchFigures(1, 20_000, 450, 0, 0, 0, 300.0, 100.0, 200.0, 0.0, 0, 0, 0),
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
        made.append(weir.register_many(sql, params, kept=sql == demo.ALERT))
        wordings.add(made[-1].ids, sql, params)
    alerts = demo.Alerts(count=len(made[-1]))
    return demo.Screen(Progress(Terminal()), weir, [queries[0] for queries in made], wordings, alerts)


def test_a_wording_is_the_query(screen: demo.Screen) -> None:
    assert len(screen.watched) == 6
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
    assert len(lines) == 2 + 2 * len(screen.watched), "one line each, however long"
    assert lines[0].endswith("1,000 queries  1 alerts: 0 fired, 0 cleared")
    assert lines[1] == "1 alerts: 0 fired, 0 cleared"
    assert lines[2] == f"query 0: {screen.wordings.of(0)}"


def as_json(table: pa.Table) -> list[str]:
    return [json.dumps(row) for row in table.drop_columns([SLOT, CAME]).to_pylist()]


def test_alerts_fire_and_clear(tmp_path: Path) -> None:
    weir = open_weir(tmp_path / "weir")
    weir.stream("trade", demo.COLUMNS, time="ts", keep="10 minutes")
    weir.stream("weather", demo.WEATHER_COLUMNS, time="ts", keep="10 minutes")
    market = demo.Market(np.random.default_rng(demo.SEED))
    (params,) = (params for sql, params in market.wishes(20_000) if sql == demo.ALERT)
    made = weir.register_many(demo.ALERT, params, kept=True)
    alerts = demo.Alerts(count=len(made))
    trades = market.trades(demo.USUAL_RATE * demo.ALERT_S)
    direct = DirectWeir(weir, wall_us=time.time_ns() // 1_000 + 10_000_000)

    def batch(rows: dict[str, pa.Table]) -> None:
        done = direct.batch(rows)
        for _ in range(2):  # a batch may be told again
            alerts.take(changes_in(weir, done, as_json), done.batch)

    batch({"trade": trades})
    fired = {}
    for id, wanted in zip(made.ids, params.to_pylist(), strict=True):
        is_of = pc.and_(pc.equal(trades["symbol"], wanted["symbol"]), pc.greater_equal(trades["size"], wanted["size"]))
        count = pc.sum(is_of).as_py()
        if count > wanted["trades"]:
            fired[id] = count
    assert 0.1 * len(made) < len(fired) < 0.9 * len(made), "what is tested is a mixture"
    assert str(alerts) == f"{len(made)} alerts: {len(fired)} fired, 0 cleared"
    assert [(told.id, json.loads(told.row)["trades"]) for told in alerts.newest] == list(fired.items())[: demo.NEWEST]

    weather = market.weather()
    later = pc.add(weather["ts"], pa.scalar(demo.ALERT_S, pa.duration("s")))
    batch({"weather": weather.set_column(weather.column_names.index("ts"), "ts", later)})
    assert str(alerts) == f"{len(made)} alerts: {len(fired)} fired, {len(fired)} cleared"
    assert [told.has_fired for told in alerts.newest] == [False] * demo.NEWEST


def test_an_alert_that_goes_on_with_other_figures_neither_fires_nor_clears(screen: demo.Screen) -> None:
    alerts, id = screen.alerts, screen.watched[-1].id
    alerts.take([(id, True, '{"symbol": "a", "trades": 3}')], 4)
    alerts.take([(id, False, '{"symbol": "a", "trades": 3}'), (id, True, '{"symbol": "a", "trades": 5}')], 5)
    assert str(alerts) == "1 alerts: 1 fired, 0 cleared"
    alerts.take([(id, False, '{"symbol": "a", "trades": 5}')], 6)
    alerts.take([(id, False, '{"symbol": "a", "trades": 5}')], 6)
    assert str(alerts) == "1 alerts: 1 fired, 1 cleared"
    with screen:
        screen.close(FIGURES, 4.0)
    out = screen.progress.console.file
    assert isinstance(out, Terminal)
    words = " ".join(out.getvalue().split())
    assert "and what became of it (1 alerts: 1 fired, 1 cleared)" in words
    assert screen.wordings.of(id) in words
    assert "→ cleared: symbol a, trades 5" in words
    assert "→ fired: symbol a, trades 3" in words


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
