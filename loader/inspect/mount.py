"""Mount a dataset, or the splits and datasets of a metadataset, as a tree of folders: the tree, and its FUSE server."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ..convert import file_name, key_of, split_file_name
from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.selection import Selection
from ..dataset.split_parts import is_excluded
from ..dataset.unprepared.tar_index import with_index
from ..errors import ConfigError, EnergonError, StorageError
from ..escaped_log import get_logger
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import LoadRequest
from ..format.index.layout import ShardEntry
from ..metadataset.plans.plan_leaves import plan_splits
from ..metadataset.plans.plan_node import PlanNode
from ..prepare.plan import ProgressCallback
from .browse.dataset import clip

_log = get_logger(__name__)
_NAMES_KEPT_S = 3600  # by the kernel: a mounted dataset does not change
_FAULT = "ERROR.txt"  # of a dataset that cannot be opened
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The arrangement of files.

    Attributes:
        sample_folders: A folder for each sample with a file for each part, instead of files ``<key>.<part>``.
        shard_folders: Files are in a folder for each shard, instead of all in one.
    """

    sample_folders: bool = False
    shard_folders: bool = False


class DatasetTree:
    """The files of a dataset, read from its shards.

    Of samples with the same key in a folder, the last one is shown.

    Args:
        split_part: Only samples of this split part that the split does not exclude; None for all samples.
    """

    def __init__(self, folder: Dataset, layout: Naming, *, split_part: str | None = None) -> None:
        self._folder = folder
        self._layout = layout
        self.resources = ExitStack()
        self._is_restricted = split_part is not None
        self._ranges: Sequence[range] = Selection(folder, split_part).runs()
        self._shards = {file_name(shard.name): shard for shard in folder.index.shards if self._of_shard(shard)}

    def entry(self, path: Sequence[str]) -> Entry | None:
        """Return what is at a path; None if nothing is."""
        # The root, or the folder of a shard.
        shard, rest = self._shard_of(path)
        if self._layout.shard_folders and path and shard is None:
            return None
        if not rest:
            return Entry(is_folder=True, mtime_ns=shard.mtime_ns if shard else 0)
        # The folder of a sample, or the file of a part.
        target = self._find(shard, rest)
        if target is None:
            return None
        sample, part = target
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
            target = self._find(shard, rest)
            if target is not None and target[1] is None:
                yield from map(file_name, self._sizes(target[0]))

    def read(self, path: Sequence[str], offset: int, size: int) -> bytes:
        """Read bytes of a file, fewer at its end; raise a ``FileNotFoundError`` where there is none."""
        shard, rest = self._shard_of(path)
        sample, part = (self._find(shard, rest) if rest else None) or (0, None)
        if part is None:
            raise FileNotFoundError("/".join(path))
        try:
            return self._folder.read(sample, part, offset, offset + size)
        except KeyError as error:
            raise FileNotFoundError("/".join(path)) from error

    def close(self) -> None:
        """Close all shards, and what the dataset was opened with."""
        with self.resources:
            self._folder.close()

    def _shard_of(self, path: Sequence[str]) -> tuple[ShardEntry | None, Sequence[str]]:
        if not self._layout.shard_folders or not path:
            return None, path
        return self._shards.get(path[0]), path[1:]

    def _find(self, shard: ShardEntry | None, path: Sequence[str]) -> tuple[int, str | None] | None:
        if self._layout.sample_folders:
            key, part = key_of(path[0]), key_of(path[1]) if len(path) > 1 else None
            depth = 2
        else:
            key, part = split_file_name(path[0])
            depth = 1
        # A path that continues below a file leads nowhere.
        if len(path) > depth or (shard is None and self._layout.shard_folders):
            return None
        sample = self._sample(shard, key)
        return None if sample is None else (sample, part)

    def _sample(self, shard: ShardEntry | None, key: str) -> int | None:
        index = self._folder.index
        # Of samples with one key, the last counts, as if the tar files were unpacked.
        for sample in reversed(index.find(key if shard is None else f"{shard.name}/{key}")):
            is_same = index.key(sample) == key and (shard is None or index.shard_of(sample) is shard)
            is_in_part = any(sample in some for some in self._ranges)
            if is_same and is_in_part and not (self._is_restricted and is_excluded(self._folder, sample)):
                return sample
        return None

    def _of_shard(self, shard: ShardEntry) -> list[range]:
        return clip(self._ranges, self._folder.index.samples_of(shard))

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

    def _sizes(self, sample: int) -> dict[str, int]:
        return {part.name: part.size_bytes for part in self._folder.parts(sample)}


