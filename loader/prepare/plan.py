"""Plan and report of a prepare: plain data, for flags, the wizard and other programs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..engine import Account
from ..engine.run import Engine
from ..format.dataset_ref import DatasetRef
from ..format.index import remote_shard
from ..format.media.metadata import MediaFilter
from ..format.media.tables import MediaReport
from ..parts.large_parts import SHOWN_JSON_BYTES
from .contents.findings import Contents

if TYPE_CHECKING:
    from ..format.index.journal import ScanFolders
    from ..format.index.layout import AbstractIndex, Layout

ScanMode = remote_shard.ScanMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """A split by ratio, by patterns or as listed; exactly one of the three is given."""

    ratio: Mapping[str, float] | None = None
    patterns: tuple[tuple[str, str], ...] | None = None  # (part, pattern)
    parts: Mapping[str, tuple[str, ...]] | None = None  # part → shards
    by_samples: bool = False  # apply the ratio to the samples of each shard instead of to whole shards
    shuffle_seed: int | None = None  # seed that shuffles the shards before a ratio split


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """A prepare of a folder of shards.

    Attributes:
        path: Path of the folder.
        workers: Number of worker processes; at least 1.
        exclude: Regular expression of shards to exclude from the dataset.
        split: Split to write; None keeps the ``split.yaml`` of the dataset.
        files: Further files of ``.nv-meta`` to write, name → text (``dataset.yaml``, ``sample_loader.py``).
        compat: Write ``index.sqlite`` and ``.tar.idx``: True fails if they cannot express the dataset, None skips them
            then, False never writes them.
        force: Scan all shards, unchanged ones too.
        merge: Commit the parts of a prepare; no part may be missing.
        scan: How shards in an object store are scanned: by a request for each header, by requests for all bytes, or as
            the first shards show.
        strict: Publish nothing if a file of the folder or a member of a shard is left out.
        meta_folder: Folder to use instead of ``.nv-meta``; nothing else is written then, so compat files are not.
        media: Parts to collect media metadata of; None keeps the choice of an earlier prepare.
        fix_duplicates: Rename keys that occur in several shards, in new copies of these shards.
        max_json_bytes: Larger JSON parts of examples are neither read nor parsed; None for no limit.
    """

    path: str
    workers: int = 1
    exclude: str | None = None
    split: SplitRequest | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    compat: bool | None = None
    force: bool = False
    merge: bool = False
    fix_duplicates: bool = False
    media: MediaFilter | None = None
    meta_folder: str | None = None
    scan: ScanMode = "auto"
    strict: bool = False
    max_json_bytes: int | None = SHOWN_JSON_BYTES

    @classmethod
    def of(cls, ref: DatasetRef, **choices: Any) -> PreparePlan:
        """Return the plan for a reference; a prepare writes documents of the default names."""
        return cls(path=ref.path, meta_folder=ref.meta_folder, **choices)

    @property
    def ref(self) -> DatasetRef:
        """The dataset."""
        return DatasetRef(self.path, meta_folder=self.meta_folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareProgress:
    """Progress of a prepare: it scans shards first, and then may read the media of samples."""

    phase: Literal["scan", "media"]
    shards_done: int
    shards_total: int
    samples: int
    samples_total: int | None = None  # known in the second phase
    resumed: int = 0  # number of shards that an interrupted run had scanned; only in the first call


ProgressCallback = Callable[[PrepareProgress], None]


class PartSize(NamedTuple):
    """The numbers of a split part."""

    shards: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReport:
    """The outcome of a prepare."""

    changed: bool  # False: everything was up to date and nothing was written
    uuid: str
    samples: int
    parts: int
    shards: int
    size_bytes: int
    scanned: int  # number of shards
    resumed: int  # number of shards that an interrupted run had scanned
    reused: int  # number of unchanged shards
    duplicate_keys: int
    compat: bool
    split: Mapping[str, PartSize]
    warnings: tuple[str, ...]
    seconds: float
    media: MediaReport | None = None
    account: Account = field(default_factory=Account)  # files of the folder, and members of the shards


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHow:
    """Choose how the shards of a prepare are scanned.

    Attributes:
        engine: Where the shards are scanned. If its ``is_stopped`` returns True, the next one raises.
        on_progress: Called after each shard.
        mode: How shards in an object store are scanned.
        part: The part of the prepare; None for a whole one.
        inspects: Inspect some samples.
        is_trial: Nothing is published: no compat files are staged, and no scans are stored in the dataset.
    """

    engine: Engine = field(default_factory=Engine)
    on_progress: ProgressCallback | None = None
    mode: ScanMode = "auto"
    part: ScanFolders | None = None
    inspects: bool = False
    is_trial: bool = False


class RunningPrepare(ABC):
    """A prepare that has begun; its workers scan shards.

    Args:
        plan: The plan of the prepare.
        how: How its shards are scanned.

    Attributes:
        contents: The contents of some samples, after a scan that inspects samples.
    """

    def __init__(self, plan: PreparePlan, how: ScanHow) -> None:
        self._started = time.perf_counter()
        self._plan = plan
        self._how = how
        self.contents = Contents()

    @abstractmethod
    def scan(self) -> None:
        """Wait until all shards are scanned; it may be called in another thread.

        Raises:
            FormatError: Shards are damaged; the message names all of them.
            StoppedError: The scan was stopped.
        """

    @property
    @abstractmethod
    def decodes(self) -> bool:
        """True if parts are bytes for a decoder; False if they are final values."""

    @property
    @abstractmethod
    def index(self) -> AbstractIndex:
        """The index of all samples, after the scan."""

    @property
    @abstractmethod
    def account(self) -> Account:
        """The account of the files of the folder and of the members of its shards, after the scan."""

    @abstractmethod
    def read_parts(self, sample: int, *, max_bytes: int) -> dict[str, Any]:
        """Read the parts of a sample, but no larger ones: bytes for a decoder, or final values.

        Raises:
            FormatError: The shard has changed.
            StorageError: It cannot be read.
        """

    @abstractmethod
    def commit(
        self, request: SplitRequest | None, files: Mapping[str, str], *, is_listed: bool = True
    ) -> PrepareReport:
        """Publish the dataset.

        Args:
            request: Split to write; None keeps the ``split.yaml`` of the dataset.
            files: Further files of ``.nv-meta`` to write, name → text.
            is_listed: False lists the shards again: those that have changed are scanned again.

        Raises:
            ConfigError: The split is invalid.
            FormatError: Shards are damaged, or a shard has changed.
            StorageError: No permission, or a full disk.
        """

    @abstractmethod
    def discard(self) -> None:
        """Remove the scans, unless an earlier prepare has stored some of them: the user does not want the dataset."""

    @abstractmethod
    def close(self) -> None:
        """End the workers of a scan that was not completed."""

    def _report(self, layout: Layout, identity: str, **facts: Any) -> PrepareReport:
        return PrepareReport(
            uuid=identity,
            samples=layout.samples,
            parts=layout.parts,
            shards=len(layout.shards),
            size_bytes=sum(shard.size_bytes for shard in layout.shards),
            duplicate_keys=layout.duplicate_keys,
            seconds=time.perf_counter() - self._started,
            account=self.account,
            **facts,
        )
