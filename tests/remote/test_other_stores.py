"""A dataset that was prepared in a bucket is read where its files are served with other versions, or with none."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.dataset.opening import folder_at
from loader.errors import EnergonError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.inspect.facts import dataset_facts
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.storage import open_storage
from loader.storage.remote import remember_options
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.e2e.dataset_tree import prepare, shard_path, write_shards
from tests.object_server import ObjectServer, Request

URL = "s3://data/ds"
Alter = Callable[[Request, dict[str, str]], None]


@pytest.fixture
def folder(server: ObjectServer, direct: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a dataset that was prepared in a bucket."""
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    monkeypatch.delenv("ENERGON_CACHE_DIR")
    monkeypatch.setattr("loader.format.index.fresh_shard._touched", {})
    folder = write_shards(tmp_path / "objects/data/ds", 3, samples=6)
    prepare(URL)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def web(folder: Path, tmp_path: Path) -> Iterator[ObjectServer]:
    """A web server of the same folder, with versions of its own."""
    with ObjectServer(tmp_path / "objects") as web:
        web.alter = with_etags("web-{}")
        yield web


def with_etags(*patterns: str) -> Alter:
    """Answer with another of some versions each time."""
    answers = 0

    def alter(request: Request, headers: dict[str, str]) -> None:
        nonlocal answers
        key = request.key.rpartition("/")[2]
        pattern = patterns[answers % len(patterns)].format(key)
        answers += request.key.endswith(".tar")
        headers["ETag"] = pattern if pattern.startswith("W/") else f'"{pattern}"'

    return alter


def without(*names: str) -> Alter:
    def alter(request: Request, headers: dict[str, str]) -> None:
        for name in names:
            del headers[name]

    return alter


def texts(path: str | Path) -> list[str]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    options: Any = {"shuffle_buffer_size": None, "max_samples_per_sequence": None, "repeat": False}
    with get_savable_loader(get_train_dataset(str(path), worker_config=config, batch_size=1, **options)) as loader:
        return [text for batch in loader for text in batch["txt"]]


def findings(path: str, level: Any = "headers") -> list[tuple[str, str]]:
    found = lint_dataset(LintPlan(ref=DatasetRef(path), level=level, workers=1)).findings
    return [(each.code, each.message) for each in found if each.code != "W004"]


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(with_etags("web-{}"), id="other ETags"),
        pytest.param(with_etags("W/{}", "{}"), id="weak ETags"),
        pytest.param(without("ETag"), id="no ETags"),
        pytest.param(without("Last-Modified"), id="no times"),
        pytest.param(without("ETag", "Last-Modified"), id="neither"),
    ],
)
@pytest.mark.sampled(3)
def test_a_web_server_of_a_bucket_is_read(web: ObjectServer, folder: Path, alter: Alter) -> None:
    web.alter = alter
    url = f"{web.url}/data/ds"
    assert texts(url) == texts(URL)
    assert findings(url) == []
    assert dataset_facts(folder_at(url))["index"]["state"] == "fresh"


def test_versions_of_one_store_are_compared_without_a_request(folder: Path, server: ObjectServer) -> None:
    server.start_again()
    texts(URL)
    reads = [request for request in server.requests if request.key.endswith(".tar")]
    assert all(request.method == "GET" and request.range != (0, 0) for request in reads)
    shutil.copy(shard_path(folder, 1), folder / "copy")
    os.replace(folder / "copy", shard_path(folder, 1))
    with pytest.raises(FormatError, match="this object changed since it was prepared: it had version"):
        texts(URL)
    (message,) = [message for code, message in findings(URL) if code == "E102"]
    assert "expected version" in message
    assert dataset_facts(folder_at(URL))["index"]["state"] == "stale"


@pytest.mark.parametrize("alter", [without("ETag"), without("ETag", "Last-Modified")])
@pytest.mark.sampled(2)
def test_an_answer_without_a_version_is_no_changed_object(folder: Path, server: ObjectServer, alter: Alter) -> None:
    expected = texts(URL)
    server.alter = lambda request, headers: alter(request, headers) if request.key.endswith(".tar") else None
    assert texts(URL) == expected


def test_a_dataset_in_another_bucket_is_read(folder: Path, server: ObjectServer) -> None:
    shutil.copytree(folder, folder.parents[1] / "other/ds")
    assert texts("s3://other/ds") == texts(URL)
    assert findings("s3://other/ds") == []


def test_an_index_of_an_older_version_names_no_store(web: ObjectServer, folder: Path) -> None:
    (layout,) = folder.glob(".nv-meta/index/*/layout.json")
    document = msgspec.json.decode(layout.read_bytes())
    assert {shard.pop("store")[:3] for shard in document["shards"]} == {"s3:"}
    layout.write_bytes(msgspec.json.encode(document))
    assert texts(f"{web.url}/data/ds") == texts(URL)
    shutil.copy(shard_path(folder, 1), folder / "copy")
    os.replace(folder / "copy", shard_path(folder, 1))
    with pytest.raises(FormatError, match="changed since it was prepared"):
        texts(URL)


