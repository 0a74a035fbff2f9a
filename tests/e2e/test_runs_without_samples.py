"""Runs of which every sample is dropped end within seconds, with the stage and the hook; long stretches do not."""

from __future__ import annotations

import itertools
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from loader import (
    BatchDataset,
    BlendDataset,
    EpochizeDataset,
    FilterDataset,
    RepeatDataset,
    RepeatedSampleError,
    SkipSample,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from tests.token_files import write_tokens
from tests.unit.pipeline.tar_dataset import texts, write_dataset

MODULE = "joiner_of_refused_samples"


class Encoder(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose hooks keep every sample."""

    decoder = None

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [[sample] for sample in samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


def skip(self: Any, sample: Any, **stores: Any) -> Any:
    raise SkipSample


def yield_nothing(self: Any, sample: Any) -> Any:
    yield from ()


def select_nothing(self: Any, samples: list[Any]) -> list[list[Any]]:
    return []


def own_group(self: Any, sample: Any) -> tuple[int, int]:
    self.groups = getattr(self, "groups", 0) + 1
    return self.groups, 2


PACKED = {"packing_buffer_size": 4}
SHORT = {"batch_size": 100, "batch_drop_last": True}

# What drops all samples: a hook and its function, the options of the dataset, and the name in the error.
CASES: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "packing selects nothing": ("select_samples_to_pack", select_nothing, PACKED, "select_samples_to_pack"),
    "a large packing buffer": (
        "select_samples_to_pack",
        select_nothing,
        {"packing_buffer_size": 10_000},
        "select_samples_to_pack",
    ),
    "packing skips": ("pack_selected_samples", skip, PACKED, "PackingDataset (skip)"),
    "packing yields nothing": ("pack_selected_samples", yield_nothing, PACKED, "PackingDataset (yield_nothing)"),
    "encoding for packing": ("postencode_sample", yield_nothing, PACKED, "postencode_sample"),
    "drop_last": ("", None, SHORT, "drop_last of batch"),
    "a generator": ("encode_sample", yield_nothing, {}, "encode_sample (yield_nothing)"),
    "encode_sample": ("encode_sample", skip, {}, "encode_sample (skip)"),
    "a cooker": ("cook_crude_sample", skip, {}, "cook"),
    "batch": ("batch", skip, {}, "batch (skip)"),
    "encode_batch": ("encode_batch", skip, {}, "encode_batch (skip)"),
    "a hook that is called rarely": ("encode_batch", skip, {"batch_size": 1000}, "encode_batch (skip)"),
    "a batch that yields nothing": ("encode_batch", yield_nothing, {}, "encode_batch (yield_nothing)"),
    "batch_group_criterion": ("batch_group_criterion", skip, {}, "batch_group_criterion"),
    "groups that never fill": ("batch_group_criterion", own_group, {"batch_drop_last": True}, "batch_group_criterion"),
    "a filter": ("filter", None, {}, "FilterDataset (<lambda>)"),
}

QUICK = ("train", "join", "repeated training", "virtual epochs of passes")
ENDLESS = ("train", "shuffled", "mix", "join", "virtual epochs", "repeated virtual epochs")
REPEATED = ("repeated validation", "repeated training", "blended passes", "virtual epochs of passes")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name in "ab":
        write_dataset(folder / name, {"a.tar": texts(0, 20)})
    joiner = {"__module__": MODULE, "__function__": "first"}
    splits = {
        "mix": {"blend": [{"path": "a", "weight": 1}, {"path": "b", "weight": 2}]},
        "join": {"join": {"one": {"path": "a"}, "two": {"path": "b"}}, "joiner": joiner},
    }
    for name, split in splits.items():
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
    prepare_metadataset(folder / "join.yaml")
    return folder


@pytest.fixture(autouse=True)
def joiner(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(MODULE)
    module.first = lambda one, two: one  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)


def build(folder: Path, mode: str, case: str, workers: int, **limits: Any) -> Any:
    """Build a dataset of which everything is dropped."""
    hook, function, options, _ = CASES[case]
    encoder = type("Refusing", (Encoder,), {hook: function} if function else {})()
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, **limits)
    common: dict[str, Any] = {"worker_config": config, "task_encoder": encoder, "batch_size": 2} | options
    training: dict[str, Any] = common | {"max_samples_per_sequence": 5}
    training["shuffle_buffer_size"] = 10 if mode == "shuffled" else None

    def filtered(dataset: Any) -> Any:
        return FilterDataset(dataset, lambda sample: False) if hook == "filter" else dataset

    def validation(name: str = "a") -> Any:
        return filtered(get_val_dataset(folder / name, split_part="train", **common))

    if mode in ("mix", "join"):
        return filtered(get_train_dataset(folder / f"{mode}.yaml", **training))
    if mode == "validation":
        return validation()
    if mode == "repeated validation":
        return RepeatDataset(validation())
    if mode == "repeated training":
        return RepeatDataset(filtered(get_train_dataset(folder / "a", repeat=False, **training)))
    if mode == "blended passes":
        return BlendDataset((RepeatDataset(validation()), 1), (RepeatDataset(validation("b")), 1))
    if mode == "virtual epochs of passes":
        return EpochizeDataset(validation(), 5)
    train = filtered(get_train_dataset(folder / "a", **training))
    if mode == "virtual epochs":
        return EpochizeDataset(train, 5)
    return RepeatDataset(EpochizeDataset(train, 5)) if mode == "repeated virtual epochs" else train


def check(folder: Path, mode: str, case: str, workers: int, **limits: Any) -> None:
    name = CASES[case][3]
    if mode in ENDLESS and case == "drop_last":
        assert len(list(itertools.islice(get_loader(build(folder, mode, case, workers)), 3))) == 3  # samples repeat
        return
    if mode == "virtual epochs of passes" and case == "groups that never fill":
        name = "drop_last"
    with pytest.raises(RepeatedSampleError) as caught:
        next(iter(get_loader(build(folder, mode, case, workers, **limits))))
    assert name in str(caught.value), caught.value
    assert caught.value.hint


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(5)
def test_a_run_that_drops_everything_ends_with_the_name_of_the_hook(data: Path, case: str) -> None:
    for mode in QUICK:
        check(data, mode, case, workers=0, skip_tolerance=60)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_runs_of_every_kind_end(data: Path, case: str, workers: int) -> None:
    for mode in (*ENDLESS, *REPEATED):
        check(data, mode, case, workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_single_pass_that_drop_last_drops_ends_with_a_warning(
    data: Path, caplog: pytest.LogCaptureFixture, workers: int
) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(get_loader(build(data, "validation", "drop_last", workers))) == []
    assert [record.message for record in caplog.records] == [
        "this pass has no micro-batch: drop_last of batch dropped 20 samples, fewer than batch_size=100"
    ]


@pytest.mark.parametrize(
    ("mode", "batch_size"),
    [
        *(("validation", 1), ("training", 2)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("validation", 2), ("training", 1))),
    ],
)
@pytest.mark.sampled(2)
def test_a_repeated_pass_with_few_good_samples_goes_on(data: Path, mode: str, batch_size: int) -> None:
    """Two of 20 samples are kept. The lanes of a worker take turns, and most of them have none of the two."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    common: dict[str, Any] = {"worker_config": config, "task_encoder": Encoder(), "batch_size": None}
    passes: Any
    if mode == "validation":
        passes = get_val_dataset(data / "a", split_part="train", **common)
    else:
        passes = get_train_dataset(
            data / "a", repeat=False, shuffle_buffer_size=10, max_samples_per_sequence=5, **common
        )
    kept = FilterDataset(passes, lambda sample: sample["__key__"].endswith("3"))
    batches = itertools.islice(get_loader(RepeatDataset(BatchDataset(kept, batch_size))), 300)
    assert sum(len(batch["__key__"]) for batch in batches) == 300 * batch_size


class Late(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that refuses the samples before a number, and after it all but one of 50,000."""

    decoder = None

    def __init__(self, refused: int) -> None:
        self.refused, self.calls = refused, 0

    def encode_sample(self, sample: Any) -> Any:
        self.calls += 1
        if self.calls <= self.refused or self.calls % 50_000:
            raise SkipSample
        return sample


@pytest.mark.slow
def test_long_stretches_of_refused_samples_do_not_end_a_run(tmp_path: Path) -> None:
    """In data of 300,000 samples, the first 200,000 of a lane are refused, then all but one of 50,000."""
    path = write_tokens(tmp_path / "tokens", [[0]] * 300_000)
    made = get_train_dataset(
        path,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        task_encoder=Late(200_000),
        batch_size=1,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )
    assert len(list(itertools.islice(get_loader(made), 4))) == 4
