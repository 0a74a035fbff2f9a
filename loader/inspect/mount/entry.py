"""A file or folder of a mounted tree."""

from __future__ import annotations

from typing import NamedTuple


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
