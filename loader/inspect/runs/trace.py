"""Find the samples of a step, and the steps of a sample, after the fact: nothing is logged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.source import Source
from .planned_run import PlannedRun

__all__ = ["TracedSample", "key_of", "steps_of_key", "trace_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSample:
    """A sample of a micro-batch.

    Attributes:
        step: Number of the step, from 0.
        rank: The rank that gets the micro-batch.
        position: Place in the micro-batch.
        dataset: Path of the dataset.
        key: ``<shard>/<key>``, or the number of a row; of a join, the key of its primary dataset.
        index: Its number in the index of the dataset.
        epoch: Epoch of the dataset, from 0.
        lane: Lane that makes the micro-batch.
    """

    step: int
    rank: int
    position: int
    dataset: str
    key: str
    index: int
    epoch: int
    lane: int


def trace_step(run: PlannedRun, step: int, *, ranks: Sequence[int] | None = None) -> Iterator[TracedSample]:
    """Yield the samples of a step, in the order of ranks and places in the micro-batch.

    Args:
        run: The run.
        step: Number of the step, from 0.
        ranks: Only these ranks; None for all.

    Raises:
        ConfigError: There is no such step or rank.
    """
    world = run.request.world_size
    if step < 0:
        raise ConfigError(f"expected a step of at least 0, found {step}", hint="steps are counted from 0")
    for rank in range(world) if ranks is None else ranks:
        if not 0 <= rank < world:
            raise ConfigError(f"expected a rank in [0, {world}), found {rank}", hint="check --world-size")
        number = step * world + rank
        source, epoch, index = run.batch(number)
        for position, (one, its_epoch, its_index) in enumerate(
            zip(source.tolist(), epoch.tolist(), index.tolist(), strict=True)
        ):
            found = run.sources[one]
            yield TracedSample(
                step=step,
                rank=rank,
                position=position,
                dataset=found.request.path,
                key=key_of(found, its_index),
                index=its_index,
                epoch=its_epoch,
                lane=number % run.lanes,
            )


def steps_of_key(run: PlannedRun, key: str, *, steps: int) -> Iterator[TracedSample]:
    """Yield each use of a sample in the first steps of a run, lane by lane.

    All samples of these steps are located, ten million a second or so.

    Args:
        run: The run.
        key: ``<shard>/<key>``, or the bare key.
        steps: Number of steps.

    Raises:
        ConfigError: No dataset has the key.
    """
    indexes = {number: _indexes_of_key(source, key) for number, source in enumerate(run.sources)}
    wanted = {number: np.array(some, np.int64) for number, some in indexes.items() if some}
    if not wanted:
        raise ConfigError(
            f"there is no sample {key!r}", at=run.request.path, hint="keys are written as energon preview shows them"
        )
    world, size = run.request.world_size, run.request.batch_size
    for lane in range(run.lanes):
        seen = 0
        for source, epoch, index in run.pieces(lane, run.batches_of_lane(lane, steps * world)):
            is_used = np.zeros(len(source), np.bool_)
            for number, its_indexes in wanted.items():
                is_used |= (source == number) & np.isin(index, its_indexes)
            for row in np.flatnonzero(is_used).tolist():
                own, position = divmod(seen + row, size)
                step, rank = divmod(own * run.lanes + lane, world)
                found = run.sources[int(source[row])]
                yield TracedSample(
                    step=step,
                    rank=rank,
                    position=position,
                    dataset=found.request.path,
                    key=key_of(found, int(index[row])),
                    index=int(index[row]),
                    epoch=int(epoch[row]),
                    lane=lane,
                )
            seen += len(source)


def key_of(source: Source, index: int) -> str:
    """Return the key of a sample by its number in the index: ``<shard>/<key>``, or the number of a row."""
    if isinstance(source, JoinedSource):
        return key_of(source.members[0], int(source.rows[index][0]))
    return source.folder.index.full_key(index) if isinstance(source, DatasetSource) else str(index)


def _indexes_of_key(source: Source, key: str) -> list[int]:
    """Return the numbers of a key in the index of a source; empty if it has none."""
    if isinstance(source, JoinedSource):
        return np.flatnonzero(np.isin(source.rows[:, 0], _indexes_of_key(source.members[0], key))).tolist()
    if isinstance(source, DatasetSource):
        return list(source.folder.index.find(key))
    return [int(key)] if key.isdecimal() and int(key) < source.samples else []
