"""Every exhibit of the list is there and runs at smoke size; numbers, plot and page are written; a verdict follows.

At smoke size the figures mean nothing: what is held here is the form, that strategies agree on what they find (the
exhibits assert it themselves), and that checks can fail.
"""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.exhibits import run
from benchmarks.exhibits.exhibit import (
    Check,
    Exhibit,
    at_least,
    at_most,
    by_size,
    crossing,
    relative,
    slope,
    slope_within,
    spread,
)
from benchmarks.exhibits.page import section, write, write_page
from benchmarks.exhibits.plot import HEIGHT, WIDTH, draw, label
from benchmarks.exhibits.registry import discover, place
from benchmarks.exhibits.ssi import workload

pytestmark = pytest.mark.slow

WANTED = (
    *(f"csjq-{k}" for k in range(8, 14)),
    *("ssi-2", "ssi-7a", "ssi-7b", "ssi-8a", "ssi-8b", "ssi-9", "ssi-10a", "ssi-10b", "ssi-11", "ssi-t2"),
    *(f"ssi-{k}" for k in range(12, 21)),
    *("ssi-w1", "ssi-w2"),
    "hist-12",
    "psoup-11",
    *(f"upa-{k}" for k in range(9, 18)),
)
DOCUMENTS = Path(__file__).parents[2] / "docs" / "exhibits"
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Picture:
    """What a plot shows, whatever the version of matplotlib that wrote it down."""

    texts: list[str]  # title, labels of axes and ticks, names of series
    points: dict[int, list[tuple[float, float]]]  # by series: middles of markers, or corners of bars; in points
    lines: dict[int, int]  # by series: stretches of its line that have two points or more

    @classmethod
    def of(cls, text: str) -> Picture:
        root = ElementTree.fromstring(text)
        points: dict[int, list[tuple[float, float]]] = {}
        lines: dict[int, int] = {}
        for group in root.iter(f"{SVG}g"):
            kind, _, k = group.get("id", "").partition("-")
            if kind == "series":
                marks = [(float(use.attrib["x"]), float(use.attrib["y"])) for use in group.iter(f"{SVG}use")]
                paths = [path.get("d", "") for path in group.findall(f"{SVG}path")]
                corners = [(float(x), float(y)) for d in paths for x, y in re.findall(r"[ML] (\S+) (\S+)", d)]
                is_bar = any("z" in d for d in paths)
                points.setdefault(int(k), []).extend(corners if is_bar else marks)
                lines[int(k)] = 0 if is_bar else sum(len(re.findall(r"M[^ML]+(?=L)", d)) for d in paths)
        return cls([e.text or "" for e in root.iter(f"{SVG}text")], points, lines)

    def is_like(self, other: Picture) -> bool:
        """Whether both show the same, up to half a point: versions of matplotlib round differently."""
        return (
            self.texts == other.texts
            and self.lines == other.lines
            and self.points.keys() == other.points.keys()
            and all(
                len(mine) == len(other.points[k]) and np.allclose(mine, other.points[k], rtol=0, atol=0.5)
                for k, mine in self.points.items()
            )
        )


def made(**changes: object) -> Exhibit:
    """A small exhibit, with some fields changed."""
    given: dict[str, object] = {
        "name": "demo-1",
        "title": "Rates <by> queries & rows",
        "section": "Demo 1, Fig. 1",
        "claim": "falls linearly",
        "size": "smoke",
        "x_label": "queries",
        "x": (100, 1_000, 10_000),
        "series": {"vanilla": [3e5, 3e4, 3e3], "ssi": [np.float64(1e5), None, 9e4]},
        "unit": "events/s",
        "checks": (Check("falls", True, "−1.00"),),
        "log_x": True,
        "log_y": True,
    }
    return Exhibit(**(given | changes))  # type: ignore[arg-type]  # the fields are of many types


def test_every_exhibit_of_the_list_is_there() -> None:
    assert set(WANTED) <= set(discover())


