"""Token, JSONL and Parquet files in training: alone, in folders and as leaves of mixes."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from loader import (
    BinIdxDatasetFactory,
    BinIdxFileStore,
    ConfigError,
    Cooker,
    CrudeParquetDatasetFactory,
    DefaultBinIdxDatasetFactory,
    MissingFileError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_dataset_from_config,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    prepare_metadataset,
    random_access,
    stateless,
)
from loader.format.dataset_ref import DatasetRef
from loader.inspect.sample_view import PreviewRequest
from loader.inspect.views import open_views
from tests.e2e.golden_states import TABLES, write_tables
from tests.elastic_runs import Spread, check_every_save
from tests.tables import row
from tests.token_files import ids_of, numbered, write_tokens

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
KINDS: dict[str, tuple[range, Callable[[Any], int]]] = {
    "tokens": (range(211), lambda sample: int(sample["tokens"][0])),
    "tokens.bin": (range(211), lambda sample: int(sample["tokens"][0])),
    "rows.parquet": (range(1000, 1090), lambda sample: int(sample["id"])),
    "lines": (range(2000, 2100), lambda sample: int(sample["json"]["id"])),
    "rows": (range(2000, 2100), lambda sample: int(sample["id"])),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    write_tables(path)
    return path


class Plain(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that keeps crude samples."""


def train(path: Path, config: WorkerConfig = ONE, **options: Any) -> Any:
    defaults = {"batch_size": None, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "task_encoder": Plain()}
    return get_train_dataset(path, worker_config=config, **defaults | options)


def write_mix(path: Path, splits: dict[str, Any]) -> Path:
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(2)
def test_an_epoch_has_each_sample_once(folder: Path, name: str) -> None:
    numbers, number_of = KINDS[name]
    found = [number_of(sample) for sample in get_loader(train(folder / name, repeat=False))]
    assert sorted(found) == list(numbers)
    assert found != list(numbers)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(2)
def test_validation_comes_in_order(folder: Path, name: str) -> None:
    numbers, number_of = KINDS[name]
    dataset = get_val_dataset(
        folder / name, split_part="train", batch_size=None, worker_config=ONE, task_encoder=Plain()
    )
    samples = list(get_loader(dataset))
    assert sorted(map(number_of, samples)) == list(numbers)
    assert len({sample["__key__"] for sample in samples}) == len(numbers)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(2)
def test_samples_are_read_by_number_and_restored(folder: Path, name: str) -> None:
    numbers, number_of = KINDS[name]
    samples = random_access(folder / name, split_part="train", task_encoder=Plain())
    assert [number_of(sample) for sample in samples[:]] == list(numbers)
    loader = get_savable_loader(train(folder / name))
    for sample in islice(loader, 25):
        again = loader.restore_sample(sample["__restore_key__"])
        assert (again["__key__"], number_of(again)) == (sample["__key__"], number_of(sample))


def test_values_are_those_of_the_file(folder: Path) -> None:
    tokens = random_access(folder / "tokens.bin", split_part="train")[3]
    assert (tokens["tokens"].dtype, tokens["tokens"].tolist()) == (np.uint16, [3, 0, 1, 2])
    assert tokens["__key__"] == "tokens.bin/3"
    (source,) = tokens["__sources__"]
    assert source == (str(folder / "tokens.bin"), 3, "tokens.bin", ("3.tokens",))
    found = random_access(folder / "rows", split_part="train")[35]
    assert {name: found[name] for name in row(0)} == row(2035)
    assert found["__key__"] == "1.parquet/4"


def test_a_folder_has_split_parts_and_a_file_serves_as_any(folder: Path) -> None:
    assert [sample["id"] for sample in random_access(folder / "rows", split_part="val")[:]] == [*range(2100, 2110)]
    assert len(random_access(folder / "tokens.bin", split_part="test")) == 211
    with pytest.raises(ConfigError, match="no split part 'test'"):
        random_access(folder / "lines", split_part="test")


def test_ranges_split_a_file(folder: Path) -> None:
    splits = {
        part: {"path": "tokens", "subset": {"range": some}}
        for part, some in (("train", ["0%", "90%"]), ("val", ["90%", "100%"]))
    }
    path = write_mix(folder / "ranges.yaml", splits)
    train_ids, val_ids = (ids_of(random_access(path, split_part=part)[:]) for part in ("train", "val"))
    assert (train_ids, val_ids) == ([*range(189)], [*range(189, 211)])


def test_leaves_come_by_their_weights(folder: Path) -> None:
    samples = list(islice(get_loader(train(folder / "files.yaml")), 2000))
    tokens = sum("tokens" in sample for sample in samples)
    assert 0.57 < tokens / 2000 < 0.63
    assert {int(sample["tokens"][0]) for sample in samples if "tokens" in sample} == {*range(21, 189)}


