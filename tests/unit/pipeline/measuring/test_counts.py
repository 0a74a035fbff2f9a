"""Counts of workers add up, in whatever messages they travel."""

from __future__ import annotations

import pickle

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
        parts = [part.sources.get(source, SourceCounts()) for part in (one, other)]
        assert sums[0].sources[source] == SourceCounts(*map(sum, zip(*parts, strict=True)))


class Clock:
    """The clock of a worker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = NS
        monkeypatch.setattr(recorder, "perf_counter_ns", lambda: self.now_ns)

    def bundle(self, worker: WorkerRecorder, milliseconds: float, *, is_last: bool = False) -> Counts | None:
        """Let a worker make a bundle of one micro-batch; returns the counts that it sends with it."""
        begin_ns = self.now_ns
        self.now_ns += int(milliseconds * NS)
        packed = worker.take_bundle(1, begin_ns, begin_ns, is_last=is_last)
        if packed is None:
            return None
        counts = Counts()
        counts.add_packed(packed)
        return counts


def test_counts_are_sent_early_then_every_10_ms_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker, total = WorkerRecorder(), Counts()
    for _ in range(128):
        counts = clock.bundle(worker, 10)
        assert counts is not None
        total.add_but_events(counts)
    sent = [clock.bundle(worker, 1) for _ in range(1000)]
    assert 90 <= sum(counts is not None for counts in sent) <= 110
    last = clock.bundle(worker, 1, is_last=True)
    assert last is not None
    for counts in [*sent, last]:
        if counts is not None:
            total.add_but_events(counts)
    assert (total.batches, total.make_ns) == (1129, (1280 + 1001) * NS)


def test_counts_of_a_short_run_lack_little(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker, total = WorkerRecorder(), Counts()
    for number in range(1, 3000):
        counts = clock.bundle(worker, 0.05)
        if counts is not None:
            total.add_but_events(counts)
        assert total.batches >= number * 31 // 32 - 1


def test_each_bundle_of_a_trace_sends_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker = WorkerRecorder()
    for _ in range(200):
        clock.bundle(worker, 1)
    worker.follow(traced=True)
    for _ in range(3):
        counts = clock.bundle(worker, 1)
        assert counts is not None
        assert [event.name for event in counts.events] == ["transport", "idle"]


def test_micro_batches_are_timed_more_often_early_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    worker = WorkerRecorder()
    timed: list[int] = []
    for number in range(100_000):
        worker.until_timed -= 1
        if worker.until_timed > 0:
            continue
        timed.append(number)
        worker.begin_timed(0)
        worker._calls = 100
        clock.now_ns += NS // 100
        worker.end_timed()
    assert len([number for number in timed if number < 2000]) >= 10
    assert len(timed) <= 50
