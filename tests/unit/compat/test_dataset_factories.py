"""Dataset factories: a dataset as an object, to build a chain on by hand."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import loader
from loader import (
    BatchDataset,
    ConfigError,
    CrudeJsonlDatasetFactory,
    CrudeSample,
    CrudeWebdataset,
    DatasetLoader,
    DefaultCrudeJsonlDatasetFactory,
    DefaultDecoderWebdatasetFactory,
    EmptyDatasetError,
    EPath,
    ImageSample,
    RepeatDataset,
    StandardWebdatasetFactory,
    TextSample,
    TextWebdataset,
    WorkerConfig,
    generic_batch,
    get_dataset_from_config,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    load_dataset,
)
from loader.compat import webdatasets
from loader.format.documents.brace_patterns import expand_pattern
from loader.format.documents.sample_types import SAMPLE_TYPES
from loader.format.documents.subset import SampleRange
from loader.training.datasets.dataset_factory import DatasetSubset
from tests.e2e.mixed_data import MixedData, write_mixed_data

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
TRAIN = [f"text {number}" for number in range(157)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    return write_mixed_data(tmp_path_factory.mktemp("factories"))


def texts(dataset: Any) -> Any:
    return [sample.text for sample in get_loader(dataset)]


def test_every_sample_type_has_a_dataset_class() -> None:
    for spec in SAMPLE_TYPES.values():
        dataset_class = getattr(loader, spec.dataset_class)
        assert dataset_class.__sample_type__.__name__ == spec.name
        assert issubclass(dataset_class, DefaultDecoderWebdatasetFactory)
        assert spec.name in dataset_class.__doc__
        assert pickle.loads(pickle.dumps(dataset_class)) is dataset_class
        derived: Any = type("Own", (dataset_class,), {})
        assert derived.__sample_type__ is dataset_class.__sample_type__


def test_type_checkers_know_every_dataset_class() -> None:
    stub = ast.parse(Path(webdatasets.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    found = {node.name: ast.unparse(node.bases[0]) for node in stub.body if isinstance(node, ast.ClassDef)}
    base = DefaultDecoderWebdatasetFactory.__name__
    assert found == {spec.dataset_class: f"{base}[{spec.name}]" for spec in SAMPLE_TYPES.values()}


def test_a_pass_for_training_is_shuffled_and_one_for_validation_is_not(data: Any) -> None:
    factory = get_dataset_from_config(data.texts, worker_config=ONE, max_samples_per_sequence=5)
    assert type(factory) is StandardWebdatasetFactory
    assert len(factory) == len(factory.build()) == 157
    shuffled = texts(factory.build())
    assert sorted(shuffled) == sorted(TRAIN)
    assert shuffled != TRAIN
    factory = get_dataset_from_config(data.texts, split_part="train", training=False, worker_config=ONE)
    assert texts(factory.build()) == TRAIN
    factory = get_dataset_from_config(data.texts, training=False, worker_config=ONE)
    assert len(factory) == 61


def test_stages_are_composed_on_a_factory(data: MixedData) -> None:
    factory = get_dataset_from_config(EPath(data.texts), training=False, worker_config=ONE)
    chain = RepeatDataset(BatchDataset(factory.build(), 10, batcher=generic_batch), repeats=2)
    batches = list(get_loader(chain))
    assert sorted(text for batch in batches for text in batch.text) == sorted(
        [f"text {n}" for n in range(157, 218)] * 2
    )
    assert max(len(batch.text) for batch in batches) == 10
    factory = get_dataset_from_config(data.texts, worker_config=ONE, shuffle_over_epochs=-1)
    endless = iter(get_loader(factory.build()))
    assert len({next(endless).text for _ in range(400)}) > 100


def test_worker_processes_share_a_factory(data: Any) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=2)
    factory = get_dataset_from_config(data.more, worker_config=config)
    assert sorted(texts(factory.build())) == [f"text {number}" for number in range(5000, 5040)]
    assert len(pickle.loads(pickle.dumps(factory))) == 40


def test_arguments_add_to_dataset_yaml(data: MixedData) -> None:
    factory = get_dataset_from_config(
        data.crude, split_part="val", training=False, subflavors={"a": 1}, worker_config=ONE, decoder=None
    )
    assert type(factory) is CrudeWebdataset
    sample = next(iter(get_loader(factory.build())))
    assert sample["txt"] == b"text 7030"
    assert sample["__subflavors__"] == {"a": 1}
    assert sample["__key__"] == "val_0.tar/07030"
    other = get_dataset_from_config(
        data.texts, training=False, field_map={"text": "txt"}, part_filter=["txt"], worker_config=ONE
    )
    assert next(iter(get_loader(other.build()))).text == "text 157"
    said = factory.config()
    assert said["dataset"]["split_part"] == "val"
    assert said["type"].endswith(".CrudeWebdataset")


def test_a_dataset_file_names_its_split_file(data: MixedData, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    shutil.copytree(data.texts, folder)
    split = yaml.safe_load((folder / ".nv-meta/split.yaml").read_text())
    train, val = split["split_parts"]["train"], split["split_parts"]["val"]
    names = {"split_parts": {"train": val, "val": train}, "exclude": split["exclude"]}
    (folder / ".nv-meta/other_split.yaml").write_text(yaml.safe_dump(names))
    dataset = yaml.safe_load((folder / ".nv-meta/dataset.yaml").read_text())
    (folder / ".nv-meta/other.yaml").write_text(yaml.safe_dump({**dataset, "split_config": "other_split.yaml"}))
    val_texts = [f"text {number}" for number in range(157, 218)]
    for part, expected in (("train", val_texts), ("val", TRAIN)):
        factory: Any = get_dataset_from_config(
            folder, dataset_config="other.yaml", split_part=part, training=False, worker_config=ONE
        )
        assert (texts(factory.build()), len(factory)) == (expected, len(expected))
        assert factory.split_part_files == [
            name for pattern in names["split_parts"][part] for name in expand_pattern(pattern)
        ]


def test_a_class_of_the_library_is_built_by_hand(data: Any) -> None:
    factory = TextWebdataset(data.texts, split_part="val", training=False, field_map={"text": "txt"}, worker_config=ONE)
    assert texts(factory.build())[:2] == ["text 157", "text 158"]
    assert factory.as_file_store().get("00157.txt") == b"text 157"
    assert factory.paths == [EPath(data.texts)]
    made = StandardWebdatasetFactory(
        data.texts,
        sample_type=TextSample,
        part_filter=["txt"],
        sample_loader=lambda parts: {"text": parts["txt"][-3:]},
        training=False,
        worker_config=ONE,
    )
    assert texts(made.build())[0] == "157"
    assert "val: 61 samples" in repr(made)


def test_a_loader_takes_the_chain_of_a_factory(data: MixedData) -> None:
    factory = get_dataset_from_config(data.texts)
    name = type(factory).__name__
    with pytest.raises(TypeError, match=rf"found {name}; pass {name}\(…\)\.build\(\)$"):
        get_loader(factory)  # type: ignore[arg-type]


def test_a_subset_of_the_samples_can_be_used(data: Any) -> None:
    for subset, expected in (
        (DatasetSubset(range=(0.0, 0.1)), range(15)),
        (DatasetSubset(absolute_range=(150, None)), range(150, 157)),
        (DatasetSubset(range=(0.3, 1.0), absolute_range=(100, 110)), range(103, 110)),
        ([SampleRange(start=3, stop=5)], range(3, 5)),
    ):
        factory = get_dataset_from_config(
            data.texts, split_part="train", training=False, subset=subset, worker_config=ONE
        )
        assert len(factory) == len(expected)
        assert texts(factory.build()) == [f"text {number}" for number in expected]
    assert len(get_dataset_from_config(data.lines, subset=DatasetSubset(absolute_range=(20, 23)))) == 3
    for wrong in ({"range": (0.5, 0.4)}, {"range": (0, 2)}, {"absolute_range": (5, 4)}, {"absolute_range": (-1, None)}):
        with pytest.raises(ConfigError, match="expected a range"):
            DatasetSubset(**wrong)


def test_samples_of_another_type_are_refused(data: MixedData) -> None:
    assert get_dataset_from_config(data.texts, sample_type=TextSample, worker_config=ONE)
    with pytest.raises(ConfigError, match="expected samples of ImageSample, found TextSample"):
        get_dataset_from_config(data.texts, sample_type=ImageSample, worker_config=ONE)
    assert get_dataset_from_config(data.lines, sample_type=CrudeSample, worker_config=ONE)


def test_a_path_that_is_not_a_single_dataset_is_refused(data: MixedData) -> None:
    meta = data.write("mix.yaml", {"train": {"path": "texts"}})
    with pytest.raises(ConfigError, match="metadataset"):
        get_dataset_from_config(meta)
    with pytest.raises(TypeError, match="no_such"):
        get_dataset_from_config(data.texts, no_such=1)
    with pytest.raises(ConfigError, match="shuffle_over_epochs"):
        get_dataset_from_config(data.texts, shuffle_over_epochs=0)
    with pytest.raises(ConfigError, match="max_samples_per_sequence"):
        get_dataset_from_config(data.texts, max_samples_per_sequence=0)


def test_a_dataset_loader_returns_its_dataset(data: MixedData) -> None:
    found = load_dataset(EPath(data.texts), subflavors={"a": 1, "b": 1})
    assert isinstance(found, DatasetLoader)
    factory = found.get_dataset(training=False, worker_config=ONE, subflavors={"b": 2})
    assert next(iter(get_loader(factory.build()))).__subflavors__ == {"a": 1, "b": 2}
    assert len(factory) == 61


def test_a_jsonl_file_is_a_factory_too(data: MixedData, tmp_path: Path) -> None:
    factory = get_dataset_from_config(data.lines, training=False, subflavors={"a": 1}, worker_config=ONE)
    assert type(factory) is DefaultCrudeJsonlDatasetFactory
    samples = list(get_loader(factory.build()))
    assert [sample["json"]["id"] for sample in samples] == list(range(9000, 9023))
    assert samples[0]["__subflavors__"] == {"a": 1}
    assert len(factory) == 23
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(data.lines.read_bytes())
    first = next(CrudeJsonlDatasetFactory.iter_dataset_content(copy))
    assert first == {"json": b'{"id": 9000, "text": "text 9000"}'}
    assert len(CrudeJsonlDatasetFactory(copy)) == 23
    assert not (tmp_path / "copy.jsonl.idx").exists()
    assert CrudeJsonlDatasetFactory.prepare_dataset(EPath(copy)) == 23
    assert len(CrudeJsonlDatasetFactory(copy)) == 23
    assert json.loads(factory.as_file_store()["3"][0]) == json.loads(factory.as_file_store().read_raw("3.json")[0])


def test_a_shard_is_iterated_without_an_index(data: MixedData) -> None:
    found = list(TextWebdataset.iter_dataset_content(data.texts / "train_1.tar", ("txt",)))
    assert found[0] == {"txt": b"text 41"}
    assert len(found) == 13
    assert next(TextWebdataset.iter_dataset_content(EPath(data.texts) / "train_1.tar")) == {"txt": None}


def test_an_epath_is_accepted_wherever_a_path_is(data: MixedData) -> None:
    path = EPath(data.texts)
    train = get_train_dataset(
        path, worker_config=ONE, batch_size=4, shuffle_buffer_size=10, max_samples_per_sequence=5, repeat=False
    )
    assert sum(len(batch.text) for batch in get_loader(train)) == 157
    assert len(get_val_dataset(path, worker_config=ONE, batch_size=1)) == 61
    meta = EPath(data.write("epath.yaml", {"train": {"path": "texts"}}))
    assert len(load_dataset(meta).get_datasets(training=True).sources) == 1
    assert loader.SystemFileStore(EPath(data.notes)).get("07000.txt") == b"note 7000"
    assert loader.DatasetFileStore(path).get("00000.txt") == b"text 0"


def test_an_empty_split_part_has_a_specific_error(data: MixedData, tmp_path: Path) -> None:
    split = yaml.safe_load((data.texts / ".nv-meta/split.yaml").read_text())
    split["split_parts"]["test"] = []
    (data.texts / ".nv-meta/empty.yaml").write_text(yaml.safe_dump(split))
    with pytest.raises(EmptyDatasetError, match="has no samples"):
        get_val_dataset(data.texts, split_part="test", split_config="empty.yaml", worker_config=ONE, batch_size=1)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(loader.StorageError, match="does not exist"):
        get_dataset_from_config(tmp_path / "gone")
