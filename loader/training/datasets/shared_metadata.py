"""Read the metadata of datasets on one rank, and send it to the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import ConfigError, StorageError
from ...lazy_torch import torch
from ...pipeline.contract.worker_config import WorkerConfig
from ...storage.shared_answers import Answers, use_answers


@contextmanager
def shared_metadata(config: WorkerConfig) -> Iterator[None]:
    """Open datasets in the block with the documents that rank 0 has read.

    Rank 0 runs the block first. The other ranks wait, and run it with its answers. If it fails on rank 0, it fails on
    all: no rank waits for one that has ended.

    Raises:
        ConfigError: There is no process group of the run's ranks.
        StorageError: Rank 0 could not open the datasets, and this rank could.
    """
    if config.world_size == 1:
        yield
        return
    _check_group(config)
    if config.rank == 0:
        answers, failure = Answers(), "it was interrupted"
        try:
            with use_answers(answers):
                yield
            failure = ""
        except Exception as error:
            failure = str(error)
            raise
        finally:
            answers.records = False
            _broadcast((answers.found, failure), config)
        return
    found, failure = _broadcast(None, config)
    with use_answers(Answers(found)):
        yield
    if failure:  # and this rank could open them: a file was missing for a moment
        raise StorageError(f"rank 0 could not open the datasets: {failure}", hint="start the run again")


def _broadcast(held: Any, config: WorkerConfig) -> Any:
    objects = [held]
    torch.distributed.broadcast_object_list(objects, group=config.data_parallel_group, group_src=0)
    return objects[0]


def _check_group(config: WorkerConfig) -> None:
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        raise ConfigError(
            f"share_metadata=True of {config.world_size} ranks needs torch.distributed, which is not initialised",
            hint="call torch.distributed.init_process_group() first, or drop share_metadata",
        )
    ranks = dist.get_world_size(config.data_parallel_group)
    if ranks != config.world_size:
        raise ConfigError(
            f"share_metadata=True needs a process group of the {config.world_size} ranks of the run, found one of "
            f"{ranks}",
            hint="pass the group as data_parallel_group",
        )
