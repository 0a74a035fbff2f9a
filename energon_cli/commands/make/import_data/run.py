"""Run ``energon import``: list the samples, resolve the choices, write the dataset and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from loader.convert.importing import (
    ImportPlan,
    ImportProgress,
    ImportReport,
    ListedRows,
    NoReadableRowsError,
    StrayCoordinatesError,
    check_output,
    list_rows,
    run_import,
    write_failures,
    write_trial,
)
from loader.convert.rows import FileAccess
from loader.convert.sources import UnclearDataError, compared_hypotheses, found_columns, open_sources
from loader.errors import EnergonError, escape_controls, plural
from loader.format.documents import quoted
from loader.inspect import (
    Choices,
    ShardFolder,
    choice_files,
    choice_notes,
    field_map_warnings,
    format_bytes,
    format_percent,
    inspect_folder,
    print_table,
)
from loader.prepare import DatasetYaml
from loader.storage import open_storage

from ....console import error_console, facts_of, output_console, print_json, show_account, show_note, show_warning
from ....progress import ProgressBar
from ....settings import output_settings
from ..prepare.report import show_dataset, show_files, show_first_sample
from ..prompts import AnswerHistory, no_echo
from .choices import ImportFlags, resolve_choices, settle_outside_files, settle_urls
from .decision import choose_way, decisions, hypotheses_documents, show_hypotheses

if TYPE_CHECKING:
    from rich.console import Console

    from loader.convert.rows import ShardLayout
    from loader.convert.sources import ImportSource
    from loader.convert.tables import FoundColumn
    from loader.inspect import SampledContents

_SHOWN_FAILURES = 3
_CHANGES = {
    "bits_scaled": "{} of more than 8 bits or of floats: their values were scaled to fewer bits",
    "alpha_composed": "{} with transparent pixels: composed on the background",
    "frames_dropped": "{} of several frames: only the first was written",
    "cmyk_converted": "{} of CMYK: converted to RGB",
    "frames_unread": "{} of several frames or pages: written whole, but training reads the first of each; --pages split"
    " makes parts of the pages of a TIFF",
    "geometry_moved": "{} of coordinates: moved with their picture",
    "geometry_ignored": "{} of coordinates: written as they are, while their picture was resized or turned",
    "sizes_kept": "{} with the width and height that a picture had before: written as they are",
    "numbers_lost": "{} with NaN or infinite numbers, which JSON does not have: null was written",
    "segments_shortened": "{} with an end up to half a second after the end of the recording: cut there",
}
"""What :attr:`ImportReport.changed` counts, for people."""


def show_found(console: Console, flags: ImportFlags, listed: ListedRows, first: SampledContents) -> None:
    """Print the number of samples, the coverage of each part name and the first sample."""
    rows = len(listed.rows)
    kinds = ", ".join(dict.fromkeys(source.kind for source in listed.sources))
    about = "" if listed.are_sizes_known else "about "
    size = f", {about}{format_bytes(listed.size_bytes)}" if listed.size_bytes else ""
    names = " ".join(map(escape_controls, flags.sources))
    console.print(f"{names} ({kinds}): {plural(rows, 'sample')}{size}")
    for decision in decisions(listed.sources) if not flags.dry_run else ():
        console.print(decision)
    for _, columns in found_columns(listed.sources):
        _show_columns(console, columns)
    coverage = ", ".join(
        f"{escape_controls(name)} {format_percent(count / rows)}" for name, count in listed.part_counts.most_common()
    )
    console.print(f"parts: {coverage}")
    if listed.rows.renamed:
        console.print(f"{plural(len(listed.rows.renamed), 'key')} of an earlier sample: each gets a number")
    show_note(*listed.notes)
    if flags.asks_by_menus:
        show_first_sample(console, first)


def _show_columns(console: Console, columns: Sequence[FoundColumn]) -> None:
    rows = []
    for column in columns:
        use = column.role if column.part is None else f"{column.part} ({column.role})"
        rows.append((column.name, use, ", ".join(column.examples)))
    print_table(console, ("column", "becomes", "first values"), rows)


def _columns_document(sources: Sequence[ImportSource]) -> list[dict[str, Any]]:
    """Return the columns of tables, and what becomes of each, without columns of the role ``not written``."""
    return [
        facts_of(column, "source column=name type role part", source=path)
        for path, columns in found_columns(sources)
        for column in columns
    ]


def show_done(console: Console, path: str, report: ImportReport) -> None:
    """Print the report of an import."""
    prepared = report.prepared
    kept = f", {plural(report.resumed, 'shard')} written before" if report.resumed else ""
    show_dataset(console, f"imported to {escape_controls(path)}", prepared, seconds=report.seconds, kept=kept)
    unsplit = prepared.samples - sum(samples for _, samples in prepared.split.values())
    if unsplit > 0:
        show_warning(f"{plural(unsplit, 'sample is', 'samples are')} in no split part, since the source names none")
    if report.failed:
        show_warning(_failures_line(report))
    show_warning(*prepared.warnings)
    show_note(*describe_changes(report.changed, report.first_changed))


def describe_changes(changed: Mapping[str, int], first_changed: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each kind of change that an import made, and counted."""
    for name, text in _CHANGES.items():
        if changed.get(name):
            unit = "document" if name.startswith(("geometry", "sizes", "numbers")) else "picture"
            unit = "segment" if name.startswith("segments") else unit
            at = f", first {first_changed[name]}" if name in first_changed else ""
            yield f"{text.format(plural(changed[name], unit))}{at}"


