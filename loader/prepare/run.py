"""Turn a folder of shards into a dataset: find shards, split, reuse, scan, index, publish."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..engine import Account
from ..engine.run import Engine
from ..errors import ConfigError, plural
from ..format.carry import NextValues, carry_to_next_index
from ..format.compat.files import STAGED_SQLITE, stale_compat_files
from ..format.index.current import prefetch_documents
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import Layout, layout_warnings
from ..format.index.publish import STAGING
from ..format.index.sample_bytes import read_sample
from ..format.media.tables import MediaReport
from ..format.nv_meta import INDEX_FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..parts.large_parts import is_limited
from ..storage import RemoteStorage, Storage, list_once, pin_present_commit
from .collect_media import collect_media
from .contents.findings import ContentSampler
from .destination import check_destination
from .fix_duplicates import fix_duplicates, repeated_keys
from .part import check_complete, check_not_planned
from .plan import PreparePlan, PrepareReport, ProgressCallback, RunningPrepare, ScanHow, SplitRequest
from .record_folder import RecordPrepare
from .scans import ShardScans
from .shards import ShardSearch, compressed_warning, find_shards
from .split import plan_split, rename_excluded
from .staging import STAGED_INDEX, PrepareInputs, StagedIndex, is_up_to_date, is_written, planned_files, stage_index
from .workspace import Workspace, open_trial_workspace, open_workspace

_MAX_KNOWN_SETS = 1000  # of an earlier index, that are inspected again


def run_prepare(
    plan: PreparePlan,
    *,
    on_progress: ProgressCallback | None = None,
    engine: Engine | None = None,
    storage: Storage | None = None,
) -> PrepareReport:
    """Prepare a dataset.

    All files appear in ``.nv-meta`` at once, or none does. After an interruption, even a kill, the next run resumes;
    shards that have not changed since the last prepare are not scanned again.

    Args:
        plan: The plan of the prepare.
        on_progress: Called after each shard.
        engine: Scans the shards instead of the worker processes of the plan.
        storage: The dataset of the plan, if it is open; if it was listed just now, it is not listed again.

    Raises:
        IncompleteError: The plan is strict, and something would be left out.
        FormatError: Shards are truncated or damaged; the message names all of them.
        ConfigError: The split or an argument is invalid, or parts of a prepare are missing or not merged.
        WorkerError: A worker process or a task was killed.
        StorageError: No shards, no permission, a full disk, or another prepare runs here.
    """
    with open_prepare(plan, on_progress=on_progress, engine=engine, storage=storage) as prepare:
        prepare.scan()
        return prepare.commit(plan.split, plan.files)


@contextmanager
def open_prepare(
    plan: PreparePlan,
    *,
    on_progress: ProgressCallback | None = None,
    engine: Engine | None = None,
    storage: Storage | None = None,
    search: ShardSearch | None = None,
    inspects: bool = False,
    is_trial: bool = False,
) -> Iterator[RunningPrepare]:
    """Begin a prepare whose split and files are chosen later, when :meth:`RunningPrepare.scan` has seen all samples.

    Without a commit, nothing is published, and the next prepare resumes from the scans.

    Args:
        plan: The plan of the prepare; its split is checked, and its files are ignored.
        on_progress: As for :func:`run_prepare`.
        engine: As for :func:`run_prepare`; if its ``is_stopped`` returns True, another thread has no use for the scan.
        storage: As for :func:`run_prepare`.
        search: Its shards, if they were found just now.
        inspects: Inspect some samples while their shards are scanned.
        is_trial: Only scan, and write nothing next to the shards: there is no commit.

    Raises:
        ConfigError: As for :func:`run_prepare`.
        StorageError: As for :func:`run_prepare`.
    """
    # Restrict the plan to what the place of the dataset allows.
    meta = plan.ref.find_meta()
    if meta.origin != "data":
        plan = _beside(plan)
    if plan.media is not None and plan.compat is False:
        raise ConfigError("media metadata goes into index.sqlite, which compat=False excludes")
    if search is None:
        pin_present_commit(plan.ref.path)
    if storage is None:
        storage = plan.ref.storage(meta)
    if isinstance(storage, RemoteStorage):
        plan = _at_url(plan)
    # Find the shards, if the caller has not, and check the destination and the split before anything is scanned.
    list_once(storage, "")
    search = search or find_shards(storage, exclude=plan.exclude)
    check_destination(storage, plan.ref, shards=search.names, force=plan.force)
    prefetch_documents(storage, [SPLIT_YAML])
    if plan.split is not None:
        plan_split(storage, plan.split, search.names)
    # Begin the scans; a share may be planned meanwhile, unless a lock keeps shares out.
    check = None if plan.merge else partial(check_not_planned, storage, is_known=False)
    with open_trial_workspace(storage) if is_trial else open_workspace(storage, check) as workspace:
        if not (plan.merge or is_trial):
            check_not_planned(storage)
        how = ScanHow(
            engine=engine or Engine(workers=plan.workers),
            on_progress=on_progress,
            mode=plan.scan,
            inspects=inspects,
            is_trial=is_trial,
        )
        kind = RecordPrepare if search.kind.is_file else TarPrepare
        with closing(kind(workspace, plan, search, how)) as prepare:
            yield prepare


def _beside(plan: PreparePlan) -> PreparePlan:
    """Return a plan that writes nothing next to the shards."""
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
    """Return a plan for a dataset in an object store: without compat files, unless the plan requests or needs them."""
    if plan.fix_duplicates:
        raise ConfigError(
            "fix_duplicates replaces shards, which are not written in an object store",
            at=plan.path,
            hint="copy the dataset to this machine, prepare it there, and copy the changed shards back",
        )
    return plan if plan.compat or plan.media is not None else replace(plan, compat=False)


class TarPrepare(RunningPrepare):
    """A prepare of a locked folder of tar shards.

    Args:
        workspace: The dataset, and the folder of its staged files.
        plan: The plan of the prepare.
        search: The shards.
        how: How they are scanned.
    """

    decodes = True

    def __init__(self, workspace: Workspace, plan: PreparePlan, search: ShardSearch, how: ScanHow) -> None:
        plan = replace(plan, compat=False) if how.is_trial else plan
        super().__init__(plan, how)
        self._staged: StagedIndex | None = None
        self._inputs = PrepareInputs(workspace, plan, search)
        self._scans: ShardScans | None = None
        if plan.merge:
            check_complete(workspace.storage, plan.ref, [shard.name for shard in self._inputs.to_scan()])
        if how.is_trial or not is_up_to_date(self._inputs):
            self._scans = self._begin_scans()

    def _begin_scans(self) -> ShardScans:
        inputs, to_scan = self._inputs, self._inputs.to_scan()
        return ShardScans(
            inputs.storage,
            inputs.workspace.work,
            inputs.journal,
            to_scan,
            self._how,
            total=len(inputs.shards),
            resumed=len(inputs.shards) - len(inputs.reused) - len(to_scan),
            stage_tar_idx=self._plan.compat is not False,
            sampler=self._sampler() if self._how.inspects else None,
        )

    def _sampler(self) -> ContentSampler:
        """Return a sampler, which inspects unchanged shards only where a part set has its first sample."""
        inputs, plan = self._inputs, self._plan
        previous = inputs.previous.index
        sets = previous.part_sets.sets if previous and inputs.reused else ()
        return ContentSampler.of_shards(
            inputs.search.names,
            is_far=inputs.storage.checks_versions,
            workers=plan.workers,
            max_json_bytes=plan.max_json_bytes,
            also=[previous.shard_of(each.first_sample).name for each in sets[:_MAX_KNOWN_SETS]] if previous else (),
        )

    def scan(self) -> None:
        if self._scans is not None:
            self._staged, self._scans = stage_index(self._inputs, self._scans), None
            self.contents = self._staged.contents
        elif self._how.inspects and self._staged is None:
            inputs, sampler = self._inputs, self._sampler()
            for position, shard in enumerate(inputs.shards):
                if shard.name in sampler.samples_of:
                    self.contents.merge(sampler.inspect(inputs.storage, shard, inputs.load_index(position)))

    @property
    def index(self) -> DatasetIndex:
        index = self._inputs.previous.index if self._staged is None else self._staged.index
        if index is None:
            raise LookupError("the shards are not scanned yet")
        return index

    @property
    def account(self) -> Account:
        inputs, layout = self._inputs, self.index.layout
        account = inputs.search.account()
        account.take("samples", layout.samples)
        account.take("members", layout.parts)
        left = sum(entry.size_bytes for shard in layout.shards for entry in shard.left_out)
        account.take("bytes", sum(shard.size_bytes for shard in layout.shards) - left)
        for shard in layout.shards:
            for entry in shard.left_out:
                account.see("members", entry.count)
                account.add(entry, path=shard.name)
        account.check()
        return account

    def read_parts(self, sample: int, *, max_bytes: int) -> dict[str, Any]:
        storage, shard = self._inputs.storage, self.index.shard_of(sample)
        locations = [part for part in self.index.parts(sample) if part.size_bytes <= max_bytes or is_limited(part.name)]
        with storage.open(shard.name, shard.info) as file:
            file.expect_few()
            limit = self._plan.max_json_bytes
            return read_sample(file, locations, shard=storage.path(shard.name), max_json_bytes=limit)

    def commit(
        self, request: SplitRequest | None, files: Mapping[str, str], *, is_listed: bool = True
    ) -> PrepareReport:
        workspace, storage = self._inputs.workspace, self._inputs.storage
        # Stage again if shards have changed since the scan.
        if not is_listed:
            list_once(storage, "")
            search = find_shards(storage, exclude=self._plan.exclude)
            if search.shards != self._inputs.search.shards:
                self._restart(search)
        # Stage the index, unless all is there; if keys have to be renamed first, the changed shards are staged again.
        split = plan_split(storage, request, self._inputs.search.names)
        is_done = self._staged is None and self._scans is None and is_written(storage, planned_files(files, split))
        while not is_done:
            staged = self._staged or stage_index(self._inputs, self._scans or self._begin_scans())
            self._staged, self._scans = staged, None
            if not staged.keys_to_fix.samples:
                break
            keys = repeated_keys(staged.keys_to_fix, staged.index.shards)
            renamed = fix_duplicates(storage, self._inputs.search.names, keys)
            split = rename_excluded(storage, split, renamed)
            self._restart(find_shards(storage, exclude=self._plan.exclude))
        if self._plan.strict:
            self.account.check_complete(at=storage.path(""))
        # Publish what was staged; without it, nothing has changed.
        inputs, index, published = self._inputs, self.index, self._staged
        identity, carried = index.uuid, NextValues()
        media: MediaReport | None = None
        counts = split.counts(index.shards, storage=storage)  # a range beyond a shard is refused here
        if published is None:
            workspace.forget_scans()  # they are no longer needed
        else:
            if published.compat_renames and inputs.media is not None:
                path, samples = workspace.work.local_path(STAGED_SQLITE), [shard.samples for shard in index.shards]
                media = collect_media(inputs, inputs.media, path, samples, self._how.on_progress)
            carried = carry_to_next_index(storage, workspace.work, earlier=inputs.previous_shards, now=index.shards)
            identity = _publish(inputs, published, carried, planned_files(files, split))
        # Report.
        scanned, resumed = (published.scanned, published.resumed) if published else (0, 0)
        warnings = [*split.warnings, *_warnings(inputs, index.layout, published)]
        return self._report(
            index.layout,
            identity,
            changed=published is not None,
            scanned=scanned,
            resumed=resumed,
            reused=len(inputs.shards) - scanned - resumed,
            compat=storage.exists(INDEX_SQLITE),
            split=counts,
            warnings=(*warnings, *(media.warnings if media else ()), *carried.warnings),
            media=media,
        )

    def _restart(self, search: ShardSearch) -> None:
        self.close()
        self._inputs.workspace.work.remove(STAGING)
        self._how = replace(self._how, inspects=False)
        self._inputs = PrepareInputs(self._inputs.workspace, self._plan, search)
        self._staged, self._scans = None, self._begin_scans()

    def discard(self) -> None:
        if self._inputs.journal.is_new:
            self._inputs.workspace.forget_scans()

    def close(self) -> None:
        if self._scans is not None:
            self._scans.close()
            self._inputs.journal.close()
            self._scans = None


def _warnings(inputs: PrepareInputs, layout: Layout, staged: StagedIndex | None) -> list[str]:
    warnings = [compressed_warning(inputs.search.compressed)] if inputs.search.compressed else []
    warnings += layout_warnings(layout)
    if staged and staged.compat_warning:
        warnings.append(f"no index.sqlite and .tar.idx files, which other tools need: {staged.compat_warning}")
    if inputs.plan.merge and staged and staged.scanned:
        shards = plural(staged.scanned, "shard")
        warnings.append(f"this merge scanned {shards} that arrived or changed after the shares were planned")
    return warnings


# ------------------------------------------------------------------------------------------------------ publish


def _publish(inputs: PrepareInputs, staged: StagedIndex, carried: NextValues, files: Mapping[str, bytes]) -> str:
    """Commit the staged files and the files of the plan; return the uuid of the new index."""
    identity, previous = uuid.uuid4(), inputs.previous.index
    return inputs.workspace.publish(
        identity,
        staged.index.shards,
        renames=[(STAGED_INDEX, f"{INDEX_FOLDER}/{identity}"), *staged.compat_renames, *carried.renames],
        files=files,
        previous=previous.uuid if previous else None,
        removals=[
            *carried.removals,
            *stale_compat_files(
                inputs.storage,
                earlier=inputs.previous_shards,
                now=[(shard.name, position in inputs.reused) for position, shard in enumerate(inputs.shards)],
                rewritten=bool(staged.compat_renames),
                tar_files=inputs.search.tar_files,
            ),
        ],
    )
