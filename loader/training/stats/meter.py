"""Measure, on the rank, what the training loop waits for, by the sources of its chain."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any, Protocol

from ...dataset.dataset import Dataset
from ...pipeline.measuring.counts import Counts, Event, PackedCounts, add_numbers
from ...pipeline.measuring.recorder import WorkerRecorder
from ...pipeline.reading.read import ReadDataset

START = "start"
REPLACEMENT = "replacement"
"""Waits for the first micro-batch of each worker, which opens files and fills buffers."""

TRANSPORT = "transport"
"""The way of micro-batches from the workers to the training loop."""

_NEVER = float("inf")
_END: Any = object()


class MeteredStream(Protocol):
    """The running workers, as statistics see them."""

    def queue(self, worker: int) -> tuple[int, int]:
        """Return the micro-batches of a worker that wait for the training loop, and their maximum."""

    def pid(self, worker: int) -> int | None:
        """Return the process of a worker; None if it is a thread, or the training loop itself."""

    def shared_bytes(self) -> int:
        """Return the size of the shared memory of the workers that this process has mapped."""

    def set_traced(self, traced: bool) -> None:
        """Let the workers record each call, or no longer."""


class Reporter(Protocol):
    """Reports the measurements of a loader."""

    def begin(self) -> None:
        """Prepare before the first micro-batch."""

    def report(self) -> None:
        """Report at an interval, in the thread of the training loop."""


class WorkerMeter:
    """The measurements of one worker.

    Attributes:
        waited_ns: Time in which the training loop waited for it, without ``start_ns`` and ``replacement_ns``.
        start_ns: The same for the first micro-batch after each start of the workers.
        replacement_ns: The same for processes that ended, and for the first micro-batch of their replacements.
        transport_ns: Time in which the training loop unpacked what it sent.
        waited_for: ``waited_ns`` and ``transport_ns`` by activity, in seconds.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.waited_ns = self.start_ns = self.replacement_ns = self.transport_ns = 0
        self.waited_for: dict[str, float] = {}
        self.is_started = self.is_replaced = False
        self._attributed_ns = self._made_ns = 0
        self._times: Mapping[str, float] = {}

    def times(self) -> dict[str, float]:
        """Return the seconds of each activity, without idle time."""
        return {**self.counts.times(), TRANSPORT: (self.counts.transport_ns + self.transport_ns) / 1e9}

    def attribute(self, waited_ns: int) -> None:
        """Attribute the waits since the last call to what the worker did in this time, in proportion."""
        new_ns, made_ns = waited_ns - self._attributed_ns, self.counts.make_ns
        if new_ns <= 0 or made_ns == self._made_ns:
            return  # no counts have arrived yet: the next call attributes these waits, too
        times = self.times()
        spent = {name: max(0.0, seconds - self._times.get(name, 0.0)) for name, seconds in times.items()}
        total = sum(spent.values())
        if total <= 0:
            return
        add_numbers(self.waited_for, {name: new_ns / 1e9 * seconds / total for name, seconds in spent.items()})
        self._attributed_ns, self._made_ns, self._times = waited_ns, made_ns, times


