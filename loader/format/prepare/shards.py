"""Find the shards below a folder, and scan them in worker processes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import ConfigError, EnergonError, FormatError, StorageError
from ...storage import FileInfo, Storage
from ..documents.providers import SHARD_SUFFIXES, Format, record_format
from ..index.journal import Journal, ScanPlace, save_scans
from ..index.shard_index import ShardIndex, index_shard
from ..worker_pool import run_in_workers
from .folder_content import content_hint, count_extensions, count_text
from .plan import PrepareProgress, ProgressCallback

__all__ = [
    "ShardScans",
    "ShardSearch",
    "compressed_warning",
    "compression_of",
    "find_compressed",
    "find_shards",
    "is_compressed_tar",
    "raise_scan_errors",
    "tar_name",
]

# -------------------------------------------------------------------------------------------------------- the search

_COMPRESSIONS = {
    ".tgz": "gz",
    ".tar.gz": "gz",
    ".tbz2": "bz2",
    ".tar.bz2": "bz2",
    ".txz": "xz",
    ".tar.xz": "xz",
    ".tar.zst": "zst",
    ".tar.lz4": "lz4",
}
"""Endings of compressed tar files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSearch:
    """The shards of a folder, and the tar files that cannot be shards."""

    shards: tuple[FileInfo, ...]  # sorted by path components, as other readers of the format number them
    format: Format | None = None  # of files of numbered samples; None for tar files
    compressed: tuple[str, ...]  # tar files without random access, that no shard is the decompressed file of
    excluded: int  # number of shards that ``exclude`` matched
    counts: Mapping[str, int] = field(default_factory=dict)  # extension → number of files of the folder, in a folder
    # without tar files

    @property
    def names(self) -> list[str]:
        return [shard.name for shard in self.shards]

    @property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)


def find_shards(storage: Storage, *, exclude: str | None = None) -> ShardSearch:
    """List the shards below a dataset's folder, without hidden ones.

    Shards are the ``.tar`` files; in a folder without any, the ``.jsonl`` files or the ``.parquet`` files.

    Args:
        storage: The dataset.
        exclude: Regular expression that excludes a shard if it matches anywhere in the path.

    Raises:
        ConfigError: ``exclude`` is not a regular expression, or there are both JSONL and Parquet files.
        StorageError: The folder is missing or holds no shard.
    """
    excluded_names = _parse_exclude(exclude)
    found: dict[str, list[FileInfo]] = {suffix: [] for suffix in SHARD_SUFFIXES}
    files: list[FileInfo] = []
    compressed, excluded = [], 0
    for file in _visible_files(storage):
        files.append(file)
        if file.name.endswith(SHARD_SUFFIXES):
            is_tar = file.name.endswith(".tar")
            if excluded_names and excluded_names.search(file.name):
                excluded += is_tar
            else:
                found[os.path.splitext(file.name)[1]].append(file)
        elif _is_compressed(file.name, excluded_names):
            compressed.append(file.name)
    shards = _shards_of_one_format(storage, found, any_tar=bool(compressed or excluded))
    if not shards:
        raise _no_shards(storage, files, compressed, excluded)
    tars = {shard.name for shard in shards}
    shards.sort(key=lambda shard: shard.name.split("/"))
    return ShardSearch(
        shards=tuple(shards),
        format=record_format(shards[0].name),
        compressed=tuple(name for name in compressed if tar_name(name) not in tars),
        excluded=excluded,
        counts={} if found[".tar"] else count_extensions(files),
    )


def _shards_of_one_format(storage: Storage, found: Mapping[str, list[FileInfo]], *, any_tar: bool) -> list[FileInfo]:
    """Return the tar files; without any, the files of the other format."""
    tars, *others = found.values()
    if tars or any_tar:  # files next to tar shards are notes about them
        return tars
    kinds = [files for files in others if files]
    if len(kinds) > 1:
        raise ConfigError(
            f"found files of several formats, {kinds[0][0].name} and {kinds[1][0].name}; a dataset has one",
            at=storage.path(""),
            hint="exclude those of one format with --exclude REGEX, or move them to another folder",
        )
    return kinds[0] if kinds else []


