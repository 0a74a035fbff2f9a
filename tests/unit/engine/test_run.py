"""The loop over the tasks of a job: killed and hanging processes, resumed jobs, shares and merges."""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from loader.engine.journal import Journal, Journaled, NumberedTask
from loader.engine.run import Engine, JobTasks, ShareDone, in_order
from loader.engine.share import Share, divide
from loader.engine.workers import WorkerOptions, _Pool, gpu_environments
from loader.errors import ConfigError, FormatError, WorkerError
from loader.storage import LocalStorage, open_storage


class Square(msgspec.Struct, frozen=True):
    """The result of a task."""

    value: int
    process: int = 0


@dataclass(frozen=True)
class Task:
    """A task that kills its process, or stops it, so many times before it succeeds; a file counts its runs."""

    number: int
    runs: Path
    kills: int = 0
    stops: int = 0

    @property
    def name(self) -> str:
        return f"task {self.number}"


def run_task(task: Task) -> Square:
    with open(task.runs / str(task.number), "ab") as file:
        file.write(b".")
    run = (task.runs / str(task.number)).stat().st_size
    if run <= task.kills:
        os.kill(os.getpid(), signal.SIGKILL)
    if run <= task.stops:
        os.kill(os.getpid(), signal.SIGSTOP)
    return Square(task.number**2, os.getpid())


def visible_gpus(_: int) -> tuple[int, str]:
    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]


def job_at(folder: Path, tasks: list[Task], **options: Any) -> JobTasks[Square]:
    journal: Journal[Square] = Journal(LocalStorage(folder), ".jobs/squares", Square)
    return JobTasks(function=run_task, tasks=tasks, journal=journal, command="map", request={"a": "b"}, **options)


def tasks_in(folder: Path, count: int = 8, **special: dict[str, int]) -> list[Task]:
    (folder / "runs").mkdir(exist_ok=True)
    return [Task(number, folder / "runs", **special.get(f"task_{number}", {})) for number in range(count)]


def runs_of(folder: Path) -> list[int]:
    return [path.stat().st_size for path in sorted((folder / "runs").iterdir(), key=lambda path: int(path.name))]


def values(results: Iterator[tuple[int, Square]]) -> list[tuple[int, int]]:
    return sorted((number, result.value) for number, result in results)


SQUARES = [(number, number**2) for number in range(8)]


def test_the_task_of_a_killed_process_is_repeated_and_no_result_comes_twice(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path, task_2={"kills": 2}, task_5={"kills": 1})
    assert values(job_at(tmp_path, tasks).run(Engine(workers=2))) == SQUARES
    assert runs_of(tmp_path)[2] >= 3


def test_the_third_death_of_a_task_ends_the_job_which_resumes(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path, task_4={"kills": 3})
    with pytest.raises(WorkerError, match=r"a worker process was killed by signal 9 while it worked on task 4"):
        list(job_at(tmp_path, tasks).run(Engine(workers=2)))
    assert runs_of(tmp_path)[4] == 3
    job = job_at(tmp_path, tasks)
    assert values(job.run(Engine(workers=2))) == SQUARES
    assert job.resumed >= 4


def test_a_process_that_is_stopped_is_killed_and_its_task_repeated(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path, task_1={"stops": 1})
    assert values(job_at(tmp_path, tasks).run(Engine(workers=2, stopped_s=0.5))) == SQUARES
    hanging = tasks_in(tmp_path, 1, task_0={"stops": 99})
    with pytest.raises(WorkerError, match=r"was stopped for 0\.1 s and was killed while it worked on task 0"):
        list(Engine(stopped_s=0.1).run(run_task, hanging))


def test_each_process_has_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,GPU-7")
    assert gpu_environments(1) == [{"CUDA_VISIBLE_DEVICES": name} for name in ("4", "5", "GPU-7")]
    assert gpu_environments(2) == [{"CUDA_VISIBLE_DEVICES": "4,5"}]
    assert len(gpu_environments(0.5)) == 6
    with pytest.raises(ConfigError, match="expected 4 GPUs for each worker, found 3"):
        gpu_environments(4)
    engine = Engine(workers=3, environments=gpu_environments(1))
    seen = dict(result for _, result in engine.run(visible_gpus, range(40)))
    assert len(seen) <= 3
    assert {*seen.values()} <= {"4", "5", "GPU-7"}
    assert len({*seen.values()}) == len(seen)
    assert Engine(environments=gpu_environments(2)).workers == 1
    one = next(Engine(environments=gpu_environments(2)).run(visible_gpus, [0]))[1]
    assert one == (one[0], "4,5")
    assert one[0] != os.getpid()  # variables of this process stay


