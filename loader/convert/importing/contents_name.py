"""Name a part by its contents, where the row does not know their format."""

from __future__ import annotations

import os

from ...accounting.kinds import HEADER_BYTES, with_extension
from ...errors import StorageError
from ..writing.shard_file import FileContents


def name_by_contents(name: str, contents: bytes | FileContents) -> str:
    """Return a part name with the extension of the contents; as it is if their format is unknown.

    Raises:
        StorageError: The contents cannot be read.
    """
    if not isinstance(contents, FileContents):
        return with_extension(name, contents)
    file = contents.file
    try:
        head = file.read(HEADER_BYTES)
        file.seek(0, os.SEEK_SET)
    except OSError as error:
        raise StorageError(f"cannot read the start of a file: {error.strerror}") from error
    return with_extension(name, head)
