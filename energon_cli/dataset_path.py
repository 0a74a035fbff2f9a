"""What kind of dataset a path names, told by the path alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from loader.storage import Storage

__all__ = ["is_jsonl", "open_parent", "refuse_metadataset"]


def is_jsonl(path: str) -> bool:
    """Tell whether a path names a JSONL file.

    >>> is_jsonl("/data/texts.jsonl"), is_jsonl("/data/texts.jsonl/")
    (True, False)
    """
    return path.endswith(".jsonl")


def refuse_metadataset(path: str) -> None:
    """Stop at a metadataset, which this version does not know yet.

    Raises:
        click.UsageError: The path names a YAML file.
    """
    if path.endswith((".yaml", ".yml")):
        raise click.UsageError(f"{path} is a metadataset; this version knows folders of shards and JSONL files.")


def open_parent(path: str) -> tuple[Storage, str]:
    """Open the folder of a file; give it with the file's name."""
    from loader.storage import open_storage

    folder, name = os.path.split(path)
    return open_storage(folder or "."), name
