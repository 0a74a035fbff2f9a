"""Index files of JSONL files for programs that write or read them, and readers of lines and samples."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self

from ..format.jsonl.index import IDX_SUFFIX, JsonlReader, open_jsonl_index
from ..samples.source_info import SourceInfo
from ..storage import ClosesOnExit, open_parent
from ..storage.epath import EPath

IJSONL_SUFFIX = f".jsonl{IDX_SUFFIX}"
_OFFSET_BYTES = 8


class IJsonlIndexWriter:
    r"""A writer of a JSONL file's index, which appears whole when it is closed, or not at all.

    Args:
        jsonl_path: The JSONL file.

    Raises:
        StorageError: The index cannot be written.

    >>> import tempfile
    >>> path = EPath(tempfile.mkdtemp()) / "x.jsonl"
    >>> path.write_text('{"a": 1}\n{"a": 2}\n')
    >>> with IJsonlIndexWriter(path) as writer:
    ...     for offset in (0, 9, 18):  # each line's, then the size of the file
    ...         writer.append(offset)
    >>> list(IJsonlIndexReader(path))
    [0, 9, 18]
    """

    def __init__(self, jsonl_path: str | os.PathLike[str]) -> None:
        storage, name = open_parent(jsonl_path)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(storage.create(name + IDX_SUFFIX))

    def append(self, offset: int) -> None:
        """Write the byte offset of the next line; after the last line, the size of the file."""
        self._file.write(offset.to_bytes(_OFFSET_BYTES, "little"))

    def close(self, finalize: bool = True) -> None:
        """End the index; without ``finalize``, discard it."""
        if finalize:
            self._stack.close()
        else:
            error = EOFError()  # never raised: it only ends the context of an unfinished file
            self._stack.__exit__(EOFError, error, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finalize=kind is None)


class IJsonlIndexReader(ClosesOnExit):
    """A reader of a JSONL file's index: the byte offset of each line, and at the end the size of the file.

    Args:
        jsonl_path: The JSONL file.

    Raises:
        FormatError: The index is missing, damaged, or not of this file.
        StorageError: A file cannot be read.
    """

    def __init__(self, jsonl_path: str | os.PathLike[str]) -> None:
        self._offsets = open_jsonl_index(*open_parent(jsonl_path)).offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no offset {index:,}: the index has {len(self):,}")
        return int(self._offsets[index])

    def __iter__(self) -> Iterator[int]:
        return map(int, self._offsets)

    @staticmethod
    def count_samples(jsonl_path: str | os.PathLike[str]) -> int:
        """Return the number of lines with a sample."""
        return len(open_jsonl_index(*open_parent(jsonl_path)))

    @staticmethod
    def size(jsonl_path: str | os.PathLike[str]) -> int:
        """Return the size of the JSONL file in bytes, as its index states it."""
        return int(open_jsonl_index(*open_parent(jsonl_path)).offsets[-1])


class IJsonlFile(ClosesOnExit):
    """A reader of lines at byte offsets.

    Args:
        fileobj: The JSONL file, opened in binary mode; closed with this reader.
    """

    def __init__(self, fileobj: BinaryIO) -> None:
        self._file = fileobj

    def next(self, offset: int | None = None, size: int | None = None) -> bytes | None:
        """Read a line with its line break; None at the end of the file.

        Args:
            offset: Byte offset to read from; by default after the bytes that were read last.
            size: Number of bytes to read; by default up to the end of the line.
        """
        if offset is not None:
            self._file.seek(offset)
        return (self._file.readline() if size is None else self._file.read(size)) or None

    def seek(self, offset: int) -> None:
        """Continue at a byte offset."""
        self._file.seek(offset)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file.readline, b"")

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True, kw_only=True)
class IJsonlSamplePointer:
    """The place of one line.

    Attributes:
        index: Number of the sample.
        byte_offset: Byte offset of the line.
        byte_size: Size of the line with its line break.
    """

    index: int
    byte_offset: int
    byte_size: int


class CachedIJsonlOffsetReader(ClosesOnExit):
    """A reader of the places of lines. The index is mapped into memory, so that no look-up reads a file.

    Args:
        jsonl_file: The JSONL file.
        cache_size: Accepted for code written for megatron-energon.

    Raises:
        FormatError: The index is missing, damaged, or not of this file.
    """

    def __init__(self, jsonl_file: str | os.PathLike[str], cache_size: int = 32) -> None:  # noqa: ARG002 - see above
        self._reader = IJsonlIndexReader(jsonl_file)

    def __len__(self) -> int:
        return len(self._reader) - 1

    def get_ijsonl_byte_offset(self, sample_offset: int = 0) -> tuple[int, int]:
        """Return byte offset and size of a line; for the number of lines, the end of the file and 0.

        Raises:
            IndexError: There is no such line.
        """
        start = self._reader[sample_offset]
        return start, (start if sample_offset == len(self) else self._reader[sample_offset + 1]) - start

    def get_total_size(self) -> int:
        """Return the size of the JSONL file in bytes."""
        return self._reader[len(self)]


class IJsonlReader:
    """A reader of an indexed JSONL file in any order.

    Args:
        jsonl_path: The JSONL file.
        sample_filter: Function that returns True for the keys of samples to read; others are None.
        index_cache_size: Accepted for code written for megatron-energon.

    Raises:
        FormatError: The index is missing, damaged, or not of this file.
    """

    def __init__(
        self,
        jsonl_path: str | os.PathLike[str],
        sample_filter: Callable[[str], bool] | None = None,
        index_cache_size: int = 5,
    ) -> None:
        self.jsonl_path = EPath(jsonl_path)
        self.sample_filter = sample_filter
        self.cached_offset_reader = CachedIJsonlOffsetReader(jsonl_path, index_cache_size)
        self._reader = JsonlReader(*open_parent(jsonl_path))

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, idx: int | str) -> dict[str, Any] | tuple[bytes, SourceInfo] | None:
        """Return a sample by its number, or its line and source by the name ``<number>.json``.

        Raises:
            IndexError: There is no sample with this number.
            KeyError: The name is not of this form.
        """
        line_number = idx if isinstance(idx, int) else _number(idx)
        name = self.jsonl_path.name
        source = SourceInfo(
            dataset_path=str(self.jsonl_path), index=line_number, shard_name=name, file_names=(f"{line_number}.json",)
        )
        if isinstance(idx, str):
            return self._reader.read_line(line_number), source
        if self.sample_filter is not None and not self.sample_filter(str(line_number)):
            return None
        return {
            "__key__": str(line_number),
            "__shard__": name,
            "__restore_key__": ("Webdataset", line_number),
            "__sources__": (source,),
            "json": self._reader.read_line(line_number),
        }

    def list_all_samples(self) -> Iterator[tuple[str, int, int]]:
        """Yield key, size in bytes, and 0 (the number of the file) of each sample."""
        for line_number in range(len(self)):
            yield str(line_number), self.cached_offset_reader.get_ijsonl_byte_offset(line_number)[1], 0

    def list_all_sample_parts(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes, and 0 of the only part of each sample."""
        return ((f"{key}.json", size, file) for key, size, file in self.list_all_samples())

    def list_sample_parts(self, sample_key: str) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes, and 0 of the only part of one sample."""
        line_number = int(sample_key)
        yield f"{line_number}.json", self.cached_offset_reader.get_ijsonl_byte_offset(line_number)[1], 0

    def get_total_size(self) -> int:
        """Return the size of the JSONL file in bytes."""
        return self.cached_offset_reader.get_total_size()

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def _number(name: str) -> int:
    text, _, part = name.partition(".")
    if part != "json" or not text.isdecimal():
        raise KeyError(f"{name!r}: expected a name such as '17.json'")
    return int(text)
