"""Lint what a path names: a folder of shards or media files, a file, or a metadataset and its datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..accounting.large_parts import CHECKED_JSON_BYTES
from ..dataset.dataset import Dataset
from ..dataset.exclusions.change import exclude_names
from ..dataset.opening import folder_at
from ..dataset.unprepared.tar_folder import is_prepared, is_unprepared
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.providers import data_path, is_metadataset, is_record_file, is_tar_file
from ..format.media.metadata import is_media_folder
from ..format.nv_meta import FOLDER, INDEX_UUID, SPLIT_YAML
from ..lint.report import LintPlan, LintProgress, LintReport, SampleCheck
from ..lint.rule import Finding
from ..storage import EPath, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """A path to lint, and how.

    Attributes:
        ref: A dataset, file of samples, folder of media files, metadataset, or tar files that are not prepared. A split
            file or dataset file replaces those that a metadataset names; ``trust_code`` runs code of the data.
        level: ``"headers"``, ``"bytes"`` or ``"decode"``.
        workers: Number of worker processes; at least 1.
        split_parts: Only these split parts, or splits of a metadataset.
        max_findings: Stop at this number of findings.
        max_json_bytes: Larger JSON parts are not parsed, a finding; None for no limit.
    """

    ref: DatasetRef
    level: str = "decode"
    workers: int = 1
    split_parts: tuple[str, ...] | None = None
    max_findings: int | None = None
    max_json_bytes: int | None = CHECKED_JSON_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedSamples:
    """Number of samples that were excluded, and the split file that excludes them."""

    samples: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionAdvice:
    """A dataset whose broken samples can be excluded.

    Attributes:
        path: The dataset.
        samples: Number of samples that :func:`exclude_broken` would exclude.
        refusal: Why it would refuse to; None if it would not.
    """

    path: str
    samples: int
    refusal: EnergonError | None = None


def run_lint(request: LintRequest, on_progress: Callable[[LintProgress], None] | None = None) -> LintReport:
    """Lint what a path names.

    Raises:
        ConfigError: The split parts do not exist.
        StorageError: A metadataset cannot be read.
    """
    ref = request.ref
    make_check = partial(_make_check, trust_code=ref.trust_code, max_json_bytes=request.max_json_bytes)
    plan = LintPlan(
        ref=ref,
        level=request.level,
        workers=request.workers,
        split_parts=request.split_parts,
        max_findings=request.max_findings,
        make_sample_check=make_check,
    )
    if is_metadataset(ref.path):
        from ..metadataset.lint import lint_metadataset
        from ..stores.aux_store import open_aux_store

        return lint_metadataset(plan, open_aux=open_aux_store, on_progress=on_progress)
    from ..lint.media_folder import lint_media_folder
    from ..lint.run import lint_dataset, lint_file, lint_tars

    linter = lint_dataset
    if is_record_file(data_path(ref.path)):
        linter = lint_file
    elif is_tar_file(ref.path):
        linter = lint_tars
    elif is_only_media_folder(storage := ref.storage()):
        linter = lint_media_folder
    elif is_unprepared(storage, ref):
        linter = lint_tars
    return linter(plan, on_progress=on_progress)


def is_only_media_folder(storage: Storage) -> bool:
    """Return True for a media folder without remains of a dataset of shards, which lint would have to report."""
    remains = (INDEX_UUID, f"{FOLDER}/{SPLIT_YAML}")
    return is_media_folder(storage) and not any(map(storage.exists, remains))


def exclude_broken(ref: DatasetRef | str, report: LintReport) -> ExcludedSamples:
    """Exclude the samples with findings from the split of a dataset.

    Args:
        ref: The dataset.
        report: A report of :func:`run_lint` about it.

    Raises:
        ConfigError: The split file is invalid.
        StorageError: It cannot be written.
    """
    if not any(finding.is_sample for finding in report.findings):
        return ExcludedSamples(samples=0, file=DatasetRef.of(ref).split_file)

    dataset = folder_at(ref)
    samples = exclude_broken_samples(dataset, report.findings, checked=report.samples)
    return ExcludedSamples(samples=samples, file=dataset.documents.split_file or dataset.ref.split_file)


def exclusion_advice(request: LintRequest, report: LintReport) -> list[ExclusionAdvice]:
    """Return the datasets with samples to exclude, without those to prepare again first.

    Args:
        request: The request of the lint.
        report: Its report.
    """
    by_dataset: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_dataset.setdefault(finding.dataset or request.ref.path, []).append(finding)
    advice = []
    for path, findings in by_dataset.items():
        broken = {(finding.shard, finding.key) for finding in findings if finding.is_sample}
        if not broken or any(finding.blocks_exclusion for finding in findings):
            continue
        checked = report.samples if report.datasets == 1 else None
        if request.ref.path != path and not is_prepared(DatasetRef(path).storage()):
            continue  # its metadataset names another folder for .nv-meta
        refusal = _refusal(replace(request.ref, path=path), findings, checked)
        advice.append(ExclusionAdvice(path=path, samples=len(broken), refusal=refusal))
    return advice


def _refusal(ref: DatasetRef, findings: Sequence[Finding], checked: int | None) -> EnergonError | None:
    try:
        samples_to_exclude(folder_at(ref), findings, checked=checked)
    except EnergonError as error:
        return error
    return None


def _make_check(
    config: DatasetConfig | None, folder: str, *, trust_code: bool, max_json_bytes: int | None
) -> SampleCheck:
    from ..samples.building.check import DecodeCheck

    return DecodeCheck(config, EPath(folder), trust_code, max_json_bytes=max_json_bytes)


def exclude_broken_samples(dataset: Dataset, findings: Iterable[Finding], *, checked: int | None = None) -> int:
    """Add broken and incomplete samples to ``exclude`` in the dataset's split file, after copying it to ``….bak``.

    Args:
        dataset: The dataset; its ``split_file`` is changed, and stays YAML or JSON.
        findings: Findings of a lint of this dataset.
        checked: Number of samples that the lint checked; None for all.

    Returns:
        Number of samples that were added.

    Raises:
        ConfigError: The split file is missing or invalid, or no checked sample would remain.
    """
    added = samples_to_exclude(dataset, findings, checked=checked)
    entry = exclude_names(dataset, added, reason="energon lint --fix") if added else None
    return 0 if entry is None else entry.samples


def samples_to_exclude(dataset: Dataset, findings: Iterable[Finding], *, checked: int | None = None) -> list[str]:
    """Return the samples that :func:`exclude_broken_samples` would add, as ``<shard>/<key>``; writes nothing.

    Raises:
        ConfigError: The split file is missing or invalid, or no checked sample would remain.
    """
    storage = dataset.storage
    known = set(dataset.documents.required_split().exclude)
    broken = [f"{finding.shard}/{finding.key}" for finding in findings if finding.is_sample]
    added = [sample for sample in dict.fromkeys(broken) if sample not in known]
    if not added:
        return []  # without reading the index, which may be damaged
    checked = len(dataset.index) if checked is None else min(checked, len(dataset.index))
    if 1 < checked <= len(added):
        which = "sample of the dataset" if checked == len(dataset.index) else "checked sample"
        raise ConfigError(
            f"every {which} is broken, so excluding them would leave none",
            file=storage.path(FOLDER),
            hint="check the findings: one fault in dataset.yaml, such as a wrong field_map, breaks all samples",
        )
    return added
