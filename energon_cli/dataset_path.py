"""Check the path and the names of files that a command line gives."""

from __future__ import annotations

import os

import click

__all__ = ["check_path", "given_name"]


def check_path(path: str) -> None:
    """Stop at what is no folder, JSONL file or metadataset, and say what it is.

    A folder that is missing is left to whoever opens it.

    Raises:
        click.UsageError: The path is empty, or names another kind of file.
        StorageError: The path names a JSONL or YAML file that does not exist.
    """
    from loader.errors import StorageError
    from loader.format.documents import is_jsonl, is_metadataset

    if not path:
        raise click.UsageError("PATH is empty. Is a variable of the shell not set?")
    is_document = is_jsonl(path) or is_metadataset(path)
    if is_document and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, hint="check the path")
    if not os.path.isfile(path) or is_jsonl(path):
        return
    folder = os.path.dirname(path)
    if os.path.basename(folder) == ".nv-meta":
        dataset = os.path.join(os.path.dirname(folder) or ".", "")
        raise click.UsageError(f"{path} is a file inside a dataset; give the dataset's folder: {dataset}")
    if not is_metadataset(path):
        raise click.UsageError(
            f"{path}: this is a file; give the folder that holds it: {os.path.join(folder or '.', '')}"
        )


def given_name(parameter: str, value: str) -> str | None:
    """Give the value of a flag that names a config; None where the command line does not have the flag.

    A metadataset says itself which configs of its datasets count, unless the user does.
    """
    source = click.get_current_context().get_parameter_source(parameter)
    return None if source is click.core.ParameterSource.DEFAULT else value
