"""DatasetSource: numbers of a split part's samples, excluded samples, pickling."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.compat.webdataset_factory import BaseWebdatasetFactory
from loader.dataset.packed_numbers import unpack_numbers
from loader.errors import ConfigError, FormatError, StorageError, TrustError
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.format.documents.subset import SampleRange
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.order_plan import SequentialPlan
from loader.pipeline.reading.read import ReadDataset
from loader.pipeline.reading.sample_chunk import OpenSources
from loader.samples.building.sample_builder import RawSample
from loader.samples.decoding.decoder import SampleDecoder
from loader.testing.stage import values
from tests.unit.pipeline.tar_dataset import TEXT_AND_JSON, leave_out, open_source, raw_samples, texts, write_dataset


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of 3, 0, 4 and 5 samples for training, and of 2 and 1 for validation between them."""
    sizes = {"a.tar": 3, "b.tar": 0, "val0.tar": 2, "c.tar": 4, "d.tar": 5, "val1.tar": 1}
    folder = tmp_path_factory.mktemp("source") / "whole"
    return write_dataset(folder, {name: texts(0, size) for name, size in sizes.items()})


def numbers(source: DatasetSource) -> list[int]:
    samples = np.arange(source.samples)
    found: list[int] = OpenSources((source,)).index_numbers(np.zeros_like(samples), samples).tolist()
    return found


TRAIN = [0, 1, 2, *range(3, 7), *range(7, 12)]  # d.tar comes before val0.tar in the index


def test_samples_are_numbered_over_the_shards_of_the_split_part(whole: Path) -> None:
    train, val = (
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(whole)), split_part="train")),
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(whole)), split_part="val")),
    )
    assert train.shard_names == ["a.tar", "b.tar", "c.tar", "d.tar", "val0.tar", "val1.tar"]
    assert (train.samples, numbers(train), train.selection.largest_shard) == (12, TRAIN, 5)
    assert (val.samples, numbers(val), val.selection.largest_shard) == (3, [12, 13, 14], 2)
    assert OpenSources((train,)).index_numbers(np.zeros(4, int), np.array([11, 0, 3, 3])).tolist() == [11, 0, 3, 3]


def test_shards_of_a_part_need_not_be_neighbours(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {f"{n}.tar": texts(0, n + 1) for n in range(5)})
    split = folder / ".nv-meta/split.yaml"
    split.write_text("split_parts: {train: [3.tar, 0.tar], val: ['{1,4}.tar']}\n")
    assert numbers(DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train"))) == [
        6,
        7,
        8,
        9,
        0,
    ]
    assert numbers(DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="val"))) == [
        1,
        2,
        *range(10, 15),
    ]


@pytest.mark.parametrize(
    ("subset", "expected"),
    [((0, 12), TRAIN), ((2, 5), [2, 3, 4]), ((11, None), [11]), ((0, 1), [0]), ((3, 9), [3, 4, 5, 6, 7, 8])],
)
def test_a_subset_is_a_range_of_the_parts_samples(whole: Path, subset: Any, expected: list[int]) -> None:
    source = open_source(whole, split_part="train", subset=(SampleRange(start=subset[0], stop=subset[1]),))
    assert (source.samples, numbers(source)) == (len(expected), expected)


def test_samples_excluded_during_a_run_keep_their_numbers(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 3), "b.tar": texts(0, 4)})
    before = open_source(folder, split_part="train")
    assert (before.turns.excluded.tolist(), before.samples) == ([], 7)
    leave_out(folder, "a.tar", "b.tar/002")
    source = open_source(folder, split_part="train", excluded_later=True)
    assert (source.turns.excluded.tolist(), source.samples, numbers(source)) == ([0, 1, 2, 5], 7, list(range(7)))
    assert source.identity() == before.identity()


def test_samples_excluded_before_a_run_have_no_number(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 3), "b.tar": texts(0, 4), "c.tar": texts(0, 2)})
    before = open_source(folder, split_part="train").identity()
    leave_out(folder, "a.tar/002", "b.tar/000", "b.tar/002", "c.tar")
    source = open_source(folder, split_part="train")
    assert (source.turns.excluded.tolist(), source.samples, numbers(source)) == ([], 4, [0, 1, 4, 6])
    assert source.turns.numbers().tolist() == [0, 1, 4, 6]
    assert source.selection.positions(np.array([0, 2, 4, 5, 6])).tolist() == [0, 2, 4, 5, 6]
    identity = source.identity()
    assert unpack_numbers(identity.pop("excluded"), 9).tolist() == [2, 3, 5, 7, 8]
    assert identity == before
    # Another process takes the numbers of this one, also after more exclusions.
    leave_out(folder, "a.tar/000")
    other = pickle.loads(pickle.dumps(source))
    assert (other.turns.excluded.tolist(), numbers(other)) == ([0], [0, 1, 4, 6])
    assert other.identity() == source.identity()


def test_a_subset_is_cut_before_exclusions(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 6), "b.tar": texts(0, 6)})
    leave_out(folder, "a.tar/000", "a.tar/004", "b.tar/001", "b.tar/004")
    source = open_source(folder, subset=(SampleRange(start=3, stop=9),))
    assert numbers(source) == [3, 5, 6, 8]


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("subset", [(5, 5), (0, 0), (12, 12)])
def test_a_source_without_samples_is_refused(whole: Path, subset: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="the subset of split part 'train' of this dataset has no samples") as caught:
        open_source(whole, subset=(SampleRange(start=subset[0], stop=subset[1]),)).samples  # noqa: B018
    assert caught.value.at == str(whole)


