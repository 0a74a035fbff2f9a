"""Samples in tar and zip files: shards of webdataset in any order, and archives of files as in a folder."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import posixpath
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...accounting import Account
from ...errors import ConfigError, FormatError, SampleError, StorageError
from ...format.index.shard_index import index_shard
from ...format.prepare.shards import compression_of, is_compressed_tar
from ...format.tar.names import reason_without_sample, split_member_name
from ...storage import open_parent, raise_storage_error
from ..rows.file_ref import file_version
from ..rows.keys import key_of_path
from ..rows.row import CellRef, PartRef, RangeRef, Row
from .folder import OF_THE_SYSTEM, group_files
from .source import Listing, Source
from .tar_members import read_tar_members

__all__ = ["TAR_ENDINGS", "TarSource", "ZipSource", "tar_files"]

_COPY_BYTES = 1 << 20
TAR_ENDINGS = (".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst", ".tar.lz4")
"""Endings of tar files, compressed ones included."""


def tar_files(path: str) -> list[str]:
    """Return the tar files below a folder, compressed ones included, sorted; a file is returned as it is."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(files) if name.endswith(TAR_ENDINGS)]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TarSource(Source):
    """The members of tar files.

    Attributes:
        path: A tar file, or a folder of them.
        kind: ``"webdataset"`` groups members as webdataset does, by their name up to the first dot; parts of a sample
            need not be neighbours. ``"tar"`` groups them as the files of a folder.
    """

    path: str
    kind: Literal["webdataset", "tar"] = "webdataset"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples, tar by tar; compressed tars are decompressed to the scratch folder.

        Raises:
            ConfigError: There is no tar file.
            FormatError: A tar file is damaged.
            StorageError: It cannot be read, or the scratch folder is full.
        """
        paths = tar_files(self.path)
        if not paths:
            raise ConfigError("there are no tar files in this folder", at=self.path)
        for number, path in enumerate(paths):
            plain = path
            if is_compressed_tar(path):
                plain = os.path.join(listing.scratch, f"{number}.tar")
                _decompress(path, plain)
            changed = file_version(path)
            yield from (
                self._webdataset_rows(path, plain, changed, listing.account)
                if self.kind == "webdataset"
                else _file_rows(path, plain, changed, listing.account)
            )

    def _webdataset_rows(self, shown: str, path: str, changed: str, account: Account) -> Iterator[Row]:
        storage, name = open_parent(path)
        index = index_shard(storage, name)
        if any(entry.reason == "L105" for entry in index.left_out):
            yield from _linked_rows(shown, path, changed, account)
            return
        for entry in index.left_out:
            account.see("members", entry.count)
            account.add(entry, path=shown)
        encoded, start = os.fsencode(path), 0
        names, places = (
            index.part_names,
            zip(index.part_name.tolist(), index.part_offset.tolist(), index.part_size.tolist(), strict=True),
        )
        account.see("members", len(index.part_offset))
        for key, stop in zip(index.keys(), index.part_ends.tolist(), strict=True):
            parts: dict[str, PartRef] = {}
            for _ in range(stop - start):
                number, offset, size_bytes = next(places)
                part = _part_name(names[number])
                if part in parts:  # of two members of one name, the last one counts, as if the tar were unpacked
                    account.leave("members", "L106", f"{shown}, {key}.{part}", size_bytes=parts[part].size_bytes)
                parts[part] = RangeRef(encoded, offset, size_bytes, changed)
            start = stop
            account.use("members", len(parts))
            yield Row(key=key_of_path(key), parts=parts, origin=f"{shown}, {key}")


def _linked_rows(shown: str, path: str, changed: str, account: Account) -> Iterator[Row]:
    """Yield the samples of a tar with links, which have the contents of their targets."""
    encoded = os.fsencode(path)
    samples: dict[str, dict[str, PartRef]] = {}
    for name, member in read_tar_members(path, account, shown=shown).items():
        split, code = split_member_name(name), reason_without_sample(name)
        if split is None and code is None:
            continue  # hidden
        account.see("members")
        if split is None:
            account.leave("members", code or "L107", f"{shown}, {name}", size_bytes=member.size_bytes)
        else:
            key, part = split
            account.use("members")
            samples.setdefault(key, {})[_part_name(part)] = RangeRef(encoded, *member, changed)
    for key, parts in samples.items():
        yield Row(key=key_of_path(key), parts=parts, origin=f"{shown}, {key}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipSource(Source):
    """The files in a zip file, grouped as those of a folder.

    Attributes:
        path: The zip file.
    """

    path: str
    kind: str = "zip"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples.

        Raises:
            FormatError: The file is damaged, or no zip file.
            StorageError: It cannot be read.
        """
        with _open_zip(self.path) as opened:
            numbers = {info.filename: number for number, info in enumerate(opened.infolist()) if not info.is_dir()}
            sizes = [info.file_size for info in opened.infolist()]
        changed = file_version(self.path)
        members = {name: sizes[number] for name, number in numbers.items()}
        for key, parts, first in _grouped(members, listing.account, self.path):
            cells: dict[str, PartRef] = {
                part: CellRef(numbers[name], part, sizes[numbers[name]], changed=changed)
                for part, name in parts.items()
            }
            yield Row(key=key, parts=cells, origin=f"{self.path}, {first}")

    def open_cells(self) -> _ZipReader:
        """Open the zip file."""
        return _ZipReader(self.path)


