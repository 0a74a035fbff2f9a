"""Plan and report of a reshard: plain data, for flags and other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...format.nv_meta import SPLIT_YAML
from ...format.query import SampleQuery
from ..importing.plan import ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan:
    """New shards for the samples of a dataset.

    Attributes:
        path: A prepared dataset, a folder of tar shards without metadata, or one tar shard.
        output: Path or URL of the new dataset, a new or empty folder, or that of an interrupted reshard.
        shard_bytes: A shard ends before the sample that would exceed this size.
        samples_per_shard: Most samples of a shard.
        shuffle_seed: Seed of a new order of all samples; None keeps the order.
        sort_by: ``"key"``, or the name of a column or value: samples are sorted by it, those without a value last.
        split_ratio: Share of each new split part; None keeps the part of each sample.
        query: The samples.
        keep_parts: Only parts that match one of these patterns, as in shells; empty for all.
        drop_parts: No parts that match one of these.
        workers: Number of worker processes; at least 1.
        compat: As for :class:`.PreparePlan`.
        split_config: Name of the split file of the dataset.
        meta_folder: Folder to use instead of its ``.nv-meta``.
        strict: Write nothing if a chosen sample or part would be left out.
    """

    path: str
    output: str
    shard_bytes: int = 10**9
    samples_per_shard: int = 10_000
    shuffle_seed: int | None = None
    sort_by: str | None = None
    split_ratio: Mapping[str, float] | None = None
    query: SampleQuery = field(default_factory=lambda: SampleQuery(excluded=False))
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    workers: int = 1
    compat: bool | None = None
    split_config: str = SPLIT_YAML
    meta_folder: str | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardReport:
    """The outcome of a reshard.

    Attributes:
        written: The report of the shards and of the prepare that ended it.
        excluded: Number of samples that are not chosen since the split excludes them.
        without_parts: Number of chosen samples that have none of the kept parts, and are not in the new dataset.
        columns: Columns that moved along.
        filters: Filters that moved along.
        warnings: Results that the user may not expect, one sentence each.
    """

    written: ImportReport
    excluded: int
    without_parts: int
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    warnings: tuple[str, ...]
