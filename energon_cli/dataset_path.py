"""What kind of dataset a path names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from loader.storage import Storage

__all__ = ["check_path", "is_jsonl", "open_parent"]


def is_jsonl(path: str) -> bool:
    """Tell whether a path names a JSONL file.

    >>> is_jsonl("/data/texts.jsonl"), is_jsonl("/data/texts.jsonl/")
    (True, False)
    """
    return path.endswith(".jsonl")


def check_path(path: str) -> None:
    """Stop at what is neither a folder nor a JSONL file, and say what it is.

    A folder that is missing is left to whoever opens it.

    Raises:
        click.UsageError: The path is empty, or names another kind of file.
        StorageError: The path names a JSONL or YAML file that does not exist.
    """
    from loader.errors import StorageError

    if not path:
        raise click.UsageError("PATH is empty. Is a variable of the shell not set?")
    yaml = path.endswith((".yaml", ".yml"))
    if (yaml or is_jsonl(path)) and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, do="check the path")
    if not os.path.isfile(path) or is_jsonl(path):
        return
    folder = os.path.dirname(path)
    if os.path.basename(folder) == ".nv-meta":
        dataset = os.path.join(os.path.dirname(folder) or ".", "")
        raise click.UsageError(f"{path} is a file inside a dataset; give the dataset's folder: {dataset}")
    if yaml and _is_metadataset(path):
        raise click.UsageError(f"{path} is a metadataset; this version knows folders of shards and JSONL files.")
    raise click.UsageError(f"{path}: this is a file; give the folder that holds it: {os.path.join(folder or '.', '')}")


def _is_metadataset(path: str) -> bool:
    """Tell whether a YAML file has a line that only metadatasets have: their class, or their parts."""
    with open(path, "rb") as file:
        lines = file.read(1 << 20).splitlines()
    return any(line.startswith((b"splits:", b"__class__: Metadataset")) for line in lines)


def open_parent(path: str) -> tuple[Storage, str]:
    """Open the folder of a file; give it with the file's name."""
    from loader.storage import open_storage

    folder, name = os.path.split(path)
    return open_storage(folder or "."), name
