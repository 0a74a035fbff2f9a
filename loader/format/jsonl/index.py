"""Index a JSONL file ``x.jsonl``, one JSON object per line, in ``x.jsonl.idx``, and read its samples.

The index holds little-endian uint64s: the offset of each sample, then the size of the file. For n samples it has
8·(n + 1) bytes. Blank lines are not samples. They belong to the sample before them; blank lines at the start of the
file belong to the first sample, which therefore always begins at 0. megatron-energon 7.4.1 writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import FormatError, StorageError
from ...storage import ClosesOnExit, FileInfo, ReadableFile, Storage
from .lines import BYTE_ORDER_MARK, scan_lines

IDX_SUFFIX = ".idx"

LINE = "json"
"""Name of the one part of a sample."""

OFFSET = np.dtype("<u8")
_PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JsonlIndex:
    """Byte ranges of the samples of a JSONL file: sample i is ``[offsets[i], offsets[i + 1])``.

    Args:
        offsets: Shape (n + 1,), uint64.
        info: Size and version of the file, if it was opened.
    """

    offsets: npt.NDArray[np.uint64]
    info: FileInfo | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1


# --------------------------------------------------------------------------------------------------------- writing


def prepare_jsonl(storage: Storage, name: str, *, progress: Callable[[int], None] | None = None) -> JsonlIndex:
    """Check a JSONL file and write its index next to it. Memory does not grow with the file.

    Args:
        storage: Folder of the file.
        name: Name of the file in it. The index has the same name with the suffix ``.idx``.
        progress: Called with the number of bytes read so far.

    Returns:
        The written index, memory-mapped.

    Raises:
        FormatError: A line is not one JSON object (with its number and offset), the file has no samples, or it changed
            meanwhile. An earlier index is not changed.
        StorageError: The file cannot be read, or the index cannot be written.
    """
    with storage.create(name + IDX_SUFFIX) as index_file:
        for offsets in _scan(storage, name, storage.stat(name), progress):
            index_file.write(offsets.astype(OFFSET).tobytes())
    return open_jsonl_index(storage, name)


def build_jsonl_index(storage: Storage, name: str, *, progress: Callable[[int], None] | None = None) -> JsonlIndex:
    """Check a JSONL file and build its index in memory (8 bytes per sample); see :func:`prepare_jsonl`.

    Raises:
        FormatError: As for :func:`prepare_jsonl`.
    """
    info = storage.stat(name)
    return JsonlIndex(offsets=np.concatenate(list(_scan(storage, name, info, progress))), info=info)


def _scan(
    storage: Storage, name: str, before: FileInfo, progress: Callable[[int], None] | None
) -> Iterator[npt.NDArray[np.uint64]]:
    path = storage.path(name)
    empty = True
    with storage.open(name) as file:
        for starts in scan_lines(file, path, progress):
            if empty and len(starts):
                starts[0] = 0
                empty = False
            yield starts
    if empty:
        fault = "has only blank lines" if before.size_bytes else "is empty"
        raise FormatError(f"this file {fault}; expected one JSON object per line", shard=path)
    if storage.stat(name) != before:
        raise FormatError("this file changed while it was read", shard=path, hint="run the same command again")
    yield np.array([before.size_bytes], np.uint64)


# --------------------------------------------------------------------------------------------------------- reading


def open_jsonl_index(storage: Storage, name: str) -> JsonlIndex:
    """Open the index next to a JSONL file, in time that does not depend on the number of samples.

    Raises:
        FormatError: The index is missing, damaged, or not of this file: its last number is not the size of the file, or
            no line begins at the offset of the first or the last sample.
    """
    index = find_jsonl_index(storage, name)
    if index is None:
        path = storage.path(name)
        raise FormatError("this file has no index yet", shard=path, hint=f"run: energon prepare {path}")
    return index


def find_jsonl_index(storage: Storage, name: str) -> JsonlIndex | None:
    """Open the index next to a JSONL file, as :func:`open_jsonl_index`; return None without one."""
    info = storage.stat(name)
    try:
        index = storage.stat(name + IDX_SUFFIX)
    except StorageError as error:
        if error.is_missing:
            return None
        raise
    return map_jsonl_index(storage, info, index)


def map_jsonl_index(storage: Storage, info: FileInfo, index: FileInfo, *, folder: Storage | None = None) -> JsonlIndex:
    """Map the index of a JSONL file, and check that it fits the file.

    Args:
        index: The index, in the folder of the file or in another one.
    """
    folder, path = folder or storage, storage.path(info.name)
    # The index has one offset for each sample, and one for the end.
    if index.size_bytes < 16 or index.size_bytes % 8:
        raise FormatError(
            f"this index has {index.size_bytes:,} bytes; expected a multiple of 8, at least 16",
            shard=folder.path(index.name),
            hint=f"run: energon prepare {path}",
        )
    offsets = np.memmap(folder.local_path(index.name, index), OFFSET, mode="r")
    # Check the size of the file, and where the first and the last sample start.
    if int(offsets[-1]) != info.size_bytes:
        raise _stale(path, f"expected a file of {int(offsets[-1]):,} bytes, found {info.size_bytes:,}")
    with storage.open(info.name, info) as file:
        for line in {0, len(offsets) - 2}:
            _check_start(file, path, line, int(offsets[line]))
    return JsonlIndex(offsets=offsets, info=info)


def _check_start(file: ReadableFile, path: str, index: int, start: int) -> None:
    """Check that a line with an object begins at an offset."""
    head = file.read_at(max(0, start - 1), _PROBE_BYTES) if start < file.size_bytes else b""
    line = head[1:] if start else head.removeprefix(BYTE_ORDER_MARK)
    # Blank lines at the start belong to the first sample, and may be longer than the bytes read.
    has_object = line.lstrip()[:1] in ((b"{", b"") if len(head) == _PROBE_BYTES else (b"{",))
    if not has_object or (start and not head.startswith(b"\n")):
        raise _stale(path, f"expected sample {index:,} at byte {start:,}, but no line with an object begins there")


class JsonlReader(ClosesOnExit):
    """Reads samples of a JSONL file in any order, with one positioned read per sample.

    Args:
        storage: Folder of the file.
        name: Name of the file in it.
        index: Index of the file; None opens it.

    Raises:
        FormatError: As for :func:`open_jsonl_index`.
    """

    def __init__(self, storage: Storage, name: str, index: JsonlIndex | None = None) -> None:
        self._path = storage.path(name)
        index = index or open_jsonl_index(storage, name)
        self._offsets = index.offsets
        self._file = storage.open(name, index.info)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read_line(self, index: int) -> bytes:
        """Read the JSON text of one sample, without the line break and the blanks around it.

        Raises:
            IndexError: The index is out of range, or negative.
            FormatError: The bytes are not a line with an object: the file changed after it was indexed.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sample {index:,} in {self._path}, which has {len(self):,}")
        return read_line(self._file, self._offsets, index, path=self._path)

    def close(self) -> None:
        self._file.close()


def read_line(file: ReadableFile, offsets: npt.NDArray[np.uint64], index: int, *, path: str) -> bytes:
    """Read the JSON text of one sample, and check that it is one line with an object.

    Args:
        file: The open JSONL file.
        offsets: Its index.
        index: Number of the sample, in range.
        path: Path of the file, for messages.

    Raises:
        FormatError: As for :meth:`JsonlReader.read_line`.
    """
    start, stop = int(offsets[index]), int(offsets[index + 1])
    if not start < stop <= file.size_bytes:
        fault = f"found a file of {file.size_bytes:,} bytes"
        raise _stale(path, f"expected sample {index:,} at bytes {start:,}–{stop:,}, {fault}")
    line = file.read_at(start, stop - start).strip()
    if start == 0:
        line = line.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not (line.startswith(b"{") and line.endswith(b"}")) or b"\n" in line:
        raise _stale(path, f"expected one JSON object at bytes {start:,}–{stop:,} (sample {index:,})")
    return line


def _stale(path: str, message: str) -> FormatError:
    return FormatError(f"the index does not fit this file: {message}", shard=path, hint=f"run: energon prepare {path}")
