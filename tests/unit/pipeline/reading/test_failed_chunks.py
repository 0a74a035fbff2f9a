"""A chunk that cannot be located is located again: its samples are not skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest

from loader.errors import StorageError
from loader.pipeline.reading.lane_reader import LaneReader


class InOrder:
    """An order of 200 samples, by their numbers."""

    length = 200

    def locate(self, start: int, stop: int) -> tuple[Any, Any, Any]:
        zeros = np.zeros(stop - start, np.int64)
        return zeros, zeros, np.arange(start, stop)

    def index_numbers(self, _: Any, sample: Any) -> Any:
        return sample

    def excluded(self, *_: Any) -> None:
        return None


class Numbers:
    """A chunk whose samples are their numbers."""

    def __init__(self, index: Any) -> None:
        self._index = index.tolist()

    def fetch(self, _: Any) -> None:
        return None

    def read(self, positions: Sequence[int], _: Any) -> Iterator[tuple[Any, int]]:
        return iter(zip(self._index, positions, strict=True))


class Rows(InOrder):
    """Locates chunks, but for some failures."""

    def __init__(self) -> None:
        self.failures = 0

    def chunk(self, _: Any, index: Any, __: Any) -> Numbers:
        if self.failures:
            self.failures -= 1
            raise StorageError("the columns of the index cannot be downloaded")
        return Numbers(index)


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def waiting() -> WeakValueDictionary[int, Any]:
    return WeakValueDictionary()


def open_lane(rows: Rows, waiting: WeakValueDictionary[int, Any], number: int, *, is_remote: bool = True) -> Any:
    definition: Any = SimpleNamespace(
        opened=rows,
        sources=(),
        history=None,
        key="read",
        is_remote=is_remote,
        sample_bytes=100_000,
        waiting=waiting,
        ahead_bytes=lambda _: 1 << 24,
    )
    lane: Any = SimpleNamespace(
        number=number,
        count=2,
        last_sample=SimpleNamespace(note_positions_at=lambda path: lambda _: None),
        path="",
        recorder=None,
        seed=0,
    )
    order: Any = InOrder()
    return LaneReader(definition, order, lane, {})


@pytest.mark.parametrize("is_remote", [True, False])
def test_the_next_call_reads_the_samples_of_a_chunk_that_failed(
    rows: Rows, waiting: WeakValueDictionary[int, Any], is_remote: bool
) -> None:
    lane = open_lane(rows, waiting, 0, is_remote=is_remote)
    rows.failures = 1
    with pytest.raises(StorageError):
        lane.next()
    assert [lane.next()[0] for _ in range(200)] == list(range(200))


def test_a_chunk_that_another_lane_started_in_vain_is_read_in_its_turn(
    rows: Rows, waiting: WeakValueDictionary[int, Any]
) -> None:
    first, second = open_lane(rows, waiting, 0), open_lane(rows, waiting, 1)
    start = first._ahead.start

    def start_and_fail_the_next() -> None:
        start()
        rows.failures = 1

    waiting.pop(0)
    first._ahead.start = start_and_fail_the_next
    assert first.next()[0] == 0
    assert rows.failures == 0  # the second lane's chunk has failed
    assert [second.next()[0] for _ in range(200)] == list(range(200))
