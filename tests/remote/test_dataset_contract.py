"""The promises of datasets of all formats, in a folder and at a URL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import open_dataset, prepare_metadataset
from loader.dataset.records import as_bytes
from loader.format.jsonl.index import prepare_jsonl
from loader.notebook.opened_dataset import OpenedDataset
from loader.samples.edataclass import edataclass
from loader.samples.types import Sample, TextSample
from loader.storage import open_storage
from loader.testing import DatasetContent, DatasetContract
from tests.e2e.dataset_tree import write_shard
from tests.e2e.text_dataset import CRUDE, exclude, write_texts
from tests.object_server import ObjectServer
from tests.tables import prepare_parts, row, write_lines, write_rows
from tests.token_files import numbered, write_tokens
from tests.unit.metadataset.joined_data import JoinedData


@edataclass
class Pair(Sample):
    text: str

    @classmethod
    def from_joined(cls, left: TextSample, right: TextSample) -> Pair:
        return Pair.derive_from(left, text=f"{left.text} {right.text}")


Made = tuple[str, DatasetContent]


def _texts(count: int, first: int = 0) -> list[dict[str, bytes]]:
    return [{"txt": b"text %d" % number} for number in range(first, first + count)]


def tar(folder: Path) -> Made:
    write_texts(folder / "tar", train=(4, 1), val=(3,))
    keys = [f"{shard}/{number:05d}" for shard, some in TAR_SHARDS.items() for number in some]
    exclude(folder / "tar", keys[2], keys[5])
    return "tar", DatasetContent(keys=keys, parts=_texts(8), excluded=(2, 5))


TAR_SHARDS = {"train_0.tar": range(4), "train_1.tar": range(4, 5), "val_0.tar": range(5, 8)}


def repeated_keys(folder: Path) -> Made:
    for shard in ("a.tar", "b.tar"):
        samples = {key: {"txt": f"{shard} {key}".encode(), "json": b"{}", "x.y": b"1"} for key in ("1", "2", "3")}
        write_shard(folder / "repeated" / shard, samples)
    (folder / "repeated").joinpath("b.tar").rename(folder / "repeated" / "c.tar")
    keys = [f"{shard}/{key}" for shard in ("a.tar", "c.tar") for key in ("1", "2", "3")]
    names = [f"{shard} {key}".encode() for shard in ("a.tar", "b.tar") for key in ("1", "2", "3")]
    return "repeated", DatasetContent(keys=keys, parts=[{"txt": n, "json": b"{}", "x.y": b"1"} for n in names])


def unprepared_file(folder: Path) -> Made:
    write_shard(folder / "single" / "a.tar", {f"{n}": {"txt": b"text %d" % n} for n in range(5)})
    return "single/a.tar", DatasetContent(keys=[f"a.tar/{n}" for n in range(5)], parts=_texts(5))


def _lines(numbers: range) -> list[dict[str, bytes]]:
    return [{"json": json.dumps({"id": n, "text": f"text {n}"}).encode()} for n in numbers]


def jsonl_folder(folder: Path) -> Made:
    write_lines(folder / "lines" / "a.jsonl", range(3))
    write_lines(folder / "lines" / "b.jsonl", range(3, 8))
    prepare_parts(folder / "lines", {"train": 1, "val": 1})
    keys = [*(f"a.jsonl/{n}" for n in range(3)), *(f"b.jsonl/{n}" for n in range(5))]
    return "lines", DatasetContent(keys=keys, parts=_lines(range(8)))


def jsonl_file(folder: Path) -> Made:
    write_lines(folder / "line_file" / "a.jsonl", range(6))
    prepare_jsonl(open_storage(str(folder / "line_file")), "a.jsonl")
    return "line_file/a.jsonl", DatasetContent(keys=[f"a.jsonl/{n}" for n in range(6)], parts=_lines(range(6)))


def _rows(numbers: range) -> list[dict[str, bytes]]:
    return [{name: as_bytes(value) for name, value in row(n).items()} for n in numbers]


def parquet_folder(folder: Path) -> Made:
    write_rows(folder / "rows" / "a.parquet", range(9))
    write_rows(folder / "rows" / "b.parquet", range(9, 12))
    prepare_parts(folder / "rows", {"train": 1, "val": 1})
    keys = [*(f"a.parquet/{n}" for n in range(9)), *(f"b.parquet/{n}" for n in range(3))]
    return "rows", DatasetContent(keys=keys, parts=_rows(range(12)))


def parquet_file(folder: Path) -> Made:
    write_rows(folder / "row_file" / "a.parquet", range(9))
    return "row_file/a.parquet", DatasetContent(keys=[f"a.parquet/{n}" for n in range(9)], parts=_rows(range(9)))


def tokens(folder: Path) -> Made:
    (folder / "tokens").mkdir()
    write_tokens(folder / "tokens" / "a", numbered(6))
    parts = [{"tokens": np.array(some, "<u2").tobytes()} for some in numbered(6)]
    return "tokens/a.bin", DatasetContent(keys=[f"a.bin/{n}" for n in range(6)], parts=parts)


def join(folder: Path) -> Made:
    data = JoinedData(folder / "joined")
    data.add_dataset("left", {"a": ["1", "2", "3"], "b": ["4", "5"]})
    data.add_dataset("right", {"c": ["5", "3"], "d": ["1", "4", "2"]})
    joiner = {"__module__": __name__, "__class__": "Pair"}
    path = data.write(
        "join.yaml", {"train": {"join": {"left": {"path": "left"}, "right": {"path": "right"}}, "joiner": joiner}}
    )
    prepare_metadataset(path)
    keys = [f"{shard}.tar/{key}" for shard, some in (("a", "123"), ("b", "45")) for key in some]
    parts = [{"left/txt": f"left/{key}".encode(), "right/txt": f"right/{key}".encode()} for key in "12345"]
    return "joined/join.yaml", DatasetContent(keys=keys, parts=parts)


def mix(folder: Path) -> Made:
    write_texts(folder / "mix/one", train=(3,), val=(2,), config=CRUDE)
    write_texts(folder / "mix/two", train=(4,), val=(1,), first=10)
    (folder / "mix/mix.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
        "  train:\n    blend:\n      - {path: two, weight: 1, subset: {range: [25%, 100%]}}\n"
        "      - {path: one, weight: 9}\n  val:\n    path: one\n"
    )
    keys = [*(f"train_0.tar/{n:05d}" for n in (11, 12, 13, 0, 1, 2)), *(f"val_0.tar/{n:05d}" for n in (3, 4))]
    return "mix/mix.yaml", DatasetContent(keys=keys, parts=[*_texts(3, 11), *_texts(5)])


MAKERS: tuple[Callable[[Path], Made], ...] = (
    tar,
    repeated_keys,
    unprepared_file,
    jsonl_folder,
    jsonl_file,
    parquet_folder,
    parquet_file,
    tokens,
    join,
    mix,
)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects") / "data"
    folder.mkdir()
    return folder


ROOTS = ("folder", "URL")
CASES = [
    # Each format is read in a folder or at a URL, in turn; the other is slow.
    pytest.param(
        (maker, root),
        id=f"{maker.__name__}-{root}",
        marks=() if root == ROOTS[turn % 2] else pytest.mark.slow,
    )
    for turn, maker in enumerate(MAKERS)
    for root in ROOTS
]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Callable[[Path], Made], str]:
    found: tuple[Callable[[Path], Made], str] = request.param
    return found


@cache
def make_once(maker: Callable[[Path], Made], bucket: Path) -> Made:
    return maker(bucket)


@pytest.fixture(scope="module")
def made(case: tuple[Callable[[Path], Made], str], bucket: Path) -> Made:
    return make_once(case[0], bucket)


@pytest.fixture(scope="module")
def root(case: tuple[Callable[[Path], Made], str], bucket: Path) -> Iterator[str]:
    if case[1] == "folder":
        yield str(bucket)
        return
    with ObjectServer(bucket.parent) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        yield "s3://data"


ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "AKIATESTACCESSKEY", "AWS_SECRET_ACCESS_KEY": "planted-secret-key"}


@pytest.fixture(scope="module")
def content(made: Made) -> DatasetContent:
    return made[1]


@pytest.fixture(scope="module")
def dataset(made: Made, root: str) -> OpenedDataset:
    options: dict[str, Any] = {"trust_code": "join" in made[0]}
    return open_dataset(f"{root}/{made[0]}", **options)


class TestDatasets(DatasetContract):
    """The promises of every dataset."""


def test_a_loop_over_a_dataset_at_a_url_fetches_many_samples_by_a_request(tmp_path: Path, server: ObjectServer) -> None:
    write_texts(tmp_path / "objects/data/texts", train=(60, 60), val=(1,))
    dataset = open_dataset("s3://data/texts")
    assert dataset[70].text == "text 70"
    reads = [request for request in server.requests if request.key.endswith(".tar")]
    assert [(request.key, request.method) for request in reads] == [("data/texts/train_1.tar", "GET")]
    assert [sample.text for sample in dataset] == [f"text {number}" for number in range(121)]
    assert len([request for request in server.requests if request.key.endswith(".tar")]) < 20
