"""The micro-batches of a rank's lanes go on where they stood, whatever ended the iteration before."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from loader.errors import FatalSampleError
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.map import MapDataset
from loader.training.loaders.lane_batches import LaneBatches
from loader.training.workers.bundles import StreamOptions
from tests.unit.pipeline.stage_check import Values


class Failing:
    """Stops the run at one value while a file is there."""

    def __init__(self, at: int, file: Path, error: type[BaseException]) -> None:
        self.at = at
        self.file = file
        self.error = error

    def __call__(self, value: int) -> int:
        if value == self.at and self.file.exists():
            raise self.error("mend it")
        return value


def batches_of(dataset, *, workers=0, lanes=3):
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=lanes)
    chain = dataset(config)
    return LaneBatches(chain, StreamOptions(start_method="fork"))


@pytest.mark.parametrize(
    ("workers", "error"), [(0, FatalSampleError), (2, FatalSampleError), (0, KeyboardInterrupt)]
)  # an interrupt ends worker processes as a signal, not as an error
def test_after_an_error_it_goes_on_behind_what_it_gave_and_ends_no_pass(workers, error, tmp_path):
    file = tmp_path / "broken"
    file.touch()
    lanes = batches_of(
        lambda config: MapDataset(Values(range(20), worker_config=config), Failing(11, file, error)), workers=workers
    )
    given = []
    for _ in range(2):  # it does not get better by itself
        with pytest.raises(error):
            given.extend(lanes.batches())
        assert not lanes.ended
        assert lanes.batch == len(given)
    file.unlink()
    given += list(lanes.batches())
    assert given == list(range(20))
    assert lanes.ended


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_that_was_left_goes_on_and_a_pass_that_ended_begins_anew(workers):
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
