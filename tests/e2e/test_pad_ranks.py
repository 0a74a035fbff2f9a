"""Passes whose ranks all have the same number of micro-batches: those without data get padding."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch

from loader import (
    ConfigError,
    DefaultTaskEncoder,
    SavableDataLoader,
    SkipSample,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_val_dataset,
    get_val_datasets,
    is_padding,
)
from loader.training.states.run_state import RunState, redistribute_states
from tests.e2e.drawing_encoders import Grouping, Yielding, number_in
from tests.e2e.drawing_pipelines import Data, val, write_data

ALL = Counter(range(157, 218))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("padding"))


class Skipping(TaskEncoder[Any, Any, Any, Any]):
    """Skip runs of samples, so that whole micro-batches are missing, most of them on some ranks."""

    def encode_sample(self, sample: TextSample) -> TextSample:
        if 180 <= number_in(sample) < 200:
            raise SkipSample
        return sample


class Packing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Pack three samples each; the key of a pack has the keys of its samples."""

    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[TextSample]) -> TextSample:
        return TextSample.derive_from(
            samples[0], __key__=" ".join(sample.__key__ for sample in samples), text=str(len(samples))
        )


BUILDS: dict[str, Callable[..., Any]] = {
    "known ahead": partial(val, encoder=TaskEncoder, batch_size=4),
    "skipping": partial(val, encoder=Skipping, batch_size=4),
    "packing": partial(val, encoder=Packing, batch_size=2, packing_buffer_size=5),
    "grouping": partial(val, encoder=Grouping, batch_size=4),
    "single samples": partial(val, encoder=TaskEncoder, batch_size=None),
}
LEFT_OUT = {"skipping": Counter(range(180, 200))}


def loaders_of(
    build: Callable[..., Any], data: Data, ranks: int, workers: int = 0, **options: Any
) -> list[SavableDataLoader[Any]]:
    return [
        get_savable_loader(
            build(data, WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=12), **options)
        )
        for rank in range(ranks)
    ]


def numbers_in(batch: Any) -> list[int]:
    if is_padding(batch):
        assert not batch.__key__
        return []
    keys = [batch.__key__] if isinstance(batch.__key__, str) else batch.__key__
    return [int(key[-5:]) for pack in keys for key in pack.split(" ")]


def states_of(loaders: Sequence[SavableDataLoader[Any]], ranks: int) -> list[Any]:
    states = json.loads(json.dumps([loader.save_state_rank() for loader in loaders]))
    parts = redistribute_states([RunState.from_plain(state) for state in states], ranks)
    plain: list[Any] = json.loads(json.dumps([part.to_plain() for part in parts]))
    return plain


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.sampled(4)
def test_all_ranks_have_the_same_number_of_micro_batches_and_no_sample_is_lost(
    name: str, ranks: int, data: Data
) -> None:
    loaders = loaders_of(partial(BUILDS[name], pad_ranks=True), data, ranks)
    for _ in range(2):
        passes = [list(loader) for loader in loaders]
        lengths = {len(batches) for batches in passes}
        assert len(lengths) == 1
        if ranks > 1:
            assert lengths == {len(loader) for loader in loaders}
        found = Counter(number for batches in passes for batch in batches for number in numbers_in(batch))
        assert found == ALL - LEFT_OUT.get(name, Counter())
        for batches in passes:  # padding comes last
            padding = [is_padding(batch) for batch in batches]
            assert padding == sorted(padding)
    if name == "known ahead" and ranks > 1:
        passes = [list(loader) for loader in loaders]
        assert sum(is_padding(batch) for batches in passes for batch in batches) == -16 % ranks


def test_a_rank_without_any_sample_gets_padding_of_the_structure_of_others(data: Data) -> None:
    loaders = loaders_of(partial(val, encoder=TaskEncoder, batch_size=61, pad_ranks=True), data, 4)
    ((full,), *others) = [list(loader) for loader in loaders]
    assert not is_padding(full)
    for (padding,) in others:
        assert is_padding(padding)
        assert type(padding) is type(full)
        assert (padding.__key__, padding.text) == ([], [])