def test_every_exhibit_has_its_place_on_the_page() -> None:
    page = (DOCUMENTS / "README.md").read_text(encoding="utf-8")
    for name in discover():
        assert f"## {name}\n" in page, f"run `python -m benchmarks.exhibits.run {name}`"
        shown = Exhibit.from_json((DOCUMENTS / f"{name}.json").read_text(encoding="utf-8"))
        assert shown.size == "quick"
        assert section(shown) in page
        committed = Picture.of((DOCUMENTS / f"{name}.svg").read_text(encoding="utf-8"))
        assert committed.is_like(Picture.of(draw(shown))), f"run `python -m benchmarks.exhibits.run {name} --redraw`"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "ssi-9" else pytest.mark.soak) for name in discover()]
)
def test_smoke(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (exhibit,) = run.main([name, "--smoke", "--out", str(tmp_path)])
    assert name in capsys.readouterr().out
    assert exhibit.size == "smoke"
    assert exhibit.verdict == "holds" or re.match(r"differs: \S", exhibit.verdict)
    assert all(check.what and check.seen for check in exhibit.checks)
    assert any(v is not None and math.isfinite(v) for values in exhibit.series.values() for v in values)
    written = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert written["verdict"] == exhibit.verdict
    picture = Picture.of((tmp_path / f"{name}.svg").read_text(encoding="utf-8"))
    assert {exhibit.title, exhibit.x_label, exhibit.unit, *exhibit.series} <= set(picture.texts)
    assert "nan" not in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"## {name}" in page
    assert exhibit.claim in page


def test_a_verdict_follows_from_its_checks() -> None:
    good, bad = Check("falls", True, "−1"), Check("stays", False, "fell", "a list is no tree")
    assert made(checks=(good,)).verdict == "holds"
    assert made(checks=(good, bad, bad._replace(reason=""))).verdict == (
        "differs: stays: fell (a list is no tree); stays: fell"
    )
    with pytest.raises(AssertionError, match="without a check"):
        made(checks=())
    with pytest.raises(AssertionError, match="2 values for 3 places"):
        made(series={"ssi": [1.0, 2.0]})


def test_checks_can_fail() -> None:
    x = (1, 10, 100, 1000)
    falling = [1000.0, 100.0, None, 1.0]
    assert slope(x, falling) == pytest.approx(-1)
    assert slope_within("linear", x, falling, -1, 0.1).holds
    assert not slope_within("flat", x, falling, 0, 0.1).holds
    assert at_least("kept", 0.8, 0.8).holds
    assert not at_least("kept", 0.79, 0.8).holds
    assert at_most("lost", 0.2, 0.2).holds
    assert not at_most("lost", 0.21, 0.2).holds
    assert spread([2.0, None, 5.0]) == 2.5
    assert crossing(x, falling, [10.0, 10.0, 10.0, 10.0]) == pytest.approx(100)
    assert crossing(x, falling, [0.5, 0.5, 0.5, 0.5]) is None
    assert relative({"a": [1.0, None], "b": [2.0, 4.0]}, "b") == {"a / b": [0.5, None]}
    assert by_size("quick", smoke=1, quick=2, full=3) == 2


def test_numbers_survive_json() -> None:
    exhibit = made(
        series={"ssi": [np.float64(123456.7), None, np.int64(7)]}, table={"ratio": [1 / 3, float("inf"), 0.0]}
    )
    again = Exhibit.from_json(exhibit.to_json())
    assert again.series == {"ssi": [123500.0, None, 7]}
    assert again.table == {"ratio": [0.3333, None, 0.0]}
    assert again.to_json() == exhibit.to_json()
    assert again.verdict == exhibit.verdict


@pytest.mark.parametrize(
    ("changes", "points", "lines"),
    [
        ({}, [3, 2], [1, 0]),  # the line with a gap has no two neighbours
        ({"series": {"ssi": [1.0, 2.0, None]}}, [2], [1]),
        ({"log_x": False, "log_y": False, "series": {"ssi": [0.0, 5.0, 2.5]}}, [3], [1]),
        ({"x": ("a", "b", "c"), "series": {"ssi": [1.0, 2.0, 9.0]}, "intervals": {"ssi": [(1e4, 2e5)] * 3}}, [3], [0]),
        ({"x": ("a", "b", "c"), "log_y": False, "series": {"ssi": [1.0, 2.0, 9.0]}}, [12], [0]),  # bars have corners
        ({"series": {"none": [None, None, None]}}, [0], [0]),
        ({"series": {f"s{k}": [1.0, 2.0, 3.0] for k in range(10)}}, [3] * 10, [1] * 10),
    ],
)
def test_plots_show_every_value_inside_the_picture(
    changes: dict[str, object], points: list[int], lines: list[int]
) -> None:
    exhibit = made(**changes)
    text = draw(exhibit)
    picture = Picture.of(text)
    assert [len(picture.points[k]) for k in range(len(points))] == points
    assert [picture.lines[k] for k in range(len(lines))] == lines
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for found in picture.points.values() for x, y in found)
    assert {exhibit.title, exhibit.x_label, exhibit.unit, *exhibit.series} <= set(picture.texts)
    assert "nan" not in text
    assert "var(" not in text, "not every renderer knows variables of style sheets"
    assert text == draw(exhibit)


def test_plots_differ_where_numbers_do() -> None:
    first = Picture.of(draw(made()))
    assert first.is_like(first)
    assert not first.is_like(Picture.of(draw(made(title="Rates"))))
    assert not first.is_like(Picture.of(draw(made(series={"vanilla": [3e5, 3e4, 3e3], "ssi": [1e5, None, 8e4]}))))
    assert not first.is_like(replace(first, lines={0: 2, 1: 0}))


