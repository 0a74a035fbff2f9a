"""Serve a tree of files through FUSE, with mfusepy (the extra ``mount``) and the system's libfuse."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ...errors import ConfigError, EnergonError, StorageError
from ...escaped_log import get_logger
from .tree import MountedTree

_log = get_logger(__name__)
_NAMES_KEPT_S = 3600  # by the kernel: a mounted dataset does not change
_T = TypeVar("_T")


def serve_tree(tree: MountedTree, directory: str, *, on_ready: Callable[[], None] | None = None) -> None:
    """Mount a tree, read-only, and serve it until it is unmounted or interrupted.

    Args:
        tree: The files; closed at the end.
        directory: The mount point, an existing empty folder.
    """
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
            "energon mount needs mfusepy, which is not installed",
            hint="run: pip install 'energon-toolkit[mount]'",
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
    """Return the file system's operations, with the names and signatures of FUSE."""
    owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}

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
