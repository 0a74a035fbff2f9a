"""From choices to a plan, and from the plan to a prepared dataset and a report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from loader.format.prepare.plan import PreparePlan, PrepareProgress, PrepareReport
from loader.format.prepare.proposals import propose_field_map
from loader.format.prepare.run import run_prepare
from loader.format.prepare.split import PlannedSplit, plan_split

from ..console import error_console, escape_controls, format_bytes, output_console, plural, print_json
from ..cores import usable_cores
from ..dataset_path import open_parent
from ..progress import ProgressBar
from .choices import Choices
from .flags import PrepareFlags, check_consent, check_flags
from .report import report_document, show_done, show_files, show_notes, show_split, show_split_line
from .resolve import Folder, decide, doubts, look_into_folder, remarks
from .template import SAMPLE_LOADER, files_to_write

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["prepare_dataset", "prepare_jsonl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prospect:
    """All that is known before anything is written."""

    flags: PrepareFlags
    folder: Folder
    choices: Choices
    files: Mapping[str, str]  # of .nv-meta, name → text
    notes: Sequence[str]
    doubts: Sequence[str]  # why the first sample cannot be made as chosen


def prepare_dataset(flags: PrepareFlags) -> None:
    """Find out what there is, decide what to do, show it, do it, and tell."""
    check_flags(flags)
    console = error_console() if flags.as_json else output_console()
    folder = look_into_folder(flags)
    check_consent(flags, has_split=folder.has_split, has_dataset_yaml=folder.has_dataset_yaml)
    choices = decide(flags, folder, console)
    prospect = _Prospect(
        flags=flags,
        folder=folder,
        choices=choices,
        files=_files(flags, folder, choices),
        notes=remarks(flags, folder, choices),
        doubts=doubts(flags, folder, choices),
    )
    if flags.dry_run:
        _tell_prospect(prospect, console)
        return
    if not flags.as_json:
        show_notes(console, prospect.doubts, label="warning", style="yellow")
    if flags.asks_by_menus:
        _confirm(prospect, console)
    report = _run(_plan(prospect), progress=flags.progress)
    if flags.as_json:
        report = replace(report, warnings=(*prospect.doubts, *report.warnings))
        print_json(report_document(flags.path, report, files=prospect.files, notes=prospect.notes))
        return
    show_done(console, flags.path, report, prospect.files)
    show_notes(console, prospect.notes, label="note")


def _files(flags: PrepareFlags, folder: Folder, choices: Choices) -> dict[str, str]:
    """Give the files to write beside the index; a ``sample_loader.py`` that is there already is the user's."""
    chosen = choices.dataset_yaml
    if chosen is None:
        return {}
    look = folder.look
    proposals = propose_field_map(chosen.spec, look.part_names, look.json_example)
    files = files_to_write(chosen, name=flags.dataset_yaml_name, proposals=proposals, part_names=look.part_names)
    if folder.storage.exists(f".nv-meta/{SAMPLE_LOADER}"):
        files.pop(SAMPLE_LOADER, None)
    return files


def _plan(prospect: _Prospect) -> PreparePlan:
    flags = prospect.flags
    workers = flags.num_workers if flags.num_workers is not None else usable_cores()
    return PreparePlan(
        path=flags.path,
        workers=max(1, workers),
        exclude=flags.exclude,
        split=prospect.choices.split,
        files=prospect.files,
        compat=flags.compat,
        force=flags.force_overwrite,
        fix_duplicates=flags.fix_duplicates,
        media=flags.media,
    )


def _run(plan: PreparePlan, *, progress: bool) -> PrepareReport:
    with ExitStack() as bars:
        scan = bars.enter_context(ProgressBar("Scanning headers", unit="shards", enabled=progress))
        media: list[ProgressBar] = []

        def advance(now: PrepareProgress) -> None:
            if now.phase == "scan":
                scan.update(now.shards_done, now.shards_total)
                return
            if not media:
                bars.close()  # one bar at a time
                media.append(bars.enter_context(ProgressBar("Reading media", unit="samples", enabled=progress)))
            media[0].update(now.samples, now.samples_total)

        return run_prepare(plan, on_progress=advance)


def _confirm(prospect: _Prospect, console: Console) -> None:
    from .menus import confirm

    folder = prospect.folder
    if prospect.choices.split is not None:
        show_split_line(console, plan_split(folder.storage, prospect.choices.split, list(folder.sizes)).parts)
    show_files(console, prospect.files)
    if not confirm(f"Index {plural(len(folder.sizes), 'shard')} and write this?"):
        console.print("nothing was written")
        raise click.exceptions.Exit(1)


def _tell_prospect(prospect: _Prospect, console: Console) -> None:
    """Show what a run would do (``--dry-run``)."""
    path, folder = prospect.flags.path, prospect.folder
    planned: PlannedSplit | None = None
    if prospect.choices.split is not None:
        planned = plan_split(folder.storage, prospect.choices.split, list(folder.sizes))
    warnings = [*prospect.doubts, *(planned.warnings if planned is not None else ())]
    size_bytes = sum(folder.sizes.values())
    if prospect.flags.as_json:
        document: dict[str, Any] = {
            "path": path,
            "dry_run": True,
            "shards": len(folder.sizes),
            "bytes": size_bytes,
            "split": None if planned is None else {name: list(shards) for name, shards in planned.parts.items()},
            "files": dict(prospect.files),
            "warnings": warnings,
            "notes": list(prospect.notes),
        }
        print_json(document)
        return
    shards = plural(len(folder.sizes), "shard")
    console.print(f"would prepare {escape_controls(path)}: {shards}, {format_bytes(size_bytes)}", soft_wrap=True)
    if planned is not None:
        show_split(console, planned.parts, folder.sizes)
    show_files(console, prospect.files)
    show_notes(console, warnings, label="warning", style="yellow")
    show_notes(console, prospect.notes, label="note")


def prepare_jsonl(flags: PrepareFlags) -> None:
    """Index the lines of a JSONL file."""
    from loader.format.jsonl import index as jsonl

    check_flags(flags)
    if flags.media:
        raise click.UsageError(f"{flags.media.flag}: the lines of a JSONL file hold no media files.")
    storage, name = open_parent(flags.path)
    size_bytes = storage.stat(name).size_bytes
    with ProgressBar("Reading lines", unit="bytes", enabled=flags.progress) as bar:
        index_lines = jsonl.build_jsonl_index if flags.dry_run else jsonl.prepare_jsonl
        index = index_lines(storage, name, progress=lambda done: bar.update(done, size_bytes))
    document = {"path": flags.path, "samples": len(index), "bytes": size_bytes, "dry_run": flags.dry_run}
    if flags.as_json:
        print_json(document)
        return
    verb = "would index" if flags.dry_run else "indexed"
    output_console().print(
        f"{verb} {flags.path}: {plural(len(index), 'sample')}, {format_bytes(size_bytes)}", soft_wrap=True
    )
