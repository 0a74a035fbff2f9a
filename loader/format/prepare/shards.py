"""Find the shards below a folder, and scan them in worker processes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import ConfigError, EnergonError, FormatError, StorageError
from ...storage import FileInfo, Storage
from ..documents.providers import SHARD_SUFFIXES, Format, record_format
from ..index.publish import Journal
from ..index.shard_index import index_shard
from ..worker_pool import run_in_workers
from .plan import PrepareProgress, ProgressCallback

__all__ = [
    "ShardScans",
    "ShardSearch",
    "compressed_warning",
    "find_shards",
    "raise_scan_errors",
    "unpack_command",
]

# -------------------------------------------------------------------------------------------------------- the search

_UNPACK = {
    ".tgz": "gunzip -c",
    ".tar.gz": "gunzip -c",
    ".tar.bz2": "bunzip2 -c",
    ".tar.xz": "xz -dc",
    ".tar.zst": "zstd -dc",
    ".tar.lz4": "lz4 -dc",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSearch:
    """The shards of a folder, and the tar files that cannot be shards."""

    shards: tuple[FileInfo, ...]  # sorted by path components, as other readers of the format number them
    format: Format | None = None  # of files of numbered samples; None for tar files
    compressed: tuple[str, ...]  # tar files without random access
    excluded: int  # number of shards that ``exclude`` matched

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
    try:
        excluded_names = re.compile(exclude) if exclude else None
    except re.error as error:
        raise ConfigError(f"--exclude {exclude!r} is not a regular expression: {error}") from error
    if not storage.exists(""):
        raise StorageError("this folder does not exist", path=storage.path(""), hint="check the path")
    found: dict[str, list[FileInfo]] = {suffix: [] for suffix in SHARD_SUFFIXES}
    compressed, excluded = [], 0
    for file in storage.list():
        if file.name.rsplit("/", 1)[-1].startswith("."):
            continue
        if file.name.endswith(SHARD_SUFFIXES):
            is_tar = file.name.endswith(".tar")
            if excluded_names and excluded_names.search(file.name):
                excluded += is_tar
            else:
                found[os.path.splitext(file.name)[1]].append(file)
        elif file.name.lower().endswith(tuple(_UNPACK)):
            compressed.append(file.name)
    shards = _shards_of_one_format(storage, found, any_tar=bool(compressed or excluded))
    if not shards:
        raise _no_shards(storage, compressed, excluded)
    shards.sort(key=lambda shard: shard.name.split("/"))
    return ShardSearch(
        shards=tuple(shards),
        format=record_format(shards[0].name),
        compressed=tuple(compressed),
        excluded=excluded,
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


def _no_shards(storage: Storage, compressed: list[str], excluded: int) -> StorageError:
    path = storage.path("")
    single = len(compressed) == 1
    if excluded:
        files = "the only .tar file" if excluded == 1 else f"all {excluded:,} .tar files"
        return StorageError(f"--exclude matches {files}", path=path, hint="change the pattern")
    if compressed:
        return StorageError(
            f"no .tar files here, but {len(compressed):,} compressed {'one' if single else 'ones'} without"
            f" random access, first {compressed[0]}",
            path=path,
            hint=f"unpack {'it' if single else 'them'}: {unpack_command(path, compressed)}",
        )
    return StorageError(
        "no .tar files here or in the folders below, and no .jsonl or .parquet files",
        path=path,
        hint="give the folder that holds the shards",
    )


def compressed_warning(folder: str, compressed: Sequence[str]) -> str:
    """Return a warning that compressed shards are skipped, with the command that unpacks them."""
    count = f"{len(compressed):,} compressed {'shard is' if len(compressed) == 1 else 'shards are'} skipped"
    return (
        f"{count}, first {compressed[0]}: samples cannot be read from the middle of a compressed file;"
        f" unpack {'it' if len(compressed) == 1 else 'them'}: {unpack_command(folder, compressed)}"
    )


def unpack_command(folder: str, compressed: Sequence[str]) -> str:
    """Build a shell command that unpacks compressed shards to ``.tar`` files next to them.

    Args:
        folder: Path of the dataset's folder.
        compressed: Names of the files in it.

    >>> unpack_command("data", ["sub/s 0.tgz"])
    "gunzip -c 'data/sub/s 0.tgz' > 'data/sub/s 0.tar'"
    """
    by_ending: dict[str, list[str]] = {}
    for name in compressed:
        ending = next(ending for ending in _UNPACK if name.lower().endswith(ending))
        by_ending.setdefault(name[-len(ending) :], []).append(name)
    commands = []
    for ending, names in by_ending.items():
        program = _UNPACK[ending.lower()]
        if len(names) == 1:
            source = f"{folder.rstrip('/')}/{names[0]}"
            target = source.removesuffix(ending) + ".tar"
            commands.append(f"{program} {shlex.quote(source)} > {shlex.quote(target)}")
        else:
            script = f'{program} "$1" > "${{1%{ending}}}.tar"'
            find = f"find {shlex.quote(folder)} -name '*{ending}'"
            commands.append(f"{find} -exec sh -c {shlex.quote(script)} _ {{}} \\;")
    return " && ".join(commands)


# --------------------------------------------------------------------------------------------------------- the scans


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan one shard into the journal; runs in a worker."""

    storage: Storage

    def __call__(self, shard: FileInfo) -> EnergonError | int:
        try:
            index = index_shard(self.storage, shard.name)
            now = self.storage.stat(shard.name)
            if now != shard:
                return FormatError(
                    f"the shard changed while it was read (now {now.size_bytes} bytes, before {shard.size_bytes})",
                    shard=self.storage.path(shard.name),
                    hint="wait until it is written, then prepare again",
                )
        except (FormatError, StorageError) as error:
            return error
        # An error from here on, such as a full disk, is not a fault of this shard: it ends the run.
        Journal(self.storage).save(shard, index)
        return len(index)