def _failures_line(report: ImportReport) -> str:
    shown = "; ".join(f"{failure.origin}: {failure.reason}" for failure in report.failures[:_SHOWN_FAILURES])
    more = "; …" if report.failed > _SHOWN_FAILURES else ""
    return f"{plural(report.failed, 'sample')} failed, listed in {report.failures_file}: {shown}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    ratio: Mapping[str, float] | None  # of split parts; None for the split of the sources
    chosen: DatasetYaml | None
    files: Mapping[str, str]  # of .nv-meta, name → text
    notes: list[str]
    warnings: list[str]


def import_sources(flags: ImportFlags) -> None:
    """Import sources, with prompts where the flags leave choices open, and print a report."""
    console = error_console() if flags.as_json else output_console()
    with ExitStack() as stack:
        stack.enter_context(no_echo(enabled=flags.asks_by_menus))
        # List the samples of all sources; again if files outside are allowed, or URLs are to be text.
        flags, listed = _listed(flags, console, stack)
        plan = flags.plan
        # Write a few samples to a temporary folder, from which the type is proposed.
        try:
            trial = stack.enter_context(
                write_trial(listed, plan.pictures, downloads=plan.downloads, max_failures=plan.max_failures)
            )
        except StrayCoordinatesError as error:
            raise click.UsageError(f"{error.message} ({error.at})") from error
        except NoReadableRowsError as error:
            if not flags.dry_run and len(error.failures) > 1:
                write_failures(open_storage(flags.output), error.failures)
                error.hint = f"{flags.output}/.nv-meta/import_failures.jsonl lists them"
            raise
        # Later samples may have other parts, whose names are those of their files unless pictures are encoded again.
        is_named_alike = plan.pictures.format is None and plan.pictures.pages != "split"
        other_parts = [*listed.part_counts] if is_named_alike else []
        folder = _without_shard(inspect_folder(trial, other_parts=other_parts))
        if not flags.as_json:
            show_found(console, flags, listed, folder.contents)
        draft = _confirmed_draft(flags, listed, folder, console)
        # Plan the shards, and write them.
        layout = replace(plan.layout, split_ratio=draft.ratio)
        draft.notes.extend(listed.notes_on_split(layout))
        if flags.dry_run:
            _show_dry_run(flags, listed, layout, draft, console)
            return
        with flags.engine.open() as opened:
            plan = replace(plan, sources=listed.sources, layout=layout, files=draft.files, engine=opened)
            report = _run(plan, listed)
    # Report.
    if flags.as_json:
        show_account(report.account)
        document = facts_of(
            report,
            "output hypotheses columns prepared.samples prepared.shards bytes=size_bytes prepared.split failed "
            "failures failures_file renamed changed first_changed written resumed files prepared.compat prepared.uuid "
            "seconds prepared.warnings notes account",
            output=flags.output,
            hypotheses=hypotheses_documents(compared_hypotheses(listed.sources), 1),
            columns=_columns_document(listed.sources),
            files=sorted(draft.files),
            seconds=round(report.seconds, 3),
            notes=[*listed.notes, *draft.notes],
        )
        print_json(document)
        return
    show_done(console, flags.output, report)
    if draft.chosen is not None:
        fields = ", ".join(f"{field} ← {expression}" for field, expression in (draft.chosen.field_map or {}).items())
        console.print(f"sample type: {draft.chosen.spec.written_name}{fields and f' ({fields})'}")
    show_account(report.account)
    show_note(*draft.notes)
    console.print(f"to look at samples, run: energon preview {quoted(flags.output)}")


