"""Write samples as files, tar shards or lines of JSON. All files appear at the end, or none."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO, Self

from ...errors import ConfigError, StorageError
from ..mount.file_names import file_name

__all__ = ["FilesWriter", "JsonlWriter", "TarWriter"]

_TEXTS = ("txt", "text", "caption", "cls", "cls2", "index", "md", "html", "xml", "srt", "vtt", "csv", "yaml", "yml")
"""Last pieces of the names of parts that are written as texts, if they are UTF-8."""


class _Folder:
    """A folder that is filled under another name, and takes its own at the end.

    Raises:
        StorageError: It exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        if os.path.lexists(self._path) and not (os.path.isdir(self._path) and not os.listdir(self._path)):
            raise _exists(path)
        parent, name = os.path.split(self._path)
        try:
            os.makedirs(parent, exist_ok=True)
            self.folder = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)
        except OSError as error:
            raise _unwritable(error, path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
                os.chmod(self.folder, 0o777 & ~_umask())
                os.replace(self.folder, self._path)  # over an empty folder
        except OSError as failed:
            raise _unwritable(failed, self._path) from failed
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self) -> None:
        """Complete the files."""


class FilesWriter(_Folder):
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

    def write(self, shard: str, key: str, parts: Mapping[str, bytes]) -> None:
        """Write a sample.

        Raises:
            ConfigError: An earlier sample has this key.
            StorageError: A file cannot be written.
        """
        folder = os.path.join(self.folder, file_name(shard)) if self._by_shard else self.folder
        try:
            os.makedirs(folder, exist_ok=True)
            for part, data in parts.items():
                with open(os.path.join(folder, file_name(f"{key}.{part}")), "xb") as file:
                    file.write(data)
        except FileExistsError as error:
            raise ConfigError(
                f"two samples have the key {key!r}",
                at=f"{shard}/{key}",
                hint="write a folder for each shard (--by-shard), or tar shards",
            ) from error
        except OSError as error:
            raise _unwritable(error, self._path) from error


class TarWriter(_Folder):
    """Writes tar shards that ``energon prepare`` takes, ``shard_000000.tar`` and so on.

    Args:
        path: A new or empty folder.
        shard_bytes: A shard ends with the sample that exceeds this size.

    Raises:
        StorageError: The folder has files, or cannot be written.
    """

    def __init__(self, path: str, *, shard_bytes: int = 1 << 30) -> None:
        super().__init__(path)
        self._shard_bytes = shard_bytes
        self._tar: tarfile.TarFile | None = None
        self._written = 0
        self._shards = 0
        self._keys: set[str] = set()

    def write(self, shard: str, key: str, parts: Mapping[str, bytes]) -> None:  # noqa: ARG002 - as other writers
        """Write a sample; one whose key the shard has begins another shard.

        Raises:
            StorageError: A file cannot be written.
        """
        try:
            if self._tar is None or self._written >= self._shard_bytes or key in self._keys:
                self._next_shard()
            for part, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{part}")
                member.size = len(data)
                if self._tar is not None:
                    self._tar.addfile(member, io.BytesIO(data))
                self._written += len(data) + 1024
            self._keys.add(key)
        except OSError as error:
            raise _unwritable(error, self._path) from error

    def _next_shard(self) -> None:
        self.finish()
        name = os.path.join(self.folder, f"shard_{self._shards:06}.tar")
        self._tar = tarfile.open(  # noqa: SIM115 - closed by finish
            name, "w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        )
        self._shards += 1
        self._written = 0
        self._keys.clear()

    def finish(self) -> None:
        """Close the open shard."""
        if self._tar is not None:
            self._tar.close()
            self._tar = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._tar is not None:
            self._tar.fileobj.close()
            self._tar = None
        super().__exit__(kind, error, trace)


class JsonlWriter:
    """Writes each sample as a line of JSON, with its parts by name.

    JSON parts are written as their values, texts as texts, and other parts as ``{"base64": …}``.

    Args:
        path: A new file.

    Raises:
        StorageError: It exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        if os.path.lexists(self._path):
            raise _exists(path)
        parent, name = os.path.split(self._path)
        try:
            os.makedirs(parent, exist_ok=True)
            self._file: BinaryIO = tempfile.NamedTemporaryFile(  # type: ignore[assignment]  # noqa: SIM115
                prefix=f".{name}.", dir=parent, delete=False
            )
        except OSError as error:
            raise _unwritable(error, path) from error

    def write(self, shard: str, key: str, parts: Mapping[str, bytes]) -> None:
        """Write a sample.

        Raises:
            StorageError: The file cannot be written.
        """
        document: dict[str, Any] = {"__key__": f"{shard}/{key}"}
        document |= {name: _as_json(name, data) for name, data in parts.items()}
        try:
            self._file.write(json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n")
        except OSError as error:
            raise _unwritable(error, self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
            if kind is None:
                os.chmod(self._file.name, 0o666 & ~_umask())
                os.link(self._file.name, self._path)  # fails if the name is taken by now
        except OSError as failed:
            raise _unwritable(failed, self._path) from failed
        finally:
            os.unlink(self._file.name)


def _as_json(name: str, data: bytes) -> Any:
    ending = name.rpartition(".")[2].lower()
    try:
        if ending in ("json", "jsonl") or not name:
            return json.loads(data)
        if ending in _TEXTS:
            return data.decode("utf-8")
    except (ValueError, RecursionError):
        pass  # not what its name says
    return {"base64": base64.b64encode(data).decode("ascii")}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _exists(path: str) -> StorageError:
    return StorageError(
        "this exists, and nothing is overwritten", path=path, hint="name a new file, or a new or empty folder"
    )


def _unwritable(error: OSError, path: str) -> StorageError:
    return StorageError(
        f"cannot write: {error.strerror or error}", path=error.filename or path, hint="check space and permissions"
    )
