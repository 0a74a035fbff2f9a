"""Options that choose samples: ``--split-parts``, ``--keys-from``, ``--where``, ``--yes`` and ``--filter``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from .options import shared_options

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from loader.dataset import Dataset
    from loader.dataset.query import SampleQuery, Values
    from loader.format.documents import ValueName

_CRITERIA = ("split_parts", "keys_from", "key_column", "where", "computes", "filter_name", "keys")

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
        criteria = {name: options.pop(name) for name in _CRITERIA if name in options}
        function(*arguments, query=_make_query(**criteria, excluded=include_excluded), **options)

    return with_query


def copy_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the samples to copy; the function gets them as one parameter ``query``."""
    add = click.option(
        "--include-excluded/--skip-excluded", default=False, help="Also samples that the split excludes."
    )
    return query_options(add(function))


def _make_query(
    *,
    split_parts: Sequence[str],
    keys_from: str | None,
    key_column: str | None,
    where: str | None,
    computes: bool,
    filter_name: str | None,
    keys: Sequence[str] = (),
    excluded: bool = True,
) -> SampleQuery:
    """Return the query of these options; keys of a file and of the command line are joined.

    Raises:
        ConfigError: The file of keys is a table without such a column.
        StorageError: The file of keys cannot be read.
    """
    from loader.dataset.query import SampleQuery, keys_and_origins

    listed, origins = ([], {}) if keys_from is None else keys_and_origins(keys_from, column=key_column)
    return SampleQuery(
        split_parts=split_parts,
        keys=[*keys, *listed] if keys_from is not None or keys else None,
        origins={key: some for key, some in origins.items() if key not in keys},
        where=where,
        filter=filter_name,
        excluded=excluded,
        compute=partial(compute_with_consent, computes=computes),
    )


def compute_with_consent(
    folder: Dataset, names: Sequence[ValueName], samples: npt.NDArray[np.int64], *, computes: bool
) -> Mapping[ValueName, Values]:
    """Compute values that are no column, and offer to keep them; what takes long, only with consent.

    Args:
        folder: The dataset.
        names: Names of the values.
        samples: Numbers of the samples.
        computes: The user consents already, by ``--yes``.

    Raises:
        UnknownValueError: No sample has one of them.
        click.UsageError: It would take long, and there is no terminal to ask in.
        click.Abort: The user does not consent.
    """
    from loader.dataset.query import only_value, write_command
    from loader.errors import escape_controls
    from loader.format import usable_cores
    from loader.inspect import plural
    from loader.inspect.stats import compute_values, estimate_values, value_names

    from .console import error_console, is_terminal, show_note
    from .progress import ProgressBar

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
    with ProgressBar("Reading values", unit="samples") as bar:
        values = compute_values(folder, names, samples, workers=usable_cores(), on_progress=bar.update)
    existing = [str(name) for name in names if values[name].known.any()]
    if len(samples) and not existing:
        only_value(str(names[0]), [], at=folder.path, known=value_names(folder, samples))
    command = write_command(folder, existing) if existing else None
    if command is not None:
        show_note(f"computed {', '.join(existing)} of {plural(len(samples), 'sample')}; to keep it, run: {command}")
    return values