@pytest.mark.parametrize(
    ("values", "log", "labels"),
    [
        ([0.0, 50.0, 97.0], False, ["0", "20", "40", "60", "80", "100"]),
        ([120.0, 300.0, 90_000.0], True, ["100", "1k", "10k", "100k"]),
        ([30.0, 40.0, 200.0], True, ["50", "100", "200"]),
        ([-1.0, 0.0, 1.5], False, ["-1", "-0.5", "0", "0.5", "1", "1.5"]),
    ],
)
def test_ticks_are_round(values: list[float], log: bool, labels: list[str]) -> None:
    picture = Picture.of(draw(made(x=("a", "b", "c"), series={"ssi": values}, log_y=log)))
    ticks = [text for text in picture.texts if re.fullmatch(r"-?[\d.]+[kM]?", text)]
    assert ticks == labels


def test_labels_are_short() -> None:
    assert [label(v) for v in (0, 0.25, 1e-6, 999, 1000, 2.5e6)] == ["0", "0.25", "1e-06", "999", "1k", "2.5M"]


def test_a_page_keeps_the_exhibits_that_did_not_run(tmp_path: Path) -> None:
    write(made(name="demo-12"), tmp_path)
    write(made(name="demo-2", checks=(Check("stays", False, "fell", "why"),)), tmp_path)
    write_page(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.index("## demo-2") < page.index("## demo-12")
    assert "- ✗ stays: fell. Why" in page
    assert "| [demo-2](#demo-2) | Rates <by> queries & rows | differs | smoke |" in page


def test_plots_are_drawn_again_from_the_numbers(tmp_path: Path) -> None:
    (first,) = run.main(["ssi-2", "--smoke", "--out", str(tmp_path)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "ssi-2.svg").unlink()
    (tmp_path / "README.md").write_text("old")
    (again,) = run.main(["ssi-2", "--redraw", "--out", str(tmp_path)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert again.seconds == first.seconds


def test_ids_sort_by_paper_and_figure() -> None:
    names = ["ssi-t2", "ssi-12", "hist-12", "ssi-7b", "ssi-2", "ssi-7a"]
    assert sorted(names, key=place) == ["hist-12", "ssi-2", "ssi-7a", "ssi-7b", "ssi-12", "ssi-t2"]


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["ssi-99"])
    assert "unknown: ssi-99; exhibits: " in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(5))
def test_the_stabbing_number_is_the_least(seed: int) -> None:
    random = np.random.default_rng(seed)
    lo = random.integers(0, 25, 9)
    hi = lo + random.integers(0, 8, 9)
    points = workload.stabbing_points(lo, hi)
    assert all(any(a <= p <= b for p in points) for a, b in zip(lo, hi, strict=True)), f"seed {seed}"
    # Intervals that are pairwise disjoint need a point each: the largest such set, by trying all, is as large as τ.
    disjoint = max(
        len(chosen)
        for chosen in (np.flatnonzero((mask >> np.arange(9)) & 1) for mask in range(1 << 9))
        if all(hi[i] < lo[j] or hi[j] < lo[i] for i in chosen for j in chosen if i < j)
    )
    assert len(points) == workload.stabbing_number(lo, hi) == disjoint, f"seed {seed}"
    sizes = workload.group_sizes(lo, hi)
    assert sizes.sum() == 9
    assert sizes.min() >= 1


@pytest.mark.parametrize(("groups", "selection_rate", "join_rate"), [(30, 0.1, 1_000.0), (400, 0.01, 10.0)])
def test_workloads_have_the_characteristics_asked_for(groups: int, selection_rate: float, join_rate: float) -> None:
    w = workload.table_one(
        5_000, 4_000, groups=groups, selection_rate=selection_rate, join_rate=join_rate, rows=20_000, seed=7
    )
    assert w.groups == pytest.approx(groups, rel=0.05)
    assert w.selected.mean() / 5_000 == pytest.approx(selection_rate, rel=0.1)
    assert w.joining.mean() == pytest.approx(join_rate, rel=0.1)
    naive = (w.plane.a_lo[:, None] <= w.a[None, :50]) & (w.a[None, :50] <= w.plane.a_hi[:, None])
    assert np.array_equal(naive.sum(axis=0), w.selected[:50])
    for e in range(5):
        run_of_e = w.values[w.begin[e] : w.end[e]]
        assert np.all(np.diff(run_of_e) >= 0)
    again = workload.table_one(
        5_000, 4_000, groups=groups, selection_rate=selection_rate, join_rate=join_rate, rows=20_000, seed=7
    )
    assert np.array_equal(again.a, w.a)
    assert np.array_equal(again.plane.c_lo, w.plane.c_lo)


def test_clustered_queries_are_in_hotspots_as_asked() -> None:
    shares = [workload.hotspot_share(workload.clustered(50_000, 10, p).plane) for p in (0.1, 0.5, 1.0)]
    for found, target in zip(shares, (0.1, 0.5, 1.0), strict=True):
        assert target - 0.05 <= found <= target
