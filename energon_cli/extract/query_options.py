"""Options that choose samples: ``--split-part``, ``--keys-from``, ``--where``, ``--yes`` and ``--filter``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from loader.format import DatasetFolder
    from loader.format.documents import ValueName
    from loader.format.query import SampleQuery, Values

F = TypeVar("F", bound=Callable[..., Any])

_MAX_UNASKED_S = 10.0  # a user waits so long without being asked


yes_option = click.option(
    "--yes", "computes", is_flag=True, help="Compute values that are no column, however long it takes."
)


def query_options(function: F) -> F:
    """Add the options that :func:`make_query` takes."""
    for add in (
        click.option("--filter", "filter_name", metavar="NAME", help="Only the samples that this named filter keeps."),
        yes_option,
        click.option("--where", metavar="CONDITION", help="Only samples with values such as 'jpg.width > 64'."),
        click.option(
            "--keys-from",
            metavar="FILE",
            help="Only samples whose keys are in this .txt, .csv, .parquet or lint report .json; - reads lines.",
        ),
        click.option("--split-part", metavar="PART", help="Only samples of this split part."),
    ):
        function = add(function)
    return function


def copy_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the samples to copy; the function gets them as one parameter ``query``."""

    @click.option("--include-excluded/--skip-excluded", default=False, help="Also samples that the split excludes.")
    @wraps(function)
    def with_query(
        *arguments: Any,
        split_part: str | None,
        keys_from: str | None,
        where: str | None,
        computes: bool,
        filter_name: str | None,
        include_excluded: bool,
        **others: Any,
    ) -> None:
        query = make_query(
            split_part=split_part,
            keys_from=keys_from,
            where=where,
            computes=computes,
            filter_name=filter_name,
            excluded=include_excluded,
        )
        function(*arguments, query=query, **others)

    return query_options(with_query)


def make_query(
    *,
    split_part: str | None,
    keys_from: str | None,
    where: str | None,
    computes: bool,
    filter_name: str | None,
    keys: Iterable[str] = (),
    excluded: bool = True,
    column: str | None = None,
) -> SampleQuery:
    """Return the query of these options; keys of a file and of the command line are joined.

    Raises:
        ConfigError: The file of keys is a table without such a column.
        StorageError: The file of keys cannot be read.
    """
    from loader.format.query import SampleQuery, keys_and_origins

    named = list(keys)
    listed, origins = ([], {}) if keys_from is None else keys_and_origins(keys_from, column=column)
    return SampleQuery(
        split_part=split_part,
        keys=[*named, *listed] if keys_from is not None or named else None,
        origins={key: some for key, some in origins.items() if key not in named},
        where=where,
        filter=filter_name,
        excluded=excluded,
        compute=partial(compute_with_consent, computes=computes),
    )


def compute_with_consent(
    folder: DatasetFolder, names: Sequence[ValueName], samples: npt.NDArray[np.int64], *, computes: bool
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
    from loader.format import usable_cores
    from loader.format.query import only_value, write_command
    from loader.inspect import plural
    from loader.inspect.stats import compute_values, estimate_values, value_names

    from ..console import escape_controls, is_terminal, show_note
    from ..progress import ProgressBar

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
            click.echo(message + keeps, err=True)
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
