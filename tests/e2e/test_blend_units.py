"""Blends whose weights are shares of a volume: the samples that come, and what a resumed run keeps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import (
    AugmentTaskEncoder,
    Batch,
    ConfigError,
    DefaultTaskEncoder,
    SkipSample,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    edataclass,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    sample_size_metric,
)
from tests.e2e.mixed_data import MixedData, write_mixed_data
from tests.elastic_runs import Pipeline, Spread, check_every_save

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)


def number(sample: TextSample) -> int:
    return int(sample.text.split()[-1])


class Sized(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that measures samples from 5000 on as 30 tokens, and others as 10."""

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return 30 if number(sample) >= 5000 else 10

    @sample_size_metric("pages")
    def count_pages(self, sample: TextSample) -> float:
        return 1.0 if number(sample) >= 5000 else 0.25


class Larger(Sized):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return 90 if number(sample) >= 5000 else 10


class Skipping(Sized):
    """Skips every second sample from 5000 on, so that their mean size is 15, and yields others twice."""

    def encode_sample(self, sample: TextSample) -> Iterator[TextSample]:
        if number(sample) >= 5000 and number(sample) % 2:
            raise SkipSample
        yield sample
        if number(sample) < 5000:
            yield sample


class Nothing(Sized):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return 0


class Negative(Sized):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return -1


@edataclass
class Texts(Batch):
    text: list[str]


