"""Import sources into prepared datasets, and read their samples."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image

from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.report import ImportReport
from loader.convert.importing.run import run_import
from loader.convert.sources.source import ImportSource
from loader.dataset.opening import folder_at

Samples = dict[str, dict[str, bytes]]


def picture(number: int, form: str = "JPEG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (20, 10), (number % 256, 99, 7)).save(data, form)
    return data.getvalue()


def imported(source: ImportSource, output: Path, **settings: Any) -> tuple[Samples, ImportReport]:
    """Import a source; return the samples of the dataset by key, and the report."""
    report = run_import(ImportPlan(sources=(source,), output=str(output), **settings))
    folder = folder_at(str(output))
    try:
        samples = {folder.index.key(number): dict(folder.read_parts(number)) for number in range(len(folder.index))}
    finally:
        folder.close()
    return samples, report


def reasons(report: ImportReport) -> dict[str, str]:
    """Return the reasons of the rows that failed by their places."""
    return {failure.origin: failure.reason for failure in report.failures}
