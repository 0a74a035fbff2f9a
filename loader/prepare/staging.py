"""Stage the index of a dataset: reuse what has not changed, scan shards in workers, and meanwhile write columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Self

from ..errors import FormatError
from ..format.compat.files import CompatFiles, first_unwritable_folder, why_inexpressible
from ..format.contents.findings import Contents, ContentSampler
from ..format.index.current import PreviousIndex, read_uuid
from ..format.index.dataset_index import DatasetIndex
from ..format.index.journal import StoredScans
from ..format.index.layout import Layout, ShardEntry
from ..format.index.publish import STAGING
from ..format.index.shard_index import ShardIndex, index_shard
from ..format.index.writer import DuplicateKeys, IndexWriter
from ..format.media.tables import (
    read_media_filter,
)
from ..format.nv_meta import FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..format.tar.header import has_tar_idx
from ..storage import FileInfo, Storage
from ..version import __version__
from .plan import PreparePlan, ScanHow
from .scans import ShardScans
from .shards import ShardSearch
from .split import PlannedSplit
from .workspace import Workspace


class PrepareInputs:
    """Everything that a prepare knows before it scans a shard."""

    def __init__(self, workspace: Workspace, plan: PreparePlan, search: ShardSearch) -> None:
        self.workspace = workspace
        self.plan = plan
        self.search = search
        self.previous = PreviousIndex(workspace.storage)
        # The filter by which the tables of the present index.sqlite were collected, and the one for the next tables.
        self.recorded_media = read_media_filter(workspace.storage)
        self.media = plan.media or self.recorded_media
        self.journal = StoredScans(workspace.work)  # the scans of an interrupted prepare, and of this one
        # The entries of unchanged shards in the previous index, by shard number; the other shards are scanned.
        self.reused = {} if plan.force else unchanged_shards(plan, search.shards, self.previous)

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
            for position, shard in enumerate(self.shards)
            if position not in self.reused and not (resumes and self.journal.has(shard))
        ]

    def load_index(self, position: int) -> ShardIndex:
        """Return the index of a reused or scanned shard."""
        if position in self.reused:
            return self.previous.load(self.reused[position])
        shard = self.shards[position]
        index = self.journal.load(shard)
        # A power cut may have damaged the journal.
        return index_shard(self.storage, shard.name) if index is None else index


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
    for position, shard in enumerate(shards):
        entry = previous.entry(shard)
        if entry and (plan.compat is False or entry.scattered or previous.has_offsets(entry)):
            unchanged[position] = entry
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
        position
        for position, entry in inputs.reused.items()
        if inputs.previous.number(entry.name) == position and has_tar_idx(inputs.storage, entry.name, entry.samples)
    )


STAGED_INDEX = f"{STAGING}/index"  # the folder of the index until the commit renames it


class IndexStaging:
    """Scans the shards of a prepare and stages their index. The workers start at once; :meth:`run` does the rest."""

    # These are set by run().
    layout: Layout
    index: DatasetIndex  # where it is staged
    keys_to_fix: DuplicateKeys  # to be renamed before anything is published
    compat_renames: list[tuple[str, str]]  # which publish the compat files; empty if these cannot express the index
    compat_warning: str | None  # reason for writing no compat files

    def __init__(self, inputs: PrepareInputs, how: ScanHow, *, sampler: ContentSampler | None = None) -> None:
        self._inputs = inputs
        self._sampler = sampler
        self._has_compat = inputs.plan.compat is not False and not how.is_trial
        to_scan = inputs.to_scan()
        self.scanned = len(to_scan)
        self.resumed = len(inputs.shards) - len(inputs.reused) - len(to_scan)
        self._scans = ShardScans(
            inputs.storage,
            inputs.workspace.work,
            inputs.journal,
            to_scan,
            how,
            total=len(inputs.shards),
            resumed=self.resumed,
            stage_tar_idx=self._has_compat,
            sampler=sampler,
        )
        self._chosen = sampler.samples_of if sampler is not None else {}
        self.contents = Contents()  # of some samples; complete after run()
        self._contents: dict[int, Contents] = {}

    def run(self) -> Self:
        """Wait for the scans, and write the index and the compat files."""
        inputs, work = self._inputs, self._inputs.workspace.work
        with ExitStack() as stack:
            stack.enter_context(closing(self))
            # Write the shards in order, each as soon as it is scanned.
            compat = _open_compat_files(inputs) if self._has_compat else None
            if compat:
                stack.enter_context(closing(compat))
            writer = IndexWriter(work, STAGED_INDEX, kept=inputs.previous.index, durable=False)
            with writer:
                self._write_shards(writer, compat)
            self.layout, duplicates = writer.finish(prepared_by=f"energon-toolkit {__version__}")
            work.flush([STAGED_INDEX])  # while another thread writes index.sqlite
            # Refuse shards without samples, and complete the compat files.
            if not self.layout.samples:
                raise FormatError(
                    "the shards hold no samples; expected members named key.part",
                    shard=inputs.storage.path(""),
                    hint="list the members of a shard: tar tf SHARD | head",
                )
            self.keys_to_fix = duplicates if inputs.plan.fix_duplicates else DuplicateKeys()
            self.compat_renames = []
            if compat and not self.keys_to_fix.samples:
                self.compat_renames = compat.finish(duplicates, inputs.load_index)
        # Merge what samples contain, in the order of the shards.
        for position in sorted(self._contents):
            self.contents.merge(self._contents[position])
        self._contents.clear()
        self.index = DatasetIndex(work, "staged", folder=STAGED_INDEX)
        self.compat_warning = compat.reason if compat else None
        return self

    def close(self) -> None:
        self._scans.close()
        self._inputs.journal.close()

    def _write_shards(self, writer: IndexWriter, compat: CompatFiles | None) -> None:
        inputs, scans = self._inputs, self._scans
        for position, shard in enumerate(inputs.shards):
            index = None
            if position in inputs.reused:
                writer.keep(inputs.reused[position])
            else:
                scans.wait_for(shard)
                index = inputs.load_index(position)
                writer.add(shard, index)
            if compat and compat.needs(position):
                index = inputs.load_index(position) if index is None else index
                compat.add(position, index, is_staged=shard.name in scans.staged)
            is_inspected = position not in inputs.reused or shard.name in self._chosen
            if self._sampler is not None and is_inspected:
                contents = scans.contents.pop(shard.name, None)
                if contents is None:  # an earlier run has scanned the shard
                    index = inputs.load_index(position) if index is None else index
                    contents = self._sampler.inspect(inputs.storage, shard, index)
                if contents.samples:
                    self._contents[position] = contents


def _open_compat_files(inputs: PrepareInputs) -> CompatFiles:
    plan, storage, shards = inputs.plan, inputs.storage, inputs.shards
    unchanged = reusable_compat_files(inputs) if storage.exists(INDEX_SQLITE) else frozenset()
    compat = CompatFiles(
        storage,
        inputs.workspace.work,
        required_by="--compat" if plan.compat else plan.media.flag if plan.media else None,
        shards=shards,
        # Replacing most rows of a large file takes longer than writing a new file.
        unchanged=unchanged if 2 * len(unchanged) > len(shards) else None,
        gone=max(0, len(inputs.previous_shards) - len(shards)),
    )
    folder = first_unwritable_folder(
        storage, [shard.name for position, shard in enumerate(shards) if compat.needs(position)]
    )
    if folder is not None:
        compat.give_up(f"no permission to write .tar.idx files in {storage.path(folder)}")
    return compat
