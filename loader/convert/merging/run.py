"""Merge prepared datasets into a new one, which appears whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from ...accounting import Account
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.tar import tar_index
from ...errors import ConfigError
from ...format.carry import Carried, NewOrder, OldDataset
from ...format.documents.split_config import format_split_config
from ...format.index.current import shard_index_with_offsets
from ...format.index.journal import save_scans
from ...format.index.layout import ShardEntry
from ...format.index.shard_index import ShardIndex
from ...format.media.tables import read_media_filter
from ...format.nv_meta import FOLDER, SPLIT_YAML, TAR_IDX_SUFFIX
from ...format.prepare.plan import PreparePlan, PrepareReport
from ...format.prepare.run import run_prepare
from ...format.tar.idx import tar_idx_bytes
from ...storage import FileInfo, LocalStorage
from ..writing.new_output import NewOutput, check_linkable, place_shard
from .inputs import (
    MergeInput,
    MergePlan,
    MergeReport,
    ProgressCallback,
    merged_files,
    merged_split,
    open_inputs,
)

_SCANS_AT_ONCE = 256


def run_merge(plan: MergePlan, *, on_progress: ProgressCallback | None = None) -> MergeReport:
    """Merge prepared datasets of tar shards into a new one.

    The shards of each input are in a folder of its own, so a sample is ``<input>/<shard>/<key>``. The index is
    assembled from those of the inputs; no shard is scanned, except those in which keys are renamed. Parts of the splits
    with one name become one part. Columns and filters are carried if all inputs have them. The folder gets its name at
    the end, so that a kill at any moment leaves no dataset or the whole.

    Raises:
        IncompleteError: The plan is strict, and values could not be carried.
        ConfigError: The inputs do not fit together, or a setting is invalid.
        FormatError: A shard has changed since it was indexed.
        StorageError: The output is not empty, an input is missing, or a file cannot be written.
    """
    started = time.perf_counter()
    if len(plan.inputs) < 2:
        raise ConfigError("expected at least two datasets to merge", at=plan.output, hint="name them before the output")
    inputs = open_inputs(plan.inputs)
    if plan.shards != "copy":
        for one in inputs:
            check_linkable(one.folder)
    split = merged_split(inputs)
    files = {} if plan.crude else merged_files(inputs)
    # Place the shards, and assemble the index from the indexes of the inputs.
    with NewOutput(plan.output, plan.inputs) as output:
        storage = LocalStorage(output.folder)
        _place(inputs, storage, output.path, plan, on_progress)
        placed = _save_scans(inputs, storage)
        files[SPLIT_YAML] = format_split_config(split).encode()
        for name, data in files.items():
            with storage.create(f"{FOLDER}/{name}") as file:
                file.write(data)
        staged = storage.path("")
        prepare = PreparePlan(path=staged, workers=plan.workers, compat=False, fix_duplicates=plan.rename_keys)
        prepared = run_prepare(prepare)
        folder = folder_at(staged)
        _write_tar_idx(inputs, folder, placed)
        renamed = sum(shard.info != placed[shard.name] for shard in folder.index.shards)
        if plan.compat:
            run_prepare(PreparePlan(path=staged, workers=plan.workers, compat=True))
            folder = folder_at(staged)
        # Carry what all inputs have.
        carried = Carried()
        carried.write(_new_order(inputs, folder.index.shards), storage)
        # Compare the sums before the folder gets its name.
        account = Account()
        account.see("samples", sum(len(one.index) for one in inputs))
        account.see("files", sum(len(one.index.shards) for one in inputs))
        account.use("samples", prepared.samples)
        account.use("files", prepared.shards)
        account.take("bytes", prepared.size_bytes)
        for text in (*_media_warnings(inputs), *carried.warnings):
            account.lose("files", "L115", text)
        account.check()
        if plan.strict:
            account.check_complete(at=output.path)
    return MergeReport(
        output=output.path,
        folders={one.path: one.name for one in inputs},
        samples=prepared.samples,
        shards=prepared.shards,
        size_bytes=prepared.size_bytes,
        split=prepared.split,
        columns=tuple(carried.columns),
        filters=tuple(carried.filters),
        duplicate_keys=prepared.duplicate_keys,
        renamed_shards=renamed,
        warnings=(*_warnings(prepared), *_media_warnings(inputs), *carried.warnings),
        account=account,
        seconds=time.perf_counter() - started,
    )


def _place(
    inputs: Sequence[MergeInput],
    storage: LocalStorage,
    final: str,
    plan: MergePlan,
    on_progress: ProgressCallback | None,
) -> None:
    in_bytes = plan.shards == "copy"
    shards = [shard for one in inputs for shard in one.index.shards]
    done, total = 0, sum(shard.size_bytes for shard in shards) if in_bytes else len(shards)
    for one in inputs:
        for name, shard in one.entries.items():
            place_shard(one.folder, shard, storage.path(name), plan.shards, final=os.path.dirname(f"{final}/{name}"))
            done += shard.size_bytes if in_bytes else 1
            if on_progress is not None:
                on_progress(done, total)
    if in_bytes:
        storage.flush([name for one in inputs for name in one.entries])


def _save_scans(inputs: Sequence[MergeInput], storage: LocalStorage) -> dict[str, FileInfo]:
    """Store the indexes of all shards where a prepare finds them, which then scans none; return the shards' files."""
    files: dict[str, FileInfo] = {}
    scans: list[tuple[FileInfo, ShardIndex]] = []
    for one in inputs:
        for name, entry in one.entries.items():
            files[name] = storage.stat(name)
            scans.append((files[name], shard_index_with_offsets(one.folder.storage, one.index, entry)))
            if len(scans) == _SCANS_AT_ONCE:
                save_scans(storage, scans)
                scans.clear()
    if scans:
        save_scans(storage, scans)
    return files


