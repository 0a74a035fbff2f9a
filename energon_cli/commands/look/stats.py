"""``energon stats``: sizes, lengths, JSON fields and duplicates of a dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.text import Text

from loader.errors import StorageError, escape_controls, plural
from loader.inspect import print_part_sets, print_table

from ...command import energon_command
from ...console import output_console, print_reports, show_note, write_file
from ...dataset_options import dataset_options, query_options
from ...dataset_paths import check_ref, writable
from ...engine_options import EngineChoice, engine_options
from ...options import shared_options
from ...progress import ProgressBar
from .near_output import show_groups, show_near_duplicates

if TYPE_CHECKING:
    from rich.console import Console

    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef
    from loader.inspect.stats import Distribution, StatsReport


@energon_command("stats")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@query_options
@shared_options("keep_parts")
@shared_options("limit", type=click.IntRange(min=2), help="Read only N samples of each dataset, drawn at random.")
@shared_options(
    "duplicates", help="List samples with identical media; samples without media are compared by all parts."
)
@shared_options("duplicates_of")
@shared_options(
    "near_duplicates", help="List samples with similar vectors in this column of energon embed; no samples are read."
)
@shared_options("threshold")
@click.option("--write", metavar="A,B", help="Keep these values as columns: width, jpg.width, txt.chars, json[score] …")
@click.option(
    "--write-costs",
    "costs",
    metavar="MODEL",
    help="Keep the tokens and patches of pictures in this model as columns: qwen2.5-vl, internvl, llava-next; or"
    " set its options, as in qwen2.5-vl:max_pixels=501760.",
)
@click.option("--tokenizer", metavar="NAME", help="Count tokens by a .json file of tokenizers, or by module:callable.")
@click.option("--html", metavar="FILE", help="Write a report of one dataset to FILE, with histograms and pictures.")
@shared_options("json")
@engine_options
@shared_options("progress")
@dataset_options("trust_code")
@shared_options("max_json_bytes", default="64MiB")
def stats(
    refs: tuple[DatasetRef, ...],
    *,
    query: SampleQuery,
    keep_parts: tuple[str, ...],
    limit: int | None,
    duplicates: bool,
    duplicates_of: str | None,
    near_duplicates: str | None,
    threshold: float | None,
    write: str | None,
    costs: str | None,
    tokenizer: str | None,
    html: str | None,
    as_json: bool,
    max_json_bytes: int,
    engine: EngineChoice,
) -> None:
    """Show statistics of the datasets at PATH: sizes of parts and pictures, lengths of texts, durations, JSON fields.

    Of pictures, audio and video, only headers are read; texts and JSON are read whole. Quantiles are accurate to 9 %;
    counts, extremes and means are exact. With -n, all are estimates, and means have a 95 % confidence interval.

    --write keeps a value of each sample as a column, so that other commands read no samples for it: --where
    'jpg.width >= 512'.

    The datasets of a metadataset .yaml are shown one after another; --split-parts reads only the datasets of the named
    splits. The exit code is 1 if parts are broken or, with --duplicates or --near-duplicates, samples are duplicates.

    Examples:
        Show sizes, lengths and JSON fields:
            energon stats /data/coco
        Estimate them from 5,000 random samples:
            energon stats /data/coco -n 5000
        Find samples with the same picture:
            energon stats /data/coco --duplicates
        Find similar pictures by their vectors:
            energon stats /data/coco --near-duplicates phash
        Keep the width of each picture as a column:
            energon stats /data/coco --write jpg.width
        Count tokens, and keep them:
            energon stats /data/coco --tokenizer tok.json --write txt.tokens
        Keep what each sample costs in a model:
            energon stats /data/coco --tokenizer tok.json --write-costs qwen2.5-vl
        Write a page with pictures:
            energon stats /data/coco --html report.html
        Show the datasets of a mix:
            energon stats /data/mix.yaml -n 1000 --json
        Read a share in each job of a Slurm array:
            energon stats /data/coco --duplicates --share auto
        Show the statistics of all shares:
            energon stats /data/coco --duplicates --merge
    """
    from loader.engine import ShareEnds
    from loader.format.documents import command_for_folder, read_value_names
    from loader.inspect.stats import StatsRequest, collect_stats, html_report, shared_duplicates
    from loader.metadataset import choose_samples, named_datasets, open_datasets

    # Check the options.
    datasets = named_datasets([check_ref(ref) for ref in refs], split_parts=query.split_parts)
    if tokenizer is not None and not (tokenizer.endswith(".json") or ":" in tokenizer):
        expected = f"expected a .json file of tokenizers, or module:callable, found {tokenizer!r}"
        raise click.BadParameter(expected, param_hint="--tokenizer")
    if threshold is not None and near_duplicates is None:
        raise click.UsageError("--threshold belongs to --near-duplicates.")
    if near_duplicates is not None:
        if engine.share is not None or engine.merge:
            raise click.UsageError(
                "--near-duplicates reads one column, which is not divided into shares: omit --share and --merge."
            )
        has_groups = show_near_duplicates(datasets, near_duplicates, threshold, query, as_json=as_json)
        click.get_current_context().exit(1 if has_groups else 0)
    if html is not None and len(datasets) > 1:
        raise click.UsageError(f"--html reports one dataset, found {len(datasets)}.")
    try:
        written = tuple(name for _, name in read_value_names(write)) if write else ()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--write") from error
    # Collect the statistics of each dataset, and show them or keep them for the JSON.
    if written or costs:
        for dataset in datasets:
            writable(dataset.ref)
    reports: list[StatsReport] = []
    with engine.open() as where, open_datasets(datasets) as opened:
        ends = ShareEnds(where)
        for choice in choose_samples(opened, query, at=", ".join(ref.path for ref in refs)):
            path, ref = choice.opened.dataset.path, choice.opened.folder.ref
            if (write or costs) and choice.opened.is_temporary:
                reason = "columns are kept in .nv-meta, and these shards are not prepared"
                raise StorageError(reason, path=path, hint=command_for_folder(path))
            request = StatsRequest(
                ref=ref,
                numbers=choice.numbers,
                parts=keep_parts or None,
                sample=limit,
                dedupe=duplicates_of or ("" if duplicates else None),
                write=written,
                costs=costs,
                tokenizer=tokenizer,
                engine=where,
                max_json_bytes=max_json_bytes,
            )
            with ProgressBar("Reading samples", unit="samples") as bar:
                report = ends.call(partial(collect_stats, request, bar.update))
            if report is None:
                continue
            report.path = path
            reports.append(report)
            _show(report, lacks=choice.lacks, notes_only=as_json)
            if html is not None:
                write_file(html, html_report(report, ref).encode(errors="backslashreplace"), hint="name another file")
                show_note(f"wrote {html}")
        ends.finish()
        # Compare the datasets with each other, and print the JSON of all.
        shared = shared_duplicates(opened, reports)
        if as_json:
            documents = [report.document() for report in reports]
            print_reports(documents, is_list=len(documents) != 1, duplicates=shared)
        else:
            _show_duplicates(shared, *reports, of="samples of different datasets")
        where.discard_merged()
    if shared or any(report.broken_count or report.duplicates for report in reports):
        raise click.exceptions.Exit(1)


def _show(report: StatsReport, *, lacks: str, notes_only: bool) -> None:
    if lacks:
        show_note(f"no sample of {report.path}: it has {lacks}")
    elif not notes_only:
        show_stats(output_console(), report)
    for column, value in zip(report.written, report.written_values, strict=True):
        show_note(f"wrote column {column}: {value} of each sample; use it: --where '{value} …'")


# Print statistics as tables with small histograms.


_BARS = " ▁▂▃▄▅▆▇█"
_ASCII_BARS = " .:-=+*#@"
_WIDTH = 16
_BARS_COLUMNS = 80  # of a terminal with room for names and histograms
_MAX_TEXTS = 3
_MAX_SHOWN = 10
_MAX_VALUES = 100


def show_stats(console: Console, report: StatsReport) -> None:
    """Print the statistics of a dataset, at most 80 columns wide."""
    # The heading, and the part sets of all samples.
    drawn = f" of {report.population:,}, drawn at random" if report.is_sampled else ""
    console.print(Text(escape_controls(report.path), style="bold"), Text(f"{plural(report.samples, 'sample')}{drawn}"))
    print_part_sets(console, report.part_sets.to_document(), is_complete=not report.part_sets.others)
    # Distributions of numbers.
    if report.numbers:
        bars = _BARS if console.encoding.lower().startswith("utf") else _ASCII_BARS
        mean = ">mean ± 95 %" if report.is_sampled else ">mean"
        headings = ("value", ">count", ">min", ">median", ">max", mean, "histogram")
        shown = len(headings) if console.width >= _BARS_COLUMNS else len(headings) - 1
        rows = (
            (
                name,
                f"{values.count:,}",
                *map(_number, (values.minimum, values.quantile(0.5), values.maximum)),
                _mean(values, report),
                Text(_histogram(values, bars), no_wrap=True),
            )
            for name, values in sorted(report.numbers.items())[:_MAX_VALUES]
        )
        print_table(console, headings[:shown], [row[:shown] for row in rows])
    # The most frequent texts.
    if report.texts:
        counts = []
        for name, texts in sorted(report.texts.items())[:_MAX_VALUES]:
            top = ", ".join(f"{text[:24]} ({count:,})" for text, count in texts.most_common(_MAX_TEXTS))
            different = f"{texts.distinct:,}" + ("+" if texts.others else "")
            counts.append((name, f"{texts.count:,}", different, top))
        print_table(console, ("value", "count", "different", "most frequent"), counts)
    # What is hidden, broken or a duplicate.
    if (more := max(len(report.numbers), len(report.texts)) - _MAX_VALUES) > 0:
        console.print(f"… and {more:,}{' or more' if report.is_cut else ''} values, of which --json prints 1,000")
    _show_broken(console, report)
    _show_duplicates(report.duplicates, report)


def _number(value: float) -> str:
    if not math.isfinite(value):  # the sum of numbers near the largest one
        return str(value)
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1e7 else f"{value:.3g}"


def _mean(values: Distribution, report: StatsReport) -> str:
    if not report.is_sampled:
        return f"{values.mean:,.4g}"
    low, high = values.mean_interval(report.population)
    return f"{values.mean:,.4g} ± {(high - low) / 2:,.2g}"


def _histogram(values: Distribution, bars: str) -> str:
    counts = [count for _, _, count in values.histogram(_WIDTH)]
    most = max(counts, default=1)
    return "".join(bars[-(-count * (len(bars) - 1) // most)] for count in counts)


def _show_broken(console: Console, report: StatsReport) -> None:
    for count, part_kind, parts_kind, style, parts in (
        (report.broken_count, "broken part", "broken parts", "red", report.broken),
        (report.large_count, "part not parsed", "parts not parsed", "yellow", report.large),
    ):
        if count:
            console.print(Text(f"{plural(count, part_kind, parts_kind)}:", style=style))
        for part in parts[:_MAX_SHOWN]:
            console.print(Text(f"  {escape_controls(f'{part.sample} {part.part}')}: {escape_controls(part.reason)}"))


def _show_duplicates(groups: Sequence[Sequence[str]] | None, *reports: StatsReport, of: str = "samples") -> None:
    if groups is None:
        return
    parts = sorted({name for report in reports for name in report.hashed_parts})
    what = f"part{'s' if len(parts) > 1 else ''} {escape_controls(', '.join(parts))}" if parts else "parts"
    if not groups:
        output_console().print(Text(f"no two {of} have the same {what}"))
        return
    head = f"{sum(map(len, groups)):,} {of} in {plural(len(groups), 'group')} with the same {what}:"
    output_console().print(Text(head, style="red"))
    show_groups(groups)
