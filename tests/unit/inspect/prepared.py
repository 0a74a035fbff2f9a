"""A prepared dataset for the tests of ``loader.inspect``."""

from __future__ import annotations

from pathlib import Path

from loader.format.documents import SAMPLE_TYPES
from loader.inspect import Choices, choice_files, inspect_folder
from loader.prepare import DatasetYaml, PreparePlan, SplitRequest, parse_ratio, run_prepare
from tests.cli.make_dataset import write_captions

CAPTIONING = next(spec for spec in SAMPLE_TYPES.values() if spec.short_name == "Captioning")


def prepare_captions(folder: Path, field_map: dict[str, str] | None = None) -> str:
    """Write and prepare four shards of three captioned pictures: two shards train, one val, one test."""
    path = str(write_captions(folder))
    chosen = DatasetYaml(spec=CAPTIONING, field_map=field_map or {"image": "jpg", "caption": "txt"})
    choices = Choices(split=SplitRequest(ratio=parse_ratio("8,1,1")), dataset_yaml=chosen)
    files = choice_files(inspect_folder(path), choices, name="dataset.yaml")
    run_prepare(PreparePlan(path=path, split=choices.split, files=files))
    return path
