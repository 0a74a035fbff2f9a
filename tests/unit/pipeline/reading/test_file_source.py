"""DatasetSource of a single file: its lines as samples."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.errors import ConfigError, FormatError, SampleError
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.format.documents.subset import SampleRange
from loader.format.jsonl.index import prepare_jsonl
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.decode import DecodeDataset
from loader.pipeline.reading.order_plan import SequentialPlan
from loader.pipeline.reading.read import ReadDataset
from loader.storage import open_storage
from loader.testing.stage import lane, values

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)


def write_lines(folder: Path, text: bytes) -> Path:
    (folder / "x.jsonl").write_bytes(text)
    prepare_jsonl(open_storage(folder), "x.jsonl")
    return folder / "x.jsonl"


def samples(*sources: DatasetSource) -> list[dict[str, Any]]:
    return values(DecodeDataset(ReadDataset(sources, SequentialPlan(), worker_config=ONE)))


def ids(found: Sequence[dict[str, Any]]) -> list[int]:
    return [sample["json"]["id"] for sample in found]


def lines(*numbers: int) -> bytes:
    return b"".join(json.dumps({"id": number}).encode() + b"\n" for number in numbers)


def test_each_line_is_a_crude_sample_with_its_number_as_key(tmp_path: Path) -> None:
    path = write_lines(tmp_path, lines(7, 8, 9))
    found = samples(DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)), subflavors={"a": 1})))
    assert ids(found) == [7, 8, 9]
    assert [sample["__key__"] for sample in found] == ["x.jsonl/0", "x.jsonl/1", "x.jsonl/2"]
    assert found[1]["__subflavors__"] == {"a": 1}
    assert found[1]["__sources__"] == ((str(path), 1, "x.jsonl", ("1.json",)),)


@pytest.mark.parametrize(
    "text",
    [b"\xef\xbb\xbf" + lines(0, 1), b"\n\n" + lines(0) + b"\n  \n" + lines(1) + b"\n\n", lines(0, 1).rstrip()],
    ids=["byte order mark", "blank lines", "no line break at the end"],
)
def test_whitespace_and_byte_order_marks_are_not_part_of_a_line(tmp_path: Path, text: bytes) -> None:
    path = write_lines(tmp_path, text)
    assert ids(samples(DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)))))) == [0, 1]
    raw = samples(DatasetSource(request=LoadRequest(ref=DatasetRef(str(path))), decoder=None))
    assert [sample["json"] for sample in raw] == [b'{"id": 0}', b'{"id": 1}']


def test_a_subset_is_a_range_of_lines_and_part_of_its_identity(tmp_path: Path) -> None:
    path = write_lines(tmp_path, lines(*range(10)))
    some = DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)), subset=(SampleRange(start=3, stop=6),)))
    assert (ids(samples(some)), some.samples) == ([3, 4, 5], 3)
    others = [
        DatasetSource(
            request=LoadRequest(ref=DatasetRef(str(path)), subset=(SampleRange(start=first, stop=first + 3),))
        )
        for first in (3, 4)
    ]
    assert [source.identity() == some.identity() for source in others] == [True, False]
    with pytest.raises(ConfigError, match="the subset of this file has no samples"):
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)), subset=(SampleRange(start=3, stop=3),))).samples  # noqa: B018


def test_files_and_datasets_are_read_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = write_lines(tmp_path, lines(1, 2)), write_lines(tmp_path / "other", lines(3))
    assert ids(
        samples(
            DatasetSource(request=LoadRequest(ref=DatasetRef(str(one)))),
            DatasetSource(request=LoadRequest(ref=DatasetRef(str(other)))),
            DatasetSource(request=LoadRequest(ref=DatasetRef(str(one)))),
        )
    ) == [1, 2, 3, 1, 2]


def test_an_unprepared_file_is_indexed_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_bytes(lines(1, 2, 3))
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(path))))
    assert ids(samples(source)) == [1, 2, 3]
    assert source.identity() == DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)))).identity()
    prepare_jsonl(open_storage(tmp_path), "new.jsonl")
    assert source.identity() == DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)))).identity()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path, lines(1, 2, 3))
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(path))))
    assert source.samples == 3
    path.write_bytes(lines(1, 2, 3, 4))
    with pytest.raises(FormatError, match=r"has changed since it was indexed: it had 30 bytes, now 40"):
        source.folder.open_shard(source.folder.index.shards[0])
    with pytest.raises(FormatError, match=r"expected a file of 30 bytes, found 40"):
        DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)))).samples  # noqa: B018


@pytest.mark.parametrize("offsets", [(20, 10), (1 << 63, 20), ((1 << 64) - 1, 20), (0, 20), (31, 20)], ids=str)
def test_an_index_whose_offsets_do_not_ascend_is_refused(tmp_path: Path, offsets: tuple[int, int]) -> None:
    path = write_lines(tmp_path, lines(1, 2, 3))
    np.array([0, *offsets, 30], "<u8").tofile(tmp_path / "x.jsonl.idx")
    with pytest.raises(FormatError, match="the index of this file is damaged"):
        samples(DatasetSource(request=LoadRequest(ref=DatasetRef(str(path)))))


def test_a_line_that_is_not_json_fails_with_its_key(tmp_path: Path) -> None:
    path = write_lines(tmp_path, lines(1, 2))
    path.write_bytes(lines(1) + b'{"id":.2}\n')
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(path))))
    raw = ReadDataset([source], SequentialPlan(), worker_config=ONE).open(lane(), {})
    raw.next()
    with pytest.raises(SampleError, match=r"x\.jsonl/1"):
        source.recipe.build(raw.next()[0], ())


def test_a_pickled_source_drops_open_handles(tmp_path: Path) -> None:
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(write_lines(tmp_path, lines(*range(5000)))))))
    assert source.samples == 5000
    assert len(pickle.dumps(source)) < 1500
    assert pickle.loads(pickle.dumps(source)).identity() == source.identity()
