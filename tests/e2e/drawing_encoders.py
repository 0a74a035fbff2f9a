"""Task encoders whose hooks draw random numbers, so that a batch that is not rebuilt exactly differs."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from loader import (
    Batch,
    Cooker,
    SkipSample,
    TaskEncoder,
    TextSample,
    basic_sample_keys,
    edataclass,
    stateless,
)
from loader.samples import SampleDecoder


def draws() -> str:
    return f"{random.random()} {np.random.random()} {torch.rand(()).item()}"  # noqa: NPY002 - user code draws from it


def fail_sometimes() -> None:
    if random.random() < 0.2:
        raise ValueError("this time it fails")


def number_in(sample: TextSample) -> int:
    return int(sample.__key__.rsplit("/")[-1])


class Augmented(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose hooks draw random numbers, and write the current batch and sample index into their results."""

    decoder: SampleDecoder | None = None

    def encode_sample(self, sample: TextSample) -> Any:
        where = f"{self.current_batch_index} {self.current_sample_index}"
        return TextSample.extend(sample, text=f"{sample.text} {where} {draws()}")

    def batch(self, samples: list[Any]) -> Any:
        batch = super().batch(samples)
        batch.text = [draws(), *batch.text]
        return batch

    def encode_batch(self, batch: Any) -> Any:
        batch.text = [draws(), f"{self.current_batch_index}", *batch.text]
        return batch


class Restorable(Augmented):
    """Encoder with a stateless hook: buffered samples are rebuilt bit for bit."""

    @stateless(restore_seeds=True)
    def encode_sample(self, sample: TextSample) -> Any:
        return super().encode_sample(sample)


class YieldingBatches(Restorable):
    """Encoder whose ``batch`` is a generator: the samples of a batch stay buffered until its last result is taken."""

    @stateless(restore_seeds=True)
    def batch(self, samples: list[Any]) -> Any:
        return super().batch(samples)

    @stateless(restore_seeds=True)
    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for number in range(random.randrange(4)):
            yield type(batch).extend(batch, text=[f"{number} {draws()}", *batch.text])


class Skipping(Augmented):
    def encode_sample(self, sample: TextSample) -> Any:
        if random.random() < 0.4:
            raise SkipSample
        return super().encode_sample(sample)


class Failing(Augmented):
    def encode_sample(self, sample: TextSample) -> Any:
        if number_in(sample) % 5 == 0:
            raise ValueError("cannot encode this")
        return super().encode_sample(sample)

    def encode_batch(self, batch: Any) -> Any:
        if torch.rand(()) < 0.2:
            raise ValueError("cannot encode that")
        return super().encode_batch(batch)


class Yielding(Augmented):
    @stateless(restore_seeds=True)
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        noise = f"{self.current_batch_index} {draws()}"
        for number in range(number_in(sample) % 4):
            yield TextSample.extend(sample, text=f"{sample.text} {number} {noise} {draws()}")


class YieldingFails(Yielding):
    """Encoder that fails for some samples and skips some, after it has yielded results of them."""

    @stateless(restore_seeds=True)
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        yield from super().encode_sample(sample)
        if number_in(sample) % 3:
            raise (ValueError, SkipSample)[number_in(sample) % 2]
        yield TextSample.extend(sample, text=draws())


def cook_text(sample: dict[str, Any]) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=f"{sample['txt'].decode()} {draws()}")


class Cooking(Augmented):
    cookers = [Cooker(cook_text)]


class Grouping(Restorable):
    def batch_group_criterion(self, sample: TextSample) -> tuple[Hashable, int | None]:
        kind = number_in(sample) % 3
        return ("kind", kind), (None, 2, 4)[kind]


class Packing(Restorable):
    """Encoder that packs two or three neighbours of a random order, and skips some samples."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        samples = sorted(samples, key=lambda sample: sample.text)
        random.shuffle(samples)
        return [samples[:2], samples[2:5], samples[6:]]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return TextSample.derive_from(samples[0], text=" + ".join([*(sample.text for sample in samples), draws()]))


class PackingTwice(Packing):
    """Packing encoder that also encodes the packs."""

    @stateless(restore_seeds=True)
    def preencode_sample(self, sample: TextSample) -> Any:
        return TextSample.extend(sample, text=f"{sample.text} {draws()}")

    def postencode_sample(self, sample: TextSample) -> Any:
        if random.random() < 0.2:
            raise SkipSample
        return TextSample.extend(sample, text=f"({sample.text} {draws()})")


class PackingFails(PackingTwice):
    """Packing encoder whose hooks all fail for some samples."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        fail_sometimes()
        return super().select_samples_to_pack(samples)

    def postencode_sample(self, sample: TextSample) -> Any:
        fail_sometimes()
        return super().postencode_sample(sample)

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        fail_sometimes()
        return super().pack_selected_samples(samples)


class PackingYields(PackingTwice):
    """Packing encoder whose hooks all yield several samples."""

    @stateless(restore_seeds=True)
    def preencode_sample(self, sample: TextSample) -> Any:
        for number in range(number_in(sample) % 3):
            yield TextSample.extend(sample, text=f"{sample.text}/{number} {draws()}")

    @stateless(restore_seeds=True)
    def postencode_sample(self, sample: TextSample) -> Any:
        for number in range(2):
            yield TextSample.extend(sample, text=f"({sample.text} {number} {draws()})")

    @stateless(restore_seeds=True)
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        for number in range(2):
            yield TextSample.derive_from(samples[0], text=f"{[sample.text for sample in samples]} {number} {draws()}")


@edataclass
class Together(Batch):
    """Batch or pack that keeps its samples."""

    samples: list[Any]
    drawn: str


class Kept(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose batches and packs keep their samples; all hooks are stateless."""

    decoder = None

    @stateless(restore_seeds=True)
    def encode_sample(self, sample: Any) -> Any:
        return TextSample.extend(sample, text=f"{sample.text} {self.current_sample_index} {draws()}")

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[::2], samples[1::3]]

    @stateless(restore_seeds=True)
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return self.batch(samples)

    @stateless(restore_seeds=True)
    def batch(self, samples: list[Any]) -> Any:
        return Together(__key__=[sample.__key__ for sample in samples], samples=samples, drawn=draws())

    @stateless(restore_seeds=True)
    def encode_batch(self, batch: Any) -> Any:
        return Together.extend(batch, drawn=f"{batch.drawn} {self.current_batch_index} {draws()}")


class KeptYielding(Kept):
    @stateless(restore_seeds=True)
    def encode_sample(self, sample: TextSample) -> Any:
        for number in range(3):
            yield TextSample.extend(sample, text=f"{sample.text} {number} {draws()}")

    @stateless(restore_seeds=True)
    def postencode_sample(self, sample: TextSample) -> Any:
        for number in range(2):
            yield TextSample.extend(sample, text=f"{sample.text} {number} {draws()}")

    preencode_sample = encode_sample


class KeptCrude(Kept):
    """Encoder of samples that are dicts."""

    @stateless(restore_seeds=True)
    def encode_sample(self, sample: dict[str, Any]) -> Any:
        return {**sample, "txt": f"{sample['txt']} {draws()}"}

    @stateless(restore_seeds=True)
    def batch(self, samples: list[Any]) -> Any:
        return Together(__key__=[sample["__key__"] for sample in samples], samples=samples, drawn=draws())


class KeptCooking(Kept):
    cookers = [Cooker(stateless(restore_seeds=True)(partial(cook_text)))]


class KeptGroups(Kept):
    def batch_group_criterion(self, sample: TextSample) -> tuple[Hashable, int | None]:
        return number_in(sample) % 3, None
