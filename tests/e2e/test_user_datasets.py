"""Datasets of users that define ``__iter__``, as for megatron-energon, run and resume in any chain."""

from __future__ import annotations

import base64
import io
import json
import random
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from loader import (
    BatchDataset,
    BlendDataset,
    ConfigError,
    DefaultTaskEncoder,
    EpochizeDataset,
    FilterDataset,
    MapDataset,
    PackingDataset,
    RepeatDataset,
    SavableDataset,
    StateError,
    TextSample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    random_access,
    stateless,
)
from loader.errors import TrustError
from loader.pipeline.contract.restore_keys import add_sample_restore_key
from loader.pipeline.contract.sample_counter import SampleIndex
from loader.pipeline.contract.user_state import decode_state, encode_state
from loader.pipeline.stages.wrapper import BaseWrapperDataset
from loader.stores.cache_pool import NoCachePool
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import (
    Pipeline,
    Spread,
    assert_same,
    check_every_save,
    running,
    through_torch,
    uninterrupted,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* iterates its samples itself:RuntimeWarning")

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("users") / "texts")


def samples(data: Path, config: WorkerConfig, *, repeat: bool = True) -> SavableDataset[Any]:
    """Return single samples of the training part."""
    return get_train_dataset(
        data,
        batch_size=None,
        shuffle_buffer_size=10,
        max_samples_per_sequence=5,
        worker_config=config,
        repeat=repeat,
    )


def batched(dataset: SavableDataset[Any]) -> SavableDataset[Any]:
    return BatchDataset(dataset, 3, DefaultTaskEncoder().batch)


class Shuffled(BaseWrapperDataset[Any]):
    """Yields a random one of the last five samples, unchanged."""

    _savable_fields = ("waiting",)

    def __init__(self, dataset: Any, *, worker_config: WorkerConfig) -> None:
        super().__init__(dataset, worker_config=worker_config)
        self.waiting: list[Any] = []

    def reset_state_own(self) -> None:
        self.waiting = []

    def __iter__(self) -> Iterator[Any]:
        for sample in self.dataset:
            self.waiting.append(sample)
            if len(self.waiting) >= 5:
                yield self.waiting.pop(random.randrange(5))
        while self.waiting:
            yield self.waiting.pop()


class Mixed(SavableDataset[Any]):
    """Alternates between its datasets, which it keeps in a dict, and numbers what it yields."""

    def __init__(self, one: Any, other: Any, worker_config: WorkerConfig) -> None:
        super().__init__(worker_config)
        self.named = {"one": one, "other": [other]}
        self.index = SampleIndex(worker_config, src=self)
        self.items = 0  # type: ignore[misc] # a property of stages

    def reset_state_own(self) -> None:
        self.index = SampleIndex(self.worker_config, src=self)

    def save_state(self) -> dict[str, Any]:
        return {"index": self.index.save_state(), "scale": 0.5, "seen": {-1, 2}, "at": (1, b"x")}

    def restore_state(self, state: Any) -> None:
        assert (state["scale"], state["seen"], state["at"]) == (0.5, {-1, 2}, (1, b"x"))
        self.index.restore_state(state["index"])

    def __iter__(self) -> Iterator[Any]:
        one, other = iter(self.named["one"]), iter(self.named["other"][0])
        while True:
            for number, sample in self.index.iter_ctx(one if self.index.current_idx % 2 else other):
                yield TextSample.derive_from(sample, text=f"{number}: {sample.text}")
                break


class Joined(BaseWrapperDataset[Any]):
    """Joins two samples, and rebuilds the result by its restore key."""

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.dataset)
        for first, second in zip(items, items, strict=False):
            yield self.join(first, second)

    def join(self, first: TextSample, second: TextSample) -> TextSample:
        joined = TextSample.derive_from(first, text=f"{first.text}, {second.text}")
        joined.__restore_key__ = (first.__restore_key__, second.__restore_key__)
        return joined

    def can_restore_sample(self) -> bool:
        return True

    def restore_sample(self, restore_key: Any) -> TextSample:
        return self.join(*map(self.dataset.restore_sample, restore_key))


