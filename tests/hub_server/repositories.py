"""Repositories of a hub: commits, each a tree of path → blob; branches, tags, pull requests and converted copies."""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["Blob", "Commit", "Entry", "Repository", "Tree", "is_large"]

# What the hub's own .gitattributes sends to LFS by its ending; other files go there by their size.
_LARGE_SUFFIXES = tuple(
    f".{suffix}"
    for names in (
        "7z arrow avro bin bz2 flac ftz gz h5 jpeg jpg lz4 mds mp3 mp4 msgpack npy npz ogg onnx parquet pcm pickle pkl",
        "png pt rar raw safetensors tar tgz tiff wasm wav webm webp xz zip zst",
    )
    for suffix in names.split()
)
_LARGE_BYTES = 10 << 20
_FAR_COMMIT = 7  # characters that are enough to name a commit


def is_large(path: str, size: int) -> bool:
    """Return whether the hub stores a file in LFS, as its default .gitattributes say."""
    return size > 0 and (size > _LARGE_BYTES or path.lower().endswith(_LARGE_SUFFIXES))


@dataclass(frozen=True)
class Blob:
    """The bytes of a file: in memory, or a file on disk, which must stay as it is.

    Attributes:
        data: The bytes, or the file that has them.
        size: How many.
        is_lfs: Whether git has only a pointer to them.
        sha256: Name of the bytes in LFS and of their address; empty for regular files.
        xet_hash: Their name in Xet; empty where they are not stored there.
    """

    data: bytes | Path
    size: int
    is_lfs: bool = False
    sha256: str = ""
    xet_hash: str = ""

    @cached_property
    def pointer(self) -> bytes:
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @cached_property
    def oid(self) -> str:
        """The name in git: of the pointer, for files of LFS."""
        data = self.pointer if self.is_lfs else self.read()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid

    def read(self, start: int = 0, size: int = -1) -> bytes:
        if isinstance(self.data, bytes):
            return self.data[start:] if size < 0 else self.data[start : start + size]
        with self.data.open("rb") as file:
            file.seek(start)
            return file.read(size)


