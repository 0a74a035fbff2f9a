"""Iterations over a rank's lanes continue where the last one ended, for whatever reason it ended."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader.errors import FatalSampleError
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.map import MapDataset
from loader.testing.stage import Values
from loader.training.loaders.lane_batches import LaneBatches
from loader.training.workers.stream_options import StreamOptions


class Failing:
    """Raises an error at one value while a file exists."""

    def __init__(self, at: int, file: Path, error: type[BaseException]) -> None:
        self.at = at
        self.file = file
        self.error = error

    def __call__(self, value: int) -> int:
        if value == self.at and self.file.exists():
            raise self.error("fix it")
        return value


def batches_of(dataset: Any, *, workers: int = 0, lanes: int = 3) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=lanes)
    chain = dataset(config)
    return LaneBatches(chain, StreamOptions(multiprocessing_context="fork"))


@pytest.mark.parametrize(
    ("workers", "error"), [(0, FatalSampleError), (2, FatalSampleError), (0, KeyboardInterrupt)]
)  # an interrupt ends worker processes as a signal, not as an error
def test_an_iteration_after_an_error_continues_at_the_next_batch_of_the_same_pass(
    workers: Any, error: Any, tmp_path: Path
) -> None:
    file = tmp_path / "broken"
    file.touch()
    lanes = batches_of(
        lambda config: MapDataset(Values(range(20), worker_config=config), Failing(11, file, error)), workers=workers
    )
    found = []
    for _ in range(2):  # a second attempt fails, too
        with pytest.raises(error):
            found.extend(lanes.batches())
        assert not lanes.ended
        assert lanes.batch == len(found)
    file.unlink()
    found += list(lanes.batches())
    assert found == list(range(20))
    assert lanes.ended


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_iteration_continues_and_an_ended_pass_restarts(workers: Any) -> None:
    lanes = batches_of(lambda config: Values(range(10), worker_config=config), workers=workers)
    assert list(islice(lanes.batches(), 4)) == [0, 1, 2, 3]
    assert (lanes.batch, lanes.passes, lanes.ended) == (4, 0, False)
    lanes.close()
    assert list(lanes.batches()) == [4, 5, 6, 7, 8, 9]
    assert (lanes.batch, lanes.passes, lanes.ended) == (10, 0, True)
    assert list(islice(lanes.batches(), 2)) == [0, 1]
    assert (lanes.batch, lanes.passes, lanes.ended) == (2, 1, False)
    lanes.start_over()
    assert list(lanes.batches()) == list(range(10))
