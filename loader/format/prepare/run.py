"""Turn a folder of shards into a dataset: find shards, split, reuse, scan, index, publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

from ...accounting import Account
from ...errors import ConfigError, FormatError
from ...storage import RemoteStorage, Storage
from ...version import __version__
from ..cluster.complete import check_complete
from ..cluster.part_plan import check_not_planned
from ..columns.carry import CarriedColumns, carry_columns
from ..compat.files import STAGED_SQLITE, CompatFiles, first_unwritable_folder, stale_compat_files
from ..filters.carry import carry_filters
from ..index.current import prefetch_documents, stale_indexes
from ..index.layout import Layout, layout_warnings
from ..index.publish import STAGING, stage_files
from ..index.writer import DuplicateKeys, IndexWriter
from ..media.tables import MediaReport
from ..nv_meta import INDEX_FOLDER, INDEX_SQLITE, INDEX_UUID, INFO_JSON, SPLIT_YAML, open_dataset_storage
from .fix_duplicates import fix_duplicates, repeated_keys
from .inputs import PrepareInputs, is_up_to_date, read_inputs, reusable_compat_files
from .meta_folder import check_meta_folder
from .plan import PreparePlan, PrepareProgress, PrepareReport, ProgressCallback
from .record_folder import prepare_record_folder
from .scans import ShardScans
from .shards import ShardSearch, compressed_warning, find_shards
from .split import PlannedSplit, plan_split, rename_excluded
from .workspace import Workspace, open_workspace

__all__ = ["run_prepare"]


def run_prepare(
    plan: PreparePlan,
    *,
    on_progress: ProgressCallback | None = None,
    executor: Executor | None = None,
    storage: Storage | None = None,
) -> PrepareReport:
    """Prepare a dataset.

    All files appear in ``.nv-meta`` at once, or none does. After an interruption, even a kill, the next run resumes;
    shards that have not changed since the last prepare are not scanned again.

    Args:
        plan: The plan of the prepare.
        on_progress: Called after each shard.
        executor: Scans the shards instead of worker processes; its tasks are pickled with the path of the dataset.
        storage: The dataset of the plan, if it is open; if it was listed just now, it is not listed again.

    Raises:
        IncompleteError: The plan is strict, and something would be left out.
        FormatError: Shards are truncated or damaged; the message names all of them.
        ConfigError: The split or an argument is invalid, or parts of a prepare are missing or not merged.
        WorkerError: A worker process or a task was killed.
        StorageError: No shards, no permission, a full disk, or another prepare runs here.
    """
    if plan.meta_folder is not None:
        plan = _beside(plan)
    if plan.media is not None and plan.compat is False:
        raise ConfigError("media metadata goes into index.sqlite, which compat=False excludes")
    if storage is None:
        storage = open_dataset_storage(plan.path, plan.meta_folder)
    if isinstance(storage, RemoteStorage):
        plan = _at_url(plan)
    storage.list_once("")
    search = find_shards(storage, exclude=plan.exclude)
    if plan.meta_folder is not None:
        check_meta_folder(storage, shards=frozenset(search.names), force=plan.force)
    prefetch_documents(storage, [SPLIT_YAML])
    split = plan_split(storage, plan.split, search.names)
    with open_workspace(storage) as workspace:
        if workspace.has_recovered:  # it may have replaced split.yaml
            split = plan_split(storage, plan.split, search.names)
        if not plan.merge:
            check_not_planned(storage)
        if search.format is not None:
            return prepare_record_folder(workspace, plan, search, split, on_progress=on_progress, executor=executor)
        return _prepare(workspace, plan, search, split, on_progress=on_progress, executor=executor)


def _beside(plan: PreparePlan) -> PreparePlan:
    """Return a plan that writes nothing next to the shards.

    Raises:
        ConfigError: The plan requires files next to the shards.
    """
    needed = {
        "compat=True": plan.compat is True,
        "fix_duplicates": plan.fix_duplicates,
        "media": plan.media is not None,
    }
    for name, is_needed in needed.items():
        if is_needed:
            raise ConfigError(
                f"{name} writes files next to the shards, which a meta folder leaves as they are",
                at=plan.path,
                hint="drop one of the two",
            )
    return replace(plan, compat=False)


def _at_url(plan: PreparePlan) -> PreparePlan:
    """Return a plan for a dataset in an object store: without compat files, unless the plan requests them.

    Raises:
        ConfigError: The plan requires what is done only on this machine.
    """
    if plan.fix_duplicates:
        raise ConfigError(
            "fix_duplicates replaces shards, which are not written in an object store",
            at=plan.path,
            hint="copy the dataset to this machine, prepare it there, and copy the changed shards back",
        )
    if plan.media is not None and plan.compat is None:
        raise ConfigError(
            "media metadata goes into index.sqlite, which a dataset in an object store has only with compat=True",
            at=plan.path,
            hint="add --compat",
        )
    return plan if plan.compat else replace(plan, compat=False)


def _prepare(
    workspace: Workspace,
    plan: PreparePlan,
    search: ShardSearch,
    split: PlannedSplit,
    *,
    on_progress: ProgressCallback | None,
    executor: Executor | None,
) -> PrepareReport:
    """Prepare a locked dataset: read inputs, stage files, publish them; again after keys were renamed."""
    started, storage = time.perf_counter(), workspace.storage
    has_parts = plan.merge
    while True:
        inputs = read_inputs(workspace, plan, search, split)
        index = inputs.previous.index
        if index is not None and is_up_to_date(inputs):
            workspace.forget_scans()  # they are no longer needed
            counts = split.counts(index.layout.shards, storage=storage)
            return _report(inputs, index.layout, index.uuid, counts, staged=None, media=None, started=started)
        if has_parts:
            check_complete(storage, [shard.name for shard in inputs.to_scan()])
            has_parts = False
        staged = _stage_files(inputs, on_progress, executor)
        if not staged.keys_to_fix.samples:
            if plan.strict:
                _account(inputs, staged.layout).check_complete(at=storage.path(""))
            counts = split.counts(staged.layout.shards, storage=storage)  # a range beyond a shard is refused here
            media = _collect_media(inputs, staged, on_progress)
            columns = _carry_columns(inputs, staged.layout)
            identity = _publish(inputs, staged, columns)
            report = _report(inputs, staged.layout, identity, counts, staged=staged, media=media, started=started)
            return replace(report, warnings=(*report.warnings, *columns.warnings))
        keys = repeated_keys(staged.keys_to_fix, staged.layout.shards)
        renamed = fix_duplicates(storage, search.names, keys).renamed
        split = rename_excluded(storage, split, renamed)
        workspace.work.remove(STAGING)
        search = find_shards(storage, exclude=plan.exclude)


# --------------------------------------------------------------------------------------------------------- scan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """The staged files of a prepare: a whole index, and the compat files if they can express it.

    Attributes:
        layout: Layout of the index.
        keys_to_fix: Duplicate keys to rename before anything is published.
        compat_renames: Renames that publish the compat files; empty without compat files.
        compat_warning: Reason for writing no compat files.
        scanned: Number of scanned shards.
        resumed: Number of shards that an interrupted run had scanned.
    """

    layout: Layout
    keys_to_fix: DuplicateKeys
    compat_renames: list[tuple[str, str]]
    compat_warning: str | None
    scanned: int
    resumed: int


def _stage_files(inputs: PrepareInputs, on_progress: ProgressCallback | None, executor: Executor | None) -> _Staged:
    """Scan shards in workers, and meanwhile write the columns of the index and the compat files."""
    work, plan, shards = inputs.workspace.work, inputs.plan, inputs.shards
    journal, to_scan = inputs.journal, inputs.to_scan()
    resumed = len(shards) - len(inputs.reused) - len(to_scan)
    if on_progress is not None and resumed:
        done = len(shards) - len(to_scan)
        on_progress(
            PrepareProgress(phase="scan", shards_done=done, shards_total=len(shards), samples=0, resumed=resumed)
        )
    with ExitStack() as stack:
        stack.enter_context(closing(journal))
        scans = ShardScans(
            inputs.storage,
            work,
            journal,
            to_scan,
            stage_tar_idx=plan.compat is not False,
            total=len(shards),
            workers=plan.workers,
            on_progress=on_progress,
            mode=plan.scan,
            executor=executor,
        )
        stack.enter_context(closing(scans))
        compat = _open_compat_files(inputs)
        if compat:
            stack.enter_context(closing(compat))
        writer = IndexWriter(work, f"{STAGING}/index", kept=inputs.previous.rows, durable=False)
        with writer:
            _write_shards(inputs, scans, writer, compat)
        layout, duplicates = writer.finish(prepared_by=f"energon-toolkit {__version__}")
        work.flush([f"{STAGING}/index"])  # while another thread writes index.sqlite
        if not layout.samples:
            raise FormatError(
                "the shards hold no samples; expected members named key.part",
                shard=inputs.storage.path(""),
                hint="list the members of a shard: tar tf SHARD | head",
            )
        keys_to_fix = duplicates if plan.fix_duplicates else DuplicateKeys()
        renames = compat.finish(duplicates, inputs.load_index) if compat and not keys_to_fix.samples else []
    return _Staged(
        layout=layout,
        keys_to_fix=keys_to_fix,
        compat_renames=renames,
        compat_warning=compat.reason if compat else None,
        scanned=len(to_scan),
        resumed=resumed,
    )


def _open_compat_files(inputs: PrepareInputs) -> CompatFiles | None:
    plan, storage, shards = inputs.plan, inputs.storage, inputs.shards
    if plan.compat is False:
        return None
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


def _write_shards(inputs: PrepareInputs, scans: ShardScans, writer: IndexWriter, compat: CompatFiles | None) -> None:
    """Write all shards in order, each as soon as it is scanned."""
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


# ------------------------------------------------------------------------------------------------------ publish


def _collect_media(inputs: PrepareInputs, staged: _Staged, on_progress: ProgressCallback | None) -> MediaReport | None:
    """Add media metadata to the staged ``index.sqlite``; return None without such a file."""
    if not staged.compat_renames:
        return None
    return inputs.media.collect(
        inputs.workspace.work.local_path(STAGED_SQLITE),
        inputs.shards,
        inputs.journal,
        samples=[shard.samples for shard in staged.layout.shards],
        reused=inputs.reused,
        previous=inputs.previous,
        workers=inputs.plan.workers,
        on_progress=on_progress,
    )


def _carry_columns(inputs: PrepareInputs, layout: Layout) -> CarriedColumns:
    earlier = inputs.previous.index.shards if inputs.previous.index else ()
    storage, work = inputs.storage, inputs.workspace.work
    columns = carry_columns(storage, work, earlier=earlier, now=layout.shards)
    return columns + carry_filters(storage, work, earlier=earlier, now=layout.shards)


def _publish(inputs: PrepareInputs, staged: _Staged, columns: CarriedColumns) -> str:
    """Commit the staged files and those of the plan; return the uuid of the new index."""
    storage, work, identity = inputs.storage, inputs.workspace.work, uuid.uuid4()
    renames = [(f"{STAGING}/index", f"{INDEX_FOLDER}/{identity}"), *staged.compat_renames, *columns.renames]
    files = {
        **inputs.files,
        INDEX_UUID: str(identity).encode(),
        INFO_JSON: inputs.workspace.shard_info({shard.name: shard.samples for shard in staged.layout.shards}, identity),
    }
    renames += stage_files(work, files)
    # Running jobs may still read the previous index; older ones are removed.
    previous = inputs.previous.index.uuid if inputs.previous.index else None
    removals = [*stale_indexes(storage, kept=previous), *columns.removals]
    removals += stale_compat_files(
        storage,
        earlier=inputs.previous_shards,
        now=[(shard.name, number in inputs.reused) for number, shard in enumerate(inputs.shards)],
        rewritten=bool(staged.compat_renames),
        tar_files=inputs.search.tar_files,
    )
    # No lock keeps parts out of an object store.
    check = None if inputs.plan.merge else partial(check_not_planned, storage, is_known=False)
    inputs.workspace.commit(renames, removals, check)
    return str(identity)


def _report(
    inputs: PrepareInputs,
    layout: Layout,
    identity: str,
    split_counts: Mapping[str, tuple[int, int]],
    *,
    staged: _Staged | None,
    media: MediaReport | None,
    started: float,
) -> PrepareReport:
    """Build the report of a prepare; without staged files nothing has changed."""
    scanned, resumed = (staged.scanned, staged.resumed) if staged else (0, 0)
    warnings = list(inputs.split.warnings)
    if inputs.search.compressed:
        warnings.append(compressed_warning(inputs.search.compressed))
    warnings += layout_warnings(layout)
    if staged and staged.compat_warning:
        warnings.append(f"no index.sqlite and .tar.idx files, which other tools need: {staged.compat_warning}")
    if inputs.plan.merge and scanned:
        shards = "1 shard" if scanned == 1 else f"{scanned:,} shards"
        warnings.append(f"this merge scanned {shards} that arrived or changed after the parts were planned")
    if media:
        warnings += media.warnings
    return PrepareReport(
        changed=staged is not None,
        uuid=identity,
        samples=layout.samples,
        parts=layout.parts,
        shards=len(layout.shards),
        size_bytes=sum(shard.size_bytes for shard in layout.shards),
        scanned=scanned,
        resumed=resumed,
        reused=len(inputs.shards) - scanned - resumed,
        duplicate_keys=layout.duplicate_keys,
        compat=inputs.storage.exists(INDEX_SQLITE),
        split=split_counts,
        warnings=tuple(warnings),
        seconds=time.perf_counter() - started,
        media=media,
        account=_account(inputs, layout),
    )


def _account(inputs: PrepareInputs, layout: Layout) -> Account:
    """Return what became of the files of the folder, and of the members of the shards."""
    account = inputs.search.account.copy()
    account.take("samples", layout.samples)
    account.take("members", layout.parts)
    for shard in layout.shards:
        for entry in shard.left_out:
            account.see("members", entry.count)
            account.add(entry, path=shard.name)
    account.check()
    return account
