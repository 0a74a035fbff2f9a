"""Decompress compressed shards to ``.tar`` files next to them, which allow reading samples at random."""

from __future__ import annotations

import bz2
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..engine.run import Engine
from ..errors import FormatError, StorageError, required_package
from ..format.nv_meta import LOCK
from ..format.tar.header import damaged
from ..format.unfinished import remove_left_files
from ..parts.other_file import refuse_other_file
from ..storage import ReadableFile, Storage, check_target, flush_files
from .scans import raise_scan_errors
from .shards import compression_of, find_compressed, tar_name

_CHUNK_BYTES = 8 * 1024  # of compressed data, which gzip and zstd may unpack to some dozen MB
_PIECE_BYTES = 1 << 20  # that other streams unpack at once
_REPORTED_BYTES = 4 << 20  # of compressed data, between two reports of a worker

DecompressProgress = Callable[[int, int], None]  # called with the compressed bytes done so far and in all


@dataclass(frozen=True, slots=True, kw_only=True)
class DecompressReport:
    """The outcome of a decompression."""

    written: tuple[str, ...]  # names of the ``.tar`` files that were written
    kept: int  # number of compressed shards whose ``.tar`` file existed already, with the same content
    removed: int  # number of compressed shards that were removed
    size_bytes: int


def decompress_shards(
    storage: Storage,
    *,
    exclude: str | None = None,
    remove_originals: bool = False,
    workers: int = 1,
    dry_run: bool = False,
    on_progress: DecompressProgress | None = None,
) -> DecompressReport:
    """Decompress the compressed shards below a folder to ``.tar`` files next to them.

    Each ``.tar`` file appears whole or not at all, with the time of its compressed shard. After an interruption, the
    next call continues with the shards that are left. A ``.tar`` file that exists must have the same content, and the
    shard is then done; if the original is kept, the same time suffices.

    Args:
        exclude: Regular expression of shards to skip.
        remove_originals: Remove each compressed shard once its ``.tar`` file is on disk.
        dry_run: Only check the names, and report what would be written.

    Raises:
        ConfigError: The package of a compression is missing.
        WorkerError: A worker process was killed.
    """
    names = find_compressed(storage, exclude=exclude)
    _check_names(storage, names)
    for name in names:
        check_package(name)
    if dry_run or not names:
        return DecompressReport(written=tuple(map(tar_name, names)), kept=0, removed=0, size_bytes=0)
    sizes = {name: storage.stat(name).size_bytes for name in names}
    total, read_bytes, packed, done = sum(sizes.values()), 0, dict.fromkeys(names, 0), dict[str, _Done]()
    with storage.lock(LOCK):
        remove_left_files(storage, of_running=True)  # of a killed run
        task = _Decompress(storage, remove_originals)
        stream = Engine(workers=workers).stream(task, names, is_last=lambda result: isinstance(result, _Done))
        try:
            with closing(stream) as results:
                for position, result in results:
                    name = names[position]
                    if isinstance(result, _Done):
                        done[name] = result
                    before, packed[name] = packed[name], sizes[name] if isinstance(result, _Done) else result
                    read_bytes += packed[name] - before
                    if on_progress is not None:
                        on_progress(read_bytes, total)
        finally:
            remove_left_files(storage, of_running=True)  # of workers that were ended
    # Report faults in the order of the names, and then the sizes.
    faults = [fault for name in names if (fault := done[name].fault) is not None]
    raise_scan_errors(faults, action="decompressed")
    written = {tar_name(name): each.size_bytes for name, each in done.items() if each.size_bytes is not None}
    return DecompressReport(
        written=tuple(sorted(written)),
        kept=len(names) - len(written),
        removed=len(names) if remove_originals else 0,
        size_bytes=sum(written.values()),
    )


def _check_names(storage: Storage, names: Sequence[str]) -> None:
    sources: dict[str, str] = {}
    for name in names:
        other = sources.setdefault(tar_name(name), name)
        if other != name:
            raise StorageError(
                f"{other} and {name} would both become {tar_name(name)}",
                path=storage.path(name),
                hint="rename one of them, or skip it with --exclude",
            )
        check_target(storage, tar_name(name))


class _Done(NamedTuple):
    size_bytes: int | None = None  # written; None if the ``.tar`` file existed
    fault: FormatError | None = None  # of this shard alone


