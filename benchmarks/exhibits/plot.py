"""Plots of exhibits as SVG text, drawn by matplotlib: lines over numbers, bars or points with intervals over names.

A plot has its own light background and plain colours, so every renderer shows it alike, on light and on dark pages.
Each series has a colour *and* a marker, so nobody has to tell lines apart by colour alone, and a strategy has the same
two in every exhibit. The legend lists the series in the order of the lines' ends.

The text of the file depends on the exhibit and on matplotlib's version only: no date, no random ids, margins that we
set, letters as text, and the font that matplotlib brings along. The group `series-<k>` of the file holds what is drawn
of the k-th series.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks.exhibits.exhibit import Exhibit, Number

WIDTH, HEIGHT = 720, 396  # of a picture, in points
LEFT, TOP, BOTTOM = 62, 62, 52  # margins of the plot area
LETTER = 7.0  # about the width of a letter of the legend
KNOWN = ("ssi", "hotspot", "select-first", "join-first", "vanilla", "sweep", "dynamic", "optimum")  # fixed colours
COLOURS = (
    *("#2a78d6", "#158a5e", "#b07400", "#4a3aa7", "#d83f3e"),
    *("#c2508a", "#d4571f", "#5d6b78", "#0f8a94", "#8a6d3b"),
)
MARKERS = "os^DvPX*hp"  # one for each colour
PAGE, INK, SOFT, GRID, AXIS = "#fcfcfb", "#1f1f1d", "#63625d", "#e6e5df", "#a9a8a1"

STYLE = {
    "svg.hashsalt": "weir",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "figure.facecolor": PAGE,
    "axes.facecolor": PAGE,
    "axes.edgecolor": AXIS,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.labelcolor": SOFT,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": AXIS,
    "xtick.labelcolor": SOFT,
    "ytick.color": GRID,
    "ytick.labelcolor": SOFT,
    "lines.linewidth": 2,
    "lines.markersize": 8,
    "lines.markeredgewidth": 0.7,
    "lines.markeredgecolor": PAGE,
}


def draw(exhibit: Exhibit) -> str:
    """The plot as the text of an SVG file."""
    with matplotlib.rc_context(STYLE):
        return svg_text(figure_of(exhibit), exhibit.title)


def svg_text(figure: Figure, title: str) -> str:
    """A figure as the text of an SVG file; the caller sets STYLE around it."""
    out = io.StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None, "Title": title})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def figure_of(exhibit: Exhibit) -> Figure:
    """The plot as a figure; the caller sets STYLE around it."""
    names = list(exhibit.series)
    right = 52 + LETTER * max(len(name) for name in names)
    figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), dpi=72)
    figure.text(14 / WIDTH, 1 - 26 / HEIGHT, exhibit.title, size=13, weight="bold")
    figure.text(14 / WIDTH, 1 - 48 / HEIGHT, exhibit.unit, color=SOFT)
    axes = figure.subplots()
    axes.set_xlabel(exhibit.x_label)
    axes.grid(axis="y")
    axes.tick_params(axis="y", length=0)
    is_named = isinstance(exhibit.x[0], str)
    is_crowded = is_named and LETTER * sum(len(str(x)) for x in exhibit.x) > WIDTH - LEFT - right
    figure.subplots_adjust(
        left=LEFT / WIDTH,
        right=1 - right / WIDTH,
        top=1 - TOP / HEIGHT,
        bottom=(BOTTOM + 32 * is_crowded) / HEIGHT,
    )
    places: list[float] = []
    if is_named:
        places.extend(range(len(exhibit.x)))
        axes.set_xticks(places, list(exhibit.x))
        if is_crowded:
            axes.tick_params(axis="x", rotation=20)
    else:
        places.extend(float(x) for x in exhibit.x)
        _scale(axes, "x", places, exhibit.log_x)
    heights = [v for values in exhibit.series.values() for v in values]
    heights += [v for pairs in exhibit.intervals.values() for pair in pairs for v in pair]
    _scale(axes, "y", heights, exhibit.log_y)
    slots = _slots(names)
    handles = [_series(axes, exhibit, k, name, places, slots[name]) for k, name in enumerate(names)]
    if not exhibit.log_y:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.0) if min(_known(heights, False), default=0.0) < 0 else 0.0, high)
    order = range(len(names)) if is_named else sorted(range(len(names)), key=lambda k: -_end(exhibit.series[names[k]]))
    axes.legend(
        [handles[k] for k in order],
        [names[k] for k in order],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        handlelength=1.6,
        labelspacing=0.6,
    )
    return figure


def label(value: float) -> str:
    """A number on an axis: 0.01, 25, 10k, 2M."""
    if value == 0:
        return "0"
    size = abs(value)
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit * (1 - 1e-9):
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}" if size >= 1e-4 else f"{value:.0e}"


def _series(axes: Axes, exhibit: Exhibit, k: int, name: str, places: Sequence[float], slot: int) -> object:
    """Draw one series; returns what the legend shows of it."""
    values = [math.nan if v is None or (exhibit.log_y and v <= 0) else v for v in exhibit.series[name]]
    colour, marker = COLOURS[slot], MARKERS[slot]
    if not isinstance(exhibit.x[0], str):
        (line,) = axes.plot(places, values, color=colour, marker=marker, clip_on=False, gid=f"series-{k}")
        return line
    step = 0.8 / len(exhibit.series)
    shifted = [place + (k - (len(exhibit.series) - 1) / 2) * step for place in places]
    if name not in exhibit.intervals:
        bars: BarContainer = axes.bar(shifted, values, step * 0.9, color=colour)
        for bar in bars:
            bar.set_gid(f"series-{k}")
        return bars
    (points,) = axes.plot(shifted, values, color=colour, marker=marker, linestyle="", gid=f"series-{k}", zorder=3)
    lows, highs = zip(*exhibit.intervals[name], strict=True)
    axes.vlines(shifted, lows, highs, color=colour, linewidth=1.5)
    return points


def _scale(axes: Axes, which: Literal["x", "y"], values: Sequence[Number], log: bool) -> None:
    """Give an axis its scale, with few round ticks and short labels."""
    known = _known(values, log)
    axis = axes.xaxis if which == "x" else axes.yaxis
    if log:
        axes.set(**{f"{which}scale": "log"})
        decades = math.log10(max(known) / min(known)) if known else 0.0
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0), numticks=9))
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))


def _known(values: Sequence[Number], log: bool) -> list[float]:
    """The values that can be drawn."""
    return [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]


def _end(values: Sequence[Number]) -> float:
    """The last value of a line, by which the legend is ordered."""
    return next((v for v in reversed(values) if v is not None), -math.inf)


def _slots(names: Sequence[str]) -> dict[str, int]:
    """A colour and marker for each series: the known ones their own, others the first that are free."""
    made = {name: KNOWN.index(name) for name in names if name in KNOWN}
    free = [k for k in range(len(COLOURS)) if k not in made.values()]
    others = [name for name in names if name not in made]
    return made | {name: free[k % len(free)] for k, name in enumerate(others)}
