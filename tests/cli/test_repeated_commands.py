"""A command that is killed after its commit, and repeated, as by a loop of retries, says that its work is done."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from energon_cli.main import main
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import RATIO, prepare
from tests.e2e.test_prepare_kills import CHANGING_CALLS, in_child, kill_before

FUNCTIONS = """
def copy(sample):
    return {"txt": sample["txt"]}

def other(sample):
    return {"txt": "other"}

def length(sample):
    return {"length.txt": str(len(sample["txt"]))}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a prepared dataset, files to import, and functions; all commands run next to them."""
    prepare(write_captions(tmp_path / "ds"), split=RATIO)
    (tmp_path / "files").mkdir()
    for number in range(5):
        (tmp_path / f"files/{number}.txt").write_text(f"text {number}")
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = {
    "import": ["import", "files", "out", "--yes"],
    "reshard": ["reshard", "ds", "out", "--shuffle"],
    "map to a dataset": ["map", "ds", "functions.py:copy", "--raw", "--to-dataset", "out"],
    "map to parts": ["map", "ds", "functions.py:length", "--raw", "--to-parts", "out"],
    "export to files": ["export", "ds", "out", "--format", "files"],
    "export to a file": ["export", "ds", "out.jsonl"],
    "export by workers": ["export", "ds", "out.parquet", "--num-workers", "2"],
    "export of shards": ["export", "ds", "out", "--format", "webdataset", "--num-workers", "2"],
}


def outputs(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if "out" in path.name]


def names_below(folder: Path) -> set[str]:
    """Return the names of all files and folders but for identities of indexes and digests of joins."""
    paths = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {path for path in paths if not any(name in path for name in ("/index/", "__pycache__", ".joins/"))}


def counted_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each call that changes the disk."""
    calls: list[str] = []

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **options: object) -> object:
            calls.append(name)
            return call(*args, **options)

        return run

    for name in CHANGING_CALLS:
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    return calls


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_after_its_commit_is_already_done(
    name: str, step: int, folder: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = COMMANDS[name]
    with monkeypatch.context() as patched:
        calls = counted_calls(patched)
        whole = energon(*line)
    assert whole.code == 0, whole.err
    expected, killed_after_commit = names_below(folder), 0
    # Kill it before its last call that changes the disk, and before each earlier one (of so many) back to the commit.
    for number in range(len(calls), 0, -step):
        for path in outputs(folder):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with monkeypatch.context() as patched:
            kill_before(number, patched)
            code = in_child(lambda: main(line))
        if code == 0:  # workers make the number of calls vary
            continue
        assert code == -signal.SIGKILL
        output = folder / line[2] if line[0] != "map" else folder / "out"
        committed = output if line[0] == "export" else output / ".nv-meta/.info.json"
        if not committed.exists():
            break
        killed_after_commit += 1
        again = energon(*line)
        assert again.code == 0, again.err
        assert "already done" in again.out
        assert names_below(folder) == expected
    assert killed_after_commit or name == "export to files"  # whose last call is the commit


def write_number(folder: Path) -> None:
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, "number", np.arange(len(opened.index)))


CHANGES: dict[str, tuple[list[str], Callable[[Path], object], str]] = {
    "an option of import": ([*COMMANDS["import"], "--samples-per-shard", "2"], lambda _: None, "samples per shard"),
    "a file": (
        COMMANDS["import"],
        lambda folder: (folder / "files/2.txt").write_text("longer"),
        "list of source files",
    ),
    "a time": (COMMANDS["import"], lambda folder: os.utime(folder / "files/2.txt", (1, 1)), "list of source files"),
    "an option of reshard": (["reshard", "ds", "out"], lambda _: None, "seed: 0 then, none now"),
    "a column": (
        COMMANDS["reshard"],
        lambda folder: write_number(folder / "ds"),
        "documents, columns and filters",
    ),
    "a function": (
        ["map", "ds", "functions.py:other", "--raw", "--to-dataset", "out"],
        lambda _: None,
        "functions.py:copy then, functions.py:other now",
    ),
    "an option of export": ([*COMMANDS["export to a file"], "--limit", "3"], lambda _: None, "limit: None then, 3 now"),
    "another command": (["reshard", "ds", "out"], lambda _: None, "prepared dataset"),
}
FIRST = {"reshard": "reshard", "a column": "reshard", "function": "map to a dataset", "export": "export to a file"}


@pytest.mark.parametrize("name", CHANGES)
def test_a_repeated_command_names_what_differs(name: str, folder: Path, energon: RunEnergon) -> None:
    line, change, named = CHANGES[name]
    first = next((COMMANDS[value] for word, value in FIRST.items() if word in name), COMMANDS["import"])
    assert energon(*first).code == 0
    change(folder)
    before = names_below(folder)
    again = energon(*line)
    assert again.code == 1
    assert named in again.err
    assert names_below(folder) == before


@pytest.mark.parametrize("name", ["import", "map to parts", "export by workers"])
def test_a_repeated_share_or_merge_is_already_done(name: str, folder: Path, energon: RunEnergon) -> None:
    line = [word for word in COMMANDS[name] if word not in ("--num-workers", "2")]
    assert [energon(*line, *share).code for share in (["--share", "1/2"], ["--share", "2/2"], ["--merge"])] == [0, 0, 0]
    expected = names_below(folder)
    for repeated in (["--merge"], ["--share", "2/2"], [], ["--num-workers", "2"]):
        assert "already done" in energon(*line, *repeated).out
        assert names_below(folder) == expected


def test_json_says_that_a_command_is_already_done(folder: Path, energon: RunEnergon) -> None:
    assert energon(*COMMANDS["reshard"]).code == 0
    assert energon(*COMMANDS["reshard"], "--json").json == {"output": str(folder / "out"), "already_done": True}


def test_the_record_has_no_path_and_no_setting_of_the_machine(folder: Path, energon: RunEnergon) -> None:
    assert energon(*COMMANDS["import"], "--num-workers", "2").code == 0
    assert energon(*COMMANDS["export to a file"]).code == 0
    records = (folder / "out/.nv-meta/request.json").read_text()
    records += os.getxattr(folder / "out.jsonl", "user.energon.request").decode()
    assert str(folder) not in records
    assert "workers" not in records