class _ZipReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open_zip(path)
        self._infos = self._file.infolist()

    def read(self, cell: CellRef) -> bytes:
        info = self._infos[cell.row]
        try:
            return self._file.read(info)
        except _UNREADABLE as error:
            raise SampleError(f"cannot unpack {info.filename}: {error}", part=cell.column, source=self._path) from error

    def close(self) -> None:
        self._file.close()


_UNREADABLE = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, zlib.error, lzma.LZMAError
)  # fmt: skip
"""Errors of zipfile about one member; NotImplementedError and RuntimeError for compressions and passwords."""


def _open_zip(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise FormatError(f"not a zip file: {error}", shard=path) from error
    except OSError as error:
        raise_storage_error("open this file", path, error)


def _file_rows(shown: str, path: str, changed: str, account: Account) -> Iterator[Row]:
    """Yield the files in a tar, grouped as those of a folder."""
    members = read_tar_members(path, account, shown=shown)
    sizes = {name: member.size_bytes for name, member in members.items()}
    encoded = os.fsencode(path)
    for key, parts, first in _grouped(sizes, account, shown):
        refs: dict[str, PartRef] = {part: RangeRef(encoded, *members[name], changed) for part, name in parts.items()}
        yield Row(key=key, parts=refs, origin=f"{shown}, {first}")


def _grouped(sizes: Mapping[str, int], account: Account, path: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield key, parts and first name of each sample; hidden files are not counted.

    Args:
        sizes: Name of each member → its size in bytes.
        account: Counts the members.
        path: Path of the archive, for examples.
    """
    folders: dict[str, dict[str, str]] = {}
    for name, size_bytes in sizes.items():
        folder, file = posixpath.split(name)
        pieces = name.removeprefix("./").split("/")
        is_of_the_system = file.startswith("._") or not OF_THE_SYSTEM.isdisjoint(pieces)
        if not is_of_the_system and any(piece.startswith(".") for piece in pieces):
            continue
        account.see("members")
        if is_of_the_system or "." not in file.rstrip("."):
            code = "L108" if is_of_the_system else "L101"
            account.leave("members", code, f"{path}, {name}", size_bytes=size_bytes)
        else:
            account.use("members")
            folders.setdefault(folder, {})[file] = name
    for folder, files in sorted(folders.items()):
        for stem, parts in group_files([*files]):
            members = {part: files[file] for part, file in parts.items()}
            yield key_of_path(posixpath.join(folder, stem)), members, next(iter(members.values()))


def _part_name(name: str) -> str:
    """Return the name of a part as a writer accepts it: names of members end with it."""
    return name.replace("/", "_") or "bin"


def _decompress(path: str, target: str) -> None:
    try:
        with _opened(path) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file, _COPY_BYTES)
    except OSError as error:
        if error.errno is None:  # of the decompressor
            raise FormatError(f"cannot be decompressed: {error}", shard=path) from error
        raise_storage_error(f"decompress {path} to this file", target, error)
    except (EOFError, ValueError, RuntimeError, lzma.LZMAError, zlib.error) as error:
        raise FormatError(f"cannot be decompressed: {error}", shard=path) from error


def _opened(path: str) -> Any:
    """Open a compressed file, as a context manager of a readable file.

    Raises:
        StorageError: The library for its compression is not installed.
    """
    match compression_of(path):
        case "gz":
            return gzip.open(path)
        case "bz2":
            return bz2.open(path)
        case "xz":
            return lzma.open(path)
    try:
        if path.endswith(".zst"):
            import zstandard

            return zstandard.open(path, "rb")
        import lz4.frame

        return lz4.frame.open(path, "rb")
    except ImportError as error:
        raise StorageError(
            "the library for this compression is not installed",
            path=path,
            hint="pip install 'energon-toolkit[decompress]'",
        ) from error
