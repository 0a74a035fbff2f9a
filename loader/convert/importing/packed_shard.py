"""A planned shard that travels with its rows, for workers that do not see the files of this process."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...engine.journal import other_folder
from ...errors import ConfigError
from ...format.unfinished import IMPORT_FOLDER
from ...storage import LocalStorage
from ...storage.temporary_files import scratch_folder
from ..rows.row_file import StoredRows
from ..rows.shard_layout import PlannedShard
from ..sources.source import ImportSource
from .write_shard import WriteShard, Written


class _PackedRows(StoredRows):
    """The rows of one shard, in memory."""

    def __init__(self, data: Sequence[bytes], renamed: dict[int, str], total: int) -> None:
        none = np.empty(0, np.int64)
        super().__init__(path="", ends=none, sizes=none, splits=none, split_names=(), groups=none, renamed=renamed)
        self.data = data
        self._total = total

    def __len__(self) -> int:
        return self._total  # of the import, for shares of failures

    def read(self, row: int) -> bytes:
        return self.data[row]


@dataclass(frozen=True, slots=True)
class PackedShard:
    """A planned shard, which is pickled with its rows.

    Attributes:
        write: Writes the shard.
    """

    write: WriteShard
    shard: PlannedShard

    @property
    def name(self) -> str:
        return self.shard.name

    def steps(self) -> Generator[Written, None, None]:
        """Write the shard, and yield the progress and the end."""
        storage = self.write.storage
        if isinstance(storage, LocalStorage) and not storage.exists(IMPORT_FOLDER):
            raise other_folder(storage.path(""))
        with scratch_folder() as folder:
            # Downloads lie next to the rows.
            if isinstance(self.write.rows, _PackedRows):
                self.write.rows.path = os.path.join(folder, "rows")
            yield from self.write(self.shard)

    def __reduce__(self) -> tuple[Any, ...]:
        write, shard = self.write, self.shard
        numbers = write.order[shard.start : shard.stop].tolist()
        data = [write.rows.read(row) for row in numbers]
        renamed = {at: write.rows.renamed[row] for at, row in enumerate(numbers) if row in write.rows.renamed}
        total = len(write.rows)
        return _unpacked, (replace(write, rows=None, order=None), shard, data, renamed, total)  # type: ignore[arg-type]


def _unpacked(
    write: WriteShard, shard: PlannedShard, data: Sequence[bytes], renamed: dict[int, str], total: int
) -> PackedShard:
    rows = _PackedRows(data, renamed, total)
    order = np.arange(len(data), dtype=np.int64)
    return PackedShard(replace(write, rows=rows, order=order), replace(shard, start=0, stop=len(data)))


def check_visible(rows: StoredRows, sources: Sequence[ImportSource]) -> None:
    """Raise a ``ConfigError`` if rows are in files that only this machine has."""
    scratch = os.path.dirname(rows.path)
    if {*os.listdir(scratch)} <= {os.path.basename(rows.path), "downloads"}:
        return
    encoded = os.fsencode(scratch)
    for row in range(len(rows)):
        if encoded in rows.read(row):
            raise ConfigError(
                "a source is unpacked to a temporary folder of this machine, which the workers of a cluster do not see",
                at=sources[rows[row].source].path,
                hint="unpack it first, or import it with --engine processes; its shares (--share) may run anywhere",
            )
