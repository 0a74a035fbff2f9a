"""Samples in tar files: shards of webdataset, whose parts may be in any order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from ...engine import Account
from ...errors import ConfigError
from ...format.tar.names import marked, reason_without_sample, split_member_name
from ...prepare.decompress import unpacked_chunks
from ...prepare.shards import is_compressed_tar
from ...storage import is_url, open_parent, raise_storage_error
from ...storage.unpacked import check_ratio
from ..file_trees.file_names import TAR_ENDINGS, join_names
from ..file_trees.tree import FileTree, FolderTree, read_tar_members
from ..file_trees.url_tree import UrlTree
from ..rows.file_access import file_version
from ..rows.key_names import key_of_path
from ..rows.row import NO_SPLIT, PartRef, RangeRef, Row, unique_part
from ..tables.split_names import splits_of_files, splits_of_names
from .source import ImportSource, Listing


def tar_files(path: str) -> list[str]:
    """Return the tar files below a folder or URL, compressed ones included, sorted.

    Empty ones are left out. A file is returned as it is.
    """
    tree = _folder_tree(path)
    if tree is None:
        return [path]
    files = (join_names(folder, name) for folder, names in tree.folders(Account()) for name in names)
    return [os.path.join(path, name) for name in files if name.endswith(TAR_ENDINGS) and tree.size(name)]


def _folder_tree(path: str) -> FileTree | None:
    """Return the files below a folder or URL; None for a file."""
    if is_url(path):
        return None if path.endswith(TAR_ENDINGS) else UrlTree(path)
    return FolderTree(path) if os.path.isdir(path) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TarSource(ImportSource):
    """The members of tar files, grouped as webdataset does: by their names up to the first dot.

    Parts of a sample need not be neighbours.
    """

    path: str
    kind: Literal["webdataset"] = "webdataset"

    def rows(self, listing: Listing) -> Iterator[Row]:
        paths = tar_files(self.path)
        if not paths:
            raise ConfigError("there are no tar files in this folder", at=self.path)
        splits = splits_of_tars([path.removeprefix(os.path.join(self.path, "")) for path in paths])
        for path, split in zip(paths, splits, strict=True):
            for row in webdataset_rows(path, plain_tar(path, listing.scratch), listing.account):
                yield msgspec.structs.replace(row, split=split)
        tree = _folder_tree(self.path)
        if tree is not None:
            tree.leave_others(listing.account, {path.removeprefix(os.path.join(self.path, "")) for path in paths})


def splits_of_tars(names: Sequence[str]) -> list[str]:
    """Return the split part of each tar of a folder, if names of tars or of their folders show several split parts.

    Without split parts, texts are empty.

    >>> splits_of_tars(["train/0.tar", "val/0.tar", "rest/0.tar"]), splits_of_tars(["train-0.tar", "train-1.tar"])
    (['train', 'val', '-'], ['', ''])
    """
    of_names, of_folders = splits_of_files(names), splits_of_names({os.path.dirname(name) for name in names})
    splits = [of_names[name] or of_folders.get(os.path.dirname(name), "") for name in names]
    has_splits = len({*splits} - {""}) > 1
    return [(split or NO_SPLIT) if has_splits else "" for split in splits]


def webdataset_rows(shown: str, path: str, account: Account) -> Iterator[Row]:
    """Yield the samples of a tar, which is decompressed at ``path``."""
    encoded, changed = os.fsencode(path), file_version(shown)
    samples: dict[str, dict[str, PartRef]] = {}
    for name, member in read_tar_members(path, account, shown=shown).items():
        # Names of members divide into a key and a part, and hidden members into nothing.
        split = split_member_name(name)
        if split is not None and not name.startswith("__MACOSX/"):
            parts = samples.setdefault(split[0], {})
            parts[unique_part(split[1] or "bin", parts)] = RangeRef(encoded, *member, changed)
        elif reason := reason_without_sample(name):
            account.lose("members", reason, f"{shown}, {name}", size_bytes=member[1])
    account.take("members", sum(map(len, samples.values())))
    for key, parts in samples.items():
        yield Row(key=key_of_path(key), parts=parts, origin=marked(f"{shown}, {key}"))


def plain_tar(path: str, scratch: str) -> str:
    """Return the path of a tar that is not compressed: the tar itself, or a new file."""
    if not is_compressed_tar(path):
        return path
    target = os.path.join(scratch, f"{len(os.listdir(scratch))}.tar")  # no other source has this name
    storage, name = open_parent(path)
    try:
        with storage.open(name) as packed, open(target, "wb") as file:
            for chunk, packed_bytes in unpacked_chunks(packed, path):
                check_ratio(file.tell() + len(chunk), packed_bytes, path=path)
                file.write(chunk)
    except OSError as error:
        raise_storage_error(f"decompress {path} to this file", target, error)
    return target
