"""Threads, processes and the main process make the same batches, bit for bit, if hooks draw from ``rng``."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from threading import Event
from typing import Any, Literal

import pytest
import torch

from loader import (
    DefaultTaskEncoder,
    SampleError,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    sample_size_metric,
    stateless,
)
from loader.training.workers import worker_threads
from tests.e2e.mixed_data import MixedData, write_mixed_data

WorkerType = Literal["fork", "thread", "main"]


class Drawing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder whose hooks draw from all generators of ``rng``."""

    def draws(self) -> str:
        rng = self.rng
        return f"{rng.random.random()} {rng.numpy.random()} {torch.rand((), generator=rng.torch).item()}"

    def encode_sample(self, sample: TextSample) -> Any:
        return TextSample.extend(sample, text=f"{sample.text} {self.draws()}")

    def batch(self, samples: list[TextSample]) -> list[str]:
        return [*(sample.text for sample in samples), self.draws()]

    def encode_batch(self, batch: list[str]) -> list[str]:
        return [*batch, f"{self.current_batch_index} {self.draws()}"]


class Rebuilding(Drawing):
    @stateless(restore_task_encoder_seeds=True)
    def encode_sample(self, sample: TextSample) -> Any:
        return super().encode_sample(sample)


class Packing(Rebuilding):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        chosen = [*samples]
        self.rng.random.shuffle(chosen)
        return [chosen[:2], chosen[2:5], chosen[5:]]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return TextSample.extend(samples[0], text=" + ".join(sample.text for sample in samples) + self.draws())


class SizedPacks(Packing):
    @sample_size_metric(after="packing")
    def letters(self, pack: TextSample) -> int:
        return len(pack.text)


class Generating(Rebuilding):
    @stateless(restore_task_encoder_seeds=True)
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        for _ in range(self.rng.random.randrange(4)):
            yield TextSample.extend(sample, text=f"{sample.text} {self.draws()}")


class Grouping(Rebuilding):
    def batch_group_criterion(self, sample: TextSample) -> tuple[Hashable, int | None]:
        return len(sample.text) % 3, None


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("worker_types"))
    data.write("mix.yaml", {"train": {"blend": [{"weight": 3, "path": "texts"}, {"weight": 1, "path": "more"}]}})
    at = [{"unit": "samples", "change": "linear", "at": {0: 2, 40: last}} for last in (0, 5)]
    entries = [{"weight": at[0], "path": "texts"}, {"weight": at[1], "path": "more"}]
    data.write("scheduled.yaml", {"train": {"blend": entries, "blend_weight_unit": "letters"}})
    return data


def loader_of(data: MixedData, kind: WorkerType, encoder: type[Drawing], path: str, **options: Any) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=3, lanes=6)
    common: dict[str, Any] = {"batch_size": 3, "worker_config": config, "task_encoder": encoder()}
    if path == "val":
        return get_savable_loader(get_val_dataset(data.texts, **common, **options), worker_type=kind)
    options = {"shuffle_buffer_size": 20, "max_samples_per_sequence": 5} | options
    return get_savable_loader(get_train_dataset(data.folder / path, **common, **options), worker_type=kind)


CASES: dict[str, tuple[type[Drawing], str, dict[str, Any]]] = {
    "plain": (Drawing, "texts", {}),
    "blend": (Drawing, "mix.yaml", {}),
    "blend with packing": (Packing, "mix.yaml", {"packing_buffer_size": 7}),
    "scheduled blend of packs": (SizedPacks, "scheduled.yaml", {"packing_buffer_size": 7}),
    "generators": (Generating, "mix.yaml", {}),
    "groups": (Grouping, "mix.yaml", {}),
    "pass": (Drawing, "texts", {"repeat": False}),
    "validation": (Drawing, "val", {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(3)
def test_threads_processes_and_the_main_process_make_the_same_batches(case: str, data: MixedData) -> None:
    encoder, path, options = CASES[case]
    found = {}
    for kind in ("main", "thread", "fork"):
        kind_of: Any = kind
        with loader_of(data, kind_of, encoder, path, **options) as loader:
            # Threads must not depend on the global generators, and not change them.
            random.seed(kind)
            before = random.getstate(), torch.get_rng_state().tolist()
            found[kind] = [*islice(loader, 30)]
            assert (random.getstate(), torch.get_rng_state().tolist()) == before, kind
    assert len(found["main"]) > 15
    assert found["thread"] == found["main"] == found["fork"]


def test_a_run_of_threads_is_resumed_by_processes(data: MixedData) -> None:
    encoder, path, options = CASES["blend with packing"]
    with loader_of(data, "main", encoder, path, **options) as loader:
        expected = [*islice(loader, 24)]
    found: list[Any] = []
    state = None
    for kind in ("thread", "fork", "main", "thread"):
        kind_of: Any = kind
        with loader_of(data, kind_of, encoder, path, **options) as loader:
            loader.restore_state_rank(state)
            found += islice(loader, 6)
            state = loader.save_state_rank()
    assert found == expected


def test_loaders_with_threads_run_side_by_side(data: MixedData) -> None:
    def run(case: str) -> list[Any]:
        encoder, path, options = CASES[case]
        with loader_of(data, "thread", encoder, path, **options) as loader:
            return [*islice(loader, 30)]

    expected = {case: run(case) for case in CASES}
    with ThreadPoolExecutor(len(CASES)) as threads:
        found = dict(zip(CASES, threads.map(run, CASES), strict=True))
    assert found == expected


class Helped(Drawing):
    """Encoder whose hook draws in a thread of its own."""

    def batch(self, samples: list[TextSample]) -> list[str]:
        with ThreadPoolExecutor(1) as helper:
            return [helper.submit(self.draws).result()]


def test_helper_threads_of_a_hook_see_its_generators(data: MixedData) -> None:
    found = {}
    for kind in ("main", "fork"):
        kind_of: Any = kind
        with loader_of(data, kind_of, Helped, "texts") as loader:
            found[kind] = [*islice(loader, 6)]
    assert found["main"] == found["fork"]
    assert len({*map(str, found["main"])}) == 6


def test_helper_threads_of_a_worker_thread_have_no_generators(data: MixedData) -> None:
    with (
        loader_of(data, "thread", Helped, "texts") as loader,
        pytest.raises(SampleError, match="known only while a loader runs a hook"),
    ):
        next(iter(loader))


def test_threads_that_hang_keep_a_loader_from_closing_for_one_timeout(
    data: MixedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = count()
    monkeypatch.setattr(worker_threads, "monotonic", lambda: next(readings))
    monkeypatch.setattr(worker_threads, "_JOIN_S", 100)
    released = Event()

    class Hanging(Drawing):
        def encode_sample(self, sample: TextSample) -> Any:
            released.wait(60)
            return sample

    loader = loader_of(data, "thread", Hanging, "texts")
    loader.start()
    loader.shutdown()
    released.set()
    assert 100 < next(readings) < 110, "three threads"
