"""Crude samples are cooked alike in a chain that is built by hand and in one that the library builds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import (
    Cooker,
    DefaultTaskEncoder,
    RepeatDataset,
    RepeatedSampleError,
    SampleDecoder,
    ShuffleBufferDataset,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from loader.samples.types import TextSample
from tests.e2e.text_dataset import CRUDE, write_texts

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
SAMPLES = 30


@pytest.fixture(scope="module")
def crude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("by_hand") / "crude", train=(11, 19), val=(3,), config=CRUDE)


class Library(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder()

    def batch(self, samples: list[TextSample]) -> list[str]:
        return [sample.text for sample in samples]


class ByHand(Library):
    buffer_size: int | None = None

    def build_train_datasets(
        self, *, datasets: Any, worker_config: WorkerConfig, batch_size: int | None, **options: Any
    ) -> Any:
        (one,) = datasets
        cooked = self.build_cook_crude_sample(
            one.dataset.build(),
            worker_config=worker_config,
            subflavors=one.dataset.subflavors,
            get_primary_aux=one.dataset.as_file_store,
            aux=one.aux,
        )
        if self.buffer_size is not None:
            cooked = ShuffleBufferDataset(cooked, size=self.buffer_size)
        return self.build_batch(RepeatDataset(cooked), batch_size=batch_size, worker_config=worker_config)


both = pytest.mark.parametrize("kind", [Library, ByHand])


def train(crude: Path, kind: type[Library], cook: Any, *, batch_size: int | None = 2) -> Any:
    encoder = kind()
    encoder.cookers = [Cooker(cook)]  # type: ignore[misc] # of this encoder
    return get_train_dataset(
        crude,
        worker_config=ONE,
        batch_size=batch_size,
        task_encoder=encoder,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )


def text_sample(sample: Any, text: str) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=text)


@both
def test_the_tolerance_of_a_cooker_ends_the_run_with_its_name(crude: Path, kind: type[Library]) -> None:
    @stateless(failure_tolerance=3)
    def cook_nothing(sample: Any) -> TextSample:
        raise ZeroDivisionError

    with pytest.raises(RepeatedSampleError, match="cook_nothing failed 3 times in a row"):
        next(iter(get_loader(train(crude, kind, cook_nothing))))


@both
def test_a_repeated_pass_has_all_samples_of_a_cooker_that_makes_several(crude: Path, kind: type[Library]) -> None:
    @stateless
    def cook_three(sample: Any) -> Iterator[TextSample]:
        yield from (text_sample(sample, f"{sample['txt']}.{number}") for number in range(3))

    samples = iter(get_loader(train(crude, kind, cook_three, batch_size=None)))
    expected = {f"text {sample}.{number}" for sample in range(SAMPLES) for number in range(3)}
    assert {next(samples).text for _ in range(3 * SAMPLES)} == expected


def test_a_restored_buffer_has_the_same_samples_of_a_cooker_that_draws(
    crude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @stateless(restore_seeds=True)
    def cook_number(sample: Any) -> TextSample:
        return text_sample(sample, str(random.random()))

    monkeypatch.setattr(ByHand, "buffer_size", 6)
    loader, restored = (get_savable_loader(train(crude, ByHand, cook_number)) for _ in range(2))
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    restored.restore_state_rank(loader.save_state_rank())
    again = iter(restored)
    assert [next(again) for _ in range(8)] == [next(batches) for _ in range(8)]


@both
def test_the_primary_store_is_decoded(crude: Path, kind: type[Library]) -> None:
    @cooker(need_primary=True)
    def cook_own_part(sample: Any, primary: Any) -> TextSample:
        return text_sample(sample, primary.get(".txt"))

    assert all(text.startswith("text ") for text in next(iter(get_loader(train(crude, kind, cook_own_part)))))
