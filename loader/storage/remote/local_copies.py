"""Copies of remote files on this machine, for tools that need a file: memory maps and SQLite.

All processes of a user share them: a file is downloaded once, by whichever process needs it first. A copy is named by
its URL and version, and appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ...errors import StorageError
from ..durable_copy import temporary_name
from ..file_lock import hold_lock

__all__ = ["CACHE_VARIABLE", "copies_folder", "local_copy"]

CACHE_VARIABLE = "ENERGON_CACHE_DIR"
"""Environment variable with the folder of copies."""

_MAX_AGE_S = 7 * 24 * 3600  # of an unused copy in the temporary folder


def copies_folder() -> Path:
    """Return the folder of this user's copies, which is created for the user alone.

    Raises:
        StorageError: It cannot be created, or belongs to another user.
    """
    base = os.environ.get(CACHE_VARIABLE)
    folder = Path(base) / "energon" / "files" if base else Path(tempfile.gettempdir()) / f"energon-files-{os.getuid()}"
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise StorageError(
            f"cannot create this folder for copies of remote files: {error.strerror}",
            path=str(folder),
            hint=f"set {CACHE_VARIABLE} to a folder that you may write to",
        ) from error
    if status.st_uid != os.getuid() or folder.is_symlink():
        raise StorageError(
            "this folder for copies of remote files belongs to another user",
            path=str(folder),
            hint=f"set {CACHE_VARIABLE} to a folder of your own",
        )
    return folder


def local_copy(url: str, version: str, download: Callable[[Path], None]) -> Path:
    """Return the path of a copy; download it if there is none.

    Args:
        url: URL of the file, without secrets.
        version: Its version; empty for files that never change under their name.
        download: Writes the file to a path.
    """
    folder = copies_folder()
    name = hashlib.sha256(f"{url}\0{version}".encode("utf-8", "surrogateescape")).hexdigest()[:40]
    path = folder / name
    if not path.exists():
        with hold_lock(f"{path}.lock", wait=True):
            if not path.exists():
                _remove_old(folder)
                unused = Path(temporary_name(str(path)))
                try:
                    download(unused)
                    os.replace(unused, path)
                finally:
                    unused.unlink(missing_ok=True)
        Path(f"{path}.lock").unlink(missing_ok=True)
    else:
        os.utime(path)
    return path


def _remove_old(folder: Path) -> None:
    """Remove copies that nobody used for a week, and pieces of killed downloads; those in use stay mapped."""
    oldest = time.time() - _MAX_AGE_S
    for path in folder.iterdir():
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue
