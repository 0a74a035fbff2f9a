"""Unique keys for a dataset in which several shards use the same ones (``energon prepare --fix-duplicates``).

A key that several shards have gets ``#`` and the shard's number in each of them: ``0001.jpg`` of shard 3 becomes
``0001#3.jpg``. Other samples keep their keys. No shard is changed in place: a renamed copy is written beside it, read
again and compared with it, and then takes its place in one step. So whatever happens midway, each shard is whole: the
old one or the new one. Running again does what is left, since only keys that are still in several shards are renamed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO, NamedTuple

from ..errors import FormatError
from ..storage import ReadableFile, Storage
from .member_name import decode_name, encode_name, split_member_name
from .tar_rename import rename_headers
from .tar_scan import TarScan

__all__ = ["FixReport", "fix_duplicates"]

_CHUNK_BYTES = 4 << 20
_COPIES = ".renamed-copies"  # a hidden folder beside the shards, so that a copy is on the disk of its shard


@dataclass(frozen=True, slots=True, kw_only=True)
class FixReport:
    """What was renamed.

    Args:
        renamed: Shard → {old key: new key}; only shards that were rewritten.
    """

    renamed: dict[str, dict[str, str]]


class _Member(NamedTuple):
    name: str
    header_offset: int
    content_offset: int
    size_bytes: int


def fix_duplicates(storage: Storage, shards: Sequence[str], duplicates: Mapping[str, Collection[str]]) -> FixReport:
    """Rename keys in copies of shards, and put the copies in the place of the shards.

    Room for one more shard is needed on the disk, not for all. The caller holds the dataset's lock, and indexes the
    shards anew afterwards: a new key may by chance be one that another shard already has, which another run mends.

    Args:
        storage: The dataset.
        shards: All its shards in order; their numbers are what is added to keys.
        duplicates: Shard → the keys to rename in it. Keys that are not there are left out, and a shard without any is
            not touched.

    Raises:
        FormatError: A shard is damaged, changed meanwhile, or its copy is not what it should be. That shard and those
            behind it are as before.
        StorageError: A file cannot be read or written; likewise.
    """
    folders = {shard.rpartition("/")[0] for shard in shards}
    _remove_copies(storage, folders)  # of a run that was killed
    concerned = [(number, name) for number, name in enumerate(shards) if duplicates.get(name)]
    renamed: dict[str, dict[str, str]] = {}
    try:
        for number, name in concerned:
            keys = _plan_keys(storage, name, number, frozenset(duplicates[name]))
            if keys:
                _replace_shard(storage, name, keys)
                renamed[name] = keys
    finally:
        _remove_copies(storage, folders)
    return FixReport(renamed=renamed)


def _remove_copies(storage: Storage, folders: Iterable[str]) -> None:
    for folder in folders:
        storage.remove(_beside(folder, _COPIES))


def _beside(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _members(file: ReadableFile, path: str) -> Iterator[_Member]:
    for batch in TarScan(file, path):
        yield from map(
            _Member,
            map(decode_name, batch.names.tolist()),
            batch.header_offset.tolist(),
            batch.content_offset.tolist(),
            batch.size_bytes.tolist(),
        )


def _plan_keys(storage: Storage, shard: str, number: int, wanted: frozenset[str]) -> dict[str, str]:
    """Choose new keys for those that are in the shard, none of which may be there already."""
    with storage.open(shard) as file:
        names = (split_member_name(member.name) for member in _members(file, storage.path(shard)))
        taken = {split[0] for split in names if split}
    keys: dict[str, str] = {}
    for key in sorted(wanted & taken):
        new_key = f"{key}#{number}"
        while new_key in taken:
            new_key += f"#{number}"
        taken.add(new_key)
        keys[key] = new_key
    return keys


def _renamed(name: str, keys: Mapping[str, str]) -> str:
    split = split_member_name(name)
    return f"{keys[split[0]]}.{split[1]}" if split and split[0] in keys else name


def _replace_shard(storage: Storage, shard: str, keys: Mapping[str, str]) -> None:
    """Write, verify and swap in the copy of one shard."""
    folder, _, base = shard.rpartition("/")
    copy = _beside(folder, f"{_COPIES}/{base}")
    before = storage.stat(shard)
    with storage.open(shard) as source:
        with storage.create(copy) as target:
            _write_copy(source, target, storage.path(shard), keys)
        with storage.open(copy) as written:
            _verify_copy(source, written, storage.path(shard), storage.path(copy), keys)
    if storage.stat(shard) != before:
        raise FormatError(
            "this shard changed while it was copied", shard=storage.path(shard), do="run the same command again"
        )
    storage.rename(copy, shard)


def _write_copy(source: ReadableFile, target: BinaryIO, path: str, keys: Mapping[str, str]) -> None:
    """Copy all bytes as they are, but for the headers of renamed members."""
    copied = 0  # everything before this offset of the source is done
    for member in _members(source, path):
        name = _renamed(member.name, keys)
        if name != member.name:
            _copy_range(source, target, copied, member.header_offset)
            headers = source.read_at(member.header_offset, member.content_offset - member.header_offset)
            target.write(rename_headers(headers, encode_name(name), shard=path, offset=member.header_offset))
            copied = member.content_offset
    _copy_range(source, target, copied, source.size_bytes)


def _copy_range(source: ReadableFile, target: BinaryIO, start: int, stop: int) -> None:
    while start < stop:
        data = source.read_at(start, min(_CHUNK_BYTES, stop - start))
        if not data:
            return  # cut off meanwhile, which the comparison will find
        target.write(data)
        start += len(data)


def _verify_copy(
    source: ReadableFile, written: ReadableFile, path: str, copy_path: str, keys: Mapping[str, str]
) -> None:
    """Compare every member of the copy with the shard: names as planned, sizes and contents the same."""
    for old, new in zip_longest(_members(source, path), _members(written, copy_path)):
        if old is None or new is None:
            raise _bad_copy(path, old or new, "the copy has another number of members")
        if new.name != _renamed(old.name, keys):
            raise _bad_copy(path, old, f"the copy has {new.name!r} where {_renamed(old.name, keys)!r} should be")
        if new.size_bytes != old.size_bytes:
            raise _bad_copy(path, old, f"the copy of {old.name!r} has {new.size_bytes:,} bytes, not {old.size_bytes:,}")
        for start in range(0, old.size_bytes, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, old.size_bytes - start)
            data = source.read_at(old.content_offset + start, length)
            if len(data) < length or written.read_at(new.content_offset + start, length) != data:
                raise _bad_copy(path, old, f"the copy of {old.name!r} has other contents")


def _bad_copy(path: str, member: _Member, found: str) -> FormatError:
    return FormatError(
        f"the renamed copy of this shard is not right, and is thrown away: {found}",
        shard=path,
        offset=member.header_offset,
        do="check the disk, and whether another program writes to this shard; then run the same command again",
    )
