"""Open a pair ``x.bin`` and ``x.idx`` of Megatron-LM, whose samples are sequences of numbers.

``x.idx`` has a header of 34 bytes (magic, version 1, code of the number type, number of sequences, number of document
starts), then the length of each sequence as int32, the byte offset in ``x.bin`` of each as int64, and the document
starts as int64. Multimodal files end with one int8 per sequence, which is not used. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import FormatError, StorageError, plural
from ...storage import ReadableFile, Storage, map_file, raise_storage_error
from .record_file import RecordFile

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
# Code in the header → type of the numbers.
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}

TOKENS = "tokens"  # name of the one part of a sample

_HEADER = struct.Struct("<9sQBQQ")
_LENGTH, _OFFSET, _MODE = 4, 8, 1
_PROBE_BYTES = 4096  # bytes that opening reads: the header, and lengths that distinguish one file from another


class TokenHeader(NamedTuple):
    """The header of an ``.idx`` file."""

    dtype: np.dtype[Any]  # type of the numbers
    sequences: int
    documents: int  # number of document starts; the last one is the end

    @property
    def size_bytes(self) -> int:
        """Bytes of the ``.idx`` file, without the modes of multimodal files."""
        return _HEADER.size + self.sequences * (_LENGTH + _OFFSET) + self.documents * _OFFSET


def read_header(data: bytes, size_bytes: int, *, path: str) -> TokenHeader:
    """Parse and check the header of an ``.idx`` file."""
    # Check the fields one by one, so that each fault has its own message.
    if len(data) < _HEADER.size:
        raise FormatError(
            f"expected the index of a token file, at least {_HEADER.size} bytes, found {len(data)}",
            shard=path,
            hint="copy the file again, or write it again with Megatron-LM's preprocess_data.py",
        )
    magic, version, code, sequences, documents = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FormatError(
            f"expected the index of a token file, which begins with {MAGIC!r}, found {magic!r}",
            shard=path,
            hint="write it again with Megatron-LM's preprocess_data.py",
        )
    if version != VERSION:
        raise FormatError(f"expected version {VERSION} of the index of a token file, found {version}", shard=path)
    if code not in DTYPES:
        known = ", ".join(f"{dtype_code} ({np.dtype(name).name})" for dtype_code, name in DTYPES.items())
        raise FormatError(f"expected a code of a number type, one of {known}; found {code}", shard=path)
    # Compare the size of the file with the numbers in the header.
    header = TokenHeader(np.dtype(DTYPES[code]), sequences, documents)
    if size_bytes not in (header.size_bytes, header.size_bytes + sequences * _MODE):
        raise FormatError(
            f"this index has {size_bytes:,} bytes; expected {header.size_bytes:,} for {plural(sequences, 'sequence')}"
            f" and {plural(documents, 'document start')}",
            shard=path,
            hint="copy the file again: it is truncated, or not complete yet",
        )
    return header


class TokenFile(RecordFile):
    """The sequences of a pair ``x.bin`` (the name) and ``x.idx``; opening reads the header and the last sequence."""

    decodes = False

    def __init__(self, storage: Storage, name: str) -> None:
        # The message of a missing file names the other one of the pair.
        self.index_name = name.removesuffix(".bin") + ".idx"
        try:
            info = storage.stat(name)
        except StorageError as error:
            if error.is_missing and storage.exists(self.index_name):
                raise FormatError(
                    f"the tokens of this index are missing: there is no {name} next to it",
                    shard=storage.path(self.index_name),
                    hint="copy both files of the pair",
                ) from error
            raise
        # The file must be known before its index is read: its size limits the offsets.
        super().__init__(storage, name, info, size_bytes=info.size_bytes, part_names=(TOKENS,))
        # Read the header, and check the last sequence.
        try:
            self._index_info = storage.stat(self.index_name)
            with storage.open(self.index_name, self._index_info) as file:
                self._start = file.read_at(0, _PROBE_BYTES)
                self.header = read_header(self._start, file.size_bytes, path=self.index_path)
                self._check_last(file)
        except StorageError as error:
            if error.is_missing:
                raise FormatError(
                    f"this file has no index: there is no {self.index_name} next to it",
                    shard=self.path,
                    hint="copy both files of the pair",
                ) from error
            raise

    @property
    def index_path(self) -> str:
        return self.storage.path(self.index_name)

    def __len__(self) -> int:
        return self.header.sequences

    def _check_last(self, file: ReadableFile) -> None:
        count = len(self)
        if not count:
            return
        offsets = _HEADER.size + count * _LENGTH
        length = int.from_bytes(file.read_at(offsets - _LENGTH, _LENGTH), "little", signed=True)
        start = int.from_bytes(file.read_at(offsets + (count - 1) * _OFFSET, _OFFSET), "little", signed=True)
        stop = start + length * self.header.dtype.itemsize
        if length < 0 or start < 0 or stop > self.size_bytes:
            raise self.outside(count - 1, start, stop)

    def outside(self, sequence: int, start: int, stop: int) -> FormatError:
        """Return the error for a sequence outside of the ``.bin`` file."""
        return FormatError(
            f"the index has sequence {sequence:,} at bytes {start:,}–{stop:,}, the file has {self.size_bytes:,} bytes",
            shard=self.path,
            hint="copy both files of the pair again: one is truncated or damaged, or they do not belong together",
        )

    @cached_property
    def columns(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Length and byte offset of each sequence, memory-mapped."""
        count = len(self)
        try:
            data = map_file(self.storage.local_path(self.index_name, self._index_info))
            lengths = np.frombuffer(data, "<i4", count, _HEADER.size)
            offsets = np.frombuffer(data, "<i8", count, _HEADER.size + count * _LENGTH)
        except OSError as error:
            raise_storage_error("map this index", self.index_path, error)
        except ValueError as error:
            raise FormatError(f"cannot map this index: {error}", shard=self.index_path) from error
        lengths.flags.writeable = offsets.flags.writeable = False
        return lengths, offsets

    @property
    def documents(self) -> npt.NDArray[np.int64]:
        """Number of the first sequence of each document, and the number of all sequences at the end."""
        first = self.header.size_bytes - self.header.documents * _OFFSET
        data = self.storage.read(self.index_name, first, self.header.size_bytes)
        return np.frombuffer(data, "<i8")

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        lengths, offsets = self.columns
        start = offsets[numbers].astype(np.int64)
        size = lengths[numbers].astype(np.int64) * self.header.dtype.itemsize
        wrong = (size < 0) | (start < 0) | (size > self.size_bytes - start)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise self.outside(int(numbers[first]), int(start[first]), int(start[first]) + int(size[first]))
        return start, size

    def read(self, file: ReadableFile, sample: int, wanted: object = None) -> dict[str, Any]:  # noqa: ARG002 - one part
        start, size = self.spans(np.array([sample]))
        return {TOKENS: file.read_at(int(start[0]), int(size[0]))}

    def values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:  # noqa: ARG002 - all are alike
        """Convert bytes to an array, which is writable: torch warns of tensors that share read-only memory."""
        return {TOKENS: np.frombuffer(bytearray(parts[TOKENS]), self.header.dtype)}

    def facts(self) -> dict[str, Any]:
        dtype = self.header.dtype
        documents = max(0, self.header.documents - 1)
        return {"tokens": {"dtype": dtype.name, "total": self.size_bytes // dtype.itemsize, "documents": documents}}

    def fingerprint(self) -> bytes:
        return self._start + self.size_bytes.to_bytes(8, "little")
