"""Find and replace the library's datasets in the attributes of a user's dataset."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from .dataset_methods import DatasetMethods, inherits_stage
from .worker_config import WorkerConfig

_CONTAINERS = (list, tuple, dict, set, deque, bytearray)
_MAX_SEARCHED = 4096
"""Items of a container that is searched for datasets; longer ones are data."""


def inner_datasets(dataset: Any) -> list[Any]:
    """Return the library's datasets in the attributes of a user's dataset, and of users' datasets in these."""
    found: list[Any] = []

    def note(inner: Any) -> Any:
        found.append(inner)
        return inner

    replace_datasets(dataset, note, {})
    return found


def close_datasets(dataset: Any) -> None:
    """Call ``close`` of each dataset of users in a chain."""
    for inner in dataset.inputs:
        close_datasets(inner)
    if dataset.defines_iter:
        dataset.close()


def replace_datasets(
    dataset: Any, replace: Callable[[Any], Any], done: dict[int, Any], config: WorkerConfig | None = None
) -> Any:
    """Copy a user's dataset, with each of the library's datasets in its attributes replaced.

    Args:
        replace: Called once for each of the library's datasets.
        config: The worker config of the copy; None keeps the original's.
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, DatasetMethods):
            if id(value) not in done:
                is_user = value.defines_iter and not inherits_stage(value)
                done[id(value)] = replace_datasets(value, replace, done, config) if is_user else replace(value)
            return done[id(value)]
        if isinstance(value, _CONTAINERS) and len(value) > _MAX_SEARCHED:
            return copy.copy(value)
        if type(value) in (list, tuple):
            return type(value)(map(replaced, value))
        if type(value) is dict:
            return {key: replaced(inner) for key, inner in value.items()}
        return copy.copy(value) if isinstance(value, _CONTAINERS) else value

    copied = copy.copy(dataset)
    done[id(dataset)] = copied
    for name, value in vars(dataset).items():
        if name == "inputs":
            continue  # the library's record of the datasets that are in other attributes, too
        found = replaced(value)
        own_names = (*dataset._savable_fields, *dataset._worker_local_fields)  # noqa: SLF001 - documented for subclasses
        is_own_state = found is value and name in own_names
        copied.__dict__[name] = copy.deepcopy(value) if is_own_state else found
    if config is not None:
        copied.__dict__["worker_config"] = config
    return copied