def _no_shards(storage: Storage, files: list[FileInfo], compressed: list[str], excluded: int) -> StorageError:
    path = storage.path("")
    single = len(compressed) == 1
    if excluded:
        which = "the only .tar file" if excluded == 1 else f"all {excluded:,} .tar files"
        return StorageError(f"--exclude matches {which}", path=path, hint="change the pattern")
    if compressed:
        return StorageError(
            f"no .tar files here, but {len(compressed):,} compressed {'one' if single else 'ones'} without"
            f" random access, first {compressed[0]}",
            path=path,
            hint=f"decompress {'it' if single else 'them'}: energon prepare {shlex.quote(path)} --decompress",
        )
    if files:
        return StorageError(
            f"no .tar files here or in the folders below, and no .jsonl or .parquet files, but"
            f" {count_text(count_extensions(files))}",
            path=path,
            hint=content_hint(storage.url, files),
        )
    return StorageError(
        "no .tar files here or in the folders below, and no .jsonl or .parquet files: there are no files",
        path=path,
        hint="give the folder that holds the shards",
    )


def is_compressed_tar(name: str) -> bool:
    """Return True for the name of a compressed tar file, which has no random access."""
    return name.lower().endswith(tuple(_COMPRESSIONS))


def compressed_warning(compressed: Sequence[str]) -> str:
    """Return a warning that compressed shards are skipped, with the flag that decompresses them."""
    count = f"{len(compressed):,} compressed {'shard is' if len(compressed) == 1 else 'shards are'} skipped"
    return (
        f"{count}, first {compressed[0]}: samples cannot be read from the middle of a compressed file;"
        " prepare with --decompress"
    )


def find_compressed(storage: Storage, *, exclude: str | None = None) -> list[str]:
    """List the compressed shards below a folder, without hidden ones.

    Raises:
        ConfigError: ``exclude`` is not a regular expression.
        StorageError: The folder is missing.
    """
    excluded = _parse_exclude(exclude)
    return [file.name for file in _visible_files(storage) if _is_compressed(file.name, excluded)]


def compression_of(name: str) -> str:
    """Return the compression of a shard by its name: ``gz``, ``bz2``, ``xz``, ``zst`` or ``lz4``."""
    return _COMPRESSIONS[_compressed_ending(name)]


def tar_name(name: str) -> str:
    """Return the name of a compressed shard after its decompression.

    >>> tar_name("a/s_0.tgz"), tar_name("s_1.TAR.zst")
    ('a/s_0.tar', 's_1.tar')
    """
    return name[: -len(_compressed_ending(name))] + ".tar"


def _is_compressed(name: str, excluded: re.Pattern[str] | None) -> bool:
    return is_compressed_tar(name) and not (excluded and excluded.search(name))


def _compressed_ending(name: str) -> str:
    return next(ending for ending in _COMPRESSIONS if name.lower().endswith(ending))


