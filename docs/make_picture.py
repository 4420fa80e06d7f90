"""Draws docs/rows-meet-queries.svg, the picture of the README: rows and queries meet at the index.

    python -m docs.make_picture

The picture has its own background and plain colours, so it reads on light and on dark pages. Places are in points,
from the lower left corner.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from benchmarks.exhibits.plot import AXIS, PAGE, SOFT, STYLE, svg_text

PICTURE = Path(__file__).parent / "rows-meet-queries.svg"
TITLE = "Rows and queries meet at the index"
WIDTH, HEIGHT = 780, 400
ROW, QUERY, MATCH = "#2a78d6", "#b07400", "#158a5e"  # what is a row, a query, a match
PALE = {ROW: "#e4eefa", QUERY: "#f8eed9", MATCH: "#dff2ea", AXIS: "#ffffff"}

ROWS = (("orange", "24.50"), ("lemon", "12.00"), ("storm", "south"))
QUERIES = ("orange below 25", "price 10 to 19.5", "orange in a storm")
# Boxes of queries in the index: left, bottom, width, height. The first two hold the new row.
BOXES = ((318, 268, 74, 52), (352, 252, 86, 44), (300, 212, 60, 32), (412, 304, 50, 26), (420, 208, 44, 30))
POINT = (374, 280)


def picture() -> str:
    """The picture as the text of an SVG file."""
    with matplotlib.rc_context(STYLE):
        return svg_text(figure(), TITLE)


def figure() -> Figure:
    """The picture as a figure; the caller sets STYLE around it."""
    made = Figure(figsize=(WIDTH / 72, HEIGHT / 72), dpi=72)
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    _job(axes)
    _rows(axes)
    _queries(axes)
    _index(axes)
    _answers(axes)
    return made


def _job(axes: Axes) -> None:
    """The frame around what the job does."""
    frame = FancyBboxPatch((158, 16), 458, 372, boxstyle="round,pad=0,rounding_size=10")
    frame.set(facecolor="#f4f3ee", edgecolor=AXIS, linewidth=1.2, linestyle=(0, (4, 4)))
    axes.add_patch(frame)
    axes.text(387, 32, "one Spark job, for a million queries", ha="center", size=11, color=SOFT)


def _rows(axes: Axes) -> None:
    axes.text(20, 366, "rows stream in", weight="bold", color=ROW, size=12)
    for k, (name, value) in enumerate(ROWS):
        _box(axes, 20, 318 - 38 * k, 116, 28, ROW)
        axes.text(30, 328 - 38 * k, name, size=9)
        axes.text(126, 328 - 38 * k, value, size=9, ha="right")
    _box(axes, 176, 242, 86, 104, ROW)
    axes.text(219, 294, "row\nsegments", ha="center", va="center", linespacing=1.5, size=10.5)
    _arrow(axes, (140, 294), (172, 294), ROW)
    _arrow(axes, (266, 294), (286, 294), ROW)


def _queries(axes: Axes) -> None:
    axes.text(760, 366, "queries stand", weight="bold", color=QUERY, size=12, ha="right")
    for k, text in enumerate(QUERIES):
        _box(axes, 638, 318 - 38 * k, 122, 28, QUERY)
        axes.text(699, 328 - 38 * k, text, ha="center", size=9)
    _box(axes, 512, 242, 86, 104, QUERY)
    axes.text(555, 294, "query\nsegments", ha="center", va="center", linespacing=1.5, size=10.5)
    _arrow(axes, (634, 294), (602, 294), QUERY)
    _arrow(axes, (508, 294), (488, 294), QUERY)


def _index(axes: Axes) -> None:
    """A plane of boxes, each a query, and a row that falls into some of them."""
    axes.text(387, 366, "an index over the queries", weight="bold", ha="center", size=12)
    _box(axes, 290, 200, 194, 156, AXIS)
    for k, (left, bottom, width, height) in enumerate(BOXES):
        is_hit = k < 2
        axes.add_patch(
            Rectangle(
                (left, bottom),
                width,
                height,
                facecolor=(QUERY, 0.14) if is_hit else "none",
                edgecolor=QUERY if is_hit else AXIS,
                linewidth=1.8 if is_hit else 1.0,
            )
        )
    axes.add_patch(Circle(POINT, 5, facecolor=ROW, edgecolor=PAGE))
    axes.text(387, 182, "a row finds the queries that it affects, and no others", ha="center", color=SOFT, size=9.5)


def _answers(axes: Axes) -> None:
    _arrow(axes, (387, 168), (387, 128), MATCH)
    _box(axes, 290, 68, 194, 56, MATCH)
    axes.text(387, 103, "matches are kept", ha="center", weight="bold", color=MATCH, size=12)
    axes.text(387, 82, "row id by query id, exactly once", ha="center", size=9.5)
    _arrow(axes, (488, 96), (632, 96), MATCH)
    _box(axes, 636, 68, 128, 56, MATCH)
    axes.text(700, 103, "clients fetch", ha="center", weight="bold", color=MATCH, size=12)
    axes.text(700, 82, "any answer, any time", ha="center", size=9.5)
    for k, line in enumerate(("Both are data:", "a row looks", "for queries,", "a new query", "looks at old rows.")):
        axes.text(20, 132 - 18 * k, line, size=10.5)


def _box(axes: Axes, left: float, bottom: float, width: float, height: float, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=6",
            facecolor=PALE[colour],
            edgecolor=colour,
            linewidth=1.2,
        )
    )


def _arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    axes.add_patch(
        FancyArrowPatch(
            begin, end, arrowstyle="-|>", mutation_scale=13, color=colour, linewidth=1.8, shrinkA=0, shrinkB=0
        )
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"written to {PICTURE}")
