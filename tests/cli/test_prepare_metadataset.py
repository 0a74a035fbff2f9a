"""``energon prepare meta.yaml``: reports of joins, and failures to join."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loader.metadataset.joins.files import JoinFiles
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT
from tests.unit.metadataset.joined_data import JoinedData, filling, join_of, skipping


@pytest.fixture
def data(tmp_path: Path) -> JoinedData:
    data = JoinedData(tmp_path)
    data.add_dataset("p", {"p0": ["a", "b", "c"], "p1": ["d"]})
    data.add_dataset("q", {"q0": ["d", "x"], "q1": ["b", "a"]})
    return data


def test_every_join_is_one_line(data: JoinedData, energon: RunEnergon) -> None:
    data.write("inner/meta.yaml", {"train": join_of("../p", filling("../q"))})
    blend = [join_of("p", skipping("q")), {"path": "inner/meta.yaml"}, join_of("p", "p")]
    path = data.write("meta.yaml", {"train": {"blend": blend}})
    done = energon("prepare", path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"joined {path}: splits.train.blend[0]: 3 rows, 1 skipped (q: 3 matched, 1 missing, 1 unused)",
        f"joined {data.folder}/inner/meta.yaml: splits.train: 4 rows (../q: 3 matched, 1 missing, 1 unused)",
        f"joined {path}: splits.train.blend[2]: 4 rows (p: 4 matched)",
    ]


def test_a_report_as_json_has_every_count(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", skipping("q"))
    done = energon("prepare", path, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {
        "path": str(path),
        "dry_run": False,
        "joins": [
            {
                "file": str(path),
                "place": "splits.train",
                "rows": 3,
                "skipped": 1,
                "datasets": [
                    {"path": str(data.folder / "q"), "nonmatch": "skip", "matched": 3, "missing": 1, "unused": 1}
                ],
            }
        ],
    }


def test_a_relative_path_works(data: JoinedData, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch) -> None:
    data.write_join("p", filling("q"))
    monkeypatch.chdir(data.folder)
    assert energon("prepare", "meta.yaml").out.startswith("joined meta.yaml: splits.train: 4 rows")
    assert len(data.files()) == 2


def test_a_dry_run_writes_nothing(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", "q")
    done = energon("prepare", path, "--dry-run")
    assert (done.code, done.out) == (0, f"would join {path}: splits.train: {data.folder}/p with {data.folder}/q\n")
    done = energon("prepare", path, "--dry-run", "--json")
    datasets = [str(data.folder / "p"), str(data.folder / "q")]
    assert done.json["joins"] == [{"file": str(path), "place": "splits.train", "datasets": datasets}]
    assert not (data.folder / "meta.yaml.joins").exists()


def test_without_joins_there_is_nothing_to_prepare(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write("meta.yaml", {"train": {"path": "p"}})
    done = energon("prepare", path)
    assert (done.code, done.out) == (0, f"{path} has no joins: nothing to prepare; all its datasets exist\n")
    shutil.rmtree(data.folder / "p")
    done = energon("prepare", path)
    assert (done.code, done.out) == (1, "")
    assert "there is no such folder" in done.err


def test_keys_that_do_not_match_end_in_failure(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", "q")
    done = energon("prepare", path)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"error: {data.folder}/q lacks 1 of the keys of {data.folder}/p: 'c'\n"
        f"  at: {path}: splits.train\n"
        "  hint: set nonmatch: skip at that dataset to skip these samples, or nonmatch: none to get None\n"
    )


def test_flags_for_shards_are_refused_by_name(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", skipping("q"))
    done = energon("prepare", path, "--split-ratio", "8,1,1", "--no-compat", "--exclude", "x")
    assert done.code == 2
    assert "--split-ratio, --exclude are valid only for folders of shards" in done.err
    assert "--shuffle-tars is valid only for folders of shards" in energon("prepare", path, "--shuffle-tars").err
    for flag in ("--non-interactive", "--yes", "--force-overwrite", "--no-progress", "--debug"):
        assert energon("prepare", path, flag).code == 0


def test_trust_in_the_environment_is_no_flag(
    data: JoinedData, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert energon("prepare", data.write_join("p", skipping("q"))).code == 0


def test_another_prepare_at_work_is_named(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", skipping("q"))
    with JoinFiles(str(path)).lock():
        done = energon("prepare", path)
    assert done.code == 1
    assert f"another run is at work here: process {os.getpid()}" in done.err


@pytest.mark.parametrize("name", ["none.yaml", "empty.yaml"])
def test_a_file_that_is_no_metadataset_is_an_error(data: JoinedData, energon: RunEnergon, name: str) -> None:
    (data.folder / "empty.yaml").write_text("")
    done = energon("prepare", data.folder / name)
    assert (done.code, done.out) == (1, "")
    assert str(data.folder / name) in done.err


def test_control_characters_in_names_do_not_reach_the_terminal(data: JoinedData, energon: RunEnergon) -> None:
    (data.folder / "q").rename(data.folder / "q\x1b[31m")
    done = energon("prepare", data.write_join("p", filling("q\x1b[31m")))
    assert done.code == 0
    assert "q\\x1b[31m" in done.out
    assert "\x1b" not in done.out


def test_ctrl_c_stops_soon_and_keeps_the_old_files(data: JoinedData, energon: RunEnergon) -> None:
    path = data.write_join("p", filling("q"))
    energon("prepare", path)
    before = data.files()
    data.set_split("p", {"train": ["p1", "p0"]})
    program = (
        "import sys, time\n"
        "import loader.metadataset.joins.prepare_join as join\n"
        "def slow(*_): print('at work', flush=True); time.sleep(60)\n"
        "join.SampleKeys.read = slow\n"
        "from energon_cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "prepare", str(path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"at work\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"interrupted\n")
    assert data.files() == before
