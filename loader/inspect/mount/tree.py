"""A dataset, or the splits and datasets of a metadataset, as a tree of folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePosixPath

from ...cached_property import cached_property
from ...convert.exporting import file_name
from ...dataset.opening import dataset_at, folder_at
from ...dataset.unprepared.temporary_index import index_temporarily
from ...errors import ConfigError, EnergonError
from ...format.dataset_ref import DatasetRef
from ...format.documents.load_request import LoadRequest
from ...format.documents.providers import data_path, is_metadataset, is_record_file
from ...format.prepare.plan import ProgressCallback
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.plans.plan_leaves import plan_splits
from ...metadataset.plans.plan_node import PlanNode
from .dataset_files import DatasetFiles, Entry, Layout

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
