"""The requests of a prepare of a dataset in an object store: how many, of which kind, and of how many a page."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loader import build_filter_index
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import open_filter
from loader.engine.share import Share
from loader.format.columns.column_files import open_column, write_column, write_map_column
from loader.prepare.part import run_part
from loader.prepare.plan import PreparePlan, PrepareProgress
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard, write_shards
from tests.forked_commands import program
from tests.object_server import ObjectServer

URL = "s3://bucket/ds"
SHARDS = 6


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    (tmp_path / "store/bucket").mkdir(parents=True)
    monkeypatch.delenv("ENERGON_CACHE_DIR")
    with ObjectServer(tmp_path / "store") as server:
        options = {"s3://bucket": {"endpoint_url": server.url}}
        monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps(options))
        yield server


@pytest.fixture
def folder(tmp_path: Path, server: ObjectServer) -> Path:
    return write_shards(tmp_path / "store/bucket/ds", SHARDS)


def energon(*arguments: str) -> None:
    result = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def kinds(server: ObjectServer) -> Counter[str]:
    """Return how many requests there were of each kind; those that read shards count as ``shard``."""
    found = Counter[str]()
    for request in server.requests:
        is_shard = request.method == "GET" and request.key.endswith(".tar")
        found["shard" if is_shard else "LIST" if request.is_listing else request.method] += 1
    server.requests.clear()
    return found


def test_the_command_lists_once_asks_for_no_status_and_reads_each_shard_once(
    server: ObjectServer, folder: Path
) -> None:
    energon("prepare", URL, "--yes")
    found = kinds(server)
    # Contents are inspected in the bytes that the scan has fetched; the first sample is one more request.
    # 8 columns, the layout, part sets, 3 documents twice, the scans and .info.json; whether a part was started; all
    # scans removed.
    assert found == {"LIST": 1, "shard": SHARDS + 1, "PUT": 18, "GET": 1, "POST": 1}
    energon("prepare", URL, "--yes")  # .info.json, split.yaml, index.uuid, the layout and the part sets
    assert kinds(server) == {"LIST": 1, "GET": 6}


def test_a_changed_shard_takes_a_listing_and_no_status(server: ObjectServer, folder: Path) -> None:
    run_prepare(PreparePlan(path=URL, split=RATIO))
    kinds(server)
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    report = run_prepare(PreparePlan(path=URL))
    assert report.scanned == 1
    found = kinds(server)
    assert (found["LIST"], found["HEAD"], found["shard"]) == (1, 0, 1)


def test_filters_and_columns_move_with_their_shards_without_a_listing_or_a_status(
    server: ObjectServer, folder: Path
) -> None:
    run_prepare(PreparePlan(path=URL, split=RATIO))
    build_filter_index(URL, "some", [0, 4, 17])
    before = folder_at(URL)
    write_column(before.storage, before.index, "number", np.arange(3 * SHARDS))
    shard_path(folder, 0).unlink()
    kinds(server)
    report = run_prepare(PreparePlan(path=URL, split=RATIO))
    assert report.scanned == 0
    found = kinds(server)
    assert (found["LIST"], found["HEAD"], found["shard"]) == (1, 0, 0)
    now = folder_at(URL)
    assert open_column(now.storage, now.index, "number").values.tolist() == list(range(3, 3 * SHARDS))
    some = folder / ".nv-meta/filter_some.idx"
    assert np.fromfile(some, "<u8").tolist() == [1, 14]
    assert len(open_filter(now, "some")) == 2


def test_vectors_texts_and_masks_move_in_a_store(server: ObjectServer, folder: Path) -> None:
    run_prepare(PreparePlan(path=URL, split=RATIO))
    before = folder_at(URL)
    count = 3 * SHARDS
    known = np.arange(count) > 1  # the first shard has all samples without a value
    every = np.ones(count, np.bool_)
    vectors = np.arange(count * 4, dtype=np.uint32).reshape(count, 4)
    write_map_column(before.storage, before.index, "hash", np.dtype("u4"), [(vectors, known)], length=4)
    write_map_column(before.storage, before.index, "caption", None, [([f"é{i}" for i in range(count)], known)])
    write_map_column(before.storage, before.index, "empty", None, [([""] * count, every)])
    shard_path(folder, 0).unlink()
    run_prepare(PreparePlan(path=URL, split=RATIO))
    now = folder_at(URL)
    rows = np.arange(count - 3)
    hashes, captions, empty = (open_column(now.storage, now.index, name) for name in ("hash", "caption", "empty"))
    assert hashes.values.tolist() == vectors[3:].tolist()
    assert captions.array(rows).tolist() == [f"é{i}" for i in range(3, count)]
    assert empty.array(rows).tolist() == [""] * (count - 3)
    # The masks are gone with the shard.
    assert sorted(path.name for path in (folder / ".nv-meta/columns").iterdir()) == [
        *("caption.json", "caption.npy", "caption.utf8"),
        *("empty.json", "empty.npy", "empty.utf8"),
        *("hash.json", "hash.npy"),
    ]


def test_new_code_is_stored_before_the_commit_and_replaced_code_after_it(server: ObjectServer, folder: Path) -> None:
    def puts(code: str) -> list[str]:
        server.requests.clear()
        run_prepare(PreparePlan(path=URL, split=RATIO, force=True, files={"sample_loader.py": code}))
        assert (folder / ".nv-meta/sample_loader.py").read_text() == code
        return [one.key.rpartition("/")[2] for one in server.requests if one.method == "PUT"]

    first = puts("def sample_loader(parts): ...")
    assert first.count("sample_loader.py") == 1
    assert first.index("sample_loader.py") < first.index(".info.json")
    second = puts("def sample_loader(raw): ...")
    assert second.count("sample_loader.py") == 2  # in the folder of the index, then under its name
    assert second.index("sample_loader.py") < second.index(".info.json")
    assert "sample_loader.py" in second[second.index(".info.json") :]


@pytest.mark.slow
def test_a_listing_of_the_whole_command_takes_a_request_for_a_thousand_keys(server: ObjectServer, folder: Path) -> None:
    for number in range(SHARDS, 2100):
        write_shard(folder / f"shard_{number:05}.tar", caption_samples(number, 1))
    energon("prepare", URL, "--yes")
    assert kinds(server)["LIST"] == 3
    assert len(folder_at(URL).shard_counts) == 2100
    kinds(server)
    energon("prepare", URL, "--yes")
    found = kinds(server)
    assert (found["LIST"], found["HEAD"], found["PUT"]) == (3, 0, 0)


def test_progress_counts_shards_and_not_groups(server: ObjectServer, folder: Path) -> None:
    seen: list[PrepareProgress] = []
    run_prepare(PreparePlan(path=URL, split=RATIO, workers=1), on_progress=seen.append)
    assert [one.shards_done for one in seen] == list(range(SHARDS + 1))
    assert [one.samples for one in seen] == list(range(0, 3 * SHARDS + 1, 3))


def test_a_part_reads_its_own_scans_and_a_merge_all(server: ObjectServer, folder: Path) -> None:
    plan = PreparePlan(path=URL, split=RATIO)
    for number in (1, 2, 3):
        assert run_part(plan, Share(number, 3)).scanned == 2
    stored = {path.relative_to(folder).as_posix() for path in folder.rglob("*.scans")}
    assert len(stored) == 3
    server.requests.clear()
    assert run_part(plan, Share(2, 3)).scanned == 0

    def scans_read() -> set[str]:
        return {one.key.removeprefix("bucket/ds/") for one in server.requests if one.method == "GET"} & stored

    assert len(scans_read()) == 1
    server.requests.clear()
    report = run_prepare(PreparePlan(path=URL, split=RATIO, merge=True))
    assert (report.scanned, report.resumed) == (0, SHARDS)
    assert scans_read() == stored


def test_folders_of_killed_prepares_are_removed_even_if_they_have_no_layout(server: ObjectServer, folder: Path) -> None:
    left = folder / ".nv-meta/index/00000000-0000-0000-0000-000000000000/key_ends.npy"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"some")
    run_prepare(PreparePlan(path=URL, split=RATIO))
    assert not left.exists()
