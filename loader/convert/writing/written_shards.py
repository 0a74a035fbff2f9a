"""Shards that writers have finished: their records, by which a resumed run keeps them, and their commit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import msgspec

from ...errors import ConfigError
from ...format.index.dataset_index import DatasetIndex, repeated_samples
from ...format.index.journal import save_scans
from ...format.index.layout import AbstractIndex, ShardEntry
from ...format.nv_meta import DATASET_YAML
from ...format.unfinished import WRITING_FOLDER, remove_left_files, remove_work_folder
from ...prepare.plan import PreparePlan, PrepareReport, SplitRequest
from ...prepare.run import open_prepare, run_prepare
from ...storage import FileInfo, Storage
from .new_output import keep_shards
from .shard_file import FileContents, PartContents, ShardFile

_BEGUN = "begun.json"
_DONE = "done.json"


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A writer.

    Attributes:
        description: The ``dataset.yaml`` of its samples; None writes no file.
    """

    description: str | None = None


class ShardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is written.

    Attributes:
        version: Its time of change or its version.
        split: Its split part; ``""`` for none.
    """

    name: str
    size_bytes: int
    version: str
    samples: int
    split: str

    def is_current(self, storage: Storage) -> bool:
        expected = (self.name, self.size_bytes, self.version)
        return storage.exists(self.name) and version_of(storage.stat(self.name)) == expected


FileVersion = tuple[str, int, str]
"""Name, size in bytes, and version of a file."""


def version_of(file: FileInfo) -> FileVersion:
    """Return name, size and version of a file."""
    return file.name, file.size_bytes, file.version


def shard_entries(shards: Iterable[tuple[str, int, int]]) -> list[ShardEntry]:
    """Return the shards of a new dataset in its order, from the name, the size and the samples of each."""
    entries, first = [], 0
    for name, size_bytes, samples in shards:
        file = FileInfo(name=name, size_bytes=size_bytes, mtime_ns=0)
        entries.append(ShardEntry.of_file(file, samples=samples, first_sample=first))
        first += samples
    return entries


@contextmanager
def indexed_shard(storage: Storage, name: str) -> Iterator[ShardFile]:
    """Write a shard, and store its index for the commit; after an error, no file is left."""
    with storage.create(name, durable=False) as file:
        shard = ShardFile(file)
        yield shard
        index = shard.finish()
    shard.info = storage.stat(name)
    save_scans(storage, [(shard.info, index)])


def part_name(part: int | None) -> str:
    """Return the name of a writer.

    >>> part_name(None), part_name(3)
    ('main', 'part_00003')
    """
    return "main" if part is None else f"part_{part:05d}"


class WrittenShards:
    """The records of one writer.

    Args:
        part: Number of the writer; None for the main one.
    """

    def __init__(self, storage: Storage, part: int | None) -> None:
        self._storage = storage
        self._folder = f"{WRITING_FOLDER}/{part_name(part)}"
        self.lock = f"{self._folder}.lock"

    def exists(self) -> bool:
        return self._storage.exists(f"{self._folder}/{_BEGUN}")

    def begin(self) -> None:
        self._write(_BEGUN, PartRecord())

    def add(self, shard: ShardRecord) -> None:
        self._write(f"{shard.name.replace('/', '%2F')}.json", shard)

    def finish(self, record: PartRecord) -> None:
        self._write(_DONE, record)

    def finished(self) -> PartRecord | None:
        name = f"{self._folder}/{_DONE}"
        return msgspec.json.decode(self._storage.read(name), type=PartRecord) if self._storage.exists(name) else None

    def shards(self) -> list[ShardRecord]:
        if not self._storage.exists(self._folder):
            return []
        names = (file.name for file in self._storage.list(self._folder))
        # A killed writer may leave unfinished records: .shard_000001.tar.json.4711-0123456789ab.partial
        records = [name for name in names if name.endswith(".tar.json")]
        shards = (msgspec.json.decode(self._storage.read(name), type=ShardRecord) for name in records)
        return sorted(shards, key=lambda shard: shard.name)

    def reopen(self) -> None:
        self._storage.remove(f"{self._folder}/{_DONE}")

    def discard(self) -> None:
        for shard in self.shards():
            self._storage.remove(shard.name)
        self._storage.remove(self._folder)

    def _write(self, name: str, record: msgspec.Struct) -> None:
        self._storage.write(f"{self._folder}/{name}", msgspec.json.encode(record), durable=False)


def written_parts(storage: Storage) -> Iterator[tuple[int | None, WrittenShards]]:
    """Yield the writers that have begun: the main one, then the parts by number."""
    names = {file.name.split("/")[2] for file in storage.list(WRITING_FOLDER)} if storage.exists(WRITING_FOLDER) else ()
    if "main" in names:
        yield None, WrittenShards(storage, None)
    for name in sorted(names):
        _, separator, rank = name.partition("part_")
        if separator and rank.isdecimal():
            yield int(rank), WrittenShards(storage, int(rank))


class OpenShard:
    """A shard that is being written."""

    def __init__(self, storage: Storage, name: str, number: int, split: str) -> None:
        self.name = name
        self.number = number
        self.split = split
        self._context = indexed_shard(storage, name)
        self.file = self._context.__enter__()

    def write(self, key: str, parts: Mapping[str, PartContents]) -> None:
        """Write a sample, and close the files that its parts are in."""
        try:
            self.file.write(key, parts)
        finally:
            for contents in parts.values():
                if isinstance(contents, FileContents):
                    contents.file.close()

    def finish(self) -> ShardRecord:
        self._context.__exit__(None, None, None)
        _, size_bytes, version = version_of(self.file.info)
        return ShardRecord(
            name=self.name, size_bytes=size_bytes, version=version, samples=self.file.samples, split=self.split
        )

    def abort(self, error: BaseException) -> None:
        self._context.__exit__(type(error), error, error.__traceback__)


_OWN_SHARD = re.compile(r"(shard|part_\d{5})_\d{6}\.tar")
_LOCK = f"{WRITING_FOLDER}/commit.lock"
_MAX_SHOWN = 10


def commit_shards(
    storage: Storage, *, path: str, parts: int | None = None, renames: bool, compat: bool | None
) -> PrepareReport:
    """Prepare the shards of all writers as a dataset, without scanning them.

    Args:
        parts: Number of writers with a rank; None for those that have begun.
        renames: Rename keys that two writers have written, instead of an error.
    """
    with storage.lock(_LOCK):
        # Check that all writers have ended, and that the folder has their shards alone.
        writers = dict(written_parts(storage))
        done = _finished(storage, writers, parts)
        shards = [shard for writer in writers.values() for shard in writer.shards()]
        if not shards:
            raise ConfigError("no sample was written", at=storage.path(""), hint="write one before the end")
        _check_files(storage, shards)
        remove_left_files(storage, of_running=True)
        # Check that they have written samples of one type.
        descriptions = {record.description for record in done if record.description is not None}
        if len(descriptions) > 1:
            raise ConfigError(
                "the writers have written samples of different types", at=storage.path(""), hint="name one sample_type"
            )
        # Prepare the dataset, unless keys repeat.
        names: dict[str, tuple[str, ...]] = {}
        for shard in shards:
            names[shard.split] = (*names.get(shard.split, ()), shard.name)
        plan = PreparePlan(
            path=path,
            split=SplitRequest(parts=names),
            files=dict.fromkeys([DATASET_YAML], *descriptions) if descriptions else {},
            compat=compat,
        )
        with open_prepare(plan) as prepare:
            prepare.scan()
            repeated = repeated_keys(prepare.index)
            if repeated and not renames:
                raise ConfigError(
                    f"keys were written twice ({len(repeated):,}): {'; '.join(repeated[:3])}",
                    at=storage.path(""),
                    hint="make keys unique, for example by the rank; or commit with on_repeat='rename'",
                )
            report = None if repeated else prepare.commit(plan.split, plan.files)
        report = report or run_prepare(replace(plan, fix_duplicates=True))
    remove_work_folder(storage, WRITING_FOLDER)
    return report


def _finished(storage: Storage, writers: dict[int | None, WrittenShards], parts: int | None) -> list[PartRecord]:
    # Name all writers that are missing.
    ends = {rank: writer.finished() for rank, writer in writers.items()}
    missing = [f"{part_name(rank)} did not finish" for rank, end in ends.items() if end is None]
    missing += [f"{part_name(rank)} did not begin" for rank in range(parts or 0) if rank not in writers]
    if missing:
        shown = ", ".join(missing[:_MAX_SHOWN]) + (" …" if len(missing) > _MAX_SHOWN else "")
        raise ConfigError(
            f"writers are missing: {shown}",
            at=storage.path(""),
            hint="run them again with resume=True, which keeps their finished shards; then commit",
        )
    return [end for end in ends.values() if end is not None]


def _check_files(storage: Storage, shards: Sequence[ShardRecord]) -> None:
    """Check that the folder has the recorded shards and no others; remove those that a killed writer left."""
    for shard in shards:
        if not shard.is_current(storage):
            raise ConfigError(
                "this shard was removed or changed since it was written",
                at=storage.path(shard.name),
                hint="write it again: run its writer with resume=True",
            )
    names = [shard.name for shard in shards]
    keep_shards(storage, names, _OWN_SHARD, fault="is of no writer", hint="move it away, and commit again")


def repeated_keys(index: AbstractIndex) -> list[str]:
    """Return the places of samples with the key of another one, each with the place of that."""
    if not (isinstance(index, DatasetIndex) and index.layout.duplicate_keys):
        return []
    places = ([*map(index.full_key, samples)] for samples in repeated_samples(index))
    return [f"{first} and {second}" for names in places for first, second in pairwise(names)]
