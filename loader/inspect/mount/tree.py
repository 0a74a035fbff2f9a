"""A dataset, or the splits and datasets of a metadataset, as a tree of folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from ...cached_property import cached_property
from ...convert import file_name, key_of, split_file_name
from ...dataset.dataset import Dataset
from ...dataset.opening import dataset_at, folder_at
from ...dataset.split_parts import is_excluded, runs_of_part
from ...dataset.unprepared.tar_index import index_temporarily
from ...errors import ConfigError, EnergonError
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest, data_path, is_metadataset, is_record_file
from ...format.index.layout import ShardEntry
from ...format.prepare.plan import ProgressCallback
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.plans.plan_leaves import plan_splits
from ...metadataset.plans.plan_node import PlanNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The arrangement of files.

    Attributes:
        sample_folders: A folder for each sample with a file for each part, instead of files ``<key>.<part>``.
        shard_folders: Files are in a folder for each shard, instead of all in one.
    """

    sample_folders: bool = False
    shard_folders: bool = False


class DatasetFiles:
    """The files of a dataset, read from its shards.

    Of samples with the same key in a folder, the last one is shown.

    Args:
        folder: The dataset.
        layout: The arrangement of the files.
        split_part: Only samples of this split part that the split does not exclude; None for all samples.

    Raises:
        ConfigError: There is no such split part.
    """

    def __init__(self, folder: Dataset, layout: Layout, *, split_part: str | None = None) -> None:
        self._folder = folder
        self._layout = layout
        self._is_restricted = split_part is not None
        every = [range(len(folder.index))] if split_part is None else runs_of_part(folder, split_part)
        self._ranges: Sequence[range] = [some for some in every if len(some)]
        self._shards = {file_name(shard.name): shard for shard in folder.index.shards if self._of_shard(shard)}

    def entry(self, path: Sequence[str]) -> Entry | None:
        """Return what is at a path; None if nothing is."""
        shard, rest = self._shard_of(path)
        if self._layout.shard_folders and path and shard is None:
            return None
        if not rest:
            return Entry(is_folder=True, mtime_ns=shard.mtime_ns if shard else 0)
        found = self._find(shard, rest)
        if found is None:
            return None
        sample, part = found
        mtime_ns = self._folder.index.shard_of(sample).mtime_ns
        if part is None:
            return Entry(is_folder=True, mtime_ns=mtime_ns)
        size = self._sizes(sample).get(part)
        return None if size is None else Entry(is_folder=False, size_bytes=size, mtime_ns=mtime_ns)

    def names(self, path: Sequence[str]) -> Iterator[str]:
        """Yield the names in a folder, each once; folders without files for a path where nothing is."""
        shard, rest = self._shard_of(path)
        if self._layout.shard_folders and not path:
            yield from self._shards
        elif not rest:
            yield from dict.fromkeys(self._sample_names(shard))
        else:
            found = self._find(shard, rest)
            if found is not None and found[1] is None:
                yield from map(file_name, self._sizes(found[0]))

    def read(self, path: Sequence[str], offset: int, size: int) -> bytes:
        """Read bytes of a file; fewer at its end.

        Raises:
            FileNotFoundError: Nothing is at the path, or a folder.
            EnergonError: The shard is missing or damaged, or has changed.
        """
        shard, rest = self._shard_of(path)
        sample, part = (self._find(shard, rest) if rest else None) or (0, None)
        if part is None:
            raise FileNotFoundError("/".join(path))
        try:
            return self._folder.read(sample, part, offset, offset + size)
        except KeyError as error:
            raise FileNotFoundError("/".join(path)) from error

    def close(self) -> None:
        """Close all shards."""
        self._folder.close()

    # ---------------------------------------------------------------------------------------------------- paths

    def _shard_of(self, path: Sequence[str]) -> tuple[ShardEntry | None, Sequence[str]]:
        """Return the shard of a path, if it has one, and the rest of the path."""
        if not self._layout.shard_folders or not path:
            return None, path
        return self._shards.get(path[0]), path[1:]

    def _find(self, shard: ShardEntry | None, path: Sequence[str]) -> tuple[int, str | None] | None:
        """Return the sample and the part at a path; no part for a sample's folder."""
        if self._layout.sample_folders:
            key, part = key_of(path[0]), key_of(path[1]) if len(path) > 1 else None
            depth = 2
        else:
            key, part = split_file_name(path[0])
            depth = 1
        if len(path) > depth or (shard is None and self._layout.shard_folders):
            return None
        sample = self._sample(shard, key)
        return None if sample is None else (sample, part)

    def _sample(self, shard: ShardEntry | None, key: str) -> int | None:
        index = self._folder.index
        found = index.find(key if shard is None else f"{shard.name}/{key}")
        for sample in reversed(found):
            if index.key(sample) == key and (shard is None or index.shard_of(sample) is shard) and self._has(sample):
                return sample
        return None

    def _has(self, sample: int) -> bool:
        if not self._is_restricted:
            return True
        return any(sample in some for some in self._ranges) and not is_excluded(self._folder, sample)

    def _of_shard(self, shard: ShardEntry) -> list[range]:
        start, stop = shard.first_sample, shard.first_sample + shard.samples
        parts = (range(max(start, some.start), min(stop, some.stop)) for some in self._ranges)
        return [some for some in parts if len(some)]

    def _sample_names(self, shard: ShardEntry | None) -> Iterator[str]:
        for some in self._ranges if shard is None else self._of_shard(shard):
            for sample in some:
                if self._is_restricted and is_excluded(self._folder, sample):
                    continue
                key = self._folder.index.key(sample)
                if self._layout.sample_folders:
                    yield file_name(key)
                else:
                    yield from (file_name(f"{key}.{part}") for part in self._sizes(sample))

    # ----------------------------------------------------------------------------------------------------- bytes

    def _sizes(self, sample: int) -> dict[str, int]:
        return {part.name: part.size_bytes for part in self._folder.parts(sample)}