class RankMeter:
    """The measurements of a loader, from its first iteration on, or the last restore.

    Args:
        owner: Reports the measurements. It is not kept alive.
        every_s: Seconds between two reports; None for none.

    Attributes:
        workers: By number; one for a loader without workers.
        begin_ns: When the first iteration began; 0 before.
    """

    def __init__(self, owner: Reporter, every_s: float | None) -> None:
        # A cycle of references would leave the loader, and its workers, to the garbage collector.
        self._owner: Callable[[], Reporter | None] = weakref.ref(owner)
        self._every_ns = None if every_s is None else int(every_s * 1e9)
        self._due_ns: float = _NEVER
        self._check_ns: float = 0  # the next step is checked
        self.is_traced = False
        self._traced_steps: int | None = None
        self._stream: Callable[[], MeteredStream | None] = lambda: None
        self._recorders: list[WorkerRecorder] = []
        self.clear()

    def clear(self) -> None:
        self.workers: list[WorkerMeter] = []
        self.begin_ns = 0
        self._progress = 0, 0, 0  # steps, waited_ns, end_ns
        self.events: list[Event] = []
        self.is_own_work = False

    # ------------------------------------------------------------------------------------- the workers

    def begin_stream(self, stream: MeteredStream, workers: int) -> None:
        """Measure workers that start.

        Args:
            stream: The workers; not kept alive.
            workers: Their number; 0 if the training loop makes the micro-batches.
        """
        self._stream = weakref.ref(stream)
        self._recorders = []
        self.is_own_work = not workers
        while len(self.workers) < max(1, workers):
            self.workers.append(WorkerMeter())
        for worker in self.workers:
            worker.is_started = worker.is_replaced = False
        if self.is_traced:
            stream.set_traced(True)

    def end_stream(self) -> None:
        """Count the samples that the training loop has read itself, before the readers are dropped."""
        if self.is_own_work:  # threads send counts
            for recorder in self._recorders:
                recorder.count_samples()

    def begin_again(self, worker: int) -> None:
        self.workers[worker].is_started, self.workers[worker].is_replaced = False, True

    def lost(self, worker: int, *, begin_ns: int) -> None:
        """Note that a worker has ended without a message for which the training loop waited from ``begin_ns`` on."""
        self.workers[worker].replacement_ns += perf_counter_ns() - begin_ns

    def recorder(self, worker: int, readers: Mapping[int, int]) -> WorkerRecorder:
        """Return the recorder of a worker in this process: a thread, or the training loop itself."""
        counts = self.workers[worker].counts if self.is_own_work else None
        recorder = WorkerRecorder(counts, readers=readers)
        recorder.follow(self.is_traced)
        self._recorders.append(recorder)
        return recorder

    def queued(self) -> int:
        stream = None if self.is_own_work else self.stream
        return 0 if stream is None else sum(stream.queue(worker)[0] for worker in range(len(self.workers)))

    def received(
        self, worker: int, counts: PackedCounts | None, *, begin_ns: int, arrived_ns: int, batches: int
    ) -> None:
        """Note a bundle of a worker, whose messages are unpacked when they are taken.

        Args:
            counts: What the worker did since it sent counts last; None if it sends none now.
        """
        meter = self.workers[worker]
        if meter.is_started:
            meter.waited_ns += arrived_ns - begin_ns
        else:
            if meter.is_replaced:
                meter.replacement_ns += arrived_ns - begin_ns
            else:
                meter.start_ns += arrived_ns - begin_ns
            meter.is_started = True
        meter.transport_ns += perf_counter_ns() - arrived_ns
        meter.counts.batches += batches
        if counts is not None:
            meter.counts.add_packed(counts)
        if self.is_traced:
            self.events.append(Event(f"wait for worker {worker}", begin_ns, arrived_ns - begin_ns))

    def add_transport(self, worker: int, name: str, begin_ns: int) -> None:
        """Add an activity, from ``begin_ns`` to now, by which the training loop takes a micro-batch of a worker."""
        took_ns = perf_counter_ns() - begin_ns
        self.workers[worker].transport_ns += took_ns
        if self.is_traced:
            self.events.append(Event(name, begin_ns, took_ns))

    # ------------------------------------------------------------------------------------- the training loop

    def measured(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the micro-batches of an iteration of the training loop, and measure its waits for them."""
        if not self.begin_ns:
            if (owner := self._owner()) is not None:
                owner.begin()
            self.begin_ns = perf_counter_ns()
        if self._every_ns is not None and self._due_ns == _NEVER:
            self._due_ns = perf_counter_ns() + self._every_ns
        self._check_ns = 0
        # Each step pays for these lines: local names, one tuple and one comparison take half the time.
        steps, waited_ns, _ = self._progress
        while True:
            begin_ns = perf_counter_ns()
            batch = next(batches, _END)
            now_ns = perf_counter_ns()
            waited_ns += now_ns - begin_ns
            if batch is _END:
                self._progress = steps, waited_ns, now_ns
                return
            steps += 1
            self._progress = steps, waited_ns, now_ns
            if now_ns >= self._check_ns:
                self._check(begin_ns, now_ns)
            yield batch
            del batch

    def _check(self, begin_ns: int, now_ns: int) -> None:
        if self.is_traced:
            self._note_step(begin_ns, now_ns)
        if now_ns >= self._due_ns and self._every_ns is not None:
            self._due_ns = now_ns + self._every_ns
            if (owner := self._owner()) is not None:
                owner.report()
        self._check_ns = 0 if self.is_traced else self._due_ns

    # ------------------------------------------------------------------------------------- results

    @property
    def steps(self) -> int:
        return self._progress[0]

    @property
    def waited_ns(self) -> int:
        """Time that the training loop spent in the loader."""
        return self._progress[1]

    @property
    def elapsed_ns(self) -> int:
        """Time from the first iteration to the last micro-batch."""
        return max(0, self._progress[2] - self.begin_ns)

    @property
    def stream(self) -> MeteredStream | None:
        return self._stream()

    def begin_trace(self, steps: int | None) -> None:
        """Record each call of the workers and of the training loop, for some steps; None: until the end."""
        self._drop_events()  # those of an earlier trace that arrived after its end
        self._traced_steps = steps
        self._set_traced(True)

    def end_trace(self) -> None:
        """Record no calls any more, and drop those that were recorded."""
        self._set_traced(False)
        self._drop_events()

    def _drop_events(self) -> None:
        self.events = []
        for worker in self.workers:
            worker.counts.events = []

    def _note_step(self, begin_ns: int, end_ns: int) -> None:
        self.events.append(Event("next", begin_ns, end_ns - begin_ns))
        if self._traced_steps is not None:
            self._traced_steps -= 1
            if self._traced_steps <= 0:
                self._set_traced(False)

    def _set_traced(self, traced: bool) -> None:
        self.is_traced = traced
        self._check_ns = 0
        for recorder in self._recorders:
            recorder.follow(traced)
        stream = self.stream
        if stream is not None:
            stream.set_traced(traced)

    def waited_for(self) -> dict[str, float]:
        """Return the seconds that the training loop waited, by cause; the sum is ``waited_ns``."""
        if self.is_own_work:
            self.end_stream()
            self.workers[0].counts.batches, self.workers[0].counts.make_ns = self.steps, self.waited_ns
        waited_s: dict[str, float] = {}
        for worker in self.workers:
            waited_ns = self.waited_ns if self.is_own_work else worker.waited_ns
            worker.attribute(waited_ns)
            add_numbers(waited_s, worker.waited_for)
            if not self.is_own_work:
                apart = {START: worker.start_ns, REPLACEMENT: worker.replacement_ns, TRANSPORT: worker.transport_ns}
                add_numbers(waited_s, {name: ns / 1e9 for name, ns in apart.items()})
        rest = self.waited_ns / 1e9 - sum(waited_s.values())
        waited_s["other"] = waited_s.get("other", 0.0) + max(0.0, rest)
        return {name: seconds for name, seconds in waited_s.items() if seconds > 0}


def readers_of(chain: Any) -> Iterator[ReadDataset]:
    """Yield the readers of a chain, in the order of the inputs."""
    if isinstance(chain, ReadDataset):
        yield chain
    for upstream in getattr(chain, "inputs", ()):
        yield from readers_of(upstream)


def reader_numbers(chain: Any) -> dict[int, int]:
    """Return the number of each reader's first source, by the reader's ``id`` in this process."""
    numbers: dict[int, int] = {}
    next_number = 0
    for reader in readers_of(chain):
        if id(reader) not in numbers:
            numbers[id(reader)] = next_number
            next_number += len(reader.sources)
    return numbers


def source_names(chain: Any) -> list[str]:
    """Return the names of all sources: path and split part; a name that comes again has a number."""
    names: list[str] = []
    for reader in {id(reader): reader for reader in readers_of(chain)}.values():
        for source in reader.sources:
            request = source.request
            name = f"{request.ref.path}:{request.split_part}"
            names.append(name if name not in names else f"{name}#{len(names)}")
    return names


_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WebP", "mp4": "video", "wav": "audio", "mp3": "audio"}


def decoded_format(chain: Any) -> str:
    """Return the format of the media in the first source with media, such as ``JPEG``; empty without media."""
    for reader in readers_of(chain):
        for source in reader.sources:
            folder = vars(source).get("folder")  # opened, unless only the workers read it
            if not isinstance(folder, Dataset) or source.recipe.decoder is None:
                continue
            for part in folder.index.layout.part_stats:
                name = _FORMATS.get(part.name.rpartition(".")[2].lower())
                if name is not None:
                    return name
    return ""
