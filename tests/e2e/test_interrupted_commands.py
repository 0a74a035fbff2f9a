"""Real processes that are killed while they write: what is left is named with its size, and goes with the next run."""

from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader import random_access
from loader.errors import StorageError
from loader.format.unfinished import left_files
from loader.prepare import PreparePlan, run_prepare
from loader.storage import LocalStorage, partials_of, size_of
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.source_tree import ROOT

SAMPLES, SAMPLE_BYTES = 240, 1 << 18
"""Enough for a writer of any speed to be caught at work."""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder in memory where the system has one, since disks take seconds to flush."""
    disk, memory = tmp_path_factory.mktemp("interrupted"), Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else disk) as folder:
        yield Path(folder)


@pytest.fixture
def work(memory: Path) -> Iterator[Path]:
    """Yield a new folder, in which the commands run."""
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def files(memory: Path) -> Path:
    folder = memory / "files"
    folder.mkdir()
    (folder / "0.raw").write_bytes(os.urandom(SAMPLE_BYTES))
    for number in range(1, SAMPLES):
        os.link(folder / "0.raw", folder / f"{number:03}.raw")
    return folder


@pytest.fixture(scope="module")
def dataset(files: Path) -> Path:
    output = files.parent / "dataset"
    assert main(["import", str(files), str(output), "--yes", "--samples-per-shard", "60", "--no-progress"]) == 0
    return output


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def unfinished(output: Path) -> list[str]:
    return [*partials_of(str(output)), *(str(output / name) for name in left_files(LocalStorage(output)))]


def interrupt(arguments: list[str], output: Path, sent: signal.Signals) -> str:
    """Run a command, interrupt it and its workers when a file is half written, and return what it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energon_cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=output.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    while process.poll() is None and not any(size_of(path) > 1000 for path in unfinished(output)):
        time.sleep(0.001)
    assert process.poll() is None, "it was done before it could be interrupted"
    os.killpg(process.pid, sent)
    text = process.communicate()[0]
    assert process.returncode == (130 if sent == signal.SIGINT else -sent)
    return text


def run_line(line: str, energon: RunEnergon) -> None:
    words = shlex.split(line.removeprefix("python -m energon_cli ").removeprefix("energon "))
    done = energon(*words)
    assert done.code == 0, done.err


def import_of(files: Path, _: Path, output: Path) -> list[str]:
    return ["import", str(files), str(output), "--yes", "--samples-per-shard", "60", "--num-workers", "2"]


def reshard_of(_: Path, dataset: Path, output: Path) -> list[str]:
    return ["reshard", str(dataset), str(output), "--samples-per-shard", "60"]


def add_parts_of(_: Path, dataset: Path, output: Path) -> list[str]:
    return ["add-parts", str(dataset), str(output), "--from", str(dataset), "--rename", "raw=second.raw"]


@pytest.mark.parametrize("command", [import_of, reshard_of, pytest.param(add_parts_of, marks=pytest.mark.slow)])
@pytest.mark.sampled(2)
def test_a_killed_run_is_named_by_all_commands_and_continued_by_their_line(
    *,
    command: Callable[[Path, Path, Path], list[str]],
    files: Path,
    dataset: Path,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    energon: RunEnergon,
) -> None:
    monkeypatch.chdir(work)
    output = work / "the output"
    arguments = command(files, dataset, output)
    interrupt(arguments, output, signal.SIGKILL)
    size = sum(map(size_of, unfinished(output)))
    assert size > 1000
    line = shlex.join(["energon", *arguments])
    for look in (["info"], ["lint"], ["prepare", "--yes"], ["preview"]):
        done = energon(look[0], output, *look[1:])
        text = done.out + done.err
        assert done.code == 1, look
        assert f"({size:,} bytes), first .shard_" in text, look
        assert re.findall(r"to continue, run: ([^;\n]*)", text) == [line], look
    assert not (output / ".nv-meta/.info.json").exists()
    with pytest.raises(StorageError, match=rf"(?s)not a dataset yet.*\({size:,} bytes\).*to continue, run: energon "):
        random_access(str(output))
    run_line(line, energon)
    assert unfinished(output) == []
    assert energon("info", output, "--json").json["samples"] == SAMPLES
    assert "W010" not in energon("lint", output, "--level", "headers").out


