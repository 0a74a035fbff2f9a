"""From choices to a plan, and from the plan to a prepared dataset and a report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from loader.format import usable_cores
from loader.format.documents import SampleTypeSpec
from loader.format.prepare import (
    DatasetYaml,
    PlannedSplit,
    PreparePlan,
    PrepareProgress,
    PrepareReport,
    SplitRequest,
    plan_split,
    run_prepare,
)
from loader.inspect import (
    Choices,
    OpenChoices,
    ShardFolder,
    choice_files,
    choice_notes,
    field_map_warnings,
    inspect_folder,
    open_choices,
    propose_choices,
    view_first_sample,
)
from loader.storage import open_parent

from ..console import (
    error_console,
    escape_controls,
    format_bytes,
    output_console,
    plural,
    print_json,
    show_progress,
)
from ..progress import ProgressBar
from .flags import PrepareFlags, check_consent, check_flags, split_of_flags, type_of_flags
from .questions import PipedQuestions, ask
from .report import (
    report_document,
    show_done,
    show_files,
    show_first_sample,
    show_found,
    show_notes,
    show_split,
    show_split_line,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["prepare_dataset", "prepare_jsonl"]

_SHUFFLE_SEED = 42  # arbitrary, but constant: --shuffle-tars must be reproducible


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prospect:
    """All that is known before anything is written."""

    flags: PrepareFlags
    folder: ShardFolder
    choices: Choices
    files: Mapping[str, str]  # of .nv-meta, name → text
    notes: Sequence[str]
    warnings: Sequence[str]  # of fields that the first samples cannot fill


def prepare_dataset(flags: PrepareFlags) -> None:
    """Find out what there is, decide what to do, show it, do it, and tell."""
    check_flags(flags)
    console = error_console() if flags.as_json else output_console()
    folder = inspect_folder(flags.path, exclude=flags.exclude, dataset_yaml_name=flags.dataset_yaml_name)
    check_consent(flags, has_split=folder.has_split, has_dataset_yaml=folder.has_dataset_yaml)
    choices = _resolve_choices(flags, folder, console)
    prospect = _Prospect(
        flags=flags,
        folder=folder,
        choices=choices,
        files=choice_files(folder, choices, name=flags.dataset_yaml_name),
        notes=[] if flags.tar_index_only else choice_notes(folder, choices),
        warnings=_field_map_warnings(flags, folder, choices),
    )
    if flags.dry_run:
        _tell_prospect(prospect, console)
        return
    if not flags.as_json:
        show_notes(console, prospect.warnings, label="warning", style="yellow")
    if flags.asks_by_menus:
        _confirm(prospect, console)
    report = _run(_plan(prospect), progress=flags.progress)
    if flags.as_json:
        report = replace(report, warnings=(*prospect.warnings, *report.warnings))
        print_json(report_document(flags.path, report, files=prospect.files, notes=prospect.notes))
        return
    show_done(console, flags.path, report, prospect.files)
    show_notes(console, prospect.notes, label="note")


def _resolve_choices(flags: PrepareFlags, folder: ShardFolder, console: Console) -> Choices:
    """Settle the open choices: by flags alone, by proposals, by menus, or by lines from standard input."""
    choices = _choices(flags, folder, console)
    return choices if choices.split is None else replace(choices, split=_shuffled(flags, choices.split))


def _shuffled(flags: PrepareFlags, request: SplitRequest) -> SplitRequest:
    if flags.shuffle_tars and request.ratio is not None:
        return replace(request, shuffle_seed=_SHUFFLE_SEED)
    return request


def _choices(flags: PrepareFlags, folder: ShardFolder, console: Console) -> Choices:
    given = open_choices(
        folder,
        split=split_of_flags(flags),
        ask_split=not folder.has_split,
        # A prepared dataset without a dataset.yaml is meant to have none until a flag or a menu says otherwise.
        ask_dataset_yaml=not flags.skip_dataset_yaml and (not folder.prepared or flags.sample_type is not None),
        **type_of_flags(flags),
    )
    if flags.tar_index_only:
        return Choices()
    if flags.non_interactive:
        if given.split is None and given.ask_split:
            raise click.UsageError(
                "--non-interactive needs the split: --split-ratio 8,1,1 or --split-parts NAME:PATTERN."
            )
        chosen = None if given.spec is None else DatasetYaml(spec=given.spec, field_map=given.field_map)
        return Choices(split=given.split, dataset_yaml=chosen)
    if flags.yes:
        return propose_choices(given)
    show_found(console, flags.path, folder.sizes, folder.first)
    if flags.asks_by_menus:
        return _ask_by_menus(flags, folder, given, console)
    questions = PipedQuestions(given.proposed_ratio, show=lambda line: console.print(line, soft_wrap=True))
    return ask(questions, given)


def _ask_by_menus(flags: PrepareFlags, folder: ShardFolder, given: OpenChoices, console: Console) -> Choices:
    from .menus import MenuQuestions, ask_what_to_change

    if folder.prepared and given.split is None and given.spec is None:
        split, dataset_yaml = ask_what_to_change(has_dataset_yaml=folder.has_dataset_yaml)
        given = replace(given, ask_split=split or not folder.has_split, ask_dataset_yaml=dataset_yaml)
    if given.ask_split or given.ask_dataset_yaml:
        show_first_sample(console, folder.first)

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        choice = DatasetYaml(spec=spec, field_map=field_map)
        return _show_trial(folder, choice, console, trust_code=flags.trust_code)

    def show_choice(choice: SplitRequest) -> None:
        planned = plan_split(folder.storage, _shuffled(flags, choice), list(folder.sizes))
        show_split(console, planned.parts, folder.sizes)
        show_notes(console, planned.warnings, label="warning", style="yellow")

    questions = MenuQuestions(list(folder.sizes), try_field_map=try_field_map, show_split=show_choice)
    return ask(questions, given)


def _show_trial(folder: ShardFolder, choice: DatasetYaml, console: Console, *, trust_code: bool) -> bool:
    """Build the first sample as chosen, and show it or why it cannot be built."""
    if not folder.first.parts:
        return True
    show_progress("decoding the first sample…")
    from ..preview.render import render_sample, terminal_space

    view = view_first_sample(folder, choice, trust_code=trust_code)
    for line in render_sample(view, terminal_space(console, share=0.5)):
        console.print(line)
    return view.fault is None


def _field_map_warnings(flags: PrepareFlags, folder: ShardFolder, choices: Choices) -> list[str]:
    if choices.dataset_yaml is None:
        return []
    return field_map_warnings(
        choices.dataset_yaml, folder.first, meta_folder=folder.meta_folder, trust_code=flags.trust_code
    )


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
    warnings = [*prospect.warnings, *(planned.warnings if planned is not None else ())]
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
    from loader.format import jsonl

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
