"""Find the samples of a step, and the steps of a sample, after the fact: nothing needs to be logged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...dataset.query import unknown_key_error
from ...errors import ConfigError, StateError
from ...order import GONE
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.stage import State
from ...pipeline.reading.dataset_source import DatasetSource
from ...storage import url_at_commit
from .planned_run import PlannedRun
from .restored_run import RestoredRun, SamplePlace, samples_of

_NEAR = 4096  # positions between two samples up to which they are located together
_LOCATED_TOGETHER = 1 << 18  # positions of a lane: a few megabytes
_Rows = tuple[IntArray, IntArray, IntArray, IntArray]  # lane, source, epoch, number in the index


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSample:
    """A sample of a micro-batch.

    Attributes:
        step: Number of the step, from 0.
        dataset: Path of the dataset; empty if the dataset left the mix since.
        key: ``<shard>/<key>``, or the number of a row; of a join, the key of its primary dataset.
        epoch: Epoch of the dataset, from 0.
        left_out: The step is one of ``skip_steps``, so the sample was not delivered.
    """

    step: int
    rank: int
    position: int
    dataset: str
    key: str
    index: int
    epoch: int
    lane: int
    left_out: bool = False


def trace_step(
    run: PlannedRun | RestoredRun, step: int, *, ranks: Sequence[int] | None = None
) -> Iterator[TracedSample]:
    """Yield the samples of a step, in the order of ranks and places in the micro-batch.

    Args:
        run: The run. If it has a log, the step is looked up; if it has hooks, micro-batches are rebuilt.
        step: Number of the step, from 0.
        ranks: Only these ranks; None for all.
    """
    planned = run.run if isinstance(run, RestoredRun) else run
    if step < 0:
        raise ConfigError(f"expected a step of at least 0, found {step}", hint="steps are counted from 0")
    # Choose the micro-batches: each rank has one in a step.
    batches = planned.steps.batches(step)
    wanted = range(len(batches)) if ranks is None else ranks
    for rank in wanted:
        if not 0 <= rank < len(batches):
            raise ConfigError(f"expected a rank in [0, {len(batches)}), found {rank}", hint="check the number of ranks")
    numbers = [batches[rank] for rank in wanted]
    # Rebuild or look up micro-batches whose samples do not follow from the order alone.
    if planned.is_volume and not isinstance(run, RestoredRun):
        run = RestoredRun.of(planned)
    if isinstance(run, RestoredRun) and (run.log or planned.request.task_encoder is not None or planned.is_volume):
        logged = run.logged(numbers)
        for batch_number in numbers:
            yield from _traced(planned, batch_number, _made_rows(run, batch_number, logged))
        return
    # Otherwise locate their samples by the order.
    known = run.known_state if isinstance(run, RestoredRun) else dict[int, State]().get  # only the arguments are known
    for batch_number, (source, epoch, index) in zip(numbers, planned.batches(numbers, known), strict=True):
        lane = np.full(len(source), batch_number % planned.lanes)
        yield from _traced(planned, batch_number, (lane, source, epoch, index))


def traced_batch(run: PlannedRun, batch_number: int) -> Iterator[TracedSample]:
    """Yield the samples of a micro-batch, by the order of the run alone."""
    source, epoch, index = run.batch(batch_number)
    yield from _traced(run, batch_number, (np.full(len(source), batch_number % run.lanes), source, epoch, index))


def _made_rows(run: RestoredRun, batch_number: int, logged: dict[int, ItemId]) -> _Rows:
    if run.log:
        if batch_number not in logged:
            raise StateError(
                f"the log has no micro-batch {batch_number:,} (step, rank: {run.run.steps.place(batch_number)})",
                hint="the run did not reach it, or all its samples were skipped, or its files are elsewhere",
            )
        return _of_item(run.run, batch_number, logged[batch_number])
    return _of_item(run.run, batch_number, run.made_of(batch_number))


def _of_item(run: PlannedRun, batch_number: int, item_id: ItemId) -> _Rows:
    # Group the samples by the streams that they are from.
    places = list(samples_of(item_id, batch_number % run.lanes))
    rows = defaultdict(list)  # of each stream
    for row, sample_place in enumerate(places):
        rows[sample_place.lane, sample_place.path].append(row)
    lane = np.array([sample_place.lane for sample_place in places], np.int64)
    position = np.array([sample_place.position for sample_place in places], np.int64)
    columns = np.zeros((3, len(places)), np.int64)
    for (stream_lane, path), some in rows.items():
        # Locate neighbours of a stream in one call.
        stream_rows = np.array(some)
        stream_rows = stream_rows[np.argsort(position[stream_rows], kind="stable")]
        for near in np.split(stream_rows, np.flatnonzero(np.diff(position[stream_rows]) > _NEAR) + 1):
            start = int(position[near[0]])
            located = run.locate_in(path, stream_lane, start, int(position[near[-1]]) + 1)
            columns[:, near] = [column[position[near] - start] for column in located]
    return lane, columns[0], columns[1], columns[2]


def _traced(run: PlannedRun, batch_number: int, rows: _Rows) -> Iterator[TracedSample]:
    for position, row in enumerate(zip(*(column.tolist() for column in rows), strict=True)):
        yield _sample(run, batch_number, position, row)


def _sample(run: PlannedRun, batch_number: int, position: int, row: tuple[int, ...]) -> TracedSample:
    lane, source_number, epoch, index = row
    source = None if source_number == GONE else run.sources[source_number]
    step, rank = run.steps.place(batch_number)
    return TracedSample(
        step=step,
        rank=rank,
        position=position,
        dataset="" if source is None else url_at_commit(source.request.ref.path),
        key="" if source is None else source.folder.full_key(index),
        index=index,
        epoch=epoch,
        lane=lane,
        left_out=run.steps.is_left_out(batch_number),
    )


def steps_of_key(run: PlannedRun | RestoredRun, key: str, *, steps: int) -> Iterator[TracedSample]:
    """Yield each use of a sample in the first steps of a run, lane by lane.

    All samples of these steps are located, ten million a second or so; with a log, all its records are read.

    Args:
        key: ``<shard>/<key>``, or the bare key.
    """
    planned = run.run if isinstance(run, RestoredRun) else run
    # Find the sample in the datasets.
    indexes = {source_index: source.folder.find(key) for source_index, source in enumerate(planned.sources)}
    wanted = {source_index: np.array(some, np.int64) for source_index, some in indexes.items() if some}
    if not wanted:
        only = planned.sources[0] if len(planned.sources) == 1 else None
        if isinstance(only, DatasetSource) and not only.folder.is_file:
            raise unknown_key_error([only.folder], [key], at=only.folder.path)
        raise ConfigError(
            f"there is no sample {key!r}",
            at=planned.request.path,
            hint="keys are written as energon preview shows them",
        )
    # Look it up in rebuilt or logged micro-batches.
    stop = planned.steps.batches(steps - 1).stop
    if planned.is_volume and not (isinstance(run, RestoredRun) and run.log):
        yield from _uses(planned, wanted, _made_again(RestoredRun.of(planned), stop))
        return
    if isinstance(run, RestoredRun):
        if run.log:
            yield from _logged_uses(run, wanted, stop)
            return
        for lane in run.lane_states:
            run.check_gaps(lane)
    if planned.is_planned:
        yield from _uses(planned, wanted, _planned_rows(planned, stop))
        return
    # Otherwise locate all samples of each lane.
    size = planned.batch_size
    for lane in range(planned.lanes):
        seen = 0
        for source, epoch, index in planned.pieces(lane, planned.batches_of_lane(lane, stop)):
            for row in np.flatnonzero(_is_one_of(wanted, source, index)).tolist():
                lane_batch, position = divmod(seen + row, size)
                located = (lane, int(source[row]), int(epoch[row]), int(index[row]))
                yield _sample(planned, lane_batch * planned.lanes + lane, position, located)
            seen += len(source)


def _planned_rows(run: PlannedRun, stop: int) -> Iterator[tuple[int, _Rows]]:
    # Lane by lane, so that each window is planned once.
    for lane in range(run.lanes):
        for batch_number in range(lane, stop, run.lanes):
            source, epoch, index = run.batch(batch_number)
            yield batch_number, (np.full(len(source), lane), source, epoch, index)


def _made_again(run: RestoredRun, stop: int) -> Iterator[tuple[int, _Rows]]:
    # Rebuild every micro-batch, because its samples depend on their sizes.
    planned = run.run
    for lane in range(planned.lanes):
        for batch_number, item_id in run.all_made(lane, planned.batches_of_lane(lane, stop)):
            yield batch_number, _of_item(planned, batch_number, item_id)


def _uses(run: PlannedRun, wanted: dict[int, IntArray], batches: Iterator[tuple[int, _Rows]]) -> Iterator[TracedSample]:
    for batch_number, rows in batches:
        uses = _is_one_of(wanted, rows[1], rows[3]).tolist()
        samples = zip(_traced(run, batch_number, rows), uses, strict=True)
        yield from (sample for sample, uses_it in samples if uses_it)


def _logged_uses(run: RestoredRun, wanted: dict[int, IntArray], stop: int) -> Iterator[TracedSample]:
    """Yield the uses of samples in the log, each once if several starts of the workers made the micro-batch."""
    # Read the micro-batches of the log.
    made: dict[int, ItemId] = {}
    for file in reversed(run.log):  # of several starts of the workers, the last one counts
        made |= dict(file.records(range(stop).__contains__))
    # Find how far each stream was read.
    ends: defaultdict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
    used = {
        batch_number: list(samples_of(item_id, batch_number % run.run.lanes)) for batch_number, item_id in made.items()
    }
    for some in used.values():
        for lane, path, position in some:
            ends[lane, path] = max(ends[lane, path], position + 1)
    # Locate the streams so far, and keep the places of the wanted samples.
    places: set[SamplePlace] = set()
    for (lane, path), end in ends.items():
        for start in range(0, end, _LOCATED_TOGETHER):
            source, _, index = run.run.locate_in(path, lane, start, min(end, start + _LOCATED_TOGETHER))
            rows_with = np.flatnonzero(_is_one_of(wanted, source, index))
            places.update(SamplePlace(lane, path, start + row) for row in rows_with.tolist())
    # Yield the uses of these places, micro-batch by micro-batch.
    for batch_number, some in sorted(used.items()):
        if places.intersection(some):
            rows = _of_item(run.run, batch_number, made[batch_number])
            for sample, sample_place in zip(_traced(run.run, batch_number, rows), some, strict=True):
                if sample_place in places:
                    yield sample


def _is_one_of(wanted: dict[int, IntArray], source: IntArray, index: IntArray) -> npt.NDArray[np.bool_]:
    is_wanted = np.zeros(len(source), np.bool_)
    for source_number, its_indexes in wanted.items():
        is_wanted |= (source == source_number) & np.isin(index, its_indexes)
    return is_wanted
