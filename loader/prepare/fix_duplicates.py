"""Rename keys that several shards share (``energon prepare --fix-duplicates``).

A key that repeats one of an earlier shard gets ``#`` and the number of its own shard: ``0001.jpg`` of shard 3 becomes
``0001#3.jpg``. Other samples keep their keys. No shard is changed in place: a renamed copy is written next to it, read
back and compared with it, and then replaces it in one step. So each shard is whole at any moment: the old one or the
new one. After an interruption, the next run does the rest, because it renames only keys that shards still share.
"""

from __future__ import annotations

import shutil
import tarfile
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import BinaryIO, NamedTuple

from ..errors import FormatError
from ..format.index.layout import ShardEntry
from ..format.index.writer import DuplicateKeys
from ..format.tar.header import BLOCK, check_header, header_size, parse_pax_records
from ..format.tar.names import decode_name, encode_name, split_member_name
from ..format.tar.scan import TarScan, read_members
from ..storage import FileStream, ReadableFile, Storage, rename_file

_NAME, _SIZE, _CHECKSUM, _PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), slice(345, 500)
_POSIX = b"ustar\0"
_PATH = b"path"


_CHUNK_BYTES = 4 << 20
_COPIES = ".renamed-copies"  # a hidden folder next to the shards, so that a copy is on the disk of its shard


def repeated_keys(duplicates: DuplicateKeys, shards: Sequence[ShardEntry]) -> dict[str, set[str]]:
    """Return for each shard the keys that repeat a key of an earlier shard.

    Args:
        shards: All shards of the dataset, in order.
    """
    repeated: dict[str, set[str]] = {}
    starts = [shard.first_sample for shard in shards]
    for key, samples in duplicates.groups:
        for sample in samples[1:].tolist():
            shard = shards[bisect_right(starts, sample) - 1].name
            repeated.setdefault(shard, set()).add(key)
    return repeated


class _Member(NamedTuple):
    name: str
    header_offset: int
    content_offset: int
    size_bytes: int


def fix_duplicates(
    storage: Storage, shards: Sequence[str], duplicates: Mapping[str, Collection[str]]
) -> dict[str, dict[str, str]]:
    """Rename keys in copies of shards, and replace the shards with the copies; return shard → {old key: new key}.

    The disk needs space for one more shard, not for all. The caller holds the dataset's lock, and indexes the shards
    again afterwards: another shard may already have a new key by chance, which the next run renames.

    Args:
        shards: All shards of the dataset in order; their numbers are appended to keys.
        duplicates: Shard → the keys to rename in it. Keys that the shard does not have are skipped; a shard without any
            of its keys is not touched.
    """
    folders = {shard.rpartition("/")[0] for shard in shards}
    _remove_copies(storage, folders)  # of a run that was killed
    renamed: dict[str, dict[str, str]] = {}
    try:
        for position, name in enumerate(shards):
            if not duplicates.get(name):
                continue
            keys = _plan_keys(storage, name, position, frozenset(duplicates[name]))
            if keys:
                _replace_shard(storage, name, keys)
                renamed[name] = keys
    finally:
        _remove_copies(storage, folders)
    return renamed


def _remove_copies(storage: Storage, folders: Iterable[str]) -> None:
    for folder in folders:
        storage.remove(_join(folder, _COPIES))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _members(file: ReadableFile, path: str) -> Iterator[_Member]:
    for batch in read_members(file, TarScan(file.size_bytes, path)):
        yield from map(
            _Member,
            map(decode_name, batch.names.tolist()),
            batch.header_offset.tolist(),
            batch.content_offset.tolist(),
            batch.size_bytes.tolist(),
        )


