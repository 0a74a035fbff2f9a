"""Commit the shards of writers as a prepared dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...errors import ConfigError
from ...format.index.journal import Journal
from ...format.index.shard_index import ShardIndex, index_shard
from ...format.nv_meta import DATASET_YAML
from ...format.prepare.plan import PreparePlan, PrepareReport, SplitRequest
from ...format.prepare.run import run_prepare
from ...format.tar.names import decode_name
from ...format.unfinished import WRITING_FOLDER, remove_left_files, remove_work_folder
from ...storage import Storage
from .written_shards import PartRecord, ShardRecord, WrittenShards, part_name, written_parts

_OWN_SHARD = re.compile(r"(shard|part_\d{5})_\d{6}\.tar")
_LOCK = f"{WRITING_FOLDER}/commit.lock"
_MAX_SHOWN = 10


def commit_shards(
    storage: Storage, *, path: str, parts: int | None, renames: bool, compat: bool | None
) -> PrepareReport:
    """Prepare the shards of all writers as a dataset, without scanning them.

    Args:
        storage: The dataset.
        path: Its path or URL.
        parts: Number of writers with a rank; None for those that have begun.
        renames: Rename keys that two writers have written, instead of an error.
        compat: As for :class:`PreparePlan`.

    Raises:
        ConfigError: Writers are missing or did not finish, have written other kinds of samples, or one key twice; or a
            shard has changed, or is of no writer.
    """
    with storage.lock(_LOCK):
        writers = dict(written_parts(storage))
        done = _finished(storage, writers, parts)
        shards = [shard for number in writers for shard in writers[number].shards()]
        if not shards:
            raise ConfigError("no sample was written", at=storage.path(""), hint="write one before the end")
        _check_files(storage, shards)
        remove_left_files(storage, of_running=True)
        repeated = _repeated_keys(storage, shards)
        if repeated and not renames:
            raise ConfigError(
                f"keys were written twice ({len(repeated):,}): {'; '.join(repeated[:3])}",
                at=storage.path(""),
                hint="make keys unique, for example by the rank; or commit with on_repeat='rename'",
            )
        descriptions = {record.description for record in done if record.description is not None}
        if len(descriptions) > 1:
            raise ConfigError(
                "the writers have written samples of different types", at=storage.path(""), hint="name one sample_type"
            )
        storage.flush([shard.name for shard in shards])
        names: dict[str, tuple[str, ...]] = {}
        for shard in shards:
            names[shard.split] = (*names.get(shard.split, ()), shard.name)
        report = run_prepare(
            PreparePlan(
                path=path,
                split=SplitRequest(parts=names),
                files=dict.fromkeys([DATASET_YAML], *descriptions) if descriptions else {},
                compat=compat,
                fix_duplicates=bool(repeated),
            )
        )
    remove_work_folder(storage, WRITING_FOLDER)
    return report


def _finished(storage: Storage, writers: dict[int | None, WrittenShards], parts: int | None) -> list[PartRecord]:
    """Return the records of the ends of all writers.

    Raises:
        ConfigError: Some are missing.
    """
    ends = {number: writer.finished() for number, writer in writers.items()}
    missing = [f"{part_name(number)} did not finish" for number, end in ends.items() if end is None]
    missing += [f"{part_name(number)} did not begin" for number in range(parts or 0) if number not in writers]
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
    known = {shard.name for shard in shards}
    for shard in shards:
        if not shard.is_current(storage):
            raise ConfigError(
                "this shard was removed or changed since it was written",
                at=storage.path(shard.name),
                hint="write it again: run its writer with resume=True",
            )
    for file in [*storage.list("")]:
        if file.name in known or not file.name.endswith(".tar"):
            continue
        if not _OWN_SHARD.fullmatch(file.name):
            raise ConfigError(
                f"{file.name} is of no writer, and would be part of the dataset",
                at=storage.path(""),
                hint="move it away, and commit again",
            )
        storage.remove(file.name)


def _repeated_keys(storage: Storage, shards: Sequence[ShardRecord]) -> list[str]:
    """Return a description of each key that two samples have, with both places."""
    indexes = _Indexes(storage, shards)
    hashes = np.concatenate([indexes.load(number).key_hash for number in range(len(shards))])
    owners = np.repeat(np.arange(len(shards)), [shard.samples for shard in shards])
    order = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    found = []
    for place in equal.tolist():
        value = hashes[order[place]]
        first, second = (int(owners[order[place + side]]) for side in (0, 1))
        keys = indexes.keys(first, value) & indexes.keys(second, value)
        found += [f"{shards[first].name}/{key} and {shards[second].name}/{key}" for key in sorted(keys)]
    return found


class _Indexes:
    """The indexes of shards, from their writers."""

    def __init__(self, storage: Storage, shards: Sequence[ShardRecord]) -> None:
        self._storage = storage
        self._shards = shards
        self._journal = Journal(storage)

    def load(self, number: int) -> ShardIndex:
        name = self._shards[number].name
        return self._journal.load(self._storage.stat(name)) or index_shard(self._storage, name)

    def keys(self, number: int, value: np.uint64) -> set[str]:
        """Return the keys of a hash."""
        index = self.load(number)
        low, high = np.searchsorted(index.key_hash, value, "left"), np.searchsorted(index.key_hash, value, "right")
        data = index.key_bytes.tobytes()
        return {
            decode_name(data[int(index.key_ends[row - 1]) if row else 0 : int(index.key_ends[row])])
            for row in index.key_order[low:high].tolist()
        }
