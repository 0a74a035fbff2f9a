"""Stage the index of a dataset: scan shards in workers, and meanwhile write columns and compat files."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from ...errors import FormatError
from ...version import __version__
from ..compat.files import CompatFiles, first_unwritable_folder
from ..contents.findings import Contents, ContentSampler
from ..index.dataset_index import DatasetIndex
from ..index.layout import Layout
from ..index.publish import STAGING
from ..index.writer import DuplicateKeys, IndexWriter
from ..nv_meta import INDEX_SQLITE
from .inputs import PrepareInputs, reusable_compat_files
from .plan import ScanHow
from .scans import ShardScans

STAGED_INDEX = f"{STAGING}/index"
"""The folder of the index until the commit renames it."""


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
            compat = _open_compat_files(inputs) if self._has_compat else None
            if compat:
                stack.enter_context(closing(compat))
            writer = IndexWriter(work, STAGED_INDEX, kept=inputs.previous.index, durable=False)
            with writer:
                self._write_shards(writer, compat)
            layout, duplicates = writer.finish(prepared_by=f"energon-toolkit {__version__}")
            work.flush([STAGED_INDEX])  # while another thread writes index.sqlite
            if not layout.samples:
                raise FormatError(
                    "the shards hold no samples; expected members named key.part",
                    shard=inputs.storage.path(""),
                    hint="list the members of a shard: tar tf SHARD | head",
                )
            keys_to_fix = duplicates if inputs.plan.fix_duplicates else DuplicateKeys()
            renames = compat.finish(duplicates, inputs.load_index) if compat and not keys_to_fix.samples else []
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
        """End the workers."""
        self._scans.close()
        self._inputs.journal.close()

    def _write_shards(self, writer: IndexWriter, compat: CompatFiles | None) -> None:
        """Write all shards in order, each as soon as it is scanned."""
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
