"""Loaded datasets one by one: chains that an overridden hook builds by hand, as code for megatron-energon does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    ConfigError,
    DefaultTaskEncoder,
    EnergonError,
    EPath,
    JoinedWebdatasetFactory,
    MapDataset,
    RepeatDataset,
    Sample,
    ShuffleBufferDataset,
    StorageError,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_dataset_from_config,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    load_dataset,
)
from loader.compat.dataset_facts import EnergonDatasetType, get_dataset_type
from loader.samples.types import CrudeSample, TextSample
from loader.training.datasets.dataset_factory import DatasetBlendMode, LoadedDataset
from tests.e2e.mixed_data import MixedData, write_mixed_data

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("loaded"))
    data.write(
        "blend.yaml",
        {
            "train": {
                "blend": [{"weight": 3, "path": "texts"}, {"weight": 1, "path": "more", "aux": {"p": "pictures"}}]
            },
            "val": {"blend": [{"path": "texts"}, {"path": "more"}]},
        },
    )
    data.write("repeated.yaml", {"train": {"blend_epochized": [{"repetitions": 2, "path": "more"}, {"path": "texts"}]}})
    return data


class ByHand(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Hooks as written for megatron-energon: all arguments by name, and the datasets as a list."""

    def build_train_datasets(  # type: ignore[override] # fewer arguments than the base class allows
        self,
        *,
        datasets: list[LoadedDataset],
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        virtual_epoch_length: int = 0,
        shuffle_buffer_size: int | None = None,
        blend_mode: DatasetBlendMode = DatasetBlendMode.NONE,
        repeat: bool = True,
    ) -> BatchDataset[Any]:
        assert batch_size is not None
        assert shuffle_buffer_size is not None
        self.blend_mode = blend_mode
        inner = []
        for one in datasets:
            repeated = RepeatDataset(one.dataset.build(), worker_config=worker_config)
            dataset = ShuffleBufferDataset(repeated, size=shuffle_buffer_size, worker_config=worker_config)
            inner.append((MapDataset(dataset, self.mark, worker_config=worker_config), one.weight or 1.0))
        blend: BlendDataset[Any] = BlendDataset(*inner, worker_config=worker_config)
        return BatchDataset(blend, batch_size, self.batch, worker_config=worker_config)

    def build_val_datasets(  # type: ignore[override] # fewer arguments than the base class allows
        self,
        *,
        datasets: list[LoadedDataset],
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        limit: int | None = None,
    ) -> ConcatDataset[Any]:
        assert len(datasets) == 2
        return ConcatDataset(*[dataset.dataset.build() for dataset in datasets], worker_config=worker_config)

    @staticmethod
    def mark(sample: TextSample) -> TextSample:
        sample.text += "!"
        return sample


def test_an_overridden_hook_builds_the_chain_of_a_blend(data: MixedData) -> None:
    encoder = ByHand()
    dataset = get_train_dataset(
        data.folder / "blend.yaml",
        worker_config=ONE,
        batch_size=4,
        shuffle_buffer_size=5,
        max_samples_per_sequence=10,
        task_encoder=encoder,
    )
    assert encoder.blend_mode is DatasetBlendMode.DATASET_WEIGHT
    batches = iter(get_loader(dataset))
    texts = [text for _ in range(100) for text in next(batches).text]
    assert all(text.endswith("!") for text in texts)
    share = sum(len(text) == len("text 5000!") for text in texts) / len(texts)
    assert 0.2 < share < 0.3


def test_an_overridden_hook_builds_the_chain_of_validation(data: MixedData) -> None:
    dataset = get_val_dataset(data.folder / "blend.yaml", worker_config=ONE, batch_size=None, task_encoder=ByHand())
    texts = [sample.text for sample in get_loader(dataset)]
    assert sorted(texts) == sorted(f"text {n}" for n in [*range(157, 218), *range(5040, 5045)])


