"""The commands do with URLs what they do with paths."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.make_mix import JOINER
from tests.cli.run_energon import RunEnergon
from tests.remote.urls.bucket import Bucket
from tests.representative import every_value_once

NAMES = ("a", "raw", "raw/shard_000.tar", "texts.jsonl", "mix.yaml")


@pytest.fixture
def mixed(bucket: Bucket) -> Bucket:
    entries = [{"path": "./a", "weight": 1}, {"path": "texts.jsonl", "weight": 2, "split_part": "train"}]
    bucket.write_mix("mix.yaml", train={"blend": entries})
    return bucket


def as_url(value: str, bucket: Bucket) -> str:
    return value.replace(str(bucket.folder), bucket.url)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "command",
    [("info",), ("info", "--json"), ("preview",), ("preview", "--json", "-n", 3), ("preview", "--shuffle", "-n", 2)],
)
@pytest.mark.sampled(6)
def test_a_url_shows_what_its_files_show(
    mixed: Bucket, energon: RunEnergon, name: str, command: tuple[object, ...]
) -> None:
    here = energon(command[0], mixed.folder / name, *command[1:])
    there = energon(command[0], f"{mixed.url}/{name}", *command[1:])
    expected, found = as_url(here.out, mixed), there.out
    assert (there.code, found, there.err) == (here.code, expected, as_url(here.err, mixed))


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("level", ["headers", "bytes", "decode"])
@pytest.mark.parametrize("name", ["a", "b", "raw", "raw/shard_000.tar", "texts.jsonl", "mix.yaml"])
@pytest.mark.sampled(4)
def test_lint_finds_the_same_at_a_url(mixed: Bucket, energon: RunEnergon, name: str, level: str) -> None:
    def findings(path: object) -> tuple[int, list[object]]:
        done = energon("lint", path, "--level", level, "--json")
        found = [json.dumps(each) for each in done.json["findings"]]
        return done.code, [as_url(each, mixed) for each in found]

    assert findings(f"{mixed.url}/{name}") == findings(mixed.folder / name)


def test_lint_of_a_url_finds_what_changed(mixed: Bucket, energon: RunEnergon) -> None:
    path = mixed.folder / "a/shard_001.tar"
    path.write_bytes(path.read_bytes()[:-1024])
    (mixed.folder / "a/shard_002.tar").unlink()
    done = energon("lint", f"{mixed.url}/a", "--level", "headers", "--json")
    assert done.code == 1
    assert {(each["code"], each["shard"]) for each in done.json["findings"] if each["severity"] == "error"} == {
        (each["code"], each["shard"])
        for each in energon("lint", mixed.folder / "a", "--level", "headers", "--json").json["findings"]
        if each["severity"] == "error"
    }
    assert energon("info", f"{mixed.url}/a", "--json").json["index"]["state"] == "stale"


def test_lint_fixes_a_dataset_at_a_url(mixed: Bucket, energon: RunEnergon) -> None:
    assert energon("lint", f"{mixed.url}/b").code == 1
    fixed = energon("lint", f"{mixed.url}/b", "--fix")
    assert "000004" in (mixed.folder / "b/.nv-meta/split.yaml").read_text(), fixed
    assert energon("lint", f"{mixed.url}/b").code == 0


UNREADABLE = [
    ("s3://b/gone", "there is no file below this URL"),
    ("s3://nobucket/ds", "the bucket does not exist"),
    ("s3://b/gone.yaml", "this object does not exist"),
    ("s3://b/gone.jsonl", "this object does not exist"),
    ("s3://b/gone.tar", "this object does not exist"),
    ("s3://b/files.tar.gz", "is compressed"),
    ("s3://", "it has no bucket"),
    ("s3://b/../c", "it has a part '.' or '..'"),
    ("s3://key:secret@b/ds", "must not hold credentials"),
    ("s3://b/ds?token=secret", "has no query"),
    ("hdfs://host/ds", "cannot read hdfs:// URLs"),
    ("s3://mix.yaml", "this names a bucket"),
]


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize(("command", "case"), every_value_once(["info", "lint", "preview"], UNREADABLE))
def test_what_cannot_be_read_is_one_clear_error(
    mixed: Bucket, energon: RunEnergon, command: str, case: tuple[str, str]
) -> None:
    url, message = case
    done = energon(command, url)
    assert done.code in (1, 2)
    assert message in done.out + done.err
    assert "secret" not in done.out + done.err
    assert "Traceback" not in done.err


def test_the_folder_without_tars_is_named_by_its_files(mixed: Bucket, energon: RunEnergon) -> None:
    (mixed.folder / "none").mkdir()
    (mixed.folder / "none/readme.txt").write_text("text")
    assert (
        "no .tar files here or in the folders below, and no .jsonl or .parquet files, but 1 .txt"
        in energon("info", f"{mixed.url}/none").err
    )


def test_the_endpoint_is_given_on_the_command_line(
    mixed: Bucket, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    option = ("--storage-option", f"endpoint_url={mixed.server.url}", "--storage-option", "region=eu-west-1")
    assert energon("info", f"{mixed.url}/a", *option).code == 0
    wrong = energon("info", f"{mixed.url}/a", "--storage-option", "endpoint")
    assert (wrong.code, "expected KEY=VALUE" in wrong.err) == (2, True)
    unknown = energon("info", f"{mixed.url}/a", "--storage-option", "endpoint=x")
    assert (unknown.code, "options are endpoint_url" in unknown.err) == (2, True)
    secret = energon("info", f"{mixed.url}/a", "--storage-option", "secret_access_key=planted")
    assert (secret.code, "is a credential" in secret.err, "planted" in secret.err) == (2, True, False)


def test_info_reads_no_shard_and_lists_them_once(mixed: Bucket, energon: RunEnergon) -> None:
    requests = mixed.requests(lambda: energon("info", f"{mixed.url}/a"))
    assert not [request for request in requests if request.endswith(".tar")]
    assert requests.count("LIST ") <= 4, requests


def test_lint_asks_for_no_size_of_a_shard(mixed: Bucket, energon: RunEnergon) -> None:
    requests = mixed.requests(lambda: energon("lint", f"{mixed.url}/a", "--level", "headers"))
    assert not [request for request in requests if request.startswith("HEAD")], requests


@pytest.mark.parametrize("level", ["bytes", "decode"])
def test_lint_reads_the_samples_of_a_small_shard_together(mixed: Bucket, energon: RunEnergon, level: str) -> None:
    requests = mixed.requests(lambda: energon("lint", f"{mixed.url}/a", "--level", level))
    shards = Counter(request for request in requests if request.endswith(".tar"))
    assert len(shards) == 4
    assert max(shards.values()) <= 3, shards  # headers, samples, and what follows the last one


def test_a_shard_of_another_version_is_an_error(mixed: Bucket, energon: RunEnergon) -> None:
    [layout] = (mixed.folder / "a/.nv-meta/index").glob("*/layout.json")
    content = json.loads(layout.read_bytes())
    content["shards"][1]["etag"] = "of-another-version"
    layout.write_text(json.dumps(content))
    found = energon("lint", f"{mixed.url}/a", "--level", "headers", "--json").json["findings"]
    assert [(one["code"], one["shard"]) for one in found if one["severity"] == "error"] == [("E102", "shard_001.tar")]
    assert "expected version of-another-version, as indexed, found" in str(found)
    assert energon("info", f"{mixed.url}/a", "--json").json["index"]["changed"] == ["shard_001.tar"]


def test_joins_of_a_metadataset_at_a_url_are_written_next_to_it(mixed: Bucket, energon: RunEnergon) -> None:
    url = mixed.write_mix("deep/join.yaml", train={"join": [{"path": "../a"}, {"path": "../b"}], "joiner": JOINER})
    assert energon("info", url).code == 1
    done = energon("prepare", url)
    assert done.code == 0, done
    assert sorted(path.suffix for path in (mixed.folder / "deep/join.yaml.joins").iterdir()) == [".json", ".npy"]
    assert energon("info", url).code == 0
    assert energon("lint", url, "--level", "headers").code == 0
    preview = energon("preview", url, "--json")
    assert (preview.code, preview.err) == (0, "")
    again = energon("prepare", url)
    assert (again.code, len(list((mixed.folder / "deep/join.yaml.joins").iterdir()))) == (0, 2)


def test_local_and_remote_datasets_are_mixed_and_joined(
    mixed: Bucket, energon: RunEnergon, datasets: Path, tmp_path: Path
) -> None:
    shutil.copytree(datasets / "b", tmp_path / "own/b")
    members = [{"path": f"{mixed.url}/a"}, {"path": str(tmp_path / "own/b")}]
    local = tmp_path / "own/mix.yaml"
    inner = mixed.write_mix("inner.yaml", train={"path": "a"}, val={"path": "a", "split_part": "val"})
    mixed.write_mix("mix2.yaml", train={"blend": [{"path": inner, "weight": 1}, {"path": "./b", "weight": 3}]})
    local.write_text((mixed.folder / "mix2.yaml").read_text())
    assert energon("info", local).code == 0
    remote = mixed.write_mix("join.yaml", train={"join": members, "joiner": JOINER})
    local.write_text((mixed.folder / "join.yaml").read_text())
    for path in (local, remote):
        assert energon("prepare", path).code == 0
        facts = energon("info", path, "--json").json
        assert facts["splits"][0]["samples"] == 6
    assert "a (train)" in energon("info", remote).out
