"""Detect the format of a dataset by its path: the only place that maps paths to formats.

Detection reads at most the names of files, never their content. A provider with a lower priority is asked first: 0 for
documents that name their format, 100 for single files, 200 for folders.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from ...errors import ConfigError
from ...storage import is_url, resolve_path
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
        folder: Folder to use instead of ``.nv-meta``, relative to the working directory; None without one.
        choices: The other attributes of the reference.
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


Format = Literal["metadataset", "jsonl", "binidx", "parquet", "folder"]


class Provider(NamedTuple):
    """A format, and the file names that it has."""

    format: Format  # name of the format
    priority: int  # providers of lower numbers are asked first
    suffixes: tuple[str, ...]  # endings of the path; empty for all paths
    title: str  # the file in a sentence: "a JSONL file"


# All formats, in the order in which they are tried.
PROVIDERS: Final = (
    Provider("metadataset", 0, (".yaml", ".yml"), "a metadataset"),
    Provider("jsonl", 100, (".jsonl",), "a JSONL file"),
    Provider("binidx", 100, (".bin",), "a token file"),
    Provider("parquet", 100, (".parquet",), "a Parquet file"),
    Provider("folder", 200, (), "a folder"),
)

_FOLDER = PROVIDERS[-1]
ENDINGS = tuple(ending for each in PROVIDERS for ending in each.suffixes)  # endings of all formats that are files

# Formats of single files whose samples are numbered and have no names.
RECORD_FORMATS: Final = frozenset({"jsonl", "binidx", "parquet"})

# Endings of the shards of prepared folders. All shards of a folder have the same one.
SHARD_SUFFIXES: Final = (".tar", ".jsonl", ".parquet")

FILESYSTEM = "filesystem://"  # protocol of auxiliary stores that are folders of plain files

_BIN, _IDX = ".bin", ".idx"


def provider_of(path: str | os.PathLike[str]) -> Provider:
    """Return the provider of a path.

    >>> provider_of("/data/tokens.bin").format, provider_of("/data/coco").format
    ('binidx', 'folder')
    """
    text = os.fspath(path)
    if not text.endswith(ENDINGS):
        return _FOLDER
    return next(provider for provider in PROVIDERS if text.endswith(provider.suffixes))


def format_of(path: str | os.PathLike[str]) -> Format:
    """Return the format of what a path names, by the name alone."""
    return provider_of(path).format


def is_metadataset(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a metadataset: a YAML file.

    >>> is_metadataset("mix.yaml"), is_metadataset("./coco")
    (True, False)
    """
    return format_of(path) == "metadataset"


def is_jsonl(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a JSONL file."""
    return format_of(path) == "jsonl"


def is_record_file(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a single file of numbered samples: JSONL, tokens or Parquet.

    >>> is_record_file("texts.jsonl"), is_record_file("tokens.bin"), is_record_file("mix.yaml")
    (True, True, False)
    """
    return format_of(path) in RECORD_FORMATS


def is_tar_file(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a tar file, not a folder; it need not be a shard of a prepared dataset.

    Of a URL the name decides.
    """
    return os.fspath(path).endswith(".tar") and (is_url(path) or os.path.isfile(path))


def files_folder(store: str) -> str | None:
    """Return the folder of an auxiliary store of plain files; None for other stores.

    >>> files_folder("filesystem:///data/images"), files_folder("filesystem+msc://profile/images")
    ('/data/images', 'msc://profile/images')
    >>> files_folder("/data/coco")
    """
    if store.startswith("filesystem+"):
        return store.removeprefix("filesystem+")
    return store.removeprefix(FILESYSTEM) if store.startswith(FILESYSTEM) else None


def record_format(shard: str) -> Format | None:
    """Return the format of a shard in a prepared folder of files of numbered samples; None for a tar file.

    >>> record_format("part-0.parquet"), record_format("0.tar")
    ('parquet', None)
    """
    return format_of(shard) if shard.endswith(SHARD_SUFFIXES[1:]) else None


def data_path(path: str) -> str:
    """Return the path of the data file for a prefix as Megatron-LM writes them; other paths are returned unchanged.

    ``/data/tokens`` names the pair ``/data/tokens.bin`` and ``/data/tokens.idx``. One of the two files is enough, so
    that the error names the missing one. A file or folder with exactly this name has precedence.
    The prefix of a pair on another machine needs the suffix ``.bin``: looking it up would cost a request per dataset.

    Args:
        path: An absolute path, or a URL.
    """
    if path.endswith((*provider_of(path).suffixes, *SHARD_SUFFIXES)) or is_url(path) or os.path.lexists(path):
        return path
    return path + _BIN if os.path.isfile(path + _BIN) or os.path.isfile(path + _IDX) else path
