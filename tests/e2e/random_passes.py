"""Random pipelines of passes that end: stages that skip, multiply, join and buffer samples, nested at random.

Each pipeline is drawn from a seed, and is known to deliver each sample a computed number of times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from loader import (
    BatchDataset,
    ConcatDataset,
    FilterDataset,
    GroupBatchDataset,
    IterMapDataset,
    MapDataset,
    PackedSamplesOutput,
    PackingDataset,
    RepeatDataset,
    SavableDataset,
    ShuffleBufferDataset,
    SkipSample,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_train_dataset,
    get_val_dataset,
    stateless,
)
from loader.pipeline.stages.wrapper import BaseWrapperDataset
from loader.samples import SampleDecoder
from tests.e2e.drawing_encoders import number_in

Samples = Counter[int]
"""Number of the sample → how often it comes."""


class Bracketed(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that writes the number of each sample into its text, as ``<7>``."""

    decoder: SampleDecoder | None = None

    @stateless
    def encode_sample(self, sample: TextSample) -> Any:
        return TextSample.extend(sample, text=f"<{number_in(sample)}>")


class BracketedSkips(Bracketed):
    @stateless
    def encode_sample(self, sample: TextSample) -> Any:
        if number_in(sample) % 3 == 1:
            raise SkipSample
        return super().encode_sample(sample)


class BracketedTwice(Bracketed):
    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        for _ in range(number_in(sample) % 3):
            yield super().encode_sample(sample)


ENCODERS: dict[type[Bracketed], Callable[[int], int]] = {
    Bracketed: lambda _: 1,
    BracketedSkips: lambda number: int(number % 3 != 1),
    BracketedTwice: lambda number: number % 3,
}


def is_kept(sample: TextSample) -> bool:
    return number_of(sample) % 4 != 2


def number_of(sample: TextSample) -> int:
    return int(sample.text.strip("<>").partition("><")[0])


@stateless
def doubled(sample: TextSample) -> Iterator[Any]:
    for _ in range(1 + number_of(sample) % 2):
        yield TextSample.extend(sample, text=sample.text)


def one_by_one(samples: Iterator[Any]) -> Iterator[Any]:
    for sample in samples:
        yield TextSample.derive_from(sample, text=sample.text)


def in_pairs(samples: Iterator[Any]) -> Iterator[Any]:
    for one in samples:
        other = next(samples, None)
        yield joined([one] if other is None else [one, other])


def joined(samples: Sequence[Any]) -> Any:
    return TextSample.derive_from(samples[0], text="".join(sample.text for sample in samples))


def group_of(sample: TextSample) -> tuple[Hashable, int | None]:
    return number_of(sample) % 3, None


def select_all(samples: list[Any]) -> list[list[Any]]:
    samples = sorted(samples, key=lambda sample: sample.text)
    return [samples[place : place + 2] for place in range(0, len(samples), 2)]


def select_and_push_back(samples: list[Any]) -> PackedSamplesOutput[Any]:
    if len(samples) < 3:
        return PackedSamplesOutput(groups=[samples], pushback=[])
    return PackedSamplesOutput(groups=[samples[1:3]], pushback=[samples[0], *samples[3:]][: len(samples) - 2])


@stateless
def packed(samples: list[Any]) -> Any:
    return joined(samples)


@stateless
def unpacked(samples: list[Any]) -> Iterator[Any]:
    for sample in samples:
        yield TextSample.derive_from(sample, text=sample.text)


class HeldBack(BaseWrapperDataset[Any]):
    """A user's dataset: yields each sample after the three that follow it."""

    _savable_fields: ClassVar[tuple[str, ...]] = ("waiting",)

    def __init__(self, dataset: Any, *, worker_config: WorkerConfig) -> None:
        super().__init__(dataset, worker_config=worker_config)
        self.waiting: list[Any] = []

    def reset_state_own(self) -> None:
        self.waiting = []

    def __iter__(self) -> Iterator[Any]:
        for sample in self.dataset:
            self.waiting.append(sample)
            if len(self.waiting) > 3:
                yield self.waiting.pop(0)
        while self.waiting:
            yield self.waiting.pop(0)


Build = Callable[[WorkerConfig], SavableDataset[Any]]
Stage = Callable[[SavableDataset[Any], int], SavableDataset[Any]]


@dataclass(frozen=True)
class Source:
    """A prepared dataset: the numbers of its training samples begin at ``first``."""

    path: Path
    first: int
    samples: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.samples)


@dataclass(frozen=True)
class Drawn:
    """A random pipeline.

    Attributes:
        build: Builds it for a rank.
        expected: Number of the sample → how often it comes.
        text: Description, for messages.
        joins: True if an item may have several samples.
    """

    build: Build
    expected: Samples
    text: str
    joins: bool = False


def draw_pipeline(random: Random, sources: Sequence[Source]) -> Drawn:
    """Draw a pipeline."""
    drawn = _draw_samples(random, sources, depth=random.choice((0, 1, 1, 2)))
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        drawn = _draw_join(random, drawn)
        drawn = _nested(random, drawn, lambda: _draw_join(random, _draw_samples(random, sources, depth=0)))
    return drawn


