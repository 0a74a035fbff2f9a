from dataclasses import dataclass, field

from loader.compat.webdataset_factory import ShardInfo
from loader.samples.building.described_dataset import FilteredSample
from loader.samples.sample_dataclass import edataclass
from loader.samples.source_info import SourceInfo
from loader.storage.epath import EPath
from loader.training.datasets.dataset_factory import DatasetSubset

__all__ = [
    "DatasetSubset",
    "EPath",
    "FilteredSample",
    "ShardInfo",
    "SourceInfo",
    "WebdatasetInfo",
    "WebdatasetSplits",
    "edataclass",
]


@dataclass(slots=True, kw_only=True)
class WebdatasetInfo:
    """The content of ``.nv-meta/.info.json``.

    Attributes:
        energon_version: Version of the format.
        shard_counts: Shard → number of its samples.
    """

    energon_version: str | None = None
    shard_counts: dict[str, int]


@dataclass(slots=True, kw_only=True)
class WebdatasetSplits:
    """The content of ``.nv-meta/split.yaml``.

    Attributes:
        split_parts: Part → shards, with patterns such as ``s_{0..9}.tar``.
        exclude: Shards, and samples as ``shard/key``.
    """

    split_parts: dict[str, list[str]]
    exclude: list[str] = field(default_factory=list)
