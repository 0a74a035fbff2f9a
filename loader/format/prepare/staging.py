"""Stage the index of a dataset: reuse what has not changed, scan shards in workers, and meanwhile write columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from ...errors import FormatError
from ...storage import FileInfo, Storage
from ...version import __version__
from ..compat.files import CompatFiles, first_unwritable_folder, why_inexpressible
from ..contents.findings import Contents, ContentSampler
from ..index.current import PreviousIndex, read_uuid
from ..index.dataset_index import DatasetIndex
from ..index.journal import Journal
from ..index.layout import Layout, ShardEntry
from ..index.publish import STAGING
from ..index.shard_index import ShardIndex, index_shard
from ..index.writer import DuplicateKeys, IndexWriter
from ..media.kind import MediaFilter
from ..media.tables import (
    read_media_filter,
)
from ..nv_meta import FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..tar.idx import has_tar_idx
from .plan import PreparePlan, ScanHow
from .scans import ShardScans
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


STAGED_INDEX = f"{STAGING}/index"  # the folder of the index until the commit renames it


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedIndex:
    """The staged files of a prepare: a whole index, and the compat files if they can express it."""

    layout: Layout  # layout of the index
    index: DatasetIndex  # the index where it is staged
    contents: Contents = field(default_factory=Contents)  # what some samples contain; nothing without a sampler
    keys_to_fix: DuplicateKeys  # duplicate keys to rename before anything is published
    compat_renames: list[tuple[str, str]]  # renames that publish the compat files; empty without compat files
    compat_warning: str | None  # reason for writing no compat files
    scanned: int  # number of scanned shards
    resumed: int  # number of shards that an interrupted run had scanned


class IndexStaging:
    """Scans the shards of a prepare and stages their index. The workers start at once; :meth:`run` does the rest.

    Args:
        sampler: Inspects samples; None inspects none.
    """

    def __init__(self, inputs: PrepareInputs, how: ScanHow, *, sampler: ContentSampler | None = None) -> None:
        self._inputs = inputs
        self._sampler = sampler
        self._has_compat = inputs.plan.compat is not False and not how.is_trial
        to_scan = inputs.to_scan()
        self._to_scan = len(to_scan)
        self._resumed = len(inputs.shards) - len(inputs.reused) - len(to_scan)
        self._scans = ShardScans(
            inputs.storage,
            inputs.workspace.work,
            inputs.journal,
            to_scan,
            how,
            total=len(inputs.shards),
            resumed=self._resumed,
            stage_tar_idx=self._has_compat,
            sampler=sampler,
        )
        self._chosen = sampler.samples_of if sampler is not None else {}
        self._contents: dict[int, Contents] = {}

    def run(self) -> StagedIndex:
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
            layout, duplicates = writer.finish(prepared_by=f"energon-toolkit {__version__}")
            work.flush([STAGED_INDEX])  # while another thread writes index.sqlite
            # Refuse shards without samples, and complete the compat files.
            if not layout.samples:
                raise FormatError(
                    "the shards hold no samples; expected members named key.part",
                    shard=inputs.storage.path(""),
                    hint="list the members of a shard: tar tf SHARD | head",
                )
            keys_to_fix = duplicates if inputs.plan.fix_duplicates else DuplicateKeys()
            renames = compat.finish(duplicates, inputs.load_index) if compat and not keys_to_fix.samples else []
        # Merge what samples contain, in the order of the shards.
        contents = Contents()
        for number in sorted(self._contents):
            contents.merge(self._contents[number])
        return StagedIndex(
            layout=layout,
            index=DatasetIndex(work, "staged", folder=STAGED_INDEX),
            contents=contents,
            keys_to_fix=keys_to_fix,
            compat_renames=renames,
            compat_warning=compat.reason if compat else None,
            scanned=self._to_scan,
            resumed=self._resumed,
        )

    def close(self) -> None:
        self._scans.close()
        self._inputs.journal.close()

    def _write_shards(self, writer: IndexWriter, compat: CompatFiles | None) -> None:
        inputs, scans = self._inputs, self._scans
        for number, shard in enumerate(inputs.shards):
            index = None
            if number in inputs.reused:
                writer.keep(inputs.reused[number])
            else:
                scans.wait_for(shard)
                index = inputs.load_index(number)
                writer.add(shard, index)
            if compat and compat.needs(number):
                index = inputs.load_index(number) if index is None else index
                compat.add(number, index, is_staged=scans.has_staged(shard))
            is_inspected = number not in inputs.reused or shard.name in self._chosen
            if self._sampler is not None and is_inspected:
                contents = scans.take_contents(shard)
                if contents is None:  # an earlier run has scanned the shard
                    index = inputs.load_index(number) if index is None else index
                    contents = self._sampler.inspect(inputs.storage, shard, index)
                if contents.samples:
                    self._contents[number] = contents


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
        storage, [shard.name for number, shard in enumerate(shards) if compat.needs(number)]
    )
    if folder is not None:
        compat.give_up(f"no permission to write .tar.idx files in {storage.path(folder)}")
    return compat
