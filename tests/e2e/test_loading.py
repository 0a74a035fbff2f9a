"""Promises of every loader to a training loop."""

from __future__ import annotations

import gc
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from loader import (
    BatchDataset,
    ConfigError,
    EPath,
    FilterDataset,
    LimitDataset,
    MapDataset,
    RepeatDataset,
    SavableDataLoader,
    SavableDataset,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_datasets,
)
from tests.e2e.drawing_encoders import Grouping, PackingTwice, Skipping, Yielding, cook_text, draws
from tests.e2e.drawing_pipelines import Build, Data, is_odd, train, val, write_data
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import fingerprint
from tests.representative import every_value_once

SPREADS = [(1, 0), (2, 0), (3, 0), (5, 0), (1, 2), (2, 3)]  # ranks and workers


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("loading"))


def loader_of(build: Build, data: Data, *, rank: int = 0, ranks: int = 1, workers: int = 0, **options: Any) -> Any:
    return get_loader(build(data, WorkerConfig(rank=rank, world_size=ranks, num_workers=workers)), **options)


def loaders_of(build: Build, data: Data, ranks: int, workers: int) -> list[SavableDataLoader[Any]]:
    return [loader_of(build, data, rank=rank, ranks=ranks, workers=workers) for rank in range(ranks)]


def keys_of(batches: Iterable[Any]) -> list[list[str]]:
    """Return the keys of the samples of some batches."""
    return [list(batch.__key__) for batch in batches]


def first(loader: Iterable[Any], count: int) -> list[Any]:
    """Return the first micro-batches, and leave the loop like ``break``."""
    return [batch for _, batch in zip(range(count), loader, strict=False)]


def in_turn(by_rank: list[list[Any]]) -> list[Any]:
    """Return the batches of all ranks in the order of the run."""
    longest = max(map(len, by_rank))
    return [batches[step] for step in range(longest) for batches in by_rank if step < len(batches)]


VAL_KEYS = [
    f"val_{shard}.tar/{number:05d}"
    for shard, numbers in enumerate((range(157, 177), range(177, 178), range(178, 218)))
    for number in numbers
]
VAL_BATCHES = [VAL_KEYS[start : start + 4] for start in range(0, 61, 4)]
TRAIN_NUMBERS = list(range(157))


def numbers_of(batches: Iterable[Any]) -> list[int]:
    return [int(key[-5:]) for keys in keys_of(batches) for key in keys]


# --------------------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(("ranks", "workers"), SPREADS)
@pytest.mark.sampled(4)
def test_validation_gives_each_sample_once_in_the_order_of_the_dataset(ranks: int, workers: int, data: Data) -> None:
    loaders = loaders_of(partial(val, encoder=TaskEncoder, batch_size=4), data, ranks, workers)
    for _ in range(2):  # each pass
        assert in_turn([keys_of(loader) for loader in loaders]) == VAL_BATCHES


