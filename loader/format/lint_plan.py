"""What a lint is asked to do, and what it reports: plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConfigError
from .dataset_config import DatasetConfig
from .findings import Finding
from .nearest_name import did_you_mean
from .nv_meta import DATASET_YAML, SPLIT_YAML

__all__ = ["LEVELS", "LintPlan", "LintProgress", "LintReport", "SampleCheck"]

LEVELS = ("headers", "bytes", "decode")

SampleCheck = Callable[[str, Mapping[str, bytes]], Sequence[tuple[str | None, str]]]
"""``check(key, parts)`` gives what is wrong with a sample: part (None: all of it) and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPlan:
    """What to check.

    Attributes:
        path: The dataset.
        level: ``headers``, ``bytes`` (the contents are read too) or ``decode`` (and decoded).
        workers: Processes.
        split_parts: Check only the shards of these; None checks all.
        max_findings: Stop at this many; None finds all.
        make_sample_check: Makes the check of level ``decode``; called once, its result must be picklable. Level
            ``decode`` cannot do without, the others do not call it.

    Raises:
        ConfigError: There is no such level, or level ``decode`` is given no check.
    """

    path: str
    level: str = "decode"
    workers: int = 1
    split_parts: tuple[str, ...] | None = None
    split_config: str = SPLIT_YAML
    dataset_config: str = DATASET_YAML
    max_findings: int | None = None
    make_sample_check: Callable[[DatasetConfig | None, str], SampleCheck] | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ConfigError(f"there is no lint level {self.level!r}{did_you_mean(self.level, LEVELS)}")
        if self.level == "decode" and self.make_sample_check is None:
            raise ConfigError(
                "level 'decode' checks samples by a function, and is given none",
                do="give make_sample_check, which may make a loader.samples.check.DecodeCheck, or name another level",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LintProgress:
    """How far a lint is; samples count at level decode, shards at the others."""

    done: int
    total: int
    unit: str
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What a lint found, in order of shards and offsets."""

    findings: tuple[Finding, ...]
    complete: bool  # False: it stopped at max_findings
    shards: int
    samples: int
    seconds: float
    datasets: int = 1

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)