def _draw_samples(random: Random, sources: Sequence[Source], *, depth: int) -> Drawn:
    """Draw a pipeline of single samples."""
    drawn = _draw_source(random, sources)
    for _ in range(random.choice((0, 1, 1, 2))):
        drawn = _above(drawn, random.choice(_SINGLE), random.choice((1, 3, 8)))
    if depth:
        drawn = _nested(random, drawn, lambda: _draw_samples(random, sources, depth=depth - 1))
        if random.random() < 0.4:
            drawn = _above(drawn, random.choice(_SINGLE), random.choice((1, 4)))
    return drawn


def _draw_source(random: Random, sources: Sequence[Source]) -> Drawn:
    one = random.choice(sources)
    encoder = random.choice(list(ENCODERS))
    options: dict[str, Any] = {
        "val": random.random() < 0.5,
        "shuffle": random.choice((1, 4, 20)),
        "slices": random.choice((None, 3)),
    }
    expected = Counter({number: ENCODERS[encoder](number) for number in one.numbers})
    return Drawn(
        source(one.path, encoder, **options), expected, f"{encoder.__name__}({one.samples} samples, {options})"
    )


def _draw_join(random: Random, drawn: Drawn) -> Drawn:
    """Draw a stage that joins samples; the key of a group needs single samples."""
    stages = [batch_of, packs, pairs] if drawn.joins else [batch_of, packs, pairs, groups]
    return replace(_above(drawn, random.choice(stages), random.choice((2, 3, 8))), joins=True)


def _nested(random: Random, drawn: Drawn, other: Callable[[], Drawn]) -> Drawn:
    """Repeat a pipeline, or concatenate it with another one, or neither."""
    choice = random.random()
    if choice < 0.35:
        parts = [drawn, other()]
        return Drawn(
            concat_of([part.build for part in parts]),
            parts[0].expected + parts[1].expected,
            f"concat({parts[0].text}, {parts[1].text})",
            parts[0].joins or parts[1].joins,
        )
    if choice < 0.6:
        times = random.choice((1, 2, 3))
        expected = Counter({number: times * count for number, count in drawn.expected.items()})
        return Drawn(repeat_of(drawn.build, times), expected, f"repeat({drawn.text}, {times})", drawn.joins)
    return drawn


def _above(drawn: Drawn, stage: Stage, size: int) -> Drawn:
    count = _COUNTS.get(stage, _once)
    return Drawn(
        stage_above(drawn.build, stage, size),
        Counter({number: times * count(number) for number, times in drawn.expected.items()}),
        f"{stage.__name__}({drawn.text}, {size})",
        drawn.joins,
    )


# ------------------------------------------------------------------------------------------------ builders that pickle


def source(path: Path, encoder: type[Bracketed], *, val: bool, shuffle: int = 1, slices: int | None = None) -> Build:
    return partial(_source, path=path, encoder=encoder, val=val, shuffle=shuffle, slices=slices)


def _source(
    config: WorkerConfig, *, path: Path, encoder: type[Bracketed], val: bool, shuffle: int, slices: int | None
) -> SavableDataset[Any]:
    config = replace(config, skip_tolerance=None)  # the samples of a rank may be those that the encoder skips
    if val:
        return get_val_dataset(path, split_part="train", worker_config=config, task_encoder=encoder(), batch_size=None)
    return get_train_dataset(
        path,
        worker_config=config,
        task_encoder=encoder(),
        batch_size=None,
        repeat=False,
        shuffle_buffer_size=shuffle,
        max_samples_per_sequence=slices,
    )


def concat_of(builds: Sequence[Build]) -> Build:
    return partial(_concat, tuple(builds))


def _concat(builds: Sequence[Build], config: WorkerConfig) -> SavableDataset[Any]:
    return ConcatDataset(*(build(config) for build in builds))


def repeat_of(build: Build, times: int) -> Build:
    return partial(_repeat, build, times)


def _repeat(build: Build, times: int, config: WorkerConfig) -> SavableDataset[Any]:
    return RepeatDataset(build(config), repeats=times)


def stage_above(build: Build, stage: Stage, size: int) -> Build:
    return partial(_stage_above, build, stage, size)


def _stage_above(build: Build, stage: Stage, size: int, config: WorkerConfig) -> SavableDataset[Any]:
    return stage(build(config), size)


def filtered(dataset: SavableDataset[Any], _: int) -> SavableDataset[Any]:
    return FilterDataset(dataset, is_kept)


def generated(dataset: SavableDataset[Any], _: int) -> SavableDataset[Any]:
    return MapDataset(dataset, doubled)


def iterated(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return IterMapDataset(dataset, one_by_one, restart_after=None if size == 1 else size)


def shuffled(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return ShuffleBufferDataset(dataset, size)


def repacked(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return PackingDataset(dataset, max(2, size), select_and_push_back, unpacked)


def held_back(dataset: SavableDataset[Any], _: int) -> SavableDataset[Any]:
    return HeldBack(dataset, worker_config=dataset.worker_config)


def batch_of(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return BatchDataset(dataset, size, joined)


def packs(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return PackingDataset(dataset, size, select_all, packed)


def pairs(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return IterMapDataset(dataset, in_pairs, restart_after=None if size == 3 else size)


def groups(dataset: SavableDataset[Any], size: int) -> SavableDataset[Any]:
    return GroupBatchDataset(dataset, size, group_of, joined)


def _once(_: int) -> int:
    return 1


_SINGLE = (filtered, generated, iterated, shuffled, repacked, held_back)
_COUNTS: dict[Any, Callable[[int], int]] = {
    filtered: lambda number: int(number % 4 != 2),
    generated: lambda number: 1 + number % 2,
}
