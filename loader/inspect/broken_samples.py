"""Exclude the samples with findings of a lint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..dataset.dataset import Dataset
from ..dataset.exclusions import exclude_names
from ..dataset.opening import folder_at
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import is_prepared
from ..format.nv_meta import FOLDER
from ..lint.report import (
    LintReport,
    LintRequest as LintRequest,  # noqa: PLC0414 - a name of this package, too
)
from ..lint.rule import Finding


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
    """Return the samples that :func:`exclude_broken_samples` would add, as ``<shard>/<key>``; writes nothing."""
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
