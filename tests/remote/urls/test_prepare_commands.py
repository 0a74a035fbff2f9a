"""Prepare of datasets and of media at URLs, as users run it: prompts, options and media metadata."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.engine import Engine
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from loader.storage import RemoteStorage, open_storage
from tests.cli.make_dataset import picture, write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import DOWN, ENTER, TerminalRun
from tests.cli.test_prepare_media import write_sound
from tests.e2e.dataset_tree import RATIO
from tests.remote.urls.bucket import Bucket

HEADER = "--media-metadata-by-header"


@pytest.fixture
def captions(bucket: Bucket) -> Path:
    """The folder of ``s3://b/captions``, which is not prepared."""
    return write_captions(bucket.folder / "captions")


def media_rows(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database:
        return database.execute("SELECT * FROM media_metadata ORDER BY entry_key").fetchall()


# -------------------------------------------------------------------------------------------------------- prompts


@pytest.mark.slow
def test_the_prompts_lead_to_a_dataset_at_a_url(bucket: Bucket, captions: Path) -> None:
    with TerminalRun("prepare", "s3://b/captions", "--num-workers", 1, rows=70) as wizard:
        wizard.wait_for("How should the shards be split?").press(ENTER).wait_for("What type are the samples?")
        assert "first sample: shard_000.tar/000000" in wizard.text
        wizard.press(ENTER).wait_for("come from?")
        wizard.press(ENTER).wait_for("image (image) from").press(ENTER).wait_for("caption (text) from")
        wizard.press(ENTER).wait_for("» y  yes, write")
        assert not (captions / ".nv-meta/.info.json").exists()
        assert wizard.press(ENTER).finish() == 0
    dataset = folder_at("s3://b/captions")
    assert dataset.documents.config is not None
    assert dataset.documents.config.field_map is not None
    assert dataset.documents.config.field_map.expressions() == {"image": "jpg", "caption": "txt"}
    assert len(dataset.index) == 12


@pytest.mark.slow
def test_shards_that_arrive_during_the_prompts_are_prepared(bucket: Bucket, captions: Path) -> None:
    with TerminalRun("prepare", "s3://b/captions", "--num-workers", 1, "--sample-type", "CrudeWebdataset") as wizard:
        wizard.wait_for("How should the shards be split?")
        shutil.copyfile(captions / "shard_003.tar", captions / "shard_004.tar")
        wizard.press(ENTER).wait_for("» y  yes, write")
        assert wizard.press(ENTER).finish() == 0
    assert len(folder_at("s3://b/captions").shard_counts) == 5


@pytest.mark.slow
def test_the_prompts_change_the_split_of_a_dataset_at_a_url(
    bucket: Bucket, captions: Path, energon: RunEnergon
) -> None:
    assert energon("prepare", "s3://b/captions", "--yes").code == 0
    before = folder_at("s3://b/captions").index.uuid
    with TerminalRun("prepare", "s3://b/captions", "--num-workers", 1, rows=70) as wizard:
        wizard.wait_for("This dataset is already prepared. What should change?")
        wizard.press(DOWN, DOWN, ENTER).wait_for("How should the shards be split?")
        wizard.press(DOWN, DOWN, DOWN, ENTER).wait_for("» y  yes, write")  # all train
        assert wizard.press(ENTER).finish() == 0
    dataset = folder_at("s3://b/captions")
    assert dataset.documents.split is not None
    assert {name: len(shards) for name, shards in dataset.documents.split.split_parts.items() if shards} == {"train": 4}
    assert dataset.index.uuid != before
    assert not list((captions / ".nv-meta/index").rglob("documents/*"))


# -------------------------------------------------------------------------------------------------------- options


def test_prepare_takes_the_endpoint_of_the_command_line(
    bucket: Bucket, captions: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", "")
    option = ("--storage-option", f"endpoint_url={bucket.server.url}")
    assert energon("prepare", "s3://b/captions", "--share", "1/2", *option).code == 0
    assert energon("prepare", "s3://b/captions", "--share", "2/2", *option).code == 0
    assert energon("prepare", "s3://b/captions", "--yes", "--merge", *option).code == 0
    assert (captions / ".nv-meta/.info.json").exists()


def forget_options() -> None:
    """Let a process be one of a machine that inherits nothing from this one."""
    del os.environ["ENERGON_STORAGE_OPTIONS"]


def test_tasks_of_an_executor_take_the_options_along(
    bucket: Bucket, captions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=forget_options) as executor:
        report = run_prepare(PreparePlan(path="s3://b/captions", split=RATIO), engine=Engine(executor=executor))
    assert report.scanned == 4


def test_options_that_travel_are_those_that_were_given_and_hold_everywhere(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"endpoint_url": bucket.server.url, "region": "eu-west-1", "cache_dir": "/scratch/me"}
    monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps({"s3://b": given}))
    storage = open_storage("s3://b/captions")
    assert isinstance(storage, RemoteStorage)
    _, arguments = storage.__reduce__()
    assert arguments[2] == {"endpoint_url": bucket.server.url, "region": "eu-west-1"}


# ---------------------------------------------------------------------------------------------------------- media


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Images and a sound, one of them broken."""
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.jpg").write_bytes(picture(1))
    (folder / "sub/b.png").write_bytes(picture(2, size=(5, 7), form="PNG"))
    (folder / "broken.jpg").write_bytes(picture(4)[:100])
    write_sound(folder / "c.wav")
    return folder


def test_media_of_a_folder_at_a_url_are_those_of_the_files(bucket: Bucket, files: Path, energon: RunEnergon) -> None:
    far = shutil.copytree(files, bucket.folder / "media")
    assert energon("prepare-media", files, HEADER).code == 0

    def prepare() -> None:
        done = energon("prepare-media", "s3://b/media", HEADER)
        assert done.code == 0, done.err
        assert "media metadata of 3 files" in done.out
        assert "broken.jpg" in done.out + done.err

    requests = bucket.requests(prepare)
    assert media_rows(far) == media_rows(files)
    assert len(media_rows(far)) == 3
    assert [one for one in requests if one.startswith("HEAD")] == []
    assert sum(one.startswith("LIST") for one in requests) == 1
    assert [one for one in requests if one.startswith("PUT")] == ["PUT media/.nv-meta/index.sqlite"]
    facts = energon("info", "s3://b/media", "--json").json
    assert facts["media_metadata"] == energon("info", files, "--json").json["media_metadata"]
    assert energon("prepare-media", "s3://b/media", HEADER).code == 0  # again, over the first


def test_media_of_a_dataset_at_a_url_are_those_of_the_local_one(
    bucket: Bucket, tmp_path: Path, captions: Path, energon: RunEnergon
) -> None:
    local = shutil.copytree(captions, tmp_path / "local")
    assert energon("prepare", local, "--yes", HEADER).code == 0
    done = energon("prepare", "s3://b/captions", "--yes", HEADER)
    assert (done.code, "--compat" in done.err) == (0, False)
    assert media_rows(captions) == media_rows(local)
    assert len(media_rows(captions)) == 12
    assert energon("info", "s3://b/captions", "--json").json["media_metadata"] is not None


def test_info_reads_the_schema_of_an_index_without_media_and_not_its_rows(
    bucket: Bucket, captions: Path, energon: RunEnergon
) -> None:
    assert energon("prepare", "s3://b/captions", "--yes", "--compat").code == 0
    path = captions / ".nv-meta/index.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE padding (data)")
        database.execute("INSERT INTO padding VALUES (zeroblob(1000000))")
        database.commit()
    before = len(bucket.server.requests)
    assert energon("info", "s3://b/captions", "--json").json["media_metadata"] is None
    read = [one.sent_bytes for one in bucket.server.requests[before:] if one.key.endswith("index.sqlite")]
    assert read
    assert sum(read) <= 1 << 16
    columns = [one.key for one in bucket.server.requests[before:] if one.key.endswith(".npy")]
    assert columns == []


def test_lint_of_tars_that_are_not_prepared_asks_for_no_status(
    bucket: Bucket, captions: Path, energon: RunEnergon
) -> None:
    requests = bucket.requests(lambda: energon("lint", "s3://b/captions", "--level", "headers"))
    assert [one for one in requests if one.startswith("HEAD")] == []
    assert any(one.startswith("GET captions/shard_003.tar") for one in requests)
