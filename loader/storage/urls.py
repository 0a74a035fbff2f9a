"""The protocols of URLs, and the store of each: the only place that maps one to the other."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, StorageError
from .local import LocalStorage, read_only_error
from .on_disk import lists_files
from .protocol import FileInfo, FilesAhead, Storage, StoredFile, list_once
from .remote import PROTOCOLS, RemoteStorage, redact_urls, split_container
from .temporary_files import left_command, partials_of, size_of

_LOCAL_PREFIXES = ("file://", "local://", "msc://__filesystem__")

_SHORTENED = re.compile(rf"({'|'.join(sorted({*PROTOCOLS, 'dss'}))}):/[^/]")
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "adl": "az", "wasb": "az", "wasbs": "az"}
"""Protocols of other programs, by which some know an object store."""

VERSIONS_VARIABLE = "NVDATASET_CACHE_DIR"
"""Environment variable with the folder of datasets at ``dss://`` URLs."""


def split_url(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a path or URL into its protocol and the rest; the protocol of this machine is empty.

    >>> split_url("s3://bucket/coco"), split_url("file:///data/coco"), split_url("coco")
    (('s3', 'bucket/coco'), ('', '/data/coco'), ('', 'coco'))

    Raises:
        ConfigError: A ``dss://`` URL has no version, the folder of such datasets is not set, or a slash is missing.
    """
    text = os.fspath(path)
    for prefix in _LOCAL_PREFIXES:
        if text.startswith(prefix):
            return "", text.removeprefix(prefix)
    protocol, separator, rest = text.partition("://")
    if protocol == "dss" and separator:
        return "", _folder_of_version(text, rest)
    if _SHORTENED.match(text):
        raise ConfigError(
            f"expected two slashes, as in {text.replace(':/', '://', 1)}",
            file=text,
            hint="pathlib.Path removes one of them: use a text, or EPath",
        )
    return (protocol, rest) if separator else ("", text)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is not one of this machine.

    >>> is_url("s3://bucket/coco"), is_url("file:///data/coco"), is_url("coco")
    (True, False, False)
    """
    return bool(split_url(path)[0])


def resolve_path(path: str | os.PathLike[str], folder: str | None = None) -> str:
    """Return the absolute form of a path; URLs are returned as written.

    Args:
        path: A relative path, an absolute path or a URL.
        folder: Absolute path or URL of the folder that relative paths start from; None for the working directory.

    Raises:
        ConfigError: A relative path leads out of a bucket.

    >>> resolve_path("./coco", "/data"), resolve_path("../a", "/data/x"), resolve_path("file:///b", "/data")
    ('/data/coco', '/data/a', '/b')
    >>> resolve_path("../a", "s3://bucket/x"), resolve_path("/b", "s3://bucket/x")
    ('s3://bucket/a', '/b')
    """
    protocol, rest = split_url(path)
    if protocol:
        return os.fspath(path)
    protocol, start = split_url(os.getcwd() if folder is None else folder)
    if not protocol or rest.startswith("/"):
        return os.path.normpath(os.path.join(start, rest))
    return _normal_url(f"{protocol}://{start}/{rest}", written=rest)


def normal_url(path: str) -> str:
    """Return a URL without ``.`` and ``..`` in its path; a path of this machine, and any other text, as it is.

    Raises:
        ConfigError: The path leads out of its bucket.

    >>> normal_url("s3://bucket/x/../coco/./a"), normal_url("x/../coco"), normal_url("https://host/a?b=1/../2")
    ('s3://bucket/coco/a', 'x/../coco', 'https://host/a?b=1/../2')
    """
    protocol, _, rest = path.partition("://")
    location = rest.partition("?")[0] if protocol in ("http", "https") else rest
    is_plain = not protocol.isidentifier() or {".", ".."}.isdisjoint(location.split("/"))
    if is_plain or path.startswith(_LOCAL_PREFIXES):
        return path
    return _normal_url(f"{protocol}://{location}", written=path) + rest[len(location) :]


def _normal_url(url: str, *, written: str) -> str:
    protocol, _, location = url.partition("://")
    bucket, key = split_container(protocol, location)
    normal = posixpath.normpath(key)
    if normal.split("/", 1)[0] == "..":
        message = f"the path {redact_urls(written)!r} leads out of the {'repository' if protocol == 'hf' else 'bucket'}"
        raise ConfigError(message, at=redact_urls(url), hint="write the whole URL")
    return f"{protocol}://{bucket}" if normal == "." else f"{protocol}://{bucket}/{normal}"


def short_path(path: str, folder: str) -> str:
    """Return a path or URL relative to a folder above it, as messages show it; another one is returned as it is.

    >>> short_path("s3://bucket/mix/coco", "s3://bucket/mix"), short_path("/data/coco", "/data/mix")
    ('coco', '/data/coco')
    """
    return path.removeprefix(f"{folder.rstrip('/')}/")


def _folder_of_version(url: str, rest: str) -> str:
    dataset, _, inner = rest.partition("/")
    name, _, version = dataset.rpartition("@")
    if not (name and version) or any(part == ".." for part in (name, version, *inner.split("/"))):
        raise ConfigError("expected dss://NAME@VERSION/PATH", file=url)
    base = os.environ.get(VERSIONS_VARIABLE)
    if not base:
        raise ConfigError(
            f"the environment variable {VERSIONS_VARIABLE} is not set, which names the folder of dss:// datasets",
            file=url,
            hint=f"set {VERSIONS_VARIABLE} to the folder that contains {name}/{version}",
        )
    return os.path.join(base, name, version, inner).rstrip("/")


def open_storage(
    path: str | os.PathLike[str],
    *,
    replaced: tuple[str, str | os.PathLike[str]] | None = None,
    is_read_only: bool = False,
) -> Storage:
    """Open the folder at a path or URL.

    Args:
        path: A path of this machine, or a URL.
        replaced: Name of a folder in it and the path of the folder to use instead; all other files are read-only then.
        is_read_only: The folder that is used instead is of other data: at a URL, it is read-only, too.

    Raises:
        StorageError: URLs of this protocol are not supported.
        ConfigError: The URL is wrong.

    >>> open_storage("file:///tmp").url
    '/tmp'
    """
    protocol, rest = split_url(path)
    if replaced is not None and (protocol or is_url(replaced[1])):
        return SplitStorage(open_storage(path), replaced[0], open_storage(replaced[1]), is_read_only=is_read_only)
    if not protocol:
        return LocalStorage(rest, replaced=replaced)
    if protocol in PROTOCOLS:
        return RemoteStorage(os.fspath(path))
    usual = _OTHER_NAMES.get(protocol.lower(), protocol.lower())
    supported = f"supported are {', '.join(sorted(PROTOCOLS))}, dss and file; or mount it, or copy it to a local folder"
    raise StorageError(
        f"cannot read {protocol}:// URLs",
        path=redact_urls(os.fspath(path)),
        hint=f"write {redact_urls(f'{usual}://{rest}')}" if usual in PROTOCOLS else supported,
    )


def open_parent(path: str | os.PathLike[str]) -> tuple[Storage, str]:
    """Open the folder of a file; return it and the file's name.

    Raises:
        StorageError: URLs of this protocol are not supported.

    >>> storage, name = open_parent("/tmp/texts.jsonl")
    >>> storage.url, name
    ('/tmp', 'texts.jsonl')
    """
    folder, name = os.path.split(os.fspath(path))
    if folder.endswith(":"):  # of a URL without a path
        raise StorageError("this names a bucket; expected a file in it", path=os.fspath(path), hint="check the URL")
    return open_storage(folder or "."), name


def missing_folder(storage: Storage) -> StorageError:
    """Return the error of a folder that does not exist, or that has no object below its URL."""
    path = storage.path("")
    if path.startswith(("http://", "https://")):
        return StorageError(
            "no prepared dataset is at this URL: it has no .nv-meta/.info.json, and a web server cannot list shards",
            path=path,
            hint="check the URL; prepare the folder that the server shares, before it does",
        )
    if is_url(path):
        return StorageError("there is no file below this URL", path=path, hint="check the URL")
    return StorageError("this folder does not exist", path=path, hint=hint_of_missing(path))


def hint_of_missing(path: str) -> str:
    """Return the hint for a path that does not exist: the interrupted run that would have made it, if there is one."""
    partials = [] if is_url(path) else partials_of(path)
    if not partials:
        return "check the path"
    first = partials[0]
    line = left_command(first)
    how = f"run: {line}" if line else "run its command again"
    return f"an interrupted run has left {first} ({size_of(first):,} bytes), which is removed when it completes; {how}"


def _calls(method: str, locate: Callable[[SplitStorage, str], tuple[Storage, str]]) -> Any:
    def call(self: SplitStorage, name: str, *arguments: Any, **options: Any) -> Any:
        storage, inner = locate(self, name)
        return getattr(storage, method)(inner, *arguments, **options)

    return call


class SplitStorage:
    """A storage with another storage instead of one of its folders. All other files are read-only."""

    def __init__(self, main: Storage, folder: str, other: Storage, *, is_read_only: bool = False) -> None:
        self.url = main.url
        self.checks_versions = main.checks_versions
        self.main = main
        self._folder = folder
        self._other = other
        self._is_read_only = is_read_only

    @property
    def can_list(self) -> bool:
        """True if the files of the folder can be listed."""
        return lists_files(self._other)

    def _is_replaced(self, name: str) -> bool:
        return f"{name}/".startswith(f"{self._folder}/")

    def _place(self, name: str) -> tuple[Storage, str]:
        return (self._other, name[len(self._folder) + 1 :]) if self._is_replaced(name) else (self.main, name)

    def _writable(self, name: str) -> tuple[Storage, str]:
        if not self._is_replaced(name):
            raise read_only_error(self.path(name), self._folder, self._other.path(""))
        if self._is_read_only:
            raise StorageError(
                "this is the metadata of other data, which have the same shards at another URL",
                path=self.path(name),
                hint="pass --meta-folder DIR (meta_folder=), a folder for the metadata of these data",
            )
        return self._place(name)

    path = _calls("path", _place)
    target = _calls("target", _writable)
    read = _calls("read", _place)
    exists = _calls("exists", _place)
    create = _calls("create", _writable)
    create_once = _calls("create_once", _writable)
    write = _calls("write", _writable)
    remove = _calls("remove", _writable)
    lock = _calls("lock", _writable)

    def open(self, name: str, info: FileInfo | None = None) -> StoredFile:
        storage, inner = self._place(name)
        return storage.open(inner, None if info is None else replace(info, name=inner))

    def stat(self, name: str) -> FileInfo:
        storage, inner = self._place(name)
        return replace(storage.stat(inner), name=name)

    def list(self, folder: str = "", *, on_skipped: Callable[[str], object] | None = None) -> Iterator[FileInfo]:
        storage, inner = self._place(folder)
        start = f"{self._folder}/" if storage is self._other else ""
        skip = None if on_skipped is None else lambda name: on_skipped(f"{start}{name}")
        return (replace(info, name=f"{start}{info.name}") for info in storage.list(inner, on_skipped=skip))

    def local_path(self, name: str = "", info: FileInfo | None = None, *, is_fixed: bool = False) -> Path:
        storage, inner = self._place(name)
        return storage.local_path(inner, None if info is None else replace(info, name=inner), is_fixed=is_fixed)

    @property
    def ahead(self) -> FilesAhead | None:
        return None if self.main.ahead is None and self._other.ahead is None else self

    def list_once(self, folder: str) -> None:
        list_once(*self._place(folder))

    def prefetch(self, names: Iterable[str]) -> None:
        for ahead, inner in self._ahead_of(names):
            ahead.prefetch(inner)

    def settle_prefetched(self) -> bool:
        settled = [ahead.settle_prefetched() for ahead, _ in self._ahead_of(())]  # waits for all
        return all(settled)

    def prefetch_fixed(self, names: Iterable[str]) -> None:
        for ahead, inner in self._ahead_of(names):
            ahead.prefetch_fixed(inner)

    def _ahead_of(self, names: Iterable[str]) -> Iterator[tuple[FilesAhead, Sequence[str]]]:
        places = [self._place(name) for name in names]
        for storage in (self.main, self._other):
            if storage.ahead is not None:
                yield storage.ahead, [inner for owner, inner in places if owner is storage]
