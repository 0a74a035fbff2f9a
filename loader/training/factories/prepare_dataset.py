"""``prepare_dataset`` with the arguments of megatron-energon."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from ...errors import ConfigError, Fault
from ...format.documents.brace_patterns import expand_pattern
from ...format.documents.messages import did_you_mean
from ...format.media.kind import MediaFilter
from ...format.nv_meta import SPLIT_YAML, open_dataset_storage
from ...format.prepare.plan import PreparePlan, PrepareProgress, PrepareReport, SplitRequest
from ...format.prepare.run import run_prepare
from ...format.prepare.shards import find_shards
from ...format.prepare.split import plan_split
from ...progress_bar import progress_bar
from ...storage import Storage
from ...storage.remote import use_storage_options

ProgressFunction = Callable[[Iterator[Any], int], Iterable[Any]]
"""Wraps an iterator of ``total`` steps to show progress: ``lambda steps, total: tqdm(steps, total=total)``."""


def prepare_dataset(
    parent_path: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]] | None = None,
    *,
    split_parts_ratio: Sequence[tuple[str, float]] | None = None,
    split_parts_patterns: Sequence[tuple[str, str]] | None = None,
    split_config: str = SPLIT_YAML,
    shuffle_seed: int | None = 42,
    progress_fn: ProgressFunction | None = None,
    progress: bool = False,
    workers: int = 32,
    tar_index_only: bool = False,
    media_filter: MediaFilter | None = None,
    fix_duplicates: bool = False,
    meta_folder: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
) -> PrepareReport:
    """Index and split shards as ``energon prepare`` does, but write no ``dataset.yaml``.

    Args:
        parent_path: Folder or URL of the dataset.
        paths: The shards, relative to the folder; braces are expanded. Other shards of the folder are excluded. All
            shards by default.
        split_parts_ratio: Parts of the split, and their shares.
        split_parts_patterns: Parts of the split, and patterns of their shards. By default the split is kept.
        split_config: Name of the split file.
        shuffle_seed: Seed to shuffle the shards with before they are split by a ratio; None does not shuffle.
        progress_fn: Progress display, one step for each shard.
        progress: Draw a progress bar on standard error, unless ``progress_fn`` is given.
        workers: Maximum number of scanning processes.
        tar_index_only: Write no split.
        media_filter: Parts to collect media metadata of.
        fix_duplicates: Rename keys that occur in several shards, in copies of these shards.
        meta_folder: Folder to use instead of ``.nv-meta``, for folders that cannot be written. Nothing is written next
            to the shards then, so it conflicts with ``media_filter`` and ``fix_duplicates``.
        storage_options: Endpoint, region and limits of an object store.
        executor: Scans the shards instead of processes of this machine, in tasks of up to 64 shards: a
            ``ProcessPoolExecutor``, ``client.get_executor()`` of a Dask cluster, and so on. It is not shut down.

    Raises:
        ConfigError: Shards are missing, or the split is invalid.
        FormatError: Shards are damaged.
        StorageError: A folder is missing or cannot be written.
        WorkerError: A scanning process or a task was killed.
    """
    use_storage_options(parent_path, storage_options)
    storage = open_dataset_storage(parent_path, meta_folder)
    present = [shard.name for shard in find_shards(storage).shards]
    wanted = frozenset(present) if paths is None else _wanted(storage, paths, present)
    split = None if tar_index_only else _split_request(split_parts_ratio, split_parts_patterns, shuffle_seed)
    files = {}
    if split is not None and split_config != SPLIT_YAML:
        text = plan_split(storage, split, [name for name in present if name in wanted]).text
        files, split = {split_config: text or ""}, None
    excluded = [re.escape(name) for name in present if name not in wanted]
    plan = PreparePlan(
        path=os.fspath(parent_path),
        workers=max(1, min(workers, os.cpu_count() or 1, len(wanted))),
        exclude=f"^(?:{'|'.join(excluded)})$" if excluded else None,
        split=split,
        files=files,
        media=media_filter,
        fix_duplicates=fix_duplicates,
        meta_folder=None if meta_folder is None else os.fspath(meta_folder),
    )
    if progress and progress_fn is None:
        progress_fn = progress_bar
    steps = _Steps(progress_fn, len(wanted))
    report = run_prepare(plan, on_progress=steps.advance, executor=executor)
    steps.finish()
    return report


def _split_request(
    ratio: Sequence[tuple[str, float]] | None, patterns: Sequence[tuple[str, str]] | None, shuffle_seed: int | None
) -> SplitRequest | None:
    if ratio is not None and patterns is not None:
        raise ConfigError("expected split_parts_ratio or split_parts_patterns, found both", hint="pass one of them")
    if ratio is not None:
        return SplitRequest(ratio=dict(ratio), shuffle_seed=shuffle_seed)
    return None if patterns is None else SplitRequest(patterns=tuple(patterns))


def _wanted(storage: Storage, paths: Sequence[str | os.PathLike[str]], present: Sequence[str]) -> frozenset[str]:
    """Return the names of the listed shards.

    Raises:
        ConfigError: Some do not exist, or none is listed.
    """
    root = storage.path("")
    wanted: dict[str, None] = {}
    for path in paths:
        text = os.fspath(path)
        for name in [text] if text in present else expand_pattern(text):
            wanted[os.path.relpath(os.path.join(root, name), root)] = None
    faults = [
        Fault(place=name, message=f"there is no such shard{did_you_mean(name, present)}")
        for name in wanted
        if name not in present
    ]
    if faults or not wanted:
        raise ConfigError("" if faults else "expected the paths of shards, found none", file=root, faults=faults)
    return frozenset(wanted)


class _Steps:
    """Advance a caller's progress display by one step for each finished shard."""

    def __init__(self, progress_fn: ProgressFunction | None, total: int) -> None:
        self._steps = None if progress_fn is None else iter(progress_fn(iter(range(total)), total))
        self._taken = 0

    def advance(self, now: PrepareProgress) -> None:
        if self._steps is None or now.phase != "scan":
            return
        while self._taken < now.shards_done:
            next(self._steps, None)
            self._taken += 1

    def finish(self) -> None:
        """Consume the remaining steps, so that the progress display ends."""
        for _ in self._steps or ():
            pass
