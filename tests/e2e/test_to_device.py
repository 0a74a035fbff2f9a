"""Micro-batches that are copied to a device ahead are those of the loader, and so are the states."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from loader import (
    BatchDataset,
    ConfigError,
    FatalSampleError,
    MapDataset,
    StateError,
    WorkerConfig,
    edataclass,
    get_loader,
)
from loader.samples.batching.device_copy import DeviceCopies
from loader.samples.sample_dataclass import map_values
from loader.testing.stage import Values
from tests.e2e.drawing_encoders import PackingTwice, Skipping
from tests.e2e.drawing_pipelines import Build, Data, limited, train, val, write_data
from tests.elastic_runs import fingerprint, through_json
from tests.representative import every_value_once

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("device"))


PIPELINES: dict[str, Build] = {
    "endless": train,
    "virtual epochs": partial(train, virtual_epoch_length=5),
    "packing": partial(train, encoder=PackingTwice, packing_buffer_size=9),
    "limit": partial(limited, length=4),
    "validation": partial(val, batch_size=9),
    "one pass": partial(train, repeat=False, path="more", encoder=Skipping),
}


def config(workers: int = 0) -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=2, num_workers=workers, lanes=4)


def run(loader: Any, batches: Any, iterations: int = 3) -> list[Any]:
    """Return the batches of iterations, and the state of the loader at each batch and at the ends."""
    found: list[Any] = []
    for _ in range(iterations):
        found.extend((fingerprint(batch), loader.save_state_rank()) for batch in islice(batches, 9))
        found.append(("end", loader.save_state_rank()))
    return found


@pytest.mark.parametrize(("name", "prefetch", "serves"), every_value_once(PIPELINES, [0, 1, 3], [None, (1, 0)]))
@pytest.mark.sampled(4)
def test_batches_and_states_at_each_step_are_those_of_the_loader(
    name: str, prefetch: int, serves: Any, data: Data
) -> None:
    plain = get_loader(PIPELINES[name](data, config()), serves=serves)
    expected = run(plain, plain)
    assert len(expected) > 6
    loader = get_loader(PIPELINES[name](data, config()), serves=serves)
    moved = loader.to_device("cpu", prefetch=prefetch)
    assert run(loader, moved) == expected
    again = get_loader(PIPELINES[name](data, config()), serves=serves).to_device("cpu", prefetch=prefetch)
    assert run(again, again) == expected  # the states by the iterable itself


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_a_state_saved_with_batches_ahead_restores_with_the_batch_after_the_last_delivered(
    workers: int, data: Data
) -> None:
    expected = [fingerprint(batch) for batch in islice(get_loader(train(data, config())), 12)]
    with get_loader(train(data, config(workers))).to_device("cpu", prefetch=4) as first:
        assert [fingerprint(batch) for batch in islice(first, 5)] == expected[:5]
        state = through_json(first.save_state_rank())
    loader = get_loader(train(data, config(workers))).to_device("cpu").with_restored_state_rank(state)
    assert [fingerprint(batch) for batch in islice(loader, 7)] == expected[5:]
    loader.shutdown()


def test_an_iteration_that_was_left_continues_without_a_lost_batch(data: Data) -> None:
    build = partial(train, virtual_epoch_length=6)
    expected = [fingerprint(batch) for batch in get_loader(build(data, config()))]
    for use in ("iterable", "loader", "after a shutdown"):
        loader = get_loader(build(data, config()))
        moved = loader.to_device("cpu", prefetch=3)
        found = [fingerprint(batch) for batch in islice(moved, 3)]
        if use == "after a shutdown":
            loader.shutdown()
        found += [fingerprint(batch) for batch in (loader if use == "loader" else moved)]
        assert found == expected, use
        assert len(list(moved)) == 6


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_an_iteration_continues_after_each_new_start_of_the_workers(data: Data, workers: int) -> None:
    expected = [fingerprint(batch) for batch in islice(get_loader(train(data, config(workers))), 24)]
    moved = get_loader(train(data, config(workers))).to_device("cpu", prefetch=3)
    found = []
    for _ in range(3):
        with moved:
            found += [fingerprint(batch) for batch in islice(moved, 8)]
            assert moved.stats().step == len(found)
    assert found == expected


def test_validation_that_was_left_starts_over(data: Data) -> None:
    moved = get_loader(val(data, config())).to_device("cpu", prefetch=3)
    first = [fingerprint(batch) for batch in islice(moved, 4)]
    assert [fingerprint(batch) for batch in islice(moved, 4)] == first


def test_a_restore_drops_the_batches_ahead_and_ends_the_iteration(data: Data) -> None:
    loader = get_loader(train(data, config()))
    moved = loader.to_device("cpu", prefetch=3)
    start = loader.save_state_rank()
    batches = iter(moved)
    first = fingerprint(next(batches))
    next(batches)
    loader.restore_state_rank(start)
    with pytest.raises(StateError, match="this iteration of the loader is over"):
        next(batches)
    assert fingerprint(next(iter(moved))) == first


class FailingOnce:
    def __init__(self, at: int, file: Path) -> None:
        self.at, self.file = at, file

    def __call__(self, value: int) -> int:
        if value == self.at and self.file.exists():
            self.file.unlink()
            raise FatalSampleError("fix it")
        return value


@pytest.mark.parametrize("prefetch", [0, 1, 5])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(3)
def test_the_batches_before_an_error_are_delivered_first(workers: int, prefetch: int, tmp_path: Path) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4)
    values = Values(list(range(40)), worker_config=alone)
    expected = list(get_loader(BatchDataset(values, 2, list)))
    broken = tmp_path / "broken"
    broken.touch()
    loader = get_loader(BatchDataset(MapDataset(values, FailingOnce(17, broken)), 2, list))
    moved = loader.to_device("cpu", prefetch=prefetch)
    found: list[Any] = []
    with pytest.raises(FatalSampleError):
        found.extend(iter(moved))
    assert found
    assert found == expected[: len(found)]
    assert 17 in expected[len(found)]
    loader.shutdown()
    state = loader.save_state_rank()
    restored = get_loader(BatchDataset(MapDataset(values, FailingOnce(17, broken)), 2, list))
    restored.restore_state_rank(state)
    assert found + list(restored) == found + list(moved) == expected


def test_the_first_batch_does_not_wait_for_others(data: Data) -> None:
    taken: list[int] = []

    def note(value: int) -> int:
        taken.append(value)
        return value

    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    moved = iter(get_loader(MapDataset(Values(list(range(9)), worker_config=alone), note)).to_device("cpu", prefetch=3))
    assert [len(taken) for _ in moved] == [1, 3, 5, 7, 8, 9, 9, 9, 9]


def test_wrong_options_are_refused(data: Data) -> None:
    loader = get_loader(train(data, config()))
    with pytest.raises(ConfigError, match="prefetch of at least 0"):
        loader.to_device("cpu", prefetch=-1)
    with pytest.raises(TypeError, match="integer as prefetch"):
        loader.to_device("cpu", prefetch="2")  # type: ignore[arg-type] # the mistake
    for device in ("cud", None):
        with pytest.raises(ConfigError, match=f"expected a device such as .* found {device!r}: .+"):
            loader.to_device(device)
    with pytest.raises(ConfigError, match="found 'meta', whose tensors have no values"):
        loader.to_device("meta")
    with pytest.raises(ConfigError, match=r"cannot copy micro-batches to the device 'cuda:99': .+"):
        next(iter(loader.to_device("cuda:99")))
    with pytest.raises(ConfigError, match=r"cannot copy micro-batches to the device 'mps': .+") as caught:
        next(iter(loader.to_device("mps")))
    assert caught.value.hint is not None
    assert "to_device('cpu')" in caught.value.hint


# ------------------------------------------------------------------------------------------------- nested values


class Pair(NamedTuple):
    ids: torch.Tensor
    name: str


@edataclass
class Inner:
    pixels: torch.Tensor
    label: str


class Unknown:
    tensor = torch.ones(2)


def nested() -> dict[str, Any]:
    shared = torch.arange(6.0)
    return {
        "tensor": torch.arange(3),
        "list": [torch.ones(2), "text", 4],
        "tuple": (shared, None),
        "pair": Pair(torch.ones(1, dtype=torch.int8), "a"),
        "class": Inner(pixels=torch.zeros(2, 3), label="b"),
        "ordered": OrderedDict(b=torch.ones(1), a=shared),
        "packed": torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        "plain": {"x": [1, 2]},
        "other": Unknown(),
    }


def check_moved(moved: dict[str, Any], batch: dict[str, Any], device: str) -> None:
    assert moved.keys() == batch.keys()
    tensors = [
        moved["tensor"],
        moved["list"][0],
        moved["tuple"][0],
        moved["pair"].ids,
        moved["class"].pixels,
        moved["ordered"]["b"],
        moved["packed"].data,
    ]
    assert {tensor.device.type for tensor in tensors} == {device}
    assert moved["tensor"].dtype is torch.int64
    assert moved["tensor"].shape == (3,)
    assert moved["list"][1:] == ["text", 4]
    assert moved["ordered"]["a"] is moved["tuple"][0]  # copied once
    assert [type(moved[name]) for name in moved] == [type(batch[name]) for name in batch]
    assert list(moved["ordered"]) == ["b", "a"]
    assert (moved["pair"].name, moved["class"].label) == ("a", "b")
    assert moved["plain"] is batch["plain"]
    assert moved["other"] is batch["other"]
    assert batch["tensor"].device.type == batch["class"].pixels.device.type == "cpu"  # the source stays


def test_all_tensors_of_a_batch_are_moved_and_all_else_stays() -> None:
    batch = nested()
    copies = DeviceCopies(torch.device("meta"))
    check_moved(copies.finish(copies.start(batch)), batch, "meta")


def test_nothing_is_copied_for_the_cpu() -> None:
    batch = nested()
    copies = DeviceCopies(torch.device("cpu"))
    assert copies.finish(copies.start(batch)) is batch


def test_a_loader_gives_its_batches_on_the_device(data: Data) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    dataset = MapDataset(Values(list(range(5)), worker_config=alone), lambda value: {"x": torch.ones(value + 1)})
    moved = get_loader(dataset).to_device("cpu")
    moved._copies = DeviceCopies(torch.device("meta"))  # as for a GPU, where there is none
    assert [(batch["x"].device.type, len(batch["x"])) for batch in moved] == [("meta", size) for size in range(1, 6)]


def test_values_that_do_not_change_keep_their_containers() -> None:
    batch = {"a": [1, (2, Pair(torch.ones(1), "x"))]}
    assert map_values(batch, lambda value: value) is batch


# ------------------------------------------------------------------------------------------------- on a GPU


@needs_gpu
def test_all_tensors_of_a_batch_are_copied_to_a_gpu() -> None:
    batch = nested()
    copies = DeviceCopies(torch.device("cuda"))
    moved = copies.finish(copies.start(batch))
    check_moved(moved, batch, "cuda")
    assert torch.equal(moved["tuple"][0].cpu(), batch["tuple"][0])


@needs_gpu
@pytest.mark.parametrize("workers", [0, 2])
def test_copies_to_a_gpu_are_complete_and_stay_while_the_loop_computes(workers: int) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=2)
    dataset = MapDataset(Values(list(range(64)), worker_config=alone), large)
    loader = get_loader(dataset).to_device("cuda", prefetch=3)
    weights = torch.ones(2048, 2048, device="cuda")
    sums = []
    for batch in loader:
        for _ in range(4):
            weights = weights @ weights / 2048  # the loop's stream is busy when the batch arrives
        sums.append(batch["x"].sum() * weights[0, 0])
        del batch
    assert [round(float(total) / (1 << 20)) for total in sums] == list(range(64))


def large(value: int) -> Any:
    return {"x": torch.full((1 << 20,), float(value))}
