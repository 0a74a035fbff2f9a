"""The objects of a server: files below a folder, with ETags, conditions, multipart uploads and sorted listings."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

__all__ = ["Found", "Objects", "Refused"]

_UPLOADS = ".uploads"
_MIN_PART_BYTES = 5 << 20  # of all but the last one


class Refused(Exception):  # noqa: N818 - an answer
    """A request that is answered with an error of S3."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Found:
    """An object."""

    key: str  # bucket/key
    path: Path
    size: int
    mtime_ns: int
    etag: str

    @property
    def generation(self) -> str:
        """The version of GCS, which is a number."""
        return str(self.mtime_ns)

    @property
    def last_modified(self) -> str:
        return formatdate(self.mtime_ns // 10**9, usegmt=True)


@dataclass(frozen=True, slots=True)
class _Upload:
    """An upload by parts: its object, and the ETags of the parts by number. Their bytes are in files."""

    key: str
    etags: dict[int, str] = field(default_factory=dict)


class Objects:
    """Objects in a folder; the first component of a key is the bucket."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.odd: dict[str, Path] = {}  # keys that no path has, such as data/ds//x
        self._uploads: dict[str, _Upload] = {}
        self._lock = threading.Lock()

    def path(self, key: str) -> Path:
        if key in self.odd:
            return self.odd[key]
        if ".." in key.split("/") or "\0" in key:
            raise Refused(400, "InvalidArgument")
        return self._root / key

    def find(self, key: str) -> Found:
        path = self.path(key)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(404, "NoSuchKey") from None
        if not path.is_file():
            raise Refused(404, "NoSuchKey")
        version = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"
        etag = f'"{hashlib.md5(version.encode()).hexdigest()}"'
        return Found(key, path, status.st_size, status.st_mtime_ns, etag)

    def exists(self, key: str) -> Found | None:
        try:
            return self.find(key)
        except Refused:
            return None

    def put(self, key: str, data: bytes, *, if_match: str = "", if_none_match: str = "", generation: str = "") -> Found:
        return self._store(key, [data], if_match=if_match, if_none_match=if_none_match, generation=generation)

    def _store(
        self, key: str, pieces: Iterable[bytes], *, if_match: str = "", if_none_match: str = "", generation: str = ""
    ) -> Found:
        with self._lock:  # conditions hold up to the write
            now = self.exists(key)
            if if_none_match == "*" and now is not None:
                raise Refused(412, "PreconditionFailed")
            if generation and generation != (now.generation if now else "0"):
                raise Refused(412, "PreconditionFailed")
            if if_match and (now is None or now.etag != if_match):
                raise Refused(412 if now else 404, "PreconditionFailed" if now else "NoSuchKey")
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
            with temporary.open("wb") as file:
                file.writelines(pieces)
            os.replace(temporary, path)
            return self.find(key)

    def delete(self, key: str) -> None:
        with self._lock:
            path = self.path(key)
            if path.is_file():  # a folder is no object
                path.unlink()

    def start_upload(self, key: str) -> str:
        upload = uuid.uuid4().hex
        self._uploads[upload] = _Upload(key)
        (self._root / _UPLOADS / upload).mkdir(parents=True)
        return upload

    def put_part(self, upload: str, key: str, number: int, data: bytes) -> str:
        parts = self._upload(upload, key).etags
        if not 1 <= number <= 10_000:
            raise Refused(400, "InvalidArgument")
        (self._root / _UPLOADS / upload / str(number)).write_bytes(data)
        parts[number] = f'"{hashlib.md5(data).hexdigest()}"'
        return parts[number]

    def finish_upload(self, upload: str, key: str, parts: Sequence[tuple[int, str]], **conditions: str) -> Found:
        """Store the listed parts as one object; others are dropped.

        Args:
            upload: The upload.
            key: Its object.
            parts: Number and ETag of each part.
            conditions: As of :meth:`put`.
        """
        etags = self._upload(upload, key).etags
        paths = [self._root / _UPLOADS / upload / str(number) for number, _ in parts]
        if not parts or any(number not in etags or etags[number].strip('"') != etag for number, etag in parts):
            raise Refused(400, "InvalidPart")
        if [number for number, _ in parts] != sorted({number for number, _ in parts}):
            raise Refused(400, "InvalidPartOrder")
        if any(path.stat().st_size < _MIN_PART_BYTES for path in paths[:-1]):
            raise Refused(400, "EntityTooSmall")
        found = self._store(key, (path.read_bytes() for path in paths), **conditions)
        self.abort_upload(upload, key)
        return found

    def abort_upload(self, upload: str, key: str) -> None:
        self._upload(upload, key)
        del self._uploads[upload]
        shutil.rmtree(self._root / _UPLOADS / upload)

    def _upload(self, upload: str, key: str) -> _Upload:
        found = self._uploads.get(upload)
        if found is None or found.key != key:
            raise Refused(404, "NoSuchUpload")
        return found

    @property
    def open_uploads(self) -> int:
        return len(self._uploads)

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys of a bucket that start with a prefix, sorted."""
        root = self._root / bucket
        if not root.is_dir():
            raise Refused(404, "NoSuchBucket")
        top = root / prefix.rpartition("/")[0]
        found = []
        for base, _, files in os.walk(top):
            folder = os.path.relpath(base, root)
            for name in files:
                key = name if folder == "." else f"{folder}/{name}"
                if key.startswith(prefix) and not name.endswith(".part"):
                    found.append(key)
        odd = [key.removeprefix(f"{bucket}/") for key in self.odd]
        return sorted([*found, *(key for key in odd if key.startswith(prefix))])
