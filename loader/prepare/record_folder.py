"""Prepare a folder of JSONL or Parquet files: count the samples of each file, split, publish."""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engine import Account
from ..errors import ConfigError, EnergonError, FormatError, StorageError, plural
from ..format.carry import NextValues, carry_to_next_index
from ..format.data_kind import data_kind
from ..format.documents.dataset_files import read_shard_info
from ..format.index.current import read_uuid
from ..format.index.layout import (
    PART_SETS_FILE,
    Layout,
    PartStats,
    ShardEntry,
    encode_struct,
)
from ..format.jsonl.index import IDX_SUFFIX, LINE, build_jsonl_index, open_jsonl_index, prepare_jsonl
from ..format.jsonl.lines import BYTE_ORDER_MARK
from ..format.nv_meta import INDEX_FOLDER, INDEX_SQLITE
from ..format.records.folder_index import (
    ROW_GROUPS_FILE,
    RecordIndex,
    open_record_file,
    open_record_index,
    part_sets_of_files,
)
from ..format.records.record_file import read_record
from ..storage import FileInfo, Storage, commit_of, list_once
from ..version import __version__
from .contents.findings import MAX_JSON_BYTES, Contents, ContentSampler, parse_document
from .plan import PreparePlan, PrepareProgress, PrepareReport, RunningPrepare, ScanHow, SplitRequest
from .scans import raise_scan_errors
from .shards import ShardSearch, find_shards
from .split import plan_split
from .staging import is_written, planned_files
from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class _Counted:
    samples: int
    part_bytes: Mapping[str, int]
    contents: Contents = field(default_factory=Contents)
    row_groups: Sequence[tuple[int, int]] = ()  # samples and bytes of each
    path_only: Mapping[str, int] = field(default_factory=dict)  # column → rows with a path and no bytes


