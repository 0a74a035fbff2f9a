"""``energon prepare meta.yaml``: write the rows of a metadataset's joins to disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls
from loader.inspect import plural
from loader.metadataset import plan_joins, prepare_metadataset

from ....console import output_console, print_json
from ....progress import ProgressBar
from .flags import given_flags

if TYPE_CHECKING:
    from loader.metadataset import JoinReport, MemberReport

# Flags that are valid for a metadataset. Those from non_interactive to tmp_path have no effect; scripts pass them for
# all kinds of datasets.
_VALID_FLAGS = {
    "path",
    "progress",
    "as_json",
    "dry_run",
    "non_interactive",
    "yes",
    "force_overwrite",
    "num_workers",
    "tmp_path",
    "compat",
}


def check_metadataset_flags(context: click.Context) -> None:
    """Reject flags that apply only to folders of shards.

    Raises:
        click.UsageError: Such flags are set; the message names all of them.
    """
    given = given_flags(context, apart_from=_VALID_FLAGS)
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise click.UsageError(
            f"{', '.join(given)} {verb} valid only for folders of shards; for a metadataset, only joins are prepared."
        )


def prepare_joins(path: str, *, progress: bool | None, as_json: bool, dry_run: bool, compat: bool = False) -> None:
    """Prepare the joins of a metadataset and print a report."""
    if dry_run:
        _print_plan(path, as_json=as_json)
        return
    with ProgressBar("Joining", unit="samples", enabled=progress) as bar:
        reports = prepare_metadataset(path, progress=bar.update, compat=compat)
    if as_json:
        print_json({"path": path, "dry_run": False, "joins": reports})
        return
    if not reports:
        _print(f"{path} has no joins: nothing to prepare; all its datasets exist")
    for report in reports:
        _print(_line(path, report))


def _print_plan(path: str, *, as_json: bool) -> None:
    plans = plan_joins(path)
    if as_json:
        joins = [
            {"file": plan.file, "place": plan.place, "datasets": [member.path for member in plan.members]}
            for plan in plans
        ]
        print_json({"path": path, "dry_run": True, "joins": joins})
        return
    for plan in plans:
        datasets = " with ".join(member.path for member in plan.members)
        _print(f"would join {_location(path, plan.file, plan.place)}: {datasets}")
    if not plans:
        _print(f"{path} has no joins: nothing to prepare; all its datasets exist")


def _print(line: str) -> None:
    output_console().print(escape_controls(line))


def _location(path: str, file: str, place: str) -> str:
    """Format the location of a join: the file that contains it, and the place within."""
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
