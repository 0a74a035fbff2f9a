"""Lint what a path names: a folder of shards or media files, a file, or a metadataset and its datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial

from ..accounting import Rule, RuleGroup, reasons
from ..dataset.unprepared.tar_index import is_unprepared
from ..errors import ConfigError
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
from ..lint.rule import RECORD_FILES, Kind, LintRules
from ..lint.run import lint_dataset, lint_file, lint_tars
from ..lint.samples import SampleFaults
from ..lint.shard import Shards
from ..storage import EPath


def lint_rules() -> tuple[type[LintRules], ...]:
    """Return the groups of the rules of lint, in the order of their codes."""
    from ..lint.media_folder import MediaFolders
    from ..metadataset.lint import Metadatasets

    return (DatasetFiles, Shards, Split, SampleFaults, JsonlFiles, ColumnFiles, Metadatasets, MediaFolders)


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


def _make_check(
    config: DatasetConfig | None, folder: str, *, trust_code: bool, max_json_bytes: int | None
) -> SampleCheck:
    from ..samples.building.check import DecodeCheck
    from ..samples.building.dataset_code import DatasetCode

    return DecodeCheck(config, DatasetCode(EPath(folder), trust_code), max_json_bytes=max_json_bytes)