def test_loaded_datasets_have_the_settings_of_the_metadataset(data: MixedData) -> None:
    blend = load_dataset(EPath(data.folder) / "blend.yaml").get_datasets(training=True, worker_config=ONE)
    assert blend.blend_mode is DatasetBlendMode.DATASET_WEIGHT
    assert [one.weight for one in blend] == [0.75, 0.25]
    assert [list(one.aux) for one in blend.datasets] == [[], ["p"]]
    assert blend[1].aux["p"].get("07000.raw") == b"picture 7000"
    assert [len(one.dataset) for one in blend] == [157, 40]
    assert blend[0].dataset.as_file_store().get("00000.txt") == b"text 0"
    assert blend[0].dataset.worker_config is ONE
    repeated = load_dataset(data.folder / "repeated.yaml").get_datasets(training=True)
    assert repeated.blend_mode is DatasetBlendMode.SAMPLE_REPETITIONS
    assert [(one.weight, one.repetitions) for one in repeated] == [(None, 2), (None, 1)]
    single = load_dataset(data.lines).get_datasets(training=False)
    assert single.blend_mode is DatasetBlendMode.NONE
    assert single[0].dataset.as_file_store().get("lines.jsonl/0") == data.lines.read_bytes().splitlines()[0]
    validation = load_dataset(data.folder / "blend.yaml").get_datasets(training=False, split_part="train")
    assert validation.blend_mode is DatasetBlendMode.DATASET_WEIGHT
    assert [one.weight for one in validation] == [0.75, 0.25]


def test_the_kind_of_a_path_is_found_by_its_content(data: MixedData, tmp_path: Path) -> None:
    kinds = [get_dataset_type(path) for path in (data.texts, EPath(data.lines), data.folder / "blend.yaml")]
    assert kinds == [EnergonDatasetType.WEBDATASET, EnergonDatasetType.JSONL, EnergonDatasetType.METADATASET]
    (tmp_path / ".nv-meta").mkdir()
    assert get_dataset_type(tmp_path) is EnergonDatasetType.INVALID
    (tmp_path / ".nv-meta/index.sqlite").touch()
    assert get_dataset_type(f"{tmp_path}/") is EnergonDatasetType.FILESYSTEM
    for path in ("ftp://host/ds", tmp_path / "no.yaml", tmp_path / "no.jsonl"):
        assert get_dataset_type(path) is EnergonDatasetType.INVALID


# ------------------------------------------------------------------------------------------------------ joins by hand


@edataclass
class Pair(Sample):
    text: str
    picture: bytes

    @classmethod
    def from_joined(cls, story: CrudeSample, picture: CrudeSample) -> Pair:
        return cls(**basic_sample_keys(story), text=story["txt"], picture=picture["raw"])


def members(data: MixedData, part: str = "train") -> Any:
    options: dict[str, Any] = {"training": False, "worker_config": ONE}
    return [
        get_dataset_from_config(data.crude, split_part=part, **options),
        get_dataset_from_config(data.pictures, split_part="train", **options),
    ]


def test_datasets_are_joined_by_their_keys(data: MixedData) -> None:
    joined = JoinedWebdatasetFactory(
        members(data, "val"), joiner=Pair, nonmatch="skip", training=False, worker_config=ONE
    )
    pairs = list(get_loader(joined.build()))
    assert len(joined) == len(pairs)
    assert all(pair.text.split()[1] == pair.picture.split()[1].decode() for pair in pairs)
    assert joined.paths == [EPath(data.crude), EPath(data.pictures)]
    with pytest.raises(EnergonError, match="not in a store"):
        joined.as_file_store()


def test_rows_without_a_match_are_errors_or_have_none(data: MixedData) -> None:
    story, picture = members(data)
    named = {"story": story, "picture": picture}
    strict = JoinedWebdatasetFactory(named, joiner=Pair, training=False, worker_config=ONE)
    with pytest.raises(ConfigError, match="lacks"):
        len(strict)
    lenient = JoinedWebdatasetFactory(
        named, joiner=lambda story, picture: (story["txt"], picture), nonmatch="none", training=False, worker_config=ONE
    )
    rows = list(get_loader(lenient.build()))
    assert [text for text, _ in rows] == [f"text {number}" for number in range(7000, 7030)]
    assert any(picture is None for _, picture in rows)


def test_datasets_that_cannot_be_joined_are_refused(data: MixedData, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found none"):
        JoinedWebdatasetFactory([], joiner=Pair)
    story, picture = members(data)
    story.subset = (object(),)
    with pytest.raises(ConfigError, match="has a subset"):
        JoinedWebdatasetFactory([story, picture], joiner=Pair)
    with pytest.raises(StorageError):
        get_dataset_from_config(tmp_path)
