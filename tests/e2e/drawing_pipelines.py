"""Pipelines of every kind on a small dataset, with hooks that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    FilterDataset,
    IterMapDataset,
    LimitDataset,
    MapDataset,
    MixBatchDataset,
    PackingDataset,
    RepeatDataset,
    SavableDataset,
    ShuffleBufferDataset,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_train_dataset,
    get_val_dataset,
    homogeneous_concat_mix,
)
from tests.e2e.drawing_encoders import Augmented, Grouping, Packing, Restorable, Skipping, draws, number_in
from tests.e2e.text_dataset import CRUDE, write_texts


@dataclass(frozen=True)
class Data:
    """Prepared datasets."""

    texts: Path  # 157 samples for training, 61 for validation
    more: Path  # 40 for training
    crude: Path  # as texts


def write_data(folder: Path) -> Data:
    return Data(
        texts=write_texts(folder / "texts"),
        more=write_texts(folder / "more", train=(9, 31), val=(5,), first=5000),
        crude=write_texts(folder / "crude", config=CRUDE),
    )


Build = Callable[[Data, WorkerConfig], SavableDataset[Any]]


def ignore(error: Exception, sample: Any, sources: Any) -> None:
    """Skip a failed sample."""


def train(
    data: Data,
    config: WorkerConfig,
    *,
    encoder: type[TaskEncoder[Any, Any, Any, Any]] = Augmented,
    path: str = "texts",
    **options: Any,
) -> SavableDataset[Any]:
    defaults = {"batch_size": 3, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5}
    return get_train_dataset(
        getattr(data, path),
        worker_config=replace(config, global_error_handler=ignore),
        task_encoder=encoder(),
        **defaults | options,
    )


def val(
    data: Data, config: WorkerConfig, *, encoder: type[TaskEncoder[Any, Any, Any, Any]] = Augmented, **options: Any
) -> SavableDataset[Any]:
    return get_val_dataset(
        data.texts,
        worker_config=replace(config, global_error_handler=ignore),
        task_encoder=encoder(),
        **{"batch_size": 3} | options,
    )


def is_odd(sample: TextSample) -> bool:
    return number_in(sample) % 2 == 1


def with_draws(batch: Any) -> Any:
    return type(batch).extend(batch, text=[draws(), *batch.text])


def blend_of_samples(data: Data, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    parts = [train(data, config, path=path, batch_size=None, **options) for path in ("texts", "more", "more")]
    return MapDataset(BatchDataset(BlendDataset(*zip(parts, (3, 1.5, 0.5), strict=True)), 4), with_draws)


def blend_of_batches(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    groups = train(data, config, encoder=Grouping)
    plain = train(data, config, path="more", batch_size=2)
    return BlendDataset(((plain, 1), (groups, 2)))


def filtered(data: Data, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    return BatchDataset(FilterDataset(train(data, config, batch_size=None, **options), is_odd), 3)


def packed_by_hand(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    encoder = Packing()
    samples = FilterDataset(train(data, config, encoder=Restorable, batch_size=None), is_odd)
    return PackingDataset(samples, 7, encoder.select_samples_to_pack, encoder.pack_selected_samples)


def mixed(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    ones = train(data, config, batch_size=1), train(data, config, path="more", encoder=Skipping, batch_size=1)
    mixing: SavableDataset[Any] = MixBatchDataset(
        (ones[0], 2), (ones[1], 1), batch_size=4, batch_mix_fn=homogeneous_concat_mix
    )
    return MapDataset(mixing, with_draws)


def buffered(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    samples = train(data, config, batch_size=None, encoder=Restorable)
    return BatchDataset(ShuffleBufferDataset(samples, 7), 3)


def two_and_two(samples: Iterator[Any]) -> Iterator[Any]:
    for one in samples:
        other = next(samples, one)
        yield TextSample.derive_from(one, text=one.text + other.text)
        yield TextSample.derive_from(other, text=other.text + one.text)


def in_pairs(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    samples = train(data, config, batch_size=None, encoder=Restorable)
    return BatchDataset(IterMapDataset(samples, two_and_two), 3)


def repeated(data: Data, config: WorkerConfig, *, repeats: float | None, **options: Any) -> SavableDataset[Any]:
    return RepeatDataset(train(data, config, path="more", repeat=False, **options), repeats=repeats)


def limited(data: Data, config: WorkerConfig, length: int) -> SavableDataset[Any]:
    return MapDataset(LimitDataset(train(data, config), length), with_draws)


def joined(data: Data, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    return ConcatDataset(val(data, config), val(data, config, batch_size=7, **options))
