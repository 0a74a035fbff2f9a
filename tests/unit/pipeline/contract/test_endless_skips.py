"""Hooks that skip every sample cause a warning, then end the run."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loader import (
    ConfigError,
    FatalSampleError,
    FilterDataset,
    RepeatedSampleError,
    SampleError,
    SkipSample,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)
from loader.pipeline.failures import policy as endless_skips
from loader.pipeline.failures.policy import FailurePolicy
from loader.samples.types import CrudeSample
from tests.unit.pipeline.tar_dataset import texts, write_dataset


class Skips(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def encode_sample(self, sample: CrudeSample) -> Any:
        raise SkipSample


class YieldsNothing(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def encode_sample(self, sample: CrudeSample) -> Any:
        yield from ()


class SkipsMost(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def __init__(self) -> None:
        self.count = 0

    def encode_sample(self, sample: CrudeSample) -> CrudeSample:
        self.count += 1
        if self.count % 50:
            raise SkipSample
        return sample


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "x", {"a.tar": texts(0, 20)})


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless_skips, "_WARN_AT", 60)
    monkeypatch.setattr(endless_skips, "_STOP_AT", 200)


def dataset(folder: Path, encoder: Any, **options: Any) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    defaults = {"batch_size": 2, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    return get_train_dataset(folder, worker_config=config, task_encoder=encoder, **defaults | options)


@pytest.mark.parametrize("encoder", [Skips, YieldsNothing])
def test_a_hook_that_skips_everything_warns_and_ends_the_run(
    small: Path, encoder: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(SampleError, match="encode_sample has skipped 200 samples"):
        next(iter(get_loader(dataset(small, encoder()))))
    assert [record.message for record in caplog.records] == [
        "encode_sample has skipped the last 60 samples of lane 0; is that intended?"
    ]


def test_a_filter_that_keeps_nothing_ends_the_run(small: Path) -> None:
    kept = FilterDataset(dataset(small, TaskEncoder(), batch_size=None), lambda sample: False)
    with pytest.raises(SampleError, match=r"FilterDataset \(<lambda>\) has skipped 200 samples"):
        next(iter(get_loader(kept)))


def test_a_hook_that_keeps_a_few_continues(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = iter(get_loader(dataset(small, SkipsMost())))
    for _ in range(10):
        next(batches)
    assert not caplog.records


class Hooks(TaskEncoder[Any, Any, Any, Any]):
    """Encoder with packing whose hooks keep every sample."""

    decoder = None

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


def skip(self: Any, samples: Any) -> Any:
    raise SkipSample


def fail(self: Any, samples: Any) -> Any:
    raise ValueError("broken")


def fail_before_yielding(self: Any, samples: Any) -> Any:
    if samples is not None:
        raise ValueError("broken")
    yield samples


def select_nothing(self: Any, samples: Any) -> Any:
    return []


ENDING = {"repeat": False}
PACKED = {"packing_buffer_size": 4}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    ("hook", "function", "options"),
    [
        ("encode_sample", skip, {}),
        ("encode_sample", fail, {}),
        ("encode_sample", fail_before_yielding, {}),
        ("batch", skip, {}),
        ("batch", fail, {}),
        ("encode_batch", skip, {}),
        ("postencode_sample", skip, PACKED),
        ("select_samples_to_pack", skip, PACKED),
        ("select_samples_to_pack", select_nothing, PACKED),
        ("pack_selected_samples", skip, PACKED),
        ("batch_group_criterion", skip, {}),
        ("batch_group_criterion", fail, {}),
    ],
)
@pytest.mark.sampled(3)
def test_a_hook_that_drops_every_sample_ends_the_run(
    small: Path, hook: str, function: Any, options: dict[str, Any], *, ends: bool, workers: int
) -> None:
    """The error names the hook, in endless runs and passes, with and without workers, with default settings."""
    encoder = type("Encoder", (Hooks,), {hook: function})()
    setattr(type(encoder), hook, function)
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, global_error_handler=lambda *_: None)
    made = get_train_dataset(
        small,
        worker_config=config,
        task_encoder=encoder,
        batch_size=2,
        shuffle_buffer_size=None,
        max_samples_per_sequence=5,
        repeat=not ends,
        **options,
    )
    named = "fail" if function is fail else "fail_before_yielding" if function is fail_before_yielding else hook
    expected = rf"{named} (skipped|failed with ValueError): 20\b" if ends else rf"{named} (has skipped 200|failed 100)"
    if function is skip:
        stage = "PackingDataset" if hook == "pack_selected_samples" else hook
        expected = expected.replace(hook, rf"{stage} \(skip\)", 1)
    elif function is select_nothing:
        expected = expected.replace(hook, rf"{hook} \(select_nothing\)", 1)
    with pytest.raises(RepeatedSampleError, match=expected) as caught:
        list(get_loader(made))
    assert isinstance(caught.value, FatalSampleError)
    if function in {fail, fail_before_yielding}:
        assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("function", [fail, fail_before_yielding])
def test_a_hook_without_a_tolerance_that_always_fails_ends_the_run(small: Path, function: Any) -> None:
    encoder = type("Encoder", (Hooks,), {"encode_sample": function, "__default_failure_tolerance__": 0})()
    config = WorkerConfig(
        rank=0, world_size=1, num_workers=0, lanes=2, skip_tolerance=150, global_error_handler=lambda *_: None
    )
    options: dict[str, Any] = {"batch_size": 2, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    made = get_train_dataset(small, worker_config=config, task_encoder=encoder, **options)
    with pytest.raises(RepeatedSampleError, match="failed 150 times in a row") as caught:
        next(iter(get_loader(made)))
    assert caught.value.hint is not None
    assert "WorkerConfig(skip_tolerance=…)" in caught.value.hint


def test_a_few_samples_may_all_be_skipped(tmp_path: Path) -> None:
    """A pass over less than ten samples may have no micro-batch: a rank may have only a few bad ones."""
    few = write_dataset(tmp_path / "few", {"a.tar": texts(0, 9)})
    assert list(get_loader(dataset(few, Skips(), repeat=False))) == []


def test_samples_that_drop_last_drops_are_not_skipped(small: Path) -> None:
    """A pass whose hooks keep some samples, too few for a micro-batch, ends without an error."""

    class SkipsHalf(SkipsMost):
        def encode_sample(self, sample: CrudeSample) -> CrudeSample:
            self.count += 1
            if self.count % 2:
                raise SkipSample
            return sample

    made = dataset(small, SkipsHalf(), repeat=False, batch_size=30, batch_drop_last=True)
    assert list(get_loader(made)) == []


class SkipsAfterwards(TaskEncoder[Any, Any, Any, Any]):
    """Keeps the first sample, then skips 150."""

    decoder = None
    calls = 0

    def encode_sample(self, sample: CrudeSample) -> CrudeSample:
        self.calls += 1
        if self.calls % 151 != 1:
            raise SkipSample
        return sample


def test_a_hook_that_has_kept_a_sample_may_skip_more(small: Path) -> None:
    """The tolerance counts before the first kept sample; later a hook may skip many more in a row."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2, skip_tolerance=100)
    options: dict[str, Any] = {"batch_size": 1, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    made = get_train_dataset(small, worker_config=config, task_encoder=SkipsAfterwards(), **options)
    loader = iter(get_loader(made))
    next(loader)
    with pytest.raises(SampleError, match="has skipped 100 samples in a row in lane 1, and has kept none"):
        next(loader)
    made = get_train_dataset(small, worker_config=replace(config, lanes=1), task_encoder=SkipsAfterwards(), **options)
    assert len(list(itertools.islice(get_loader(made), 4))) == 4


def test_any_number_of_skips_is_allowed_without_a_tolerance(small: Path) -> None:
    """`skip_tolerance=None` neither ends a pass without samples nor a long series of skips."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2, skip_tolerance=None)
    options: dict[str, Any] = {"batch_size": 1, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    made = get_train_dataset(small, worker_config=config, task_encoder=Skips(), repeat=False, **options)
    assert list(get_loader(made)) == []
    with pytest.raises(ConfigError, match="skip_tolerance of at least 1"):
        replace(config, skip_tolerance=0)


def test_a_hook_that_keeps_one_sample_in_a_thousand_is_never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook may skip nineteen thousand samples before it keeps one, and any realistic number later."""
    monkeypatch.undo()
    skips = FailurePolicy(lambda *_: None, lane=0).skips_of("encode_sample")
    skips.add(19_000)
    skips.count = 0
    for _ in range(50):
        skips.add(19_000)
    assert skips.count == 950_001
    skips = FailurePolicy(lambda *_: None, lane=0).skips_of("encode_sample")
    skips.add(19_999)
    with pytest.raises(RepeatedSampleError, match="skipped 20,000 samples in a row in lane 0, and has kept none"):
        skips.add()
