"""Output of ``energon import``: what was found, what is planned, and what was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loader.convert.sources import found_columns
from loader.errors import escape_controls
from loader.inspect import format_bytes, format_percent, plural, print_table

from ....console import show_note, show_warning
from ..prepare.report import show_first_sample
from .choices import ImportFlags

if TYPE_CHECKING:
    from rich.console import Console

    from loader.convert.importing import ImportReport, ListedRows, PlannedPart
    from loader.convert.sources import Source
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
    for _, columns in found_columns(listed.sources):
        _show_columns(console, columns)
    coverage = ", ".join(
        f"{escape_controls(name)} {format_percent(count / rows)}" for name, count in listed.part_counts.most_common()
    )
    console.print(f"parts: {coverage}")
    if listed.rows.renamed:
        console.print(f"{plural(len(listed.rows.renamed), 'key')} occur again, and get a number")
    show_note(*listed.notes)
    if flags.asks_by_menus:
        show_first_sample(console, first)


def _show_columns(console: Console, columns: Sequence[FoundColumn]) -> None:
    rows = []
    for column in columns:
        use = column.role if column.part is None else f"{column.part} ({column.role})"
        rows.append((column.name, use, ", ".join(column.examples)))
    print_table(console, ("column", "becomes", "first values"), rows)


def show_draft(console: Console, flags: ImportFlags, parts: Sequence[PlannedPart]) -> None:
    """Print the planned result (``--dry-run``)."""
    console.print(f"would write to {escape_controls(flags.output)}:")
    for part in parts:
        console.print(
            f"  {escape_controls(part.name)}: {plural(part.samples, 'sample')} in {plural(part.shards, 'shard')}",
        )


def draft_document(
    flags: ImportFlags,
    listed: ListedRows,
    parts: Sequence[PlannedPart],
    *,
    files: Mapping[str, str],
    notes: Sequence[str],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the ``--json`` document of a dry run; its keys are stable."""
    return {
        "output": flags.output,
        "dry_run": True,
        "sources": [{"path": source.path, "kind": source.kind} for source in listed.sources],
        "columns": _columns_document(listed.sources),
        "samples": len(listed.rows),
        "bytes": listed.size_bytes,
        "parts": listed.part_counts,
        "renamed": len(listed.rows.renamed),
        "split": {part.name: {"samples": part.samples, "shards": part.shards} for part in parts},
        "files": files,
        "notes": [*listed.notes, *notes],
        "warnings": warnings,
        "account": listed.account,
    }


def _columns_document(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the columns of tables, and what becomes of each, without columns of the role ``not written``."""
    return [
        {"source": path, "column": one.name, "type": one.type, "role": one.role, "part": one.part}
        for path, columns in found_columns(sources)
        for one in columns
    ]


def show_done(console: Console, path: str, report: ImportReport) -> None:
    """Print the report of an import."""
    prepared = report.prepared
    size = f"{plural(prepared.samples, 'sample')} in {plural(prepared.shards, 'shard')}"
    kept = f", {plural(report.resumed, 'shard')} written before" if report.resumed else ""
    console.print(
        f"imported to {escape_controls(path)}: {size} ({format_bytes(report.size_bytes)}) in"
        f" {report.seconds:.1f} s{kept}",
        style="green",
    )
    split = ", ".join(f"{escape_controls(name)} {samples:,}" for name, (_, samples) in prepared.split.items())
    console.print(f"split: {split} {'sample' if prepared.samples == 1 else 'samples'}")
    unsplit = prepared.samples - sum(samples for _, samples in prepared.split.values())
    if unsplit > 0:
        show_warning(f"in no split part: {plural(unsplit, 'sample')}, whose source names none")
    if report.failed:
        show_warning(_failures_line(report))
    show_warning(*prepared.warnings)
    show_note(*_changes(report))


def _changes(report: ImportReport) -> Iterator[str]:
    changed = report.changed
    for name, text in _CHANGES.items():
        if changed.get(name):
            unit = "document" if name.startswith(("geometry", "sizes")) else "picture"
            at = f", first {report.first_changed[name]}" if name in report.first_changed else ""
            yield f"{text.format(plural(changed[name], unit))}{at}"


def _failures_line(report: ImportReport) -> str:
    shown = "; ".join(f"{failure.origin}: {failure.reason}" for failure in report.failures[:_SHOWN_FAILURES])
    more = "; …" if report.failed > _SHOWN_FAILURES else ""
    return f"{plural(report.failed, 'sample')} failed, listed in {report.failures_file}: {shown}{more}"


def report_document(
    path: str, report: ImportReport, *, sources: Sequence[Source], files: Mapping[str, str], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the ``--json`` document of an import; its keys are stable."""
    prepared = report.prepared
    return {
        "output": path,
        "columns": _columns_document(sources),
        "samples": prepared.samples,
        "shards": prepared.shards,
        "bytes": report.size_bytes,
        "split": prepared.split,
        "failed": report.failed,
        "failures": report.failures,
        "failures_file": report.failures_file,
        "renamed": report.renamed,
        "changed": report.changed,
        "first_changed": report.first_changed,
        "written": report.written,
        "resumed": report.resumed,
        "files": sorted(files),
        "compat": prepared.compat,
        "uuid": prepared.uuid,
        "seconds": round(report.seconds, 3),
        "warnings": prepared.warnings,
        "notes": notes,
        "account": report.account,
    }
