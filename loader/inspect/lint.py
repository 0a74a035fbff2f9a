"""Lint what a path names: a folder of shards or media files, a file of samples, or a metadataset and its datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.providers import data_path, is_metadataset, is_record_file
from ..format.lint.report import LintProgress, LintReport, SampleCheck
from ..format.media.metadata import is_media_folder
from ..format.nv_meta import DATASET_YAML, FOLDER, INDEX_UUID, SPLIT_YAML
from ..storage import Storage, open_parent, open_storage

__all__ = ["ExcludedSamples", "LintRequest", "exclude_broken", "is_only_media_folder", "run_lint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """A path to lint, and how.

    Attributes:
        path: A dataset, file of samples, folder of media files or metadataset.
        level: ``"headers"``, ``"bytes"`` or ``"decode"``.
        workers: Number of worker processes; at least 1.
        split_parts: Only these split parts, or splits of a metadataset.
        split_config: Name of the split file; None: ``split.yaml``, or the one that a metadataset names.
        dataset_config: Name of the dataset file; None: ``dataset.yaml``, or the one that a metadataset names.
        max_findings: Stop at this number of findings.
        trust_code: Run code that comes with the data.
    """

    path: str
    level: str = "decode"
    workers: int = 1
    split_parts: tuple[str, ...] | None = None
    split_config: str | None = None
    dataset_config: str | None = None
    max_findings: int | None = None
    trust_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedSamples:
    """Number of samples that were excluded, and the split file that excludes them."""

    samples: int
    file: str


def run_lint(request: LintRequest, on_progress: Callable[[LintProgress], None] | None = None) -> LintReport:
    """Lint what a path names.

    Raises:
        ConfigError: The split parts do not exist.
        StorageError: A metadataset cannot be read.
    """
    path = data_path(request.path)
    if is_record_file(path):
        from ..format.lint.record_file import lint_record_file

        storage, name = open_parent(path)
        return lint_record_file(
            storage, name, level=request.level, max_findings=request.max_findings, on_progress=on_progress
        )
    make_check = partial(_make_check, trust_code=request.trust_code)
    if is_metadataset(request.path):
        from ..metadataset.lint import MetadatasetLintPlan, lint_metadataset
        from ..stores.aux_store import open_aux_store

        mix = MetadatasetLintPlan(
            path=request.path,
            splits=request.split_parts,
            level=request.level,
            workers=request.workers,
            split_config=request.split_config,
            dataset_config=request.dataset_config,
            max_findings=request.max_findings,
            make_sample_check=make_check,
            open_aux=open_aux_store,
        )
        return lint_metadataset(mix, on_progress=on_progress)
    storage = open_storage(request.path)
    if is_only_media_folder(storage):
        from ..format.lint.media_folder import lint_media_folder

        check = make_check(None, "") if request.level == "decode" else None
        return lint_media_folder(storage, check=check, max_findings=request.max_findings, on_progress=on_progress)
    from ..format.lint.run import LintPlan, lint_dataset

    plan = LintPlan(
        path=request.path,
        level=request.level,
        workers=request.workers,
        split_parts=request.split_parts,
        split_config=request.split_config or SPLIT_YAML,
        dataset_config=request.dataset_config or DATASET_YAML,
        max_findings=request.max_findings,
        make_sample_check=make_check,
    )
    return lint_dataset(plan, on_progress=on_progress)


def is_only_media_folder(storage: Storage) -> bool:
    """Return True for a media folder without remains of a dataset of shards, which lint would have to report."""
    remains = (INDEX_UUID, f"{FOLDER}/{SPLIT_YAML}")
    return is_media_folder(storage) and not any(map(storage.exists, remains))


def exclude_broken(path: str, report: LintReport, *, split_config: str) -> ExcludedSamples:
    """Exclude the samples with findings from the split of a dataset.

    Args:
        path: The dataset.
        report: A report of :func:`run_lint` about it.
        split_config: Name of the split file.

    Raises:
        ConfigError: The split file is invalid.
        StorageError: It cannot be written.
    """
    if not any(finding.is_sample for finding in report.findings):
        return ExcludedSamples(samples=0, file=split_config)
    from ..format.dataset_folder import DatasetFolder
    from ..format.lint.run import exclude_broken_samples

    dataset = DatasetFolder(path, split_config=split_config)
    samples = exclude_broken_samples(dataset, report.findings)
    return ExcludedSamples(samples=samples, file=dataset.split_file or split_config)


def _make_check(config: DatasetConfig | None, meta_folder: str, *, trust_code: bool) -> SampleCheck:
    from ..samples.building.check import DecodeCheck

    return DecodeCheck(config, Path(meta_folder), trust_code)
