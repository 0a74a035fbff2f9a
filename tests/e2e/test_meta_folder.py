"""Loaders read datasets whose metadata is in a folder of its own."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import loader
from loader import (
    CaptioningWebdataset,
    Cooker,
    DatasetFileStore,
    FileStore,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    get_val_datasets,
    stateless,
)
from loader.compat.webdataset_factory import prepare_dataset
from loader.dataset.opening import folder_at
from loader.errors import ConfigError
from loader.format.dataset_ref import DatasetRef
from loader.metadataset import prepare_metadataset
from tests.e2e.text_dataset import CRUDE, write_texts
from tests.small_disks import read_only

JOINER = {"__module__": __name__, "__function__": "joined"}


def joined(one: TextSample, other: TextSample) -> TextSample:
    return TextSample.derive_from(one, text=f"{one.text} and {other.text}")


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A read-only folder of shards, and the folder of its metadata."""
    shards = write_texts(tmp_path / "texts", train=(5, 3), val=(2,))
    meta = Path(shutil.move(shards / ".nv-meta", tmp_path / "meta"))
    for file in shards.glob("*.idx"):
        file.unlink()
    with read_only(shards):
        yield shards, meta


def texts(batches: Any) -> list[str]:
    return sorted(text for batch in batches for text in batch.text)


def config(workers: int = 0) -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=1, num_workers=workers)


def one_pass(path: Path, *, workers: int = 0, **named: Any) -> Any:
    """Return a loader of each training sample once."""
    train = get_train_dataset(
        path,
        worker_config=config(workers),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        **named,
    )
    return get_loader(train)


ALL_TRAIN = sorted(f"text {number}" for number in range(8))
ALL_VAL = ["text 8", "text 9"]


def test_every_loader_takes_a_meta_folder(moved: tuple[Path, Path]) -> None:
    path, meta = moved
    named: dict[str, Any] = {"meta_folder": meta}
    assert texts(one_pass(path, workers=1, **named)) == ALL_TRAIN
    val = get_val_dataset(path, worker_config=config(), batch_size=2, **named)
    assert texts(get_loader(val)) == ALL_VAL
    [(of_all, _)] = get_val_datasets(path, worker_config=config(), batch_size=2, **named)
    assert texts(get_loader(of_all)) == ALL_VAL
    assert [sample.text for sample in loader.random_access(path, "val", **named)] == ALL_VAL
    made = loader.get_dataset_from_config(path, split_part="train", training=False, worker_config=config(), **named)
    assert len(list(get_loader(made.build()))) == 8
    found = loader.load_dataset(path, **named).get_datasets(training=True, worker_config=config())
    assert sum(len(one.dataset) for one in found.datasets) == 8


def test_a_state_is_restored(moved: tuple[Path, Path]) -> None:
    path, meta = moved

    def open_run() -> Any:
        dataset = get_train_dataset(
            path,
            worker_config=config(1),
            batch_size=2,
            shuffle_buffer_size=4,
            max_samples_per_sequence=None,
            meta_folder=meta,
        )
        return get_savable_loader(dataset)

    first = open_run()
    stream = iter(first)
    _ = [next(stream) for _ in range(3)]
    state = first.save_state_rank()
    rest = [next(stream).text for _ in range(4)]
    again = open_run()
    again.restore_state_rank(state)
    stream = iter(again)
    assert [next(stream).text for _ in range(4)] == rest


def test_metadatasets_and_joins_name_meta_folders(
    moved: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert moved
    other = write_texts(tmp_path / "other", train=(5, 3), val=(2,))
    member = {"path": "../texts", "meta_folder": "${NO_SUCH_VARIABLE:../meta}", "subflavors": {"moved": True}}
    document = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {
            "train": {"blend_epochized": [{**member, "repetitions": 1}]},
            "val": {"join": [member, {"path": "../other"}], "joiner": JOINER},
        },
    }
    (tmp_path / "mixes").mkdir()
    mix = tmp_path / "mixes/mix.yaml"
    mix.write_text(yaml.safe_dump(document))
    monkeypatch.chdir(other)  # paths are relative to the document
    assert texts(one_pass(mix)) == ALL_TRAIN
    prepare_metadataset(mix)
    val = get_val_dataset(mix, worker_config=config(), batch_size=2)
    assert texts(get_loader(val)) == [f"{text} and {text}" for text in ALL_VAL]
    assert [report.rows for report in prepare_metadataset(mix)] == [2]


