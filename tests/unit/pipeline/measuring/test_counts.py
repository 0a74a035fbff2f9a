"""Counts of workers add up, in whatever messages they travel."""

from __future__ import annotations

import gc
import pickle
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from loader.pipeline.measuring import recorder
from loader.pipeline.measuring.counts import Counts, Event, SourceCounts
from loader.pipeline.measuring.recorder import WorkerRecorder

NUMBERS = st.integers(0, 1 << 40)
NAMES = st.sampled_from(["storage", "decode", "encode_sample"])
NS = 1_000_000  # in a millisecond


@st.composite
def some_counts(draw: st.DrawFn) -> Counts:
    counts = Counts()
    for name in ("batches", "make_ns", "transport_ns", "idle_ns", "timed", "timed_ns", "cost_ns"):
        setattr(counts, name, draw(NUMBERS))
    for name in ("activities", "always", "dropped"):
        setattr(counts, name, draw(st.dictionaries(NAMES, NUMBERS)))
    counts.sources = draw(st.dictionaries(st.integers(0, 3), st.builds(SourceCounts, *[NUMBERS] * 5)))
    keys = st.tuples(st.sampled_from(["tokens", "frames"]), st.integers(0, 3))
    counts.sizes = draw(st.dictionaries(keys, st.tuples(st.integers(0, 1 << 30).map(float), NUMBERS)))
    counts.exact_sizes = draw(st.dictionaries(keys, st.integers(0, 1 << 30).map(float)))
    counts.events = draw(st.lists(st.builds(Event, NAMES, NUMBERS, NUMBERS), max_size=3))
    return counts


def contents(counts: Counts) -> dict[str, object]:
    return {name: getattr(counts, name) for name in Counts.__slots__}


@given(some_counts())
def test_counts_arrive_as_they_were(counts: Counts) -> None:
    received = Counts()
    received.add_packed(pickle.loads(pickle.dumps(counts.packed())))
    assert contents(received) == contents(counts)
    assert all(isinstance(one, SourceCounts) for one in received.sources.values())


@given(some_counts(), some_counts())
def test_sums_do_not_depend_on_the_order(one: Counts, other: Counts) -> None:
    sums = Counts(), Counts()
    for total, parts in zip(sums, ((one, other), (other, one)), strict=True):
        for part in parts:
            total.add_but_events(part)
    assert contents(sums[0]) == contents(sums[1])
    assert not sums[0].events
    assert sums[0].make_ns == one.make_ns + other.make_ns
    for source in {*one.sources, *other.sources}:
        rows = [part.sources.get(source, SourceCounts()) for part in (one, other)]
        assert sums[0].sources[source] == SourceCounts(*map(sum, zip(*rows, strict=True)))


class Clock:
    """The clock of a worker process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = NS
        monkeypatch.setattr(recorder, "perf_counter_ns", lambda: self.now_ns)

    def bundle(self, worker: WorkerRecorder, milliseconds: float, *, is_last: bool = False) -> Counts | None:
        """Let a worker wait for 1 ms, and make a bundle of one micro-batch; returns the counts that it sends."""
        begin_ns = self.now_ns
        make_ns = begin_ns + NS
        self.now_ns = make_ns + int(milliseconds * NS)
        packed = worker.take_bundle(1, begin_ns, make_ns, is_last=is_last)
        self.now_ns += NS // 4  # packing
        if packed is None:
            return None
        counts = Counts()
        counts.add_packed(packed)
        return counts


class Reader:
    """Counts a sample for each micro-batch."""

    samples = 0

    def add_counts(self, counts: Counts) -> None:
        counts.add_source(0, (self.samples, 0, 0, 0, 0))
        self.samples = 0


def test_counts_are_sent_early_then_every_10_ms_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker, total = WorkerRecorder(), Counts()
    early = [clock.bundle(worker, 10) for _ in range(128)]
    assert None not in early
    sent = [clock.bundle(worker, 0.25) for _ in range(4000)]
    assert 500 <= sum(counts is not None for counts in sent) <= 650
    last = clock.bundle(worker, 0.25, is_last=True)
    assert last is not None
    for counts in [*early, *sent, last]:
        if counts is not None:
            total.add_but_events(counts)
    assert total.make_ns == 1280 * NS + 4001 * NS // 4
    assert total.idle_ns == 4129 * NS
    assert total.transport_ns == 4128 * NS // 4  # the last bundle has no successor


@pytest.mark.parametrize("first_ms", [0.01, 60_000])
def test_counts_of_a_run_lack_few_samples_after_a_slow_start_too(
    monkeypatch: pytest.MonkeyPatch, first_ms: float
) -> None:
    clock = Clock(monkeypatch)
    worker, reader, total = WorkerRecorder(), Reader(), Counts()
    worker.add_counter(reader)
    for number in range(1, 20_000):
        reader.samples += 1
        counts = clock.bundle(worker, first_ms if number == 1 else 0.01)
        if counts is not None:
            total.add_but_events(counts)
        assert total.sources[0].samples >= number * 7 // 8


def test_a_trace_has_the_events_of_each_bundle_since_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker = WorkerRecorder()
    for _ in range(200):
        clock.bundle(worker, 1)
    begin_ns = clock.now_ns = clock.now_ns + NS // 2  # while the worker waits
    worker.follow(traced=True)
    clock.now_ns -= NS // 2
    traced = [clock.bundle(worker, 1) for _ in range(3)]
    assert None not in traced
    events = [event for counts in traced if counts is not None for event in counts.events]
    assert [event.name for event in events] == ["idle", "transport", "idle", "transport", "idle"]
    assert (events[0].begin_ns, events[0].duration_ns) == (begin_ns, NS // 2)
    ends = [event.begin_ns + event.duration_ns for event in events]
    assert all(end <= event.begin_ns for end, event in zip(ends, events[1:], strict=False))


@pytest.mark.parametrize(("calls", "batches"), [(100, 100_000), (1000, 100_000)])
def test_micro_batches_are_timed_more_often_early_in_a_run(
    monkeypatch: pytest.MonkeyPatch, calls: int, batches: int
) -> None:
    clock = Clock(monkeypatch)
    worker = WorkerRecorder()
    timed: list[int] = []
    for number in range(batches):
        clock.now_ns += NS
        worker.until_timed -= 1
        if worker.until_timed > 0:
            continue
        timed.append(number)
        worker.begin_timed(0)
        worker._calls = calls
        clock.now_ns += NS // 100
        worker.end_timed()
    early = len([number for number in timed if number < 2000])
    assert 5 <= early <= 50
    assert len(timed) <= 100
    cost_ns = worker.counts.cost_ns * early / len(timed)
    assert cost_ns <= 0.02 * 2000 * NS, "early timing may cost about 1 %"


class Owner:
    """An object whose function is timed; to replace it may collect garbage, as any allocation may."""

    def __init__(self) -> None:
        self.collects = False
        self.call = len

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "call" and self.collects:
            gc.collect()


def test_a_stage_that_becomes_garbage_while_others_are_timed_does_no_harm() -> None:
    worker, first, second = WorkerRecorder(), Owner(), Owner()
    lane = SimpleNamespace(recorder=worker, root_number=0)
    for name, owner in (("first", first), ("second", second)):
        recorder.register(lane, name, owner, "call")
    first.collects, second.cycle = True, second
    del owner, second
    worker.begin_timed(0)
    first.call("abc")
    worker.end_timed()
    assert set(worker.counts.activities) == {"first"}
