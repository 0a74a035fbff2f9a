"""Decompress compressed shards to ``.tar`` files next to them, which allow reading samples at random."""

from __future__ import annotations

import bz2
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Any

from ..errors import EnergonError, FormatError, StorageError, required_package
from ..format.nv_meta import LOCK
from ..format.tar.header import damaged
from ..parts.other_file import refuse_other_file
from ..storage import ReadableFile, Storage, check_target, flush_files, process_of_partial
from .scans import raise_scan_errors
from .shards import compression_of, find_compressed, tar_name

_CHUNK_BYTES = 8 * 1024  # of compressed data, which gzip and zstd may unpack to some dozen MB
_PIECE_BYTES = 1 << 20  # that other streams unpack at once

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
    """
    names = find_compressed(storage, exclude=exclude)
    _check_names(storage, names)
    for name in names:
        check_package(name)
    if dry_run or not names:
        return DecompressReport(written=tuple(map(tar_name, names)), kept=0, removed=0, size_bytes=0)
    with storage.lock(LOCK):
        for file in storage.list():
            if process_of_partial(file.name):  # of a killed run
                storage.remove(file.name)
        work = _Decompression(storage, names, remove_originals=remove_originals, on_progress=on_progress)
        return work.run(max(1, workers))


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


class _Decompression:
    """The work of one call, shared by its threads."""

    def __init__(
        self,
        storage: Storage,
        names: Sequence[str],
        *,
        remove_originals: bool,
        on_progress: DecompressProgress | None,
    ) -> None:
        self._storage = storage
        self._names = names
        self._remove_originals = remove_originals
        self._on_progress = on_progress
        self._total_bytes = sum(storage.stat(name).size_bytes for name in names)
        self._done_bytes = 0
        self._lock = Lock()
        self._stop = Event()

    def run(self, workers: int) -> DecompressReport:
        results: dict[str, int | None] = {}
        faults: dict[str, EnergonError] = {}
        # Decompress in threads, and collect the faults of single shards.
        with ThreadPoolExecutor(min(workers, len(self._names)), thread_name_prefix="decompress") as threads:
            futures = {threads.submit(self._decompress, name): name for name in self._names}
            try:
                for future in as_completed(futures):
                    try:
                        results[futures[future]] = future.result()
                    except FormatError as error:  # the fault of this shard alone
                        faults[futures[future]] = error
            except BaseException:
                self._stop.set()
                threads.shutdown(cancel_futures=True)
                raise
        # Report faults in the order of the names, and then the sizes.
        raise_scan_errors([faults[name] for name in self._names if name in faults], action="decompressed")
        sizes = {tar_name(name): size for name, size in results.items() if size is not None}
        return DecompressReport(
            written=tuple(sorted(sizes)),
            kept=len(results) - len(sizes),
            removed=len(results) if self._remove_originals else 0,
            size_bytes=sum(sizes.values()),
        )

    def _decompress(self, name: str) -> int | None:
        """Decompress one shard; return the bytes written, or None if its ``.tar`` file existed."""
        storage, target = self._storage, tar_name(name)
        if storage.exists(target):
            self._check_existing(name, target)
            size_bytes = None
        else:
            with storage.open(name) as file, storage.create(target) as output:
                size_bytes = sum(map(output.write, unpacked_chunks(file, storage.path(name), self._advance)))
                if not size_bytes:
                    raise FormatError("this file is empty", shard=storage.path(name), hint="remove it")
            status = os.stat(storage.path(name))
            os.utime(storage.path(target), ns=(status.st_atime_ns, status.st_mtime_ns))
        if self._remove_originals:
            flush_files(storage, [target])  # its name, too
            storage.remove(name)
        return size_bytes

    def _check_existing(self, name: str, target: str) -> None:
        storage = self._storage
        original, existing = storage.stat(name), storage.stat(target)
        if original.mtime_ns == existing.mtime_ns and not self._remove_originals:
            self._advance(original.size_bytes)
            return
        with storage.open(name) as file, storage.open(target) as tar:
            offset = 0
            for chunk in unpacked_chunks(file, storage.path(name), self._advance):
                if tar.read_at(offset, len(chunk)) != chunk:
                    break
                offset += len(chunk)
            else:
                if offset == tar.size_bytes:
                    return
        raise FormatError(
            f"{target} exists, and has other content than {name}",
            shard=storage.path(target),
            hint=f"move one of them away, or skip the compressed one with --exclude '{name}'",
        )

    def _advance(self, size_bytes: int) -> None:
        if self._stop.is_set():
            raise StorageError("the decompression was stopped", path=self._storage.path(""))
        with self._lock:
            self._done_bytes += size_bytes
            if self._on_progress is not None:
                self._on_progress(self._done_bytes, self._total_bytes)


# ------------------------------------------------------------------------------------------------- the decompressors


def unpacked_chunks(file: ReadableFile, path: str, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the contents of a compressed tar file, whose name shows the compression.

    Args:
        advance: Called with the number of compressed bytes before each is unpacked.

    Raises:
        FormatError: The data are damaged.
        ConfigError: The package of a compression is missing.
    """
    check_package(path)
    new_stream, stream, offset = _NEW_STREAM[compression_of(path)], None, 0
    while data := file.read_at(offset, _CHUNK_BYTES):
        advance(len(data))
        is_first = offset == 0
        offset += len(data)
        try:
            while data and (stream or is_first or data.strip(b"\0")):  # zeros after the last stream are padding
                stream = stream or new_stream()
                yield from _pieces(stream, data)
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