@dataclass(frozen=True, slots=True)
class _Count:
    """Index one file, and count its samples; runs in a worker.

    A JSONL file whose index fits is not read again unless it has changed since the prepare before.
    """

    storage: Storage
    samples_of: Mapping[str, int]  # file → number of samples to inspect
    writes_indexes: bool
    max_json_bytes: int | None

    def __call__(self, shard: FileInfo) -> EnergonError | _Counted:
        try:
            if shard.name.endswith(".jsonl"):
                index = prepare_jsonl if self.writes_indexes else build_jsonl_index
                offsets = index(self.storage, shard.name).offsets
                counted = _Counted(len(offsets) - 1, {LINE: shard.size_bytes})
                return replace(counted, contents=self._inspect(shard, offsets))
            return _counted(self.storage, shard)
        except (FormatError, StorageError) as error:
            return error

    def inspect_again(self, shard: FileInfo) -> Contents:
        if not (shard.name.endswith(".jsonl") and shard.name in self.samples_of):
            return Contents()
        return self._inspect(shard, open_jsonl_index(self.storage, shard.name).offsets)

    def _inspect(self, shard: FileInfo, offsets: npt.NDArray[np.uint64]) -> Contents:
        contents = Contents()
        lines = len(offsets) - 1
        count = min(lines, self.samples_of.get(shard.name, 0))
        large = np.flatnonzero(np.diff(offsets) > (self.max_json_bytes or math.inf))
        if len(large):
            contents.large, contents.large_example = len(large), f"{shard.name}/{large[0]}"
        with self.storage.open(shard.name, shard) as file:
            for line in range(0, lines, max(1, lines // max(1, count))) if count else ():
                start, stop = int(offsets[line]), int(offsets[line + 1])
                document = parse_document(file.read_at(start, stop - start)) if stop - start <= MAX_JSON_BYTES else None
                contents.samples += 1
                if document is not None:
                    contents.add_document(LINE, document, f"{shard.name}/{line}", size_bytes=stop - start)
        contents.shards = min(1, contents.samples)
        return contents


def _counted(storage: Storage, shard: FileInfo) -> _Counted:
    file = open_record_file(storage, shard.name, shard)
    path_only = getattr(file, "path_only", {})  # of Parquet files
    return _Counted(len(file), file.part_bytes(), row_groups=file.row_groups(), path_only=path_only)


class RecordPrepare(RunningPrepare):
    """A prepare of a locked folder of files of numbered samples.

    Only files that have changed are read.
    """

    def __init__(self, workspace: Workspace, plan: PreparePlan, search: ShardSearch, how: ScanHow) -> None:
        _check_plan(plan)
        super().__init__(plan, how)
        self._workspace = workspace
        self._previous = _previous_index(workspace.storage)
        self._start(search)

    def _start(self, search: ShardSearch) -> None:
        storage, plan, how = self._workspace.storage, self._plan, self._how
        self._search = search
        self._known = {} if plan.force or self._previous is None else _unchanged(storage, self._previous, search)
        self._to_scan = [shard for shard in search.shards if shard.name not in self._known]
        self._had_index = {shard.name for shard in self._to_scan if storage.exists(shard.name + IDX_SUFFIX)}
        self._index: RecordIndex | None = None
        self._path_only = Counter[str]()
        self.contents = Contents()
        chosen = ContentSampler.of_shards(search.names, is_far=storage.checks_versions, workers=plan.workers)
        self._task = _Count(storage, chosen.samples_of if how.inspects else {}, not how.is_trial, plan.max_json_bytes)
        self._results = how.engine.run(self._task, self._to_scan)

    def scan(self) -> None:
        counted = self._known | self._count()
        for shard in self._search.shards:
            is_known = shard.name in self._known
            self.contents.merge(self._task.inspect_again(shard) if is_known else counted[shard.name].contents)
            self._path_only.update(counted[shard.name].path_only)
        layout = _layout(self._search, counted, commit_of(self._workspace.storage.url))
        if not layout.samples:
            raise FormatError(
                "the files hold no samples", shard=self._workspace.storage.path(""), hint="check the path of the folder"
            )
        part_sets = part_sets_of_files(layout.shards, [counted[shard.name].part_bytes for shard in layout.shards])
        groups = [group for shard in layout.shards for group in counted[shard.name].row_groups]
        row_groups = np.array(groups, np.int64) if groups else None
        self._index = RecordIndex(self._workspace.storage, "", layout, part_sets=part_sets, row_groups=row_groups)

    def _count(self) -> dict[str, _Counted]:
        counted: dict[str, _Counted] = {}
        errors: dict[int, EnergonError] = {}
        total, samples = len(self._search.shards), 0
        with closing(self._results) as results:
            for position, result in results:
                if isinstance(result, EnergonError):
                    errors[position] = result
                    continue
                counted[self._to_scan[position].name] = result
                samples += result.samples
                if self._how.on_progress is not None:
                    done = total - len(self._to_scan) + len(counted)
                    self._how.on_progress(
                        PrepareProgress(phase="scan", shards_done=done, shards_total=total, samples=samples)
                    )
        raise_scan_errors([errors[position] for position in sorted(errors)])
        return counted

    @property
    def decodes(self) -> bool:
        return self.index.decodes

    @property
    def index(self) -> RecordIndex:
        if self._index is None:
            raise LookupError("the files are not read yet")
        return self._index

    @property
    def account(self) -> Account:
        layout, account = self.index.layout, self._search.account()
        account.take("samples", layout.samples)
        account.take("bytes", sum(shard.size_bytes for shard in layout.shards))
        return account

    def read_parts(self, sample: int, *, max_bytes: int) -> dict[str, Any]:
        storage, shard = self._workspace.storage, self.index.shard_of(sample)
        if shard.name.endswith(".jsonl"):  # it may have no index yet; the first line is not blank
            with storage.open(shard.name, shard.info) as opened:
                line = opened.read_at(0, min(max_bytes, MAX_JSON_BYTES)).partition(b"\n")[0]
            return {LINE: line.removeprefix(BYTE_ORDER_MARK)}
        from ..format.records.row_file import RowFile

        if storage.checks_versions:  # of files in an object store, only the footers are read
            return {}
        file = RowFile(storage, shard.name)
        if max(file.group_bytes) > max_bytes:  # a row is read with its whole row group
            return {}
        with file.open() as opened:
            return read_record(file, opened, sample - shard.first_sample)

    def commit(
        self, request: SplitRequest | None, files: Mapping[str, str], *, is_listed: bool = True
    ) -> PrepareReport:
        workspace, storage, previous = self._workspace, self._workspace.storage, self._previous
        # Count files again that have changed since the scan.
        if not is_listed:
            list_once(storage, "")
            search = find_shards(storage, exclude=self._plan.exclude)
            if search.shards != self._search.shards:
                self._start(search)
                self.scan()
        # Plan the split and the files to write.
        layout = self.index.layout
        split = plan_split(storage, request, self._search.names)
        split_counts = split.counts(layout.shards, storage=storage)
        contents = planned_files(files, split)
        is_same = previous is not None and not self._to_scan and previous.shards == layout.shards
        changed = not (is_same and is_written(storage, contents))
        # Carry columns and filters, and publish if anything has changed.
        earlier = previous.shards if previous else ()
        carried = carry_to_next_index(storage, workspace.work, earlier=earlier, now=layout.shards)
        identity = previous.uuid if previous is not None else ""
        if self._plan.strict:
            self.account.check_complete(at=storage.path(""))
        if changed:
            identity = _publish(workspace, self.index, contents, previous, carried)
        return self._report(
            layout,
            identity,
            changed=changed,
            scanned=len(self._to_scan),
            resumed=0,
            reused=len(self._known),
            compat=False,
            split=split_counts,
            warnings=(*split.warnings, *carried.warnings, *self._lacking()),
        )

    def _lacking(self) -> Iterator[str]:
        for name, rows in self._path_only.items():
            yield (
                f"column {name!r}: at least {plural(rows, 'row has', 'rows have')} a path and no bytes, so training"
                " cannot read them; energon import follows paths, and copies the files"
            )

    def discard(self) -> None:
        """Remove the indexes of JSONL files that had none before."""
        for shard in self._to_scan:
            if shard.name.endswith(".jsonl") and shard.name not in self._had_index:
                self._workspace.storage.remove(shard.name + IDX_SUFFIX)

    def close(self) -> None:
        self._results.close()


def _check_plan(plan: PreparePlan) -> None:
    reason = "these are no tar shards"
    if plan.merge:
        raise ConfigError(f"--merge: {reason}, which have no shares to merge", at=plan.path)
    if plan.compat:
        raise ConfigError(f"--compat: {reason}, so there are no .tar.idx and index.sqlite files to write", at=plan.path)
    if plan.media is not None:
        raise ConfigError(f"{plan.media.flag}: {reason}, and media metadata is collected from tar shards", at=plan.path)
    if plan.fix_duplicates:
        raise ConfigError(f"--fix-duplicates: {reason}; samples are numbered, and numbers are unique", at=plan.path)


def _previous_index(storage: Storage) -> RecordIndex | None:
    """Return the index of the prepare before, if it was of such files and wrote an index."""
    try:
        counts = read_shard_info(storage)
        if counts is None or not data_kind(next(iter(counts), "")).is_file:
            return None
        index = open_record_index(storage, counts)
    except EnergonError:
        return None
    is_ours = index.uuid == read_uuid(storage) and storage.exists(f"{INDEX_FOLDER}/{index.uuid}")
    return index if is_ours else None


def _unchanged(storage: Storage, previous: RecordIndex, search: ShardSearch) -> dict[str, _Counted]:
    """Return the counts of files that have the size and time of change that they had, and a readable index."""
    entries = {entry.name: entry for entry in previous.shards}
    unchanged = {}
    for shard in search.shards:
        entry = entries.get(shard.name)
        if entry is None or not entry.is_version(shard):
            continue
        try:
            counted = _counted(storage, shard)
        except EnergonError:
            continue
        if counted.samples == entry.samples:
            unchanged[shard.name] = counted
    return unchanged


def _layout(search: ShardSearch, counted: Mapping[str, _Counted], commit: str) -> Layout:
    entries, stats = [], dict[str, tuple[int, int]]()
    total = 0
    for shard in search.shards:
        count = counted[shard.name]
        entries.append(ShardEntry.of_file(shard, samples=count.samples, first_sample=total))
        total += count.samples
        for name, size_bytes in count.part_bytes.items():
            parts, bytes_before = stats.get(name, (0, 0))
            stats[name] = parts + count.samples, bytes_before + size_bytes
    return Layout.of_shards(
        entries,
        (
            PartStats(name=name, parts=parts, total_bytes=size, median_bytes=size // max(1, parts))
            for name, (parts, size) in stats.items()
        ),
        prepared_by=f"energon-toolkit {__version__}",
        prepared_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=commit,
    )


def _publish(
    workspace: Workspace,
    index: RecordIndex,
    files: Mapping[str, bytes],
    previous: RecordIndex | None,
    carried: NextValues,
) -> str:
    identity = uuid.uuid4()
    folder = f"{INDEX_FOLDER}/{identity}"
    contents = {
        f"{folder}/{PART_SETS_FILE}": encode_struct(index.part_sets),
        f"{folder}/layout.json": encode_struct(index.layout),
        **files,
    }
    if index.row_groups is not None:
        table = BytesIO()
        np.save(table, index.row_groups)
        contents[f"{folder}/{ROW_GROUPS_FILE}"] = table.getvalue()
    # The folder may have had tar shards before.
    sqlite = [INDEX_SQLITE] if workspace.storage.exists(INDEX_SQLITE) else []
    return workspace.publish(
        identity,
        index.shards,
        renames=carried.renames,
        files=contents,
        previous=None if previous is None else previous.uuid,
        removals=[*carried.removals, *sqlite],
    )
