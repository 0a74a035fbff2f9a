"""Which check ``energon lint`` runs: of a folder of shards or files, a JSONL file, or a metadataset with all in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..dataset_path import is_jsonl, is_metadataset, open_parent

if TYPE_CHECKING:
    from loader.format.documents.dataset_config import DatasetConfig
    from loader.format.lint.report import LintProgress, LintReport, SampleCheck

__all__ = ["LintFlags", "is_folder_of_files", "run_lint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFlags:
    """What the flags say; ``split_config`` and ``dataset_config`` are None where none is given."""

    path: str
    level: str
    workers: int
    split_parts: tuple[str, ...] | None
    split_config: str | None
    dataset_config: str | None
    max_findings: int | None
    trust_code: bool


def run_lint(flags: LintFlags, on_progress: Callable[[LintProgress], None]) -> LintReport:
    """Check what the path names.

    Raises:
        ConfigError: There are no such split parts.
        StorageError: A metadataset cannot be read.
    """
    if is_jsonl(flags.path):
        from loader.format.lint.jsonl import lint_jsonl

        storage, name = open_parent(flags.path)
        return lint_jsonl(storage, name, level=flags.level, max_findings=flags.max_findings, on_progress=on_progress)
    make_check = partial(_make_check, trust_code=flags.trust_code)
    if is_metadataset(flags.path):
        from loader.metadataset.lint import MetadatasetLintPlan, lint_metadataset
        from loader.stores.aux_store import open_aux_store

        mix = MetadatasetLintPlan(
            path=flags.path,
            splits=flags.split_parts,
            level=flags.level,
            workers=flags.workers,
            split_config=flags.split_config,
            dataset_config=flags.dataset_config,
            max_findings=flags.max_findings,
            make_sample_check=make_check,
            open_aux=open_aux_store,
        )
        return lint_metadataset(mix, on_progress=on_progress)
    if is_folder_of_files(flags.path):
        from loader.format.lint.media_folder import lint_media_folder
        from loader.storage import open_storage

        check = make_check(None, "") if flags.level == "decode" else None
        return lint_media_folder(
            open_storage(flags.path), check=check, max_findings=flags.max_findings, on_progress=on_progress
        )
    from loader.format.lint.run import LintPlan, lint_dataset
    from loader.format.nv_meta import DATASET_YAML, SPLIT_YAML

    plan = LintPlan(
        path=flags.path,
        level=flags.level,
        workers=flags.workers,
        split_parts=flags.split_parts,
        split_config=flags.split_config or SPLIT_YAML,
        dataset_config=flags.dataset_config or DATASET_YAML,
        max_findings=flags.max_findings,
        make_sample_check=make_check,
    )
    return lint_dataset(plan, on_progress=on_progress)


def is_folder_of_files(path: str) -> bool:
    """Tell whether a folder has media metadata of its files, and is no dataset, nor what is left of one."""
    from loader.format import nv_meta
    from loader.storage import open_storage

    storage = open_storage(path)
    of_datasets = (nv_meta.INFO_JSON, nv_meta.INFO_YAML, nv_meta.INDEX_UUID, f"{nv_meta.FOLDER}/{nv_meta.SPLIT_YAML}")
    return storage.exists(nv_meta.INDEX_SQLITE) and not any(map(storage.exists, of_datasets))


def _make_check(config: DatasetConfig | None, meta_folder: str, *, trust_code: bool) -> SampleCheck:
    from loader.samples.building.check import DecodeCheck

    return DecodeCheck(config, Path(meta_folder), trust_code)
