"""The tasks of a map, which follow from the index and the request alone, and the work on one task."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..arrays import IntArray
from ..convert.writing.written_shards import ShardRecord
from ..dataset.dataset import Dataset
from ..engine.journal import Journal
from ..errors import ConfigError, MissingPackageError, SkipSample, error_text, plural, torch_needed
from ..format.tar.names import printable
from ..storage import Storage
from .call_limit import CallLimit, TaskCalls
from .function import UserFunction
from .reading import SampleReader
from .user_call import call_user, user_errors
from .values import ColumnPiece

SAMPLES_OF_TASK = 4096
"""Samples of a task: few enough to lose little at a kill, many enough that 10 M samples have 2,400 tasks."""

_TASK_BYTES = 256 << 20  # of the shard: tasks of large samples have fewer
_MANY_TASKS = 1024  # beyond these, small ones are joined: each has a synced file; fewer could leave workers without one
_MAX_REASON = 300  # characters of the reason of a failure
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class MapTask(NamedTuple):
    """Consecutive samples of one shard, or of several small ones.

    Attributes:
        name: Name for messages.
        start: Number of the first sample in the index.
        stop: Number behind the last one.
        samples: Numbers of the chosen samples among them, ascending; None for all.
    """

    name: str
    start: int
    stop: int
    samples: IntArray | None

    @property
    def size(self) -> int:
        """Number of the chosen samples."""
        return self.stop - self.start if self.samples is None else len(self.samples)

    def numbers(self) -> IntArray:
        """Return the numbers of the chosen samples, ascending."""
        return np.arange(self.start, self.stop) if self.samples is None else self.samples


class FailedSample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that could not be read, or for which the function raised an error.

    Attributes:
        sample: Its number in the index.
        key: ``<shard>/<key>``.
        error: Type and message of the error.
    """

    sample: int
    key: str
    error: str


class WrittenShard(ShardRecord, frozen=True, kw_only=True):
    """A shard that a task has written.

    Attributes:
        made_of: Numbers in the index of the samples that its samples were made of, in order, as int64.
    """

    made_of: bytes

    @property
    def numbers(self) -> IntArray:
        return np.frombuffer(self.made_of, "<i8")


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task.

    Attributes:
        samples: Number of samples that the function was called with.
        failures: The samples that failed.
        skipped: Number of samples for which the function, or the dataset, raised ``SkipSample``.
        columns: Column → its values, for all samples of the task.
        kept: One byte for each sample of the task: 1 if the filter keeps it.
        shards: Shards that the task has written.
        written: Number of samples in them.
        part_names: Names of their parts.
        kinds: Types of their samples; an empty text for dictionaries of parts.
    """

    samples: int = 0
    failures: tuple[FailedSample, ...] = ()
    skipped: int = 0
    columns: dict[str, ColumnPiece] = msgspec.field(default_factory=dict)
    kept: bytes = b""
    shards: tuple[WrittenShard, ...] = ()
    written: int = 0
    part_names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def receipt(self) -> TaskResult:
        """Return the result without the values, which only the journal holds: they need not fit into memory."""
        columns = {
            name: msgspec.structs.replace(piece, data=b"", lengths=b"", valid=b"")
            for name, piece in self.columns.items()
        }
        return msgspec.structs.replace(self, columns=columns, kept=b"", shards=())


@dataclass(slots=True)
class TaskFailures:
    """The samples of a task that fail, and how many were read.

    Attributes:
        folder: The dataset.
        failures: The failures.
        samples: Number of samples that were read.
        skipped: Number of samples that were skipped.
    """

    folder: Dataset
    failures: list[FailedSample] = field(default_factory=list)
    samples: int = 0
    skipped: int = 0

    def key(self, sample_index: int) -> str:
        """Return ``<shard>/<key>`` of a sample."""
        return printable(self.folder.index.full_key(sample_index))

    def add(self, sample_index: int, error: BaseException) -> None:
        """Note that a sample has no value, because of an error."""
        self.failures.append(FailedSample(sample=sample_index, key=self.key(sample_index), error=_reason(error)))


class Outcome(NamedTuple):
    """The outcome of an output."""

    names: tuple[str, ...]  # of the columns or the filter, or the paths of the dataset and metadataset
    warnings: tuple[str, ...] = ()  # what could not be taken over, one sentence each
    kept: int | None = None  # samples that a filter keeps


Values = Iterable[tuple[int, Any]]
"""The numbers of samples, ascending, with what the function returned; None for a sample without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapResults:
    """The results of all tasks of a map.

    Attributes:
        folder: The dataset.
        journal: Holds the results.
        made_by: Text that names the map, for records.
    """

    folder: Dataset
    tasks: Sequence[MapTask]
    journal: Journal[TaskResult]
    made_by: str

    def __iter__(self) -> Iterator[tuple[MapTask, TaskResult]]:
        """Yield each task with its result, one in memory at a time.

        Raises:
            ConfigError: A result is damaged.
        """
        for task_index, task in enumerate(self.tasks):
            result = self.journal.read(task_index)
            if result is None:
                raise ConfigError(
                    f"the result for {task.name} is damaged",
                    at=self.journal.storage.path(self.journal.folder),
                    hint="run the same command again, which computes it again",
                )
            yield task, result


