"""The files of a folder, a zip or a tar by name, and how each is read: all layouts work on any of them.

A tar has the files that unpacking would give: links have contents, and of several members of one name the last counts.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import shutil
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO, cast

from ...engine import Account, Unit
from ...errors import FormatError
from ...format.tar.names import decode_name
from ...format.tar.scan import TarLink, TarScan, read_members
from ...parts.kinds import kind_of_name
from ...parts.other_file import refuse_other_file, unpack_command
from ...storage import FileStream, is_url, open_parent, raise_storage_error
from ...storage.unpacked import check_ratio
from ..rows.file_access import FileAccess, file_version
from ..rows.row import CellRef, FaultRef, PartRef, RangeRef
from .file_names import BARE, HIDDEN, TAR_ENDINGS, is_medium_of_data, join_names, reason_of_name, role_of_name

COPY_BYTES = 8 << 20
"""Bytes that are copied at once: of a file far away, by a request."""
_MAX_LINKS = 40  # that are followed one after another, as in Linux


MemberRange = tuple[int, int]
"""The offset of a member's contents in its tar, and their size in bytes."""


def read_tar_members(path: str, account: Account, *, shown: str) -> dict[str, MemberRange]:
    """Return the files of a tar by name, in the order of the archive.

    Hard and symbolic links to members of the same archive have the ranges of their targets.

    Args:
        path: The tar file, not compressed.
        account: Counts the members that are not returned: those that a later member of the same name replaces, and
            links that lead elsewhere, devices and pipes.
    """
    storage, name = open_parent(path)
    ranges: dict[str, MemberRange] = {}
    with storage.open(name) as file:
        scan = TarScan(file.size_bytes, shown)
        # List the files.
        for batch in read_members(file, scan):
            rows = zip(batch.names.tolist(), batch.content_offset.tolist(), batch.size_bytes.tolist(), strict=True)
            for encoded, offset, size_bytes in rows:
                member = _normal(decode_name(encoded))
                replaced = ranges.pop(member, None)  # the later member takes its place in the order, too
                if replaced is not None:
                    account.lose("members", "L106", f"{shown}, {member}", size_bytes=replaced[1])
                ranges[member] = (offset, size_bytes)
    # Give links the contents of their targets, which may follow them.
    links = {_normal(decode_name(link.name)): link for link in scan.links}
    for member in links:
        target = _target(member, links, ranges)
        if target is None:
            account.lose("members", "L105", f"{shown}, {member}")
        else:
            ranges.setdefault(member, ranges[target])
    return ranges


def _target(member: str, links: Mapping[str, TarLink], ranges: Mapping[str, MemberRange]) -> str | None:
    """Return the member that has the contents of a link; None if the archive has none."""
    # A link may lead to another link.
    for _ in range(_MAX_LINKS):
        link = links.get(member)
        if link is None:
            return member if member in ranges else None
        target = decode_name(link.target)
        if not target or target.startswith("/"):
            return None
        # A hard link names a member, and a symbolic link a path from its own folder.
        member = _normal(target if link.is_hard else posixpath.join(posixpath.dirname(member), target))
        if member in ranges:
            return member
    return None


def copy_path(name: str, scratch: str) -> str:
    """Return the path of the copy of a file in a folder."""
    return os.path.join(scratch, "members", *(piece for piece in name.split("/") if piece not in ("", ".", "..")))


def _normal(name: str) -> str:
    """Return a name without ``./``, ``..`` and first ``/`` where possible, as two names of one file."""
    is_normal = not name or ("/." not in name and "//" not in name and name[0] not in "./" and name[-1] != "/")
    return name if is_normal else posixpath.normpath(name).lstrip("/")


