"""Small prepared datasets for the tests of merging, splitting and adding parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.cli.make_dataset import write_shard

CRUDE_YAML = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def text_samples(keys: list[str], **fields: object) -> dict[str, dict[str, bytes]]:
    """Samples with the parts txt and json; the text is the key."""
    return {key: {"txt": key.encode(), "json": json.dumps({"key": key, **fields}).encode()} for key in keys}


def write_dataset(
    folder: Path,
    shards: Mapping[str, Mapping[str, Mapping[str, bytes]]],
    split: Mapping[str, tuple[str, ...]],
    *,
    compat: bool | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write shards (name → key → parts), and prepare them."""
    for name, samples in shards.items():
        write_shard(folder / name, {key: dict(parts) for key, parts in samples.items()})
    plan = PreparePlan(path=str(folder), split=SplitRequest(parts=split), compat=compat, files=files or {})
    run_prepare(plan)
    return folder


def two_datasets(folder: Path) -> tuple[Path, Path]:
    """Datasets ``a`` and ``b`` of two and one shards; the last one of each is for validation, 1 is in both."""
    first = write_dataset(
        folder / "a",
        {"s_0.tar": text_samples(["1", "2"]), "in/s_1.tar": text_samples(["3", "4", "5"])},
        {"train": ("s_0.tar",), "val": ("in/s_1.tar",)},
    )
    second = write_dataset(
        folder / "b",
        {"s_0.tar": text_samples(["6", "7"]), "s_1.tar": text_samples(["1"])},
        {"train": ("s_0.tar",), "extra": ("s_1.tar",)},
    )
    return first, second


def loaded_texts(path: Path, split_part: str, **options: Any) -> list[str]:
    """The texts of a split part, loaded as a training run loads them, sorted."""
    from loader import WorkerConfig, get_loader, get_val_dataset

    dataset = get_val_dataset(
        path,
        split_part=split_part,
        batch_size=1,
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
        **options,
    )
    return sorted(text for batch in get_loader(dataset) for text in batch["txt"])