@pytest.mark.parametrize(("ranks", "workers"), SPREADS)
@pytest.mark.sampled(2)
def test_ranks_that_must_be_even_end_together_and_drop_the_least(ranks: int, workers: int, data: Data) -> None:
    build = partial(val, encoder=TaskEncoder, batch_size=4, even_ranks=True)
    loaders = loaders_of(build, data, ranks, workers)
    by_rank = [keys_of(loader) for loader in loaders]
    assert {len(batches) for batches in by_rank} == {16 // ranks} == {len(loader) for loader in loaders}
    assert in_turn(by_rank) == VAL_BATCHES[: 16 // ranks * ranks]
    assert [keys_of(loader) for loader in loaders] == by_rank


def test_validation_starts_over_after_a_break(data: Data) -> None:
    loader = loader_of(partial(val, encoder=TaskEncoder, batch_size=4), data)
    assert keys_of(first(loader, 3)) == VAL_BATCHES[:3]
    assert keys_of(loader) == VAL_BATCHES


def test_a_limit_ends_each_pass_of_validation_on_each_rank(data: Data) -> None:
    loaders = loaders_of(partial(val, encoder=TaskEncoder, batch_size=4, limit=3), data, 2, 0)
    for _ in range(2):
        assert in_turn([keys_of(loader) for loader in loaders]) == VAL_BATCHES[:6]
    assert [len(loader) for loader in loaders] == [3, 3]
    assert len(loader_of(partial(val, batch_size=4, limit=99), data)) == 16


def test_a_limit_of_none_gives_nothing(data: Data) -> None:
    assert list(loader_of(partial(val, limit=0), data)) == []


def test_a_last_smaller_batch_may_be_dropped(data: Data) -> None:
    loader = loader_of(partial(val, encoder=TaskEncoder, batch_size=4, batch_drop_last=True), data)
    assert keys_of(loader) == VAL_BATCHES[:-1]
    assert len(loader) == 15


@pytest.mark.parametrize(("ranks", "workers"), [(1, 0), (3, 0), (2, 2)])
@pytest.mark.sampled(4)
def test_packed_validation_gives_the_same_packs_of_full_buffers_in_each_pass(
    ranks: int, workers: int, data: Data
) -> None:
    build = partial(val, encoder=PackingTwice, packing_buffer_size=5, batch_size=1)
    loaders = loaders_of(build, data, ranks, workers)
    passes = [Counter(fingerprint(batch) for loader in loaders for batch in loader) for _ in range(2)]
    assert 20 < passes[0].total() <= 2 * (12 + ranks * max(1, workers))  # two packs of each buffer
    assert passes[0] == passes[1]


def test_a_validation_dataset_comes_with_its_source(data: Data) -> None:
    ((dataset, source),) = get_val_datasets(
        data.texts, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0), batch_size=4
    )
    assert (source.path, source.split_part, source.place) == (EPath(data.texts), "val", "")
    assert keys_of(get_loader(dataset)) == VAL_BATCHES


# ----------------------------------------------------------------------------------------------------------- one pass


@pytest.mark.parametrize(("batch_size", "spread"), every_value_once([4, 100, 500], SPREADS))
def test_a_pass_gives_each_sample_once_with_one_short_batch_at_most(
    spread: tuple[int, int], batch_size: int, data: Data
) -> None:
    ranks, workers = spread
    loaders = loaders_of(partial(train, encoder=TaskEncoder, repeat=False, batch_size=batch_size), data, ranks, workers)
    batches = in_turn([list(loader) for loader in loaders])
    assert sorted(numbers_of(batches)) == TRAIN_NUMBERS != numbers_of(batches)
    sizes = [len(batch.__key__) for batch in batches]
    assert sizes == [batch_size] * (157 // batch_size) + [157 % batch_size] * (157 % batch_size > 0)
    assert [len(loader) for loader in loaders] == [len(range(rank, len(sizes), ranks)) for rank in range(ranks)]


def test_the_pass_after_a_pass_gives_each_sample_again(data: Data) -> None:
    loader = loader_of(partial(train, encoder=TaskEncoder, repeat=False), data)
    for _ in range(2):
        assert sorted(numbers_of(loader)) == TRAIN_NUMBERS


def test_a_pass_goes_on_after_a_break(data: Data) -> None:
    loader = loader_of(partial(train, encoder=TaskEncoder, repeat=False), data)
    start = numbers_of(first(loader, 7))
    assert sorted(start + numbers_of(loader)) == TRAIN_NUMBERS


@pytest.mark.parametrize("batch_size", [2, None])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.sampled(3)
def test_a_pass_in_which_samples_give_several_loses_none(batch_size: int | None, ranks: int, data: Data) -> None:
    expected = [number for number in TRAIN_NUMBERS for _ in range(number % 4)]
    for encoder in (Yielding, HiddenYielding):
        loaders = loaders_of(partial(train, encoder=encoder, repeat=False, batch_size=batch_size), data, ranks, 0)
        keys = [batch.__key__ for loader in loaders for batch in loader]
        found = [int(key[-5:]) for key in keys] if batch_size is None else numbers_of_keys(keys)
        assert sorted(found) == expected


class HiddenYielding(Yielding):
    def encode_sample(self, sample: TextSample) -> Any:
        return super().encode_sample(sample)  # a generator, which cannot be seen from outside


def numbers_of_keys(keys: Iterable[Iterable[str]]) -> list[int]:
    return [int(key[-5:]) for inner in keys for key in inner]


# ------------------------------------------------------------------------------------------------- training without end


def test_training_goes_on_where_the_loop_was_left(data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 30)]
    loader = loader_of(train, data)
    parts = [first(loader, count) for count in (1, 0, 4, 25)]
    assert [fingerprint(batch) for part in parts for batch in part] == expected


def test_worker_processes_go_on_where_the_loop_was_left(data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 20)]
    loader = loader_of(train, data, workers=2)
    parts = [first(loader, 8), first(loader, 12)]
    assert [fingerprint(batch) for part in parts for batch in part] == expected
    loader.close()