def test_a_blend_may_have_tiny_weights_and_unusual_paths(tmp_path: Path) -> None:
    blend = []
    for number, weight in enumerate((1.0, 6e-8, 2e-3)):
        write_tokens(tmp_path / f"a#{number} b", numbered(40, first=1000 * number))
        blend.append({"path": f"./a#{number} b", "weight": weight})
    path = write_mix(tmp_path / "mix.yaml", {"train": {"blend": blend}})
    found = ids_of(list(islice(get_loader(train(path)), 3000)))
    assert not any(1000 <= number < 2000 for number in found)
    assert 1 <= sum(number >= 2000 for number in found) <= 15


@pytest.mark.parametrize("name", ["token file", "folder of Parquet files", "blend of files"])
@pytest.mark.sampled(3)
def test_a_run_resumes_on_other_ranks(folder: Path, name: str) -> None:
    pipeline = TABLES[name].pipeline(folder)
    check_every_save(pipeline, Spread(2), (Spread(3), Spread(1), Spread(4)), every=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_run_resumes_with_other_workers(folder: Path, name: str) -> None:
    check_every_save(TABLES[name].pipeline(folder), Spread(2, 2), (Spread(1, 3), Spread(3, 1)), every=4)


def test_worker_processes_read_the_files(folder: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        found = list(islice(get_loader(train(folder / "files.yaml", config)), 60))
    assert len(found) == 60


def test_a_join_needs_keys(folder: Path, tmp_path: Path) -> None:
    joiner = {"__module__": "json", "__function__": "loads"}
    for member, message in (
        ("tokens", "found a token file, which has no keys"),
        ("rows", "found one of parquet files"),
    ):
        joined = [{"path": str(folder / member)}, {"path": str(folder / "rows")}]
        path = write_mix(tmp_path / "join.yaml", {"train": {"join": joined, "joiner": joiner}})
        with pytest.raises(ConfigError, match=message):
            prepare_metadataset(path)


def test_dataset_classes_are_found_by_the_path(folder: Path) -> None:
    tokens = get_dataset_from_config(folder / "tokens", training=False, worker_config=ONE)
    assert type(tokens) is DefaultBinIdxDatasetFactory
    assert ids_of(list(get_loader(tokens.build()))) == list(range(211))
    assert type(get_dataset_from_config(folder / "rows.parquet", worker_config=ONE)) is CrudeParquetDatasetFactory
    assert BinIdxDatasetFactory.prepare_dataset(folder / "tokens") == 211
    assert next(CrudeParquetDatasetFactory.iter_dataset_content(folder / "rows.parquet")) == row(1000)
    folder_class = get_dataset_from_config(folder / "rows", split_part="train", training=False, worker_config=ONE)
    assert [sample["id"] for sample in islice(get_loader(folder_class.build()), 2)] == [2000, 2001]


def test_a_store_returns_sequences_by_number(folder: Path) -> None:
    store = BinIdxFileStore(folder / "tokens")
    tokens, source = store["3"]
    assert (tokens.tolist(), source.file_names) == ([3, 0, 1, 2], ("3.tokens",))
    assert store["tokens.bin/3"][0].tolist() == store["3.tokens"][0].tolist() == tokens.tolist()
    assert store == BinIdxDatasetFactory(folder / "tokens.bin", worker_config=ONE).as_file_store()
    for key in ("211", "-1", "x", "other.bin/3"):
        with pytest.raises(MissingFileError, match="keys are the numbers from 0 to 210"):
            _ = store[key]


def test_a_token_file_is_an_auxiliary_store(folder: Path, tmp_path: Path) -> None:
    @stateless
    @cooker(need_cache=False)
    def with_tokens(sample: dict[str, Any], tokens: Any) -> TextSample:
        text = str(tokens.get("7", sample).tolist())  # adds the source to the sample
        return TextSample(**basic_sample_keys(sample), text=text)

    class Cooking(TaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(with_tokens),)

    split = {"path": str(folder / "rows.parquet"), "aux": {"tokens": str(folder / "tokens.bin")}}
    samples = random_access(
        write_mix(tmp_path / "aux.yaml", {"train": split}), split_part="train", task_encoder=Cooking()
    )
    assert samples[0].text == "[7, 0, 1, 2]"
    assert samples[0].__sources__[-1].file_names == ("7.tokens",)


def test_a_field_map_makes_typed_samples_of_a_folder(folder: Path, tmp_path: Path) -> None:
    for name, expression in (("rows", "text"), ("lines", "json[text]")):
        copy = Path(shutil.copytree(folder / name, tmp_path / name))
        (copy / ".nv-meta/dataset.yaml").write_text(
            f"__module__: megatron.energon\n__class__: TextWebdataset\nfield_map: {{text: '{expression}'}}\n"
        )
        samples = random_access(copy, split_part="train")
        assert (type(samples[5]), samples[5].text) == (TextSample, "text 2005")
        factory = get_dataset_from_config(copy, split_part="train", training=False, worker_config=ONE)
        assert [sample.text for sample in islice(get_loader(factory.build()), 2)] == ["text 2000", "text 2001"]
        view = open_views(PreviewRequest(ref=DatasetRef(str(copy)))).view(7)
        assert [(field.name, field.text, view.fault) for field in view.fields] == [("text", "text 2007", None)]