class Entry(NamedTuple):
    """A file or folder.

    Attributes:
        is_folder: True for a folder.
        size_bytes: Size of a file.
        mtime_ns: Time of the last change in nanoseconds since 1970.
    """

    is_folder: bool
    size_bytes: int = 0
    mtime_ns: int = 0


_FAULT = "ERROR.txt"


def open_tree(
    ref: DatasetRef | str,
    layout: Layout,
    *,
    split_part: str | None = None,
    on_progress: ProgressCallback | None = None,
) -> MountedTree:
    """Open a dataset or a metadataset as a tree of files.

    Args:
        ref: Folder of a dataset, a JSONL, token or Parquet file, tar shards that are not prepared, or a metadataset
            (``.yaml``).
        layout: The arrangement of each dataset's files.
        split_part: Only samples of this split part, or only this split of a metadataset.
        on_progress: Called after each shard that is scanned, if the shards are not prepared.

    Raises:
        ConfigError: There is no such split part, or a document is invalid.
        FormatError: A file is damaged, or its index is missing.
        StorageError: The dataset is missing.
    """
    ref = DatasetRef.of(ref)
    if is_metadataset(ref.path):
        names = None if split_part is None else [split_part]
        planned = plan_splits(ref, split_parts=names).checked()
        return MountedTree(_Folder({name: _of_node(node, layout) for name, node in planned.trees.items()}))
    with ExitStack() as stack:
        files = _open_files(ref, layout, split_part, stack, on_progress)
        return MountedTree(files, stack.pop_all())


def _open_files(
    ref: DatasetRef,
    layout: Layout,
    split_part: str | None,
    stack: ExitStack,
    on_progress: ProgressCallback | None = None,
) -> DatasetFiles:
    """Open the files of a dataset; the stack removes a temporary index when it closes."""
    path = data_path(ref.path)
    if is_record_file(path):
        return DatasetFiles(dataset_at(path), layout, split_part=split_part)
    indexed = index_temporarily(replace(ref, path=path), stack, on_progress)
    if indexed is not None and split_part is not None:
        raise ConfigError(
            f"these shards are not prepared, so they have no split part {split_part!r}",
            at=path,
            hint="run energon prepare, or mount all samples",
        )
    return DatasetFiles(folder_at(indexed or replace(ref, path=path)), layout, split_part=split_part)


