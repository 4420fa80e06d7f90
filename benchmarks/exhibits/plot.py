"""Plots of exhibits as SVG text: lines over numbers, points or bars over names; readable on light and on dark pages.

A plot needs nothing but the standard library: axes with round ticks (linear or logarithmic), a grid that stays behind
the data, a colour *and* a marker for each series, so that nobody has to tell lines apart by colour alone, and names of
series written beside the plot in the order of the lines' ends. A strategy has the same colour and marker in every
exhibit. Colours live in a style sheet inside the file, with a second set that a dark page selects by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple, cast

from benchmarks.exhibits.exhibit import Exhibit, Number

WIDTH, HEIGHT = 720, 396
LEFT, RIGHT, TOP, BOTTOM = 74, 130, 62, 52  # margins of the plot area, at least
LETTER = 6.6  # about the width of a letter
KNOWN = ("ssi", "hotspot", "select-first", "join-first", "vanilla", "sweep", "dynamic", "optimum")  # fixed colours
SLOTS = 10  # colours, each with its marker

_STYLE = """
svg{--page:#fcfcfb;--ink:#1f1f1d;--soft:#63625d;--grid:#e6e5df;--axis:#a9a8a1;
--c0:#2a78d6;--c1:#158a5e;--c2:#b07400;--c3:#4a3aa7;--c4:#d83f3e;--c5:#c2508a;--c6:#d4571f;--c7:#5d6b78;
--c8:#0f8a94;--c9:#8a6d3b}
@media(prefers-color-scheme:dark){svg{--page:#1a1a19;--ink:#f0efe9;--soft:#b4b2a8;--grid:#33322f;--axis:#6b6a64;
--c0:#5a9df0;--c1:#2fb583;--c2:#d79a1c;--c3:#a297f0;--c4:#ee7473;--c5:#e081b0;--c6:#ee8450;--c7:#a3b1be;
--c8:#3fb8c2;--c9:#c2a36b}}
text{font:12px system-ui,sans-serif;fill:var(--soft)}.t{font-size:14px;font-weight:600;fill:var(--ink)}
.n{fill:var(--ink)}.m{text-anchor:middle}.e{text-anchor:end}.g{stroke:var(--grid)}.a{stroke:var(--axis)}
.l{fill:none;stroke-width:2;stroke-linejoin:round}.o{stroke:var(--page);stroke-width:1}.k{fill:none;stroke-width:1.5}
"""


class Axis(NamedTuple):
    """One axis: where a value lies between 0 and 1, and its ticks."""

    at: Callable[[float], float]
    ticks: list[float]
    labels: list[str]


def draw(exhibit: Exhibit) -> str:
    """The plot as the text of an SVG file."""
    names = list(exhibit.series)
    slots = _slots(names)
    named = bool(exhibit.x) and isinstance(exhibit.x[0], str)
    width = WIDTH - LEFT - max(RIGHT, 40 + LETTER * max(len(name) for name in names))
    crowded = named and LETTER * max(len(str(v)) for v in exhibit.x) > width / len(exhibit.x)
    height = HEIGHT - TOP - BOTTOM - (16 if crowded else 0)
    values = [v for s in exhibit.series.values() for v in s if _drawn(v, exhibit.log_y)]
    values += [v for s in exhibit.intervals.values() for pair in s for v in pair if _drawn(v, exhibit.log_y)]
    y = axis(cast(list[float], values), log=exhibit.log_y, zero=not exhibit.log_y)
    if named:
        n = len(exhibit.x)
        x = Axis(lambda v: (v + 0.5) / n, [float(i) for i in range(n)], [str(v) for v in exhibit.x])
        places = [float(i) for i in range(n)]
    else:
        places = [float(v) for v in exhibit.x]
        x = axis(places, log=exhibit.log_x, zero=False, tight=True)

    def at_x(v: float) -> float:
        return LEFT + x.at(v) * width

    def at_y(v: float) -> float:
        return TOP + (1 - y.at(v)) * height

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(exhibit.title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="var(--page)"/>',
        f'<text class="t" x="14" y="24">{escape(exhibit.title)}</text>',
        f'<text x="14" y="{TOP - 16}">{escape(exhibit.unit)}</text>',
    ]
    for tick, label in zip(y.ticks, y.labels, strict=True):
        h = at_y(tick)
        out.append(f'<path class="g" d="M{LEFT} {h:.1f}H{LEFT + width:.1f}"/>')
        out.append(f'<text class="e" x="{LEFT - 7}" y="{h + 4:.1f}">{label}</text>')
    for k, (tick, label) in enumerate(zip(x.ticks, x.labels, strict=True)):
        w, row = at_x(tick), 16 if crowded and k % 2 else 0
        if not named:
            out.append(f'<path class="a" d="M{w:.1f} {TOP + height}v5"/>')
        out.append(f'<text class="m" x="{w:.1f}" y="{TOP + height + 19 + row}">{escape(label)}</text>')
    out.append(f'<path class="a" d="M{LEFT} {TOP + height}H{LEFT + width:.1f}"/>')
    out.append(f'<text class="m" x="{LEFT + width / 2:.0f}" y="{HEIGHT - 12}">{escape(exhibit.x_label)}</text>')

    ends: list[tuple[float, str]] = []
    for k, name in enumerate(names):
        points = [
            (at_x(p), at_y(v)) if _drawn(v, exhibit.log_y) and v is not None else None
            for p, v in zip(places, exhibit.series[name], strict=True)
        ]
        colour = f"var(--c{slots[name]})"
        if named:
            step = width / len(places) * 0.8 / len(names)
            shift = (k - (len(names) - 1) / 2) * step
            points = [None if p is None else (p[0] + shift, p[1]) for p in points]
        if named and name not in exhibit.intervals:
            base = at_y(0.0) if not exhibit.log_y and y.at(0.0) >= 0 else TOP + height
            out += [_bar(p, base, step, colour) for p in points if p is not None]
        else:
            if not named:
                out += [f'<path class="l" stroke="{colour}" d="{d}"/>' for d in _lines(points)]
            for p, interval in zip(points, exhibit.intervals.get(name, [None] * len(points)), strict=True):
                if p is not None and interval is not None and all(_drawn(v, exhibit.log_y) for v in interval):
                    low, high = at_y(interval[0]), at_y(interval[1])
                    out.append(
                        f'<path class="k" stroke="{colour}" d="M{p[0]:.1f} {low:.1f}V{high:.1f}'
                        f'M{p[0] - 4:.1f} {low:.1f}h8M{p[0] - 4:.1f} {high:.1f}h8"/>'
                    )
            marks = "".join(_marker(slots[name], *p) for p in points if p is not None)
            out.append(f'<path class="o" fill="{colour}" d="{marks}"/>')
        last = [p for p in points if p is not None]
        ends.append((last[-1][1] if last and not named else k, name))

    legend_x = LEFT + width + 18
    for (_, name), h in zip(sorted(ends), _apart([e for e, _ in sorted(ends)], named, height), strict=True):
        colour = f"var(--c{slots[name]})"
        out.append(f'<path class="o" fill="{colour}" d="{_marker(slots[name], legend_x, h)}"/>')
        out.append(f'<text class="n" x="{legend_x + 10}" y="{h + 4:.1f}">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def axis(values: Sequence[float], *, log: bool, zero: bool, tight: bool = False) -> Axis:
    """An axis around `values`; `zero` keeps 0 on a linear one, `tight` lets it end at the last value."""
    values = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or ([1.0] if log else [0.0])
    low, high = min(values), max(values)
    if log:
        return _log_axis(low, high, tight)
    low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = _round_step((high - low) / 5)
    if not tight:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    ticks = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    pad = 0.03 if tight else 0.0
    return Axis(lambda v: pad + (1 - 2 * pad) * (v - low) / (high - low), ticks, [label(t) for t in ticks])


def label(value: float) -> str:
    """A number on an axis: 0.01, 25, 10k, 2M."""
    if value == 0:
        return "0"
    size = abs(value)
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit * (1 - 1e-9):
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}" if size >= 1e-4 else f"{value:.0e}"


def _log_axis(low: float, high: float, tight: bool) -> Axis:
    first, last = math.log10(low), math.log10(high)
    if not tight or first == last:
        first, last = _round_log(first + 1e-9, up=False), _round_log(last - 1e-9, up=True)
    if last - first < 0.5:
        first, last = math.floor(first + 1e-9), math.ceil(last - 1e-9)
        last = max(last, first + 1)
    decades = last - first
    every = max(1, round(decades / 7))
    factors = (1.0,) if decades > 2 else (1.0, 2.0, 5.0)
    candidates = [f * 10.0**k for k in range(math.floor(first), math.ceil(last) + 1, every) for f in factors]
    ticks = [t for t in candidates if first - 1e-9 <= math.log10(t) <= last + 1e-9]
    pad = 0.03 if tight else 0.0
    return Axis(
        lambda v: pad + (1 - 2 * pad) * (math.log10(v) - first) / (last - first), ticks, [label(t) for t in ticks]
    )


def _round_log(power: float, *, up: bool) -> float:
    """The logarithm of the next of 1, 2 or 5 times a power of ten, from `power` upwards or downwards."""
    candidates = [math.floor(power) + math.log10(f) for f in (1, 2, 5, 10)]
    return next(c for c in candidates if c >= power) if up else next(c for c in candidates[::-1] if c <= power)


def _round_step(about: float) -> float:
    """The least of 1, 2, 2.5, 5 times a power of ten that is not below `about`."""
    unit = 10.0 ** math.floor(math.log10(about))
    return next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= about * (1 - 1e-9))


def _drawn(value: Number, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _slots(names: Sequence[str]) -> dict[str, int]:
    """A colour and marker for each series: the known ones their own, others the first that are free."""
    made = {name: KNOWN.index(name) for name in names if name in KNOWN}
    free = [k for k in range(SLOTS) if k not in made.values()]
    others = [name for name in names if name not in made]
    return made | {name: free[k % len(free)] for k, name in enumerate(others)}


def _lines(points: Sequence[tuple[float, float] | None]) -> list[str]:
    """Paths through neighbouring points; a gap begins a new one."""
    paths: list[str] = []
    open_path: list[str] = []
    for p in [*points, None]:
        if p is not None:
            open_path.append(f"{p[0]:.1f} {p[1]:.1f}")
        else:
            if len(open_path) > 1:
                paths.append("M" + "L".join(open_path))
            open_path = []
    return paths


def _bar(point: tuple[float, float], base: float, step: float, colour: str) -> str:
    top, tall = min(point[1], base), abs(base - point[1])
    return (
        f'<rect x="{point[0] - step / 2 + 1:.1f}" y="{top:.1f}" width="{max(step - 2, 1):.1f}" '
        f'height="{max(tall, 0.5):.1f}" fill="{colour}"/>'
    )


def _marker(slot: int, x: float, y: float) -> str:
    """Path of a marker of about 8 pixels; one shape a slot."""
    r = 4.2
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - 3.8:.1f} {y - 3.8:.1f}h7.6v7.6h-7.6z",
        f"M{x:.1f} {y - 5:.1f}l5 8.6h-10z",
        f"M{x:.1f} {y - 5.4:.1f}l5.4 5.4l-5.4 5.4l-5.4 -5.4z",
        f"M{x:.1f} {y + 5:.1f}l5 -8.6h-10z",
        f"M{x - 1.8:.1f} {y - 5:.1f}h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
        f"M{x - 5.2:.1f} {y - 2:.1f}h10.4v4h-10.4z",
        f"M{x - 2:.1f} {y - 5.2:.1f}h4v10.4h-4z",
        f"M{x - 4.4:.1f} {y + 3.8:.1f}v-7.6l8.8 7.6v-7.6z",
        f"M{x:.1f} {y - 4.8:.1f}l4.6 3.3l-1.8 5.4h-5.6l-1.8 -5.4z",
    )
    return shapes[slot]


def _apart(wanted: Sequence[float], listed: bool, height: float) -> list[float]:
    """Heights of the names beside the plot: near the ends of their lines, 18 pixels apart; or a list from the top."""
    if listed:
        return [TOP + 10 + 20.0 * k for k in range(len(wanted))]
    placed: list[float] = []
    for h in wanted:
        placed.append(max(h, placed[-1] + 18) if placed else max(h, TOP))
    bottom = TOP + height
    for k in range(len(placed) - 1, -1, -1):
        placed[k] = min(placed[k], bottom - 18 * (len(placed) - 1 - k))
    return placed
