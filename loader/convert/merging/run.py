"""Merge prepared datasets into a new one, which appears whole or not at all."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence

from ...accounting import Account
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.tar import tar_index
from ...errors import ConfigError, StorageError
from ...format.carry import COLUMNS, FILTERS, NewOrder, OldDataset, carried_values
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
from ...storage import FileInfo, LocalStorage, is_url, raise_storage_error
from ..exporting.new_output import NewFolder
from ..writing.outside import check_outside
from .inputs import (
    MergeInput,
    MergePlan,
    MergeReport,
    ProgressCallback,
    ShardSource,
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

    Args:
        plan: The plan of the merge.
        on_progress: Called after each shard.

    Raises:
        IncompleteError: The plan is strict, and values could not be carried.
        ConfigError: The inputs do not fit together, or a setting is invalid.
        FormatError: A shard has changed since it was indexed.
        StorageError: The output is not empty, an input is missing, or a file cannot be written.
    """
    started = time.perf_counter()
    if len(plan.inputs) < 2:
        raise ConfigError("expected at least two datasets to merge", at=plan.output, hint="name them before the output")
    final = _check_output(plan.output)
    check_outside(plan.output, plan.inputs)
    inputs = open_inputs(plan.inputs)
    check_reachable(inputs, plan.shards)
    split = merged_split(inputs)
    files = {} if plan.crude else merged_files(inputs)
    # Place the shards, and assemble the index from the indexes of the inputs.
    with NewFolder(final) as folder_of_output:
        storage = LocalStorage(folder_of_output.folder)
        _place(inputs, storage, final, plan, on_progress)
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
        carried, warnings = _carry(inputs, storage, folder.index.shards)
        # Compare the sums before the folder gets its name.
        account = Account()
        account.see("samples", sum(len(one.index) for one in inputs))
        account.see("files", sum(len(one.index.shards) for one in inputs))
        account.use("samples", prepared.samples)
        account.use("files", prepared.shards)
        account.take("bytes", prepared.size_bytes)
        for text in (*_media_warnings(inputs), *warnings):
            account.lose("files", "L115", text)
        account.check()
        if plan.strict:
            account.check_complete(at=final)
    return MergeReport(
        output=final,
        folders={one.path: one.name for one in inputs},
        samples=prepared.samples,
        shards=prepared.shards,
        size_bytes=prepared.size_bytes,
        split=prepared.split,
        columns=tuple(carried[COLUMNS.word]),
        filters=tuple(carried[FILTERS.word]),
        duplicate_keys=prepared.duplicate_keys,
        renamed_shards=renamed,
        warnings=(*_warnings(prepared), *_media_warnings(inputs), *warnings),
        account=account,
        seconds=time.perf_counter() - started,
    )


def _check_output(output: str) -> str:
    """Return the absolute path of the output.

    Raises:
        ConfigError: It is a URL.
        StorageError: It is not a new or empty folder.
    """
    if is_url(output):
        raise ConfigError(
            "a merge writes to a folder of this machine", at=output, hint="merge here, then copy the folder there"
        )
    final = os.path.abspath(output)
    if os.path.lexists(final):
        if not os.path.isdir(final):
            raise StorageError("expected a new or empty folder, found a file", path=final, hint="name another folder")
        first = next(iter(sorted(os.listdir(final))), None)
        if first is not None:
            raise StorageError(
                f"expected a new or empty folder, found {first} in it", path=final, hint="name another folder"
            )
    return final


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
    for size_bytes in place_shards(inputs, storage, final, plan.shards):
        done += size_bytes if in_bytes else 1
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


def _carry(
    inputs: Sequence[MergeInput], storage: LocalStorage, shards: Sequence[ShardEntry]
) -> tuple[dict[str, list[str]], list[str]]:
    """Write the columns and filters that all inputs have; return their names, and a warning for each other one."""
    old = [OldDataset(one.path, one.folder.storage, one.index.shards) for one in inputs]
    rows = {
        name: (number, range(shard.first_sample, shard.first_sample + shard.samples))
        for number, one in enumerate(inputs)
        for name, shard in one.entries.items()
    }
    carried: dict[str, list[str]] = {COLUMNS.word: [], FILTERS.word: []}
    warnings = []
    for values in carried_values(NewOrder(old, [rows[shard.name] for shard in shards], shards)):
        if isinstance(values.write, str):
            warnings.append(values.warning)
        else:
            values.write(storage, values.stem)
            carried[values.kind.word].append(values.name)
    return carried, warnings


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


_COPY_BYTES = 16 << 20


def check_reachable(inputs: Sequence[MergeInput], how: ShardSource) -> None:
    """Raise a ``ConfigError`` if links to the shards of an input are impossible."""
    for one in inputs:
        if how != "copy" and not isinstance(one.folder.storage, LocalStorage):
            raise ConfigError(
                "files of an object store cannot be linked to",
                at=one.path,
                hint="copy them with --copy, or mix the datasets in a metadataset, which copies nothing",
            )


def place_shards(inputs: Sequence[MergeInput], target: LocalStorage, final: str, how: ShardSource) -> Iterator[int]:
    """Create all shards in a folder, and yield the size of each in bytes after it is done.

    Args:
        inputs: The datasets.
        target: The folder.
        final: Path that the folder will have, from which relative links lead.
        how: By symbolic links, hard links, or copies.

    Raises:
        FormatError: A shard has changed since it was indexed.
        StorageError: A shard is missing, or cannot be linked to or copied.
    """
    for one in inputs:
        made: set[str] = set()
        for shard in one.index.shards:
            _check_unchanged(one, shard)
            path, folder = target.path(one.new_name(shard.name)), os.path.dirname(one.new_name(shard.name))
            if folder not in made:
                os.makedirs(target.path(folder), exist_ok=True)
                made.add(folder)
            if how == "copy":
                _copy(one, shard, target)
            else:
                source = os.path.realpath(one.folder.storage.path(shard.name))
                _link(source, path, os.path.join(final, folder), how)
            yield shard.size_bytes


def _check_unchanged(one: MergeInput, shard: ShardEntry) -> None:
    storage = one.folder.storage
    if isinstance(storage, LocalStorage) and storage.stat(shard.name) != shard.info:
        one.folder.open_shard(shard).close()  # compares headers: another time alone is no fault


def _link(source: str, path: str, final_folder: str, how: ShardSource) -> None:
    try:
        if how == "link":
            os.link(source, path)
        else:
            os.symlink(os.path.relpath(source, os.path.realpath(final_folder)), path)
    except OSError as error:
        if how == "link" and error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise StorageError(
                f"this file cannot have a hard link in the new dataset: {os.strerror(error.errno)}",
                path=source,
                hint="merge with --reference (symbolic links) or --copy",
            ) from error
        raise_storage_error("create this link", path, error)


def _copy(one: MergeInput, shard: ShardEntry, target: LocalStorage) -> None:
    """Copy a shard; its time of change is the time of the copy."""
    storage, name = one.folder.storage, one.new_name(shard.name)
    with storage.open(shard.name, shard.info) as source, target.create(name, durable=False) as file:
        done = 0
        while done < shard.size_bytes:
            data = source.read_at(done, min(_COPY_BYTES, shard.size_bytes - done))
            if not data:
                raise StorageError(
                    f"this shard ended {shard.size_bytes - done} bytes early while it was copied",
                    path=storage.path(shard.name),
                    hint="run energon lint on the dataset",
                )
            file.write(data)
            done += len(data)
