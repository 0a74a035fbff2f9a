"""Draw the chart of the README from the figures of ``bench_load.py``.

usage: python benchmarks/readme_chart.py LOAD.json CHART.svg

Each panel has a bar for each library that does the work, as long as the median of its rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from load_rows import LIBRARIES, OURS

WIDTH, LABEL, BAR = 860, 170, 440  # pixels: of the chart, of the names, and of the longest bar
LINE, TITLE = 22, 34
FONT = "font-family='system-ui, sans-serif'"


class Panel(NamedTuple):
    """Some work, and where its figures are."""

    title: str
    job: str  # without the library
    figure: str
    scale: float  # from the unit of the figure to the unit of the title


CAPTIONS, JSON = "throughput captions --samples 1920 --workers", "throughput json --samples 48000 --workers"
PANELS = (
    Panel("JPEG to float tensors, 2 workers: ms a sample", f"{CAPTIONS} 2", "microseconds", 1e-3),
    Panel("JPEG to float tensors, 1 process: ms a sample", f"{CAPTIONS} 0", "microseconds", 1e-3),
    Panel("small JSON, 1 process: µs a sample", f"{JSON} 0", "microseconds", 1),
    Panel("from the start to the first batch, 2 workers: ms", "first captions --workers 2", "seconds", 1e3),
)


def main(figures: Path, target: Path) -> None:
    document = json.loads(figures.read_text())
    machine = document["machine"]
    y, lines = 4, list[str]()
    for panel in PANELS:
        lines += drawn(panel, document["figures"], y)
        y += TITLE + LINE * len(times_of(panel, document["figures"])) + 12
    note = f"{machine['date']}, {machine['cores']} cores, {machine['processor']}, medians; shorter is better"
    lines.append(f"<text x='0' y='{y + 12}' font-size='12' fill='#777' {FONT}>{escape(note)}</text>")
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{y + 20}' viewBox='0 0 {WIDTH} {y + 20}'>"
    target.write_text("\n".join([head, *lines, "</svg>\n"]), encoding="utf-8")


def times_of(panel: Panel, figures: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Return the time of each library that has figures, in the unit of the title."""
    return {
        library: panel.scale * statistics.median(run[panel.figure] for run in runs)
        for library in LIBRARIES
        if (runs := figures.get(f"{library} {panel.job}"))
    }


def drawn(panel: Panel, figures: dict[str, list[dict[str, float]]], y: int) -> Iterator[str]:
    times = times_of(panel, figures)
    longest = max(times.values())
    yield f"<text x='0' y='{y + 18}' font-size='15' font-weight='600' fill='#777' {FONT}>{escape(panel.title)}</text>"
    for line, (library, time) in enumerate(times.items()):
        shown = f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
        top, length = y + TITLE + LINE * line, max(2.0, BAR * time / longest)
        colour, weight = ("#1f77d0", 600) if library == OURS else ("#9aa5b1", 400)
        style = f"font-size='13' font-weight='{weight}' fill='#777' {FONT}"
        yield f"<text x='{LABEL - 8}' y='{top + 13}' text-anchor='end' {style}>{escape(library)}</text>"
        yield f"<rect x='{LABEL}' y='{top}' width='{length:.1f}' height='{LINE - 6}' rx='2' fill='{colour}'/>"
        yield f"<text x='{LABEL + length + 8:.1f}' y='{top + 13}' {style}>{shown}</text>"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
