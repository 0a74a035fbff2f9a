"""Small real datasets, and metadatasets over them, for the tests of the commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from energon_cli.main import main
from tests.cli.make_dataset import caption_parts, write_captions

JOINER = {"__module__": "no_such_module", "__class__": "Joined"}


def write_datasets(folder: Path) -> Path:
    """The datasets a and b (6 samples train, 3 val, 3 test each), two lines of text, files, and shards as they come.

    Sample 000004 of b, which is in train, has a picture that is none.
    """

    def with_one_broken(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE html>"} if number == 4 else {})

    write_captions(folder / "a")
    write_captions(folder / "b", parts=with_one_broken)
    write_captions(folder / "raw", shards=1)
    (folder / "texts.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (folder / "files").mkdir()
    for name in ("a", "b"):
        assert main(["prepare", str(folder / name), "--yes", "--num-workers", "1"]) == 0
    assert main(["prepare", str(folder / "texts.jsonl")]) == 0
    return folder


def copy_datasets(datasets: Path, folder: Path) -> Path:
    """Copy the folder of :func:`write_datasets`, for a test that changes it."""
    return Path(shutil.copytree(datasets, folder / "copy"))


def write_mix(folder: Path, name: str = "mix.yaml", **splits: Any) -> Path:
    """Write a metadataset of these splits; a list is a blend."""
    document = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {name: {"blend": split} if isinstance(split, list) else split for name, split in splits.items()},
    }
    path = folder / name
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
