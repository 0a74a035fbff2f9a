"""Name a dataset on disk: where it is, and which of its documents to use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError
from ..storage import Storage, is_url, open_storage, resolve_path
from ..storage.user_indexes import index_name
from .data_kind import DataKind, data_kind, data_path
from .nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML
from .user_index import find_index

# Names of the attributes of a reference that choose its documents, which are also keys of metadatasets.
DOCUMENT_CHOICES = ("split_config", "dataset_config", "meta_folder")


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A dataset on disk, and which of its documents to use.

    Attributes:
        path: Path or URL of a folder of shards, of a tar file, or of a JSONL, token or Parquet file.
        split_config: Name of the split file in ``.nv-meta``; None for the default one.
        dataset_config: Name of the dataset file in ``.nv-meta``; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``; None for ``.nv-meta``.
        trust_code: Allow the dataset to run its code and to load pickles.
    """

    path: str
    split_config: str | None = None
    dataset_config: str | None = None
    meta_folder: str | None = None
    trust_code: bool = False

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, **choices: Any
    ) -> DatasetRef:
        """Return the reference of paths that a caller gives, which may be relative to the working directory.

        Args:
            path: Path of the data.
            folder: Folder to use instead of ``.nv-meta``.
            choices: The other attributes of the reference.

        Raises:
            ConfigError: A folder of documents is given for a single file or a metadataset.
        """
        ref = cls.of(cls(os.fspath(path), **choices))
        if folder is None:
            return ref.resolved()
        if ref.kind.format != "folder":
            raise ConfigError(
                f"expected the folder of a dataset together with a meta folder, found {ref.kind.title}",
                at=ref.path,
                hint="set meta_folder at the datasets of the metadataset"
                if ref.kind.is_mix
                else "a single file has no .nv-meta; drop the meta folder",
            )
        return ref.moved(ref.path, os.fspath(folder)).resolved()

    @classmethod
    def of(cls, ref: DatasetRef | str | os.PathLike[str]) -> DatasetRef:
        """Return a reference; a path uses the documents of the default names.

        Of the prefix of token files it is to the ``.bin`` file.
        """
        ref = ref if isinstance(ref, DatasetRef) else cls(os.fspath(ref))
        path = data_path(ref.path)
        return ref if path == ref.path else replace(ref, path=path)

    @property
    def kind(self) -> DataKind:
        """The kind of the data at the path, by its name alone."""
        return data_kind(self.path)

    @property
    def split_file(self) -> str:
        """Name of the split file to use, unless ``dataset.yaml`` names another one."""
        return self.split_config or SPLIT_YAML

    @property
    def dataset_file(self) -> str:
        """Name of the dataset file to use."""
        return self.dataset_config or DATASET_YAML

    @property
    def other_folder(self) -> str | None:
        """The folder used instead of ``.nv-meta``, a named one or one of the folders of indexes; None without."""
        named = self.meta_folder
        return find_index(self.path) if named is None and self.kind.format == "folder" else named

    @property
    def is_found_by_shards(self) -> bool:
        """True if the folder is the index of other data, which have the same shards at another URL."""
        other = self.other_folder
        return other is not None and self._is_of_other_data(other)

    def _is_of_other_data(self, folder: str) -> bool:
        return self.meta_folder is None and is_url(self.path) and not folder.endswith(index_name(self.path))

    @property
    def folder(self) -> str:
        """The folder of the documents, as the caller names it: ``.nv-meta``, or the one that is used instead."""
        other = self.other_folder
        return FOLDER if other is None else other

    @property
    def folder_flags(self) -> list[str]:
        """The words of a command line that name the folder of the documents."""
        return ["--meta-folder", self.folder] if self.other_folder else []

    def storage(self) -> Storage:
        """Open the folder of the shards; ``.nv-meta`` in it is the meta folder, and then all else is read-only.

        The index of other data is read-only, too.

        Raises:
            StorageError: URLs of this protocol are not supported.

        >>> DatasetRef("/data/coco", meta_folder="/home/me/coco-meta").storage().path(".nv-meta/.info.json")
        '/home/me/coco-meta/.info.json'
        """
        other = self.other_folder
        if other is None:
            return open_storage(self.path)
        return open_storage(self.path, replaced=(FOLDER, other), is_read_only=self._is_of_other_data(other))

    def resolved(self, folder: str | None = None) -> DatasetRef:
        """Return the reference with absolute paths, which start from a folder, or from the working directory."""
        documents = None if self.meta_folder is None else resolve_path(self.meta_folder, folder)
        return self.moved(resolve_path(self.path, folder), documents)

    def moved(self, path: str, documents: str | None = None) -> DatasetRef:
        """Return a reference to another path, and to another folder of documents, with the same names of documents."""
        return replace(self, path=path, meta_folder=documents)