class FileTree(ABC):
    """Files by name.

    Attributes:
        bare: Names of files without an extension, once the folders were listed; they are no parts of samples.
    """

    path: str
    unit: Unit
    bare: Sequence[str] = ()

    def folders(self, account: Account) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder with the sorted names of its files that may be used, sorted by folder.

        Files that are left out by their names or kinds are counted with their reasons, the others as seen; the caller
        decides on these.
        """
        self.bare = bare = list[str]()
        for folder, names, left in self._listed(account):
            for name, reason in left:
                if reason == HIDDEN:
                    account.hidden += 1
                    continue
                account.see(self.unit)
                self.leave(account, name, reason)
                if reason == BARE:
                    bare.append(name)
            account.see(self.unit, len(names))
            if names:
                yield folder, sorted(names)

    @abstractmethod
    def _listed(self, account: Account) -> Iterator[tuple[str, list[str], list[tuple[str, str]]]]:
        """Yield each folder with the names of its files that may be used, and files that are left out, with reasons.

        Args:
            account: Gets what is known of other files already.
        """

    @abstractmethod
    def ref(self, name: str, part: str) -> PartRef:
        """Return the reference to a file as a part."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 if it is unknown."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return True if there is a file of this name."""

    @abstractmethod
    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file to read it."""

    def local_path(self, name: str, scratch: str) -> str:
        """Return the path of a file, copied to a folder if it is in an archive; copies keep names and times."""
        target = copy_path(name, scratch)
        part = f"{target}.part"
        try:
            if os.path.exists(target):  # it was copied before
                return target
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with self.open(name) as source, open(part, "wb") as file:
                shutil.copyfileobj(source, file, COPY_BYTES)
            # Copies in other runs have the same times, so that a resumed import notices no change.
            changed = self.changed_ns(name)
            os.utime(part, ns=(changed, changed))
            os.replace(part, target)
        except OSError as error:
            raise_storage_error(f"copy {name} from {self.path} to this file", target, error)
        return target

    def place(self, name: str, scratch: str) -> str:
        """Return the path of a file, or its URL, for what reads URLs."""
        return self.local_path(name, scratch)

    def fetch(self, names: Sequence[str], scratch: str) -> None:  # noqa: B027 - files on a disk are read in place
        """Copy files to a folder together, for :meth:`local_path`."""

    def look_into(self, names: Sequence[str], take: Callable[[str, Iterator[bytes]], bool]) -> set[str]:  # noqa: ARG002
        """Return the long files far away that a function takes, by their first 64 KiB and other pieces of them."""
        return set()

    def changed_ns(self, name: str) -> int:  # noqa: ARG002 - an archive has one time
        """Return the time at which a file has changed, in nanoseconds."""
        return os.stat(self.path).st_mtime_ns

    def example(self, name: str) -> str:
        """Return the name of a file for messages."""
        return name if self.unit == "files" else f"{self.path}, {name}"

    def leave(self, account: Account, name: str, reason: str) -> None:
        account.leave(self.unit, reason, self.example(name), size_bytes=self.size(name))

    def leave_others(self, account: Account, used: Collection[str], *, pictures: str = "", reason: str = "") -> None:
        """Count all files, those that are not used as left out.

        Args:
            pictures: The reason of pictures; an empty text for the one that their names give.
            reason: The reason of all files; an empty text for reasons by their names.
        """
        for folder, names in self.folders(account):
            for name in names:
                full = join_names(folder, name)
                # Tables and archives have reasons of their own.
                if full in used:
                    account.use(self.unit)
                elif reason:
                    self.leave(account, full, reason)
                elif pictures and kind_of_name(name.rpartition(".")[2]) == "image":
                    self.leave(account, full, pictures)
                elif role_of_name(name) not in ("data", "document"):
                    self.leave(account, full, "L103" if self.size(full) else "L110")
                else:
                    self.leave(account, full, "L119" if is_medium_of_data(full) else "L102")