def test_ctrl_c_between_the_start_of_workers_and_their_results_leaves_no_files(
    files: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = work / "output"

    def interrupted(results: Generator[Any, None, None]) -> AbstractContextManager[Any]:
        if not multiprocessing.active_children():  # tables are read in this process
            return closing(results)
        while not unfinished(output):
            time.sleep(0.001)
        raise KeyboardInterrupt

    monkeypatch.setattr("loader.engine.run.closing", interrupted)
    assert main(import_of(files, files, output)) == 130
    assert multiprocessing.active_children() == []
    assert unfinished(output) == []


def test_ctrl_c_removes_unfinished_files_and_names_the_line_that_continues(
    files: Path, work: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.chdir(work)
    output = work / "output"
    text = interrupt(import_of(files, files, output), output, signal.SIGINT)
    assert unfinished(output) == []
    found = re.search(rf"interrupted\n{output}: an interrupted run has left .*; to continue, run: (.*)\n", text)
    assert found is not None, text
    run_line(found[1], energon)
    assert energon("info", output, "--json").json["samples"] == SAMPLES


def export_of(_: Path, dataset: Path, output: Path) -> list[str]:
    return ["export", str(dataset), str(output), "--format", "files"]


def export_to_a_file_of(_: Path, dataset: Path, output: Path) -> list[str]:
    return ["export", str(dataset), str(output), "--format", "jsonl"]


def extract_of(_: Path, dataset: Path, output: Path) -> list[str]:
    return ["extract", str(dataset), "-o", str(output), "--format", "tar"]


def merge_of(_: Path, dataset: Path, output: Path) -> list[str]:
    other = dataset.with_name("other")
    if not other.exists():
        shutil.copytree(dataset, other, copy_function=os.link)
    return ["merge", str(dataset), str(other), str(output), "--copy"]


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        *((command, signal.SIGKILL) for command in (export_of, export_to_a_file_of, extract_of, merge_of)),
        (merge_of, signal.SIGINT),
        pytest.param(export_of, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(export_to_a_file_of, signal.SIGINT, marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled(4)
def test_an_output_that_appears_whole_has_what_is_left_named_beside_it(
    *,
    command: Callable[[Path, Path, Path], list[str]],
    sent: signal.Signals,
    files: Path,
    dataset: Path,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    energon: RunEnergon,
) -> None:
    monkeypatch.chdir(work)
    output = work / ("the output.jsonl" if command is export_to_a_file_of else "the output")
    arguments = command(files, dataset, output)
    interrupt(arguments, output, sent)
    assert not output.exists()
    if sent == signal.SIGINT:
        assert os.listdir(work) == []
        return
    (left,) = unfinished(output)
    line = shlex.join(["energon", *arguments])
    for look in ("info", "lint", "prepare"):
        done = energon(look, output)
        assert f"an interrupted run has left {left} ({size_of(left):,} bytes)" in done.out + done.err
        assert f"run: {line}" in done.out + done.err
    run_line(line, energon)
    assert os.listdir(work) == [output.name]


def test_unfinished_files_in_a_dataset_are_found_and_go_with_the_next_prepare(work: Path, energon: RunEnergon) -> None:
    (work / "photos").mkdir()
    (work / "photos/0.txt").write_text("x")
    output = work / "dataset"
    assert energon("import", work / "photos", output, "--yes").code == 0
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = [
        f".shard_000000.tar.idx.{dead.pid}-0123456789ab.partial",
        f".nv-meta/.x.npy.{dead.pid}-0123456789ab.partial",
    ]
    mine = f".shard_000000.tar.idx.{os.getpid()}-0123456789ab.partial"
    for name in (*names, mine):
        (output / name).write_bytes(b"123")
    said = f"an interrupted run has left 3 unfinished files (9 bytes), first {names[1]}"
    assert said in energon("info", output).out
    assert f"warning W010: {said}" in energon("lint", output).out
    run_prepare(PreparePlan(path=str(output)))
    assert left_files(LocalStorage(output)) == [mine], "the file of a process that runs stays"


def test_secrets_are_not_recorded_with_unfinished_files(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from energon_cli.command import command_line

    url = "https://me:pw@host"
    arguments = ["import", f"{url}/a.csv?sig=key", "to a", "--storage-option", f"endpoint_url={url}", "--yes"]
    line = "energon import https://host/a.csv 'to a' --storage-option endpoint_url=https://host --yes"
    assert " ".join(command_line(arguments)) == line
