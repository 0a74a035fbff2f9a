"""Copy samples with a progress bar, and report what was written: ``energon extract`` and ``energon export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loader.convert.exporting import ExportRequest


def copy_samples(request: ExportRequest, *, progress: bool | None, as_json: bool) -> None:
    """Copy the samples of a request, and print a note or JSON."""
    from loader.convert.exporting import export_samples
    from loader.inspect import format_bytes, plural

    from ..account import show_account
    from ..console import print_json, show_note
    from ..progress import ProgressBar

    with ProgressBar("Copying samples", unit="samples", enabled=progress) as bar:
        report = export_samples(request, bar.update)
    for note in report.notes:
        show_note(note)
    show_account(report.account)
    if as_json:
        document = {"samples": report.samples, "size_bytes": report.size_bytes, "output": report.output}
        print_json({**document, "account": report.account.to_document()})
    else:
        show_note(f"wrote {plural(report.samples, 'sample')}, {format_bytes(report.size_bytes)}, to {report.output}")