class Entry(NamedTuple):
    """A file or folder, with the time of its last change in nanoseconds since 1970."""

    is_folder: bool
    size_bytes: int = 0
    mtime_ns: int = 0


def open_tree(
    ref: DatasetRef | str, layout: Naming, *, split_part: str | None = None, on_progress: ProgressCallback | None = None
) -> MountedTree:
    """Open a dataset or a metadataset as a tree of files.

    Args:
        ref: Folder of a dataset, a JSONL, token or Parquet file, tar shards that are not prepared, or a metadataset
            (``.yaml``).
        split_part: Only samples of this split part, or only this split of a metadataset.
        on_progress: Called after each shard that is scanned, if the shards are not prepared.
    """
    ref = DatasetRef.of(ref)
    if ref.kind.is_mix:
        planned = plan_splits(ref, split_parts=None if split_part is None else [split_part]).checked()
        return MountedTree({name: _of_node(node) for name, node in planned.trees.items()}, layout)
    return MountedTree(_open_files(ref, layout, split_part, on_progress), layout)


def _open_files(
    ref: DatasetRef, layout: Naming, split_part: str | None, on_progress: ProgressCallback | None = None
) -> DatasetTree:
    with ExitStack() as stack:
        # Shards that are not prepared get an index in a temporary folder.
        indexed = with_index(ref, stack, on_progress)
        if indexed is not ref and split_part is not None:
            raise ConfigError(
                f"these shards are not prepared, so they have no split part {split_part!r}",
                at=ref.path,
                hint="run energon prepare, or mount all samples",
            )
        files = DatasetTree(dataset_at(indexed), layout, split_part=split_part)
        # Closing the files removes the temporary folder.
        files.resources = stack.pop_all()
        return files


_Tree = dict[str, "_Tree"] | LoadRequest | DatasetTree
"""A folder of trees, a dataset that is opened at its first use, or one that is open."""


