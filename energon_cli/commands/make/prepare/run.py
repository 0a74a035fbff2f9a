"""Run ``energon prepare``: inspect the folder, resolve the choices, run the plan and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from loader.engine import Share, command_with
from loader.errors import escape_controls, plural
from loader.format.documents import content_of_folder, import_hint
from loader.inspect import (
    Choices,
    ShardFolder,
    choice_files,
    choice_notes,
    coverage_warnings,
    field_map_warnings,
    format_bytes,
    inspect_folder,
    resolved_fields,
)
from loader.prepare import (
    DecompressReport,
    PartReport,
    PlannedSplit,
    decompress_shards,
    plan_split,
    run_part,
    unwritable_folder,
)
from loader.storage import is_url, open_storage

from ....console import error_console, facts_of, output_console, print_json, show_account, show_note, show_warning
from ....progress import ProgressBar
from ..prepare_media import MEDIA_FACTS
from ..prompts import AnswerHistory, load_prompts, no_echo
from .choices import needs_contents, resolve_choices, with_flags
from .flags import PrepareFlags, check_consent, check_flags, given_flags
from .report import (
    show_done,
    show_files,
    show_part_sets,
    show_split,
    show_split_line,
)
from .scan import BackgroundScan, begin_scan

if TYPE_CHECKING:
    from rich.console import Console

    from loader.engine import Account


def prepare_share(flags: PrepareFlags, share: Share) -> None:
    """Scan one share of the shards and print a report."""
    given = given_flags("share", "exclude", "scan", "meta_folder", "storage_option")
    if given:
        raise click.UsageError(f"--share only scans; pass {', '.join(given)} to the command with --merge.")
    check_flags(flags)
    with ProgressBar("Scanning headers", unit="shards") as bar:
        report = run_part(
            flags.plan,
            share,
            dry_run=flags.dry_run,
            on_progress=lambda now: bar.update(now.shards_done, now.shards_total),
        )
    if flags.as_json:
        names = "path part=part.number parts=part.count shards bytes=size_bytes scanned dry_run seconds"
        print_json(facts_of(report, names, path=flags.ref.path, dry_run=flags.dry_run))
    else:
        _show_share(flags, report)


def _show_share(flags: PrepareFlags, report: PartReport) -> None:
    console, path = output_console(), escape_controls(flags.ref.path)
    size = f"{plural(report.shards, 'shard')} ({format_bytes(report.size_bytes)})"
    if flags.dry_run:
        console.print(f"would scan share {report.part} of {path}: {size}")
        return
    known = report.shards - report.scanned
    before = f", {known:,} of them before" if known else ""
    console.print(
        f"scanned share {report.part} of {path}: {size} in {report.seconds:.1f} s{before}",
        style="green",
    )
    console.print(f"when all shares are done: {command_with('--merge', command='prepare')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    flags: PrepareFlags
    folder: ShardFolder
    choices: Choices
    files: Mapping[str, str]  # of .nv-meta, name → text
    notes: Sequence[str]
    further_notes: Sequence[str]  # those that are not shown with the part sets
    warnings: Sequence[str]  # of fields that samples cannot fill
    part_sets: Sequence[Mapping[str, Any]]
    split: PlannedSplit | None
    split_samples: Mapping[str, int]  # split part → samples


def prepare_dataset(flags: PrepareFlags) -> None:
    """Prepare a folder of shards, with prompts where the flags ask for them, and print a report."""
    check_flags(flags)
    console = error_console() if flags.as_json else output_console()
    decompressed = _decompress(flags, console) if flags.decompress else None
    if flags.dry_run and decompressed is not None and decompressed.written:
        if flags.as_json:
            print_json(facts_of(flags, "ref.path dry_run decompressed", decompressed=decompressed.written))
        return
    # Find the shards, and check that the dataset may be written.
    folder = inspect_folder(flags.ref, exclude=flags.plan.exclude, scans=False)
    if fault := unwritable_folder(folder.storage):
        if not flags.dry_run:
            raise fault
        show_warning(f"{fault.message}: {fault.path}; {fault.hint}")
    check_consent(flags, has_split=folder.has_split, has_dataset_yaml=folder.has_dataset_yaml)
    # Scan the shards while the user answers; types are proposed from all of them.
    if flags.asks_by_menus:
        load_prompts()
    with (
        no_echo(enabled=flags.asks_by_menus),
        begin_scan(
            flags.plan,
            folder,
            inspects=needs_contents(flags, folder),
            is_trial=flags.dry_run,
            in_thread=flags.asks_by_menus,
            engine=flags.engine,
        ) as scan,
    ):
        # Resolve the choices, again if the user goes back.
        history = AnswerHistory()
        while True:
            draft = _draft(flags, scan, resolve_choices(flags, folder, scan, console, history))
            if flags.dry_run:
                _show_draft(draft, console, scan.prepare.account)
                return
            if not flags.as_json:
                if draft.folder.contents.samples and history.first_time("the part sets"):
                    show_part_sets(console, draft.part_sets, draft.folder.contents)
                show_warning(*draft.warnings)
            if not flags.asks_by_menus or _is_confirmed(draft, console, history):
                break
        # What was listed before the prompts may have changed.
        with scan.showing("Reading media", unit="samples"):
            report = scan.prepare.commit(draft.choices.split, draft.files, is_listed=not flags.asks_by_menus)
    # Report.
    if flags.as_json:
        report = replace(report, warnings=(*draft.warnings, *report.warnings))
        written = () if decompressed is None else decompressed.written
        show_account(report.account)
        document = facts_of(
            report,
            "path samples shards bytes=size_bytes changed parts scanned resumed reused decompressed split part_sets "
            "files duplicate_keys compat media_metadata uuid seconds warnings notes account",
            path=flags.ref.path,
            decompressed=written,
            part_sets=draft.part_sets,
            files=sorted(draft.files),
            media_metadata=report.media and facts_of(report.media, MEDIA_FACTS),
            seconds=round(report.seconds, 3),
            notes=draft.notes,
        )
        print_json(document)
        return
    further = tuple(text for text in report.warnings if text not in draft.folder.contents.warnings)
    meta = flags.ref.find_meta()
    show_done(console, flags.ref.path, replace(report, warnings=further), draft.files, folder=meta.path)
    show_account(report.account)
    show_note(*draft.further_notes)


def _draft(flags: PrepareFlags, scan: BackgroundScan, choices: Choices) -> _Draft:
    folder = scan.wait()
    chosen = choices.dataset_yaml
    if chosen is not None and flags.field_map is not None:  # proposals and answers to prompts are resolved
        chosen = replace(chosen, field_map=resolved_fields(chosen.field_map or {}, folder.contents))
        choices = replace(choices, dataset_yaml=chosen)
    if choices.split is not None:
        choices = replace(choices, split=with_flags(flags, choices.split))
    # Plan the split, and count the samples of its parts.
    planned: PlannedSplit | None = None
    samples: dict[str, int] = {}
    if choices.split is not None:
        planned = plan_split(folder.storage, choices.split, list(folder.sizes))
        counts = planned.counts(scan.prepare.index.shards, storage=folder.storage)
        samples = {name: count for name, (_, count) in counts.items()}
    # A range of few samples may round to nothing.
    divided = () if planned is None else planned.ranges
    empty = [f"part {name!r} is empty: the shards have too few samples" for name in divided if not samples[name]]
    warnings = list[str]()
    if chosen is not None:
        warnings = field_map_warnings(chosen, folder, trust_code=flags.ref.trust_code)
        warnings += coverage_warnings(chosen, folder.contents)
    notes, conflicts = _further_notes(flags, folder), folder.contents.conflicts
    if not flags.tar_index_only:
        notes = [*choice_notes(folder, choices), *notes]
    return _Draft(
        flags=flags,
        folder=folder,
        choices=choices,
        files=choice_files(folder, choices, name=flags.ref.dataset_file),
        notes=notes,
        further_notes=[note for note in notes if note not in conflicts],
        warnings=[*warnings, *empty],
        part_sets=scan.prepare.index.part_sets.to_document(),
        split=planned,
        split_samples=samples,
    )


def _further_notes(flags: PrepareFlags, folder: ShardFolder) -> list[str]:
    path, has_tars = flags.ref.path, next(iter(folder.sizes)).endswith(".tar")
    if not has_tars and content_of_folder(path) == "tables":  # never at a URL
        return [f"only tables are indexed; to import all files here, {import_hint(path)}"]
    if flags.ref.find_meta().origin == "data":
        if is_url(path) and flags.plan.compat is None and not flags.plan.media:
            return ["without --compat, object stores get no .tar.idx and index.sqlite, which other tools need"]
        return []
    return ["--meta-folder writes nothing next to the shards: no .tar.idx and index.sqlite, which other tools need"]


def _decompress(flags: PrepareFlags, console: Console) -> DecompressReport:
    with ProgressBar("Decompressing", unit="bytes") as bar:
        report = decompress_shards(
            open_storage(flags.ref.path),
            exclude=flags.plan.exclude,
            remove_originals=flags.remove_originals,
            workers=flags.plan.workers,
            dry_run=flags.dry_run,
            on_progress=bar.update,
        )
    if flags.dry_run:
        for name in report.written:
            console.print(f"would decompress a shard to {escape_controls(name)}")
        return report
    pieces = [f"decompressed {plural(len(report.written), 'shard')} ({format_bytes(report.size_bytes)})"]
    pieces += [f"{plural(report.kept, 'shard')} decompressed before"] if report.kept else []
    pieces += [f"removed {plural(report.removed, 'compressed shard')}"] if report.removed else []
    console.print(", ".join(pieces))
    return report


def _is_confirmed(draft: _Draft, console: Console, history: AnswerHistory) -> bool:
    """Prompt for the confirmation; return False to prompt for the choices again."""
    if draft.split_samples:
        show_split_line(console, draft.split_samples, draft.choices.split)
    show_files(console, draft.files, folder=draft.flags.ref.find_meta().path)
    return history.confirm(f"Index {plural(len(draft.folder.sizes), 'shard')} and write this?")


def _show_draft(draft: _Draft, console: Console, account: Account) -> None:
    # Input that would be left out comes first: --strict ends with it.
    path, folder = draft.flags.ref.path, draft.folder
    show_account(account)
    if draft.flags.plan.strict:
        account.check_complete(at=path)
    # Print the plan as JSON, or as text.
    planned = draft.split
    warnings = [*draft.warnings, *(planned.warnings if planned is not None else ())]
    size_bytes = sum(folder.sizes.values())
    if draft.flags.as_json:
        document = facts_of(
            draft,
            "flags.ref.path flags.dry_run shards bytes split sample_ranges files part_sets warnings notes account",
            shards=len(folder.sizes),
            bytes=size_bytes,
            split=None if planned is None else planned.parts,
            sample_ranges={} if planned is None else planned.ranges,
            warnings=warnings,
            account=account,
        )
        print_json(document)
        return
    shards = plural(len(folder.sizes), "shard")
    console.print(f"would prepare {escape_controls(path)}: {shards}, {format_bytes(size_bytes)}")
    show_part_sets(console, draft.part_sets, folder.contents)
    if planned is not None:
        show_split(console, planned, folder.sizes, draft.choices.split)
    show_files(console, draft.files, folder=draft.flags.ref.find_meta().path)
    show_warning(*warnings)
    show_note(*draft.further_notes)
