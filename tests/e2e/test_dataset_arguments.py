"""Keyword arguments of ``get_train_dataset`` that reach the description of the dataset."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loader import (
    DefaultDecoderWebdatasetFactory,
    ImageSample,
    Sample,
    TextSample,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    load_dataset,
)
from loader.errors import ConfigError, TrustError
from loader.training.datasets.dataset_factory import DatasetSubset
from tests.e2e.text_dataset import CRUDE, TEXT, write_texts

MODULE = "dataset_class_of_the_user"
OWN = f"{{__module__: {MODULE}, __class__: Poems, suffix: of the file}}"


class Poems(DefaultDecoderWebdatasetFactory[TextSample]):
    """Texts with a suffix."""

    __sample_type__ = TextSample

    def __init__(self, path: Any, *, suffix: str = "", prefix: str = "", **kwargs: Any) -> None:
        super().__init__(path, field_map={"text": "txt"}, **kwargs)
        self.suffix, self.prefix = suffix, prefix

    def load_sample(self, sample: Any) -> Any:
        loaded = super().load_sample(sample)
        loaded.text = f"{self.prefix}{loaded.text}{self.suffix}"
        return loaded


@pytest.fixture(autouse=True)
def own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(MODULE)
    module.Poems = Poems  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)


def texts(folder: Path, config: str | None = TEXT) -> Path:
    write_texts(folder, train=(2, 2), val=(1,), config=config or TEXT)
    if config is None:
        (folder / ".nv-meta/dataset.yaml").unlink()
    return folder


def load(path: Path, **options: Any) -> list[Any]:
    one = WorkerConfig(rank=0, world_size=1, num_workers=0)
    return list(get_loader(get_val_dataset(path, split_part="train", batch_size=None, worker_config=one, **options)))


def test_sample_type_is_checked(tmp_path: Path) -> None:
    path = texts(tmp_path)
    for accepted in (TextSample, Sample):
        assert [sample.text for sample in load(path, sample_type=accepted)] == [f"text {n}" for n in range(4)]
    with pytest.raises(ConfigError, match="expected samples of ImageSample, found TextSample"):
        load(path, sample_type=ImageSample)


def test_sample_type_describes_a_dataset_without_a_file(tmp_path: Path) -> None:
    path = texts(tmp_path, config=None)
    found = load(path, sample_type=TextSample, field_map={"text": "txt"})
    assert [(type(sample), sample.text) for sample in found] == [(TextSample, f"text {n}") for n in range(4)]
    found = load(path, sample_type=TextSample, sample_loader=lambda raw: {"text": raw["txt"].upper()})
    assert [sample.text for sample in found] == [f"TEXT {n}" for n in range(4)]
    with pytest.raises(ConfigError, match="found CrudeSample"):
        load(path, sample_type=TextSample)


def test_a_file_of_the_dataset_as_sample_loader_needs_trust(tmp_path: Path) -> None:
    path = texts(tmp_path, config=None)
    (path / ".nv-meta/own.py").write_text("def load(raw):\n    return {'text': 'own'}\n")
    options: dict[str, Any] = {"sample_type": TextSample, "sample_loader": "own.py:load"}
    with pytest.raises(TrustError):
        load(path, **options)
    assert {sample.text for sample in load(path, **options, trust_code=True)} == {"own"}


def test_the_file_wins_with_a_warning(tmp_path: Path) -> None:
    path = texts(tmp_path)
    with pytest.warns(UserWarning, match="field_map= has no effect: dataset.yaml describes the samples"):
        assert load(path, field_map={"text": "nothing"})[0].text == "text 0"


@pytest.mark.parametrize("part_filter", [["nothing"], lambda name: name == "nothing"], ids=["names", "function"])
def test_part_filter_of_crude_samples(tmp_path: Path, part_filter: Any) -> None:
    path = texts(tmp_path, config=CRUDE)
    assert "txt" in load(path)[0]
    assert "txt" not in load(path, part_filter=part_filter)[0]


def test_subset(tmp_path: Path) -> None:
    path = texts(tmp_path)
    assert [sample.text for sample in load(path, subset=DatasetSubset(range=(0.5, 1.0)))] == ["text 2", "text 3"]
    assert [sample.text for sample in load(path, subset=DatasetSubset(absolute_range=(1, 2)))] == ["text 1"]


@pytest.mark.parametrize("in_a_mix", [False, True])
def test_other_arguments_reach_the_users_class(tmp_path: Path, in_a_mix: bool) -> None:
    path = texts(tmp_path / "d", config=OWN)
    if in_a_mix:
        path = tmp_path / "mix.yaml"
        path.write_text("{__module__: megatron.energon, __class__: MetadatasetV2, splits: {train: {path: d}}}")
    assert load(path, prefix="a ", suffix="ignored")[0].text == "a text 0of the file"
    with pytest.raises(ConfigError, match="unexpected keyword argument 'prefx'"):
        load(path, prefx="a ")


def test_unknown_arguments_are_refused(tmp_path: Path) -> None:
    texts(tmp_path / "own", config=OWN)
    texts(tmp_path / "d")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "{__module__: megatron.energon, __class__: MetadatasetV2, splits: {train: {blend: [{path: own}, {path: d}]}}}"
    )
    for path in (tmp_path / "d", mix):
        with pytest.raises(TypeError, match=r"get_val_dataset\(\) has no argument 'prefix'"):
            load(path, prefix="a")
    with pytest.raises(TypeError, match="has no argument 'decoder'"):
        load(tmp_path / "own", decoder=None)


def test_all_functions_accept_them(tmp_path: Path) -> None:
    path = texts(tmp_path)
    one = WorkerConfig(rank=0, world_size=1, num_workers=0)
    train = get_train_dataset(
        path,
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        worker_config=one,
        sample_type=TextSample,
        key_format="key",
        subset=DatasetSubset(absolute_range=(0, 1)),
    )
    assert [sample.__key__ for sample in get_loader(train)] == ["00000"]
    loaded = load_dataset(path).get_datasets(
        training=False, split_part="train", worker_config=one, subset=DatasetSubset(absolute_range=(0, 1))
    )
    assert sum(source.samples for source in loaded.sources) == 1


def test_files_named_by_a_metadataset(tmp_path: Path) -> None:
    path = texts(tmp_path / "d")
    (path / ".nv-meta/other.yaml").write_text("split_parts: {train: [train_1.tar]}\n")
    (path / ".nv-meta/crude.yaml").write_text(CRUDE)
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"
        "    {path: d, split_config: other.yaml, dataset_config: crude.yaml}\n"
    )
    assert [sample["txt"] for sample in load(mix)] == ["text 2", "text 3"]