def _write_tar_idx(inputs: Sequence[MergeInput], folder: Dataset, placed: Mapping[str, FileInfo]) -> None:
    """Write the ``.tar.idx`` files, without which megatron-energon cannot train; not for shards that need a scan."""
    sources = {name: (one, entry) for one in inputs for name, entry in one.entries.items()}
    for shard in tar_index(folder).shards:
        one, entry = sources[shard.name]
        offsets = tar_index(folder).sample_offsets(shard)
        if not len(offsets) and shard.info == placed[shard.name]:
            offsets = shard_index_with_offsets(one.folder.storage, one.index, entry).sample_offsets
        if len(offsets):
            with folder.storage.create(shard.name + TAR_IDX_SUFFIX, durable=False) as file:
                file.write(tar_idx_bytes(offsets))


def _new_order(inputs: Sequence[MergeInput], shards: Sequence[ShardEntry]) -> NewOrder:
    """Return the samples of the inputs in the order of the new dataset's shards."""
    old = [OldDataset(one.path, one.folder.storage, one.index.shards) for one in inputs]
    rows = {
        name: (number, range(shard.first_sample, shard.first_sample + shard.samples))
        for number, one in enumerate(inputs)
        for name, shard in one.entries.items()
    }
    return NewOrder(old, [rows[shard.name] for shard in shards], shards)


def _warnings(prepared: PrepareReport) -> Iterator[str]:
    yield from (warning for warning in prepared.warnings if "repeat the key" not in warning)
    if prepared.duplicate_keys:
        yield (
            f"{prepared.duplicate_keys:,} samples have the bare key of another one: looking up a bare key finds"
            " several, and index.sqlite cannot be written; --rename-keys makes them unique"
        )


def _media_warnings(inputs: Sequence[MergeInput]) -> Iterator[str]:
    if any(read_media_filter(one.folder.storage) is not None for one in inputs):
        yield "media metadata was not carried: energon prepare with --media-metadata-by-… collects it again"
