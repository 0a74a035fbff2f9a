"""Print statistics as tables with small histograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from loader.errors import escape_controls
from loader.inspect import print_part_sets, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from loader.inspect.stats import Distribution, StatsReport

_BARS = " ▁▂▃▄▅▆▇█"
_ASCII_BARS = " .:-=+*#@"
_WIDTH = 16
_BARS_COLUMNS = 80  # of a terminal with room for names and histograms
_MAX_TEXTS = 3
_MAX_SHOWN = 10
_MAX_VALUES = 100


def show_stats(console: Console, report: StatsReport) -> None:
    """Print the statistics of a dataset, at most 80 columns wide."""
    drawn = f" of {report.population:,}, drawn at random" if report.is_sampled else ""
    console.print(Text(escape_controls(report.path), style="bold"), Text(f"{report.samples:,} samples{drawn}"))
    print_part_sets(console, report.part_sets.to_document(), is_complete=not report.part_sets.others)
    if report.numbers:
        bars = _BARS if console.encoding.lower().startswith("utf") else _ASCII_BARS
        mean = ">mean ± 95 %" if report.is_sampled else ">mean"
        headings = ("value", ">count", ">min", ">median", ">max", mean, "histogram")
        shown = len(headings) if console.width >= _BARS_COLUMNS else len(headings) - 1
        rows = (
            (
                name,
                f"{found.count:,}",
                *map(_number, (found.minimum, found.quantile(0.5), found.maximum)),
                _mean(found, report),
                Text(_histogram(found, bars), no_wrap=True),
            )
            for name, found in sorted(report.numbers.items())[:_MAX_VALUES]
        )
        print_table(console, headings[:shown], [row[:shown] for row in rows])
    if report.texts:
        counts = []
        for name, texts in sorted(report.texts.items())[:_MAX_VALUES]:
            top = ", ".join(f"{text[:24]} ({count:,})" for text, count in texts.most_common(_MAX_TEXTS))
            different = f"{texts.distinct:,}" + ("+" if texts.others else "")
            counts.append((name, f"{texts.count:,}", different, top))
        print_table(console, ("value", "count", "different", "most frequent"), counts)
    if (more := max(len(report.numbers), len(report.texts)) - _MAX_VALUES) > 0:
        console.print(f"… and {more:,}{' or more' if report.is_cut else ''} values, of which --json prints 1,000")
    _show_broken(console, report)
    _show_duplicates(console, report)


def _number(value: float) -> str:
    if not math.isfinite(value):  # the sum of numbers near the largest one
        return str(value)
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1e7 else f"{value:.3g}"


def _mean(found: Distribution, report: StatsReport) -> str:
    if not report.is_sampled:
        return f"{found.mean:,.4g}"
    low, high = found.mean_interval(report.population)
    return f"{found.mean:,.4g} ± {(high - low) / 2:,.2g}"


def _histogram(found: Distribution, bars: str) -> str:
    counts = [count for _, _, count in found.histogram(_WIDTH)]
    most = max(counts, default=1)
    return "".join(bars[-(-count * (len(bars) - 1) // most)] for count in counts)


def _show_broken(console: Console, report: StatsReport) -> None:
    for count, what, style, parts in (
        (report.broken_count, "broken parts", "red", report.broken),
        (report.large_count, "parts not parsed", "yellow", report.large),
    ):
        if count:
            console.print(Text(f"{count:,} {what}:", style=style))
        for one in parts[:_MAX_SHOWN]:
            console.print(Text(f"  {escape_controls(f'{one.sample} {one.part}')}: {escape_controls(one.reason)}"))


def _show_duplicates(console: Console, report: StatsReport) -> None:
    if report.duplicates is None:
        return
    names = escape_controls(", ".join(report.hashed_parts))
    what = f"part{'s' if len(report.hashed_parts) > 1 else ''} {names}" if names else "parts"
    if not report.duplicates:
        console.print(Text(f"no two samples have the same {what}"))
        return
    samples = sum(map(len, report.duplicates))
    console.print(Text(f"{samples:,} samples in {len(report.duplicates):,} groups have the same {what}:", style="red"))
    for group in report.duplicates[:_MAX_SHOWN]:
        more = f" … {len(group):,} in all" if len(group) > 3 else ""
        console.print(Text(f"  {escape_controls(', '.join(group[:3]))}{more}"))
    if len(report.duplicates) > _MAX_SHOWN:
        console.print(f"  … and {len(report.duplicates) - _MAX_SHOWN:,} groups; --json lists all")
