"""Stage the index of a dataset: reuse what has not changed, scan shards in workers, and meanwhile write columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from ..errors import FormatError
from ..format.compat.files import CompatFiles, can_have_compat_files, first_unwritable_folder
from ..format.index.current import PreviousIndex, read_uuid
from ..format.index.dataset_index import DatasetIndex
from ..format.index.journal import StoredScans
from ..format.index.layout import ShardEntry
from ..format.index.publish import STAGING
from ..format.index.shard_index import ShardIndex, index_shard
from ..format.index.writer import DuplicateKeys, IndexWriter
from ..format.media.tables import read_media_filter
from ..format.nv_meta import FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..format.tar.header import has_tar_idx
from ..storage import FileInfo, Storage, commit_of, flush_files
from ..version import __version__
from .contents.findings import Contents
from .plan import PreparePlan
from .scans import ShardScans
from .shards import ShardSearch
from .split import PlannedSplit
from .workspace import Workspace


class PrepareInputs:
    """Everything that a prepare knows before it scans a shard."""

    def __init__(self, workspace: Workspace, plan: PreparePlan, search: ShardSearch) -> None:
        self.workspace = workspace
        self.storage = workspace.storage
        self.plan = plan
        self.search = search
        self.shards = search.shards
        self.previous = PreviousIndex(workspace.storage)
        self.previous_shards = self.previous.index.shards if self.previous.index else ()
        # The filter by which the tables of the present index.sqlite were collected, and the one for the next tables.
        self.recorded_media = read_media_filter(workspace.storage)
        self.media = plan.media or self.recorded_media
        self.journal = StoredScans(workspace.work)  # the scans of an interrupted prepare, and of this one
        # The entries of unchanged shards in the previous index, by shard number; the other shards are scanned.
        self.reused = unchanged_shards(plan, search.shards, self.previous)

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
    if plan.force or previous.index is None or not previous.index.has_part_sets:
        return unchanged  # without part sets, an earlier version has not recorded which members are left out
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
    return plan.compat is None and not can_have_compat_files(storage, index)


def reusable_compat_files(inputs: PrepareInputs) -> frozenset[int]:
    """Return the numbers of reused shards that have compat files under the same number."""
    return frozenset(
        position
        for position, entry in inputs.reused.items()
        if entry in inputs.previous_shards[position : position + 1]
        and has_tar_idx(inputs.storage, entry.name, entry.samples)
    )


STAGED_INDEX = f"{STAGING}/index"  # the folder of the index until the commit renames it


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedIndex:
    """The index of a prepare and its compat files, in the staging folder."""

    index: DatasetIndex
    keys_to_fix: DuplicateKeys  # to be renamed before anything is published
    compat_renames: list[tuple[str, str]]  # which publish the compat files; empty if these cannot express the index
    compat_warning: str | None  # reason for writing no compat files
    contents: Contents  # of some samples
    scanned: int  # number of shards
    resumed: int  # number of shards that an interrupted run had scanned


def stage_index(inputs: PrepareInputs, scans: ShardScans) -> StagedIndex:
    """Wait for the scans of the shards, and write the index and the compat files."""
    work, compat = inputs.workspace.work, None
    compat_renames: list[tuple[str, str]] = []
    with closing(inputs.journal), closing(scans), ExitStack() as stack:
        # Write the shards in order, each as soon as it is scanned.
        if inputs.plan.compat is not False:
            compat = stack.enter_context(closing(_open_compat_files(inputs)))
        with IndexWriter(work, STAGED_INDEX, kept=inputs.previous.index, durable=False) as writer:
            contents = _write_shards(inputs, scans, writer, compat)
            index, duplicates = writer.finish(
                prepared_by=f"energon-toolkit {__version__}", commit=commit_of(inputs.storage.url)
            )
        flush_files(work, [STAGED_INDEX])  # while another thread writes index.sqlite
        # Refuse shards without samples, and complete the compat files.
        if not len(index):
            raise FormatError(
                "the shards hold no samples; expected members named key.part",
                shard=inputs.storage.path(""),
                hint="list the members of a shard: tar tf SHARD | head",
            )
        keys_to_fix = duplicates if inputs.plan.fix_duplicates else DuplicateKeys()
        if compat and not keys_to_fix.samples:
            compat_renames = compat.finish(duplicates, inputs.load_index)
    return StagedIndex(
        index=index,
        keys_to_fix=keys_to_fix,
        compat_renames=compat_renames,
        compat_warning=compat.reason if compat else None,
        contents=contents,
        scanned=scans.to_scan,
        resumed=scans.resumed,
    )


def _write_shards(
    inputs: PrepareInputs, scans: ShardScans, writer: IndexWriter, compat: CompatFiles | None
) -> Contents:
    """Write the rows of all shards; return what samples of them contain."""
    all_contents, sampler = Contents(), scans.sampler
    for position, shard in enumerate(inputs.shards):
        # Take the rows of an unchanged shard from the previous index, and scan another one.
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
        # Add what its samples contain; a shard that an earlier run has scanned is inspected here.
        if sampler is not None and (position not in inputs.reused or shard.name in sampler.samples_of):
            contents = scans.contents.pop(shard.name, None)
            if contents is None:
                index = inputs.load_index(position) if index is None else index
                contents = sampler.inspect(inputs.storage, shard, index)
            if contents.samples:
                all_contents.merge(contents)
    return all_contents


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