class _Prefixed(TaskEncoder[Any, Any, Any, Any]):
    """Cooks crude samples with their own dataset as a store."""

    @staticmethod
    @cooker(need_primary=True)
    def cook(sample: dict[str, Any], primary: FileStore[Any]) -> TextSample:
        text, _ = primary[".txt"]
        return TextSample(**basic_sample_keys(sample), text=f"stored {text}")

    cookers = (Cooker(cook),)


def test_stores_read_a_dataset_with_a_meta_folder(moved: tuple[Path, Path]) -> None:
    path, meta = moved
    store = DatasetFileStore(path, meta_folder=meta)
    assert store["00003.txt"][0] == pickle.loads(pickle.dumps(store))["00003.txt"][0] == b"text 3"
    (meta / "dataset.yaml").write_text(CRUDE)
    train = one_pass(path, workers=1, task_encoder=_Prefixed(), meta_folder=meta)
    assert texts(train) == [f"stored {text}" for text in ALL_TRAIN]
    made = CaptioningWebdataset(path, training=False, worker_config=config(), meta_folder=meta)
    assert made.as_file_store()["00003.txt"][0] == b"text 3"


@stateless
def cook_with_store(sample: dict[str, Any], moved: FileStore[Any]) -> TextSample:
    number = int(sample["txt"].removeprefix("text "))
    return TextSample(**basic_sample_keys(sample), text=f"{sample['txt']} of {moved.get(f'{number:05}.txt', sample)}")


class _WithStore(TaskEncoder[Any, Any, Any, Any]):
    cookers = (Cooker(cook_with_store),)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_auxiliary_store_names_a_meta_folder(moved: tuple[Path, Path], tmp_path: Path, workers: int) -> None:
    assert moved
    other = write_texts(tmp_path / "other", train=(5, 3), val=(2,))
    (other / ".nv-meta/dataset.yaml").write_text(CRUDE)
    store = {"path": "./texts", "meta_folder": "${NO_SUCH_VARIABLE:./meta}"}
    document = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {"val": {"path": "./other", "aux": {"moved": store}}},
    }
    mix = tmp_path / "mix.yaml"
    mix.write_text(yaml.safe_dump(document))
    val = get_val_dataset(mix, worker_config=config(workers), batch_size=2, task_encoder=_WithStore())
    assert texts(get_loader(val)) == [f"{text} of {text}" for text in ALL_VAL]
    store["meta_folder"] = "./gone"
    mix.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"splits.val.aux.moved: .*there is no .info.json in '.*/gone'"):
        get_val_dataset(mix, worker_config=config(), batch_size=2, task_encoder=_WithStore())


def test_scripts_prepare_with_a_meta_folder(moved: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = moved
    meta, shards = tmp_path / "again", [shard.name for shard in sorted(path.glob("*.tar"))]
    before = sorted(path.rglob("*"))
    prepare_dataset(path, shards, split_parts_ratio=[("train", 1.0)], workers=1, meta_folder=meta)
    assert len(folder_at(DatasetRef.at(path, meta)).index) == 10
    assert sorted(path.rglob("*")) == before


def test_a_meta_folder_with_a_metadataset_or_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("mix.yaml", "texts.jsonl"):
        with pytest.raises(ConfigError, match="expected the folder of a dataset together with a meta folder"):
            get_train_dataset(
                tmp_path / name,
                worker_config=config(),
                batch_size=1,
                shuffle_buffer_size=None,
                max_samples_per_sequence=None,
                meta_folder=tmp_path,
            )


def test_names_that_lead_out_of_the_meta_folder_are_refused(moved: tuple[Path, Path]) -> None:
    path, meta = moved
    for hostile in ('{"shard_counts": {"../other.tar": 1}}', '{"shard_counts": {"/etc/x.tar": 1}}'):
        (meta / ".info.json").write_text(hostile)
        with pytest.raises(ConfigError, match="expected the number of samples of each shard"):
            loader.random_access(path, meta_folder=meta)
