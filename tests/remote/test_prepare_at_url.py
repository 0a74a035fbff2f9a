"""A dataset prepared at a URL is the one prepared here, whatever fails, and whenever the prepare is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.prepare.plan import PreparePlan, PrepareReport, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import (
    RATIO,
    caption_samples,
    comparable_files,
    contents,
    shard_path,
    write_shard,
    write_shards,
)
from tests.forked_commands import program
from tests.object_server import Fault, FaultPlan, ObjectServer
from tests.tables import write_lines, write_rows

URL = "s3://bucket/ds"
EACH_REQUEST = pytest.param(1, marks=pytest.mark.slow)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    (tmp_path / "store/bucket").mkdir(parents=True)
    with ObjectServer(tmp_path / "store") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        options = {"s3://bucket": {"endpoint_url": server.url, "deadline_s": 60}}  # clients are kept for each endpoint
        monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps(options))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
        yield server


@pytest.fixture
def folder(tmp_path: Path, server: ObjectServer) -> Path:
    """The folder of the dataset at URL."""
    return write_shards(tmp_path / "store/bucket/ds", 6)


def prepare_url(**options: Any) -> PrepareReport:
    plan: dict[str, Any] = {"path": URL, "split": RATIO, "workers": 2} | options
    return run_prepare(PreparePlan(**plan))


def shard_requests(server: ObjectServer) -> list[str]:
    return [request.key for request in server.requests if request.key.endswith(".tar") and request.method == "GET"]


# ------------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("scan", "compat"),
    [
        *(("auto", None), ("hop", True), ("stream", None)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("auto", True), ("hop", None), ("stream", True))),
    ],
)
def test_the_files_and_samples_are_those_of_a_prepare_on_this_machine(
    tmp_path: Path, server: ObjectServer, folder: Path, scan: str, compat: bool | None
) -> None:
    local = shutil.copytree(folder, tmp_path / "local")
    expected = run_prepare(PreparePlan(path=str(local), split=RATIO, compat=compat or False))
    report = prepare_url(scan=scan, compat=compat)
    assert comparable_files(folder) == comparable_files(local)
    assert contents(URL) == contents(str(local))
    assert (report.samples, report.parts, report.split) == (expected.samples, expected.parts, expected.split)
    assert report.compat == bool(compat)
    assert not list((folder / ".nv-meta/.prepare").rglob("*.scans"))
    assert not server.objects.open_uploads


def test_training_from_the_url_takes_the_samples_in_the_order_of_the_local_dataset(
    tmp_path: Path, server: ObjectServer, folder: Path
) -> None:
    from loader import WorkerConfig, get_savable_loader, get_train_dataset

    local = shutil.copytree(folder, tmp_path / "local")
    crude = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
    run_prepare(PreparePlan(path=str(local), split=RATIO, files=crude))
    prepare_url(files=crude)

    def keys(path: str) -> list[str]:
        config = WorkerConfig(rank=0, world_size=1, num_workers=0)
        dataset = get_train_dataset(
            path, worker_config=config, batch_size=1, shuffle_buffer_size=10, max_samples_per_sequence=2
        )
        batches = iter(get_savable_loader(dataset))
        return [str(next(batches)["__key__"]) for _ in range(30)]

    assert keys(URL) == keys(str(local))


def test_each_shard_takes_a_request_and_the_listing_one_a_thousand_files(server: ObjectServer, folder: Path) -> None:
    prepare_url()
    assert sorted(shard_requests(server)) == sorted(f"bucket/ds/{path.name}" for path in folder.glob("*.tar"))
    listings = [request for request in server.requests if request.is_listing and request.query.endswith("prefix=ds%2F")]
    assert len(listings) == 1


def test_a_second_prepare_scans_nothing_and_a_changed_shard_alone_is_scanned(
    server: ObjectServer, folder: Path
) -> None:
    first = prepare_url()
    server.requests.clear()
    again = prepare_url(split=None)
    assert (again.changed, again.uuid, shard_requests(server)) == (False, first.uuid, [])
    assert {request.method for request in server.requests} <= {"GET", "HEAD", "POST", "DELETE"}
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    server.requests.clear()
    report = prepare_url(split=None)
    assert (report.scanned, report.reused) == (1, 5)
    assert set(shard_requests(server)) == {"bucket/ds/shard_002.tar"}
    assert sum(key.startswith("shard_002.tar/0009") for key in contents(URL)) == 3
    uuids = {path.parent.name for path in (folder / ".nv-meta/index").glob("*/*.npy")}
    assert uuids == {first.uuid, report.uuid}  # running jobs may still read the one before
    write_shard(shard_path(folder, 3), caption_samples(100, 3))
    last = prepare_url(split=None)
    assert {path.parent.name for path in (folder / ".nv-meta/index").glob("*/*.npy")} == {report.uuid, last.uuid}


def test_a_shard_that_changes_while_it_is_scanned_is_named(server: ObjectServer, folder: Path) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="changed etag", key="shard_004.tar", method="GET")])
    with pytest.raises(FormatError, match="changed") as caught:
        prepare_url()
    assert "shard_004.tar" in str(caught.value)
    assert not (folder / ".nv-meta/.info.json").exists()


def test_damaged_shards_are_named_with_their_offset(server: ObjectServer, folder: Path) -> None:
    shard_path(folder, 1).write_bytes(shard_path(folder, 1).read_bytes()[:1500])
    with pytest.raises(FormatError, match="the file ends at byte 1500") as caught:
        prepare_url()
    assert "s3://bucket/ds/shard_001.tar" in str(caught.value)
    assert prepare_url(exclude="shard_001").shards == 5


@pytest.mark.parametrize("options", [{"fix_duplicates": True}])
def test_what_changes_shards_is_refused(server: ObjectServer, folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="object store"):
        prepare_url(**options)


def test_a_web_server_is_refused_since_it_cannot_list(server: ObjectServer, folder: Path) -> None:
    with pytest.raises(StorageError, match="a web server cannot list its files"):
        run_prepare(PreparePlan(path=f"{server.url}/bucket/ds", split=RATIO))
    assert not server.requests


# -------------------------------------------------------------------------------------------------------- faults


def test_faults_of_the_network_do_not_change_the_result(tmp_path: Path, server: ObjectServer, folder: Path) -> None:
    local = shutil.copytree(folder, tmp_path / "local")
    run_prepare(PreparePlan(path=str(local), split=RATIO, compat=False))
    server.faults = FaultPlan(seed=3, rates={"503": 0.1, "reset": 0.05, "reset in body": 0.05, "short body": 0.05})
    prepare_url()
    assert comparable_files(folder) == comparable_files(local)


@pytest.mark.parametrize(
    "key",
    [
        ".info.json",
        ".scans",
        *(pytest.param(key, marks=pytest.mark.slow) for key in ("layout.json", "index.uuid", "split.yaml")),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_put_whose_answer_is_lost_is_recognised_as_done(
    server: ObjectServer, folder: Path, key: str, is_first: bool
) -> None:
    if not is_first:
        prepare_url()
        write_shard(shard_path(folder, 2), caption_samples(90, 3))
    server.faults = FaultPlan(faults=[Fault(kind="dropped put", key=key, method="PUT", requests=range(2))])
    if not is_first:
        number = 1  # counted for each key; those of an index differ
        server.faults = FaultPlan(faults=[Fault(kind="dropped put", key=key, method="PUT", requests=range(number, 3))])
    report = prepare_url()
    assert report.changed
    assert folder_at(URL).index.uuid == report.uuid


def test_of_two_prepares_at_a_time_the_second_to_finish_says_so_and_changes_nothing(
    server: ObjectServer, folder: Path
) -> None:
    prepare_url()
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    winner: list[PrepareReport] = []

    def overtaken(_: object) -> None:
        if not winner:
            winner.append(prepare_url(workers=1))

    with pytest.raises(StorageError, match="another prepare of this dataset has finished"):
        run_prepare(PreparePlan(path=URL, split=RATIO), on_progress=overtaken)
    assert folder_at(URL).index.uuid == winner[0].uuid
    assert not prepare_url().changed


def test_a_race_that_is_lost_at_the_last_request_leaves_the_index_of_the_winner(
    tmp_path: Path, server: ObjectServer, folder: Path
) -> None:
    prepare_url()
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    before = shutil.copytree(folder, tmp_path / "before")
    winner = prepare_url()
    after = shutil.copytree(folder, tmp_path / "after")
    shutil.rmtree(folder)
    shutil.copytree(before, folder)

    def overtake(method: str, key: str, _: int) -> None:
        if method == "PUT" and key.endswith("/.info.json"):
            for path in (after / ".nv-meta").rglob("*"):
                target = folder / path.relative_to(after)
                if path.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)

    server.faults = FaultPlan(choose=overtake)
    with pytest.raises(StorageError, match="another prepare of this dataset has finished"):
        prepare_url()
    server.faults = FaultPlan()
    assert (folder / ".nv-meta/index.uuid").read_text() == winner.uuid
    assert folder_at(URL).index.uuid == winner.uuid


@pytest.mark.parametrize("reads_samples", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_dataset_that_is_opened_during_a_commit_is_the_old_one_or_the_new_one(
    tmp_path: Path, server: ObjectServer, folder: Path, reads_samples: bool
) -> None:
    def prepare(ratio: dict[str, float], field: str) -> tuple[object, ...]:
        fields = f"field_map: {{image: {field}, caption: txt}}\n"
        yaml = f"__module__: megatron.energon\n__class__: CaptioningWebdataset\n{fields}"
        prepare_url(split=SplitRequest(ratio=ratio), files={"dataset.yaml": yaml})
        return state()

    def state() -> tuple[object, ...]:
        opened = folder_at(URL, reads_samples=reads_samples)
        assert opened.documents.split is not None
        return opened.documents.split.split_parts, opened.documents.config, tar_index(opened).uuid

    lock = threading.Lock()

    def commit_at(last: int, requests: list[str], _method: str, key: str, _number: int) -> None:
        with lock:
            requests.append(key)
            if len(requests) == last + 1:
                shutil.copytree(after, folder, dirs_exist_ok=True)

    earlier = prepare({"train": 1.0}, "jpg")
    before = shutil.copytree(folder, tmp_path / "before")
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    later = prepare({"train": 1.0, "val": 1.0}, "png")
    after = shutil.copytree(folder, tmp_path / "after")
    found = []
    for last in range(1000):
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        requests: list[str] = []
        server.faults = FaultPlan(choose=partial(commit_at, last, requests))
        found.append(state())
        if len(requests) <= last:
            break
    assert found[0] == later
    assert found[-1] == earlier
    assert all(one in (earlier, later) for one in found)


# --------------------------------------------------------------------------------------------------------- kills

CHILD = """
import sys
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
split = SplitRequest(ratio={"train": 2.0, "val": 1.0})
run_prepare(PreparePlan(path=sys.argv[1], workers=2, split=split, files={"dataset.yaml": sys.argv[2]}))
"""


def described_as(version: str) -> dict[str, str]:
    return {
        "dataset.yaml": f"__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {{is: {version}}}\n"
    }


NEW_FILES = described_as("new")


def state(path: str) -> object:
    """Return what a reader finds: samples, split, sample type and index."""
    dataset = folder_at(path)
    split, config = dataset.documents.split, dataset.documents.config
    dataset.close()
    return contents(path), split and split.split_parts, config and config.subflavors


def run_killed(server: ObjectServer, is_due: Callable[[str, str], bool], *, is_executed: bool = False) -> int:
    """Prepare in a process group that is killed at the first request that is due; return its exit status.

    Args:
        server: The server.
        is_due: Called for each request with its method and key.
        is_executed: The request has its effect.
    """
    child: subprocess.Popen[bytes] | None = None
    is_killed = False

    def kill(method: str, key: str, _: int) -> Fault | None:
        nonlocal is_killed
        if is_killed:
            return Fault(kind="reset")
        if child is None or not is_due(method, key):
            return None
        is_killed = True
        os.killpg(child.pid, signal.SIGKILL)
        return None if is_executed else Fault(kind="reset")

    server.faults = FaultPlan(choose=kill)
    child = subprocess.Popen([sys.executable, "-c", CHILD, URL, NEW_FILES["dataset.yaml"]], start_new_session=True)
    status = child.wait(timeout=60)
    server.faults = FaultPlan()
    return status


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_executed", [False, True])
@pytest.mark.parametrize("every", [7, EACH_REQUEST])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_kill_at_any_request_leaves_the_old_index_or_the_new_one_and_the_next_run_completes(
    tmp_path: Path, server: ObjectServer, folder: Path, *, is_first: bool, every: int, is_executed: bool
) -> None:
    old: object = None
    if not is_first:
        prepare_url(split=SplitRequest(ratio={"train": 1.0, "val": 2.0}), files=described_as("old"))
        write_shard(shard_path(folder, 1), caption_samples(50, 2, prefix="changed"))
        write_shard(folder / "shard_002+.tar", caption_samples(60, 2, prefix="added"))
        shard_path(folder, 4).unlink()
        old = state(URL)
    meta, start = folder / ".nv-meta", tmp_path / "start"
    if not is_first:
        shutil.copytree(meta, start)
    prepare_url(files=NEW_FILES)
    new, new_files = state(URL), comparable_files(folder)
    assert old != new
    states = set()
    for number in range(1, 200, every):
        shutil.rmtree(meta)
        if not is_first:
            shutil.copytree(start, meta)
        seen = 0

        def is_due(method: str, key: str, number: int = number) -> bool:
            nonlocal seen
            seen += 1
            return seen >= number

        status = run_killed(server, is_due, is_executed=is_executed)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        if (folder / ".nv-meta/.info.json").exists():
            found = state(URL)
            states.add("new" if found == new else "old")
            assert found in (old, new), f"request {number}"
        else:
            states.add("none")
            assert is_first
        report = prepare_url(files=NEW_FILES)
        assert report.scanned + report.resumed in (0, 6 if is_first else 2), f"request {number}"
        assert state(URL) == new
        assert comparable_files(folder) == new_files, f"request {number}"
    else:
        raise AssertionError("it never completed")
    assert number > 20
    assert states <= ({"none", "new"} if is_first else {"old", "new"})


def test_a_prepare_that_is_killed_while_it_scans_goes_on_from_its_scans(server: ObjectServer, folder: Path) -> None:
    assert run_killed(server, lambda method, key: method == "PUT" and "/index/" in key) == -signal.SIGKILL
    assert len(list((folder / ".nv-meta/.prepare/scans").glob("*.scans"))) == 2  # one of each worker
    server.requests.clear()
    report = prepare_url()
    assert (report.scanned, report.resumed) == (0, 6)
    assert shard_requests(server) == []
    assert not list((folder / ".nv-meta/.prepare").rglob("*.scans"))


# -------------------------------------------------------------------------------------------------- the command


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program(), "prepare", URL, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_prepares_a_url_and_says_that_other_tools_need_compat(server: ObjectServer, folder: Path) -> None:
    result = run_command("--yes", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert not (folder / ".nv-meta").exists()
    result = run_command("--yes")
    assert result.returncode == 0, result.stderr
    assert "18 samples in 6 shards" in result.stdout
    assert "--compat" in result.stderr
    assert folder_at(URL).documents.config is not None
    result = run_command("--yes", "--compat", "--force-overwrite")
    assert result.returncode == 0, result.stderr
    assert (folder / ".nv-meta/index.sqlite").exists()
    assert (folder / "shard_000.tar.idx").exists()


@pytest.mark.parametrize("flag", ["--fix-duplicates", "--decompress"])
def test_the_command_refuses_what_changes_shards_at_a_url(server: ObjectServer, folder: Path, flag: str) -> None:
    result = run_command("--yes", flag)
    assert result.returncode == 2
    assert f"{flag} " in result.stderr
    assert "object store" in result.stderr


def test_a_read_only_dataset_is_prepared_into_a_local_folder(
    tmp_path: Path, server: ObjectServer, folder: Path
) -> None:
    local = shutil.copytree(folder, tmp_path / "local")
    run_prepare(PreparePlan(path=str(local), split=RATIO))
    meta = tmp_path / "meta"
    result = run_command("--non-interactive", "--split-ratio", "2,1", "--meta-folder", str(meta))
    assert result.returncode == 0, result.stderr
    assert {request.method for request in server.requests} <= {"GET", "HEAD"}
    assert not (folder / ".nv-meta").exists()
    dataset = folder_at(DatasetRef.at(URL, meta))
    expected = folder_at(local)
    assert [dataset.read_parts(n) for n in range(18)] == [expected.read_parts(n) for n in range(18)]
    assert not run_prepare(PreparePlan(path=URL, meta_folder=str(meta))).changed


@pytest.mark.parametrize("kind", ["jsonl", pytest.param("parquet", marks=pytest.mark.slow)])
def test_folders_of_jsonl_and_parquet_files_are_prepared_at_a_url(
    tmp_path: Path, server: ObjectServer, kind: str
) -> None:
    write = write_lines if kind == "jsonl" else write_rows
    local, far = tmp_path / "local", tmp_path / "store/bucket/ds"
    for number in range(3):
        write(local / f"{number}.{kind}", range(number * 10, number * 10 + 10))
    shutil.copytree(local, far)
    run_prepare(PreparePlan(path=str(local), split=RATIO))
    report = prepare_url()
    assert report.samples == 30
    assert contents(URL) == contents(str(local))
    assert not prepare_url(split=None).changed