class MapOutput(ABC):
    """The target of the values: the part that runs in workers, and the end of the job."""

    @abstractmethod
    def check(self, folder: Dataset) -> None:
        """Raise a ``ConfigError`` if the target cannot be written."""

    def storage(self, folder: Dataset) -> Storage:
        """Return where the journal is: opened again, since the dataset may remember a listing of a store."""
        return folder.ref.storage()

    def request(self, folder: Dataset) -> dict[str, str]:  # noqa: ARG002 - for outputs that depend on more
        """Return what the results depend on, apart from the samples and the function."""
        return {}

    @abstractmethod
    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:
        """Return, or write, the values of the chosen samples of a task; runs in workers.

        Args:
            values: The values; the function is called while they are taken.
            failures: Takes the samples whose value the output cannot hold.
        """

    def joined(self, folder: Dataset, earlier: Any, result: TaskResult) -> Any:  # noqa: ARG002 - for outputs with types
        """Return what ``commit`` needs to know of the results so far; raise an error if two contradict each other.

        Args:
            earlier: What this returned for the results before; None for the first one.
        """
        return None

    def is_lost(self, storage: Storage, result: TaskResult) -> bool:  # noqa: ARG002 - for outputs that write files
        """Return True if files of a finished task are missing, as after a power cut."""
        return False

    @abstractmethod
    def commit(self, results: MapResults, joined: Any) -> Outcome:
        """Write the target from the results of all tasks, and what :meth:`joined` returned for the last one."""


