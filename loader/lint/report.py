"""Plan and report of a lint, and the codes of its findings: plain data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..accounting.part_sets import PartSets
from ..errors import ConfigError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import did_you_mean

LEVELS = ("headers", "bytes", "decode")

SampleCheck = Callable[[str, Mapping[str, bytes]], Sequence[tuple[str | None, str]]]
"""``check(key, parts)`` returns the faults of a sample: pairs of a part (None: the whole sample) and a message."""


PictureCounts = Counter[tuple[str, str]]
"""Part name and trait → number of pictures; :data:`loader.format.media.picture_traits.TRAITS` has the traits."""


class CheckedTask(NamedTuple):
    """Hold the result of a task of a lint."""

    findings: list[Finding]
    pictures: PictureCounts
    decoded_media: int = 0  # number of parts with sound or video that were decoded


def take_pictures(check: SampleCheck | None) -> PictureCounts:
    """Return the traits of the pictures that a check met since the last call, if it counts them."""
    take = getattr(check, "take_pictures", None)
    return Counter() if take is None else take()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPlan:
    """A lint of a dataset.

    Attributes:
        ref: The dataset.
        level: ``headers``, ``bytes`` (read the contents too) or ``decode`` (and decode them).
        workers: Number of worker processes.
        split_parts: Split parts to check; None checks all shards.
        max_findings: Number of findings to stop at; None finds all.
        make_sample_check: Function ``(config, folder)`` that makes the check of samples for level ``decode``,
            which requires it; the other levels do not call it. It is called once, and its result must be picklable.

    Raises:
        ConfigError: The level does not exist, or level ``decode`` has no check.
    """

    ref: DatasetRef
    level: str = "decode"
    workers: int = 1
    split_parts: tuple[str, ...] | None = None
    max_findings: int | None = None
    make_sample_check: Callable[[DatasetConfig | None, str], SampleCheck] | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ConfigError(f"there is no lint level {self.level!r}{did_you_mean(self.level, LEVELS)}")
        if self.level == "decode" and self.make_sample_check is None:
            raise ConfigError(
                "level 'decode' needs a function that checks samples, found none",
                hint="set make_sample_check, which may return a loader.samples.DecodeCheck, or choose another level",
            )


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


CODES: dict[str, str] = {
    # The dataset's own files
    "E001": "the dataset is not prepared, or .info.json is damaged",
    "E002": "split.yaml is missing or invalid",
    "E003": "dataset.yaml is invalid",
    "W004": "dataset.yaml is missing: samples are crude",
    "E005": "the index is missing or damaged",
    "E006": "index.sqlite disagrees with the dataset: other tools will fail or read wrong bytes",
    "E007": "a .tar.idx file disagrees with its shard: other tools will fail or read wrong bytes",
    "W008": "a .tar.idx file is missing: other tools need it",
    "W009": "samples are not built: that needs code of the dataset, which runs only with --trust-code",
    "W010": "an interrupted run has left unfinished files",
    # Shards
    "E101": "a shard is missing",
    "E102": "a shard has another size or, in an object store, version than when it was indexed: the index is stale",
    "W103": "a shard has another modification time than when it was indexed",
    "E104": "a shard is damaged or truncated",
    "E105": "the index disagrees with the shard's headers",
    "W106": "a shard is unusual in a harmless way",
    "W107": "there are bytes after the end of the archive",
    "W108": "a shard holds no samples",
    "E109": "a shard cannot be read",
    # The split
    "W201": "a shard is on disk, but in no split part",
    "E202": "the split names a shard that is not in the dataset",
    "E203": "a shard is in two split parts",
    "W204": "the split excludes something that does not exist",
    "W205": "a split part is empty",
    "E206": "a filter is damaged, or belongs to other shards",
    # Samples
    "E301": "a required part is missing",
    "E302": "a part does not decode",
    "E303": "a part is empty",
    "W304": "the parts of a sample are not adjacent in the shard",
    "W305": "a key occurs in two shards",
    "E306": "a sample has two parts of the same name",
    "E307": "the sample cannot be built from its parts",
    "W308": "a text is empty",
    "W309": "most part names occur once: base names contain dots",
    "W310": "a part is too large to be parsed, so it is not checked",
    # JSONL files
    "E401": "the index of a JSONL file is missing or damaged",
    "E402": "the index of a JSONL file is stale: the file has changed",
    "E403": "a line is not one JSON object",
    "E404": "a line is not UTF-8",
    "W405": "there are blank lines",
    "W406": "the file begins with a byte order mark",
    "E407": "a JSONL file has no samples",
    # Token files and Parquet files
    "E411": "the index of a token file is missing or damaged",
    "E412": "a sequence is outside of its token file",
    "W413": "bytes of a token file belong to no sequence",
    "E414": "a Parquet file is damaged",
    "W415": "a row group of a Parquet file is larger than the cache of decoded rows",
    "E416": "a token file or Parquet file has no samples",
    # Metadatasets
    "E501": "a metadataset is invalid",
    "E502": "a dataset of a metadataset is missing or not prepared",
    "W503": "a metadataset reaches the same samples twice",
    "E504": "a dataset of a metadataset has no samples to read, or lacks the requested split part",
    "E505": "a join is not prepared, or its datasets have changed since",
    "E506": "an auxiliary store cannot be opened",
    "W507": "a training split and another split share samples",
    "W508": "the unit of a blend is misspelt, or no column of some of its datasets",
    # Folders of files
    "E601": "the media metadata of a folder cannot be read",
    "E602": "a file that has media metadata is missing",
    "E603": "a file has changed since its media metadata was collected",
    "E604": "a file cannot be read as the media type that its name or header states",
}
"""Code → meaning. E is an error (exit code 1), W a warning."""

_OUTDATED = frozenset(("E001", "E002", "E003", "E005", "E006", "E007", "W008", "E102", "E105"))
"""Codes of invalid documents, and of indexes to write again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault of a dataset.

    Attributes:
        code: One of :data:`CODES`.
        message: Details of the fault: the expected and the found value.
        shard: Name of the shard, relative to the dataset.
        key: Bare key of the sample.
        part: Name of the part.
        offset: Byte offset in the shard.
        dataset: Path of the dataset if several are checked at once; the shard is relative to it.
        at: Place of a fault of the dataset as a whole, such as a path.
        hint: Instruction that resolves the fault.
        in_index: False for a shard that was added after the dataset was prepared.
    """

    code: str
    message: str
    shard: str | None = None
    key: str | None = None
    part: str | None = None
    offset: int | None = None
    dataset: str | None = None
    at: str | None = None
    hint: str | None = None
    in_index: bool = True

    @property
    def severity(self) -> str:
        return "error" if self.code.startswith("E") else "warning"

    @property
    def is_sample(self) -> bool:
        """True if excluding one sample fixes it."""
        return self.code in ("E301", "E302", "E303", "E306", "E307") and self.shard is not None and self.key is not None

    @property
    def blocks_exclusion(self) -> bool:
        """True if samples of the dataset can be excluded only after it is fixed, most often by another prepare."""
        return self.code in _OUTDATED or not self.in_index


# Group the findings of a lint that have one cause, such as a wrong field map.


# What differs between the messages of samples with one cause, each with its replacement.
_DETAILS = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"\bb'(?:[^'\\]|\\.)*'|\bb\"(?:[^\"\\]|\\.)*\"", "b''"),  # first bytes of a part
        (r"(; the sample has |has only the parts |, only |: found |, found (?!an image)\w+: ).*", r"\1"),  # other parts
        (r"^sample \S.* has the same key", "a sample has the same key"),
        (r"\d+", "0"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """Findings of one cause: with the same code, dataset and part, and messages that differ in details only.

    Attributes:
        findings: At least one, in the order of the report.
    """

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def places(self) -> tuple[str, ...]:
        """The distinct places, in order: ``<shard>/<key>``, a shard, or a shard and a byte offset."""
        if self.first.key is not None:
            return tuple(dict.fromkeys(f"{finding.shard}/{finding.key}" for finding in self.findings))
        shards = tuple(dict.fromkeys(str(finding.shard) for finding in self.findings))
        if len(shards) == len(self.findings):
            return shards
        return tuple(f"{finding.shard} at byte {finding.offset}" for finding in self.findings)

    @property
    def noun(self) -> str:
        """The noun that counts the places: ``sample``, ``shard``, ``file`` or ``place``."""
        if self.first.key is not None:
            return "sample"
        if len({finding.shard for finding in self.findings}) < len(self.findings):
            return "place"
        return "shard" if str(self.first.shard).endswith(".tar") else "file"


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings by their cause, in the order of the first finding of each group.

    Findings about a whole dataset, which name no shard, stay single.

    >>> found = [Finding(code="E302", message=f"it ends at byte {end}", shard="s.tar", key=str(end)) for end in (7, 9)]
    >>> [group.places for group in group_findings(found)]
    [('s.tar/7', 's.tar/9')]
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        cause = number if finding.shard is None else _cause(finding)
        groups.setdefault(cause, []).append(finding)
    return [FindingGroup(findings=tuple(group)) for group in groups.values()]


def _cause(finding: Finding) -> tuple[object, ...]:
    message = finding.message
    for details, replacement in _DETAILS:
        message = details.sub(replacement, message)
    return finding.dataset, finding.code, finding.part, finding.key is None, message
