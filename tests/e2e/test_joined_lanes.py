"""Passes that end, with hooks that drop or regroup samples: full batches, and each sample once over any resume."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    RepeatDataset,
    SavableDataset,
    SkipSample,
    SortPoolDataset,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)
from loader.training.workers import worker_messages
from tests.e2e.drawing_encoders import Augmented, number_in
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import Pipeline, Run, Spread, check_every_save, fingerprint, running, through_json
from tests.representative import every_value_once

SAMPLES = 157


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("joined") / "texts")


class Numbers(Augmented):
    """Encoder whose batches are lists of texts, which start with the number of the sample."""

    def encode_sample(self, sample: TextSample) -> Any:
        return TextSample.extend(sample, text=f"<{number_in(sample)}>")

    def batch(self, samples: list[Any]) -> Any:
        return TextSample.derive_from(samples[0], text=[sample.text for sample in samples])

    def encode_batch(self, batch: Any) -> Any:
        return batch


class Twice(Numbers):
    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        for _ in range(1 + number_in(sample) % 2):
            yield super().encode_sample(sample)


class Skips(Numbers):
    def encode_sample(self, sample: TextSample) -> Any:
        if number_in(sample) % 7 in (0, 1, 3):
            raise SkipSample
        return super().encode_sample(sample)


class Groups(Numbers):
    def batch_group_criterion(self, sample: TextSample) -> tuple[Hashable, int | None]:
        return int(sample.text.strip("<>")) % 3, None


class Packs(Numbers):
    """Encoder that packs neighbours by length, all of them."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        samples = sorted(samples, key=lambda sample: sample.text)
        return [samples[place : place + 2] for place in range(0, len(samples), 2)]

    @stateless
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return TextSample.derive_from(samples[0], text="+".join(sample.text for sample in samples))


