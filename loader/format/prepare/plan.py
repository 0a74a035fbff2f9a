"""What a prepare is asked to do, and what it reports: plain data, from flags or from the wizard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .media_filter import MediaFilter
from .media_work import MediaReport

__all__ = ["PreparePlan", "PrepareProgress", "PrepareReport", "ProgressCallback", "SplitRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """How to split: by ratio, by patterns or as listed; exactly one is given."""

    ratio: Mapping[str, float] | None = None
    patterns: tuple[tuple[str, str], ...] | None = None  # (part, pattern)
    parts: Mapping[str, tuple[str, ...]] | None = None  # part → shards
    shuffle_seed: int | None = None  # shuffle shards before a ratio split


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """A prepare of a folder of shards.

    Attributes:
        path: The folder.
        workers: Processes that scan; at least 1.
        exclude: Regular expression of shards to leave out of the dataset.
        split: None keeps the ``split.yaml`` that is there.
        files: Further files of ``.nv-meta`` to write, name → text (``dataset.yaml``, ``sample_loader.py``).
        compat: Write ``index.sqlite`` and ``.tar.idx`` (True: or fail; None: where they can express the dataset).
        force: Scan all shards, also those that have not changed.
        media: Collect media metadata of these parts; None goes on with what an earlier prepare was asked for.
        fix_duplicates: Rename keys that occur in several shards, by making new copies of those shards.
    """

    path: str
    workers: int = 1
    exclude: str | None = None
    split: SplitRequest | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    compat: bool | None = None
    force: bool = False
    fix_duplicates: bool = False
    media: MediaFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareProgress:
    """How far a prepare is: first it scans shards, then it may read the media of samples."""

    phase: Literal["scan", "media"]
    shards_done: int
    shards_total: int
    samples: int
    samples_total: int | None = None  # known in the second phase


ProgressCallback = Callable[[PrepareProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReport:
    """What a prepare did."""

    changed: bool  # False: everything was up to date and nothing was written
    uuid: str
    samples: int
    parts: int
    shards: int
    size_bytes: int
    scanned: int  # shards
    resumed: int  # shards whose scan an interrupted run had left
    reused: int  # shards that had not changed
    duplicate_keys: int
    compat: bool
    split: Mapping[str, tuple[int, int]]  # part → (shards, samples)
    warnings: tuple[str, ...]
    seconds: float
    media: MediaReport | None = None
