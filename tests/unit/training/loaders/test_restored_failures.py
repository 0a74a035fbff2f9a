"""Samples that fail when a restored run rebuilds them: what ``restore_error_handler`` receives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import (
    DefaultTaskEncoder,
    SavableDataLoader,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    reraise_exception,
    stateless,
)
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("restored") / "texts", train=(20,))


class Packs(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Packs pairs of samples; the hook below the buffer fails while ``failures`` is positive."""

    failures = 0

    def _maybe_fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ValueError("broken")

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:2], samples[2:]]

    @stateless
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return TextSample.derive_from(samples[0], text="+".join(sample.text for sample in samples))


class Encode(Packs):
    @stateless
    def encode_sample(self, sample: Any) -> Any:
        self._maybe_fail()
        return sample


class Generate(Packs):
    @stateless
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        self._maybe_fail()
        yield sample


class Load(Packs):
    def decoder(self, parts: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # a function is accepted
        self._maybe_fail()
        return {name: part.decode() if isinstance(part, bytes) else part for name, part in parts.items()}


def started(path: Path, encoder: Packs, handler: Any) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        path,
        batch_size=1,
        packing_buffer_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=encoder,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0, restore_error_handler=handler),
    )
    return get_savable_loader(dataset)


@pytest.mark.parametrize("encoder", [Encode, Generate, Load], ids=lambda encoder: encoder.__name__)
def test_the_handler_gets_the_sample_and_its_sources(texts: Path, encoder: type[Packs]) -> None:
    received: list[Any] = []
    first = started(texts, encoder(), reraise_exception)
    assert next(iter(first)).__key__
    failing = encoder()
    restored = started(texts, failing, lambda *arguments: received.append(arguments))
    restored.restore_state_rank(first.save_state_rank())
    failing.failures = 1
    batch = next(iter(restored))
    ((error, sample, sources),) = received
    assert str(error) == "broken" or str(error.__cause__) == "broken"
    key = sample["__key__"] if isinstance(sample, dict) else sample.__key__
    (source,) = sources
    assert key.startswith(source.shard_name)
    assert source.dataset_path.name == "texts"
    assert key not in batch.__key__
