"""Calls of a mapped function that hang, fork, or end their worker are failures of their samples."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import loader.mapping.run
from loader import open_dataset
from loader.engine import Engine
from loader.errors import ConfigError, WorkerError
from tests.e2e.test_map import FORMS, FUNCTIONS, SAMPLES, SHARDS, Copied, copied, copies_of, forms, plain
from tests.e2e.test_prepare_kills import in_child
from tests.processes import wait_until

__all__ = ["copied", "plain"]

OTHER_USER = 54321  # has no processes

ENDS = [
    (3, "CallEndedError: the process of the call ended with code 7"),
    (8, "CallEndedError: the process of the call was killed by signal 11"),
    (12, "CallEndedError: the process of the call was killed by signal 9"),
]


def workers() -> Engine:
    return Engine(workers=2, forks=True)


@pytest.mark.parametrize(("function", "batch_size"), [("hangs", None), ("batch_hangs", 3)])
@pytest.mark.sampled(2)
def test_a_call_that_hangs_is_a_failure_of_its_sample(function: str, batch_size: int | None, copied: Copied) -> None:
    mapped = copied()
    engine = Engine(workers=2, forks=True)
    report = mapped.run(function, engine, timeout_s=0.2, max_failures=2, batch_size=batch_size)
    assert [failure.sample for failure in report.failures] == [3, 8]
    assert "was interrupted" in report.failures[0].error
    assert "the process of the call did not return in time, and was ended" in report.failures[1].error
    assert not mapped.left()


@forms
@pytest.mark.sampled(4)
def test_a_sample_that_ends_its_worker_fails_like_one_that_raises_an_error(form: str, copied: Copied) -> None:
    mapped, expected = copied(form, "ends"), copied(form, "raises")
    function, _ = FORMS[form]
    report = mapped.run(f"ends_{function}", workers(), max_failures=3)
    assert [(failure.sample, failure.error) for failure in report.failures] == ENDS
    expected.run(f"raises_{function}", max_failures=3)
    ours, theirs = mapped.files(), expected.files()
    if form == "write":
        del ours["score.json"], theirs["score.json"]  # with the name of the function
    assert ours == theirs
    assert not mapped.left()


def test_a_sample_of_a_batch_that_ends_its_worker_fails_alone(copied: Copied) -> None:
    report = copied().run("batch_ends", workers(), max_failures=3, batch_size=3)
    assert [(failure.sample, failure.error) for failure in report.failures] == ENDS


def test_a_killed_command_continues_and_names_the_samples_that_end_workers(copied: Copied) -> None:
    mapped = copied()
    command = [sys.executable, "-m", "energon_cli", "map", str(mapped.folder), f"{FUNCTIONS}:ends_score"]
    command += ["--write", "score", "--num-workers", "1", "--task-samples", "4", "--max-failures", "3"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: bool(list(mapped.folder.glob(".nv-meta/.jobs/*/calls-*/*.deaths"))))
    first.kill()
    first.wait()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(error in done.stdout + done.stderr for _, error in ENDS)
    assert len(open_dataset(mapped.folder).select(where="score >= 0")) == SHARDS * SAMPLES - 12


def test_a_function_of_a_program_that_ends_workers_fails_for_its_samples(copied: Copied) -> None:
    dataset = open_dataset(copied().folder)

    def end(sample: dict[str, Any]) -> int:
        return os._exit(3) if sample["json"]["number"] == 7 else 1

    report = dataset.map(end, write="x", workers=2, max_failures=1)
    assert [failure.sample for failure in report.failures] == [7]


def test_a_task_whose_calls_all_end_workers_ends_the_map(copied: Copied) -> None:
    with pytest.raises(WorkerError, match=r"ended with code 7 while it worked on samples 0–14 of shard_\d+.tar"):
        copied().run("ends_everywhere", Engine(workers=1, stopped_s=1e6, forks=True), task_samples=15)


def test_a_process_that_a_function_forks_runs_nothing_else(copied: Copied) -> None:
    mapped = copied()
    report = mapped.run("forks", workers(), max_failures=3)
    assert [failure.sample for failure in report.failures] == [2, 5, 9]
    assert all("the function forked its process, and the new process" in failure.error for failure in report.failures)
    values = open_dataset(mapped.folder).columns["score"][:].tolist()
    assert [value for value in values if value is not None] == [
        n for n in range(SHARDS * SAMPLES) if n not in (2, 5, 9)
    ]


def test_a_process_that_returns_from_a_function_after_the_call_ends_and_no_other_sample_fails(copied: Copied) -> None:
    mapped = copied()
    assert not mapped.run("forks_for_long", Engine(workers=1, stopped_s=1e6, forks=True)).failures
    assert open_dataset(mapped.folder).columns["score"][:].tolist() == [*range(SHARDS * SAMPLES)]


@pytest.mark.skipif(os.getuid() != 0, reason="a limit of processes counts those of all programs of a user")
def test_a_function_that_forks_in_each_call_never_has_more_processes_than_a_few(plain: Path, copied: Copied) -> None:
    """They would be a million after the twentieth call, if they went on: 30 are allowed."""
    copied().run("forks", workers(), max_failures=3)  # imports what the other user may not read
    with tempfile.TemporaryDirectory() as folder:
        mapped = copies_of(plain, Path(folder))()
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, OTHER_USER, OTHER_USER)

        def run_limited() -> None:
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            resource.setrlimit(resource.RLIMIT_NPROC, (30, 30))
            failures = mapped.run("forks_after_the_first", workers(), max_failures=SHARDS * SAMPLES).failures
            forked = ["the function forked its process" in failure.error for failure in failures]
            os._exit(forked != [True] * (SHARDS * SAMPLES - 1))

        assert in_child(run_limited) == 0


def test_a_generator_that_hangs_is_a_failure_of_its_sample(copied: Copied) -> None:
    mapped = copied("to_dataset")
    report = mapped.run("hanging_copies", workers(), timeout_s=0.2, max_failures=1)
    assert [failure.sample for failure in report.failures] == [8]
    assert len(open_dataset(mapped.out)) == 2 * (SHARDS * SAMPLES - 1)


@pytest.mark.parametrize(("name", "message"), [("Hangs", "did not return within 0.2 s"), ("Ends", "ended with code 7")])
@pytest.mark.sampled(2)
def test_a_class_that_cannot_be_made_in_time_ends_the_map(name: str, message: str, copied: Copied) -> None:
    with pytest.raises(ConfigError, match=f"the function cannot be made: .*{message}"):
        copied().run(name, workers(), start_timeout_s=0.2)


def test_a_worker_that_is_stopped_is_replaced(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader.mapping.run, "_LATE_S", 0.6)
    report = copied().run("stops", workers(), timeout_s=0.2, max_failures=1)
    (failure,) = report.failures
    assert (failure.sample, failure.error) == (
        8,
        "CallEndedError: the process of the call was stopped for 1 s and was killed",
    )