class SizedBatches(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder of batches with a metric."""

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return 30 if number(sample) >= 5000 else 10


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    return write_mixed_data(tmp_path_factory.mktemp("units"))


def blend(data: MixedData, name: str, unit: str | None = "tokens", **more: Any) -> Path:
    entries = [{"weight": 1, "path": "texts"}, {"weight": 1, "path": "more"}]
    return data.write(name, {"train": {"blend": entries, **({"blend_weight_unit": unit} if unit else {}), **more}})


def train(path: Path, encoder: Any, config: WorkerConfig = ONE, **options: Any) -> Any:
    defaults = {"batch_size": None, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "task_encoder": encoder}
    return get_train_dataset(path, worker_config=config, **defaults | options)


def volumes(found: list[int]) -> tuple[int, int]:
    """Return the tokens of samples below 5000, and of others."""
    return tuple(sum(30 if one >= 5000 else 10 for one in found if (one >= 5000) == large) for large in (False, True))  # type: ignore[return-value]


def share_of_more(dataset: Any, count: int = 4096) -> float:
    found = [number(sample) >= 5000 for sample in islice(get_loader(dataset), count)]
    return sum(found) / len(found)


@pytest.mark.parametrize(
    ("unit", "encoder", "expected"),
    [("tokens", Sized(), 0.25), ("pages", Sized(), 0.2), ("samples", Sized(), 0.5), (None, TaskEncoder(), 0.5)],
)
@pytest.mark.sampled(2)
def test_weights_are_shares_of_the_volume(data: MixedData, unit: str | None, encoder: Any, expected: float) -> None:
    path = blend(data, f"by_{unit}.yaml", unit)
    assert share_of_more(train(path, encoder)) == pytest.approx(expected, abs=0.01)


def test_skipped_and_repeated_samples_count_as_they_reach_training(data: MixedData) -> None:
    path = blend(data, "skipping.yaml")
    found = [number(sample) for sample in islice(get_loader(train(path, Skipping())), 4096)]
    tokens = [30 if one >= 5000 else 10 for one in found]
    assert sum(size for size in tokens if size == 30) / sum(tokens) == pytest.approx(0.5, abs=0.02)


def test_units_of_nested_blends_combine(data: MixedData) -> None:
    inner = {"blend": [{"path": "texts"}, {"path": "more", "split_part": "val"}], "blend_weight_unit": "samples"}
    data.write("inner.yaml", {"train": inner})  # mean size (10 + 30) / 2
    entries = [{"weight": 1, "path": "inner.yaml"}, {"weight": 1, "path": "more"}]
    path = data.write("outer.yaml", {"train": {"blend": entries, "blend_weight_unit": "tokens"}})
    # Shares of samples: inner 1/20, more 1/30, so 0.6 and 0.4; half of inner is of more.
    assert share_of_more(train(path, Sized())) == pytest.approx(0.3 + 0.4, abs=0.01)


def test_each_step_of_a_lane_is_within_one_sample_of_the_weights(data: MixedData) -> None:
    path = blend(data, "steps.yaml")
    dataset = train(path, Sized(), WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1))
    found = [number(sample) for sample in islice(get_loader(dataset), 400)]
    for stop in range(1, len(found)):
        small, large = volumes(found[:stop])
        assert abs(small - large) / 2 <= 30


def test_a_metric_that_changed_counts_from_the_restore_on(data: MixedData) -> None:
    path = blend(data, "resumed.yaml")
    loader = get_savable_loader(train(path, Sized()))
    list(islice(loader, 400))
    resumed = get_savable_loader(train(path, Larger()))
    resumed.restore_state_rank(loader.save_state_rank())
    found = [number(sample) >= 5000 for sample in islice(resumed, 2000)]
    assert sum(found) / len(found) == pytest.approx(0.1, abs=0.01)


def test_a_blend_by_tokens_resumes_exactly_on_other_ranks(data: MixedData) -> None:
    path = blend(data, "elastic.yaml")
    pipeline = Pipeline(build=partial(batches, path), batches=24)
    check_every_save(pipeline, Spread(2), [Spread(1), Spread(3), Spread(4, 1)], every=6)


def batches(path: Path, config: WorkerConfig) -> Any:
    return train(path, SizedBatches(), config, batch_size=3)


def test_samples_without_a_size_come_as_shares_of_the_samples(data: MixedData) -> None:
    assert share_of_more(train(blend(data, "nothing.yaml"), Nothing()), 400) == pytest.approx(0.5, abs=0.01)


def test_packing_measures_the_samples_that_enter_the_buffer(data: MixedData) -> None:
    path = blend(data, "packed.yaml")
    assert share_of_more(train(path, Packed(), packing_buffer_size=8)) == pytest.approx(0.25, abs=0.01)


class Packed(Sized):
    """Packs each sample alone."""

    def preencode_sample(self, sample: TextSample) -> TextSample:
        return sample

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [[sample] for sample in samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


def test_an_augmented_encoder_has_the_metrics_of_the_inner_one(data: MixedData) -> None:
    path = blend(data, "augmented.yaml")
    assert share_of_more(train(path, AugmentTaskEncoder(Sized()))) == pytest.approx(0.25, abs=0.01)


def test_metrics_are_checked(data: MixedData) -> None:
    path = blend(data, "checked.yaml")
    with pytest.raises(ConfigError, match="the unit 'tokens', which is not a metric of TaskEncoder; known are none"):
        train(path, TaskEncoder())
    misspelt = blend(data, "misspelt.yaml", unit="Tokens")
    with pytest.raises(ConfigError, match=r"not a metric of Sized; .*; did you mean 'tokens'"):
        train(misspelt, Sized())
    with pytest.raises(ConfigError, match="to return a number from 0 to 1,000,000,000,000,000, found -1"):
        next(iter(get_loader(train(path, Negative()))))
    with pytest.raises(ConfigError, match="the unit 'samples' counts samples, and has no metric"):
        sample_size_metric("samples")(len)


@pytest.mark.parametrize(
    "size",
    [10**400, torch.tensor(1j), torch.tensor([1, 2]), torch.empty((), device="meta")],
    ids=["int", "complex", "many", "meta"],
)
def test_sizes_that_are_no_float_are_refused_with_the_unit(data: MixedData, size: Any) -> None:
    class Odd(Sized):
        @sample_size_metric
        def tokens(self, sample: TextSample) -> Any:
            return size

    with pytest.raises(ConfigError, match="to return a number from 0 to 1,000,000,000,000,000, found"):
        next(iter(get_loader(train(blend(data, "odd.yaml"), Odd()))))


def test_a_unit_belongs_to_a_blend_and_to_training(data: MixedData) -> None:
    entries = [{"path": "texts"}, {"path": "more"}]
    split = {"blend_epochized": entries, "blend_weight_unit": "tokens"}
    path = data.write("epochized.yaml", {"train": split})
    with pytest.raises(ConfigError, match=r"blend_weight_unit: only a 'blend' has weights; repetitions count samples"):
        train(path, Sized())
    path = data.write("val.yaml", {"val": {"blend": entries, "blend_weight_unit": "tokens"}})
    dataset = get_val_dataset(path, batch_size=None, worker_config=ONE, task_encoder=TaskEncoder())
    assert len(list(get_loader(dataset))) == 66