class FolderTree(FileTree):
    """The files of a folder and the folders below it.

    Links to what is in the folder are followed, but each folder is visited once; others are left out, unless the user
    allows them. Tar files are samples that no other program would read as text, so that their links are followed, too.

    Args:
        access: Decides which links are followed, and which files tables may name.
        root: Another folder whose files tables may name.
    """

    unit: Unit = "files"

    def __init__(self, path: str, access: FileAccess | None = None, *, root: str | None = None) -> None:
        self.path = os.path.abspath(path)
        self._access = access or FileAccess()
        self._roots = (self.path,) if root is None or is_url(root) else (self.path, os.path.abspath(root))

    def _listed(self, account: Account) -> Iterator[tuple[str, list[str], list[tuple[str, str]]]]:  # noqa: ARG002
        seen: set[tuple[int, int]] = set()
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                # A folder that cannot be read is left out, unless it is the outer one.
                names, left, inner = self._list(folder, seen)
            except OSError as error:
                if not folder:
                    raise_storage_error("list this folder", self.path, error)
                names, left, inner = [], [("", "L109")], []
            yield folder.rstrip("/"), names, [(f"{folder}{name}", reason) for name, reason in sorted(left)]
            waiting += [f"{folder}{name}/" for name in sorted(inner, reverse=True)]

    def _list(self, folder: str, seen: set[tuple[int, int]]) -> tuple[list[str], list[tuple[str, str]], list[str]]:
        """Return the files of a folder that may be used, those that are left out with reasons, and its folders."""
        names: list[str] = []
        left: list[tuple[str, str]] = []
        inner: list[str] = []
        # Visit each folder once.
        status = os.stat(self._full(folder))
        if (status.st_dev, status.st_ino) in seen:  # a link to a folder above would never end
            return names, [("", "L104")], inner
        seen.add((status.st_dev, status.st_ino))
        is_named_well = not reason_of_name(f"{folder}x.x")
        # Decide on each entry by its name, its kind, and where a link leads.
        with os.scandir(self._full(folder)) as entries:
            for entry in entries:
                name = entry.name
                reason = reason_of_name(name if is_named_well else f"{folder}{name}")
                kind = "file" if reason == HIDDEN else self._kind_of_entry(entry, reason)
                if kind == "folder":
                    inner.append(name)
                elif reason := "L122" if kind == "outside" else reason or _REASON_OF_ENTRY[kind]:
                    left.append((name, reason))
                else:
                    names.append(name)
        return names, left, inner

    def _full(self, name: str) -> str:
        return os.path.join(self.path, name)

    def ref(self, name: str, part: str) -> PartRef:  # noqa: ARG002 - a file has no part name of its own
        return self._access.ref(self._full(name), self._roots, is_absolute=name.startswith("/"))

    def size(self, name: str) -> int:
        try:
            status = os.stat(self._full(name))
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def has(self, name: str) -> bool:
        try:
            return os.path.isfile(self._full(name))
        except ValueError:  # a zero byte
            return False

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        try:
            file = open(self._full(name), "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise_storage_error("open this file", self._full(name), error)
        with file:
            yield file

    def local_path(self, name: str, scratch: str) -> str:  # noqa: ARG002 - a file is read in place
        return self._full(name)

    def _kind_of_entry(self, entry: os.DirEntry[str], reason: str) -> str:
        # Follow links, which may lead nowhere.
        try:
            kind = "file" if entry.is_file() else "folder" if entry.is_dir() else ""
        except OSError:  # a link to itself, or into a folder that may not be entered
            return "link"
        is_link = entry.is_symlink()
        if kind and not is_link:
            return kind
        if not kind:
            return "link" if is_link and not os.path.exists(entry.path) else "other"
        # A file that is left out by its name is not read, and energon merge links to tars.
        is_allowed = kind == "file" and (reason or entry.name.lower().endswith(TAR_ENDINGS))
        return "outside" if not is_allowed and self._access.is_refused_link(entry.path, self.path) else kind


_REASON_OF_ENTRY = {"file": "", "link": "L104", "other": "L105"}


class ListedTree(FileTree):
    """The members of an archive, or files that are listed at once; of members of one name, the last counts.

    Attributes:
        members: Name → number or offset of the member, and its size.
        left: The fate of members that have no place in ``members``.
    """

    unit: Unit = "members"

    def __init__(self, path: str) -> None:
        self.path = path
        self.members: Mapping[str, tuple[int, int]] = {}
        self.left = Account()

    def _listed(self, account: Account) -> Iterator[tuple[str, list[str], list[tuple[str, str]]]]:
        account.merge(self.left)
        folders: dict[str, list[str]] = {}
        left: list[tuple[str, str]] = []
        # Group the members by folder, since an archive may have them in any order.
        for name in self.members:
            folder, _, last = name.rpartition("/")
            if reason := reason_of_name(name):
                left.append((name, reason))
            else:
                folders.setdefault(folder, []).append(last)
        yield "", [], left
        for folder, names in sorted(folders.items(), key=lambda item: item[0].split("/")):
            yield folder, names, []

    def has(self, name: str) -> bool:
        return name in self.members

    def size(self, name: str) -> int:
        return self.members[name][1]


class ZipTree(ListedTree):
    """The files in a zip file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        members: dict[str, tuple[int, int]] = {}
        self._file = open_zip(path)  # stays open: finding the members of a large one takes long
        names = [info.filename for info in self._file.infolist()]
        # Programs of Windows separate folders by backslashes, and then have no other separator.
        swaps = not any("/" in name for name in names)
        for index, info in enumerate(self._file.infolist()):
            if not info.is_dir():
                # unzip reads absolute names from the folder of the archive, too
                name = (info.filename.replace("\\", "/") if swaps else info.filename).lstrip("/")
                if name in members:
                    self.left.lose("members", "L106", self.example(name), size_bytes=members[name][1])
                members[name] = index, info.file_size
        self.members = members
        self._changed = file_version(path)

    def ref(self, name: str, part: str) -> PartRef:
        index, size_bytes = self.members[name]
        try:
            check_ratio(size_bytes, self._file.infolist()[index].compress_size, path=self.path, name=name)
        except FormatError as error:
            return FaultRef(error.message, hint=error.hint or "", code="F110")
        return CellRef(index, part, size_bytes, changed=self._changed)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        info = self._file.infolist()[self.members[name][0]]
        check_ratio(info.file_size, info.compress_size, path=self.path, name=name)
        try:
            with self._file.open(info) as member:
                yield member
        except UNREADABLE as error:
            raise FormatError(f"cannot unpack {name}: {error}", shard=self.path) from error


class TarTree(ListedTree):
    """The files in a tar file.

    Args:
        plain: The file that is read; another one than ``path`` if that is compressed.
        shown: Its name for messages; by default, the path.
    """

    def __init__(self, path: str, plain: str, *, shown: str = "") -> None:
        super().__init__(path)
        self.plain = plain
        self._shared_path = plain if is_url(plain) else os.path.abspath(plain)  # workers may run in other folders
        self._changed = file_version(path)
        self.members = read_tar_members(plain, self.left, shown=shown or path)

    def ref(self, name: str, part: str) -> PartRef:  # noqa: ARG002 - a range has no part name
        return RangeRef(os.fsencode(self._shared_path), *self.members[name], self._changed)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        storage, last = open_parent(self.plain)
        with storage.open(last) as file:
            yield cast("IO[bytes]", FileStream(file, *self.members[name]))


UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, zlib.error, lzma.LZMAError)
"""Errors of zipfile about one member; NotImplementedError and RuntimeError for compressions and passwords."""


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def open_zip(path: str) -> zipfile.ZipFile:
    """Open a zip file."""
    try:
        archive = zipfile.ZipFile(path)
        for info in archive.infolist():
            # Python reads neither encrypted members, by the first bit of the flags, nor all methods: 9 is Deflate64.
            if info.flag_bits & 1 or info.compress_type not in _METHODS:
                method = "Deflate64" if info.compress_type == 9 else f"the method {info.compress_type}"
                fault = "encrypted" if info.flag_bits & 1 else f"compressed by {method}, which Python does not read"
                hint = f"unpack it, and import the folder: {unpack_command(path)}"
                raise FormatError(f"{info.filename} in this archive is {fault}", shard=path, hint=hint)
        return archive
    except zipfile.BadZipFile as error:
        refuse_other_file(path, "zip")
        raise FormatError(f"not a zip file: {error}", shard=path) from error
    except OSError as error:
        raise_storage_error("open this file", path, error)
