"""Import sources as the command does, with the sample type that it proposes, and load the samples."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from loader import WorkerConfig, get_loader, get_train_dataset
from loader.convert.importing.pictures import PictureOptions
from loader.convert.importing.plan import ImportPlan, list_rows
from loader.convert.importing.report import ImportReport
from loader.convert.importing.run import run_import
from loader.convert.importing.write_shard import write_trial
from loader.convert.rows.row import FaultRef, Row
from loader.convert.sources.source import ImportSource, Listing
from loader.inspect import OpenChoices, choice_files, inspect_folder, propose_choices


def write_picture(path: Path, number: int = 0) -> Path:
    """Write a picture of 4 by 3 pixels whose red value is the number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = io.BytesIO()
    Image.new("RGB", (4, 3), (number, 0, 0)).save(data, "PNG" if path.suffix.lower() == ".png" else "JPEG")
    path.write_bytes(data.getvalue())
    return path


def rows_of(source: ImportSource) -> list[Row]:
    return [*source.rows(Listing(scratch="/nowhere"))]


def faults_of(rows: list[Row]) -> dict[str, str]:
    """Return the reason of each row that fails, by its place."""
    return {row.origin: part.reason for row in rows for part in row.parts.values() if isinstance(part, FaultRef)}


def import_source(
    source: ImportSource, output: Path, *, max_failures: float = 0, pictures: PictureOptions | None = None
) -> ImportReport:
    """Import a source with the type that the command proposes."""
    pictures = pictures or PictureOptions()
    with list_rows([source], shuffled=False) as listed, write_trial(listed, pictures) as trial:
        folder = inspect_folder(trial, other_parts=[*listed.part_counts])
        choices = propose_choices(OpenChoices(folder, ask_split=False))
        plan = ImportPlan(
            sources=(source,),
            output=str(output),
            pictures=pictures,
            max_failures=max_failures,
            files=choice_files(folder, choices, name="dataset.yaml"),
        )
        return run_import(plan, listed=listed)


def load(output: Path, count: int) -> dict[str, Any]:
    """Return all samples, by their keys, and check their number."""
    dataset = get_train_dataset(
        output,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1),
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        trust_code=True,
    )
    samples = list(get_loader(dataset))
    assert len(samples) == count
    return {str(key_of(sample)).partition(".tar/")[2]: sample for sample in samples}


def key_of(sample: Any) -> Any:
    return sample["__key__"] if isinstance(sample, dict) else sample.__key__


def red(picture: Any) -> int:
    """Return the number that :func:`write_picture` wrote."""
    return round(float(picture[0].mean()) * 255)


def field_map_of(output: Path) -> dict[str, str]:
    """Return the field map that an import has proposed and written."""
    return dict(yaml.safe_load((output / ".nv-meta/dataset.yaml").read_text())["field_map"])
