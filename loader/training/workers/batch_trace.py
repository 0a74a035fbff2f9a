"""A compact log of the samples of each micro-batch, written by the workers and read by ``energon trace``.

A file belongs to one worker of one start. It begins with a line that names the format, and a line of JSON that
describes the run: the state of the rank without its lanes, and ``workers``. Records follow:

=========  ====================================================================================================
8 bytes    the micro-batch of the run; of a name its number, from 0
4 bytes    the size of what follows; its two highest bits are the kind of the record
``0``      positions in the lane's stream, 8 bytes each: the micro-batch is a list of samples
``1``      an item id as JSON, with the numbers of names in place of the names
``2``      a name in UTF-8: the key of a stage in item ids
=========  ====================================================================================================

All integers are little-endian. Each record is written by one call, so a worker that is killed loses none that it made.
A last record that is cut is ignored.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError, FormatError, StorageError
from ...pipeline.contract.item_id import ItemId

Record = Callable[[int, ItemId], None]
"""Records the item id of a micro-batch."""

_FORMAT = b"energon trace 1\n"
# Before each record: the number of the micro-batch, then the kind and size of the record.
_HEAD = struct.Struct("<QI")
_POSITIONS, _NESTED, _NAME = 0, 1, 2
# The two highest bits of the size have the kind.
_KIND_SHIFT = 30
_MAX_SIZE = (1 << _KIND_SHIFT) - 1
_SUFFIX = ".trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTrace:
    """The log of one start of a rank's workers.

    Attributes:
        folder: A local or shared folder, which is made if it is missing.
        started_ns: When the workers were started, in nanoseconds since 1970.
    """

    folder: str
    run: dict[str, Any]
    started_ns: int

    @classmethod
    def begin(cls, folder: str | os.PathLike[str], run: dict[str, Any]) -> BatchTrace:
        path = os.fspath(folder)
        if "://" in path:
            raise ConfigError(f"expected a local or shared folder as trace_dir, found {path!r}")
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make this folder for traces: {error.strerror or error}",
                path=path,
                hint="pass another trace_dir to the loader",
            ) from error
        return cls(folder=path, run=run, started_ns=time.time_ns())

    def again(self) -> BatchTrace:
        return replace(self, started_ns=time.time_ns())


@contextmanager
def recording(trace: BatchTrace, *, rank: int, worker: int) -> Iterator[Record]:
    """Return a context manager with the function that records micro-batches of a worker."""
    path = Path(trace.folder) / f"{trace.started_ns:020}-rank{rank:06}-worker{worker:03}{_SUFFIX}"
    try:
        file = path.open("xb", buffering=0)
    except OSError as error:
        raise StorageError(f"cannot write this trace: {error.strerror or error}", path=str(path)) from error
    with file:
        file.write(_FORMAT + json.dumps(trace.run).encode() + b"\n")
        yield _recorder(file.write)


@lru_cache(maxsize=64)
def _record_of_positions(count: int) -> struct.Struct:
    return struct.Struct(f"<QI{count}q")


def _recorder(write: Callable[[bytes], Any]) -> Record:
    names: dict[str, str] = {}

    def numbered(item_id: ItemId) -> Any:
        """Return an item id with the numbers of names, as strings, in place of the names."""
        if not isinstance(item_id, tuple):
            return item_id
        return [number(part) if isinstance(part, str) else numbered(part) for part in item_id]

    def number(name: str) -> str:
        if name not in names:
            body = name.encode()
            write(_HEAD.pack(len(names), _NAME << _KIND_SHIFT | len(body)) + body)
            names[name] = str(len(names))
        return names[name]

    def record(batch_number: int, item_id: ItemId) -> None:
        # Most ids are positions, which take 8 bytes each; nested ids are JSON.
        positions = item_id if isinstance(item_id, tuple) else (item_id,)
        count = len(positions)
        try:
            content = _record_of_positions(count).pack(batch_number, 8 * count, *positions)
        except struct.error:  # not only integers
            body = json.dumps(numbered(item_id), separators=(",", ":")).encode()
            content = _HEAD.pack(batch_number, _NESTED << _KIND_SHIFT | len(body)) + body
        write(content)

    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A file of a log."""

    path: str
    run: dict[str, Any]

    @classmethod
    def open(cls, path: str) -> TraceFile:
        with Path(path).open("rb") as file:
            if file.readline(len(_FORMAT)) != _FORMAT:
                raise FormatError("expected a trace of micro-batches, which a loader with trace_dir writes", at=path)
            try:
                run = {**json.loads(file.readline())}
            except (ValueError, TypeError) as error:  # no JSON, or no object
                raise FormatError("the description of the run in this trace is damaged", at=path) from error
        return cls(path=path, run=run)

    def records(self, wanted: Callable[[int], bool]) -> Iterator[tuple[int, ItemId]]:
        """Yield the item ids of the micro-batches whose numbers are wanted, in the order of the file."""
        content = Path(self.path).read_bytes()
        names: list[str] = []
        offset = content.index(b"\n", len(_FORMAT)) + 1
        while offset + _HEAD.size <= len(content):
            batch_number, size = _HEAD.unpack_from(content, offset)
            kind, size = size >> _KIND_SHIFT, size & _MAX_SIZE
            start = offset = offset + _HEAD.size
            offset += size
            if offset > len(content):
                return
            if kind == _NAME:
                names.append(content[start:offset].decode("utf-8", "replace"))
            elif wanted(batch_number):
                yield batch_number, self._item_id(kind, content[start:offset], names)

    def _item_id(self, kind: int, body: bytes, names: list[str]) -> ItemId:
        try:
            if kind == _POSITIONS:
                return struct.unpack(f"<{len(body) // 8}q", body)
            return cast("ItemId", _named(json.loads(body), names))
        except (ValueError, IndexError, RecursionError, struct.error) as error:
            raise FormatError("a record of this trace is damaged", at=self.path) from error


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, str):
        return names[int(value)]
    return tuple(_named(part, names) for part in value) if isinstance(value, list) else value


def list_traces(folder: str) -> list[str]:
    """Return the paths of the files of a log, the last start first."""
    return sorted(map(str, Path(folder).glob(f"*{_SUFFIX}")), reverse=True)
