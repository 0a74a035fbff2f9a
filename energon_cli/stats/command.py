"""``energon stats``: sizes, lengths, JSON fields and duplicates of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..command import energon_command, max_json_option, trust_code_option
from ..dataset_path import check_path, given_name
from ..extract.query_options import make_query, query_options

if TYPE_CHECKING:
    from loader.inspect.stats import StatsReport

_EXAMPLES = (
    ("Show sizes, lengths and JSON fields", "energon stats /data/coco"),
    ("Estimate them from 5,000 random samples", "energon stats /data/coco --sample 5000"),
    ("Find samples with the same picture", "energon stats /data/coco --dedupe"),
    ("Keep the width of each picture as a column", "energon stats /data/coco --write width"),
    ("Count tokens, and keep them", "energon stats /data/coco --tokenizer tok.json --write txt.tokens"),
    ("Write a page with pictures", "energon stats /data/coco --html report.html"),
    ("Show the datasets of a mix", "energon stats /data/mix.yaml --sample 1000 --json"),
)


@energon_command("stats", examples=_EXAMPLES, short_help="Show sizes, lengths, JSON fields and duplicates.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@query_options
@click.option("--parts", metavar="A,B", help="Only these parts.")
@click.option("--sample", metavar="N", type=click.IntRange(min=2), help="Read only N random samples of each dataset.")
@click.option("--dedupe", is_flag=True, help="List samples with the same picture, audio or video, or else all parts.")
@click.option("--dedupe-part", metavar="PART", help="List samples with the same part of this name.")
@click.option("--write", metavar="A,B", help="Keep these values as columns: width, jpg.width, txt.chars, json.score …")
@click.option("--tokenizer", metavar="NAME", help="Count tokens: a .json file of tokenizers, or module:callable.")
@click.option("--html", metavar="FILE", help="Write a report with histograms and pictures; of one dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the statistics as JSON.")
@max_json_option("64MiB")
@click.option("--num-workers", metavar="N", type=click.IntRange(min=1), help="Processes.  [default: one per core]")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar on a terminal.")
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Name of the split file.")
@click.option("--meta-folder", metavar="DIR", help="Folder to use instead of PATH/.nv-meta.")
@trust_code_option
def stats(
    paths: tuple[str, ...],
    *,
    split_part: str | None,
    keys_from: str | None,
    where: str | None,
    filter_name: str | None,
    parts: str | None,
    sample: int | None,
    dedupe: bool,
    dedupe_part: str | None,
    write: str | None,
    tokenizer: str | None,
    html: str | None,
    as_json: bool,
    max_json_bytes: int,
    num_workers: int | None,
    progress: bool | None,
    split_config: str,
    meta_folder: str | None,
    trust_code: bool,
) -> None:
    """Show statistics of the datasets at PATH: sizes of parts and pictures, lengths of texts, durations, JSON fields.

    Of pictures, audio and video, only headers are read; texts and JSON are read whole. Quantiles and histograms are
    right to 9 %; counts, extremes and means are exact, or with --sample, an estimate with a 95 % confidence interval.

    --write keeps a value of each sample as a column, which conditions of other commands use: --where 'width >= 512'.

    The datasets of a metadataset .yaml are shown one after another; --split-part chooses those of one of its splits.
    The exit code is 1 if parts are broken or, with --dedupe, samples are duplicates.
    """
    from loader.format import usable_cores
    from loader.inspect.stats import StatsRequest, collect_stats, html_report
    from loader.metadataset import choose_samples, named_datasets, open_datasets

    from ..console import print_json, show_note
    from ..progress import ProgressBar

    datasets = named_datasets(
        [check_path(path, takes_tar=True, meta_folder=meta_folder) for path in paths],
        split_part=split_part,
        split_config=given_name("split_config", split_config),
        meta_folder=meta_folder,
    )
    if html is not None and len(datasets) > 1:
        raise click.UsageError(f"--html reports one dataset, and these are {len(datasets)}.")
    query = make_query(split_part=split_part, keys_from=keys_from, where=where, filter_name=filter_name)
    documents, has_findings = [], False
    with open_datasets(datasets) as opened:
        for one in choose_samples(opened, query, at=", ".join(paths)):
            dataset, place = one.opened.dataset, one.opened.place
            if write is not None and place.is_temporary:
                raise _no_columns(dataset.path)
            request = StatsRequest(
                path=place.path,
                numbers=one.numbers,
                parts=_names(parts),
                sample=sample,
                dedupe=dedupe_part or ("" if dedupe else None),
                write=_names(write) or (),
                tokenizer=tokenizer,
                workers=num_workers or usable_cores(),
                trust_code=trust_code,
                split_config=place.split_config,
                meta_folder=place.meta_folder,
                max_json_bytes=max_json_bytes,
            )
            with ProgressBar("Reading samples", unit="samples", enabled=progress) as bar:
                report = collect_stats(request, bar.update)
            report.path = dataset.path
            has_findings |= bool(report.broken_count or report.duplicates)
            if as_json:
                documents.append(report.document())
            _show(report, lacks=one.lacks, notes_only=as_json)
            if html is not None:
                _write(html, html_report(report, path=place.path, meta_folder=place.meta_folder))
                show_note(f"wrote {html}")
    if as_json:
        print_json(documents[0] if len(documents) == 1 else {"datasets": documents})
    if has_findings:
        raise click.exceptions.Exit(1)


def _show(report: StatsReport, *, lacks: str, notes_only: bool) -> None:
    """Show the statistics of a dataset, and notes about what it lacks and about new columns."""
    from ..console import output_console, show_note
    from .report import show_stats

    if lacks:
        show_note(f"no sample of {report.path}: it has {lacks}")
    elif not notes_only:
        show_stats(output_console(), report)
    for column in report.written:
        show_note(f"wrote column {column}; use it: --where '{column} …'")


def _no_columns(path: str) -> Exception:
    from loader.errors import StorageError

    return StorageError(
        "columns are kept in .nv-meta, and these shards are not prepared",
        path=path,
        hint=f"run: energon prepare {path}",
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _write(path: str, text: str) -> None:
    from loader.errors import StorageError

    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", path=path, hint="name another file") from error