_digests: dict[tuple[int, int, int, int], str] = {}  # of files, so that hard links are hashed once


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    status = path.stat()
    version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if version not in _digests:
        with path.open("rb") as file:
            _digests[version] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[version]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder of a tree, as it is listed."""

    path: str
    blob: Blob | None  # None: a folder
    oid: str

    def as_json(self, last_commit: Commit | None = None) -> dict[str, Any]:
        """Return what the hub lists: with the last commit and the scans of viruses, if it is asked to expand."""
        if self.blob is None:
            listed: dict[str, Any] = {"type": "directory", "oid": self.oid, "size": 0, "path": self.path}
        else:
            listed = {"type": "file", "oid": self.oid, "size": self.blob.size, "path": self.path}
            if self.blob.is_lfs:
                pointer_size = len(self.blob.pointer)
                listed["lfs"] = {"oid": self.blob.sha256, "size": self.blob.size, "pointerSize": pointer_size}
            if self.blob.xet_hash:
                listed["xetHash"] = self.blob.xet_hash
        if last_commit is not None:
            listed["lastCommit"] = {"id": last_commit.sha, "title": last_commit.title, "date": last_commit.date}
            if self.blob is not None:
                listed["securityFileStatus"] = {"status": "safe", "avScan": None, "pickleImportScan": None}
        return listed


class Tree:
    """The files of a commit. Lists are made once, since a repository may have a million files."""

    def __init__(self, files: Mapping[str, Blob]) -> None:
        self.files = files
        self._listings: dict[tuple[str, bool], list[str]] = {}

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """The paths that are directly in each folder, in order; of the root at ``""``."""
        children: dict[str, set[str]] = {"": set()}
        for file in self.files:
            path = file
            while path:
                folder = path.rpartition("/")[0]
                known = children.setdefault(folder, set())
                if path in known:
                    break
                known.add(path)
                path = folder
        return {folder: sorted(paths) for folder, paths in children.items()}

    @cached_property
    def _folder_oids(self) -> dict[str, str]:
        oids: dict[str, str] = {}
        for folder in sorted(self._children, key=len, reverse=True):  # those inside come before their parents
            listed = "".join(
                f"{path}\0{oids[path] if path in self._children else self.files[path].oid}"
                for path in self._children[folder]
            )
            oids[folder] = hashlib.sha1(listed.encode("utf-8", "surrogateescape")).hexdigest()
        return oids

    def entry(self, path: str) -> Entry | None:
        """Return a file or a folder by its path."""
        if path in self.files:
            return Entry(path, self.files[path], self.files[path].oid)
        if path in self._children:
            return Entry(path, None, self._folder_oids[path])
        return None

    def page(self, folder: str, *, is_recursive: bool, after: str | None, most: int) -> tuple[list[Entry], bool] | None:
        """Return up to so many entries of a folder that come after a path, and whether there are more.

        None: there is no such folder. A file lists itself, as on the hub.
        """
        if folder in self.files:
            return [Entry(folder, self.files[folder], self.files[folder].oid)], False
        if folder not in self._children:
            return None
        if (folder, is_recursive) not in self._listings:
            below = self._below(folder) if is_recursive else self._children[folder]
            self._listings[folder, is_recursive] = sorted(below)
        paths = self._listings[folder, is_recursive]
        start = 0 if after is None else bisect_left(paths, after + "\0")
        found = [self.entry(path) for path in paths[start : start + most]]
        return [entry for entry in found if entry is not None], start + most < len(paths)

    def _below(self, folder: str) -> Iterator[str]:
        for path in self._children[folder]:
            yield path
            if path in self._children:
                yield from self._below(path)


@dataclass(frozen=True)
class Commit:
    """A commit.

    Attributes:
        sha: Its name.
        tree: Its files.
        parents: The commits before it, the last one first.
        title: First line of its message.
        message: The rest.
        date: As the hub writes it.
    """

    sha: str
    tree: Tree
    parents: Sequence[str] = ()
    title: str = ""
    message: str = ""
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()))


@dataclass(slots=True)
class Repository:
    """A repository, and what a test does to it while clients read.

    Attributes:
        kind: ``datasets``, ``models`` or ``spaces``.
        name: ``OWNER/NAME``.
        is_private: Whether only the owner's tokens see it.
        gated: ``auto`` or ``manual``: its files are for those whom :meth:`grant` lists. Empty: for all.
        is_disabled: Whether the hub has locked it.
        is_xet: Whether its files of LFS are stored in Xet.
    """

    kind: str
    name: str
    is_private: bool = False
    gated: str = ""
    is_disabled: bool = False
    is_xet: bool = False
    granted: set[str] = field(default_factory=set)
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)  # refs/heads/main, refs/tags/v1, refs/pr/1 → commit
    on_blob: Callable[[Blob], None] = lambda blob: None  # the hub serves each by its address
    on_rename: Callable[[Repository, str], None] = lambda repository, name: None
    xet_hash: Callable[[Blob], str] | None = None  # names a blob in Xet, where the hub has a store of it
    lock: threading.RLock = field(default_factory=threading.RLock)

    # ----------------------------------------------------------------------------------------------- as tests do

    def commit(
        self,
        files: Mapping[str, bytes | Path | None] | Path,
        branch: str = "main",
        *,
        message: str = "Add files",
        is_lfs: Callable[[str, int], bool] = is_large,
        hashed: bool = True,
    ) -> str:
        """Add files to the end of a branch; returns the commit.

        Args:
            files: Path → bytes or a file on disk, or None to delete one; or a folder with all of them. Nothing is
                copied: what lies on disk must stay as it is.
            branch: Name of the branch, or ``refs/pr/1`` or ``refs/convert/parquet`` in full.
            message: Title and, after an empty line, description.
            is_lfs: Says of a path and size whether it is stored in LFS.
            hashed: False: names large files by path, size and time of change instead of their bytes, which may be
                many, or none at all, as in a sparse file.
        """
        if isinstance(files, Path):
            root = files
            files = {
                path.relative_to(root).as_posix(): path
                for path in sorted(root.rglob("*"))
                if path.is_file() and ".git" not in path.relative_to(root).parts
            }
        blobs = {
            path: None if data is None else self.blob(path, data, is_lfs=is_lfs, hashed=hashed)
            for path, data in files.items()
        }
        return self.add(blobs, branch, message=message)

    def tag(self, tag: str, revision: str = "main") -> None:
        """Name a commit by a tag."""
        with self.lock:
            self.refs[f"refs/tags/{tag}"] = self.find(revision).sha

    def branch(self, branch: str, revision: str = "main") -> None:
        """Begin a branch at a commit."""
        with self.lock:
            self.refs[_ref(branch)] = self.find(revision).sha

    def force_push(
        self, files: Mapping[str, bytes | Path | None] | Path, branch: str = "main", *, keep_commits: bool = False
    ) -> str:
        """Replace a branch by one commit without a parent; what no branch leads to any more is gone with it.

        Args:
            files: As of :meth:`commit`.
            branch: As of :meth:`commit`.
            keep_commits: Whether earlier commits can still be read by their name, as on the hub for a time.
        """
        with self.lock:
            self.refs.pop(_ref(branch), None)
            sha = self.commit(files, branch, message="Force push")
            if not keep_commits:
                reachable = set(self._reachable())
                for gone in set(self.commits) - reachable:
                    del self.commits[gone]
            return sha

    def remove_commit(self, revision: str) -> None:
        """Forget a commit, and the branches and tags that end in it."""
        with self.lock:
            sha = self.find(revision).sha
            del self.commits[sha]
            self.refs = {ref: commit for ref, commit in self.refs.items() if commit != sha}

    def rename(self, name: str) -> None:
        """Move the repository to another ``OWNER/NAME``; its old name leads there."""
        self.on_rename(self, name)

    def make_private(self) -> None:
        self.is_private = True

    def grant(self, user: str) -> None:
        """Let a user read the files of a gated repository."""
        self.granted.add(user)

    # ------------------------------------------------------------------------------------------------ as the hub does

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    def find(self, revision: str) -> Commit:
        """Return a commit by branch, tag, ``refs/…`` or (the beginning of) its name; KeyError: there is none."""
        for ref in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if ref in self.refs:
                return self.commits[self.refs[ref]]
        if revision in self.commits:
            return self.commits[revision]
        if len(revision) >= _FAR_COMMIT:
            for sha, commit in list(self.commits.items()):
                if sha.startswith(revision):
                    return commit
        raise KeyError(revision)

    def history(self, revision: str) -> list[Commit]:
        """Return a commit and the commits before it, the last one first."""
        found = []
        commit: Commit | None = self.find(revision)
        while commit is not None:
            found.append(commit)
            commit = self.commits.get(commit.parents[0]) if commit.parents else None
        return found

    def last_change(self, commit: Commit, path: str) -> Commit:
        """Return the last commit up to this one that changed a file or folder."""
        entry = commit.tree.entry(path)
        last = commit
        for earlier in self.history(commit.sha)[1:]:
            there = earlier.tree.entry(path)
            if there is None or entry is None or there.oid != entry.oid:
                break
            last = earlier
        return last

    def blob(
        self,
        path: str,
        data: bytes | Path,
        *,
        is_lfs: Callable[[str, int], bool] = is_large,
        hashed: bool = True,
    ) -> Blob:
        """Return a file as it is stored, and let the hub serve it."""
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        if not is_lfs(path, size):
            blob = Blob(data, size)
        else:
            if isinstance(data, bytes):
                digest = hashlib.sha256(data).hexdigest()
            elif hashed:
                digest = file_digest(data)
            else:
                digest = hashlib.sha256(f"{data}\0{size}\0{data.stat().st_mtime_ns}".encode()).hexdigest()
            blob = Blob(data, size, is_lfs=True, sha256=digest)
            if self.is_xet and self.xet_hash is not None:
                blob = Blob(data, size, is_lfs=True, sha256=digest, xet_hash=self.xet_hash(blob))
        self.on_blob(blob)
        return blob

    def add(self, blobs: Mapping[str, Blob | None], branch: str, *, message: str) -> str:
        """Add a commit of blobs, or of None to delete them, to the end of a branch."""
        with self.lock:
            ref = _ref(branch)
            parent = self.refs.get(ref)
            files = dict(self.commits[parent].tree.files) if parent else {}
            for path, blob in blobs.items():
                if blob is None:
                    files.pop(path, None)
                else:
                    files[path] = blob
            title, _, rest = message.partition("\n\n")
            content = hashlib.sha1(f"{self.kind}/{self.name}\0{parent}\0{message}\0{len(self.commits)}".encode())
            for path, blob in sorted(files.items()):
                content.update(f"{path}\0{blob.etag}\n".encode("utf-8", "surrogateescape"))
            sha = content.hexdigest()
            self.commits[sha] = Commit(sha, Tree(files), (parent,) if parent else (), title, rest)
            self.refs[ref] = sha
            return sha

    def _reachable(self) -> Iterator[str]:
        for sha in self.refs.values():
            for commit in self.history(sha):
                yield commit.sha


def _ref(branch: str) -> str:
    return branch if branch.startswith("refs/") else f"refs/heads/{branch}"