class PackedGenerators(Packs):
    """Encoder in which every kind of stage waits: generators before and after packing."""

    @stateless
    def preencode_sample(self, sample: TextSample) -> Iterator[Any]:
        yield TextSample.extend(sample, text=f"<{number_in(sample)}>")
        if number_in(sample) % 5 == 0:
            yield TextSample.extend(sample, text=f"<{number_in(sample)}>")

    @stateless
    def pack_selected_samples(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield TextSample.derive_from(sample, text=sample.text)


class Copies(Twice):
    """Encoder that makes two of each batch."""

    @stateless
    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for _ in range(2):
            yield TextSample.derive_from(batch, text=batch.text)


def load(texts: Path, config: WorkerConfig, *, encoder: type[Any], val: bool, **options: Any) -> SavableDataset[Any]:
    options = {"batch_size": 8} | options
    if val:
        return get_val_dataset(texts, split_part="train", worker_config=config, task_encoder=encoder(), **options)
    return get_train_dataset(
        texts,
        worker_config=config,
        task_encoder=encoder(),
        repeat=False,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        **options,
    )


def batched_by_hand(texts: Path, config: WorkerConfig, *, val: bool) -> SavableDataset[Any]:
    encoder = Twice()
    return BatchDataset(load(texts, config, encoder=Twice, val=val, batch_size=None), 8, encoder.batch)


def sorted_pools(texts: Path, config: WorkerConfig, *, val: bool) -> SavableDataset[Any]:
    samples = load(texts, config, encoder=Twice, val=val, batch_size=None)
    return SortPoolDataset(samples, 24, number_in, batch_size=8, batcher=Twice().batch)


def repeated_pools(texts: Path, config: WorkerConfig, *, val: bool) -> SavableDataset[Any]:
    return RepeatDataset(sorted_pools(texts, config, val=val), repeats=2)


def repeated(texts: Path, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    return RepeatDataset(load(texts, config, **options), repeats=2)


def one_after_another(texts: Path, config: WorkerConfig, *, val: bool) -> SavableDataset[Any]:
    packed = load(texts, config, encoder=Packs, val=val, packing_buffer_size=10)
    return ConcatDataset(
        load(texts, config, encoder=Skips, val=val), load(texts, config, encoder=Twice, val=val), packed
    )


def blended_by_volume(texts: Path, config: WorkerConfig, *, val: bool) -> SavableDataset[Any]:
    packed = load(texts, config, encoder=Packs, val=val, packing_buffer_size=10)
    grouped = load(texts, config, encoder=Groups, val=val)
    return BlendDataset((grouped, 2), (packed, 1), size=texts_of, unit="texts")


def texts_of(batch: Any) -> int:
    return len(batch.text)


@dataclass(frozen=True)
class Case:
    build: Callable[..., SavableDataset[Any]]
    expected: Callable[[int], int]  # sample → how often it comes
    groups: int = 1  # short batches of a worker
    batch: int = 8
    is_repeated: bool = False
    makes_ahead: bool = False  # short batches wait in pools: a resumed run delivers those of the workers before it


CASES = {
    "generator": Case(partial(load, encoder=Twice), lambda number: 1 + number % 2),
    "skips": Case(partial(load, encoder=Skips), lambda number: number % 7 not in (0, 1, 3)),
    "grouping": Case(partial(load, encoder=Groups), lambda _: 1, groups=3),
    "packing": Case(partial(load, encoder=Packs, packing_buffer_size=10), lambda _: 1),
    "packing, generators": Case(
        partial(load, encoder=PackedGenerators, packing_buffer_size=9), lambda number: 1 + (number % 5 == 0)
    ),
    "by hand": Case(batched_by_hand, lambda number: 1 + number % 2),
    "sorted pools": Case(sorted_pools, lambda number: 1 + number % 2, makes_ahead=True),
    "repeated pools": Case(
        repeated_pools, lambda number: 2 + 2 * (number % 2), groups=2, is_repeated=True, makes_ahead=True
    ),
    "repeated": Case(partial(repeated, encoder=Twice), lambda number: 2 + 2 * (number % 2), groups=2, is_repeated=True),
    "repeated skips": Case(
        partial(repeated, encoder=Skips), lambda number: 2 * (number % 7 not in (0, 1, 3)), groups=2, is_repeated=True
    ),
    "repeated grouping": Case(partial(repeated, encoder=Groups), lambda _: 2, groups=6, is_repeated=True),
    "repeated copies": Case(
        partial(repeated, encoder=Copies), lambda number: 4 + 4 * (number % 2), groups=6, is_repeated=True
    ),
    "one after another": Case(
        one_after_another, lambda number: (number % 7 not in (0, 1, 3)) + 1 + number % 2 + 1, groups=3
    ),
}
BLENDED = Case(blended_by_volume, lambda _: 2, groups=SAMPLES)
"""A blend opens an input when its first item is due, so a lane that ends early finds none of others."""
ORDERS = [True, False]  # of validation, of training


def pipeline_of(case: Case, texts: Path, *, val: bool, lanes: int = 12) -> Pipeline:
    return Pipeline(build=partial(case.build, texts, val=val), batches=None, known_ahead=False, lanes=lanes)


def finished(run: Run) -> list[bytes]:
    while run.step():
        pass
    return list(run.delivered.values())


def sizes(batches: Sequence[bytes]) -> list[int]:
    """Return the numbers of items of batches; an item is a text with one or more samples."""
    return [len(re.findall(rb"str\('<", batch)) for batch in batches]


def samples_in(batches: Sequence[bytes]) -> Counter[int]:
    return Counter(int(number) for batch in batches for number in re.findall(rb"<(\d+)>", batch))


def check(case: Case, parts: Sequence[tuple[Sequence[bytes], int]], what: str) -> None:
    """Check a pass that was delivered in parts, each by a number of workers."""
    expected = Counter({number: case.expected(number) for number in range(SAMPLES) if case.expected(number)})
    found = samples_in([batch for batches, _ in parts for batch in batches])
    assert found == expected, f"{what}: lost {expected - found}, repeated {found - expected}"
    for place, (batches, workers) in enumerate(parts):
        short = [size for size in sizes(batches) if size != case.batch]
        # The lanes of a resumed worker may be in different passes.
        makers = max(earlier for _, earlier in parts[: place + 1]) if case.makes_ahead else workers
        groups = (makers + (case.is_repeated and place > 0)) * case.groups
        assert len(short) <= groups, f"{what}: short batches of {short}"
        assert all(size < case.batch for size in short)


@pytest.mark.parametrize("ranks", [(1, 3, 6), pytest.param((2, 4), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "val"), every_value_once(CASES, ORDERS))
@pytest.mark.sampled(6)
def test_at_most_one_batch_of_a_worker_is_short(name: str, val: bool, ranks: tuple[int, ...], texts: Path) -> None:
    for spread in map(Spread, ranks):
        with running(pipeline_of(CASES[name], texts, val=val), spread) as run:
            check(CASES[name], [(finished(run), spread.ranks)], f"{spread}")


@pytest.mark.parametrize("every", [None, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "val"), every_value_once(CASES, ORDERS))
@pytest.mark.sampled(5)
def test_each_sample_comes_once_if_a_pass_is_resumed_on_other_ranks(
    name: str, every: int | None, val: bool, texts: Path
) -> None:
    case = CASES[name]
    every = every or (60 if case.is_repeated else 18)
    pipeline = pipeline_of(case, texts, val=val)
    for saved_by, restored_by in ((Spread(2), (Spread(3), Spread(1))), (Spread(1), (Spread(4), Spread(2)))):
        with running(pipeline, saved_by) as run:
            step, more = 0, True
            while more:
                if step % every == 0:
                    check_resumed_twice(case, pipeline, run, restored_by, f"{saved_by}, saved at step {step}")
                more = run.step()
                step += 1


def check_resumed_twice(case: Case, pipeline: Pipeline, run: Run, spreads: tuple[Spread, Spread], what: str) -> None:
    """Continue a run on other ranks, and after some steps on others again."""
    parts = [(list(run.delivered.values()), run.spread.ranks)]
    with running(pipeline, spreads[0], through_json(run.states())) as second:
        for _ in range(3):
            second.step()
        parts.append((list(second.delivered.values()), spreads[0].ranks))
        states = through_json(second.states())
    if not all(state["ended"] for state in states):  # otherwise the next pass would follow
        with running(pipeline, spreads[1], states) as third:
            parts.append((finished(third), spreads[1].ranks))
    check(case, parts, f"{what}, resumed on {spreads}")


@pytest.mark.parametrize(("name", "val"), every_value_once([*CASES, "blended by volume"], ORDERS))
@pytest.mark.sampled(6)
def test_a_pass_that_is_resumed_on_as_many_ranks_continues_with_the_same_batches(
    name: str, val: bool, texts: Path
) -> None:
    case = CASES.get(name, BLENDED)
    every = 5 if case is BLENDED else 17
    check_every_save(pipeline_of(case, texts, val=val, lanes=4), Spread(1), [Spread(1)], every=every)


@pytest.mark.parametrize("val", ORDERS)
@pytest.mark.sampled(2)
def test_each_sample_of_a_blend_by_volume_comes_once_if_its_pass_is_resumed(val: bool, texts: Path) -> None:
    pipeline = pipeline_of(BLENDED, texts, val=val)
    with running(pipeline, Spread(2)) as run:
        for step in range(19):
            if step % 6 == 0:
                check_resumed_twice(BLENDED, pipeline, run, (Spread(1), Spread(3)), f"saved at step {step}")
            run.step()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(6)
def test_a_batch_with_samples_of_several_lanes_is_restored_by_its_key(name: str, texts: Path) -> None:
    pipeline = pipeline_of(CASES[name], texts, val=True)
    loader, again = (get_savable_loader(pipeline.build(pipeline.config(0, Spread()))) for _ in range(2))
    batches = list(loader)
    assert any("lane" in str(batch.__restore_key__) for batch in batches)
    for batch in batches:
        assert fingerprint(again.restore_sample(batch.__restore_key__)) == fingerprint(batch)


@pytest.mark.parametrize("name", ["generator", "skips", "grouping", "packing, generators", "sorted pools"])
@pytest.mark.sampled(4)
def test_worker_processes_share_a_pass_and_resume_it(name: str, texts: Path) -> None:
    case, val = CASES[name], name != "skips"
    pipeline = pipeline_of(case, texts, val=val, lanes=12)
    with running(pipeline, Spread(1, 2)) as run:
        for _ in range(7):
            run.step()
        before, states = list(run.delivered.values()), through_json(run.states())
        check(case, [(finished(run), 2)], "2 workers")
    with running(pipeline, Spread(2, 0), states) as run:
        check(case, [(before, 2), (finished(run), 2)], "resumed without workers")
    with running(pipeline, Spread(1, 3), states) as run:
        check(case, [(before, 2), (finished(run), 3)], "resumed on 3 workers")


class OneEach(Numbers):
    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        yield super().encode_sample(sample)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("val", ORDERS)
@pytest.mark.sampled(3)
def test_the_batches_of_one_worker_are_those_of_megatron_energon(val: bool, drop_last: bool, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "texts", train=(300, 200))
    for encoder in (Numbers, OneEach):
        for lanes in (48, 1, 5):
            build = partial(load, data, encoder=encoder, val=val, batch_size=32, batch_drop_last=drop_last)
            pipeline = Pipeline(build=build, batches=None, known_ahead=False, lanes=lanes)
            with running(pipeline, Spread()) as run:
                assert sizes(finished(run)) == ([32] * 15 if drop_last else [32] * 15 + [20])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("ranks", "workers"), [(1, 0), (3, 0), (1, 2)])
@pytest.mark.sampled(3)
def test_the_length_of_sorted_pools_is_their_number_of_batches(
    ranks: int, workers: int, drop_last: bool, texts: Path
) -> None:
    for rank in range(ranks):
        config = WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=12)
        samples = load(texts, config, encoder=Numbers, val=False, batch_size=None)
        pools = SortPoolDataset(samples, 24, number_in, batch_size=8, batcher=list, drop_last=drop_last)
        with get_savable_loader(pools) as loader:
            assert len(loader) == len(list(loader))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.sampled(2)
def test_a_worker_finishes_a_repeated_pass_before_the_next(drop_last: bool, texts: Path) -> None:
    for encoder, samples in ((Twice, 235), (Groups, 157), (Skips, 88)):
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=12)
        dataset = RepeatDataset(load(texts, config, encoder=encoder, val=False, batch_drop_last=drop_last))
        with get_savable_loader(dataset) as loader:
            texts_of_3_passes: list[str] = []
            for batch in loader:
                texts_of_3_passes += batch.text
                if len(texts_of_3_passes) >= 3 * (samples - 21 * drop_last):
                    break
        if not drop_last and encoder is not Skips:  # lanes that know their share begin the next pass by themselves
            passes = [texts_of_3_passes[start : start + samples] for start in range(0, 3 * samples, samples)]
            assert Counter(passes[0]) == Counter(passes[1]) == Counter(passes[2])
            assert len(set(map(tuple, passes))) == 3
        assert max(Counter(texts_of_3_passes).values()) <= (8 if encoder is Twice else 5)