def test_an_interrupted_job_continues_and_damaged_results_are_computed_again(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    results = job_at(tmp_path, tasks).run(Engine())
    assert [next(results)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
    del results  # as Ctrl-C leaves it
    first, *_ = sorted((tmp_path / ".jobs").rglob("*.result"))
    first.write_bytes(first.read_bytes()[:-1])
    job = job_at(tmp_path, tasks)
    assert values(job.run(Engine())) == SQUARES
    assert job.resumed == 4
    assert runs_of(tmp_path) == [2, 1, 1, 1, 1, 1, 1, 1]


def test_results_that_a_command_rejects_are_computed_again(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    list(job_at(tmp_path, tasks).run(Engine()))
    job = job_at(tmp_path, tasks, again=lambda result: result.value in (9, 25))
    assert values(job.run(Engine())) == SQUARES
    assert [number for number, runs in enumerate(runs_of(tmp_path)) if runs == 2] == [3, 5]


def test_an_error_of_the_function_ends_the_job_and_keeps_its_type(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="it is three"):
        list(Engine(workers=2).run(fail_on_three, range(8)))


def fail_on_three(number: int) -> int:
    if number == 3:
        raise FormatError("it is three", shard="a.tar")
    return number


class OddError(Exception):
    """An error that does not unpickle."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")

    def __reduce__(self) -> tuple[Any, ...]:
        return OddError, ("out",)  # also where a cluster's package pickles errors by their attributes


def raise_odd_error(number: int) -> int:
    raise OddError("out", f"of {number}")


def test_idle_workers_end_by_themselves_while_a_later_pool_runs() -> None:
    pools = [_Pool(WorkerOptions(workers=2, forks=True)) for _ in range(2)]
    results = [pool.run(number_twice, [1, 2]) for pool in pools]
    processes = []
    for pool, run in zip(pools, results, strict=True):
        next(run)
        processes.append([*pool._processes.values()])
    for run in results:
        assert sorted(run) == [(0, 2), (1, 4)]
    assert [process.exitcode for pool in processes for process in pool] == [0, 0, 0, 0]  # -9 if they had to be killed


def number_twice(number: int) -> Iterator[int]:
    yield 2 * number


def test_an_error_that_does_not_unpickle_is_named() -> None:
    with pytest.raises(WorkerError, match=r"OddError: out of \d"):
        list(Engine(workers=2).run(raise_odd_error, range(4)))


# ------------------------------------------------------------------------------------------------------------ shares


def run_share(folder: Path, tasks: list[Task], number: int, count: int, **options: Any) -> ShareDone:
    with pytest.raises(ShareDone) as caught:
        list(job_at(folder, tasks, **options).run(Engine(share=Share(number, count))))
    return caught.value


def test_shares_are_merged_in_any_order_and_twice_is_no_harm(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    done = [run_share(tmp_path, tasks, number, 3) for number in (2, 1, 2, 3)]
    assert [(share.tasks, share.ran) for share in done] == [(2, 2), (3, 3), (2, 0), (3, 3)]
    assert values(job_at(tmp_path, tasks).run(Engine(merge=True))) == SQUARES
    assert runs_of(tmp_path) == [1] * 8


def test_a_merge_names_the_shares_that_are_missing(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    with pytest.raises(ConfigError, match="there are no shares to merge"):
        list(job_at(tmp_path, tasks).run(Engine(merge=True)))
    run_share(tmp_path, tasks, 2, 4)
    with pytest.raises(ConfigError, match="shares 1,3-4 of 4 are not complete: 6 of 8 tasks") as caught:
        list(job_at(tmp_path, tasks).run(Engine(merge=True)))
    assert "--share 1/4 (with SLURM: sbatch --array=1,3-4, and" in str(caught.value.hint)
    for number in (1, 3):
        run_share(tmp_path, tasks, number, 4)
    with pytest.raises(ConfigError, match=r"share 4 of 4 is not complete: 2 of 8 tasks have no result") as caught:
        list(job_at(tmp_path, tasks).run(Engine(merge=True)))
    assert "run it, then merge again" in str(caught.value.hint)


def test_a_merge_with_other_options_and_another_number_of_shares_are_errors(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    run_share(tmp_path, tasks, 1, 2)
    other = job_at(tmp_path, tasks)
    other.request = {"a": "c"}
    with pytest.raises(ConfigError, match="the shares were run with another a"):
        list(other.run(Engine(merge=True)))
    with pytest.raises(ConfigError, match="an unfinished map with another shares"):
        list(job_at(tmp_path, tasks).run(Engine(share=Share(1, 3))))
    with pytest.raises(ConfigError, match="an unfinished map with another shares"):
        list(job_at(tmp_path, tasks).run(Engine()))
    assert values(job_at(tmp_path, tasks).run(Engine(keeps_results=True))) == SQUARES
    assert runs_of(tmp_path) == [1] * 8


def test_a_share_that_restarts_computes_its_tasks_again_and_no_others(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    for number in (1, 2):
        run_share(tmp_path, tasks, number, 2)
    with pytest.raises(ShareDone):
        list(job_at(tmp_path, tasks).run(Engine(share=Share(2, 2), restart=True)))
    assert runs_of(tmp_path) == [1, 1, 1, 1, 2, 2, 2, 2]


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 50))
def test_each_task_is_in_one_share_and_shares_are_about_equal(sizes: list[int], count: int) -> None:
    starts = [*divide(sizes, count), len(sizes)]
    assert starts == sorted(starts)
    assert len(starts) == count + 1
    assert not sizes or not sum(sizes) or starts[0] == 0
    shares = [sum(sizes[start:stop]) for start, stop in pairwise(starts)]
    assert sum(shares) == sum(sizes)
    assert all(share <= sum(sizes) / count + max(sizes, default=0) for share in shares)


def test_results_are_put_in_order() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]


# --------------------------------------------------------------------------------------------------------- executors


class PicklingExecutor(Executor):
    """An executor of another process, as far as pickling goes."""

    def __init__(self, *, runs: bool = True) -> None:
        self.sent: list[bytes] = []
        self._runs = runs

    def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Any]:
        self.sent.append(pickle.dumps((fn, args)))
        function, arguments = pickle.loads(self.sent[-1])
        future: Future[Any] = Future()
        if self._runs:
            future.set_result(function(*arguments))
        else:
            future.set_exception(RuntimeError("not run"))
        return future


class Counted:
    """A function that counts how often it was unpickled in this process."""

    unpickled = 0

    def __call__(self, number: int) -> int:
        return number**2

    def __setstate__(self, state: object) -> None:
        Counted.unpickled += 1

    def __getstate__(self) -> int:
        return 1


def test_a_worker_unpickles_the_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "unpickled", 0)
    executor = PicklingExecutor()
    assert dict(Engine(executor=executor).run(Counted(), range(20))) == {n: n**2 for n in range(20)}
    assert Counted.unpickled == 1
    assert len(executor.sent) == 20


def test_any_executor_runs_the_tasks_of_a_job(tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path)
    with ThreadPoolExecutor(3) as executor:
        assert values(job_at(tmp_path, tasks).run(Engine(executor=executor))) == SQUARES
        assert dict(Engine(executor=executor).run(lambda item: item + 1, [1, 2])) == {0: 2, 1: 3}
    job = job_at(tmp_path, tasks)
    assert values(job.run(Engine(executor=executor))) == SQUARES
    assert job.resumed == 8


def test_a_task_for_a_url_holds_options_and_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    secrets = {"AWS_ACCESS_KEY_ID": "AKIA-hush-1", "AWS_SECRET_ACCESS_KEY": "hush-2", "AWS_SESSION_TOKEN": "hush-3"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    options = {"s3://bucket": {"endpoint_url": "https://minio.local"}}
    monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps(options))
    journal: Journal[Square] = Journal(open_storage("s3://bucket/my_dataset"), ".jobs/squares", Square)
    executor = PicklingExecutor(runs=False)
    work = Journaled(run_task, journal)
    with pytest.raises(WorkerError, match="not run"):
        list(Engine(executor=executor).stream(work, [NumberedTask(0, Task(0, tmp_path))]))
    (sent,) = executor.sent
    assert b"https://minio.local" in sent
    assert not any(secret.encode() in sent for secret in secrets.values())