@dataclass(frozen=True, slots=True)
class _Decompress:
    """Decompress one shard, and yield how many of its bytes were read; runs in a worker."""

    storage: Storage
    remove_originals: bool

    def __call__(self, name: str) -> Generator[int | _Done, None, None]:
        storage, target = self.storage, tar_name(name)
        try:
            size_bytes = yield from self._check_existing(name, target) if storage.exists(target) else self._write(name)
        except FormatError as error:
            yield _Done(fault=error)
            return
        if self.remove_originals:
            flush_files(storage, [target])  # its name, too
            storage.remove(name)
        yield _Done(size_bytes)

    def _write(self, name: str) -> Generator[int, None, int]:
        """Write the ``.tar`` file; return its size."""
        storage, target, size_bytes, reported = self.storage, tar_name(name), 0, 0
        with storage.open(name) as file, storage.create(target) as output:
            for chunk, packed in unpacked_chunks(file, storage.path(name)):
                size_bytes += output.write(chunk)
                if packed >= reported + _REPORTED_BYTES:
                    yield (reported := packed)
            if not size_bytes:
                raise FormatError("this file is empty", shard=storage.path(name), hint="remove it")
        status = os.stat(storage.path(name))
        os.utime(storage.path(target), ns=(status.st_atime_ns, status.st_mtime_ns))
        return size_bytes

    def _check_existing(self, name: str, target: str) -> Generator[int, None, None]:
        storage, offset, reported = self.storage, 0, 0
        if storage.stat(name).mtime_ns == storage.stat(target).mtime_ns and not self.remove_originals:
            return
        with storage.open(name) as file, storage.open(target) as tar:
            for chunk, packed in unpacked_chunks(file, storage.path(name)):
                if tar.read_at(offset, len(chunk)) != chunk:
                    break
                offset += len(chunk)
                if packed >= reported + _REPORTED_BYTES:
                    yield (reported := packed)
            else:
                if offset == tar.size_bytes:
                    return
        raise FormatError(
            f"{target} exists, and has other content than {name}",
            shard=storage.path(target),
            hint=f"move one of them away, or skip the compressed one with --exclude '{name}'",
        )


# ------------------------------------------------------------------------------------------------- the decompressors


def unpacked_chunks(file: ReadableFile, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield the contents of a compressed tar file, whose name shows the compression, in pieces.

    With each piece comes the number of compressed bytes that were read so far.

    Raises:
        FormatError: The data are damaged.
        ConfigError: The package of a compression is missing.
    """
    check_package(path)
    new_stream, stream, offset = _NEW_STREAM[compression_of(path)], None, 0
    while data := file.read_at(offset, _CHUNK_BYTES):
        is_first = offset == 0
        offset += len(data)
        try:
            while data and (stream or is_first or data.strip(b"\0")):  # zeros after the last stream are padding
                stream = stream or new_stream()
                yield from ((piece, offset) for piece in _pieces(stream, data))
                data = (stream.unused_data or b"") if stream.eof else b""
                stream = None if stream.eof else stream
                is_first = False
        except Exception as error:  # each library has its own kinds
            refuse_other_file(path, compression_of(path))
            raise damaged(f"the compressed data are damaged: {error}", path, offset) from error
    if stream is not None:
        raise damaged("the compressed data are damaged: the file ends within them", path, offset)


def _pieces(stream: Any, data: bytes) -> Iterator[bytes]:
    """Yield what data unpack to, in pieces if the stream may unpack them to very many times as much."""
    if not hasattr(stream, "needs_input"):  # gzip and zstd
        yield stream.decompress(data)
        return
    yield stream.decompress(data, _PIECE_BYTES)
    while not (stream.eof or stream.needs_input):
        yield stream.decompress(b"", _PIECE_BYTES)


def _zstd_stream() -> Any:
    if sys.version_info >= (3, 14):
        from compression.zstd import DecompressionParameter, ZstdDecompressor

        return ZstdDecompressor(options={DecompressionParameter.window_log_max: 31})
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def _lz4_stream() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


# Make the decompressor of one stream, as those of zlib; a file has several if a parallel compressor wrote it.
_NEW_STREAM: Mapping[str, Callable[[], Any]] = {
    "gz": partial(zlib.decompressobj, wbits=31),  # with gzip's header and checksum
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zst": _zstd_stream,
    "lz4": _lz4_stream,
}


def check_package(name: str) -> None:
    """Raise a ``ConfigError`` if the package that decompresses a shard is not installed."""
    fault = f"the library that decompresses {name} is not installed"
    with required_package(fault, hint="pip install 'energon-toolkit[decompress]'"):
        _NEW_STREAM[compression_of(name)]()