def test_a_pass_that_is_blended_with_an_endless_dataset_ends_with_one_short_batch(texts: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=12)
    once, endless = (load(texts, config, encoder=encoder, val=False) for encoder in (Twice, Packs))
    with get_savable_loader(BlendDataset((once, 3), (RepeatDataset(endless), 1))) as loader:
        found = [len(batch.text) for batch in islice(loader, 120)]
    assert sum(size < 8 for size in found) <= 6, "one, and one of each repeated pass"


def test_excluded_samples_do_not_shrink_batches(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "texts")
    numbers = range(20, 41)  # in the first shard
    exclude(data, *(f"train_0.tar/{number:05d}" for number in numbers))
    for val in (True, False):
        case = Case(partial(load, encoder=Numbers), lambda number: number not in numbers)
        with running(pipeline_of(case, data, val=val), Spread(2)) as run:
            check(case, [(finished(run), 2)], "excluded")


# ---------------------------------------------------------------------------------------- few samples, stored order


@pytest.mark.parametrize(("name", "spread"), every_value_once(CASES, [Spread(3), Spread(1, 2), Spread(1, 4)]))
@pytest.mark.sampled(6)
def test_fewer_samples_than_ranks_workers_and_lanes(spread: Spread, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    data = write_texts(tmp_path / "texts", train=(2,))
    for val in (True, False):
        pipeline = Pipeline(build=partial(case.build, data, val=val), batches=None, known_ahead=False, lanes=48)
        with running(pipeline, spread) as run:
            found = samples_in(finished(run))
        assert found == Counter({number: case.expected(number) for number in range(2) if case.expected(number)})


@pytest.mark.parametrize("encoder", [Numbers, Twice, Groups, Packs])
@pytest.mark.sampled(4)
def test_few_samples_repeat_on_all_ranks_and_workers(encoder: type[Any], tmp_path: Path) -> None:
    data = write_texts(tmp_path / "texts", train=(2,))
    options: dict[str, Any] = {"packing_buffer_size": 4} if encoder is Packs else {}
    for ranks, workers in ((1, 3), (3, 0)):
        for rank in range(ranks):
            dataset = get_train_dataset(
                data,
                batch_size=3,
                shuffle_buffer_size=10,
                max_samples_per_sequence=None,
                task_encoder=encoder(),
                worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers),
                **options,
            )
            loader = get_savable_loader(dataset)
            assert [len(batch.text) for batch in islice(loader, 7)] == [3] * 7
            loader.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.sampled(6)
