"""Check the paths and file names on the command line."""

from __future__ import annotations

import os

import click

__all__ = ["check_path", "given_name"]


def check_path(path: str) -> str:
    """Return the path of a folder, a file of samples or a metadataset; raise for other paths.

    A prefix of a pair of token files becomes the path of its ``.bin`` file. A missing folder passes: opening it raises
    with a better message.

    Raises:
        click.UsageError: The path is empty, or names another kind of file.
        StorageError: The path names a file of samples or YAML file that does not exist.
    """
    from loader.errors import StorageError
    from loader.format.documents import data_path, is_metadataset, is_record_file

    if not path:
        raise click.UsageError("PATH is empty. Check whether a shell variable is unset.")
    path = data_path(path)
    is_document = is_record_file(path) or is_metadataset(path)
    if is_document and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, hint="check the path")
    if not os.path.isfile(path) or is_record_file(path):
        return path
    folder = os.path.dirname(path)
    if os.path.basename(folder) == ".nv-meta":
        dataset = os.path.join(os.path.dirname(folder) or ".", "")
        raise click.UsageError(f"{path} is a file inside a dataset; pass the dataset's folder: {dataset}")
    if not is_metadataset(path):
        raise click.UsageError(f"{path} is a file; pass the folder that contains it: {os.path.join(folder or '.', '')}")
    return path


def given_name(parameter: str, value: str) -> str | None:
    """Return a flag's value if the command line sets it, or None if it is the default.

    A metadataset names the configs of its datasets itself, so only an explicit flag overrides them.
    """
    source = click.get_current_context().get_parameter_source(parameter)
    return None if source is click.core.ParameterSource.DEFAULT else value
