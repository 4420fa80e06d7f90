"""Views: queries with names, put in where they are used, and kept in the catalog."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.testing.direct import DirectWeir

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
START_US = int(START.timestamp()) * 1_000_000


@pytest.fixture
def w(tmp_path: Path) -> weir.Weir:
    w = weir.open(tmp_path / "w")
    w.stream("trade", "name string, price double, area string, ts timestamp", time="ts", keep="1 hour")
    w.view("dear", "SELECT name, area, price * 2 AS twice, ts FROM trade WHERE price > 10")
    w.view("busy", "SELECT area, count(*) AS n FROM dear GROUP BY area")
    return w


def trades(*rows: tuple[str, float, str, int]) -> pa.Table:
    names, prices, areas, seconds = zip(*rows, strict=True)
    times = pa.array([START_US + s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"name": names, "price": pa.array(prices, pa.float64()), "area": areas, "ts": times})


ROWS = (("a", 5.0, "north", 0), ("b", 15.0, "north", 10), ("c", 25.0, "south", 20), ("d", 35.0, "north", 30))


def test_views_are_queries_in_from(w: weir.Weir, tmp_path: Path) -> None:
    plain = w.register("SELECT name FROM dear WHERE twice < 60")
    over = w.register("SELECT d.name, b.n FROM dear d JOIN busy AS b USING (area) ORDER BY name")
    lately = w.register("SELECT sum(n) AS n FROM busy BEGIN NOW - 15 END NOW")
    DirectWeir(w, wall_us=START_US + 60_000_000).batch({"trade": trades(*ROWS)})
    assert plain.fetch().column("name").to_pylist() == ["b", "c"]
    assert over.fetch().to_pylist() == [{"name": "b", "n": 2}, {"name": "c", "n": 1}, {"name": "d", "n": 2}]
    assert lately.fetch().to_pylist() == [{"n": 2}], "a window around a view is that of its streams"
    assert "family: selection\n" in plain.explain(), "a view of a selection is part of the core"
    again = weir.open(tmp_path / "w")
    assert list(again.catalog.views) == ["dear", "busy"]
    assert again.register("SELECT count(*) AS n FROM busy").fetch().to_pylist() == [{"n": 2}]


def test_a_query_outlives_its_view(w: weir.Weir) -> None:
    query = w.register("SELECT n FROM busy WHERE area = 'north'")
    w.drop_view("busy")
    w.drop_view("DEAR")
    assert not w.catalog.views
    DirectWeir(w, wall_us=START_US + 60_000_000).batch({"trade": trades(*ROWS)})
    assert query.fetch().to_pylist() == [{"n": 2}]
    with pytest.raises(weir.WeirError, match="view 'busy' was dropped, and its name is not used again"):
        w.view("busy", "SELECT name FROM trade")


@pytest.mark.parametrize(
    ("does", "message"),
    [
        (lambda w: w.view("dear", "SELECT name FROM trade"), "'dear' is already defined as view SELECT name, area"),
        (lambda w: w.view("trade", "SELECT name FROM dear"), "'trade' is already defined as stream"),
        (lambda w: w.stream("dear", "ts timestamp", time="ts"), "'dear' is already defined as view"),
        (lambda w: w.view("loop", "SELECT * FROM loop"), "view 'loop' reads 'loop'"),
        (lambda w: w.view("no name", "SELECT name FROM trade"), "'no name' is not a name of a view"),
        (lambda w: w.view("v", "SELECT prize FROM trade"), "column 'prize' is not in stream 'trade'"),
        (lambda w: w.view("v", "SELECT name FROM trade WHERE price > :p"), "a view has no parameters, this one has :p"),
        (lambda w: w.view("v", 5), "the text of a view is a int, expected a text"),
        (lambda w: w.drop_view("dear"), "view 'dear' is read by busy; drop them first"),
        (lambda w: w.drop_view("deer"), "there is no view 'deer'; did you mean 'dear'?"),
        (lambda w: w.register("SELECT * FROM dear [ROWS 3]"), "'dear' is a view and has no window"),
        (lambda w: w.register("SELECT * FROM deer"), "there is no stream or table 'deer'"),
    ],
)
def test_what_is_refused(w: weir.Weir, does: Callable[[weir.Weir], object], message: str) -> None:
    before = w.catalog
    with pytest.raises(weir.WeirError, match=message):
        does(w)
    assert w.catalog == before


def test_saying_the_same_again_does_nothing(w: weir.Weir) -> None:
    documents = w.catalog_log.count()
    assert w.view("dear", "SELECT name, area, price * 2 AS twice, ts FROM trade WHERE price > 10").name == "dear"
    assert w.catalog_log.count() == documents