def _plan_keys(storage: Storage, shard: str, position: int, wanted: frozenset[str]) -> dict[str, str]:
    """Choose new keys, which the shard does not have, for the wanted keys that it has."""
    with storage.open(shard) as file:
        names = (split_member_name(member.name) for member in _members(file, storage.path(shard)))
        taken = {split[0] for split in names if split}
    keys: dict[str, str] = {}
    for key in sorted(wanted & taken):
        new_key = f"{key}#{position}"
        while new_key in taken:
            new_key += f"#{position}"
        taken.add(new_key)
        keys[key] = new_key
    return keys


def _renamed(name: str, keys: Mapping[str, str]) -> str:
    split = split_member_name(name)
    return f"{keys[split[0]]}.{split[1]}" if split and split[0] in keys else name


def _replace_shard(storage: Storage, shard: str, keys: Mapping[str, str]) -> None:
    folder, _, base = shard.rpartition("/")
    copy = _join(folder, f"{_COPIES}/{base}")
    before = storage.stat(shard)
    with storage.open(shard) as source:
        with storage.create(copy) as target:
            _write_copy(source, target, storage.path(shard), keys)
        with storage.open(copy) as written:
            _verify_copy(source, written, storage.path(shard), storage.path(copy), keys)
    if storage.stat(shard) != before:
        raise FormatError(
            "this shard changed while it was copied", shard=storage.path(shard), hint="run the same command again"
        )
    rename_file(storage, copy, shard)


def _write_copy(source: ReadableFile, target: BinaryIO, path: str, keys: Mapping[str, str]) -> None:
    """Copy all bytes unchanged, except the headers of renamed members."""
    copied = 0  # everything before this offset of the source is copied
    for member in _members(source, path):
        name = _renamed(member.name, keys)
        if name != member.name:
            _copy_range(source, target, copied, member.header_offset)
            headers = source.read_at(member.header_offset, member.content_offset - member.header_offset)
            target.write(rename_headers(headers, encode_name(name), shard=path, offset=member.header_offset))
            copied = member.content_offset
    _copy_range(source, target, copied, source.size_bytes)


def _copy_range(source: ReadableFile, target: BinaryIO, start: int, stop: int) -> None:
    # If the shard was cut meanwhile, the comparison will find that.
    shutil.copyfileobj(FileStream(source, start, stop - start), target, _CHUNK_BYTES)


def _verify_copy(
    source: ReadableFile, written: ReadableFile, path: str, copy_path: str, keys: Mapping[str, str]
) -> None:
    """Check that the members of the copy have the planned names, and the sizes and contents of the shard's."""
    for old, new in zip_longest(_members(source, path), _members(written, copy_path)):
        if old is None or new is None:
            raise _bad_copy(path, old or new, "the copy has another number of members")
        if new.name != _renamed(old.name, keys):
            raise _bad_copy(path, old, f"expected member {_renamed(old.name, keys)!r}, found {new.name!r}")
        if new.size_bytes != old.size_bytes:
            raise _bad_copy(path, old, f"expected {old.size_bytes:,} bytes of {old.name!r}, found {new.size_bytes:,}")
        for start in range(0, old.size_bytes, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, old.size_bytes - start)
            data = source.read_at(old.content_offset + start, length)
            if len(data) < length or written.read_at(new.content_offset + start, length) != data:
                raise _bad_copy(path, old, f"the contents of {old.name!r} differ")


def _bad_copy(path: str, member: _Member, message: str) -> FormatError:
    return FormatError(
        f"the renamed copy of this shard is wrong and was discarded: {message}",
        shard=path,
        offset=member.header_offset,
        hint="check the disk, and that no other program writes to this shard; then run the same command again",
    )


