"""Ranks in a process group find the slowest one."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import ConfigError, DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shards
from tests.e2e.rank_processes import rank_processes

RANKS = 2


class SlowOnRank(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Spend time on each sample.

    Args:
        sample_s: Seconds.
    """

    decoder: Any = None

    def __init__(self, sample_s: float) -> None:
        super().__init__()
        self.sample_s = sample_s

    def encode_sample(self, sample: Any) -> Any:
        time.sleep(self.sample_s)
        return sample

    def batch(self, samples: list[Any]) -> list[str]:
        return [sample.__key__ for sample in samples]


def loader_of(path: Path, rank: int) -> Any:
    dataset = get_train_dataset(
        path,
        worker_config=WorkerConfig(rank=rank, world_size=RANKS, num_workers=0, lanes=4),
        task_encoder=SlowOnRank(0.05 if rank == 1 else 0.0),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )
    return get_loader(dataset)


def gathered(rank: int, path: Path) -> tuple[int | None, list[int], str]:
    loader = loader_of(path, rank)
    for _ in islice(loader, 10):
        pass
    stats = loader.stats(gather=True)
    return stats.slowest_rank, [one.rank for one in stats.ranks_waited], str(stats)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("gathered"))
    document = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": document})
    return folder


def test_the_rank_that_waits_longest_is_the_slowest(data: Path, tmp_path: Path) -> None:
    with rank_processes(RANKS, tmp_path) as ranks:
        for slowest, known, line in ranks.run(gathered, data):
            assert (slowest, known) == (1, [0, 1])
            assert " · slowest rank 1, waited " in line


def test_gathering_without_a_process_group_is_refused(data: Path) -> None:
    loader = loader_of(data, 0)
    next(iter(loader))
    with pytest.raises(ConfigError, match="needs torch"):
        loader.stats(gather=True)
