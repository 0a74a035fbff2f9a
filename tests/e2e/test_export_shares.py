"""An export in shares writes the file or folder of one process, whatever its form."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from loader.convert.exporting import ExportRequest, export_samples
from loader.engine import Engine
from loader.format.dataset_ref import DatasetRef
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.dataset_tree import RATIO, prepare, write_tar
from tests.e2e.test_convert_shares import at_once, begin, end
from tests.unit.convert.importing.test_run import shards_of, write_photos

LINES = {
    "files": ("--format", "files", "--by-shard"),
    "jsonl": ("--format", "jsonl", "--parts", "txt"),
    "parquet": ("--format", "parquet"),
    "hf": ("--format", "hf"),
    "webdataset": ("--format", "webdataset"),
    "shards": ("--format", "webdataset", "--parts", "jpg", "--shard-size", "20kB"),
    "some": ("--format", "jsonl", "--limit", "31", "--where", "jpg.width > 0"),
}


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.convert.export_pieces._TASK_SAMPLES", 7)


@pytest.fixture
def dataset(energon: RunEnergon, tmp_path: Path) -> Path:
    photos = write_photos(tmp_path / "photos", 50)
    done = energon("import", photos, tmp_path / "ds", "--yes", "--samples-per-shard", 9)
    assert done.code == 0, done.err
    return tmp_path / "ds"


def contents(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): re.sub(rb'"_fingerprint": "[^"]*"', b"", file.read_bytes()) for file in files}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.sampled(6)
def test_shares_and_workers_write_what_one_process_writes(
    name: str, energon: RunEnergon, dataset: Path, tmp_path: Path
) -> None:
    if name in ("parquet", "hf"):
        pytest.importorskip({"parquet": "pyarrow", "hf": "datasets"}[name])
    options = LINES[name]
    assert energon("export", dataset, tmp_path / "one", *options).code == 0
    line = ("export", dataset, tmp_path / "out", *options)
    assert [end(begin(*line, "--share", f"{share}/3")) for share in (3, 1)] == [0, 0]
    assert not (tmp_path / "out").exists()
    early = energon(*line, "--merge")
    assert early.code == 1
    assert "share 2 of 3 is not complete" in early.err
    assert f"then merge again: energon {shlex.join(map(str, line))} --share 2/3" in early.err
    assert end(begin(*line, "--share", "2/3")) == 0
    again = energon(*line, "--share", "2/3")
    assert "had been done" in again.out
    merged = energon(*line, "--merge")
    assert merged.code == 0, merged.err
    assert contents(tmp_path / "out") == contents(tmp_path / "one")
    assert energon("export", dataset, tmp_path / "two", *options, "--num-workers", 2).code == 0
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert not [*tmp_path.glob(".*.export")]


@pytest.mark.usefixtures("small_tasks")
def test_kills_and_lost_pieces(energon: RunEnergon, dataset: Path, tmp_path: Path) -> None:
    assert energon("export", dataset, tmp_path / "one.jsonl").code == 0
    line = ("export", dataset, tmp_path / "out.jsonl")
    chance, waiting = random.Random(2), [1, 2, 3, 4]
    for _ in range(3):
        children = {share: begin(*line, "--share", f"{share}/4") for share in waiting}
        time.sleep(chance.uniform(0, 0.3))
        for child in children.values():
            os.killpg(child, signal.SIGKILL)
        waiting = [share for share, child in children.items() if end(child) != 0]
    assert at_once(line) == [0] * 4
    lost = min((tmp_path / ".out.jsonl.export").glob("*.piece"))
    lost.write_bytes(lost.read_bytes()[:-1])
    assert "share 1 of 4 is not complete" in energon(*line, "--merge").err
    assert energon(*line, "--share", "1/4").code == 0
    merged = energon(*line, "--merge")
    assert merged.code == 0, merged.err
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_what_is_left_out_is_counted_once(energon: RunEnergon, tmp_path: Path) -> None:
    write_tar(tmp_path / "ds/s_0.tar", [("a.txt", b"1"), ("a.txt", b"2"), ("b.json", b"{}"), ("c\xff.txt", b"3")])
    prepare(tmp_path / "ds", split=RATIO)
    reports = []
    for dest, shares in (("one", ()), ("two", ("--num-workers", 2))):
        done = energon("export", tmp_path / "ds", tmp_path / dest, "--parts", "txt", *shares, "--json")
        assert done.code == 0, done.err
        reports.append(done.json | {"output": ""})
    assert reports[0] == reports[1]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_cannot_be_shared(energon: RunEnergon, dataset: Path, tmp_path: Path) -> None:
    links = energon("export", dataset, tmp_path / "out", "--format", "webdataset", "--link", "--share", "1/2")
    assert "hard links are made at once" in links.err
    (tmp_path / "old.jsonl").write_text("")
    existing = energon("export", dataset, tmp_path / "old.jsonl", "--share", "1/2")
    assert "nothing is overwritten" in existing.err
    changed = ("export", dataset, tmp_path / "new.jsonl")
    assert energon(*changed, "--share", "1/2").code == 0
    other = energon(*changed, "--limit", 5, "--share", "2/2")
    assert "an unfinished export with another" in other.err


@pytest.mark.usefixtures("small_tasks")
def test_an_executor_writes_what_one_process_writes(dataset: Path, tmp_path: Path) -> None:
    request = ExportRequest(refs=[DatasetRef(str(dataset))], output=str(tmp_path / "one"), format="jsonl")
    export_samples(request)
    with ThreadPoolExecutor(2) as executor:
        export_samples(replace(request, output=str(tmp_path / "two"), engine=Engine(executor=executor)))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("small_tasks")
def test_a_dask_cluster_writes_what_one_process_writes(energon: RunEnergon, dataset: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    lines = {
        "import": ("import", tmp_path / "photos", "", "--yes", "--samples-per-shard", 9, "--shuffle"),
        "reshard": ("reshard", dataset, "", "--samples-per-shard", 5, "--sort-by", "key"),
        "export": ("export", dataset, "", "--format", "jsonl"),
    }

    def to(name: str, dest: str) -> tuple[object, ...]:
        return tuple(tmp_path / f"{name}.{dest}" if word == "" else word for word in lines[name])

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        for name in lines:
            assert energon(*to(name, "one")).code == 0
            done = energon(*to(name, "out"), "--engine", "dask", "--address", cluster.scheduler_address)
            assert done.code == 0, done.err
    for name in ("import", "reshard"):
        assert shards_of(tmp_path / f"{name}.one") == shards_of(tmp_path / f"{name}.out")
    assert contents(tmp_path / "export.one") == contents(tmp_path / "export.out")
