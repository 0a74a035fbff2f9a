"""``energon prepare`` of paths without shards: single files, and metadatasets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural
from loader.inspect import format_bytes
from loader.storage import open_parent

from ....console import facts_of, output_console, print_json
from ....progress import ProgressBar
from .flags import PrepareFlags, check_flags, given_flags

if TYPE_CHECKING:
    from loader.metadataset import JoinReport, MemberReport


_FILE_FACTS = "ref.path samples bytes dry_run"


def check_file_flags(flags: PrepareFlags) -> None:
    """Reject flags that apply only to folders of shards."""
    of_folders = {
        "--decompress": flags.decompress,
        "--share": flags.engine.share is not None,
        "--merge": flags.engine.merge,
        f"--engine {flags.engine.kind}": flags.engine.kind != "processes",
    }
    for flag, given in of_folders.items():
        if given:
            raise click.UsageError(f"{flag} is valid only for folders of shards.")


def prepare_jsonl(flags: PrepareFlags) -> None:
    """Index the lines of a JSONL file."""
    from loader.format import jsonl

    check_flags(flags)
    if flags.plan.media:
        raise click.UsageError(f"{flags.plan.media.flag}: a JSONL file contains no media files.")
    storage, name = open_parent(flags.ref.path)
    size_bytes = storage.stat(name).size_bytes
    with ProgressBar("Reading lines", unit="bytes") as bar:
        index_lines = jsonl.build_jsonl_index if flags.dry_run else jsonl.prepare_jsonl
        index = index_lines(storage, name, progress=lambda done: bar.update(done, size_bytes))
    if flags.as_json:
        print_json(facts_of(flags, _FILE_FACTS, samples=len(index), bytes=size_bytes))
        return
    verb = "would index" if flags.dry_run else "indexed"
    samples = plural(len(index), "sample")
    output_console().print(f"{verb} {flags.ref.path}: {samples}, {format_bytes(size_bytes)}")
    if not flags.dry_run:
        output_console().print(f"Done. Found {samples}.")  # a line of megatron-energon, which scripts look for


def check_record_file(flags: PrepareFlags) -> None:
    """Open a token file or Parquet file, and report that it needs no index."""
    from loader.format.records import open_record_path

    check_flags(flags)
    file = open_record_path(flags.ref.path)
    if flags.as_json:
        print_json(facts_of(flags, _FILE_FACTS, samples=len(file), bytes=file.size_bytes))
        return
    size = format_bytes(file.size_bytes)
    output_console().print(
        f"nothing to prepare: {flags.ref.path} can be loaded as it is, {plural(len(file), 'sample')}, {size}",
    )


def prepare_joins(flags: PrepareFlags) -> None:
    """Prepare the joins of a metadataset and print a report."""
    from loader.metadataset import plan_joins, prepare_metadataset

    path, given = flags.ref.path, given_flags("compat")
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise click.UsageError(
            f"{', '.join(given)} {verb} valid only for folders of shards; for a metadataset, only joins are prepared."
        )
    # Show the plan only, or prepare the joins.
    if flags.dry_run:
        joins: Sequence[Any] = [
            facts_of(plan, "file place datasets", datasets=[member.path for member in plan.members])
            for plan in plan_joins(path)
        ]
    else:
        with ProgressBar("Joining", unit="samples") as bar:
            joins = prepare_metadataset(path, progress=bar.update, compat=flags.plan.compat)
    # Report.
    if flags.as_json:
        print_json(facts_of(flags, "ref.path dry_run joins", joins=joins))
        return
    if not joins:
        _print(f"{path} has no joins: nothing to prepare; all its datasets exist")
    for join in joins:
        if flags.dry_run:
            _print(f"would join {_location(path, join['file'], join['place'])}: {' with '.join(join['datasets'])}")
        else:
            _print(_line(path, join))


def _print(line: str) -> None:
    output_console().print(escape_controls(line))


def _location(path: str, file: str, place: str) -> str:
    return f"{path}: {place}" if os.path.abspath(path) == file else f"{file}: {place}"


def _line(path: str, report: JoinReport) -> str:
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    folder = os.path.dirname(report.file)
    members = "; ".join(_member_summary(member, folder) for member in report.members)
    where = _location(path, report.file, report.place)
    return f"joined {where}: {plural(report.rows, 'row')}{skipped}" + (f" ({members})" if members else "")


def _member_summary(member: MemberReport, folder: str) -> str:
    missing = f", {member.missing:,} missing" if member.missing else ""
    unused = f", {member.unused:,} unused" if member.unused else ""
    return f"{os.path.relpath(member.path, folder)}: {member.matched:,} matched{missing}{unused}"
