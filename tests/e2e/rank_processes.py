"""Run processes that form a group of ``torch.distributed``, like the ranks of a training run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_TIMEOUT_S = 120
"""No test waits so long; a collective operation that hangs ends in an error."""

_contexts = get_context("forkserver")


class RankProcesses:
    """Ranks that run functions sent to them.

    Args:
        ranks: Number of ranks.
        folder: Folder of the rendezvous file.
    """

    def __init__(self, ranks: int, folder: Path) -> None:
        _contexts.set_forkserver_preload(["loader.training.loaders.get_loader", "torch.distributed"])
        self._pipes: list[Connection[Any, Any]] = []
        self._processes = []
        for rank in range(ranks):
            here, there = _contexts.Pipe()
            process = _contexts.Process(target=_serve, args=(there, rank, ranks, str(folder / "meeting")))
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def run(self, job: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run ``job(rank, *arguments)`` on each rank; return the results by rank."""
        for pipe in self._pipes:
            pipe.send((job, arguments))
        answers = []
        for rank, pipe in enumerate(self._pipes):
            assert pipe.poll(_TIMEOUT_S), f"rank {rank} hangs"
            result, failure = pipe.recv()
            assert not failure, f"rank {rank} failed:\n{failure}"
            answers.append(result)
        return answers

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def rank_processes(ranks: int, folder: Path) -> Iterator[RankProcesses]:
    """Start ranks, and stop them after the tests."""
    folder.mkdir(exist_ok=True)  # without it, a rank waits for the file of the meeting
    processes = RankProcesses(ranks, folder)
    try:
        yield processes
    finally:
        processes.close()


def _serve(pipe: Connection[Any, Any], rank: int, ranks: int, meeting: str) -> None:
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=_TIMEOUT_S / 2)
    )
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send((job(rank, *arguments), ""))
        except Exception:  # noqa: BLE001 - every error is sent to the test
            pipe.send((None, traceback.format_exc()))
    distributed.destroy_process_group()
