"""Scan many shards in worker processes, into the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import EnergonError, FormatError, StorageError
from ..storage import FileInfo, Storage
from .journal import Journal
from .shard_index import index_shard
from .worker_pool import run_in_workers

__all__ = ["ShardScans"]


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan one shard in a worker, into the journal."""

    storage: Storage

    def __call__(self, shard: FileInfo) -> EnergonError | int:
        try:
            index = index_shard(self.storage, shard.name)
            now = self.storage.stat(shard.name)
            if now != shard:
                return FormatError(
                    f"the shard changed while it was read (now {now.size_bytes} bytes, before {shard.size_bytes})",
                    shard=self.storage.path(shard.name),
                    do="wait until it is written, then prepare again",
                )
        except (FormatError, StorageError) as error:
            return error
        # What fails from here on, a full disk, is no fault of this shard's: it ends the run.
        Journal(self.storage).save(shard, index)
        return len(index)


class ShardScans:
    """The scans that a prepare waits for, done by workers while it writes."""

    def __init__(
        self, storage: Storage, shards: Sequence[FileInfo], workers: int, on_done: Callable[[int], None]
    ) -> None:
        self._shards = shards
        self._results = run_in_workers(_Scan(storage), shards, workers=workers)
        self._on_done = on_done
        self._open = {shard.name for shard in shards}
        self.errors: dict[str, EnergonError] = {}

    def wait_for(self, shard: FileInfo) -> None:
        """Return once a shard is in the journal, or has failed and all others are done too."""
        while shard.name in self._open:
            self._take_one()
        if shard.name in self.errors:
            while self._open:
                self._take_one()  # so that every damaged shard is named, not only the first

    def _take_one(self) -> None:
        number, result = next(self._results)
        name = self._shards[number].name
        self._open.remove(name)
        if isinstance(result, EnergonError):
            self.errors[name] = result
        else:
            self._on_done(result)

    def raise_errors(self) -> None:
        """Raise what has gone wrong, naming every shard."""
        errors = [self.errors[shard.name] for shard in self._shards if shard.name in self.errors]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise FormatError(
                f"{len(errors)} shards cannot be indexed\n" + "\n".join(str(error) for error in errors),
                do="mend them, or leave them out with --exclude REGEX",
            )

    def close(self) -> None:
        """End the workers."""
        self._results.close()
