"""Find the samples of several datasets that a query chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import IntArray
from ..dataset.query import (
    SampleQuery,
    UnknownValueError,
    find_samples,
    foreign_keys_error,
    keys_of_folder,
    samples_of_keys,
    unknown_key_error,
    unknown_names,
)
from .datasets import OpenDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSamples:
    """The samples of one dataset.

    Attributes:
        opened: The dataset.
        numbers: Numbers of its chosen samples, ascending.
        keys: The keys of the query that it has; None if the query names no keys.
        lacks: What the condition names and the dataset does not have, so that no sample is chosen; empty otherwise.
    """

    opened: OpenDataset
    numbers: IntArray
    keys: tuple[str, ...] | None = None
    lacks: str = ""


def choose_samples(datasets: Sequence[OpenDataset], query: SampleQuery, *, at: str) -> list[ChosenSamples]:
    """Return the samples of each dataset that a query chooses.

    Each key must be in at least one of the datasets, unless it is meant in another one. A dataset without a column or
    part of the condition has no sample of which it is known to be true; one of the datasets must have them all.

    Args:
        datasets: The datasets; their split parts replace that of the query.
        query: The choice.
        at: The path that names them, for messages.

    Raises:
        ConfigError: There is no such split part, key, column or filter, or the condition is invalid.
        FormatError: A column or filter is damaged or stale.
    """
    keys = _keys_of_each(datasets, query, at)
    lacking = [unknown_names(one.folder, query) if len(datasets) > 1 else [] for one in datasets]
    if all(lacking):
        lacking = [[] for _ in datasets]  # the first dataset raises the error
    errors: list[UnknownValueError] = []
    chosen = []
    for one, its_keys, names in zip(datasets, keys, lacking, strict=True):
        numbers = np.empty(0, np.int64)
        if not names and (its_keys is None or its_keys):
            parts = one.dataset.split_parts or query.split_parts
            try:
                numbers = find_samples(one.folder, replace(query, keys=its_keys, split_parts=parts))
            except UnknownValueError as error:  # of a value that was searched for in the samples
                errors.append(error)
                if len(errors) == len(datasets):
                    raise
                names.append(error.message.removeprefix("no sample has the "))
        chosen.append(
            ChosenSamples(
                opened=one, numbers=numbers, keys=its_keys, lacks=f"no {' and no '.join(names)}" if names else ""
            )
        )
    return chosen


def _keys_of_each(datasets: Sequence[OpenDataset], query: SampleQuery, at: str) -> list[tuple[str, ...] | None]:
    if query.keys is None:
        return [None for _ in datasets]
    keys = [keys_of_folder(query.keys, query.origins, one.folder) for one in datasets]
    if query.keys and not any(keys):
        raise foreign_keys_error(query.origins, at=at)
    if len(datasets) == 1:
        return list(keys)  # its query names the unknown ones
    found = [samples_of_keys(one.folder, its_keys) for one, its_keys in zip(datasets, keys, strict=True)]
    meant = dict.fromkeys(key for its_keys in keys for key in its_keys)
    unknown = [key for key in meant if not any(of_one.get(key) for of_one in found)]
    if unknown:
        raise unknown_key_error([one.folder for one in datasets], unknown, at=at)
    return [tuple(key for key, samples in of_one.items() if samples) for of_one in found]
