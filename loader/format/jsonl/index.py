"""``x.jsonl``, one JSON object a line, and its index ``x.jsonl.idx``.

The index holds little-endian uint64s: where each sample begins, then the file's size; n samples are 8·(n+1) bytes.
Blank lines are no samples. They belong to the sample before them; those at the very start belong to the first sample,
which therefore always begins at 0. (So megatron-energon 7.4.1 writes it, byte for byte.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, StorageError
from ..storage import ReadableFile, Storage
from .jsonl_lines import BYTE_ORDER_MARK, scan_lines

__all__ = [
    "IDX_SUFFIX",
    "JsonlIndex",
    "JsonlReader",
    "build_jsonl_index",
    "open_jsonl_index",
    "prepare_jsonl",
]

IDX_SUFFIX = ".idx"

_OFFSET = np.dtype("<u8")
_PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JsonlIndex:
    """Where the samples of a JSONL file lie: sample i is ``[offsets[i], offsets[i + 1])``.

    Args:
        offsets: Shape (n + 1,), uint64.
    """

    offsets: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.offsets) - 1


# --------------------------------------------------------------------------------------------------------- writing


def prepare_jsonl(storage: Storage, name: str, *, progress: Callable[[int], None] | None = None) -> JsonlIndex:
    """Check a JSONL file and write its index beside it, in memory that does not grow with the file.

    Args:
        storage: The folder of the file.
        name: The file in it; the index is called the same with ``.idx`` behind.
        progress: Called with the number of bytes read so far.

    Returns:
        The index as it was written, mapped from its file.

    Raises:
        FormatError: A line is not one JSON object (with its number and offset), there is no sample at all, or the file
            changed meanwhile. The index that was there before stays.
        StorageError: The file cannot be read, or the index not be written.
    """
    with storage.create(name + IDX_SUFFIX) as index_file:
        for offsets in _scan(storage, name, progress):
            index_file.write(offsets.astype(_OFFSET).tobytes())
    return open_jsonl_index(storage, name)


def build_jsonl_index(storage: Storage, name: str, *, progress: Callable[[int], None] | None = None) -> JsonlIndex:
    """Check a JSONL file and make its index in memory (8 bytes a sample); see :func:`prepare_jsonl`.

    Raises:
        FormatError: As for :func:`prepare_jsonl`.
    """
    return JsonlIndex(offsets=np.concatenate(list(_scan(storage, name, progress))))


def _scan(storage: Storage, name: str, progress: Callable[[int], None] | None) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the index piece by piece."""
    path = storage.path(name)
    before = storage.stat(name)
    empty = True
    with storage.open(name) as file:
        for starts in scan_lines(file, path, progress):
            if empty and len(starts):
                starts[0] = 0
                empty = False
            yield starts
    if empty:
        found = "has nothing but blank lines" if before.size_bytes else "is empty"
        raise FormatError(f"this file {found}; expected one JSON object a line", shard=path)
    if storage.stat(name) != before:
        raise FormatError("this file changed while it was read", shard=path, do="run the same command again")
    yield np.array([before.size_bytes], np.uint64)


# --------------------------------------------------------------------------------------------------------- reading


def open_jsonl_index(storage: Storage, name: str) -> JsonlIndex:
    """Open the index of a JSONL file; what it costs does not depend on the number of samples.

    Raises:
        FormatError: There is no index, it is damaged, or it is not of this file: its end is not the file's size, or
            no line begins where the first or the last sample should.
    """
    path = storage.path(name)
    size_bytes = storage.stat(name).size_bytes
    try:
        index_bytes = storage.stat(name + IDX_SUFFIX).size_bytes
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise FormatError("this file has no index yet", shard=path, do=f"run: energon prepare {path}") from error
        raise
    if index_bytes < 16 or index_bytes % 8:
        raise FormatError(
            f"this index has {index_bytes:,} bytes; expected a multiple of 8, and 16 at least",
            shard=storage.path(name + IDX_SUFFIX),
            do=f"run: energon prepare {path}",
        )
    offsets = np.memmap(storage.local_path(name + IDX_SUFFIX), _OFFSET, mode="r")
    if int(offsets[-1]) != size_bytes:
        raise _stale(path, f"the index is of a file of {int(offsets[-1]):,} bytes, and this has {size_bytes:,}")
    with storage.open(name) as file:
        for index in {0, len(offsets) - 2}:
            _check_start(file, path, index, int(offsets[index]))
    return JsonlIndex(offsets=offsets)


def _check_start(file: ReadableFile, path: str, index: int, start: int) -> None:
    """Check that a line with an object begins there."""
    found = file.read_at(max(0, start - 1), _PROBE_BYTES) if start < file.size_bytes else b""
    line = found[1:] if start else found.removeprefix(BYTE_ORDER_MARK)
    # Blank lines at the start belong to the first sample; there may be more of them than were read.
    begins = line.lstrip()[:1] in ((b"{", b"") if len(found) == _PROBE_BYTES else (b"{",))
    if not begins or (start and not found.startswith(b"\n")):
        raise _stale(path, f"the index has sample {index:,} at byte {start:,}, but no line with an object begins there")


class JsonlReader:
    """Reads the samples of a JSONL file at random, one positioned read each.

    Args:
        storage: The folder of the file.
        name: The file in it.
        index: Its index; opened if not given.

    Raises:
        FormatError: As :func:`open_jsonl_index` does.
    """

    def __init__(self, storage: Storage, name: str, index: JsonlIndex | None = None) -> None:
        self._path = storage.path(name)
        self._offsets = (index or open_jsonl_index(storage, name)).offsets
        self._file = storage.open(name)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read_line(self, index: int) -> bytes:
        """Read the JSON text of one sample, without the line break and blanks around it.

        Raises:
            IndexError: There is no such sample; negative numbers count nothing here.
            FormatError: The bytes there are no line with an object: the file changed since it was indexed.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index:,} of {len(self):,} in {self._path}")
        start, stop = int(self._offsets[index]), int(self._offsets[index + 1])
        if not start < stop <= self._file.size_bytes:
            raise _stale(self._path, f"the index has sample {index:,} at bytes {start:,}–{stop:,}")
        line = self._file.read_at(start, stop - start).strip()
        if start == 0:
            line = line.removeprefix(BYTE_ORDER_MARK).lstrip()
        if not (line.startswith(b"{") and line.endswith(b"}")) or b"\n" in line:
            raise _stale(self._path, f"there is no single JSON object at bytes {start:,}–{stop:,} (sample {index:,})")
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _stale(path: str, found: str) -> FormatError:
    return FormatError(f"the index does not fit this file: {found}", shard=path, do=f"run: energon prepare {path}")
