"""Chunks are fetched in joined ranges: few requests, hardly a byte twice or for nothing, and never more than fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from loader.errors import StorageError
from loader.pipeline.reading.fetched_ranges import FetchedRanges, FetchQueue
from loader.pipeline.reading.read_ahead import ReadAhead
from tests.unit.pipeline.reading.stub_file import StubFile

FILE_BYTES = 40 << 20


def content(start: int, size_bytes: int) -> bytes:
    """Return a range of a file in which no four bytes come twice."""
    numbers = np.arange(start // 4, (start + size_bytes) // 4 + 1, dtype=np.uint32)
    return numbers.tobytes()[start % 4 :][:size_bytes]


class Pending:
    def __init__(self, file: RemoteStub, start: int, size_bytes: int) -> None:
        self.data = content(start, size_bytes)
        self._file = file
        file.held_bytes += size_bytes
        file.most_bytes = max(file.most_bytes, file.held_bytes)

    def __del__(self) -> None:
        self._file.held_bytes -= len(self.data)

    def is_done(self) -> bool:
        return not self._file.is_slow

    def result(self) -> bytes:
        return self.data


class RemoteStub(StubFile):
    """A file that logs what is fetched, and how much of it is held at a time."""

    size_bytes = FILE_BYTES

    def __init__(self) -> None:
        self.fetched: list[tuple[int, int]] = []
        self.held_bytes = self.most_bytes = 0
        self.is_slow = False

    def fetch(self, offset: int, size_bytes: int) -> Pending:
        self.fetched.append((offset, size_bytes))
        return Pending(self, offset, size_bytes)


class Chunk:
    def __init__(
        self, file: RemoteStub, samples: Sequence[tuple[int, int]], open_file: Callable[[int], Any], wanted: bool
    ) -> None:
        self._wanted = wanted
        self.samples = samples
        self._open_file = open_file
        self.ranges: FetchedRanges | None = None
        self.size_bytes = np.zeros(len(samples), np.int64)

    def fetch(self, queue: FetchQueue) -> FetchedRanges:
        start, size = np.array(self.samples, np.int64).reshape(-1, 2).T
        wanted = np.full(len(start), self._wanted)
        self.ranges = FetchedRanges(queue, np.zeros_like(start), start, size, missing=wanted, open_file=self._open_file)
        return self.ranges

    def read(self, positions: Sequence[int], begin: Callable[[int], None]) -> Iterator[tuple[Any, int]]:
        assert self.ranges is not None
        for row, position in enumerate(positions):
            begin(position)
            yield self.ranges.take(row, self.samples[row][1]) if self.ranges.has(row) else None, position


class Lane:
    """A lane over chunks of samples ``(start, bytes)``."""

    def __init__(
        self,
        chunks: Sequence[Sequence[tuple[int, int]]],
        *,
        ahead_bytes: int = 64 << 20,
        broken: bool = False,
        wanted: bool = True,
        slow: bool = False,
    ) -> None:
        self.file = RemoteStub()
        self.file.is_slow = slow
        self.located = 0
        self._samples = [sample for chunk in chunks for sample in chunk]
        self._chunks = iter(chunks)
        self._broken = broken
        self._wanted = wanted
        self.ahead = ReadAhead(
            self.locate,
            ahead_bytes=ahead_bytes,
            samples_joined=4 * max(map(len, chunks)),
            begin=lambda position: None,
        )

    def open(self, name: int) -> RemoteStub:
        if self._broken:
            raise StorageError("no such shard")
        return self.file

    def locate(self) -> tuple[Chunk, range]:
        samples = next(self._chunks)
        positions = range(self.located, self.located + len(samples))
        self.located = positions.stop
        return Chunk(self.file, samples, self.open, self._wanted), positions

    def read(self) -> list[bytes]:
        """Read all samples, and check them."""
        found: list[tuple[Any, int]] = []
        while True:
            try:
                chunk = self.ahead.next()
            except StopIteration:
                break
            found.extend(chunk)
        assert [position for _, position in found] == [*range(len(self._samples))]
        for (data, _), (start, size_bytes) in zip(found, self._samples, strict=True):
            assert data == content(start, size_bytes)
        return [data for data, _ in found]


def members(numbers: Sequence[int], *, size_bytes: int = 3000) -> list[tuple[int, int]]:
    """Return samples of a tar file by number."""
    return [(number * (size_bytes + 1024), size_bytes) for number in numbers]


def windows(samples: int, window: int, seed: int = 0) -> list[int]:
    random = np.random.default_rng(seed)
    return [int(one) for first in range(0, samples, window) for one in first + random.permutation(window)]


def chunks_of(samples: list[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    return [samples[first : first + size] for first in range(0, len(samples), size)]


def test_samples_of_a_window_are_fetched_together_though_they_come_in_other_chunks() -> None:
    order = [0, 1, 2, 3, *(4 + one for one in windows(1000, 100))]
    lane = Lane([members(order[:4]), *chunks_of(members(order[4:]), 60)])
    lane.read()
    assert len(lane.file.fetched) <= 16  # of 1,004 samples
    assert sum(size for _, size in lane.file.fetched) < 1004 * 4024  # no byte twice


def test_the_first_chunk_waits_for_no_large_range() -> None:
    lane = Lane([members([5, 200]), members([*range(5), *range(6, 200)])])
    lane.ahead.start()
    assert len(lane.file.fetched) == 2
    assert all(3000 <= size <= 128 << 10 for _, size in lane.file.fetched)
    lane.read()


@pytest.mark.parametrize(("holes", "ranges"), [(5, 1), (30, 30)])
def test_gaps_are_read_over_if_they_are_a_small_share(holes: int, ranges: int) -> None:
    left_out = {*range(3, 300, 300 // holes)}
    wanted = [number for number in range(300) if number not in left_out]
    lane = Lane([[], members(wanted)])
    lane.read()
    assert len(lane.file.fetched) == ranges + (holes > 5)
    assert sum(size for _, size in lane.file.fetched) <= 1.1 * 300 * 4024


def test_long_ranges_are_split_between_samples() -> None:
    lane = Lane([[], members(range(30), size_bytes=1 << 20)])
    lane.read()
    assert len(lane.file.fetched) == 5
    assert all(size <= 8 << 20 for _, size in lane.file.fetched)


def test_no_more_is_held_than_fits() -> None:
    numbers = windows(10_000, 100, seed=1)
    lane = Lane(chunks_of(members(numbers), 100), ahead_bytes=1 << 20)
    lane.read()
    assert lane.file.most_bytes <= (2 << 20) + (256 << 10)  # and one range
    assert len(lane.file.fetched) < 10_000 / 20


def test_little_is_fetched_ahead_of_use() -> None:
    lane = Lane(chunks_of(members([*range(0, 9000, 9)]), 16), ahead_bytes=1 << 20)
    next(lane.ahead.next())
    assert len(lane.file.fetched) <= 16 + 1 + (1 << 20) // (32 << 10)


def read_ahead(lane: Lane, samples: int) -> int:
    """Read some samples that are ranges of their own; return how many were fetched ahead of their use."""
    positions = [position for _ in range(samples // 2) for _, position in lane.ahead.next()]
    return len(lane.file.fetched) - positions[-1] - 1


def large_samples(count: int) -> list[list[tuple[int, int]]]:
    """Return chunks of two samples of 128 KiB that are far apart."""
    return chunks_of([((one * 37 % 80) << 19, 128 << 10) for one in range(count)], 2)


class Unlocated(Lane):
    """A lane whose chunks cannot be located from the fourth one on."""

    def locate(self) -> tuple[Chunk, range]:
        if self.located >= 12:
            raise StorageError("no such column")
        return super().locate()


def test_an_error_of_a_later_chunk_comes_after_the_samples_before_it() -> None:
    lane = Unlocated(chunks_of(members(range(40)), 4))
    found = [position for _ in range(3) for _, position in lane.ahead.next()]
    assert found == [*range(12)]
    for _ in range(2):
        with pytest.raises(StorageError, match="no such column"):
            lane.ahead.next()


def test_ranges_that_arrive_in_time_leave_the_bytes_ahead_as_they_are() -> None:
    lane = Lane(large_samples(400), ahead_bytes=32 << 20)
    assert [read_ahead(lane, 10) for _ in range(9)] == [16] * 9  # 2 MiB


def test_the_bytes_ahead_double_when_a_range_is_late_up_to_as_many_ranges_as_are_fetched_at_a_time() -> None:
    lane = Lane(large_samples(400), ahead_bytes=32 << 20, slow=True)
    assert [read_ahead(lane, 2) for _ in range(12)] == [32] * 12  # the first one counted; 32 are in flight
    lane = Lane(large_samples(400), ahead_bytes=32 << 20, slow=True)
    lane.file.is_slow = False
    assert read_ahead(lane, 20) == 16
    lane.file.is_slow = True
    assert read_ahead(lane, 10) == 32


def test_the_bytes_ahead_grow_once_for_all_ranges_that_are_in_flight() -> None:
    chunks = chunks_of([((one * 37 % 80) << 19, 256 << 10) for one in range(400)], 2)
    lane = Lane(chunks, ahead_bytes=64 << 20, slow=True)
    found = [read_ahead(lane, 2) for _ in range(30)]
    assert found == sorted(found)
    assert {*found} == {32, 64}  # 16 before the first one, at most 64 in flight
    assert 7 <= found.index(64) <= 9  # the ranges fetched before the first growth did not count


def test_a_sample_that_comes_twice_is_fetched_once_while_it_is_held() -> None:
    lane = Lane([members([1]), members([3, 4, 3]), members([4])])
    lane.read()
    assert lane.file.fetched == [members([1])[0], (3 * 4024, 4024 + 3000)]


def test_chunks_without_a_sample_to_fetch_are_not_located_without_end() -> None:
    lane = Lane([[(0, 0)] * 4 for _ in range(1000)], wanted=False)
    next(lane.ahead.next())
    assert lane.located < 400


def test_shards_that_cannot_be_opened_are_left_to_their_samples() -> None:
    lane = Lane([members([1]), members([2])], broken=True)
    assert [data for data, _ in lane.ahead.next()] == [None]


def test_after_clear_reading_goes_on_at_the_next_located_chunk() -> None:
    lane = Lane([members([9 * number]) for number in range(50)], ahead_bytes=1 << 17)
    next(lane.ahead.next())
    lane.ahead.clear()
    assert lane.file.held_bytes == 0
    assert next(position for _, position in lane.ahead.next()) > 1
