"""Random generators of task encoders: ``TaskEncoder.rng``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader import (
    DefaultTaskEncoder,
    EnergonError,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    skip_safe,
    stateless,
)
from loader.samples.hooks import HookContext, set_hook_context
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("rng") / "texts", train=(17, 13), val=(1,))


class Draws(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Returns numbers of all generators, of each sample."""

    def encode_sample(self, sample: Any) -> Any:
        rng = self.rng
        tensor = torch.rand((), generator=rng.torch)
        return (sample.text, float(tensor), float(rng.numpy.random()), rng.random.random())

    def batch(self, samples: list[Any]) -> Any:
        return [*samples, self.rng.random.random()]


class DrawsSeeded(Draws):
    @skip_safe
    @stateless(restore_task_encoder_seeds=True)
    def encode_sample(self, sample: Any) -> Any:
        return super().encode_sample(sample)


class DrawsInGenerator(Draws):
    @stateless(restore_seeds=True, restore_task_encoder_seeds=True)
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        kept = self.rng.torch
        for _ in range(3):
            yield (sample.text, float(torch.rand((), generator=kept)), self.rng.random.random())


class DrawsAndPacks(DrawsSeeded):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:1], samples[1:3], samples[3:]]

    @stateless(restore_task_encoder_seeds=True)
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return (samples, float(self.rng.numpy.random()))


def loader_of(folder: Path, encoder: Any, *, workers: int = 0, lanes: int = 4) -> Any:
    packing = 5 if isinstance(encoder, DrawsAndPacks) else None
    return get_savable_loader(
        get_train_dataset(
            folder,
            batch_size=2,
            shuffle_buffer_size=20,
            max_samples_per_sequence=5,
            packing_buffer_size=packing,
            task_encoder=encoder,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=lanes),
        )
    )


@pytest.mark.parametrize("encoder", [Draws, DrawsSeeded, DrawsInGenerator, DrawsAndPacks])
@pytest.mark.sampled(2)
def test_draws_are_those_of_the_run(texts: Path, encoder: type[Draws]) -> None:
    """The numbers are the same with other workers, and after a restore at any step."""
    straight = list(itertools.islice(iter(loader_of(texts, encoder())), 24))
    assert list(itertools.islice(iter(loader_of(texts, encoder(), workers=2)), 24)) == straight
    assert len({str(batch) for batch in straight}) == 24
    for steps in (1, 6, 11):
        loader = loader_of(texts, encoder())
        list(itertools.islice(iter(loader), steps))
        resumed = loader_of(texts, encoder())
        resumed.restore_state_rank(loader.save_state_rank())
        assert list(itertools.islice(iter(resumed), 24 - steps)) == straight[steps:]


def test_global_generators_are_not_used(texts: Path) -> None:
    """Draws from ``rng`` change no other random number."""
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    expected = random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    class Both(Draws):
        def encode_sample(self, sample: Any) -> Any:
            random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
            super().encode_sample(sample)
            return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    assert next(iter(loader_of(texts, Both())))[0] == expected


def test_generators_outside_hooks_are_refused() -> None:
    """Only a running hook has generators; that of CUDA needs a device."""
    with pytest.raises(EnergonError, match="only while a loader runs a hook"):
        _ = Draws().rng
    set_hook_context(HookContext())
    try:
        assert Draws().rng.torch is Draws().rng.torch
        if not torch.cuda.is_available():
            with pytest.raises(EnergonError, match="needs a CUDA device"):
                _ = Draws().rng.torch_cuda
    finally:
        set_hook_context(None)
