"""Options that choose samples: ``--split-part``, ``--keys-from``, ``--where`` and ``--filter``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from loader.format.query import SampleQuery

F = TypeVar("F", bound=Callable[..., Any])


def query_options(function: F) -> F:
    """Add the options that :func:`make_query` takes."""
    for add in (
        click.option("--filter", "filter_name", metavar="NAME", help="Only the samples that this named filter keeps."),
        click.option("--where", metavar="CONDITION", help="Only samples with these values of columns."),
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
        filter_name: str | None,
        include_excluded: bool,
        **others: Any,
    ) -> None:
        query = make_query(
            split_part=split_part,
            keys_from=keys_from,
            where=where,
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
    )
