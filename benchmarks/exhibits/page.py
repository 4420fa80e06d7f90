"""The page of all exhibits: title, claim, plot, verdict and machine-independent numbers of each; and its files.

A folder of results holds `<name>.json` and `<name>.svg` for each exhibit and one `README.md`, made again from all JSON
files that are there, so that running one exhibit leaves the others on the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from benchmarks.exhibits.exhibit import Exhibit, Number
from benchmarks.exhibits.plot import draw, label
from benchmarks.exhibits.registry import place

_HEAD = """# Exhibits

Measured figures and tables of the papers that Weir builds on, done again with our own structures. Each compares
strategies that share one data layout and one kernel style, on the paper's workload; the claim is checked by the run
itself. `holds` means every check did; `differs` says which did not, what was seen instead, and the reason where
profiling found one. Absolute rates belong to the machine of the run; the tables hold ratios and counts. What is shown
is one run on a machine that did other work too: a check whose figure is near its bound may come out otherwise another
time.

    python -m benchmarks.exhibits.run [NAME …] [--full] [--smoke] [--out DIR]

"""


def write(exhibit: Exhibit, folder: Path) -> None:
    """The numbers and the plot of one exhibit."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = exhibit.to_json()
    (folder / f"{exhibit.name}.json").write_text(numbers, encoding="utf-8")
    # Drawn from what was written, so that the plot can be made again from the numbers.
    (folder / f"{exhibit.name}.svg").write_text(draw(Exhibit.from_json(numbers)), encoding="utf-8")


def write_page(folder: Path) -> None:
    """`README.md` from all results in the folder."""
    found = [Exhibit.from_json(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    found.sort(key=lambda exhibit: place(exhibit.name))
    rows = [f"| [{e.name}](#{e.name}) | {_cell(e.title)} | {_short(e.verdict)} | {e.size} |" for e in found]
    overview = ["| exhibit | title | verdict | size |", "|---|---|---|---|", *rows]
    full = (
        "Some were run at the papers' own sizes, too: [full/](full/README.md).\n\n"
        if (folder / "full").is_dir()
        else ""
    )
    text = _HEAD + full + "\n".join(overview) + "\n\n" + "\n".join(section(e) for e in found)
    (folder / "README.md").write_text(text, encoding="utf-8")


def section(exhibit: Exhibit) -> str:
    """One exhibit on the page."""
    lines = [
        f"## {exhibit.name}",
        "",
        f"**{exhibit.title}** ({exhibit.section})",
        "",
        f"Claim: {exhibit.claim}",
        "",
        f"![{exhibit.title}]({exhibit.name}.svg)",
        "",
        f"Verdict: **{exhibit.verdict.partition(':')[0]}**",
        "",
    ]
    for check in exhibit.checks:
        mark = "✓" if check.holds else "✗"
        why = f". {check.reason[0].upper()}{check.reason[1:]}" if check.reason and not check.holds else ""
        lines.append(f"- {mark} {check.what}: {check.seen}{why}")
    lines += ["", *_table(exhibit), ""]
    for note in exhibit.notes:
        lines += [note, ""]
    lines += [f"Size {exhibit.size}, {exhibit.seconds:.1f} s.", ""]
    return "\n".join(lines)


def _table(exhibit: Exhibit) -> list[str]:
    columns = dict(exhibit.table) or {f"{name}, {exhibit.unit}": values for name, values in exhibit.series.items()}
    lines = [
        "| " + " | ".join(_cell(head) for head in (exhibit.x_label, *columns)) + " |",
        "|" + "---|" * (1 + len(columns)),
    ]
    for k, x in enumerate(exhibit.x):
        first = x if isinstance(x, str) else _shown(cast(float, x))
        lines.append("| " + " | ".join((first, *(_shown(values[k]) for values in columns.values()))) + " |")
    return lines


def _shown(value: Number) -> str:
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e7 else label(value)
    return f"{value:.3g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _short(verdict: str) -> str:
    return verdict.partition(":")[0]
