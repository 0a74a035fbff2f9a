"""Check the paths on the command line, and add the options about the documents of the datasets there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from .options import shared_options

if TYPE_CHECKING:
    from loader.format import DatasetRef


def check_path(path: str) -> str:
    """Return the path of a folder, a file of samples or a metadataset, as :func:`check_ref` does."""
    from loader.format import DatasetRef

    return check_ref(DatasetRef(path), takes_tar=False).path


def check_ref(ref: DatasetRef, *, takes_tar: bool = True) -> DatasetRef:
    """Return the reference of a folder, a file of samples or a metadataset; raise for other paths.

    A ``file://`` URL becomes a path, and a prefix of a pair of token files that of its ``.bin`` file. A missing folder
    passes, and a missing file of an object store: opening it raises with a better message.

    Args:
        ref: The path on the command line, and the choices about its documents.
        takes_tar: A tar file passes, too.

    Raises:
        click.UsageError: The path is empty, or names another kind of file; or a meta folder does not apply to it.
        StorageError: The path names a file of samples, tar or YAML file that does not exist.
    """
    from loader.errors import StorageError
    from loader.format.documents import data_path, fault_of_file, is_metadataset, is_record_file, is_tar_file
    from loader.storage import hint_of_missing, is_url, split_url

    if not ref.path:
        raise click.UsageError("PATH is empty. Check whether a shell variable is unset.")
    protocol, rest = split_url(ref.path)
    path = f"{protocol}://{rest.rstrip('/')}" if protocol else data_path(rest)
    ref = replace(ref, path=path)
    if ref.folder == "":
        raise click.BadParameter("this is empty; check whether a shell variable is unset", param_hint="--meta-folder")
    is_document = is_record_file(path) or is_metadataset(path)
    is_pair = path.endswith(".bin") and os.path.exists(path.removesuffix("bin") + "idx")  # opening it names what lacks
    if (is_document or path.endswith(".tar")) and not is_pair and not is_url(path) and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, hint=hint_of_missing(path))
    if (is_document or (takes_tar and is_tar_file(path))) and ref.has_other_folder:
        better = " Set meta_folder at its datasets." if is_metadataset(path) else ""
        raise click.UsageError(f"--meta-folder is valid only for folders.{better}")
    if is_record_file(path) or (takes_tar and is_tar_file(path)):
        return ref
    from loader.format.prepare import is_compressed_tar

    is_named_file = path.endswith(".tar") or is_compressed_tar(path)  # opening a URL shows the rest
    if not (is_named_file if is_url(path) else os.path.isfile(path)):
        return ref

    folder = os.path.dirname(path)
    if os.path.basename(folder) == ".nv-meta":
        dataset = os.path.join(os.path.dirname(folder) or ".", "")
        raise click.UsageError(f"{path} is a file inside a dataset; pass the dataset's folder: {dataset}")
    if is_compressed_tar(path):
        command = f"energon prepare {shlex.quote(folder or '.')} --decompress"
        raise click.UsageError(
            f"{path} is compressed, so samples cannot be read from the middle of it. Decompress it: {command}"
        )
    if not is_metadataset(path):
        fault = None if path.endswith(".tar") else fault_of_file(path)
        if fault is not None:
            raise click.UsageError(f"{path}: {fault[0]}. {fault[1][:1].upper()}{fault[1][1:]}")
        raise click.UsageError(f"{path} is a file; pass the folder that contains it: {os.path.join(folder or '.', '')}")
    return ref


_DOCUMENTS = ("dataset_config", "split_config", "meta_folder", "trust_code")
_ON_REQUEST = ("dataset_config", "trust_code")


def dataset_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds ``--split-config``, ``--meta-folder`` and other options about the datasets at PATH.

    The function gets PATH with these choices as ``ref``, of which ``check_ref`` checks the path; for several paths, as
    ``refs``. A metadataset names the documents of its datasets itself, so only an explicit flag overrides them.

    Args:
        names: The other ones: ``dataset_config``, ``trust_code``.
    """
    every = [name for name in _DOCUMENTS if name in names or name not in _ON_REQUEST]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @shared_options(*every)
        @wraps(function)
        def with_ref(*arguments: Any, **options: Any) -> None:
            from loader.format import DatasetRef

            given = {name: options.pop(name) for name in every}
            source = click.get_current_context().get_parameter_source
            for name in ("dataset_config", "split_config"):
                if name in given and source(name) is click.core.ParameterSource.DEFAULT:
                    given[name] = None
            if "paths" in options:
                options["refs"] = tuple(DatasetRef(path, **given) for path in options.pop("paths"))
            else:
                options["ref"] = DatasetRef(options.pop("path"), **given)
            function(*arguments, **options)

        return with_ref

    return decorate
