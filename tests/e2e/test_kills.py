"""Kills of a worker, of a rank, or of a program that ends leave no process, no name in shared memory and no file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import has_processes, wait_until
from tests.unit.pipeline.tar_dataset import texts, write_dataset

ROOT = Path(__file__).parents[2]

PROGRAM = """
import multiprocessing, os, signal, sys, time
from datetime import timedelta
from itertools import islice
from pathlib import Path
from loader import WorkerConfig, get_loader, get_train_dataset

if __name__ == "__main__":
    data, method, mark, prefix, action, rank, ranks = sys.argv[1:]
    rank, ranks = int(rank), int(ranks)
    multiprocessing.current_process()._config["semprefix"] = "/" + prefix  # as Python names its semaphores
    if ranks > 1:
        import torch
        from torch import distributed
        distributed.init_process_group("gloo", init_method=f"file://{mark}.meeting", rank=rank, world_size=ranks,
                                       timeout=timedelta(seconds=20))
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=2)
    dataset = get_train_dataset(data, batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=5,
                                worker_config=config)
    loader = get_loader(dataset, multiprocessing_context=method, max_worker_restarts=0)
    batches = iter(loader)
    list(islice(batches, 5))
    if action == "worker":
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    Path(f"{mark}.{rank}").touch()
    if action == "close":
        loader.close()
        time.sleep(0.05)
    while action in ("worker", "rank"):
        next(batches)
        if ranks > 1:
            distributed.all_reduce(torch.ones(1))
"""


class Programs:
    """Programs that run with a temporary directory of their own.

    Args:
        folder: The folder of the data and of the marks.
        temporary: The temporary directory.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.temporary, self.prefix = temporary, f"kills{os.getpid()}{time.monotonic_ns()}"
        self._mark, self._script = folder / "mark", folder / "program.py"
        self._script.write_text(PROGRAM)
        self._data = write_dataset(folder / "data", {f"{name}.tar": texts(0, 20) for name in "abc"})
        self._environment = os.environ | {
            "TMPDIR": str(temporary),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
        }
        self.started: list[subprocess.Popen[str]] = []

    def start(self, method: str, action: str, *, rank: int = 0, ranks: int = 1) -> subprocess.Popen[str]:
        arguments = [self._data, method, self._mark, self.prefix, action, rank, ranks]
        program = subprocess.Popen(
            [sys.executable, str(self._script), *map(str, arguments)],
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(program)
        return program

    def wait_for(self, program: subprocess.Popen[str], rank: int = 0) -> None:
        mark = Path(f"{self._mark}.{rank}")
        wait_until(lambda: mark.exists() or program.poll() is not None, timeout_s=60)
        assert mark.exists(), program.communicate()[1]

    def check_nothing_is_left(self) -> None:
        wait_until(lambda: not any(has_processes(program.pid) for program in self.started))
        wait_until(lambda: not [name for name in os.listdir("/dev/shm") if self.prefix in name], timeout_s=5)
        assert [str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*")] == []


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    # In a path as long as that of tmp_path, Python's fork server cannot have a socket.
    with tempfile.TemporaryDirectory() as temporary:
        programs = Programs(tmp_path, Path(temporary))
        yield programs
        for program in programs.started:
            if has_processes(program.pid):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


slow = pytest.mark.slow


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=slow), pytest.param("spawn", marks=slow)])
def test_a_killed_worker_ends_the_run_with_its_name(programs: Programs, method: str) -> None:
    program = programs.start(method, "worker")
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "was killed by SIGKILL" in errors
    assert errors.count("WorkerError") == 1
    programs.check_nothing_is_left()


@slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_rank_ends_the_others(programs: Programs, method: str) -> None:
    ranks = [programs.start(method, "rank", rank=rank, ranks=3) for rank in range(3)]
    for rank, program in enumerate(ranks):
        programs.wait_for(program, rank)
    ranks[1].kill()
    for rank in (0, 2):
        _, errors = ranks[rank].communicate(timeout=60)
        assert ranks[rank].returncode == 1
        assert "all_reduce" in errors
    ranks[1].communicate()
    programs.check_nothing_is_left()


def _kill(program: subprocess.Popen[str]) -> None:
    program.kill()


def _terminate(program: subprocess.Popen[str]) -> None:
    program.terminate()


def _press_ctrl_c(program: subprocess.Popen[str]) -> None:
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does


@slow
@pytest.mark.parametrize("end", [_kill, _terminate, _press_ctrl_c])
@pytest.mark.parametrize("action", ["close", "exit"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_program_that_is_ended_while_it_closes_a_loader_or_exits(
    programs: Programs, method: str, action: str, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    program = programs.start(method, action)
    programs.wait_for(program)
    time.sleep(random.Random(f"{method} {action} {end.__name__}").uniform(0, 0.05))
    if program.poll() is None:
        end(program)
    program.communicate(timeout=60)
    programs.check_nothing_is_left()