def test_a_closed_loader_goes_on_behind_what_it_delivered_and_not_behind_what_was_made_ahead(data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 12)]
    loader = loader_of(train, data, workers=2)
    found = first(loader, 5)
    loader.close()
    found += first(loader, 7)
    loader.close()
    assert [fingerprint(batch) for batch in found] == expected


def test_each_epoch_of_training_has_every_sample_before_the_next_begins(data: Data) -> None:
    loader = loader_of(partial(train, encoder=TaskEncoder, batch_size=1), data)
    numbers = numbers_of(first(loader, 157 * 2))
    counts = Counter(numbers)
    assert counts.keys() == set(TRAIN_NUMBERS)
    assert max(counts.values()) <= 3  # lanes may be a few samples apart


def test_a_second_iteration_ends_the_first(data: Data) -> None:
    loader = loader_of(train, data)
    one = iter(loader)
    next(one)
    next(iter(loader))
    with pytest.raises(StateError, match="this iteration of the loader is over"):
        next(one)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_virtual_epoch_has_its_length_and_the_next_goes_on(workers: int, data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 15)]
    loader = loader_of(partial(train, virtual_epoch_length=5), data, workers=workers)
    epochs = [[fingerprint(batch) for batch in loader] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [5, 5, 5]
    assert len(loader) == 5
    assert [batch for epoch in epochs for batch in epoch] == expected
    loader.close()


def test_a_virtual_epoch_that_was_left_is_finished_by_the_next_iteration(data: Data) -> None:
    loader = loader_of(partial(train, virtual_epoch_length=5), data)
    assert [len(first(loader, 2)), len(list(loader)), len(list(loader))] == [2, 3, 5]


def test_a_virtual_epoch_runs_over_the_end_of_a_pass(data: Data) -> None:
    build = partial(train, path="more", encoder=TaskEncoder, repeat=False, batch_size=4, virtual_epoch_length=7)
    loader = loader_of(build, data)
    numbers = [number for _ in range(10) for number in numbers_of(loader)]
    assert Counter(numbers) == Counter([*range(5000, 5040)] * 7)


def test_a_limit_of_training_ends_an_iteration_and_the_next_goes_on(data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 8)]
    loader = loader_of(lambda data, config: LimitDataset(train(data, config), 4), data)
    assert [fingerprint(batch) for _ in range(2) for batch in loader] == expected
    again = loader_of(lambda data, config: LimitDataset(train(data, config), 4, reset_after_epoch=True), data)
    assert [fingerprint(batch) for _ in range(2) for batch in again] == expected[:4] * 2


def test_a_stage_for_each_item_may_stand_above_one_that_counts_and_others_may_not(data: Data) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    limited = LimitDataset(train(data, config), 4)
    assert len(list(get_loader(MapDataset(limited, lambda batch: batch)))) == 4
    datasets: list[SavableDataset[Any]] = [FilterDataset(limited, bool), BatchDataset(limited, 2)]
    for dataset in datasets:
        with pytest.raises(ConfigError, match="apply limit last"):
            list(get_loader(dataset))


