"""The objects of a server: files below a folder, with ETags, conditions, multipart uploads and sorted listings."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

__all__ = ["Found", "Objects", "Refused"]


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


class Objects:
    """Objects in a folder; the first component of a key is the bucket."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def path(self, key: str) -> Path:
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
            temporary.write_bytes(data)
            os.replace(temporary, path)
            return self.find(key)

    def delete(self, key: str) -> None:
        with self._lock:
            path = self.path(key)
            if path.is_file():  # a folder is no object
                path.unlink()

    def start_upload(self) -> str:
        upload = uuid.uuid4().hex
        self._uploads[upload] = {}
        return upload

    def put_part(self, upload: str, number: int, data: bytes) -> str:
        if upload not in self._uploads:
            raise Refused(404, "NoSuchUpload")
        self._uploads[upload][number] = data
        return f'"{hashlib.md5(data).hexdigest()}"'

    def finish_upload(self, upload: str, key: str, **conditions: str) -> Found:
        if upload not in self._uploads:
            raise Refused(404, "NoSuchUpload")
        parts = self._uploads[upload]
        data = b"".join(parts[number] for number in sorted(parts))
        found = self.put(key, data, **conditions)
        del self._uploads[upload]
        return found

    def abort_upload(self, upload: str) -> None:
        self._uploads.pop(upload, None)

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
        return sorted(found)
