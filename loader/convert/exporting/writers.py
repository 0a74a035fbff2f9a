"""Write samples as files, lines of JSON, or tar shards without metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

from ...errors import ConfigError
from ..writing.shard_file import ShardFile, sample_bytes
from .new_output import NewFolder, new_file, raise_unwritable
from .values import as_json, file_name


class ExportedSample(NamedTuple):
    """A sample to write.

    Attributes:
        shard: Name of its shard.
        key: Its key.
        split: Its split part; ``""`` for none.
        parts: Part name → bytes.
    """

    shard: str
    key: str
    split: str
    parts: Mapping[str, bytes]

    @property
    def full_key(self) -> str:
        return f"{self.shard}/{self.key}"


class SampleWriter(Protocol):
    """Writes samples in one format; what it writes appears when its block ends without an error."""

    def write(self, sample: ExportedSample) -> None:
        """Write a sample.

        Raises:
            ConfigError: The format cannot hold it together with earlier samples.
            SampleError: A value is not what its part's name says.
            StorageError: The output cannot be written.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...


class FilesWriter(NewFolder):
    """Writes each part as a file ``<key>.<part>``; a slash in a key as ``%2F``.

    Args:
        path: A new or empty folder.
        by_shard: Write a folder for each shard.

    Raises:
        StorageError: The folder has files, or cannot be written.
    """

    def __init__(self, path: str, *, by_shard: bool = False) -> None:
        super().__init__(path)
        self._by_shard = by_shard

    def write(self, sample: ExportedSample) -> None:
        """Write a sample.

        Raises:
            ConfigError: An earlier sample has this key.
            StorageError: A file cannot be written.
        """
        folder = os.path.join(self.folder, file_name(sample.shard)) if self._by_shard else self.folder
        try:
            os.makedirs(folder, exist_ok=True)
            for part, data in sample.parts.items():
                with open(os.path.join(folder, file_name(f"{sample.key}.{part}")), "xb") as file:
                    file.write(data)
        except FileExistsError as error:
            raise ConfigError(
                f"two samples have the key {sample.key!r}",
                at=sample.full_key,
                hint="write a folder for each shard (--by-shard), or tar shards",
            ) from error
        except OSError as error:
            raise_unwritable(error, self._path)


class TarWriter(NewFolder):
    """Writes tar shards that ``energon prepare`` takes, ``shard_000000.tar`` and so on.

    Args:
        path: A new or empty folder.
        shard_bytes: A shard ends before the sample that would exceed this size; a larger sample has its own.

    Raises:
        StorageError: The folder has files, or cannot be written.
    """

    def __init__(self, path: str, *, shard_bytes: int = 1 << 30) -> None:
        super().__init__(path)
        self._shard_bytes = shard_bytes
        self._open: tuple[BinaryIO, ShardFile] | None = None
        self._shards = 0
        self._keys: set[str] = set()

    def write(self, sample: ExportedSample) -> None:
        """Write a sample; one whose key the shard has begins another shard.

        Raises:
            StorageError: A file cannot be written.
        """
        try:
            shard = self._open[1] if self._open else None
            if (
                shard is None
                or shard.size_bytes + sample_bytes(sample.key, sample.parts) > self._shard_bytes
                or sample.key in self._keys
            ):
                shard = self._next_shard()
            shard.write(sample.key, sample.parts)
            self._keys.add(sample.key)
        except OSError as error:
            raise_unwritable(error, self._path)

    def _next_shard(self) -> ShardFile:
        self.finish()
        file = open(os.path.join(self.folder, f"shard_{self._shards:06}.tar"), "wb")  # noqa: SIM115
        shard = ShardFile(file)
        self._open = file, shard
        self._shards += 1
        self._keys.clear()
        return shard

    def finish(self) -> None:
        """Close the open shard."""
        if self._open is not None:
            file, shard = self._open
            self._open = None
            with file:
                shard.finish()

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None and self._open is not None:
            self._open[0].close()
            self._open = None
        super().__exit__(kind, *rest)


class JsonlWriter:
    """Writes each sample as a line of JSON, with its parts by name.

    JSON parts are written as their values, texts as texts, and other parts as ``{"base64": …}``.

    Args:
        path: A new file.

    Raises:
        StorageError: It exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stack = ExitStack()
        self._file = self._stack.enter_context(new_file(path))

    def write(self, sample: ExportedSample) -> None:
        """Write a sample.

        Raises:
            StorageError: The file cannot be written.
        """
        document: dict[str, Any] = {"__key__": sample.full_key}
        document |= {name: as_json(name, data) for name, data in sample.parts.items()}
        try:
            self._file.write(json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n")
        except OSError as error:
            raise_unwritable(error, self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._stack.__exit__(kind, *rest)  # type: ignore[arg-type]  # as they came
