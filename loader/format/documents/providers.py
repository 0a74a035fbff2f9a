"""The request of a caller: the data to load, and the form of the keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ...errors import ConfigError
from ..dataset_ref import DatasetRef
from .messages import short_repr
from .subset import SubsetRange

# ``"shard/key"``: ``train/shard_0.tar/0001``, unique in a dataset. ``"key"``: ``0001``, as in megatron-energon 7.
KeyFormat = Literal["shard/key", "key"]

_KEY_FORMATS: tuple[KeyFormat, ...] = get_args(KeyFormat)

_KEY_FORMAT_VARIABLE = "ENERGON_KEY_FORMAT"

# The ``split_part`` of all samples of a dataset, also of those in no part.
ALL_PARTS = ""  # a split file cannot name a part so


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Description of the data to load.

    The caller creates it; each level of a metadataset extends it with :func:`dataclasses.replace`.
    """

    ref: DatasetRef  # a prepared dataset's folder, a file of samples or a metadataset; paths are absolute, or URLs
    split_part: str = "train"  # part of the split: ``"train"``, ``"val"`` … or :data:`ALL_PARTS`
    # labels of all samples; they win over the labels in ``dataset.yaml``
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1  # ``shuffle_over_epochs_multiplier``
    # Name of the filter that selects samples; None keeps all. Subsets count the samples that it keeps.
    filter: str | None = None
    # ranges of neighbouring samples, the innermost first; see :func:`.resolve_subset`
    subset: tuple[SubsetRange, ...] = ()
    # name of an auxiliary store → the dataset, or ``filesystem://`` and a folder of files
    aux: Mapping[str, DatasetRef] = field(default_factory=dict)
    # expected class of the samples; that of the samples if the dataset has no ``dataset.yaml``
    sample_type: type[Any] | None = None
    # other arguments of the dataset's description, for what ``dataset.yaml`` leaves open: ``field_map``,
    # ``sample_loader``, ``part_filter``, and those of the user's dataset class that the file names
    options: Mapping[str, Any] = field(default_factory=dict)
    # form of ``__key__``; None takes the form of ``dataset.yaml`` or of the environment
    key_format: KeyFormat | None = None


def checked_key_format(value: object, *, source: str) -> KeyFormat:
    """Return the value if it is a key format.

    >>> checked_key_format("key", source="key_format")
    'key'
    """
    for known in _KEY_FORMATS:
        if value == known:
            return known
    names = " or ".join(f'"{name}"' for name in _KEY_FORMATS)
    raise ConfigError(f"expected {source} to be {names}, found {short_repr(value)}")


def resolve_key_format(argument: KeyFormat | None, of_dataset: KeyFormat | None) -> KeyFormat:
    """Return the form of keys from the argument, ``dataset.yaml`` or ``ENERGON_KEY_FORMAT``, in this order.

    Without any of them keys have the form ``"shard/key"``.
    """
    key_format = argument or of_dataset
    if key_format is not None:
        return key_format
    text = os.environ.get(_KEY_FORMAT_VARIABLE, "")
    return checked_key_format(text, source=f"the environment variable {_KEY_FORMAT_VARIABLE}") if text else "shard/key"
