"""Samples of datasets at URLs are found, copied and excluded; what is excluded on a web server is kept elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from loader.dataset.query import SampleQuery
from loader.errors import StorageError
from loader.format import DatasetRef
from loader.inspect import ExcludeRequest, exclude
from tests.cli.make_mix import write_datasets, write_mix
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.object_server import ObjectServer

pytestmark = pytest.mark.usefixtures("direct")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def bucket(server: ObjectServer, datasets: Path, tmp_path: Path) -> Path:
    """The folder of the bucket ``data`` with the datasets a and b, shards as they come, and a mix."""
    bucket = tmp_path / "objects/data"
    shutil.copytree(datasets, bucket, dirs_exist_ok=True)
    write_mix(bucket, train=[{"path": "a"}, {"path": "b"}, {"path": "texts.jsonl"}])
    return bucket


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def test_parts_are_printed_and_copied(bucket: Path, tmp_path: Path, energon: RunEnergon) -> None:
    for path, expected in (
        ("a", "picture number 2picture number 5"),
        ("raw", "picture number 2"),
        ("raw/shard_000.tar", "picture number 2"),
    ):
        keys = ["000002", "000005"] if path == "a" else ["shard_000.tar/000002"]
        assert energon("get", f"s3://data/{path}", *keys, "txt").out == expected
    assert json.loads(energon("get", "s3://data/mix.yaml", "1", "json").out) == {"text": "two"}
    assert energon("extract", "s3://data/mix.yaml", "s3://data/raw", "-o", tmp_path / "x.jsonl").code == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 12 + 12 + 2 + 3


def test_samples_of_a_mix_are_excluded_and_brought_back(bucket: Path, energon: RunEnergon) -> None:
    before = {name: (bucket / name / ".nv-meta/split.yaml").read_bytes() for name in "ab"}
    done = energon("exclude", "s3://data/mix.yaml", "000001", "--json")
    assert [one["samples"] for one in done.json["datasets"]] == [1, 1, 0]
    assert energon("exclude", "s3://data/mix.yaml", "--undo", "--json").json == {"undone": 2}
    assert {name: (bucket / name / ".nv-meta/split.yaml").read_bytes() for name in "ab"} == before
    assert energon("exclude", "s3://data/mix.yaml", "000001", "1", "--to-filter", "f").code == 0
    listed = energon("exclude", "s3://data/mix.yaml", "--list", "--json").json["datasets"]
    assert [one["filters"] for one in listed] == [{"f": 11}, {"f": 11}, {"f": 1}]
    assert energon("exclude", "s3://data/mix.yaml", "--undo", "--json").json == {"undone": 3}
    assert not [*bucket.glob("*.f.*"), *bucket.glob("*/.nv-meta/filter_*.idx")]


@pytest.mark.usefixtures("bucket")
def test_nothing_changes_if_the_exclusions_of_a_web_server_cannot_be_kept(
    server: ObjectServer,
    tmp_path: Path,
    datasets: Path,
    energon: RunEnergon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", "/dev/null/indexes")
    local = Path(shutil.copytree(datasets / "a", tmp_path / "local"))
    mix = write_mix(tmp_path, train=[{"path": str(local)}, {"path": f"{server.url}/data/b"}])
    before = {path: path.read_bytes() for path in (local / ".nv-meta").iterdir() if path.is_file()}
    for options in ([], ["--to-filter", "f"]):
        done = energon("exclude", mix, "000001", *options)
        assert (done.code, "/dev/null/indexes/b-" in done.err) == (1, True), done
    assert {path: path.read_bytes() for path in (local / ".nv-meta").iterdir() if path.is_file()} == before
    assert energon("exclude", mix, "000001", "--dry-run").code == 0
    assert energon("exclude", mix, "--list").code == 0
    with pytest.raises(StorageError, match="samples of this dataset cannot be excluded: it is read-only"):
        exclude(ExcludeRequest(ref=DatasetRef(str(mix)), query=SampleQuery(keys=("000001",)), reason=""))
    assert {path: path.read_bytes() for path in (local / ".nv-meta").iterdir() if path.is_file()} == before
    # With a folder of indexes, they are kept there.
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "indexes"))
    done = energon("exclude", mix, "000001")
    assert (done.code, f"{server.url}/data/b is read-only: its metadata are kept in" in done.err) == (0, True), done
    listed = energon("exclude", mix, "--list", "--json").json["datasets"]
    assert [one["samples"] for one in listed] == [1, 1]


def test_a_web_server_without_listings_shows_datasets_and_their_filters(
    bucket: Path, server: ObjectServer, tmp_path: Path, energon: RunEnergon
) -> None:
    assert energon("exclude", bucket / "a", "000001", "--to-filter", "good").code == 0
    url = f"{server.url}/data/a"
    assert energon("info", url, "--json").json["samples"] == 12
    assert energon("lint", url).code == 0
    assert energon("exclude", url, "--list", "--json").json["filters"] == {"good": 11}
    assert energon("extract", url, "-o", tmp_path / "x.jsonl", "--filter", "good").code == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 11


@pytest.mark.parametrize("command", [["trace", "--step", "1"], ["diff"], ["stats"], ["get"], ["explain"]])
def test_shards_on_a_web_server_need_a_prepare(
    bucket: Path, server: ObjectServer, command: list[str], energon: RunEnergon
) -> None:
    url = f"{server.url}/data/raw"
    done = energon(command[0], url, *command[1:], *{"diff": [url], "get": ["000001"]}.get(command[0], []))
    assert done.code == 1
    assert "a web server cannot list shards" in done.err
