"""Output of ``energon prepare``: the folder found, the planned files and the final report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loader.errors import escape_controls, plural
from loader.inspect import asked_shares, format_bytes, format_percent, print_part_sets, print_table

from ....console import show_note, show_warning
from ....settings import output_settings

if TYPE_CHECKING:
    from rich.console import Console

    from loader.format.media import MediaReport
    from loader.inspect import SampledContents, SampleView
    from loader.prepare import PlannedSplit, PrepareReport, SplitRequest


def show_part_sets(console: Console, table: Sequence[Mapping[str, Any]], sampled: SampledContents) -> None:
    """Print the table of part sets, and how many samples were inspected for it."""
    inspected = sampled.contents
    if not output_settings().quiet:
        print_part_sets(console, table)
    if inspected.samples and not output_settings().quiet:
        where = plural(inspected.shards, "shard")
        console.print(f"contents inspected: {plural(inspected.samples, 'sample')} of {where}")
    show_warning(*sampled.warnings)
    show_note(*sampled.conflicts)


def show_first_sample(console: Console, sampled: SampledContents) -> None:
    """Print the parts of a sample."""
    from loader.inspect import SampleView, describe_parts

    if sampled.parts:
        title = f"{'first ' if sampled.is_first else ''}sample: {sampled.key}"
        show_sample(console, SampleView(title=title, fields=describe_parts(sampled.parts)))


def show_sample(console: Console, view: SampleView) -> None:
    """Print a sample on half of the terminal."""
    from ....terminal.render import render_sample, terminal_space

    for line in render_sample(view, terminal_space(console, share=0.5)):
        console.print(line)


def show_split(
    console: Console, split: PlannedSplit, sizes: Mapping[str, int], request: SplitRequest | None = None
) -> None:
    """Print a table of the shards, bytes and share of each split part, and the share that a ratio asks for."""
    asked = {} if request is None else asked_shares(request)
    total, rows = sum(sizes.values()) or 1, []
    for name, shards in split.parts.items():
        size = round(sum(sizes.get(shard, 0) for shard in shards) * split.share_of(name))
        span = "" if not shards else shards[0] if len(shards) == 1 else f"{shards[0]} … {shards[-1]}"
        counts = [f"{len(shards):,}", format_bytes(size), *([f"{asked.get(name, 0):.1f} %"] if asked else [])]
        share = format_percent(size / total)
        rows.append((name, *counts, share, str(split.ranges.get(name, "")) if split.ranges else span))
    numbers = (">shards", ">bytes", *([">asked"] if asked else []), ">share")
    print_table(console, ("split part", *numbers, "of each shard" if split.ranges else "from … to"), rows)


def show_split_line(console: Console, samples: Mapping[str, int], request: SplitRequest | None) -> None:
    """Print the samples of each split part in one line, with their exact shares and the requested ones."""
    asked, total = asked_shares(request) if request is not None else {}, sum(samples.values()) or 1

    def part(name: str, count: int) -> str:
        of = f", {asked[name]:.1f} % asked" if name in asked else ""
        return f"{escape_controls(name)} {plural(count, 'sample')} ({100 * count / total:.1f} %{of})"

    parts = ", ".join(part(name, count) for name, count in samples.items())
    console.print(f"split: {parts}")


def show_files(console: Console, files: Mapping[str, str], *, folder: str) -> None:
    """Print the text of the files to write."""
    for name, text in files.items():
        console.print(f"{escape_controls(folder)}/{name}:", style="bold")
        for line in text.rstrip("\n").split("\n"):
            console.print(f"  {escape_controls(line)}")


def show_dataset(console: Console, done: str, report: PrepareReport, *, seconds: float, kept: str = "") -> None:
    """Print what was done to a dataset, its size and its split."""
    size = f"{plural(report.samples, 'sample')} in {plural(report.shards, 'shard')} ({format_bytes(report.size_bytes)})"
    console.print(f"{done}: {size} in {seconds:.1f} s{kept}", style="green")
    if report.split:
        split = ", ".join(f"{escape_controls(name)} {samples:,}" for name, (_, samples) in report.split.items())
        console.print(f"split: {split} {'sample' if report.samples == 1 else 'samples'}")


def show_done(console: Console, path: str, report: PrepareReport, files: Mapping[str, str], *, folder: str) -> None:
    """Print the report of a run."""
    verb = "prepared" if report.changed else "up to date:"
    reused = f", {plural(report.reused, 'shard')} unchanged" if report.reused else ""
    show_dataset(console, f"{verb} {escape_controls(path)}", report, seconds=report.seconds, kept=reused)
    if report.media:
        console.print(_media_line(report.media))
    if files:
        console.print(f"wrote {escape_controls(folder)}/{', '.join(files)}")
    console.print("Done")  # a line of megatron-energon, which scripts look for
    show_warning(*report.warnings)


def _media_line(report: MediaReport) -> str:
    kept = report.entries - report.collected
    unchanged = f", {kept:,} of them from before" if kept > 0 else ""
    return f"media metadata of {plural(report.entries, 'part')}{unchanged}"