def test_a_file_of_another_size_has_changed(web: ObjectServer, folder: Path) -> None:
    with shard_path(folder, 1).open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(FormatError, match=r"this object changed since it was prepared: it had .* bytes, now"):
        texts(f"{web.url}/data/ds")
    assert "E102" in {code for code, _ in findings(f"{web.url}/data/ds")}


def test_a_file_of_another_time_is_compared_by_its_headers(
    web: ObjectServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, expected = f"{web.url}/data/ds", texts(URL)
    os.utime(shard_path(folder, 1), (1_600_000_000, 1_600_000_000))
    with caplog.at_level(logging.WARNING):
        assert texts(url) == expected
    assert caplog.text.count("was touched or copied since it was indexed") == 1
    assert [code for code, _ in findings(url)] == ["W103"]
    assert dataset_facts(folder_at(url))["index"]["state"] == "touched"

    content = shard_path(folder, 1).read_bytes()
    shard_path(folder, 1).write_bytes(content.replace(b"00006.txt", b"99999.txt").replace(b"00006.json", b"99999.json"))
    with pytest.raises(FormatError, match="checksum"):
        texts(url)


@pytest.mark.parametrize(("before", "after"), [(with_etags("a"), with_etags("b")), (without("ETag"),) * 2])
def test_a_change_within_a_run_is_an_error(web: ObjectServer, folder: Path, before: Alter, after: Alter) -> None:
    web.alter = before
    storage = open_storage(f"{web.url}/data/ds")
    shard = folder_at(f"{web.url}/data/ds").index.shards[1]
    with storage.open(shard.name, shard.info) as file:
        assert file.read_at(0, 512)
        os.utime(shard_path(folder, 1), (1_600_000_000, 1_600_000_000))
        web.alter = after
        with pytest.raises(FormatError, match="changed while it was read") as caught:
            file.read_at(512, 512)
    assert "since it was prepared" not in str(caught.value)


def test_an_unversioned_file_is_pinned_by_its_first_answer(web: ObjectServer, folder: Path) -> None:
    """As of a dataset that was prepared on a disk."""
    shutil.rmtree(folder / ".nv-meta")
    prepare(folder, compat=False)
    storage = open_storage(f"{web.url}/data/ds")
    shard = folder_at(folder).index.shards[1]
    assert not shard.etag
    web.start_again()
    with storage.open(shard.name, shard.info) as file:
        file.read_at(0, 512)
        file.read_at(512, 512)
        assert len(web.requests) == 2
        web.alter = with_etags("another")
        with pytest.raises(
            FormatError, match=r"changed while it was read: it had version web-shard_001\.tar, now version another"
        ):
            file.read_at(512, 512)


@pytest.mark.parametrize("patterns", [("a-{}", "b-{}"), ("{}", "{}-gzip")])
@pytest.mark.sampled(2)
def test_a_server_with_two_versions_of_one_file_is_named_with_the_setting(
    web: ObjectServer, folder: Path, patterns: tuple[str, str]
) -> None:
    url, expected = f"{web.url}/data/ds", texts(URL)
    web.alter = with_etags(*patterns)
    with pytest.raises(EnergonError) as caught:
        texts(url)
    assert isinstance(caught.value, StorageError)
    first, second = (re.escape(pattern).replace(r"\{\}", "shard_00..tar") for pattern in patterns)
    assert re.search(f"the server alternates between version {first} and version {second}, ", str(caught.value))
    assert "check_versions=false" in str(caught.value)
    web.alter = with_etags(*patterns)
    assert {code for code, _ in findings(url)} == {"E109"}

    remember_options(web.url, {"check_versions": False})
    assert texts(url) == expected
    assert findings(url) == []


def test_two_versions_of_different_content_are_a_change(web: ObjectServer, folder: Path) -> None:
    storage = open_storage(f"{web.url}/data/ds")
    info = storage.stat("shard_001.tar")
    content = shard_path(folder, 1).read_bytes()
    answers = 0

    def alter(request: Request, headers: dict[str, str]) -> None:
        nonlocal answers
        answers += 1
        with shard_path(folder, 1).open("r+b") as file:  # the next answer has other bytes
            file.write(content[:256] if answers % 2 else content[:256][::-1])
        headers["ETag"] = '"other"' if answers % 2 else f'"{info.etag}"'

    web.alter = alter
    with storage.open("shard_001.tar", info) as file, pytest.raises(FormatError, match="changed while it was read"):
        file.read_at(0, 256)


def test_the_cache_holds_what_this_server_serves(
    web: ObjectServer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one version are not used for another one, though the index has none of this server."""
    monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
    url, expected = f"{web.url}/data/ds", texts(URL)
    assert texts(url) == expected
    web.start_again()
    assert texts(url) == expected
    reads = [request.range for request in web.requests if request.key.endswith(".tar")]
    assert reads == [(0, 0)] * 2  # of the shards of the split part
    times = {path: path.stat().st_mtime_ns for path in folder.glob("*.tar")}
    for path, mtime_ns in times.items():
        path.write_bytes(path.read_bytes().replace(b"text ", b"word "))
        os.utime(path, ns=(mtime_ns, mtime_ns))
    web.alter = with_etags("newer-{}")
    assert texts(url) == [text.replace("text", "word") for text in expected]