class MountedTree:
    """A tree of files; paths begin with ``/``.

    A dataset of a metadataset is opened at its first use. If it cannot be opened, it has a file with the reason.
    """

    def __init__(self, root: _Tree, layout: Naming) -> None:
        self._root, self._layout = root, layout
        self._opened: dict[int, DatasetTree | bytes] = {}  # by the identity of the request

    def entry(self, path: str) -> Entry | None:
        """Return the file or folder at a path; None for an unknown path."""
        tree, rest = self._find(path)
        if tree is None:
            return None
        if isinstance(tree, dict) or (isinstance(tree, LoadRequest) and not rest):
            return Entry(is_folder=True)  # its parent lists a dataset: no reason to open it
        files = self._open(tree)
        if isinstance(files, DatasetTree):
            return files.entry(rest)
        return Entry(is_folder=False, size_bytes=len(files)) if rest == (_FAULT,) else None

    def names(self, path: str) -> Iterator[str]:
        """Yield the names in a folder, each once."""
        tree, rest = self._find(path)
        if tree is None or isinstance(tree, dict):
            return iter(tree or ())
        files = self._open(tree)
        return files.names(rest) if isinstance(files, DatasetTree) else iter(() if rest else (_FAULT,))

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read bytes of a file, fewer at its end; raise a ``FileNotFoundError`` where there is none."""
        tree, rest = self._find(path)
        if tree is None or isinstance(tree, dict):
            raise FileNotFoundError(path)
        files = self._open(tree)
        if isinstance(files, DatasetTree):
            return files.read(rest, offset, size)
        if rest != (_FAULT,):
            raise FileNotFoundError(path)
        return files[offset : offset + size]

    def close(self) -> None:
        """Close all shards."""
        for files in [self._root, *self._opened.values()]:
            if isinstance(files, DatasetTree):
                files.close()

    def _find(self, path: str) -> tuple[_Tree | None, tuple[str, ...]]:
        """Return the folder or dataset that a path leads to, None for an unknown one, and the path inside of it."""
        tree: _Tree | None = self._root
        rest = tuple(part for part in path.split("/") if part)
        while isinstance(tree, dict) and rest:
            tree, rest = tree.get(rest[0]), rest[1:]
        return tree, rest

    def _open(self, tree: LoadRequest | DatasetTree) -> DatasetTree | bytes:
        """Return the files of a dataset, or the reason why it cannot be opened."""
        if isinstance(tree, DatasetTree):
            return tree
        if id(tree) not in self._opened:
            try:
                self._opened[id(tree)] = _open_files(tree.ref, self._layout, tree.split_part)
            except EnergonError as error:
                self._opened[id(tree)] = f"{error}\n".encode("utf-8", "replace")
        return self._opened[id(tree)]


def _of_node(node: PlanNode) -> _Tree:
    if node.leaf is not None and node.leaf.join is None:
        return node.leaf.request
    if node.leaf is not None and node.leaf.join is not None:
        # Numbers keep the names of members apart that have the same last part.
        members = node.leaf.join.members
        return {f"{index}_{_last_name(member.path)}": member.request for index, member in enumerate(members)}
    # A metadataset of one dataset needs no folder of its own.
    if node.kind == "metadataset" and len(node.children) == 1:
        return _of_node(node.children[0])
    return {f"{index}_{_node_name(child)}": _of_node(child) for index, child in enumerate(node.children)}


def _node_name(node: PlanNode) -> str:
    if node.leaf is not None and node.leaf.join is None:
        return _last_name(node.path)
    return _last_name(node.path) if node.kind == "metadataset" else node.kind


def _last_name(path: str) -> str:
    return file_name(PurePosixPath(path).name or "dataset")


# Serve the tree through FUSE, with mfusepy (the extra "mount") and the libfuse of the system.


def serve_tree(tree: MountedTree, directory: str, *, on_ready: Callable[[], None] | None = None) -> None:
    """Mount a tree, read-only, at an empty folder, and serve it until it is unmounted or interrupted; then close it."""
    # Check what may fail before the dataset is mounted.
    fuse = _import_mfusepy()
    _check_directory(directory)
    source = "energon"  # what `mount` and `df` show
    try:
        # One thread: shards are opened and closed by turns.
        fuse.FUSE(
            _operations(fuse, tree, on_ready),
            directory,
            foreground=True,
            nothreads=True,
            ro=True,
            fsname=source,
            attr_timeout=_NAMES_KEPT_S,
            entry_timeout=_NAMES_KEPT_S,
        )
    except RuntimeError as error:
        raise StorageError(
            f"the system refused to mount (code {error})",
            path=directory,
            hint="check that /dev/fuse exists and that fusermount3 is installed (apt-get install fuse3)",
        ) from error
    finally:
        tree.close()


def _import_mfusepy() -> Any:
    try:
        import mfusepy
    except ImportError as error:
        raise ConfigError(
            "energon mount needs mfusepy, which is not installed", hint="run: pip install 'energon-toolkit[mount]'"
        ) from error
    except OSError as error:  # it loads libfuse when it is imported
        raise ConfigError(
            f"energon mount needs libfuse, which was not found: {error}",
            hint="run: apt-get install fuse3, or: brew install macfuse",
        ) from error
    return mfusepy


def _check_directory(directory: str) -> None:
    try:
        names = os.listdir(directory)
    except FileNotFoundError as error:
        raise StorageError("there is no such folder", path=directory, hint=f"run: mkdir -p {directory}") from error
    except NotADirectoryError as error:
        raise StorageError("expected a folder, found a file", path=directory, hint="name an empty folder") from error
    except OSError as error:
        raise StorageError(
            f"cannot read this folder: {error.strerror}",
            path=directory,
            hint=f"an earlier mount may have ended without an unmount; run: fusermount3 -u {directory}",
        ) from error
    if names:
        raise StorageError(
            "expected an empty folder to mount at, found one with files", path=directory, hint="name another folder"
        )


def _operations(fuse: Any, tree: MountedTree, on_ready: Callable[[], None] | None) -> Any:
    owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}

    # Programs see errors as codes.
    def with_error_codes(operation: Callable[..., _T]) -> Callable[..., _T]:
        @wraps(operation)
        def checked(*args: Any) -> _T:
            try:
                return operation(*args)
            except FileNotFoundError as error:
                raise fuse.FuseOSError(errno.ENOENT) from error
            except EnergonError as error:
                _log.error("%s", error)  # programs see only "input/output error"
                raise fuse.FuseOSError(errno.EIO) from error

        return checked

    # The methods have the names that FUSE calls.
    class Operations(fuse.Operations):  # type: ignore[misc]
        use_ns = True

        def init(self, _path: str) -> None:
            if on_ready is not None:
                on_ready()

        @with_error_codes
        def getattr(self, path: str, _file: int | None = None) -> dict[str, int]:
            entry = tree.entry(path)
            if entry is None:
                raise FileNotFoundError(path)
            mode = stat.S_IFDIR | 0o555 if entry.is_folder else stat.S_IFREG | 0o444
            times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), entry.mtime_ns)
            return {"st_mode": mode, "st_nlink": 1, "st_size": entry.size_bytes, **times, **owner}

        @with_error_codes
        def readdir(self, path: str, _file: int) -> Iterator[str]:
            yield from (".", "..")
            yield from tree.names(path)

        @with_error_codes
        def read(self, path: str, size: int, offset: int, _file: int) -> bytes:
            return tree.read(path, offset, size)

    return Operations()
