"""``energon prepare --part``: scan one part of the shards, and report it."""

from __future__ import annotations

import os
import shlex

import click

from loader.errors import ConfigError, escape_controls
from loader.format import usable_cores
from loader.format.cluster import Part, parse_part
from loader.format.prepare import PartReport, PreparePlan, PrepareProgress, run_part
from loader.inspect import format_bytes, plural

from ....console import output_console, print_json
from ....progress import ProgressBar
from .flags import PrepareFlags, check_flags, given_flags

_VALID_FLAGS = {
    "path",
    "part",
    "exclude",
    "force_overwrite",
    "num_workers",
    "scan",
    "meta_folder",
    "storage_option",
    "dry_run",
    "progress",
    "as_json",
    "yes",
    "non_interactive",
    "tmp_path",
}


def prepare_part(flags: PrepareFlags) -> None:
    """Scan one part of the shards and print a report."""
    _check_part_flags(click.get_current_context())
    check_flags(flags)
    part = _part_of_flag(flags.part or "")
    plan = PreparePlan.of(
        flags.ref,
        workers=max(1, usable_cores() if flags.num_workers is None else flags.num_workers),
        exclude=flags.exclude,
        force=flags.force_overwrite,
        scan=flags.scan,
    )
    with ProgressBar("Scanning headers", unit="shards", enabled=flags.progress) as bar:

        def advance(now: PrepareProgress) -> None:
            bar.update(now.shards_done, now.shards_total)

        report = run_part(plan, part, dry_run=flags.dry_run, on_progress=advance)
    if flags.as_json:
        print_json(_document(flags, report))
    else:
        _show(flags, report)


def _check_part_flags(context: click.Context) -> None:
    """Reject flags of the commit.

    Raises:
        click.UsageError: Such flags are set; the message names all of them.
    """
    given = given_flags(context, apart_from=_VALID_FLAGS)
    if given:
        raise click.UsageError(f"--part only scans; pass {', '.join(given)} to the command with --merge.")


def _part_of_flag(text: str) -> Part:
    try:
        return parse_part(text, os.environ)
    except ConfigError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise click.BadParameter(f"{error.message}{hint}", param_hint="--part") from error


def _document(flags: PrepareFlags, report: PartReport) -> dict[str, object]:
    return {
        "path": flags.path,
        "part": report.part.number,
        "parts": report.part.parts,
        "shards": report.shards,
        "bytes": report.size_bytes,
        "scanned": report.scanned,
        "dry_run": flags.dry_run,
        "seconds": report.seconds,
    }


def _show(flags: PrepareFlags, report: PartReport) -> None:
    console, path = output_console(), escape_controls(flags.path)
    size = f"{plural(report.shards, 'shard')} ({format_bytes(report.size_bytes)})"
    if flags.dry_run:
        console.print(f"would scan part {report.part} of {path}: {size}")
        return
    known = report.shards - report.scanned
    before = f", {known:,} of them before" if known else ""
    console.print(
        f"scanned part {report.part} of {path}: {size} in {report.seconds:.1f} s{before}",
        style="green",
    )
    names = [flags.path, "--merge", *flags.ref.folder_flags]
    console.print(f"when all parts are done: energon prepare {escape_controls(shlex.join(names))}")