class Numbers(SavableDataset[Any]):
    """A source without files: its workers divide the numbers."""

    _savable_fields = ("position",)

    def __init__(self, count: int, worker_config: WorkerConfig) -> None:
        super().__init__(worker_config)
        self.count = count
        self.position = 0

    def len_worker(self, worker_idx: int | None = None) -> int:
        return self.count // max(1, self.worker_config.num_workers)

    def __iter__(self) -> Iterator[Any]:
        config = self.worker_config
        config.assert_worker()
        step = config.world_size * max(1, config.num_workers)
        while (number := self.position * step + config.global_worker_id()) < self.count:
            self.position += 1
            yield TextSample(__key__=f"{number}", text=f"{number}")

    def config(self) -> dict[str, Any]:
        return {"type": "Numbers", "count": self.count, "_path": "may change"}


def shuffled(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    return batched(Shuffled(samples(data, config), worker_config=config))


def mixed(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    return batched(Mixed(samples(data, config), samples(data, config), config))


def nested(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    inner = Shuffled(Shuffled(samples(data, config), worker_config=config), worker_config=config)
    return EpochizeDataset(batched(Shuffled(BlendDataset((inner, 2), (inner, 1)), worker_config=config)), 10)


def groups(waiting: list[Any]) -> list[list[Any]]:
    return [waiting[:3], waiting[3:]]


def packed(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    """Pack samples that a user's dataset made, and samples that it passed."""
    made = Joined(samples(data, config), worker_config=config)
    passed = Shuffled(samples(data, config), worker_config=config)
    return PackingDataset(BlendDataset((made, 1), (passed, 1)), 5, groups, DefaultTaskEncoder().batch)


def one_pass(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    return batched(Shuffled(samples(data, config, repeat=False), worker_config=config))


@pytest.mark.parametrize("build", [shuffled, mixed, nested, packed])
@pytest.mark.sampled(2)
def test_runs_resume_on_other_ranks_and_workers(data: Path, build: Any) -> None:
    pipeline = Pipeline(build=partial(build, data), batches=20, lanes=4, known_ahead=False)
    expected = uninterrupted(pipeline, Spread(2))
    for before, after in ((Spread(1, 0), Spread(2, 0)), (Spread(2, 1), Spread(1, 2))):
        with running(pipeline, before) as run:
            while len(run.delivered) < 10:
                run.step()
            delivered, states = run.delivered, [json.loads(json.dumps(state)) for state in run.states()]
        with running(pipeline, after, states) as run:
            while len(run.delivered) < 10:
                run.step()
            assert_same(delivered | run.delivered, expected, f"{before} → {after}")


def test_a_pass_yields_each_sample_once(data: Path) -> None:
    for workers in (0, 2):
        config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
        texts = [text for batch in get_loader(one_pass(data, config)) for text in batch.text]
        assert sorted(texts) == sorted(f"text {number}" for number in range(157))


def test_every_save_of_a_pass_restores(data: Path) -> None:
    pipeline = Pipeline(build=partial(one_pass, data), batches=None, lanes=2, known_ahead=False)
    expected = uninterrupted(pipeline)
    with running(pipeline, Spread()) as run:
        steps = 0
        while run.step():
            steps += 1
            if steps % 7 == 1 or steps >= 51:
                with running(pipeline, Spread(2), through_torch(run.states())) as rest:
                    while rest.step():
                        pass
                    assert_same(run.delivered | rest.delivered, expected, f"saved after {steps}")


def test_a_resumed_pass_joins_the_samples_of_lanes_below_a_user_dataset(data: Path) -> None:
    def build(config: WorkerConfig) -> SavableDataset[Any]:
        numbers = FilterDataset(samples(data, config, repeat=False), is_third)
        return Taken(BatchDataset(numbers, 8, DefaultTaskEncoder().batch))

    pipeline = Pipeline(build=build, batches=None, lanes=4, known_ahead=False)
    check_every_save(pipeline, Spread(), [Spread()])


def is_third(sample: TextSample) -> bool:
    return int(sample.text.removeprefix("text ")) % 3 == 0


class Taken(BaseWrapperDataset[Any]):
    """Passes batches on."""

    def __iter__(self) -> Iterator[Any]:
        yield from self.dataset


def small_batches(data: Path, config: WorkerConfig) -> SavableDataset[Any]:
    """Return batches of a dataset that has fewer than four samples for each of 48 lanes."""
    return get_train_dataset(
        data, batch_size=4, shuffle_buffer_size=10, max_samples_per_sequence=5, worker_config=config
    )


@pytest.mark.slow
def test_each_epoch_of_a_small_dataset_below_a_user_dataset_arrives_whole_and_resumes(data: Path) -> None:
    def build(config: WorkerConfig) -> SavableDataset[Any]:
        return Taken(Taken(small_batches(data, config)))

    pipeline = Pipeline(build=build, batches=100, lanes=48)
    check_every_save(pipeline, Spread(2), [Spread(1), Spread(3, 2), Spread(4)], every=12)
    loader = get_savable_loader(build(pipeline.config(0, Spread())))
    run = [text for batch in islice(loader, 80) for text in batch.text]
    epochs = [run[:157], run[157:314]]
    assert all(len(set(epoch)) == 157 for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert loader.save_state_rank()["deal"] == 4


def test_lanes_deal_no_small_dataset_below_a_user_dataset_of_two(data: Path) -> None:
    both = Mixed(small_batches(data, ALONE), small_batches(data, ALONE), ALONE)
    assert "deal" not in get_savable_loader(both).save_state_rank()
    assert get_savable_loader(small_batches(data, ALONE)).save_state_rank()["deal"] == 4


class Announced(BaseWrapperDataset[Any]):
    """Yields a sample of its own after every second one."""

    _savable_fields = ("taken",)
    taken = 0

    def reset_state_own(self) -> None:
        self.taken = 0

    def can_restore_sample(self) -> bool:
        return True

    def restore_sample(self, restore_key: Any) -> TextSample:
        return TextSample(__key__="own", __restore_key__=restore_key, text=f"{restore_key}")

    def __iter__(self) -> Iterator[Any]:
        while True:
            self.taken += 1
            yield self.restore_sample((self.taken,)) if self.taken % 3 == 0 else next(iter(self.dataset))


def with_a_draw(sample: TextSample) -> TextSample:
    return TextSample.derive_from(sample, text=f"{sample.text} {random.random()}")


def test_samples_of_its_own_keep_their_random_numbers_if_a_run_is_resumed_right_before_one(data: Path) -> None:
    def build(config: WorkerConfig) -> SavableDataset[Any]:
        drawn = MapDataset(Announced(samples(data, config)), stateless(restore_seeds=True)(with_a_draw))
        return BatchDataset(drawn, 2, DefaultTaskEncoder().batch)

    check_every_save(Pipeline(build=build, batches=16, lanes=2), Spread(), [Spread()])


def test_a_source_of_its_own_divides_its_data_among_lanes() -> None:
    for workers in (0, 1, 2):
        config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
        found = [sample.text for sample in get_loader(Numbers(11, config))]
        assert sorted(found, key=int) == [f"{number}" for number in range(11)]


def test_a_source_of_its_own_continues_on_other_ranks_and_workers() -> None:
    pipeline = Pipeline(build=partial(Numbers, 24), batches=None, lanes=4, known_ahead=False)
    expected = {f"{number}" for number in range(24)}
    loaders = [get_savable_loader(Numbers(24, pipeline.config(rank, Spread(2)))) for rank in range(2)]
    found = [sample.text for loader in loaders for sample in islice(loader, 5)]
    states = [loader.save_state_rank() for loader in loaders]
    resumed = get_savable_loader(Numbers(24, pipeline.config(0, Spread(1), restored=True)))
    resumed.restore_state_global(states)
    found += [sample.text for sample in resumed]
    assert len(found) == 24
    assert set(found) == expected


def test_lengths_and_settings_of_a_source() -> None:
    dataset = MapDataset(Numbers(10, ALONE), str)
    assert len(Numbers(10, ALONE)) == Numbers(10, ALONE).len_rank() == 10
    assert "Numbers(count=10)" in str(dataset)
    state = get_savable_loader(dataset).save_state_rank()
    with pytest.raises(StateError, match="count 10 → 12"):
        get_savable_loader(MapDataset(Numbers(12, ALONE), str)).restore_state_rank(state)


def test_a_class_without_samples_is_refused() -> None:
    class Nothing(SavableDataset[Any]):
        pass

    with pytest.raises(TypeError, match="Nothing defines neither __iter__ nor open"):
        next(iter(get_loader(Nothing(ALONE))))


def test_a_repeated_wrapper_starts_over_for_each_pass(data: Path) -> None:
    once = Shuffled(samples(data, ALONE, repeat=False), worker_config=ALONE)
    found = [sample.text for sample in get_loader(RepeatDataset(once, repeats=2))]
    assert (len(found), len(set(found))) == (314, 157)


class Again(BaseWrapperDataset[Any]):
    """Iterates its dataset several times."""

    _savable_fields = ("passes",)

    def reset_state_own(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        while self.passes < 3:
            assert self.worker_has_samples()
            yield from self.dataset
            self.passes += 1


def test_a_wrapper_may_iterate_its_dataset_again(data: Path) -> None:
    pipeline = Pipeline(
        build=lambda config: batched(Again(samples(data, config, repeat=False), worker_config=config)),
        batches=None, lanes=1, known_ahead=False,
    )  # fmt: skip
    expected = uninterrupted(pipeline)
    assert len(expected) == 157
    with running(pipeline, Spread()) as run:
        for _ in range(100):
            run.step()
        with running(pipeline, Spread(), run.states()) as rest:
            while rest.step():
                pass
            assert len(rest.delivered) == 57


class DoubledBlend(BlendDataset[Any]):
    """A stage of the library whose iteration the user changes."""

    def __iter__(self) -> Iterator[Any]:
        for sample in super().__iter__():
            yield sample
            yield sample


def test_a_stage_of_the_library_may_be_derived_from(data: Path) -> None:
    pipeline = Pipeline(
        build=lambda config: batched(DoubledBlend((samples(data, config), 1), (samples(data, config), 1))),
        batches=12, lanes=2, known_ahead=False,
    )  # fmt: skip
    expected = uninterrupted(pipeline)
    with running(pipeline, Spread()) as run:
        for _ in range(4):
            run.step()
        with running(pipeline, Spread(2), run.states()) as rest:
            for _ in range(4):
                rest.step()
            assert_same(run.delivered | rest.delivered, expected, "derived stage")


class Arrays(Shuffled):
    """Saves objects that are not plain data."""

    def save_state(self) -> dict[str, Any]:
        return {**super().save_state(), "generator": random.Random(3)}


def test_objects_in_a_state_are_pickled_with_a_warning(data: Path) -> None:
    loader = get_savable_loader(batched(Arrays(samples(data, ALONE), worker_config=ALONE)))
    with pytest.warns(RuntimeWarning, match=r"Arrays saves a Random at state\.generator: it is pickled"):
        next(iter(loader))
    assert json.loads(json.dumps(loader.save_state_rank()))["lane"]["0"]


@pytest.mark.filterwarnings("ignore:Arrays saves a Random")
def test_a_pickled_object_is_restored_only_if_it_is_trusted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = get_savable_loader(batched(Arrays(samples(data, ALONE), worker_config=ALONE)))
    next(iter(loader))
    state = loader.save_state_rank()
    again = get_savable_loader(batched(Arrays(samples(data, ALONE), worker_config=ALONE)))
    again.restore_state_rank(state)
    with pytest.raises(TrustError, match="pickled object"):
        next(iter(again))
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    again.restore_state_rank(state)
    assert next(iter(again))


@pytest.mark.parametrize(
    "value",
    [np.arange(6.0).reshape(2, 3)[:, 1:], np.float32(1.5), torch.arange(6, dtype=torch.bfloat16)[2:4], np.array("ab")],
    ids=["array", "scalar", "tensor", "text"],
)
def test_arrays_and_tensors_need_no_trust(value: Any) -> None:
    def unexpected(*_: Any) -> None:
        raise AssertionError("pickled")

    text = encode_state({"value": value}, encode_sample=lambda _: None, report_pickled=unexpected)
    restored = decode_state(text, decode_sample=unexpected)["value"]
    assert type(restored) is type(value)
    assert restored.dtype == value.dtype
    assert (restored == value).all()


def array_text(shape: tuple[int, ...], data: bytes = b"") -> str:
    """Return the state of an array whose header has a shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<u8", "fortran_order": False, "shape": shape})
    return json.dumps({"$array": base64.b64encode(file.getvalue() + data).decode()})


def archive_text() -> str:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3))
    return json.dumps({"$array": base64.b64encode(file.getvalue()).decode()})


def list_as_tensor() -> str:
    file = io.BytesIO()
    torch.save([1], file)
    return json.dumps({"$tensor": base64.b64encode(file.getvalue()).decode()})


@pytest.mark.parametrize(
    "text",
    [
        '{"$deque":[]}',
        array_text((1 << 40,)),
        array_text((2,), bytes(8)),
        archive_text(),
        list_as_tensor(),
    ],
    ids=["deque", "huge array", "short array", "archive", "no tensor"],
)
def test_a_damaged_state_is_refused(text: str) -> None:
    with pytest.raises(StateError, match="is damaged"):
        decode_state(text, decode_sample=lambda saved: saved)


def test_a_state_that_contains_itself_cannot_be_saved() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, 10**5000):
        with pytest.raises(StateError, match="cannot save the state"):
            encode_state({"value": value}, encode_sample=lambda _: None, report_pickled=lambda *_: None)


def test_a_masked_array_keeps_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    value = np.ma.array([1, 2], mask=[False, True])
    text = encode_state({"value": value}, encode_sample=lambda _: None, report_pickled=lambda *_: None)
    assert decode_state(text, decode_sample=lambda saved: saved)["value"].mask.tolist() == [False, True]


def test_the_warning_names_what_is_not_restored(data: Path) -> None:
    class Once(Shuffled):
        pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            get_loader(Once(samples(data, ALONE), worker_config=ALONE))
    assert ["Once iterates its samples itself" in str(one.message) for one in caught] == [True]
    assert ["unless it defines restore_sample()" in str(one.message) for one in caught] == [True]


def test_the_warning_asks_for_no_method_that_is_there(data: Path) -> None:
    class Rebuilt(Shuffled):
        def restore_sample(self, restore_key: Any) -> Any:
            return self.dataset.restore_sample(restore_key)

    with pytest.warns(RuntimeWarning, match=r"Rebuilt iterates .* save_state\(\) returns$"):
        get_loader(Rebuilt(samples(data, ALONE), worker_config=ALONE))


class Hidden(SavableDataset[Any]):
    """Iterates a dataset that is in none of its attributes."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.worker_config)
        self.get: Any = lambda: dataset

    def __iter__(self) -> Iterator[Any]:
        yield from self.get()


def test_a_hidden_inner_dataset_is_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="__iter__ of Hidden iterates a DecodeDataset that is in no attribute"):
        next(iter(get_loader(Hidden(samples(data, ALONE)))))


def test_buffers_cannot_hold_samples_that_the_dataset_cannot_rebuild(data: Path) -> None:
    def build() -> SavableDataset[Any]:
        return PackingDataset(mixed_samples(data), 5, groups, DefaultTaskEncoder().batch)

    loader = get_savable_loader(build())
    next(iter(loader))
    resumed = get_savable_loader(build())
    resumed.restore_state_rank(loader.save_state_rank())
    with pytest.raises(StateError, match="Mixed cannot rebuild a sample that waited in the buffer"):
        list(islice(resumed, 5))


def mixed_samples(data: Path) -> SavableDataset[Any]:
    return Mixed(samples(data, ALONE), samples(data, ALONE), ALONE)


# ------------------------------------------------------------------------------------------ iterating directly


def test_a_dataset_is_iterated_as_a_loader_without_workers(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    dataset = get_val_dataset(data, batch_size=4, worker_config=config)
    alone = get_val_dataset(data, batch_size=4, worker_config=ALONE)
    expected = [batch.__key__ for batch in get_loader(alone)]
    assert [batch.__key__ for batch in dataset] == expected
    assert [batch.__key__ for batch in dataset] == expected


def test_an_iterated_dataset_saves_its_position(data: Path) -> None:
    dataset = samples(data, ALONE)
    before = [sample.text for sample in islice(dataset, 5)]
    state = dataset.save_state()
    after = [sample.text for sample in islice(dataset, 5)]
    again = samples(data, ALONE)
    again.restore_state(state)
    assert [sample.text for sample in islice(again, 5)] == after
    dataset.reset_state_deep()
    assert [sample.text for sample in islice(dataset, 5)] == before


class Outside(IterableDataset[Any]):
    """A torch dataset around a dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[str]:
        for sample in self.dataset:
            yield sample.text


@pytest.mark.parametrize("workers", [0, 2])
def test_the_workers_of_a_torch_loader_divide_an_iterated_dataset(data: Path, workers: int) -> None:
    dataset = samples(data, WorkerConfig(rank=0, world_size=1, num_workers=workers), repeat=False)
    found = list(DataLoader(Outside(dataset), batch_size=None, num_workers=workers))
    assert sorted(found) == sorted(f"text {number}" for number in range(157))


def test_restore_keys_are_prefixed_as_by_the_wrappers_there(data: Path) -> None:
    sample = next(iter(samples(data, ALONE)))
    key = sample.__restore_key__
    assert add_sample_restore_key(sample, 3, src=sample).__restore_key__ == ("TextSample", 3, *key)


def test_random_access_datasets_are_iterable_for_type_checkers(data: Path) -> None:
    found = random_access(data, task_encoder=DefaultTaskEncoder())
    assert isinstance(found, Iterable)
    assert [sample.text for sample in islice(iter(found), 2)] == ["text 0", "text 1"]


# ----------------------------------------------------------------------------- the hooks of version 8's guide


class Opening(BaseWrapperDataset[Any]):
    """Opens something in each lane, and logs what it releases."""

    _worker_local_fields = ("opened",)

    def __init__(self, dataset: SavableDataset[Any], *, log: Path) -> None:
        super().__init__(dataset, worker_config=dataset.worker_config)
        self.opened: list[str] = []
        self.log = log

    def __iter__(self) -> Iterator[Any]:
        self.opened.append("handle")
        yield from self.dataset

    def worker_close(self) -> None:
        with self.log.open("a") as file:
            file.write(f"worker_close {len(self.opened)}\n")

    def close(self) -> None:
        with self.log.open("a") as file:
            file.write("close\n")


class ClosingPool(NoCachePool):
    """Logs the workers that it serves."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def worker_init(self) -> None:
        with self.log.open("a") as file:
            file.write("pool init\n")

    def worker_close(self) -> None:
        with self.log.open("a") as file:
            file.write("pool close\n")


@pytest.mark.parametrize(("workers", "options"), [(0, {}), (2, {}), (2, {"worker_type": "thread"})])
def test_what_a_worker_opens_is_released_when_it_ends(
    data: Path, tmp_path: Path, workers: int, options: dict[str, Any]
) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    log = tmp_path / "log.txt"
    dataset = Opening(samples(data, config), log=log)
    loader = get_loader(dataset, cache_pool=ClosingPool(log), **options)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    assert sorted(log.read_text().splitlines()) == ["pool init"] * max(1, workers)
    loader.shutdown()
    for thread in threading.enumerate():
        if thread.name.startswith("loader worker"):
            thread.join(5)
    expected = {"close": 1, "pool init": max(1, workers), "pool close": max(1, workers)}
    expected["worker_close 1"] = max(1, workers)  # of each lane
    assert Counter(log.read_text().splitlines()) == expected


def test_a_dataset_is_reset_by_the_name_of_version_8(data: Path) -> None:
    class Fresh(Opening):
        def reset_state(self) -> None:
            self.opened = ["fresh"]

    dataset = Fresh(samples(data, ALONE), log=data)
    dataset.reset_state_deep()
    assert dataset.opened == ["fresh"]
