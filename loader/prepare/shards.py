"""Find the shards below a folder."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..engine import Account
from ..errors import ConfigError, StorageError, plural
from ..format.data_kind import SHARD_SUFFIXES, DataKind, data_kind
from ..format.documents.next_command import command_for_folder, import_hint
from ..format.nv_meta import TAR_IDX_SUFFIX
from ..storage import FileInfo, Storage, missing_folder, split_url

_MAX_EXTENSIONS = 5  # in a message


def count_extensions(files: Iterable[FileInfo]) -> dict[str, int]:
    """Count files by extension, the most frequent first; files without one under the empty text."""
    counts = Counter(os.path.splitext(file.name.rsplit("/", 1)[-1])[1] for file in files)
    return dict(counts.most_common())


def count_text(counts: Mapping[str, int]) -> str:
    """Format counts of files by extension.

    >>> count_text({".jpg": 1300, ".txt": 1300, "": 1})
    '1,300 .jpg, 1,300 .txt and 1 file without an extension'
    """
    shown = list(counts.items())[:_MAX_EXTENSIONS]
    texts = [f"{count:,} {extension}" for extension, count in shown if extension]
    unnamed = dict(shown).get("", 0)
    if unnamed:
        texts.append(f"{plural(unnamed, 'file')} without an extension")
    rest = sum(counts.values()) - sum(count for _, count in shown)
    if rest:
        texts.append(plural(rest, "other file"))
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


_TAR_FILES = (".tar", f".tar{TAR_IDX_SUFFIX}")
# Endings of compressed tar files.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSearch:
    """The shards of a folder, and the tar files that cannot be shards."""

    shards: tuple[FileInfo, ...]  # sorted by path components, as other readers of the format number them
    kind: DataKind  # kind of each of them
    compressed: tuple[str, ...]  # tar files without random access, whose decompressed file is not a shard
    files: tuple[FileInfo, ...]  # all visible files, excluded ones too
    excluded: re.Pattern[str] | None  # names that the user excludes
    unreadable: tuple[str, ...]  # names that no reader opens
    is_remote: bool  # the folder is in an object store

    @property
    def names(self) -> list[str]:
        return [shard.name for shard in self.shards]

    @property
    def tar_files(self) -> frozenset[str]:
        """All visible ``.tar`` and ``.tar.idx`` files."""
        return frozenset(file.name for file in self.files if file.name.endswith(_TAR_FILES))

    def account(self) -> Account:
        """Return an account of the files of the folder; those that the user excludes are not counted."""
        account, shards = Account(), frozenset(self.names)
        account.take("files", len(shards))
        for file in self.files:
            if file.name in shards or (self.excluded and self.excluded.search(file.name)):
                continue
            if file.name.endswith(TAR_IDX_SUFFIX) and file.name.removesuffix(TAR_IDX_SUFFIX) in shards:
                account.hidden += 1  # written by an earlier prepare
                continue
            if is_compressed_tar(file.name) and tar_name(file.name) in shards:
                continue  # its decompressed file is a shard
            reason = "L116" if file.name in self.compressed else "L117"
            account.lose("files", reason, file.name, size_bytes=file.size_bytes)
        if self.unreadable:
            code = "L118" if self.is_remote else "L105"
            account.lose("files", code, self.unreadable[0], count=len(self.unreadable))
        return account


def find_shards(storage: Storage, *, exclude: str | None = None, skipped: list[str] | None = None) -> ShardSearch:
    """List the shards below a dataset's folder, without hidden ones.

    Shards are the ``.tar`` files; in a folder without any, the ``.jsonl`` files or the ``.parquet`` files.

    Args:
        exclude: Regular expression that excludes a shard if it matches anywhere in the path.
        skipped: Gets the names that no reader opens, also if there are no shards.
    """
    # Sort the files into shards of each format, compressed shards and others.
    excluded_names = parse_exclude(exclude)
    by_ending: dict[str, list[FileInfo]] = {suffix: [] for suffix in SHARD_SUFFIXES}
    files: list[FileInfo] = []
    compressed, excluded = [], 0
    skipped = [] if skipped is None else skipped
    for file in _visible_files(storage, skipped):
        files.append(file)
        if file.name.endswith(SHARD_SUFFIXES):
            is_tar = file.name.endswith(".tar")
            if excluded_names and excluded_names.search(file.name):
                excluded += is_tar
            else:
                by_ending[os.path.splitext(file.name)[1]].append(file)
        elif _is_compressed(file.name, excluded_names):
            compressed.append(file.name)
    unreadable = [name for name in skipped if not _is_hidden(name)]
    # Choose the format; files next to tar shards are notes about them.
    shards = by_ending.pop(".tar")
    if not (shards or compressed or excluded):
        shards = _shards_without_tars(storage, by_ending)
    if not shards:
        raise _no_shards(storage, files, compressed, excluded, unreadable)
    # Compressed shards whose decompressed file is a shard are done.
    tars = {shard.name for shard in shards}
    compressed = [name for name in compressed if tar_name(name) not in tars]
    shards.sort(key=lambda shard: shard.name.split("/"))
    return ShardSearch(
        shards=tuple(shards),
        kind=data_kind(shards[0].name),
        compressed=tuple(compressed),
        files=tuple(files),
        excluded=excluded_names,
        unreadable=tuple(unreadable),
        is_remote=storage.checks_versions,
    )


def _shards_without_tars(storage: Storage, files: Mapping[str, list[FileInfo]]) -> list[FileInfo]:
    """Return the files of the only format that there is."""
    kinds = list(filter(None, files.values()))
    if len(kinds) > 1:
        path = storage.path("")
        other = (
            "move them to another folder" if storage.checks_versions else f"to import all files, {import_hint(path)}"
        )
        raise ConfigError(
            f"found files of several formats, {kinds[0][0].name} and {kinds[1][0].name}; a dataset has one",
            at=path,
            hint=f"leave those of one out: energon prepare {shlex.quote(path)} --exclude REGEX; or, {other}",
        )
    return kinds[0] if kinds else []


def _no_shards(
    storage: Storage, files: list[FileInfo], compressed: list[str], excluded: int, unreadable: Iterable[str]
) -> StorageError:
    # Name the likeliest reason: the pattern, compression, or another kind of files.
    path = storage.path("")
    single = len(compressed) == 1
    if excluded:
        which = "the only .tar file" if excluded == 1 else f"all {excluded:,} .tar files"
        return StorageError(f"--exclude matches {which}", path=path, hint="change the pattern")
    # Compressed shards can be decompressed by the same command.
    if compressed:
        return StorageError(
            f"no .tar files here, but {len(compressed):,} compressed {'one' if single else 'ones'} without"
            f" random access, first {compressed[0]}",
            path=path,
            hint=f"decompress {'it' if single else 'them'}: energon prepare {shlex.quote(path)} --decompress",
        )
    # Other files may be the input of an import.
    if files:
        return StorageError(
            f"no .tar files here or in the folders below, and no .jsonl or .parquet files, but"
            f" {count_text(count_extensions(files))}",
            path=path,
            hint=command_for_folder(storage.url, [file.name for file in files]),
        )
    # The folder is empty, or has files that cannot be read.
    if storage.checks_versions:  # an object store, where a folder without files does not exist
        return missing_folder(storage)
    others = sorted(unreadable, key=lambda name: not name.endswith(SHARD_SUFFIXES))
    content = f"{others[0]} is a pipe, device or socket" if others else "there are no files"
    return StorageError(
        f"no .tar files here or in the folders below, and no .jsonl or .parquet files: {content}",
        path=path,
        hint="give the folder that holds the shards",
    )


def is_compressed_tar(name: str) -> bool:
    """Return True for the name of a compressed tar file, which has no random access."""
    return name.lower().endswith(tuple(_COMPRESSIONS))


def compressed_warning(compressed: Sequence[str]) -> str:
    """Return a warning that compressed shards are skipped, with the flag that decompresses them."""
    count = f"{plural(len(compressed), 'compressed shard is', 'compressed shards are')} skipped"
    return (
        f"{count}, first {compressed[0]}: samples cannot be read from the middle of a compressed file;"
        " prepare with --decompress"
    )


def find_compressed(storage: Storage, *, exclude: str | None = None) -> list[str]:
    """List the compressed shards below a folder, without hidden ones."""
    excluded = parse_exclude(exclude)
    return [file.name for file in _visible_files(storage, []) if _is_compressed(file.name, excluded)]


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


def parse_exclude(exclude: str | None) -> re.Pattern[str] | None:
    """Compile the regular expression of excluded shards."""
    try:
        return re.compile(exclude) if exclude else None
    except re.error as error:
        raise ConfigError(f"--exclude {exclude!r} is not a regular expression: {error}") from error


def _is_hidden(name: str) -> bool:
    return name.rsplit("/", 1)[-1].startswith(".")


def _visible_files(storage: Storage, skipped: list[str]) -> Iterator[FileInfo]:
    if split_url(storage.url)[0] in ("http", "https"):
        raise StorageError(
            "a web server cannot list its files, so shards are not found there",
            path=storage.path(""),
            hint="use the folder that it serves, or the URL of its bucket (s3://…)",
        )
    if not storage.checks_versions and not storage.exists(""):  # in an object store, a listing shows it
        raise missing_folder(storage)
    return (file for file in storage.list(on_skipped=skipped.append) if not _is_hidden(file.name))
