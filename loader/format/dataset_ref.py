"""Name a dataset on disk: where it is, and which of its documents to use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError
from ..storage import Storage, open_storage, resolve_path
from .data_kind import DataKind, data_kind, data_path
from .meta_folder import IN_DATA, MetaFolder, find_meta
from .nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML

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
        is_temporary: The meta folder was made for the time of a command, of the shards as they are.
    """

    path: str
    split_config: str | None = None
    dataset_config: str | None = None
    meta_folder: str | None = None
    trust_code: bool = False
    is_temporary: bool = False

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
    def folder_flags(self) -> list[str]:
        """The words of a command line that name the meta folder; none if the data find it."""
        return ["--meta-folder", self.meta_folder] if self.meta_folder else []

    def find_meta(self) -> MetaFolder:
        """Return the meta folder: the named one, or the one that data without a name for it find."""
        if self.meta_folder is None:
            return find_meta(self.path) if self.kind.format == "folder" else IN_DATA
        return MetaFolder(self.meta_folder, "temporary" if self.is_temporary else "named")

    def storage(self, meta: MetaFolder | None = None) -> Storage:
        """Open the folder of the shards; ``.nv-meta`` in it is the meta folder, and then all else is read-only.

        The index of other data is read-only, too.

        Args:
            meta: The meta folder, if the caller has found it.

        Raises:
            StorageError: URLs of this protocol are not supported.

        >>> DatasetRef("/data/coco", meta_folder="/home/me/coco-meta").storage().path(".nv-meta/.info.json")
        '/home/me/coco-meta/.info.json'
        """
        meta = meta or self.find_meta()
        if meta.origin == "data":
            return open_storage(self.path)
        return open_storage(self.path, replaced=(FOLDER, meta.path), is_read_only=meta.origin == "same shards")

    def resolved(self, folder: str | None = None) -> DatasetRef:
        """Return the reference with absolute paths, which start from a folder, or from the working directory."""
        documents = None if self.meta_folder is None else resolve_path(self.meta_folder, folder)
        return self.moved(resolve_path(self.path, folder), documents, is_temporary=self.is_temporary)

    def moved(self, path: str, documents: str | None = None, *, is_temporary: bool = False) -> DatasetRef:
        """Return a reference to another path, and to another folder of documents, with the same names of documents."""
        return replace(self, path=path, meta_folder=documents, is_temporary=is_temporary)
