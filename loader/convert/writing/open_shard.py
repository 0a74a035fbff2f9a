"""A shard that is being written, and that appears whole."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import BinaryIO

from ...format.index.journal import save_scans
from ...storage import Storage
from .shard_file import ShardFile
from .written_shards import ShardRecord, version_of


class OpenShard:
    """A shard that is being written.

    Args:
        storage: The dataset.
        name: Its file.
        number: Its number.
        split: Its split part.
    """

    def __init__(self, storage: Storage, name: str, number: int, split: str) -> None:
        self.name = name
        self.number = number
        self.split = split
        self._storage = storage
        self._context: AbstractContextManager[BinaryIO] = storage.create(name, durable=False)
        self.file = ShardFile(self._context.__enter__())

    def finish(self) -> ShardRecord:
        """End the file, and store its index for the commit."""
        with ExitStack() as stack:
            stack.push(self._context)
            index = self.file.finish()
        info = self._storage.stat(self.name)
        save_scans(self._storage, [(info, index)])
        size_bytes, version = version_of(info)
        return ShardRecord(
            name=self.name, size_bytes=size_bytes, version=version, samples=self.file.samples, split=self.split
        )

    def abort(self, error: BaseException) -> None:
        """Leave no file."""
        self._context.__exit__(type(error), error, error.__traceback__)
