"""The rows and row groups of Parquet files that a process keeps decoded, under the file's serial number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

CACHED_BYTES = 256 << 20
"""Limit of the decoded row groups that a process keeps; it keeps at least one."""

READY_BYTES = 128 << 20
"""Limit of the announced rows that a process keeps until they are read, by their mean size in their row group."""

_MAX_REFUSED = 10_000


class RowCache:
    """The decoded row groups of a process, up to :data:`CACHED_BYTES`; the one that was not used longest goes first.

    It also holds the announced rows, up to :data:`READY_BYTES`. Threads may use it at the same time: each change of its
    dicts is one step, and a row or row group that another thread has dropped is decoded again.
    """

    def __init__(self) -> None:
        self.ready_bytes = 0
        self._ready: dict[tuple[int, int], tuple[dict[str, Any], int]] = {}
        self._refused = 0  # rows in a row that found no room
        self._groups: OrderedDict[tuple[int, int], tuple[list[tuple[str, Any]], int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[int, int], decode: Callable[[], Any]) -> list[tuple[str, Any]]:
        """Return names and Arrow columns of a row group; decode it if it is not here."""
        found = self._groups.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread has dropped it
                self._groups.move_to_end(key)
            return found[0]
        table = decode()
        columns = list(zip(table.column_names, table.columns, strict=True))
        self._groups[key] = columns, table.nbytes
        self._bytes += table.nbytes
        while self._bytes > CACHED_BYTES and len(self._groups) > 1:
            _, (_, size_bytes) = self._groups.popitem(last=False)
            self._bytes -= size_bytes
        return columns

    def has_room(self, key: tuple[int, int], size_bytes: int) -> bool:
        """Return True if there is room for an announced row that is not here yet.

        An iteration that ends early never reads its announced rows. So many refusals drop all of them.
        """
        if key in self._ready:
            return False
        if self.ready_bytes + size_bytes <= READY_BYTES:
            self._refused = 0
            return True
        self._refused += 1
        if self._refused > _MAX_REFUSED:
            self._ready.clear()
            self.ready_bytes = self._refused = 0
        return False

    def add(self, key: tuple[int, int], row: dict[str, Any], size_bytes: int) -> None:
        """Add an announced row."""
        self._ready[key] = row, size_bytes
        self.ready_bytes += size_bytes

    def take(self, key: tuple[int, int]) -> dict[str, Any] | None:
        """Remove and return an announced row; None if it is not here."""
        row, size_bytes = self._ready.pop(key, (None, 0))
        self.ready_bytes -= size_bytes
        return row

    def drop(self, serial: int) -> None:
        """Drop the row groups of a file that is closed."""
        for key in [key for key in list(self._groups) if key[0] == serial]:
            self._bytes -= self._groups.pop(key, (None, 0))[1]


row_cache = RowCache()
serials = count()
"""Numbers of opened files, which are never used again in this process, unlike ids."""