def _listed(flags: ImportFlags, console: Console, stack: ExitStack) -> tuple[ImportFlags, ListedRows]:
    """List the samples, and again after decisions that change them; return the flags with the decisions."""
    while True:
        access = FileAccess(allow_outside=bool(flags.allow_outside), follow_links=bool(flags.follow_links))
        with ExitStack() as inner:
            try:
                listed: ListedRows | EnergonError = _list(flags, access, inner)
            except EnergonError as error:  # what is missing may be what was refused
                listed = error
            settled = settle_outside_files(flags, access)
            if settled == flags or not (settled.allow_outside or settled.follow_links):
                if isinstance(listed, UnclearDataError):
                    flags = choose_way(settled, listed, console)
                    continue
                if isinstance(listed, EnergonError):
                    raise listed
                flags, settled = settled, settle_urls(settled, listed)
                if settled.columns == flags.columns:
                    stack.push(inner.pop_all())
                    return settled, listed
        flags = settled


def _list(flags: ImportFlags, access: FileAccess, stack: ExitStack) -> ListedRows:
    sources = open_sources(flags.sources, kind=flags.kind, options=replace(flags.columns, access=access))
    if not flags.dry_run:
        # A person learns before the questions that the folder has a dataset.
        check_output(flags.output, sources=flags.sources, command="" if flags.asks_by_menus else "import")
    with ProgressBar("Listing samples", unit="samples") as bar:
        is_shuffled = flags.plan.layout.shuffle_seed is not None
        return stack.enter_context(
            list_rows(sources, shuffled=is_shuffled, on_progress=lambda done: bar.update(done, None))
        )


def _without_shard(folder: ShardFolder) -> ShardFolder:
    """Name samples by their keys alone: their shard is temporary."""
    sampled = folder.contents
    examples = [(key.partition("/")[2], parts) for key, parts in sampled.examples]
    contents = replace(sampled, key=sampled.key.partition("/")[2], examples=examples, are_first=True, warnings=())
    return replace(folder, contents=contents)


def _confirmed_draft(flags: ImportFlags, listed: ListedRows, folder: ShardFolder, console: Console) -> _Draft:
    history = AnswerHistory()
    while True:
        # Resolve the choices.
        choices = resolve_choices(flags, listed, folder, console, history)
        chosen, warnings = Choices(dataset_yaml=choices.dataset_yaml), list[str]()
        if choices.dataset_yaml is not None:
            warnings = field_map_warnings(choices.dataset_yaml, folder)
        files = choice_files(folder, chosen, name="dataset.yaml")
        if not flags.as_json:
            show_warning(*warnings)
        # Prompt for a confirmation, or for the choices again.
        if flags.asks_by_menus:
            show_files(console, files, folder=".nv-meta")
            size = f", about {format_bytes(listed.size_bytes)}," if listed.size_bytes else ""
            if not history.confirm(f"Write {plural(len(listed.rows), 'sample')}{size} to {flags.output}?"):
                continue
        notes = choice_notes(folder, chosen)
        ratio = None if choices.split is None else choices.split.ratio
        return _Draft(ratio=ratio, chosen=choices.dataset_yaml, files=files, notes=notes, warnings=warnings)


def _show_dry_run(flags: ImportFlags, listed: ListedRows, layout: ShardLayout, draft: _Draft, console: Console) -> None:
    # Plan the shards, and print the plan as JSON or as text.
    parts = listed.plan(layout)
    if flags.as_json:
        document = facts_of(
            listed,
            "output dry_run sources hypotheses columns samples bytes=size_bytes parts=part_counts renamed split files "
            "notes warnings account",
            output=flags.output,
            dry_run=True,
            sources=[facts_of(source, "path kind") for source in listed.sources],
            hypotheses=hypotheses_documents(compared_hypotheses(listed.sources)),
            columns=_columns_document(listed.sources),
            samples=len(listed.rows),
            renamed=len(listed.rows.renamed),
            split={part.name: facts_of(part, "samples shards") for part in parts},
            files=draft.files,
            notes=[*listed.notes, *draft.notes],
            warnings=draft.warnings,
        )
        print_json(document)
    else:
        show_hypotheses(console, compared_hypotheses(listed.sources), is_taken=True)
        console.print(f"would write to {escape_controls(flags.output)}:")
        for part in parts:
            counts = f"{plural(part.samples, 'sample')} in {plural(part.shards, 'shard')}"
            console.print(f"  {escape_controls(part.name)}: {counts}")
        show_files(console, draft.files, folder=f"{flags.output}/.nv-meta")
        show_note(*draft.notes)
    # Show what would be left out; --strict refuses it.
    show_account(listed.account)
    if flags.plan.strict:
        listed.account.check_complete(at=flags.output)


def _run(plan: ImportPlan, listed: ListedRows) -> ImportReport:
    resumed_before = False
    with ProgressBar("Writing shards", unit="samples") as bar:

        def advance(now: ImportProgress) -> None:
            nonlocal resumed_before
            if now.resumed and not resumed_before and output_settings().progress is not False:
                resumed_before = True
                show_note("resumed: shards that an earlier run has written are kept")
            bar.update(now.samples, now.samples_total)

        return run_import(plan, listed=listed, on_progress=advance)
