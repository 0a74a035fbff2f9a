"""Parquet files at URLs: prepare reads footers, and training the columns that it needs, by ranges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader import WorkerConfig, get_loader, get_train_dataset, random_access
from loader.format.dataset_ref import DatasetRef
from loader.inspect import inspect_folder
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.hugging_face_tables import write_table
from tests.object_server import ObjectServer, Request

URL = "s3://bucket/tables"
_END = 64 << 10  # bytes of a file that have its footer
FILES, ROWS, GROUP = 3, 400, 100
TYPE = """
sample_type: {__module__: megatron.energon, __class__: ImageClassificationSample}
field_map: {image: image, label: label, label_name: label_name}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    (tmp_path / "store/bucket").mkdir(parents=True)
    with ObjectServer(tmp_path / "store") as server:
        options = {"s3://bucket": {"endpoint_url": server.url, "deadline_s": 60}}
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps(options))
        monkeypatch.delenv("ENERGON_CACHE_DIR", raising=False)
        yield server


@pytest.fixture
def files(tmp_path: Path, server: ObjectServer) -> list[Path]:
    folder = tmp_path / "store/bucket/tables"
    columns = ["image", "label", "noise"]
    return [
        write_table(
            folder / f"{number}.parquet", range(number * ROWS, (number + 1) * ROWS), columns=columns, group=GROUP
        )
        for number in range(FILES)
    ]


def requests_of_files(server: ObjectServer) -> list[Request]:
    return [request for request in server.requests if request.key.endswith(".parquet")]


def prepare(text: str = TYPE) -> None:
    files = {"dataset.yaml": text} if text else {}
    run_prepare(PreparePlan(path=URL, split=SplitRequest(ratio={"train": 1.0}), files=files))


def test_prepare_reads_the_footer_of_each_file_by_one_request(server: ObjectServer, files: list[Path]) -> None:
    prepare()
    found = requests_of_files(server)
    assert [request.method for request in found] == ["GET"] * FILES
    assert sum(request.sent_bytes for request in found) <= FILES * _END
    assert sum(path.stat().st_size for path in files) > 10 * FILES * _END


def test_a_type_is_proposed_from_the_footers_alone(server: ObjectServer, files: list[Path]) -> None:
    proposal = inspect_folder(DatasetRef(URL)).contents.proposal
    assert "column 'noise' is of bytes" in str(proposal.reason)
    found = sum(request.sent_bytes for request in requests_of_files(server))
    assert found <= (FILES + 1) * _END  # the schema is that of the first file


def test_training_reads_only_the_columns_of_the_field_map(server: ObjectServer, files: list[Path]) -> None:
    prepare()
    server.requests.clear()
    samples = random_access(URL, "train")
    numbers = [int(samples[row].image[0, 0, 0] * 255 + 0.5) for row in range(0, FILES * ROWS, GROUP)]
    assert numbers == [row % 256 for row in range(0, FILES * ROWS, GROUP)]
    found = requests_of_files(server)
    noise = FILES * ROWS * 4000
    assert sum(request.sent_bytes for request in found) < sum(path.stat().st_size for path in files) - noise
    # A footer of each file, and of each row group the chunks of three columns: bytes, path and label.
    assert len(found) <= FILES * (1 + 3 * ROWS // GROUP)


def test_a_file_that_changed_is_named(server: ObjectServer, files: list[Path]) -> None:
    prepare()
    write_table(files[1], range(7), columns=["image", "label", "noise"])
    with pytest.raises(Exception, match=r"1\.parquet"):
        _ = random_access(URL, "train")[ROWS + 1]


def test_workers_read_the_table_at_its_url(server: ObjectServer, files: list[Path]) -> None:
    prepare()
    config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    dataset = get_train_dataset(
        URL, worker_config=config, batch_size=50, shuffle_buffer_size=100, max_samples_per_sequence=100, repeat=False
    )
    keys = [key for batch in get_loader(dataset) for key in batch.__key__]
    assert len(keys) == len({*keys}) == FILES * ROWS