def rename_headers(headers: bytes, name: bytes, *, shard: str, offset: int) -> bytes:
    """Rewrite a member's headers for another name.

    The new name replaces the old one if it fits: in the header's own field, or in the PAX record. Otherwise a PAX
    record (POSIX archives) or a GNU long name (all others) is added. Other extension headers are preserved.

    Args:
        headers: All blocks of the member from its first extension header to its contents.

    Returns:
        The new blocks, a multiple of 512 bytes.
    """
    extensions: list[tuple[bytes, list[bytes] | None]] = []  # unchanged blocks and None, or a block and its PAX records
    # Read the extension headers, without the names that they have.
    in_record = False
    position = 0
    while position < len(headers) - BLOCK:
        header = headers[position : position + BLOCK]
        check_header(header, shard=shard, offset=offset + position)
        size = header_size(header, shard=shard, offset=offset + position)
        data = headers[position + BLOCK : position + BLOCK + size]
        end = position + BLOCK + _padded(size)
        if header[156:157] in (b"x", b"X"):
            parse_pax_records(data, shard=shard, offset=offset + position + BLOCK)  # reports damage
            records = _split_records(data)
            others = [record for record in records if _keyword(record) != _PATH]
            in_record = in_record or len(others) < len(records)
            extensions.append((header, others))
        elif header[156:157] != b"L":
            extensions.append((headers[position:end], None))
        position = end
    # Write the new name where the old one was, or into another extension header.
    member_header = bytearray(headers[-BLOCK:])
    posix = member_header[257:263] == _POSIX
    fits = _put_name(member_header, name, posix=posix) and not in_record
    written = [b"" if fits else _long_name(extensions, name, posix=posix or in_record)]
    # Join the headers again; extension headers without records are dropped.
    for header, others_or_none in extensions:
        if others_or_none is None:
            written.append(header)
        elif others_or_none:
            written.append(_with_contents(header, b"".join(others_or_none)))
    return b"".join([*written, _with_checksum(member_header)])


def _put_name(header: bytearray, name: bytes, *, posix: bool) -> bool:
    """Write the name into the member's own header; return False if it had to be cut."""
    prefix = b""
    if posix and len(name) > 100:
        # POSIX: a prefix of at most 155 bytes, a slash that is not stored, a name of at most 100.
        slash = name.find(b"/", len(name) - 101)
        if 0 < slash <= 155 and slash < len(name) - 1:
            prefix, name = name[:slash], name[slash + 1 :]
    header[_NAME] = name[:100].ljust(100, b"\0")
    if posix:
        header[_PREFIX] = prefix.ljust(155, b"\0")
    return len(name) <= 100


def _long_name(extensions: list[tuple[bytes, list[bytes] | None]], name: bytes, *, posix: bool) -> bytes:
    """Add the name to existing PAX records, or return the blocks of a new extension header."""
    if not posix:
        return _with_contents(_extension_header(b"L"), name + b"\0")
    record = _record(_PATH, name)
    for _, records in reversed(extensions):
        if records is not None:
            records.append(record)
            return b""
    return _with_contents(_extension_header(b"x"), record)


def _extension_header(kind: bytes) -> bytes:
    gnu = kind == b"L"
    info = tarfile.TarInfo("././@LongLink" if gnu else "././@PaxHeader")
    info.type = kind
    return info.tobuf(tarfile.GNU_FORMAT if gnu else tarfile.USTAR_FORMAT)


def _with_contents(header: bytes, data: bytes) -> bytes:
    changed = bytearray(header)
    changed[_SIZE] = b"%011o\0" % len(data)
    return _with_checksum(changed) + data.ljust(_padded(len(data)), b"\0")


def _with_checksum(header: bytearray) -> bytes:
    header[_CHECKSUM] = b" " * 8
    header[_CHECKSUM] = b"%06o\0 " % sum(header)
    return bytes(header)


def _split_records(data: bytes) -> list[bytes]:
    records = []
    while data.strip(b"\0"):
        length = int(data[: data.index(b" ")])
        records.append(data[:length])
        data = data[length:]
    return records


def _keyword(record: bytes) -> bytes:
    return record[record.index(b" ") + 1 : record.index(b"=")]


def _record(keyword: bytes, value: bytes) -> bytes:
    """Write ``length keyword=value``; the length includes its own digits."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _padded(size: int) -> int:
    return (size + BLOCK - 1) & -BLOCK
