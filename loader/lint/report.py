"""Plan and report of a lint: plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..engine.run import RunsOnEngine
from ..errors import ConfigError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import did_you_mean
from ..parts.large_parts import CHECKED_JSON_BYTES
from ..parts.part_sets import PartSets
from .rule import Finding

LEVELS = ("headers", "bytes", "decode")

SampleCheck = Callable[[str, Mapping[str, bytes]], Sequence[tuple[str | None, str]]]
"""``check(key, parts)`` returns the faults of a sample: pairs of a part (None: the whole sample) and a message."""


class Caution(str):
    """A message of a check about a part that is whole as far as can be told: a warning, and no reason to exclude it."""

    __slots__ = ()


PictureCounts = Counter[tuple[str, str]]
"""Part name and trait → number of pictures; :data:`loader.parts.picture_traits.TRAITS` has the traits."""


def take_pictures(check: SampleCheck | None) -> PictureCounts:
    """Return the traits of the pictures that a check met since the last call, if it counts them."""
    take = getattr(check, "take_pictures", None)
    return Counter() if take is None else take()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest(RunsOnEngine):
    """A path to lint, and how.

    Attributes:
        ref: A dataset, file of samples, folder of media files, metadataset, or tar files that are not prepared. A split
            file or dataset file replaces those that a metadataset names; ``trust_code`` runs code of the data.
        level: ``headers``, ``bytes`` (read the contents too) or ``decode`` (and decode them).
        engine: Where the tasks run; None for processes. In a share, a lint stores its results in ``.nv-meta``, and
            raises :class:`.ShareDone`; after a merge, :meth:`.Engine.discard_merged` removes them.
        command: Name of the command that runs the shares, for messages.
        split_parts: Only these split parts, or splits of a metadataset; None checks all.
        max_findings: Number of findings to stop at; None finds all.
        max_json_bytes: Larger JSON parts are not parsed, a finding; None for no limit.
    """

    ref: DatasetRef
    level: str = "decode"
    split_parts: tuple[str, ...] | None = None
    max_findings: int | None = None
    max_json_bytes: int | None = CHECKED_JSON_BYTES
    command: str = "lint"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPlan(LintRequest):
    """A lint that can run.

    Attributes:
        make_sample_check: Function ``(config, meta_folder)`` that makes the check of samples for level ``decode``,
            which requires it; the other levels do not call it. It is called once, and its result must be picklable.

    Raises:
        ConfigError: The level does not exist, or level ``decode`` has no check.
    """

    make_sample_check: Callable[[DatasetConfig | None, str], SampleCheck] | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ConfigError(f"there is no lint level {self.level!r}{did_you_mean(self.level, LEVELS)}")
        if self.level == "decode" and self.make_sample_check is None:
            raise ConfigError(
                "level 'decode' needs a function that checks samples, found none",
                hint="set make_sample_check, which may return a loader.samples.DecodeCheck, or choose another level",
            )

    def sample_check(self, config: DatasetConfig | None = None, folder: str = "") -> SampleCheck | None:
        """Return the check that decodes samples of a dataset, whose documents are in a folder; None at other levels."""
        if self.level != "decode" or self.make_sample_check is None:  # a plan for level decode has one
            return None
        return self.make_sample_check(config, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintProgress:
    """Progress of a lint, in ``unit``: samples at level ``decode``, else shards; bytes of single files."""

    done: int
    total: int
    unit: str
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """The findings of a lint, in the order of shards and offsets.

    Attributes:
        complete: False if it stopped early, at ``max_findings`` or because of an error.
        decoded_media: Number of parts or files of sound and video that were decoded to their ends.
        media_note: Which sound and video were not decoded, and why; None if all were.
    """

    findings: tuple[Finding, ...]
    complete: bool
    shards: int
    samples: int
    seconds: float
    datasets: int = 1
    pictures: PictureCounts = field(default_factory=Counter)  # at level decode
    decoded_media: int = 0
    media_note: str | None = None
    part_sets: PartSets | None = None  # of a dataset of shards that could be opened

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)


# Group the findings of a lint that have one cause, such as a wrong field map.