def test_a_run_that_is_not_shuffled_follows_the_dataset(ranks: int, workers: int, repeat: bool, texts: Path) -> None:
    loaders = [
        get_savable_loader(
            get_train_dataset(
                texts,
                batch_size=8,
                shuffle_buffer_size=None,
                max_samples_per_sequence=None,
                shuffle_over_epochs_multiplier=None,
                repeat=repeat,
                task_encoder=OneEach(),
                worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=12),
            )
        )
        for rank in range(ranks)
    ]
    found = []
    for step in zip(*(islice(loader, 24) for loader in loaders), strict=False):
        found += [text for batch in step for text in batch.text]
    for loader in loaders:
        loader.close()
    assert len(found) >= 144
    assert found == [f"<{number % SAMPLES}>" for number in range(len(found))]


def test_threads_that_pin_memory_send_the_states_of_all_lanes(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(worker_messages, "pin_memory", lambda batch: batch)
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=12)
    case = CASES["generator"]
    for steps in (3, 9, 14, 19, 24):
        texts_of: list[str] = []
        states = None
        for count in (steps, None):
            dataset = case.build(texts, config, val=True)
            with get_savable_loader(dataset, worker_type="thread", pin_memory=True) as loader:
                if states is not None:
                    loader.restore_state_rank(states)
                for batch in islice(loader, count):
                    texts_of += batch.text
                states = loader.save_state_rank()
        found = Counter(int(text.strip("<>")) for text in texts_of)
        expected = Counter({number: case.expected(number) for number in range(SAMPLES)})
        assert found == expected, f"after {steps}: lost {expected - found}, repeated {found - expected}"
