"""The parts of a sample are read in few reads, and never cut."""

from __future__ import annotations

from typing import cast

import pytest

from loader.errors import FormatError
from loader.format.index import sample_bytes
from loader.format.index.dataset_index import PartLocation
from loader.format.index.sample_bytes import read_sample
from loader.storage import ReadableFile

CONTENT = bytes(range(256)) * 1000


class CountedFile:
    """A file in memory that records its reads."""

    size_bytes = len(CONTENT)

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        self.reads.append((offset, size_bytes))
        return CONTENT[offset : offset + size_bytes]


def read(
    parts: list[tuple[str, int, int]], names: list[str] | None = None
) -> tuple[dict[str, bytes], list[tuple[int, int]]]:
    file = CountedFile()
    found = read_sample(cast("ReadableFile", file), [PartLocation(*part) for part in parts], shard="s.tar", names=names)
    return found, file.reads


def test_near_parts_are_one_read_and_far_ones_are_not() -> None:
    found, reads = read([("far", 200_000, 20), ("a", 512, 10), ("b", 1536, 0), ("c", 2048, 300)])
    assert found == {
        "far": CONTENT[200_000:200_020], "a": CONTENT[512:522], "b": b"", "c": CONTENT[2048:2348],
    }  # fmt: skip
    assert list(found) == ["far", "a", "b", "c"]
    assert reads == [(512, 2348 - 512), (200_000, 20)]


def test_large_parts_are_not_in_memory_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_bytes, "_MAX_SHARED_BYTES", 2000)
    parts = [("a", 512, 10), ("b", 1024, 3000), ("c", 4608, 10), ("d", 5120, 10)]
    assert read(parts)[1] == [(512, 10), (1024, 3000), (4608, 522)]


def test_parts_that_are_not_wanted_are_not_read() -> None:
    assert read([("a", 512, 10), ("b", 1024, 60_000), ("c", 100_000, 5)], names=["a", "c"]) == (
        {"a": CONTENT[512:522], "c": CONTENT[100_000:100_005]},
        [(512, 10), (100_000, 5)],
    )
    assert read([("a", 512, 10)], names=["b"]) == ({}, [])


def test_parts_may_lie_within_each_other() -> None:
    """As damaged columns may state."""
    assert read([("a", 512, 1000), ("b", 600, 10)])[0] == {"a": CONTENT[512:1512], "b": CONTENT[600:610]}


@pytest.mark.parametrize("last", [("b", len(CONTENT) - 5, 6), ("b", len(CONTENT) + 100, 6)])
@pytest.mark.parametrize("before", [[], [("a", len(CONTENT) - 1000, 10)]])
def test_a_part_that_the_shard_cuts_is_an_error_with_its_place(
    before: list[tuple[str, int, int]], last: tuple[str, int, int]
) -> None:
    with pytest.raises(FormatError, match=r"part 'b' has 6 bytes in the index, the shard ends after [05] of") as caught:
        read([*before, last])
    assert (caught.value.shard, caught.value.offset) == ("s.tar", last[1])
