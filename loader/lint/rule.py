"""A rule of lint: its explanation, the kinds of data for which it holds, and its checks; a finding holds its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..engine import Rule
from ..format.data_kind import KINDS, Kind

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset
    from ..format.documents.dataset_config import DatasetConfig
    from ..format.index.dataset_index import DatasetIndex
    from ..format.index.layout import ShardEntry
    from ..format.index.shard_index import ShardIndex
    from ..storage import FileInfo, Storage

Level = Literal["of_dataset", "of_shard", "of_sample"]
TARS: tuple[Kind, ...] = ("tar shards", "unprepared tar files")
DATASETS: tuple[Kind, ...] = ("tar shards", "folders of JSONL or Parquet files")
SHARDS: tuple[Kind, ...] = (*TARS, "folders of JSONL or Parquet files")
RECORD_FILES: tuple[Kind, ...] = tuple(kind.plural for kind in KINDS if kind.is_file)
FILES: tuple[Kind, ...] = (*SHARDS, *RECORD_FILES, "folders of media files")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedShard:
    """A tar shard whose headers were read.

    Attributes:
        storage: The dataset.
        info: Name and size of the shard.
        headers: Index of its headers.
        config: Dataset config with the parts that each sample must have; None requires no parts.
        index: Index of the dataset; None if it is not prepared.
        entry: Entry of the shard in the index.
        sqlite_number: Number of the shard in ``index.sqlite``; None if that file is missing or unreadable.
    """

    storage: Storage
    info: FileInfo
    headers: ShardIndex
    config: DatasetConfig | None = None
    index: DatasetIndex | None = None
    entry: ShardEntry | None = None
    sqlite_number: int | None = None

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def has_changed_size(self) -> bool:
        """True if the index of the dataset is of another shard."""
        return self.entry is not None and self.entry.size_bytes != self.info.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSample:
    """A sample whose parts were read.

    Attributes:
        shard: Name of the shard.
        key: Bare key; of a line or row, its number in the file.
        parts: Part name → bytes; the values of a row's columns for Parquet files.
    """

    shard: str
    key: str
    parts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LintRule(Rule):
    """A rule of lint.

    Rules that are found in one pass over the data name the same check, which runs once. A rule without a check is found
    while its data is opened, decoded or scanned.

    Attributes:
        kinds: Kinds of data for which the rule holds; by default the kinds of its group.
        of_dataset: Check of a dataset as a whole.
        of_shard: Check of the headers of a tar shard.
        of_sample: Check of the contents of a sample, at level ``decode``; for rules of the group ``Samples``.
        is_excludable: Excluding one sample resolves the fault.
        is_outdated: A document is invalid or an index must be written again, which exclusions would hinder.
        hides_samples: The index may have wrong offsets for the shard, so that every part would fail to decode.
        group: Its group.
    """

    _: KW_ONLY
    kinds: tuple[Kind, ...] = ()
    of_dataset: Callable[[Dataset], Iterable[Finding]] | None = None
    of_shard: Callable[[ScannedShard], Iterable[Finding]] | None = None
    of_sample: Callable[[ReadSample], Iterable[Finding]] | None = None
    is_excludable: bool = False
    is_outdated: bool = False
    hides_samples: bool = False
    group: type[LintRules] | None = field(default=None, init=False, repr=False)

    def __set_name__(self, group: type[LintRules], code: str) -> None:
        # The name in its group is the code; a rule does not change afterwards.
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "kinds", self.kinds or group.kinds)
        object.__setattr__(self, "group", group)

    def __reduce__(self) -> tuple[Any, ...]:
        # Findings come from worker processes: name the rule instead of copying it.
        return getattr, (self.group, self.code)


class LintRules:
    """The rules of one kind of fault: a subclass has them as attributes, each named after its code.

    Attributes:
        title: Title of the group in the documentation.
        note: A remark on all its rules, in Markdown.
        kinds: Kinds of data for which its rules hold, unless a rule names others.
        rules: The rules, in the order of the documentation.
    """

    title: ClassVar[str]
    note: ClassVar[str] = ""
    kinds: ClassVar[tuple[Kind, ...]]
    rules: ClassVar[tuple[LintRule, ...]]

    def __init_subclass__(cls) -> None:
        cls.rules = tuple(rule for rule in vars(cls).values() if isinstance(rule, LintRule))


def checks_of(groups: Iterable[type[LintRules]], kind: Kind, level: Level) -> list[Callable[..., Any]]:
    """Return the checks of the rules that hold for a kind of data, each once."""
    checks = dict.fromkeys(getattr(rule, level) for group in groups for rule in group.rules if kind in rule.kinds)
    return [check for check in checks if check is not None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a dataset.

    Attributes:
        rule: The rule that the data violates.
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

    rule: LintRule
    message: str
    _: KW_ONLY
    shard: str | None = None
    key: str | None = None
    part: str | None = None
    offset: int | None = None
    dataset: str | None = None
    at: str | None = None
    hint: str | None = None
    in_index: bool = True

    @property
    def code(self) -> str:
        return self.rule.code

    @property
    def severity(self) -> str:
        return self.rule.severity

    @property
    def is_sample(self) -> bool:
        """True if excluding one sample fixes it."""
        return self.rule.is_excludable and self.shard is not None and self.key is not None

    @property
    def blocks_exclusion(self) -> bool:
        """True if samples of the dataset can be excluded only after it is fixed, most often by another prepare."""
        return self.rule.is_outdated or not self.in_index
