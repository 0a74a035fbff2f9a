"""The tasks of a map, which follow from the index and the request alone, and the work on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..errors import EnergonError, SkipSample
from ..format.index.layout import ShardEntry
from .function import UserFunction, time_limit
from .reading import SampleReader
from .values import ColumnPiece

SAMPLES_OF_TASK = 4096
"""Samples of a task: few enough to lose little at a kill, many enough that 10 M samples have 2,400 tasks."""

_TASK_BYTES = 256 << 20  # of the shard: tasks of large samples have fewer
_MAX_REASON = 300  # characters of the reason of a failure


class MapTask(NamedTuple):
    """Consecutive samples of one shard.

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

    def numbers(self) -> IntArray:
        """Return the numbers of the chosen samples, ascending."""
        return np.arange(self.start, self.stop) if self.samples is None else self.samples


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that could not be read, or for which the function raised an error.

    Attributes:
        number: Its number in the index.
        key: ``<shard>/<key>``.
        error: Type and message of the error.
    """

    number: int
    key: str
    error: str


class WrittenShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that a task has written.

    Attributes:
        name: Its name in the new dataset.
        size_bytes: Its size.
        version: Its time of change or its version.
        split: Its split part.
        samples: Numbers in the index of the samples that its samples were made of, in order.
    """

    name: str
    size_bytes: int
    version: str
    split: str
    samples: tuple[int, ...]


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the work on a task leaves.

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
    failures: tuple[Failure, ...] = ()
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


class Output(Protocol):
    """What becomes of the values that the function returns; the part of an output that runs in workers."""

    def collect(self, task: MapTask, values: Sequence[Any], keys: Sequence[str], numbers: IntArray) -> TaskResult:
        """Return, or write, the values of the chosen samples of a task.

        Args:
            values: What the function returned, in the order of the numbers; None for samples without a value.
            keys: ``<shard>/<key>`` of each sample.
            numbers: Their numbers in the index, ascending.
        """


def tasks_of(folder: Dataset, samples: IntArray | None, *, most: int = SAMPLES_OF_TASK) -> Iterator[MapTask]:
    """Yield the tasks of a dataset, in order; tasks without chosen samples are omitted.

    Args:
        samples: Numbers of the chosen samples, ascending; None for all.
        most: Most samples of a task.
    """
    for shard in folder.index.shards:
        count = min(most, max(1, _TASK_BYTES * shard.samples // max(1, shard.size_bytes)))
        for start in range(shard.first_sample, shard.first_sample + shard.samples, count):
            stop = min(start + count, shard.first_sample + shard.samples)
            chosen = None if samples is None else samples[slice(*samples.searchsorted((start, stop)))]
            if chosen is None or len(chosen):
                yield MapTask(_name(shard, start, stop), start, stop, chosen)


def _name(shard: ShardEntry, start: int, stop: int) -> str:
    first = start - shard.first_sample
    return f"samples {first}–{first + stop - start - 1} of {shard.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWork:
    """Call the function for the samples of a task; runs in workers.

    Attributes:
        reader: Reads the samples.
        function: Called with a sample, or with a list of samples.
        batch_size: Samples of a call; None calls it with one sample.
        output: Takes the values.
        timeout_s: A call that takes longer is a failure.
    """

    reader: SampleReader
    function: UserFunction
    batch_size: int | None
    output: Output
    timeout_s: float | None = None

    def __call__(self, task: MapTask) -> TaskResult:
        index = self.reader.folder.index
        numbers = task.numbers()
        keys = [index.full_key(number) for number in numbers.tolist()]
        values: list[Any] = []
        failures: list[Failure] = []
        skipped = 0
        # Call the function; an error in place of a value is a failure.
        for (number, value), key in zip(self.results(numbers), keys, strict=True):
            if isinstance(value, Exception):
                if isinstance(value, SkipSample):
                    skipped += 1
                else:
                    failures.append(Failure(number=number, key=key, error=_reason(value)))
                value = None  # noqa: PLW2901 - of a sample without a value
            values.append(value)
        # Keep the values.
        result = self.output.collect(task, values, keys, numbers)
        return msgspec.structs.replace(
            result, samples=len(numbers), failures=(*failures, *result.failures), skipped=skipped
        )

    def results(self, numbers: IntArray) -> Iterator[tuple[int, Any]]:
        """Yield the number of each sample with what the function returned for it, or with an error."""
        function, samples = self.function.load(), self.reader.read(numbers)
        if self.batch_size is None:
            return _one_by_one(function, samples, self.timeout_s)
        return self._batches(function, samples)

    def _batches(self, function: Callable[[Any], Any], samples: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield the values of batches; a batch whose call fails is tried sample by sample, to name the one at fault."""
        while batch := list(islice(samples, self.batch_size)):
            good = [sample for _, sample in batch if not isinstance(sample, Exception)]
            try:
                with time_limit(self.timeout_s):
                    values = list(function(good)) if good else []
                if len(values) != len(good):
                    raise ValueError(f"expected {len(good)} results of a batch, found {len(values)}")  # noqa: TRY301
            except Exception:  # noqa: BLE001 - of the user's function
                values = [_called(lambda one: next(iter(function([one]))), sample, self.timeout_s) for sample in good]
            results = iter(values)
            for number, sample in batch:
                yield number, sample if isinstance(sample, Exception) else next(results)


def _one_by_one(
    function: Callable[[Any], Any], samples: Iterator[tuple[int, Any]], timeout_s: float | None
) -> Iterator[tuple[int, Any]]:
    for number, sample in samples:
        yield number, sample if isinstance(sample, Exception) else _called(function, sample, timeout_s)


def _called(function: Callable[[Any], Any], sample: Any, timeout_s: float | None) -> Any:
    """Return the result of a call, or its error."""
    try:
        if timeout_s is None:
            return function(sample)
        with time_limit(timeout_s):
            return function(sample)
    except Exception as error:  # noqa: BLE001 - of the user's function
        return error


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, EnergonError) else str(error)
    return f"{type(error).__name__}: {text}"[:_MAX_REASON]
