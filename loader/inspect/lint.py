"""Lint what a path names: a folder of shards or media files, a file, or a metadataset and its datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from ..accounting import Rule, RuleGroup, reasons
from ..dataset.dataset import Dataset
from ..dataset.exclusions.change import exclude_names
from ..dataset.opening import folder_at
from ..dataset.unprepared.tar_index import is_prepared, is_unprepared
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import did_you_mean
from ..format.documents.providers import data_path, format_of, is_metadataset, is_record_file, is_tar_file
from ..format.media.metadata import is_media_folder
from ..format.nv_meta import FOLDER, INDEX_UUID, SPLIT_YAML
from ..lint.metadata import DatasetFiles, Split
from ..lint.record_file import ColumnFiles, JsonlFiles
from ..lint.report import (
    LintPlan,
    LintProgress,
    LintReport,
    LintRequest as LintRequest,  # noqa: PLC0414 - a name of this package, too
    SampleCheck,
)
from ..lint.rule import RECORD_FILES, Finding, Kind, LintRules
from ..lint.run import lint_dataset, lint_file, lint_tars
from ..lint.samples import Samples
from ..lint.shard import Shards
from ..storage import EPath


def lint_rules() -> tuple[type[LintRules], ...]:
    """Return the groups of the rules of lint, in the order of their codes."""
    from ..lint.media_folder import MediaFolders
    from ..metadataset.lint import Metadatasets

    return (DatasetFiles, Shards, Split, Samples, JsonlFiles, ColumnFiles, Metadatasets, MediaFolders)


def rule_groups() -> tuple[RuleGroup, ...]:
    """Return the rules of lint, then the reasons of accounts."""
    return (*(RuleGroup(group.title, group.note, group.rules) for group in lint_rules()), reasons())


def find_rule(code: str) -> Rule:
    """Return the rule of a code, in any case."""
    rules = {rule.code: rule for group in rule_groups() for rule in group.rules}
    rule_of_code = rules.get(code.upper())
    if rule_of_code is not None:
        return rule_of_code
    same_number = next((known for known in rules if known[1:] == code[1:]), None)
    near = f"; did you mean {same_number!r}?" if same_number else did_you_mean(code.upper(), rules)
    raise ConfigError(f"there is no code {code!r}{near}", hint="energon rule lists all codes")


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
    make_check = partial(_make_check, trust_code=request.ref.trust_code, max_json_bytes=request.max_json_bytes)
    options = {field.name: getattr(request, field.name) for field in fields(request)}
    plan = LintPlan(**options, make_sample_check=make_check)
    kind = kind_at(request.ref)
    if kind == "metadatasets":
        from ..metadataset.lint import lint_metadataset
        from ..stores.aux_store import open_aux_store

        return lint_metadataset(plan, open_aux=open_aux_store, on_progress=on_progress)
    if kind == "folders of media files":
        from ..lint.media_folder import lint_media_folder

        return lint_media_folder(plan, on_progress=on_progress)
    linters = {"unprepared tar files": lint_tars, **dict.fromkeys(RECORD_FILES.values(), lint_file)}
    return linters.get(kind, lint_dataset)(plan, on_progress=on_progress)


def kind_at(ref: DatasetRef) -> Kind:
    """Return the kind of data that a path names; tar shards if it names a prepared folder, or nothing."""
    path = data_path(ref.path)
    if is_record_file(path):
        return RECORD_FILES[format_of(path)]
    if is_metadataset(ref.path):
        return "metadatasets"
    if is_tar_file(ref.path):
        return "unprepared tar files"
    storage = ref.storage()
    remains = (INDEX_UUID, f"{FOLDER}/{SPLIT_YAML}")  # of a dataset of shards, which lint has to report
    if is_media_folder(storage) and not any(map(storage.exists, remains)):
        return "folders of media files"
    return "unprepared tar files" if is_unprepared(storage, ref) else "tar shards"


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
    from ..samples.building.dataset_code import DatasetCode

    return DecodeCheck(config, DatasetCode(EPath(folder), trust_code), max_json_bytes=max_json_bytes)


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
