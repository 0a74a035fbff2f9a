"""Maps of a dataset in an object store write the files that maps of a folder write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import open_dataset
from tests.e2e import map_functions
from tests.e2e.dataset_tree import prepare, write_shards
from tests.e2e.test_map import FORMS
from tests.object_server import ObjectServer


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a bucket with a prepared dataset."""
    folder = tmp_path / "store/bucket"
    prepare(write_shards(folder / "data", 3, samples=5), compat=False)
    with ObjectServer(tmp_path / "store") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield folder


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the shards, columns and filters below a folder."""
    paths = [path for pattern in ("**/*.tar", "**/columns/*", "**/filter_*") for path in folder.glob(pattern)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sampled(6)
def test_a_map_in_a_bucket_writes_the_files_of_a_map_in_a_folder(form: str, bucket: Path, tmp_path: Path) -> None:
    name, target = FORMS[form]
    prepare(write_shards(tmp_path / "data", 3, samples=5), compat=False)
    for root in ("s3://bucket", str(tmp_path)):
        options: dict[str, Any] = {
            key: f"{root}/{value}" if key in ("to_parts", "to_dataset") else value for key, value in target.items()
        }
        report = open_dataset(f"{root}/data").map(getattr(map_functions, name), workers=2, **options)
        assert report.samples == 15
    assert files_of(bucket)
    here = {file: data for file, data in files_of(tmp_path).items() if not file.startswith("store/")}
    assert files_of(bucket) == here
    assert not [path for path in bucket.rglob("*") if ".jobs" in str(path) and path.is_file()]
