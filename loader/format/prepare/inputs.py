"""Inputs of a prepare: shards, split, and the parts of the previous index that can be reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...storage import FileInfo, Storage
from ..compat.files import why_inexpressible
from ..index.current import PreviousIndex, read_uuid
from ..index.journal import Journal
from ..index.layout import ShardEntry
from ..index.shard_index import ShardIndex, index_shard
from ..media.kind import MediaFilter
from ..media.tables import (
    read_media_filter,
)
from ..nv_meta import FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..tar.idx import has_tar_idx
from .plan import PreparePlan
from .shards import ShardSearch
from .split import PlannedSplit
from .workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareInputs:
    """Everything that a prepare knows before it scans a shard."""

    workspace: Workspace  # the dataset, and the folder of its staged files
    plan: PreparePlan  # the plan of the prepare
    search: ShardSearch  # the shards of the folder
    media: MediaFilter | None  # parts to collect media metadata of; None for none
    recorded_media: MediaFilter | None  # filter by which the tables of the present ``index.sqlite`` were collected
    previous: PreviousIndex  # the index of the prepare before
    journal: Journal  # the scans of an interrupted prepare, and of this one
    # entries of unchanged shards in that index, by shard number; the other shards are scanned
    reused: Mapping[int, ShardEntry]

    @property
    def storage(self) -> Storage:
        return self.workspace.storage

    @property
    def shards(self) -> tuple[FileInfo, ...]:
        return self.search.shards

    @property
    def previous_shards(self) -> tuple[ShardEntry, ...]:
        return self.previous.index.shards if self.previous.index else ()

    def to_scan(self) -> list[FileInfo]:
        """Return the shards that are not reused, and that neither an interrupted run nor a part has scanned."""
        resumes = self.plan.merge or not self.plan.force
        return [
            shard
            for number, shard in enumerate(self.shards)
            if number not in self.reused and not (resumes and self.journal.has(shard))
        ]

    def load_index(self, number: int) -> ShardIndex:
        """Return the index of a reused or scanned shard."""
        if number in self.reused:
            return self.previous.load(self.reused[number])
        shard = self.shards[number]
        index = self.journal.load(shard)
        # A power cut may have damaged the journal.
        return index_shard(self.storage, shard.name) if index is None else index


def read_inputs(workspace: Workspace, plan: PreparePlan, search: ShardSearch) -> PrepareInputs:
    """Read the previous index, and choose the shards that need no scan."""
    storage = workspace.storage
    previous, recorded = PreviousIndex(storage), read_media_filter(storage)
    return PrepareInputs(
        workspace=workspace,
        plan=plan,
        search=search,
        media=plan.media or recorded,
        recorded_media=recorded,
        previous=previous,
        journal=Journal(workspace.work),
        reused={} if plan.force else unchanged_shards(plan, search.shards, previous),
    )


def planned_files(files: Mapping[str, str], split: PlannedSplit) -> dict[str, bytes]:
    """Return the files to write in addition to the index, path → contents.

    Args:
        files: Name in ``.nv-meta`` → text.
    """
    contents = {f"{FOLDER}/{name}": text.encode() for name, text in files.items()}
    if split.text is not None:
        contents[f"{FOLDER}/{SPLIT_YAML}"] = split.text.encode()
    return contents


def is_written(storage: Storage, files: Mapping[str, bytes]) -> bool:
    """Return True if all files exist with these contents."""
    return all(storage.exists(name) and storage.read(name) == data for name, data in files.items())


def unchanged_shards(plan: PreparePlan, shards: Sequence[FileInfo], previous: PreviousIndex) -> dict[int, ShardEntry]:
    """Return the entries of shards that need no scan, by number."""
    unchanged: dict[int, ShardEntry] = {}
    if previous.index is not None and not previous.index.has_part_sets:
        return unchanged  # an earlier version has not recorded which members are left out
    for number, shard in enumerate(shards):
        entry = previous.entry(shard)
        if entry and (plan.compat is False or entry.scattered or previous.has_offsets(entry)):
            unchanged[number] = entry
    return unchanged


def is_up_to_date(inputs: PrepareInputs) -> bool:
    """Return True if a prepare would write the same index."""
    plan, storage, previous = inputs.plan, inputs.storage, inputs.previous
    index = previous.index
    if index is None or plan.force or not index.has_part_sets or read_uuid(storage) != index.uuid:
        return False
    if index.shards != tuple(previous.entry(shard) for shard in inputs.shards):
        return False
    if plan.fix_duplicates and index.layout.duplicate_keys:
        return False
    if inputs.media != inputs.recorded_media:
        return False
    if plan.compat is False:
        return True
    if storage.exists(INDEX_SQLITE):
        return len(reusable_compat_files(inputs)) == len(inputs.shards)
    return plan.compat is None and why_inexpressible(storage, index) is not None


def reusable_compat_files(inputs: PrepareInputs) -> frozenset[int]:
    """Return the numbers of reused shards that have compat files under the same number."""
    return frozenset(
        number
        for number, entry in inputs.reused.items()
        if inputs.previous.number(entry.name) == number and has_tar_idx(inputs.storage, entry.name, entry.samples)
    )