def test_a_part_of_which_every_sample_is_excluded_is_refused(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2), "b.tar": texts(0, 2), "val.tar": texts(0, 9)})
    leave_out(folder, "a.tar", "b.tar/000", "val.tar")
    assert DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train")).samples == 1
    leave_out(folder, "a.tar", "b.tar/000", "b.tar/001")
    with pytest.raises(ConfigError, match="all samples of split part 'train' are excluded \\(4\\)") as caught:
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train")).samples  # noqa: B018
    assert caught.value.hint == "remove some from 'exclude' in .nv-meta/split.yaml"
    with pytest.raises(ConfigError, match="all samples of split part 'train' are excluded \\(4\\)"):
        open_source(folder, excluded_later=True).samples  # noqa: B018
    assert DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="val")).samples == 9


def test_a_missing_split_part_or_dataset_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no split part 'test'; there are: train, val"):
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(whole)), split_part="test")).samples  # noqa: B018
    with pytest.raises(StorageError, match="does not exist"):
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(tmp_path / "gone")), split_part="train")).samples  # noqa: B018


# ----------------------------------------------------------------------------------------------------- building samples


def test_dataset_yaml_decides_which_parts_are_read(tmp_path: Path, whole: Path) -> None:
    crude = open_source(whole, split_part="train")
    assert crude.recipe.is_crude
    assert crude.locate(np.array([0])).part_name == ["txt", "json"]
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2)}, config=TEXT_AND_JSON.replace("label: json", ""))
    typed = open_source(folder, split_part="train")
    assert not typed.recipe.is_crude
    assert typed.locate(np.array([0])).part_name == ["txt"]


def test_other_split_and_dataset_files_can_be_chosen(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2), "b.tar": texts(0, 3)}, config=TEXT_AND_JSON)
    (folder / ".nv-meta/mine.yaml").write_text("split_parts: {small: [a.tar]}\n")
    (folder / ".nv-meta/crude.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    source = DatasetSource(
        request=LoadRequest(
            ref=DatasetRef(str(folder), split_config="mine.yaml", dataset_config="crude.yaml"), split_part="small"
        )
    )
    assert (source.samples, source.recipe.is_crude) == (2, True)


def test_code_of_the_dataset_runs_only_with_trust_code(tmp_path: Path) -> None:
    config = (
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\nsample_loader: sample_loader.py:load\n"
    )
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2)}, config=config)
    (folder / ".nv-meta/sample_loader.py").write_text("def load(parts): return {'text': parts['txt'].upper()}\n")
    with pytest.raises(TrustError):
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train")).recipe.builder  # noqa: B018
    trusting = open_source(folder, split_part="train", trust_code=True)
    assert trusting.recipe.builder.build({"txt": b"a cat"}, key="a.tar/0").text == "A CAT"


# ------------------------------------------------------------------------------------------------------ other processes


def used(folder: Path) -> DatasetSource:
    """Open a source, read and build samples."""
    source = DatasetSource(
        request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train", subflavors={"a": 1}),
        decoder=SampleDecoder(image_decode="pil"),
    )
    dataset = ReadDataset((source,), SequentialPlan(), worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))
    assert values(dataset) == raw_samples_of_train(folder)
    source.recipe.builder.build({"txt": b"x", "json": b"{}"}, key="a.tar/0")
    assert source.turns.excluded.tolist() == []
    return source


def raw_samples_of_train(folder: Path) -> list[RawSample]:
    return [sample for sample in raw_samples(folder) if not sample[2].startswith("val")]


def read_and_send(source: DatasetSource, connection: Any) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0)
    connection.send((values(ReadDataset((source,), SequentialPlan(), worker_config=alone)), source.identity()))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_used_source_reads_the_same_in_another_process(whole: Any, method: Any) -> None:
    source = used(whole)
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=read_and_send, args=(source, theirs))
    process.start()
    theirs.close()
    assert ours.recv() == (raw_samples_of_train(whole), source.identity())
    process.join()


def test_a_pickled_source_drops_open_handles(whole: Path) -> None:
    source = used(whole)
    again = pickle.loads(pickle.dumps(source))
    assert again.__dict__.keys() == source.__dataclass_fields__.keys()
    assert len(pickle.dumps(source)) < 1000
    assert (again.request, again.decoder.image_decode) == (source.request, "pil")


def test_another_process_refuses_a_dataset_prepared_again_since(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"train_0.tar": texts(0, 5), "train_1.tar": texts(5, 3)})
    source = used(tmp_path)
    BaseWebdatasetFactory.prepare_dataset(tmp_path, ["train_1.tar"], split_parts_ratio=[("train", 1.0)], workers=1)
    for sent in (pickle.dumps(source), pickle.dumps(pickle.loads(pickle.dumps(source)))):
        with pytest.raises(FormatError, match="prepared again since it was opened"):
            numbers(pickle.loads(sent))
    assert (
        pickle.loads(
            pickle.dumps(DatasetSource(request=LoadRequest(ref=DatasetRef(str(tmp_path)), split_part="train")))
        ).samples
        == 3
    )


def test_the_identity_is_plain_and_differs_for_other_samples(whole: Path, tmp_path: Path) -> None:
    identity = DatasetSource(request=LoadRequest(ref=DatasetRef(str(whole)), split_part="train")).identity()
    assert json.loads(json.dumps(identity)) == identity
    assert identity == open_source(whole, split_part="train", decoder=None).identity()
    others = [
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(whole)), split_part="val")),
        open_source(whole, split_part="train", subset=(SampleRange(start=0, stop=11),)),
        open_source(whole, split_part="train", subset=(SampleRange(start=1, stop=12),)),
        DatasetSource(
            request=LoadRequest(
                ref=DatasetRef(str(write_dataset(tmp_path / "x", {"a.tar": texts(0, 12)}))), split_part="train"
            )
        ),
    ]
    assert len({str(other.identity()) for other in others} | {str(identity)}) == 5
