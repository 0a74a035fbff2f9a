"""``energon prepare meta.yaml``: the joins of a metadataset become rows on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from loader.metadataset import plan_joins, prepare_metadataset

from ..console import escape_controls, output_console, plural, print_json
from ..progress import ProgressBar

if TYPE_CHECKING:
    from loader.metadataset import JoinReport, MemberReport

__all__ = ["check_metadataset_flags", "prepare_joins"]

# What says how to work, not what to make of shards; the last ones come from scripts that prepare everything alike.
_MEANT = {
    "path",
    "progress",
    "as_json",
    "dry_run",
    "non_interactive",
    "yes",
    "force_overwrite",
    "num_workers",
    "tmp_path",
}
_ALWAYS = {"help", "debug"}


def check_metadataset_flags(context: click.Context) -> None:
    """Refuse flags that say how to make a dataset of shards.

    Raises:
        click.UsageError: Names all of them.
    """
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _MEANT | _ALWAYS
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise click.UsageError(
            f"{', '.join(given)} {verb} for folders of shards; of a metadataset only the joins are prepared."
        )


def prepare_joins(path: str, *, progress: bool, as_json: bool, dry_run: bool) -> None:
    """Prepare the joins of a metadataset and tell what came of them."""
    if dry_run:
        _tell_plan(path, as_json=as_json)
        return
    with ProgressBar("Joining", unit="samples", enabled=progress) as bar:
        reports = prepare_metadataset(path, progress=bar.update)
    if as_json:
        joins = [_document(report) for report in reports]
        print_json({"path": path, "dry_run": False, "joins": joins})
        return
    if not reports:
        _print(f"{path} has no joins: nothing needs preparing; all its datasets are there")
    for report in reports:
        _print(_line(path, report))


def _tell_plan(path: str, *, as_json: bool) -> None:
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
        _print(f"would join {_where(path, plan.file, plan.place)}: {datasets}")
    if not plans:
        _print(f"{path} has no joins: nothing needs preparing; all its datasets are there")


def _print(line: str) -> None:
    output_console().print(escape_controls(line), soft_wrap=True)


def _where(path: str, file: str, place: str) -> str:
    """Give the place of a join, with the file in front where another one holds it."""
    return f"{path}: {place}" if os.path.abspath(path) == file else f"{file}: {place}"


def _line(path: str, report: JoinReport) -> str:
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    folder = os.path.dirname(report.file)
    members = "; ".join(_member_words(member, folder) for member in report.members)
    where = _where(path, report.file, report.place)
    return f"joined {where}: {plural(report.rows, 'row')}{skipped}" + (f" ({members})" if members else "")


def _member_words(member: MemberReport, folder: str) -> str:
    missing = f", {member.missing:,} missing" if member.missing else ""
    unused = f", {member.unused:,} unused" if member.unused else ""
    return f"{os.path.relpath(member.path, folder)}: {member.matched:,} matched{missing}{unused}"


def _document(report: JoinReport) -> dict[str, Any]:
    return {
        "file": report.file,
        "place": report.place,
        "rows": report.rows,
        "skipped": report.skipped,
        "datasets": [
            {
                "path": member.path,
                "nonmatch": member.nonmatch,
                "matched": member.matched,
                "missing": member.missing,
                "unused": member.unused,
            }
            for member in report.members
        ],
    }