def _parse_exclude(exclude: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(exclude) if exclude else None
    except re.error as error:
        raise ConfigError(f"--exclude {exclude!r} is not a regular expression: {error}") from error


def _visible_files(storage: Storage) -> Iterator[FileInfo]:
    if not storage.exists(""):
        raise StorageError("this folder does not exist", path=storage.path(""), hint="check the path")
    return (file for file in storage.list() if not file.name.rsplit("/", 1)[-1].startswith("."))


# --------------------------------------------------------------------------------------------------------- the scans


_MAX_GROUP_SHARDS = 64
_MAX_GROUP_BYTES = 32 * 1024 * 1024  # an interrupted prepare scans at most this much again per worker
_GROUPS_PER_WORKER = 8  # at least, so that all workers are busy up to the end


class _Group(list[FileInfo]):
    """Neighbouring shards that are scanned together."""

    @property
    def name(self) -> str:
        """The shards, for the error of a worker that was killed."""
        return self[0].name if len(self) == 1 else f"{len(self)} shards from {self[0].name} to {self[-1].name}"


def _groups(shards: Sequence[FileInfo], workers: int) -> list[_Group]:
    """Divide shards into groups of neighbours: many small ones, or one large one."""
    count = max(1, min(_MAX_GROUP_SHARDS, len(shards) // (_GROUPS_PER_WORKER * max(1, workers))))
    groups: list[_Group] = []
    size_bytes = 0
    for shard in shards:
        size_bytes += shard.size_bytes
        if not groups or len(groups[-1]) == count or size_bytes > _MAX_GROUP_BYTES:
            groups.append(_Group())
            size_bytes = shard.size_bytes
        groups[-1].append(shard)
    return groups


class _Scanned(NamedTuple):
    """A shard that was scanned: the place of its scan, or its error."""

    place: ScanPlace | EnergonError
    samples: int = 0


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan a group of shards into the journal; runs in a worker."""

    storage: Storage

    def __call__(self, shards: _Group) -> list[_Scanned]:
        results = [self._index(shard) for shard in shards]
        scans = [
            (shard, result)
            for shard, result in zip(shards, results, strict=True)
            if not isinstance(result, EnergonError)
        ]
        # An error from here on, such as a full disk, is not a fault of a shard: it ends the run.
        places = iter(save_scans(self.storage, scans) if scans else ())
        return [
            _Scanned(result) if isinstance(result, EnergonError) else _Scanned(next(places), len(result))
            for result in results
        ]

    def _index(self, shard: FileInfo) -> EnergonError | ShardIndex:
        try:
            index = index_shard(self.storage, shard.name)
            now = self.storage.stat(shard.name)
        except (FormatError, StorageError) as error:
            return error
        if now == shard:
            return index
        return FormatError(
            f"the shard changed while it was read (now {now.size_bytes} bytes, before {shard.size_bytes})",
            shard=self.storage.path(shard.name),
            hint="wait until it is written, then prepare again",
        )


class ShardScans:
    """Scans that workers do while a prepare writes.

    Args:
        storage: The dataset.
        journal: Gets the places of the scans.
        to_scan: The shards to scan.
        total: Number of all shards, for progress; those not in ``to_scan`` count as done.
        workers: Number of worker processes.
        on_progress: Called at the start and after each scanned shard.
    """

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        to_scan: Sequence[FileInfo],
        *,
        total: int,
        workers: int,
        on_progress: ProgressCallback | None,
    ) -> None:
        self._journal = journal
        self._groups = _groups(to_scan, workers)
        self._total = total
        self._samples = 0
        self._on_progress = on_progress
        self._open = {shard.name for shard in to_scan}
        self._errors: dict[str, EnergonError] = {}
        self._report()
        self._results = run_in_workers(_Scan(storage), self._groups, workers=workers)

    def wait_for(self, shard: FileInfo) -> None:
        """Wait until a shard is in the journal.

        Raises:
            EnergonError: This shard, or another one scanned meanwhile, cannot be indexed. All scans are finished first,
                so that the error names every damaged shard.
        """
        while shard.name in self._open:
            self._take_group()
        if self._errors:
            while self._open:
                self._take_group()
            scanned = (shard.name for group in self._groups for shard in group)
            raise_scan_errors([self._errors[name] for name in scanned if name in self._errors])

    def _take_group(self) -> None:
        number, results = next(self._results)
        for shard, result in zip(self._groups[number], results, strict=True):
            self._open.remove(shard.name)
            if isinstance(result.place, EnergonError):
                self._errors[shard.name] = result.place
            else:
                self._journal.add(shard, result.place)
                self._samples += result.samples
        if any(result.samples for result in results):
            self._report()

    def _report(self) -> None:
        if self._on_progress:
            done = self._total - len(self._open) - len(self._errors)
            self._on_progress(
                PrepareProgress(phase="scan", shards_done=done, shards_total=self._total, samples=self._samples)
            )

    def close(self) -> None:
        """End the workers."""
        self._results.close()


def raise_scan_errors(errors: Sequence[EnergonError], *, action: str = "indexed") -> None:
    """Raise the error of a shard, or one error about several shards, which cannot be indexed."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise FormatError(
            f"{len(errors)} shards cannot be {action}\n" + "\n".join(str(error) for error in errors),
            hint="fix them, or exclude them with --exclude REGEX",
        )