@pytest.mark.parametrize(
    ("name", "workers"),
    [*((name, 0) for name in BUILDS), ("known ahead", 2), pytest.param("packing", 2, marks=pytest.mark.slow)],
)
@pytest.mark.sampled(6)
def test_a_pass_continues_at_any_step_on_any_number_of_ranks(name: str, workers: int, data: Data) -> None:
    build = partial(BUILDS[name], pad_ranks=True)
    whole = Counter(number for loader in loaders_of(build, data, 1) for batch in loader for number in numbers_in(batch))
    steps = len(loaders_of(build, data, 3)[0])
    for done in {1, steps // 3, steps - 1}:
        before: Counter[int] = Counter()
        loaders = loaders_of(build, data, 3, workers)
        given = [iter(loader) for loader in loaders]
        for _ in range(done):
            for batches in given:
                before.update(numbers_in(next(batches)))
        for ranks in (3, 2, 4):
            # Through a third number of ranks, without a step there.
            states = states_of(loaders, ranks)
            restored = loaders_of(build, data, ranks)
            for loader, state in zip(restored, states, strict=True):
                loader.restore_state_rank(state)
            rest = [list(loader) for loader in restored]
            found = before + Counter(number for batches in rest for batch in batches for number in numbers_in(batch))
            assert found == whole
            lengths = {len(batches) for batches in rest}
            assert len(lengths) == 1, f"{ranks} ranks after {done} of {steps} steps: {lengths}"
            if ranks == 3:
                assert lengths == {steps - done}
            if name == "known ahead":
                assert lengths == {max(0, -(-(16 - 3 * done) // ranks))}
            # The next pass is a whole one.
            again = [list(loader) for loader in restored]
            assert {len(batches) for batches in again} == {len(loaders_of(build, data, ranks)[0])}
        for loader in loaders:
            loader.close()


def test_two_changes_of_the_number_of_ranks_add_no_step(data: Data) -> None:
    build = partial(BUILDS["known ahead"], pad_ranks=True)  # 16 micro-batches
    loaders = loaders_of(build, data, 3)
    given = [iter(loader) for loader in loaders]
    left = 16
    for ranks in (2, 4, 3):
        for batches in given:
            next(batches)
        left -= len(given)
        states = states_of(loaders, ranks)
        loaders = loaders_of(build, data, ranks)
        for loader, state in zip(loaders, states, strict=True):
            loader.restore_state_rank(state)
        given = [iter(loader) for loader in loaders]
    assert left == 7
    assert [len(list(batches)) for batches in given] == [3, 3, 3]


class Tensors(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Build batches of several structures.

    Args:
        kind: The class of the batches.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def batch(self, samples: list[TextSample]) -> Any:
        ids = torch.ones(len(samples), 7, dtype=torch.int64)
        if self.kind == "dict":
            return {"ids": ids, "names": [sample.text for sample in samples], "tokens": ids.numel(), "part": "val"}
        return [ids, ids] if self.kind == "list" else (ids, torch.tensor(7.0))


@pytest.mark.parametrize("kind", ["dict", "list", "tuple"])
def test_padding_has_the_structure_of_the_batch(kind: str, data: Data) -> None:
    config = WorkerConfig(rank=1, world_size=2, num_workers=0)
    dataset = get_val_dataset(
        data.texts, batch_size=61, pad_ranks=True, worker_config=config, task_encoder=Tensors(kind)
    )
    (padding,) = get_savable_loader(dataset)
    assert is_padding(padding)
    if kind == "dict":
        assert isinstance(padding, dict)
        assert padding["ids"].shape == (0, 7)
        assert (padding["names"], padding["tokens"], padding["part"]) == ([], 0, "val")
    elif kind == "list":
        assert padding == []
    else:
        ids, loss = padding
        assert ids.shape == (0, 7)
        assert loss == 0


class OneSample(Tensors):
    """Pad with a whole batch whose weights are 0."""

    def batch(self, samples: list[TextSample]) -> Any:
        return {"ids": torch.ones(len(samples), 7), "weights": torch.ones(len(samples))}

    def padding_batch(self, batch: Any) -> Any:
        batch["weights"].zero_()
        return batch


def test_a_hook_may_make_the_padding(data: Data) -> None:
    datasets = get_val_datasets(
        data.texts,
        batch_size=61,
        pad_ranks=True,
        worker_config=WorkerConfig(rank=1, world_size=2, num_workers=1),
        task_encoder=OneSample("dict"),
    )
    ((dataset, _),) = datasets
    (padding,) = get_savable_loader(dataset)
    assert is_padding(padding)
    assert padding["ids"].shape == (61, 7)
    assert padding["weights"].sum() == 0


def test_a_limit_ends_padded_passes_together(data: Data) -> None:
    for limit in (2, 7, 99):
        loaders = loaders_of(partial(BUILDS["known ahead"], pad_ranks=True, limit=limit), data, 3)
        assert {len(list(loader)) for loader in loaders} == {min(limit, 6)} == {len(loader) for loader in loaders}


def test_generators_need_a_limit(data: Data) -> None:
    build = partial(val, encoder=Yielding, batch_size=4, pad_ranks=True)
    with pytest.raises(ConfigError, match="cannot compute from the order how many micro-batches"):
        loaders_of(build, data, 2)
    loaders = loaders_of(build, data, 3, limit=40)
    passes = [list(loader) for loader in loaders]
    assert [len(batches) for batches in passes] == [40, 40, 40]
    assert {number for batches in passes for batch in batches for number in numbers_in(batch)} == {
        number for number in ALL if number % 4
    }


def test_even_and_padded_ranks_exclude_each_other(data: Data) -> None:
    with pytest.raises(ConfigError, match="they exclude each other"):
        loaders_of(partial(val, even_ranks=True, pad_ranks=True), data, 2)
