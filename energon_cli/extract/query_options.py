"""Options that choose samples: ``--split-parts``, ``--keys-from``, ``--where`` and ``--filter``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..options import shared_options

if TYPE_CHECKING:
    from loader.format.query import SampleQuery

_CRITERIA = ("split_parts", "keys_from", "key_column", "where", "filter_name", "keys")


def query_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose samples; the function gets them, and its argument KEY, as one parameter ``query``."""

    @shared_options("split_parts")
    @click.option(
        "--keys-from",
        metavar="FILE",
        help="Only samples whose keys are in this .txt, .csv, .parquet or lint report .json; - reads lines.",
    )
    @shared_options("key_column", help="Column of the keys in a .csv or .parquet file of --keys-from.")
    @shared_options("where", "filter")
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
    filter_name: str | None,
    keys: Sequence[str] = (),
    excluded: bool = True,
) -> SampleQuery:
    """Return the query of these options; keys of a file and of the command line are joined.

    Raises:
        ConfigError: The file of keys is a table without such a column.
        StorageError: The file of keys cannot be read.
    """
    from loader.format.query import SampleQuery, keys_and_origins

    listed, origins = ([], {}) if keys_from is None else keys_and_origins(keys_from, column=key_column)
    return SampleQuery(
        split_parts=split_parts,
        keys=[*keys, *listed] if keys_from is not None or keys else None,
        origins={key: some for key, some in origins.items() if key not in keys},
        where=where,
        filter=filter_name,
        excluded=excluded,
    )
