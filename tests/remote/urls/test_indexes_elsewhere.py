"""Indexes in a bucket and on a web server, of data in either."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, get_loader, get_train_dataset
from loader.dataset.opening import folder_at
from loader.dataset.shared_index import pull_index, push_index
from loader.format.dataset_ref import DatasetRef
from tests.cli.run_energon import RunEnergon
from tests.remote.urls.bucket import Bucket


def keys(path: object, workers: int = 0, **options: Any) -> list[str]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    options = {"shuffle_buffer_size": None, "max_samples_per_sequence": None, "repeat": False, **options}
    with get_loader(get_train_dataset(str(path), worker_config=config, batch_size=2, **options)) as loader:
        return [key for batch in loader for key in batch.__key__]


@pytest.fixture
def web(bucket: Bucket) -> str:
    """The URL of the bucket as a web server shows it, which lists nothing."""
    return f"{bucket.server.url}/b"


@pytest.mark.parametrize("workers", [0, 2])
def test_the_metadata_may_be_on_a_web_server(bucket: Bucket, web: str, workers: int, energon: RunEnergon) -> None:
    expected = keys(bucket.folder / "a")
    shutil.move(bucket.folder / "a/.nv-meta", bucket.folder / "meta")
    for data in (bucket.folder / "a", f"{bucket.url}/a", f"{web}/a"):
        for meta in (f"{web}/meta", f"{bucket.url}/meta"):
            assert keys(data, workers, meta_folder=meta) == expected
    for command in ("info", "lint", "preview", "stats"):
        done = energon(command, f"{web}/a", "--meta-folder", f"{web}/meta")
        assert done.code == 0, done
    mix = bucket.write_mix("mix.yaml", train={"path": "a", "meta_folder": f"{web}/meta"})
    assert keys(mix, workers) == expected


def test_an_index_is_pushed_to_a_bucket_and_pulled_from_a_web_server(
    bucket: Bucket, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = keys(bucket.folder / "a")
    pushed = push_index(DatasetRef(f"{bucket.url}/a"), f"{bucket.url}/indexes/")
    name = pushed.path.removeprefix(f"{bucket.url}/")
    shutil.rmtree(bucket.folder / "a/.nv-meta")
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    pulled = pull_index(f"{web}/{name}", with_split=True)
    assert (pulled.data, pulled.path.startswith(f"{tmp_path}/mine/a-")) == (f"{bucket.url}/a", True)
    assert keys(f"{bucket.url}/a") == expected
    assert keys(f"{bucket.url}/a", workers=2) == expected


def test_each_part_costs_no_further_request(bucket: Bucket, tmp_path: Path) -> None:
    shutil.copytree(bucket.folder / "a/.nv-meta", tmp_path / "meta")
    near, elsewhere = (
        folder_at(DatasetRef(f"{bucket.url}/a", meta_folder=meta)) for meta in (None, str(tmp_path / "meta"))
    )
    near.read_parts(0), elsewhere.read_parts(0)
    for number in range(1, len(near)):
        counts = [len(bucket.requests(lambda one=one: one.read_parts(number))) for one in (near, elsewhere)]  # type: ignore[misc] # noqa: B023
        assert counts[1] <= counts[0]


def test_indexes_are_found_at_urls(
    bucket: Bucket, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    expected = keys(bucket.folder / "a")
    monkeypatch.setenv("ENERGON_INDEX", str(bucket.folder / "indexes"))
    pushed = push_index(DatasetRef(f"{bucket.url}/a"), f"{tmp_path}/")
    pull_index(pushed.path, with_split=True)
    shutil.rmtree(bucket.folder / "a/.nv-meta")
    for entry in (f"{web}/indexes", f"{bucket.url}/indexes"):
        monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'mine'}:{entry}:/gone")
        assert keys(f"{bucket.url}/a") == expected
        assert energon("info", f"{bucket.url}/a").code == 0


def test_data_on_a_web_server_are_edited_in_the_folder_of_indexes(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    before = sorted(keys(f"{web}/a"))
    first = before[0].rpartition("/")[2]
    done = energon("exclude", f"{web}/a", first)
    assert (done.code, "its metadata are kept in" in done.err) == (0, True), done
    assert sorted(keys(f"{web}/a")) == before[1:]
    assert energon("stats", f"{web}/a", "--write", "jpg.width").code == 0
    assert energon("stats", f"{web}/a", "--where", "jpg.width > 0", "--json").json["samples"] == 12
