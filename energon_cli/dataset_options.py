"""Options that name datasets, their documents and samples, such as ``--where``; and checks of paths."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from loader.errors import StorageError, escape_controls, plural

from .console import error_console, is_terminal, show_note
from .options import shared_options
from .progress import ProgressBar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from loader.dataset import Dataset
    from loader.format import DatasetRef
    from loader.format.columns import ComparedValues
    from loader.format.documents import ValueName


def check_path(path: str) -> str:
    """Return the path of a folder, a file of samples or a metadataset, as :func:`check_ref` does."""
    from loader.format import DatasetRef

    return check_ref(DatasetRef(path), takes_tar=False).path


def check_ref(ref: DatasetRef, *, takes_tar: bool = True) -> DatasetRef:
    """Return the reference of a folder, a file of samples or a metadataset; raise for other paths.

    A ``file://`` URL becomes a path, and the prefix of a pair of token files the path of its ``.bin`` file. A missing
    folder passes, and a missing file of an object store: opening it raises with a better message.
    """
    from loader.format.documents import data_path, fault_of_file, is_metadataset, is_record_file, is_tar_file
    from loader.storage import hint_of_missing, is_url, split_url

    if not ref.path:
        raise click.UsageError("PATH is empty. Check whether a shell variable is unset.")
    # Write the path as the library does.
    protocol, rest = split_url(ref.path)
    path = f"{protocol}://{rest.rstrip('/')}" if protocol else data_path(rest)
    ref = replace(ref, path=path)
    if ref.folder == "":
        raise click.BadParameter("this is empty; check whether a shell variable is unset", param_hint="--meta-folder")
    # A file that does not exist, and a meta folder of data that have none, are refused.
    is_document = is_record_file(path) or is_metadataset(path)
    is_pair = path.endswith(".bin") and os.path.exists(path.removesuffix("bin") + "idx")  # opening it names what lacks
    if (is_document or path.endswith(".tar")) and not is_pair and not is_url(path) and not os.path.lexists(path):
        raise StorageError("this file does not exist", path=path, hint=hint_of_missing(path))
    if (is_document or (takes_tar and is_tar_file(path))) and ref.has_other_folder:
        better = " Set meta_folder at its datasets." if is_metadataset(path) else ""
        raise click.UsageError(f"--meta-folder is valid only for folders.{better}")
    # What can be opened passes; what is another file is named with the path to pass instead.
    if is_record_file(path) or (takes_tar and is_tar_file(path)):
        return ref
    from loader.format.prepare import is_compressed_tar

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

    The function gets PATH with these choices as ``ref``, whose path ``check_ref`` checks; several paths are ``refs``. A
    metadataset names the documents of its datasets itself, so only an explicit flag overrides them.
    """
    every = [name for name in _DOCUMENTS if name in names or name not in _ON_REQUEST]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @shared_options(*every)
        @wraps(function)
        def with_ref(*arguments: Any, **options: Any) -> None:
            from loader.format import DatasetRef

            given = {name: options.pop(name) for name in every}
            source = click.get_current_context().get_parameter_source
            # A default would override the documents that a metadataset names.
            for name in ("dataset_config", "split_config"):
                if name in given and source(name) is click.core.ParameterSource.DEFAULT:
                    given[name] = None
            # Commands of several paths get several references.
            if "paths" in options:
                options["refs"] = tuple(DatasetRef(path, **given) for path in options.pop("paths"))
            else:
                options["ref"] = DatasetRef(options.pop("path"), **given)
            function(*arguments, **options)

        return with_ref

    return decorate


_MAX_UNASKED_S = 10.0  # a user waits so long without being asked


yes_option = click.option(
    "--yes", "computes", is_flag=True, help="Compute values that are no column, however long it takes."
)


def query_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose samples; the function gets them, and its argument KEY, as one parameter ``query``."""

    @shared_options("split_parts")
    @click.option(
        "--keys-from",
        metavar="FILE",
        help="Only samples whose keys are in this .txt, .csv, .parquet or lint report .json; - reads lines.",
    )
    @shared_options("key_column", help="Column of the keys in a .csv or .parquet file of --keys-from.")
    @shared_options("where")
    @yes_option
    @shared_options("filter")
    @wraps(function)
    def with_query(*arguments: Any, include_excluded: bool = True, **options: Any) -> None:
        from loader.dataset.query import SampleQuery, keys_and_origins

        # The keys of a file and of the command line are joined.
        keys, keys_from, column = (options.pop(name, None) for name in ("keys", "keys_from", "key_column"))
        listed, origins = ([], {}) if keys_from is None else keys_and_origins(keys_from, column=column)
        # Keys of the command line have no line of a file that a message could name.
        query = SampleQuery(
            split_parts=options.pop("split_parts"),
            keys=[*(keys or ()), *listed] if keys_from is not None or keys else None,
            origins={key: some for key, some in origins.items() if key not in (keys or ())},
            where=options.pop("where"),
            filter=options.pop("filter_name"),
            excluded=include_excluded,
            compute=partial(compute_with_consent, computes=options.pop("computes")),
        )
        function(*arguments, query=query, **options)

    return with_query


def copy_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the samples to copy; the function gets them as one parameter ``query``."""
    add = click.option(
        "--include-excluded/--skip-excluded", default=False, help="Also samples that the split excludes."
    )
    return query_options(add(function))


def compute_with_consent(
    folder: Dataset, names: Sequence[ValueName], samples: npt.NDArray[np.int64], *, computes: bool
) -> Mapping[ValueName, ComparedValues]:
    """Compute values that are no column, and offer to keep them; what takes long, only with consent."""
    from loader.dataset.query import only_value, write_command
    from loader.engine import usable_cores
    from loader.inspect.stats import compute_values, estimate_values, value_names

    # Ask before a computation that takes long.
    if not computes:
        estimate = estimate_values(folder, names, samples, workers=usable_cores())
        if estimate.seconds > _MAX_UNASKED_S:
            what = escape_controls(", ".join(map(str, estimate.existing or names)))
            message = f"Computing {what} of {plural(len(samples), 'sample')} takes about {estimate.seconds:.0f} s."
            if not estimate.existing:
                message = f"None of {plural(estimate.samples, 'sample')} tried has {what}. {message}"
            command = write_command(folder, map(str, estimate.existing or names))
            keeps = "" if command is None else f" To keep it for all commands, run: {command}"
            if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
                raise click.UsageError(f"{message} Pass --yes to compute it.{keeps}")
            error_console().print(message + keeps)
            click.confirm("Compute it now?", default=True, abort=True, err=True)
    # Compute the values, and name the command that keeps them.
    with ProgressBar("Reading values", unit="samples") as bar:
        values = compute_values(folder, names, samples, workers=usable_cores(), on_progress=bar.update)
    existing = [str(name) for name in names if values[name].known.any()]
    if len(samples) and not existing:
        only_value(str(names[0]), [], at=folder.path, known=value_names(folder, samples))
    command = write_command(folder, existing) if existing else None
    if command is not None:
        show_note(f"computed {', '.join(existing)} of {plural(len(samples), 'sample')}; to keep it, run: {command}")
    return values