NOMINAL: dict[str, tuple[Build, Callable[[int], int]]] = {
    # The numbers of megatron-energon, for the samples of each worker.
    "endless": (partial(train, batch_size=10), lambda samples: -(-samples // 10)),
    "endless, last dropped": (partial(train, batch_size=10, batch_drop_last=True), lambda samples: samples // 10),
    "single samples": (partial(train, batch_size=None), lambda samples: samples),
    "generator": (partial(train, encoder=Yielding, batch_size=10), lambda samples: -(-samples // 10)),
    "one pass of a generator": (
        partial(train, repeat=False, encoder=Yielding, batch_size=10),
        lambda samples: -(-samples // 10),
    ),
    "packing": (
        partial(train, packing_buffer_size=30, encoder=PackingTwice, batch_size=10),
        lambda samples: -(-samples // 10),
    ),
    "grouping": (partial(train, encoder=Grouping, batch_size=10), lambda samples: samples),
}


@pytest.mark.parametrize("name", NOMINAL)
@pytest.mark.sampled(2)
def test_a_length_that_is_not_known_is_nominal(name: str, data: Data) -> None:
    build, batches = NOMINAL[name]
    for ranks, workers, shares in (
        (1, 0, [[157]]),
        (1, 2, [[79, 78]]),
        (1, 3, [[53, 52, 52]]),
        (2, 2, [[40, 39], [39, 39]]),
        (3, 1, [[53], [52], [52]]),
    ):
        for rank, share in enumerate(shares):
            dataset = build(data, WorkerConfig(rank=rank, world_size=ranks, num_workers=workers))
            assert len(dataset) == len(get_loader(dataset)) == sum(map(batches, share))


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        ({"blend": [{"weight": 1, "path": "texts"}, {"weight": 7, "path": "more"}]}, 157 + 40),
        ({"blend_epochized": [{"repetitions": 1.5, "path": "texts"}, {"path": "more"}]}, 235 + 40),
    ],
    ids=["blend", "repetitions"],
)
def test_the_length_of_a_mix_counts_the_samples_of_its_datasets(
    mix: dict[str, Any], expected: int, data: Data, tmp_path: Path
) -> None:
    for entries in mix.values():
        for entry in entries:
            entry["path"] = str(getattr(data, entry["path"]))
    path = tmp_path / "mix.yaml"
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": mix}}
    path.write_text(yaml.safe_dump(document))
    dataset = get_train_dataset(
        path,
        batch_size=10,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    )
    assert len(dataset) == -(-expected // 10)


def test_a_repeated_virtual_epoch_has_its_length(data: Data) -> None:
    assert len(loader_of(lambda data, config: RepeatDataset(train(data, config, virtual_epoch_length=7)), data)) == 7


@pytest.mark.parametrize("build", [train, val])
def test_a_mistyped_argument_is_told_the_nearest_one(build: Callable[..., SavableDataset[Any]], data: Data) -> None:
    with pytest.raises(TypeError, match="no argument 'drop_last'; did you mean 'batch_drop_last'"):
        loader_of(partial(build, drop_last=True), data)


@pytest.mark.parametrize("build", [train, val])
def test_a_class_is_no_task_encoder(build: Callable[..., SavableDataset[Any]], data: Data) -> None:
    with pytest.raises(TypeError, match=r"found the class Yielding; pass Yielding\(…\)"):
        loader_of(partial(build, encoder=lambda: Yielding), data)


# ------------------------------------------------------------------------------------------------------- random numbers


class OnlyBatches(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def batch(self, samples: list[Any]) -> Any:
        batch = super().batch(samples)
        batch.text = draws()
        return batch


class OnlyCooks(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def cook_crude_sample(self, sample: dict[str, Any], **aux: Any) -> Any:
        return cook_text(sample)


RANDOM: dict[str, Build] = {
    "all hooks": train,
    "batch": partial(train, encoder=OnlyBatches),
    "cook_crude_sample": partial(train, encoder=OnlyCooks, path="crude"),
    "SkipSample": partial(train, encoder=Skipping),
    "packing": partial(train, encoder=PackingTwice, packing_buffer_size=5),
    "filter": lambda data, config: FilterDataset(
        train(data, config, batch_size=None, encoder=TaskEncoder), lambda sample: is_odd(sample) and random.random() < 1
    ),
    "map": lambda data, config: MapDataset(
        train(data, config, encoder=TaskEncoder), lambda batch: TextSample.extend(batch, text=draws())
    ),
}


def generators() -> list[Any]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - user code draws from it
    return [random.getstate(), torch.get_rng_state().tolist(), repr(numpy_state)]


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.sampled(3)
def test_without_workers_hooks_and_trainer_do_not_see_each_others_random_numbers(name: str, data: Data) -> None:
    found = []
    for seed in (1, 2):
        seed_all(seed)
        before = generators()
        loader = loader_of(RANDOM[name], data)
        found.append([fingerprint(batch) for batch in first(loader, 10)])
        assert generators() == before
    assert found[0] == found[1]
    assert len({*found[0]}) == 10


def test_another_seed_gives_another_order_and_other_random_numbers(data: Data) -> None:
    found = []
    for seed in (0, 1):
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, seed_offset=seed)
        batches = first(get_loader(train(data, config, batch_size=1)), 157)
        found.append({batch.text[-1].partition(" ")[0] + batch.text[0] for batch in batches})
        assert sorted(numbers_of(batches)) != numbers_of(batches)
    assert not found[0] & found[1]


# ---------------------------------------------------------------------------------------------------- worker processes


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes_give_the_same_however_they_start(method: str, data: Data) -> None:
    expected = [fingerprint(batch) for batch in first(loader_of(train, data), 9)]
    loader = loader_of(train, data, workers=2, multiprocessing_context=method)
    assert [fingerprint(batch) for batch in first(loader, 9)] == expected
    loader.close()


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_workers_end_by_themselves_with_the_last_reference_to_the_loader(in_a_cycle: bool, data: Data) -> None:
    loader = loader_of(train, data, workers=2)
    first(loader, 1)
    workers = multiprocessing.active_children()
    held: list[Any] = [loader]
    if in_a_cycle:  # the garbage collector frees them in any order
        held.append(held)
    del loader, held
    if in_a_cycle:
        gc.collect()
    assert [worker.exitcode for worker in workers] == [0, 0], "none had to be killed"


def test_more_workers_than_lanes_change_nothing(data: Data) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=5, lanes=2)
    loader = get_loader(train(data, config))
    alone = get_loader(train(data, WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)))
    assert [fingerprint(batch) for batch in first(loader, 9)] == [fingerprint(batch) for batch in first(alone, 9)]
    loader.close()


@pytest.mark.parametrize("samples", [1, 2, 63, 65])
@pytest.mark.sampled(4)
def test_small_datasets_give_every_sample_and_never_hang(samples: int, data: Data, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(samples,), val=(1,))
    small = Data(texts=texts, more=texts, crude=texts)
    for ranks in (1, 8):
        loaders = loaders_of(partial(train, encoder=TaskEncoder, repeat=False, batch_size=2), small, ranks, 0)
        assert sorted(numbers_of(in_turn([list(loader) for loader in loaders]))) == list(range(samples))
        endless = loaders_of(partial(train, encoder=TaskEncoder, batch_size=2), small, ranks, 0)
        seen = numbers_of(in_turn([first(loader, 3 * samples) for loader in endless]))
        assert {*seen} == {*range(samples)}


def test_a_loader_refuses_the_worker_config_of_another_dataset(data: Data) -> None:
    dataset = train(data, WorkerConfig(rank=0, world_size=1, num_workers=0))
    with pytest.raises(ConfigError, match="the worker_config differs"):
        get_loader(dataset, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=2))
