"""Options that name datasets, their documents and samples, such as ``--where``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural

from .console import error_console, is_terminal, show_note
from .options import flag_option, shared_options
from .progress import ProgressBar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from loader.dataset import Dataset
    from loader.format.columns import ComparedValues
    from loader.format.documents import ValueName


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


yes_option = flag_option("--yes", "computes", help="Compute missing columns without asking, even if that is slow.")


def query_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose samples; the function gets them, and its argument KEY, as one parameter ``query``."""

    @shared_options("split_parts")
    @click.option(
        "--keys-from",
        metavar="FILE",
        help="Keep only samples whose keys are in this .txt, .csv, .parquet or lint report .json; - reads standard"
        " input.",
    )
    @shared_options("key_column", help="Take the keys from this column of a .csv or .parquet file of --keys-from.")
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
        "--include-excluded/--skip-excluded",
        default=False,
        help="Include samples that the split excludes, or skip them.",
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
