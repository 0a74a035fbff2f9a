"""Training script for ``torchrun``, on ranks with data and tensor parallelism.

usage: torchrun … torchrun_training.py JOB.json

The job is a :class:`Job`; each rank writes its micro-batches to its own file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from loader import SavableDataLoader, WorkerConfig, get_savable_loader
from tests.e2e.drawing_pipelines import Data, train
from tests.e2e.parallel_layout import Layout, data_parallel_group
from tests.elastic_runs import fingerprint, number_of


@dataclass(frozen=True, kw_only=True)
class Job:
    """Job of the ranks.

    Args:
        data: The dataset.
        folder: Folder of the states and of the delivered micro-batches.
        steps: Number of micro-batches of each rank.
        save_after: Number of micro-batches after which the state is saved.
        tensor_parallel: Number of ranks with the same data.
        workers: Number of worker processes of each loading rank.
        resume: Continue from the states in the folder.
        src_rank: The rank of the data-parallel group that reads the states; None: all read them.
        kill: The rank that is killed after the last step.
    """

    data: str
    folder: str
    steps: int
    save_after: int
    tensor_parallel: int = 1
    workers: int = 0
    resume: bool = False
    src_rank: int | None = None
    kill: int | None = None

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path


def resumed(loader: SavableDataLoader[Any], job: Job) -> None:
    """Continue from the files of all data-parallel ranks of the previous run, on any number of ranks."""
    states = None
    if job.src_rank in (None, loader.worker_config.rank):
        states = [torch.load(path, weights_only=True) for path in sorted(Path(job.folder).glob("state_*.pt"))]
    loader.restore_state_global(states, src_rank=job.src_rank)


def main(job: Job) -> None:
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    folder = Path(job.folder)
    layout = Layout(tensor=job.tensor_parallel, data=ranks // job.tensor_parallel)
    place = layout.place(rank)
    config = WorkerConfig.default_worker_config(
        num_workers=job.workers, data_parallel_group=data_parallel_group(layout, rank)
    )
    loader = get_savable_loader(train(Data(texts=Path(job.data), more=Path(), crude=Path()), config))
    if job.resume:
        resumed(loader, job)
    delivered: list[tuple[int, str]] = []
    for step, batch in zip(range(1, job.steps + 1), loader, strict=False):
        delivered.append((number_of(batch), fingerprint(batch).hex()))
        if step == job.save_after and place.tensor == 0:  # once for each data-parallel rank
            with (folder / f"state_{place.data}.pt").open("xb") as file:
                torch.save(loader.save_state_rank(), file)
    (folder / f"rank_{rank}.json").write_text(json.dumps({"place": asdict(place), "delivered": delivered}))
    distributed.barrier()  # as the collective operations of a training step
    if rank == job.kill:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.kill is not None:
        distributed.barrier()  # the other ranks wait for the killed one
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Job(**json.loads(Path(sys.argv[1]).read_text())))
