"""Lint what a path names: a folder of shards or media files, a file, or a metadataset and its datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial

from ..dataset.kind import kind_at
from ..engine import Rule, RuleGroup, reasons
from ..errors import ConfigError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import did_you_mean
from ..lint.metadata import DatasetFiles, Split
from ..lint.record_file import ColumnFiles, JsonlFiles
from ..lint.report import (
    LintPlan,
    LintProgress,
    LintReport,
    LintRequest as LintRequest,  # noqa: PLC0414 - a name of this package, too
    SampleCheck,
)
from ..lint.rule import RECORD_FILES, LintRules
from ..lint.run import lint_dataset, lint_file, lint_tars
from ..lint.samples import SampleFaults
from ..lint.shard import Shards


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
    options["ref"] = DatasetRef.of(request.ref)
    plan = LintPlan(**options, make_sample_check=make_check)
    kind = kind_at(plan.ref)
    if kind == "metadatasets":
        from ..metadataset.lint import lint_metadataset
        from ..stores.aux_store import open_aux_store

        return lint_metadataset(plan, open_aux=open_aux_store, on_progress=on_progress)
    if kind == "folders of media files":
        from ..lint.media_folder import lint_media_folder

        return lint_media_folder(plan, on_progress=on_progress)
    linters = {"unprepared tar files": lint_tars, **dict.fromkeys(RECORD_FILES, lint_file)}
    return linters.get(kind, lint_dataset)(plan, on_progress=on_progress)


def _make_check(
    config: DatasetConfig | None, folder: str, *, trust_code: bool, max_json_bytes: int | None
) -> SampleCheck:
    from ..samples.building.check import DecodeCheck
    from ..samples.building.dataset_code import DatasetCode

    return DecodeCheck(config, DatasetCode(folder, trust_code), max_json_bytes=max_json_bytes)