class ShardScans:
    """Scans that workers do while a prepare writes.

    Args:
        storage: The dataset.
        to_scan: The shards to scan.
        total: Number of all shards, for progress; those not in ``to_scan`` count as done.
        workers: Number of worker processes.
        on_progress: Called at the start and after each scanned shard.
    """

    def __init__(
        self,
        storage: Storage,
        to_scan: Sequence[FileInfo],
        *,
        total: int,
        workers: int,
        on_progress: ProgressCallback | None,
    ) -> None:
        self._shards = to_scan
        self._total = total
        self._samples = 0
        self._on_progress = on_progress
        self._open = {shard.name for shard in to_scan}
        self._errors: dict[str, EnergonError] = {}
        self._report()
        self._results = run_in_workers(_Scan(storage), to_scan, workers=workers)

    def wait_for(self, shard: FileInfo) -> None:
        """Wait until a shard is in the journal.

        Raises:
            EnergonError: This shard, or another one scanned meanwhile, cannot be indexed. All scans are finished first,
                so that the error names every damaged shard.
        """
        while shard.name in self._open:
            self._take_one()
        if self._errors:
            while self._open:
                self._take_one()
            self._raise_errors()

    def _take_one(self) -> None:
        number, result = next(self._results)
        name = self._shards[number].name
        self._open.remove(name)
        if isinstance(result, EnergonError):
            self._errors[name] = result
        else:
            self._samples += result
            self._report()

    def _report(self) -> None:
        if self._on_progress:
            done = self._total - len(self._open) - len(self._errors)
            self._on_progress(
                PrepareProgress(phase="scan", shards_done=done, shards_total=self._total, samples=self._samples)
            )

    def _raise_errors(self) -> None:
        raise_scan_errors([self._errors[shard.name] for shard in self._shards if shard.name in self._errors])

    def close(self) -> None:
        """End the workers."""
        self._results.close()


def raise_scan_errors(errors: Sequence[EnergonError]) -> None:
    """Raise the error of a shard, or one error about several shards."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise FormatError(
            f"{len(errors)} shards cannot be indexed\n" + "\n".join(str(error) for error in errors),
            hint="fix them, or exclude them with --exclude REGEX",
        )
