"""Check the paths of datasets that are named on the command line."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from loader.errors import StorageError

from .console import show_note

if TYPE_CHECKING:
    from loader.format import DatasetRef


def check_path(path: str) -> str:
    """Return the path of a folder, a file of samples or a metadataset, as :func:`check_ref` does."""
    from loader.format import DatasetRef

    return check_ref(DatasetRef(path), takes_tar=False).path


def check_ref(ref: DatasetRef, *, takes_tar: bool = True) -> DatasetRef:
    """Return the reference of a folder, a file of samples or a metadataset; raise for other paths.

    A ``file://`` URL becomes a path, and the prefix of a pair of token files the path of its ``.bin`` file. A missing
    folder passes, and a missing file of an object store: opening it raises with a better message.
    """
    from loader.format import data_path, is_tar_file
    from loader.format.documents import fault_of_file
    from loader.storage import hint_of_missing, is_url, split_url

    if not ref.path:
        raise click.UsageError("PATH is empty. Check whether a shell variable is unset.")
    # Write the path as the library does.
    protocol, rest = split_url(ref.path)
    path = f"{protocol}://{rest.rstrip('/')}" if protocol else data_path(rest)
    ref = replace(ref, path=path)
    if ref.meta_folder == "":
        raise click.BadParameter("this is empty; check whether a shell variable is unset", param_hint="--meta-folder")
    # A file that does not exist, and a meta folder of data that have none, are refused.
    kind, is_tar = ref.kind, takes_tar and is_tar_file(path)
    is_document = kind.format != "folder"
    is_pair = path.endswith(".bin") and os.path.exists(path.removesuffix("bin") + "idx")  # opening it names what lacks
    if (is_document or path.endswith(".tar")) and not is_pair and not is_url(path) and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, hint=hint_of_missing(path))
    if (is_document or is_tar) and ref.folder_flags:
        better = " Set meta_folder at its datasets." if kind.is_mix else ""
        raise click.UsageError(f"--meta-folder is valid only for folders.{better}")
    # What can be opened passes; what is another file is named with the path to pass instead.
    if kind.is_file or is_tar:
        return ref
    from loader.prepare import is_compressed_tar

    is_named_file = path.endswith(".tar") or is_compressed_tar(path)  # opening a URL shows the rest
    if not (is_named_file if is_url(path) else os.path.isfile(path)):
        return ref

    folder = os.path.dirname(path)
    # The message depends on what the file is.
    if os.path.basename(folder) == ".nv-meta":
        dataset = os.path.join(os.path.dirname(folder) or ".", "")
        raise click.UsageError(f"{path} is a file inside a dataset; pass the dataset's folder: {dataset}")
    if is_compressed_tar(path):
        command = f"energon prepare {shlex.quote(folder or '.')} --decompress"
        raise click.UsageError(
            f"{path} is compressed, so samples cannot be read from the middle of it. Decompress it: {command}"
        )
    if not kind.is_mix:
        fault = None if path.endswith(".tar") else fault_of_file(path)
        if fault is not None:
            raise click.UsageError(f"{path}: {fault[0]}. {fault[1][:1].upper()}{fault[1][1:]}")
        raise click.UsageError(f"{path} is a file; pass the folder that contains it: {os.path.join(folder or '.', '')}")
    return ref


def writable(ref: DatasetRef, **how: bool) -> DatasetRef:
    """Return the reference under which metadata are written; a note names the folder that read-only data get.

    The datasets of a metadataset get folders, too, where they are found by their paths.
    """
    from loader.dataset import writable_ref
    from loader.metadataset import named_datasets

    for dataset in named_datasets([ref]) if ref.kind.is_mix and not how else ():
        writable(dataset.ref)
    written = writable_ref(ref, **how)
    if written is not ref:
        show_note(f"{ref.path} is read-only: its metadata are kept in {written.meta_folder}")
    return written