class MountedTree:
    """A tree of files; paths begin with ``/``.

    Args:
        root: The files of a dataset, or a folder of them.
        resources: What is closed after them.
    """

    def __init__(self, root: _Files, resources: ExitStack | None = None) -> None:
        self._root = root
        self._resources = resources or ExitStack()

    def entry(self, path: str) -> Entry | None:
        """Return the file or folder at a path; None for an unknown path."""
        return self._root.entry(_parts(path))

    def names(self, path: str) -> Iterator[str]:
        """Yield the names in a folder, each once."""
        return self._root.names(_parts(path))

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read bytes of a file; fewer at its end.

        Raises:
            FileNotFoundError: There is no such file.
            EnergonError: The shard is missing or damaged, or has changed.
        """
        return self._root.read(_parts(path), offset, size)

    def close(self) -> None:
        """Close all shards."""
        with self._resources:
            self._root.close()


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


class _Folder:
    """A folder of other trees."""

    def __init__(self, children: Mapping[str, _Files]) -> None:
        self._children = dict(children)

    def entry(self, path: tuple[str, ...]) -> Entry | None:
        if not path:
            return Entry(is_folder=True)
        child = self._children.get(path[0])
        return None if child is None else child.entry(path[1:])

    def names(self, path: tuple[str, ...]) -> Iterator[str]:
        if not path:
            return iter(self._children)
        child = self._children.get(path[0])
        return iter(()) if child is None else child.names(path[1:])

    def read(self, path: tuple[str, ...], offset: int, size: int) -> bytes:
        child = self._children.get(path[0]) if path else None
        if child is None:
            raise FileNotFoundError("/".join(path))
        return child.read(path[1:], offset, size)

    def close(self) -> None:
        for child in self._children.values():
            child.close()


class _LazyDataset:
    """A dataset of a metadataset, opened at its first use; one that cannot be opened has a file with the reason."""

    def __init__(self, request: LoadRequest, layout: Layout) -> None:
        self._request = request
        self._layout = layout
        self._resources = ExitStack()

    @cached_property
    def _files(self) -> DatasetFiles | bytes:
        try:
            return _open_files(self._request.ref, self._layout, self._request.split_part, self._resources)
        except EnergonError as error:
            return f"{error}\n".encode("utf-8", "replace")

    def entry(self, path: tuple[str, ...]) -> Entry | None:
        if not path:  # its parent lists it: no reason to open it
            return Entry(is_folder=True)
        if isinstance(self._files, DatasetFiles):
            return self._files.entry(path)
        return Entry(is_folder=False, size_bytes=len(self._files)) if path == (_FAULT,) else None

    def names(self, path: tuple[str, ...]) -> Iterator[str]:
        if isinstance(self._files, DatasetFiles):
            return self._files.names(path)
        return iter(() if path else (_FAULT,))

    def read(self, path: tuple[str, ...], offset: int, size: int) -> bytes:
        if isinstance(self._files, DatasetFiles):
            return self._files.read(path, offset, size)
        if path != (_FAULT,):
            raise FileNotFoundError("/".join(path))
        return self._files[offset : offset + size]

    def close(self) -> None:
        with self._resources:
            if isinstance(self._files, DatasetFiles):
                self._files.close()


_Files = DatasetFiles | _Folder | _LazyDataset


def _of_node(node: PlanNode, layout: Layout) -> _Files:
    if node.leaf is not None:
        return _of_leaf(node.leaf, layout)
    if node.kind == "metadataset" and len(node.children) == 1:
        return _of_node(node.children[0], layout)
    return _Folder(
        {f"{number}_{_node_name(child)}": _of_node(child, layout) for number, child in enumerate(node.children)}
    )


def _of_leaf(leaf: LeafPlan, layout: Layout) -> _Files:
    if leaf.join is None:
        return _LazyDataset(leaf.request, layout)
    members = leaf.join.members
    return _Folder(
        {
            f"{number}_{_last_name(member.path)}": _LazyDataset(member.request, layout)
            for number, member in enumerate(members)
        }
    )


def _node_name(node: PlanNode) -> str:
    if node.leaf is not None and node.leaf.join is None:
        return _last_name(node.path)
    return _last_name(node.path) if node.kind == "metadataset" else node.kind


def _last_name(path: str) -> str:
    return file_name(PurePosixPath(path).name or "dataset")
