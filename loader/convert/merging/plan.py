"""Plan and report of a merge: plain data, for flags and other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ...accounting import Account

ShardSource = Literal["reference", "link", "copy"]

ProgressCallback = Callable[[int, int], None]
"""Called with the number of shards, or of their bytes if they are copied, that are done, and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge of prepared datasets of tar shards into a new one.

    Attributes:
        inputs: Paths of the datasets; URLs are possible if shards are copied.
        output: Path of the new dataset, a new or empty folder of this machine.
        shards: How the new dataset has its shards: by relative symbolic links, by hard links, or as copies.
        rename_keys: Rename keys that several inputs have, in copies of the shards concerned.
        crude: Write no ``dataset.yaml``, so that the inputs' may differ.
        compat: Also write ``index.sqlite``, which megatron-energon needs to find samples by key.
        workers: Number of worker processes for shards that are rewritten.
        strict: Merge nothing if values of the inputs, such as columns, could not be carried.
    """

    inputs: tuple[str, ...]
    output: str
    shards: ShardSource = "reference"
    rename_keys: bool = False
    crude: bool = False
    compat: bool = False
    workers: int = 1
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The outcome of a merge.

    Attributes:
        output: Path of the new dataset.
        folders: Input → folder of its shards in the new dataset.
        samples: Number of samples.
        shards: Number of shards.
        size_bytes: Bytes of all shards.
        split: Part → (shards, samples).
        columns: Names of the columns that were carried.
        filters: Names of the filters that were carried.
        duplicate_keys: Number of samples with the bare key of an earlier one.
        renamed_shards: Number of shards that were copied to rename keys.
        warnings: What could not be carried.
        account: What became of the samples and shards of the inputs.
        seconds: Duration.
    """

    output: str
    folders: Mapping[str, str]
    samples: int
    shards: int
    size_bytes: int
    split: Mapping[str, tuple[int, int]]
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    duplicate_keys: int
    renamed_shards: int
    warnings: tuple[str, ...]
    account: Account
    seconds: float