def tasks_of(folder: Dataset, samples: IntArray | None, *, most: int = SAMPLES_OF_TASK) -> Iterator[MapTask]:
    """Yield the tasks of a dataset, in order; tasks without chosen samples are omitted.

    Args:
        samples: Numbers of the chosen samples, ascending; None for all.
        most: Most samples of a task.
    """
    # Cut large shards into pieces.
    pieces: list[tuple[MapTask, float]] = []  # and its part of the largest task
    for shard in folder.index.shards:
        count = min(most, max(1, _TASK_BYTES * shard.samples // max(1, shard.size_bytes)))
        for start in range(shard.first_sample, shard.first_sample + shard.samples, count):
            stop = min(start + count, shard.first_sample + shard.samples)
            chosen = None if samples is None else samples[slice(*samples.searchsorted((start, stop)))]
            if chosen is None or len(chosen):
                first = start - shard.first_sample
                name = f"samples {first}–{first + stop - start - 1} of {shard.name}"
                piece = MapTask(name, start, stop, chosen)
                pieces.append((piece, piece.size / count))
    # Join small neighbours if there are many.
    joined = -(-len(pieces) // _MANY_TASKS)
    group: list[MapTask] = []
    load = 0.0
    for piece, part in pieces:
        is_full = len(group) == joined or load + part > 1 or (group and piece.stop - group[0].start > joined * most)
        if group and is_full:
            yield _joined(group)
            group, load = [], 0.0
        group.append(piece)
        load += part
    if group:
        yield _joined(group)


def _joined(pieces: Sequence[MapTask]) -> MapTask:
    first, last = pieces[0], pieces[-1]
    if first is last:
        return first
    chosen = [piece.samples for piece in pieces if piece.samples is not None]
    samples = np.concatenate(chosen) if chosen else None
    return MapTask(f"{first.name} to {last.name}", first.start, last.stop, samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWork:
    """Call the function for the samples of a task; runs in workers.

    Attributes:
        reader: Reads the samples.
        function: Called with a sample, or with a list of samples.
        batch_size: Samples of a call; None calls it with one sample.
        output: Takes the values; None for a trial.
        limit: The longest time of a call.
    """

    reader: SampleReader
    function: UserFunction
    batch_size: int | None = None
    output: MapOutput | None = None
    limit: CallLimit = field(default_factory=CallLimit)

    def __call__(self, task: MapTask) -> TaskResult:
        if self.output is None:
            raise TypeError("expected an output")
        failures = TaskFailures(self.reader.source.folder)
        with closing(TaskCalls(self.limit, task.start)) as calls:
            result = self.output.collect(task, self._values(task.numbers(), failures, calls), failures)
        failed = sorted(failures.failures, key=lambda failure: failure.sample)
        counts = {"samples": failures.samples, "skipped": failures.skipped}
        return msgspec.structs.replace(result, failures=tuple(failed), **counts)

    def _values(self, numbers: IntArray, failures: TaskFailures, calls: TaskCalls) -> Iterator[tuple[int, Any]]:
        """Yield the number of each sample with its value; None for an error, which is a failure."""
        for sample_index, value in self.results(numbers, calls):
            failures.samples += 1
            if not isinstance(value, BaseException):
                yield sample_index, value
                continue
            if isinstance(value, SkipSample):
                failures.skipped += 1
            else:
                failures.add(sample_index, value)
            yield sample_index, None

    def results(self, numbers: IntArray, calls: TaskCalls) -> Iterator[tuple[int, Any]]:
        """Yield the number of each sample with what the function returned for it, or with an error."""
        function = partial(call_user, calls.start(self.function.load, str(self.function)))
        samples = self.reader.read(numbers)
        while batch := list(islice(samples, self.batch_size or 1)):
            good = [(sample_index, sample) for sample_index, sample in batch if not isinstance(sample, Exception)]
            results = iter(self._values_of_batch(function, good, calls) if good else ())
            for sample_index, sample in batch:
                yield sample_index, sample if isinstance(sample, Exception) else next(results)

    def _values_of_batch(
        self, function: Callable[[Any], Any], batch: list[tuple[int, Any]], calls: TaskCalls
    ) -> list[Any]:
        """Return the values, or errors; after a failed call, each sample is tried alone, to name the faulty one."""
        try:
            with torch_needed(), calls.limited(batch[0][0], len(batch)):
                if not self.batch_size:
                    return [function(batch[0][1])]
                returned = function([sample for _, sample in batch])
                if isinstance(returned, Mapping | str | bytes) or not isinstance(returned, Iterable):
                    raise TypeError(f"expected a list with a result for each sample, found {type(returned).__name__}")
                values = list(returned)
            if len(values) != len(batch):
                raise ValueError(f"expected {plural(len(batch), 'result')} of a batch, found {len(values)}")
        except MissingPackageError:
            raise  # no fault of a sample
        except user_errors() as error:
            return [error] if len(batch) == 1 else [self._values_of_batch(function, [each], calls)[0] for each in batch]
        return values


def _reason(error: BaseException) -> str:
    # An address differs from run to run.
    return printable(_ADDRESS.sub("", error_text(error))[:_MAX_REASON])
