"""Describe what to load: a path, and the choices made about the dataset at that path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ...errors import ConfigError
from ...storage import resolve_path
from ..dataset_ref import DatasetRef
from .messages import short_repr
from .providers import data_path, provider_of
from .subset import SubsetRange

KeyFormat = Literal["shard/key", "key"]
"""``"shard/key"``: ``train/shard_0.tar/0001``, unique in a dataset. ``"key"``: ``0001``, as in megatron-energon 7."""

_KEY_FORMATS: tuple[KeyFormat, ...] = get_args(KeyFormat)

_KEY_FORMAT_VARIABLE = "ENERGON_KEY_FORMAT"

ALL_PARTS = ""  # a split file cannot name a part so
"""The ``split_part`` of all samples of a dataset, also of those in no part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Description of the data to load.

    The caller creates it; each level of a metadataset extends it with :func:`dataclasses.replace`.

    Attributes:
        ref: A prepared dataset's folder, a file of samples or a metadataset; paths are absolute, or URLs.
        split_part: Part of the split: ``"train"``, ``"val"`` … or :data:`ALL_PARTS`.
        subflavors: Labels of all samples; they win over those of ``dataset.yaml``.
        epochs_together: ``shuffle_over_epochs_multiplier``.
        filter: Name of the filter that selects samples; None keeps all. Subsets count the samples that it keeps.
        subset: Ranges of neighbouring samples, the innermost first; see :func:`.resolve_subset`.
        aux: Name of an auxiliary store → the dataset, or ``filesystem://`` and a folder of files.
        sample_type: Expected class of the samples; that of the samples if the dataset has no ``dataset.yaml``.
        options: Other arguments of the dataset's description, for what ``dataset.yaml`` leaves open: ``field_map``,
            ``sample_loader``, ``part_filter``, and those of the user's dataset class that the file names.
        key_format: Form of ``__key__``; None for that of ``dataset.yaml`` or of the environment.
    """

    ref: DatasetRef
    split_part: str = "train"
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    filter: str | None = None
    subset: tuple[SubsetRange, ...] = ()
    aux: Mapping[str, DatasetRef] = field(default_factory=dict)
    sample_type: type[Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    key_format: KeyFormat | None = None

    @classmethod
    def at(cls, ref: DatasetRef | str | os.PathLike[str], **choices: Any) -> LoadRequest:
        """Return the request for a path as a caller gives it: relative paths start from the working directory."""
        ref = DatasetRef.of(ref).resolved()
        return cls(ref=replace(ref, path=data_path(ref.path)), **choices)

    @property
    def path(self) -> str:
        """Path of the dataset, file of samples or metadataset."""
        return self.ref.path

    @property
    def trust_code(self) -> bool:
        """Allow the dataset to run its code and to load pickles."""
        return self.ref.trust_code


def given_ref(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, **choices: Any) -> DatasetRef:
    """Return the reference of a path as a caller gives it, with the absolute path of the folder of documents.

    Args:
        path: Path of the dataset.
        folder: Folder to use instead of ``.nv-meta``, relative to the working directory; None without one.
        choices: The other attributes of the reference.

    Raises:
        ConfigError: The path is that of a single file or a metadataset.
    """
    ref = DatasetRef(os.fspath(path), **choices)
    if folder is None:
        return ref
    provider = provider_of(path)
    if provider.format != "folder":
        raise ConfigError(
            f"expected the folder of a dataset together with a meta folder, found {provider.title}",
            at=os.fspath(path),
            hint="set meta_folder at the datasets of the metadataset"
            if provider.format == "metadataset"
            else "a single file has no .nv-meta; drop the meta folder",
        )
    return ref.moved(ref.path, resolve_path(folder))


def checked_key_format(value: object, *, source: str) -> KeyFormat:
    """Return the value if it is a key format.

    Args:
        value: The value.
        source: Where it is from, for the message.

    Raises:
        ConfigError: It is none.

    >>> checked_key_format("key", source="key_format")
    'key'
    """
    for known in _KEY_FORMATS:
        if value == known:
            return known
    names = " or ".join(f'"{name}"' for name in _KEY_FORMATS)
    raise ConfigError(f"expected {source} to be {names}, found {short_repr(value)}")


def resolve_key_format(argument: KeyFormat | None, of_dataset: KeyFormat | None) -> KeyFormat:
    """Return the form of keys: that of the argument, of ``dataset.yaml``, or of ``ENERGON_KEY_FORMAT``, in this order.

    Without any of them keys have the form ``"shard/key"``.

    Raises:
        ConfigError: ``ENERGON_KEY_FORMAT`` is needed, and is no key format.
    """
    found = argument or of_dataset
    if found is not None:
        return found
    text = os.environ.get(_KEY_FORMAT_VARIABLE, "")
    return checked_key_format(text, source=f"the environment variable {_KEY_FORMAT_VARIABLE}") if text else "shard/key"
