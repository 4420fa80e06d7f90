"""An exhibit: one measured figure or table of a paper, done again with our own structures, and its claim checked.

A module below `benchmarks/exhibits/` holds `EXHIBITS: dict[str, Callable[[Size], Exhibit]]`, from the exhibit's id to
the function that generates the workload, runs every strategy that the figure compares, and returns the numbers. That
is all it takes to be found (`registry.py`), plotted (`plot.py`), put on the page (`page.py`) and run in the tests.

    def run(size: Size) -> Exhibit:
        n_values = by_size(size, smoke=(10, 100), quick=(100, 1_000, 10_000), full=(100, 1_000, 10_000, 100_000))
        …
        return Exhibit(
            name="ssi-7a", title="…", section="SSI 5.1, Fig. 7(a)", claim="…", size=size,
            x_label="queries", x=n_values, series={"ssi": rates, …}, unit="events/s", log_x=True, log_y=True,
            checks=(slope_within("vanilla falls linearly", n_values, rates, -1.0, 0.25), …),
            notes=("what is measured, what is left out",),
        )

    EXHIBITS = {"ssi-7a": run}

The verdict is never written by hand: it is "holds" if every check does, else "differs: " with what each failed check
saw and, where profiling found one, the reason. A check states its tolerance and why it is that wide in `what`. Absolute
times mean little across machines, so checks are about ratios, slopes and crossings, and `table` holds such numbers
for the page; where it is empty the page shows the series themselves.

Sizes: smoke under 2 s (the tests: the figures mean nothing, only the form is right), quick under 20 s on two cores
(what the page shows), full the paper's own.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

Size = Literal["smoke", "quick", "full"]
SIZES: tuple[Size, ...] = ("smoke", "quick", "full")
Number = float | None  # None: not measured there, or undefined; the line has a gap
Run = Callable[[Size], "Exhibit"]
T = TypeVar("T")

DIGITS = 4  # significant digits that are kept of a measured number


class Check(NamedTuple):
    """One statement of the claim, and whether the numbers bear it out."""

    what: str  # the statement with its tolerance: "ssi keeps 80 % of its rate from 100 to 100,000 queries"
    holds: bool
    seen: str  # the figure that decided: "kept 43 %"
    reason: str = ""  # why it differs, as profiling found it; shown only if it does


@dataclass(frozen=True)
class Exhibit:
    """One figure: its numbers, what was claimed of them and what they say."""

    name: str  # id, as in "ssi-7a"; also the name of its files
    title: str
    section: str  # paper and place: "SSI 5.1, Fig. 7(a)"
    claim: str  # the paper's claim in our words
    size: Size
    x_label: str
    x: Sequence[float] | Sequence[str]  # numbers give lines, names give groups of bars
    series: Mapping[str, Sequence[Number]]  # by name, one value for each x
    unit: str  # of the values: "events/s"
    checks: Sequence[Check]
    log_x: bool = False
    log_y: bool = False
    intervals: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)  # low and high of each value
    table: Mapping[str, Sequence[Number]] = field(default_factory=dict)  # machine-independent numbers for each x
    notes: Sequence[str] = ()
    seconds: float = 0.0  # filled in by `run.py`

    def __post_init__(self) -> None:
        assert self.size in SIZES, self.size
        assert self.checks, f"{self.name}: a claim without a check is no claim"
        for values in (*self.series.values(), *self.intervals.values(), *self.table.values()):
            assert len(values) == len(self.x), f"{self.name}: {len(values)} values for {len(self.x)} places of x"

    @property
    def verdict(self) -> str:
        """`holds`, or `differs: ` and what was seen, with the reason."""
        failed = [c for c in self.checks if not c.holds]
        if not failed:
            return "holds"
        return "differs: " + "; ".join(f"{c.what}: {c.seen}" + (f" ({c.reason})" if c.reason else "") for c in failed)

    def to_json(self) -> str:
        """The numbers, to four digits; short lists stay on one line."""
        made = {key: _plain(value) for key, value in asdict(self).items()}
        made["checks"] = [dict(zip(Check._fields, _plain(check), strict=True)) for check in self.checks]
        made["verdict"] = self.verdict
        lines = [f"  {json.dumps(key)}: {_dumped(value)}" for key, value in made.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Exhibit:
        """What `to_json` wrote; the verdict follows from the checks again."""
        made = json.loads(text)
        del made["verdict"]
        made["checks"] = tuple(Check(**check) for check in made["checks"])
        return cls(**made)


def by_size(size: Size, *, smoke: T, quick: T, full: T) -> T:
    """The value for one size."""
    return {"smoke": smoke, "quick": quick, "full": full}[size]


def slope(x: Sequence[float], y: Sequence[Number]) -> float:
    """Least-squares slope of log y over log x: −1 is falling linearly, 0 is flat; places without a value are out."""
    known = [(a, b) for a, b in zip(x, y, strict=True) if b is not None and a > 0 and b > 0]
    assert len(known) >= 2, "a slope needs two points"
    logs = np.log(np.asarray(known, dtype=np.float64))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def slope_within(
    what: str, x: Sequence[float], y: Sequence[Number], expected: float, tolerance: float, reason: str = ""
) -> Check:
    """Check that y goes with x to the power `expected`, within a tolerance of the exponent."""
    found = slope(x, y)
    stated = f"{what} (exponent {expected:g} ± {tolerance:g})"
    return Check(stated, abs(found - expected) <= tolerance, f"exponent {found:.2f}", reason)


def at_least(what: str, value: float, least: float, reason: str = "") -> Check:
    """Check that a ratio is at least `least`."""
    return Check(f"{what} (at least {least:g})", value >= least, f"{value:.3g}", reason)


def at_most(what: str, value: float, most: float, reason: str = "") -> Check:
    """Check that a ratio is at most `most`."""
    return Check(f"{what} (at most {most:g})", value <= most, f"{value:.3g}", reason)


def spread(values: Sequence[Number]) -> float:
    """Greatest over least: 1 is perfectly flat."""
    known = [v for v in values if v is not None]
    return max(known) / min(known)


def crossing(x: Sequence[float], first: Sequence[Number], second: Sequence[Number]) -> float | None:
    """Where `first` falls below `second`, between two x on straight lines in log-log; None if it never does."""
    known = [(a, p, q) for a, p, q in zip(x, first, second, strict=True) if p is not None and q is not None]
    for (a, p, q), (a_next, p_next, q_next) in itertools.pairwise(known):
        if p >= q and p_next < q_next:
            above, below = math.log(p / q), math.log(q_next / p_next)
            return float(a * (a_next / a) ** (above / (above + below)))
    return None


def relative(series: Mapping[str, Sequence[Number]], base: str) -> dict[str, list[Number]]:
    """Every other series over the series `base`, place by place."""
    return {
        f"{name} / {base}": [None if v is None or not b else v / b for v, b in zip(values, series[base], strict=True)]
        for name, values in series.items()
        if name != base
    }


def rounded(value: float) -> float:
    """`value` to DIGITS significant digits, integers as they are."""
    if isinstance(value, int) or value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.{DIGITS}g}")


def _plain(value: Any) -> Any:
    """`value` of NumPy or Python as JSON has it; what is no number (infinite, NaN) is null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return rounded(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _dumped(value: Any) -> str:
    """JSON with one entry of an object, or one object of a list, a line."""
    if isinstance(value, dict) and value:
        inner = [
            f"    {json.dumps(k, ensure_ascii=False)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()
        ]
        return "{\n" + ",\n".join(inner) + "\n  }"
    if isinstance(value, list) and any(isinstance(each, (dict, str)) for each in value):
        return "[\n" + ",\n".join("    " + json.dumps(each, ensure_ascii=False) for each in value) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)
