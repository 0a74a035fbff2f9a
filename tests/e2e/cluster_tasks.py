"""Tasks that die or hang on workers of a cluster, and the commands that run on one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from loader.engine.journal import Journal
from loader.engine.run import Engine, JobTasks
from loader.storage import LocalStorage
from tests.e2e.dataset_tree import RATIO, copy_of, prepare, write_shards
from tests.e2e.test_map import Mapped

SECRET = "hush-7f3a91"
COUNT = 12

Task = tuple[int, str, str, int]
"""Number, folder that counts runs, what becomes of its process, and in how many runs."""


class Done(msgspec.Struct, frozen=True):
    """The result of a task."""

    square: int


def run_task(task: Task) -> Done:
    """Kill this process in the first runs, at once or a while later."""
    number, folder, fate, times = task
    with open(f"{folder}/{number}", "ab") as file:
        file.write(b".")
    if os.path.getsize(f"{folder}/{number}") <= times:
        time.sleep(10 if fate == "killed later" else 0)
        os.kill(os.getpid(), signal.SIGKILL)
    return Done(number**2)


def tasks_in(folder: Path, fates: Mapping[int, tuple[str, int]] | None = None) -> list[Task]:
    folder.mkdir(exist_ok=True)
    return [(number, str(folder), *(fates or {}).get(number, ("", 0))) for number in range(COUNT)]


def job_of(folder: Path, tasks: list[Task]) -> JobTasks[Done]:
    journal: Journal[Done] = Journal(LocalStorage(folder), "jobs/squares", Done)
    return JobTasks(function=run_task, tasks=tasks, journal=journal, command="map", request={})


def squares(folder: Path, tasks: list[Task], engine: Engine) -> list[int]:
    """Run tasks; check that each has one result, in the journal, too."""
    job = job_of(folder, tasks)
    results = sorted((number, done.square) for number, done in job.run(engine))
    assert [number for number, _ in results] == list(range(len(tasks)))
    assert job.journal.finished() == set(range(len(tasks)))
    return [square for _, square in results]


SQUARES = [number**2 for number in range(COUNT)]


def environment_of(_: int) -> dict[str, str]:
    return dict(os.environ)


def energon(*arguments: object, cwd: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a command as a terminal does, in a folder of modules that only this command finds."""
    command = [sys.executable, "-m", "energon_cli", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    output = process.communicate()[0]
    assert process.returncode == code, output
    return output


QUALITY = """
import os, time

def score(sample):
    while os.path.exists(HOLD) and sample["json"]["number"] > 9:
        time.sleep(0.01)
    return len(sample["txt"]) + sample["json"]["number"] / 7
"""


def datasets(folder: Path, count: int) -> Iterator[Path]:
    """Yield copies of a prepared dataset; the folder has the module ``quality`` of the user."""
    (folder / "quality.py").write_text(QUALITY.replace("HOLD", repr(str(folder / "hold"))))
    first = write_shards(folder / "ds_0", 6)
    for number in range(count):
        path = first if number == 0 else copy_of(first, folder / f"ds_{number}")
        prepare(path, split=RATIO)
        yield path


def check_ends_of_workers(folder: Path, engine: Engine) -> None:
    """Map calls that end their workers, by an exit, a fault and a kill: each is a failure of its sample."""
    write_shards(folder / "ends/data", 4, samples=15)
    prepare(folder / "ends/data")
    options: dict[str, Any] = {"max_failures": 3, "task_samples": 15}
    report = Mapped(folder / "ends/data", "write").run("ends_score", engine, **options)
    ended = [(failure.sample, failure.error) for failure in report.failures]
    assert ended == [(number, "CallEndedError: the process of the call ended") for number in (3, 8, 12)]
    assert report.samples == 60


def columns_of(folder: Path) -> dict[str, bytes]:
    """Return the files of the columns of a dataset."""
    return {path.name: path.read_bytes() for path in (folder / ".nv-meta/columns").iterdir() if path.is_file()}
