"""SampleChunk: reads are announced to the storage, in few ranges."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.dataset.open_files import OpenFiles
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.reading import sample_chunk
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.sample_chunk import OpenSources, SampleChunk
from loader.samples.building.sample_builder import RawSample
from loader.storage.protocol import ReadableFile
from tests.unit.pipeline.reading.stub_file import StubFile
from tests.unit.pipeline.tar_dataset import TEXT_AND_JSON, leave_out, raw_samples, texts, write_dataset

LARGE = 200_000  # bytes, more than the largest gap within one announced range


class Watched(StubFile):
    """An open shard that logs announcements and reads."""

    def __init__(self, name: str, file: ReadableFile, noted: list[tuple[str, str, int, int]]) -> None:
        self.name = name
        self.file = file
        self.noted = noted

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        self.noted.append(("read", self.name, offset, offset + size_bytes))
        return self.file.read_at(offset, size_bytes)

    def expect(self, offset: int, size_bytes: int) -> None:
        self.noted.append(("expect", self.name, offset, offset + size_bytes))


def chunk(folder: Path, samples: Any, *, opened: Any = ()) -> tuple[SampleChunk, Any]:
    """Build a chunk of samples, with some shards open, and the log of these shards."""
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train"))
    source.begin_without("")  # exclusions come after the run has begun
    shards = OpenFiles()
    noted: list[tuple[str, str, int, int]] = []
    for name in opened:
        file = source.folder.storage.open(name)
        shards.add(source.shard_names.index(name), Watched(name, file, noted))
    numbers = np.array(samples, dtype=np.int64)
    table, sources = OpenSources((source,)), np.zeros_like(numbers)
    indexes = table.index_numbers(sources, numbers)
    return SampleChunk((source,), shards, sources, indexes, table.excluded(sources, indexes)), noted


def read_all(some: SampleChunk, position: int = 0) -> tuple[list[RawSample], list[int], list[int]]:
    began: list[int] = []
    found = list(some.read(range(position, position + len(some.size_bytes)), began.append))
    return [sample for sample, _ in found], [place for _, place in found], began


def announced(noted: list[tuple[str, str, int, int]]) -> list[tuple[str, int, int]]:
    return [entry[1:] for entry in noted if entry[0] == "expect"]


@pytest.fixture
def near(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "near", {"a.tar": texts(0, 30), "b.tar": texts(0, 30)})


def test_neighbours_are_announced_as_one_range_in_any_order(near: Path) -> None:
    some, noted = chunk(near, [7, 3, 29, 4, 33, 8], opened=["a.tar", "b.tar"])
    samples, _, _ = read_all(some)

    expected = raw_samples(near)
    assert samples == [expected[number] for number in (7, 3, 29, 4, 33, 8)]
    reads = [entry[1:] for entry in noted if entry[0] == "read"]
    in_a = [read for read in reads if read[0] == "a.tar"]
    assert len(reads) == 6
    assert announced(noted) == [
        ("a.tar", min(start for _, start, _ in in_a), max(stop for *_, stop in in_a)),
        *(read for read in reads if read[0] == "b.tar"),
    ]
    assert [entry[0] for entry in noted[:2]] == ["expect", "expect"]  # before anything is read


def test_distant_samples_are_announced_separately(tmp_path: Path) -> None:
    samples = {f"{n}": {"txt": b"text %d" % n, "bin": bytes(LARGE if n % 2 else 10), "json": b"[]"} for n in range(6)}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples}, config=TEXT_AND_JSON)
    some, noted = chunk(folder, [0, 2, 4], opened=["a.tar"])
    read_all(some)
    assert announced(noted) == [entry[1:] for entry in noted if entry[0] == "read"]


def test_a_sample_of_distant_parts_is_not_announced(tmp_path: Path) -> None:
    samples = {f"{n}": {"txt": b"text", "bin": bytes(LARGE), "json": b"[]"} for n in range(3)}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples}, config=TEXT_AND_JSON)
    some, noted = chunk(folder, [0, 1, 2], opened=["a.tar"])
    read_all(some)
    assert all(start == stop for _, start, stop in announced(noted))


def test_shards_are_opened_and_checked_only_when_read(near: Path) -> None:
    some, noted = chunk(near, [0, 31, 1], opened=["b.tar"])
    samples = some.read(range(3), lambda position: None)
    next(samples)
    assert announced(noted) == [("b.tar", *announced(noted)[0][1:])]
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(near)), split_part="train"))
    shards = OpenFiles()
    later = SampleChunk((source,), shards, np.zeros(2, np.int64), np.array([0, 31])).read(
        range(2), lambda position: None
    )
    next(later)
    assert (shards.find(0) is not None, shards.find(1) is not None) == (True, False)


@pytest.mark.parametrize(("ahead_bytes", "times"), [(1, [30]), (5_000, range(4, 9)), (1 << 30, [1])])
def test_more_is_announced_when_the_announced_samples_are_read(
    near: Path, monkeypatch: pytest.MonkeyPatch, ahead_bytes: int, times: Any
) -> None:
    monkeypatch.setattr(sample_chunk, "_AHEAD_BYTES", ahead_bytes)
    some, noted = chunk(near, np.random.default_rng(5).permutation(30), opened=["a.tar"])
    read_all(some)
    ahead = []
    for kind, _, start, stop in noted:
        if kind == "expect":
            ahead.append((start, stop))
        else:
            assert any(first <= start and stop <= last for first, last in ahead)
    asked = [kind for kind, *_ in noted]
    assert sum(kind == "read" and before == "expect" for before, kind in pairwise(asked)) in times


def test_each_position_is_noted_before_its_sample_is_read(near: Path) -> None:
    leave_out(near, "a.tar/003")
    some, noted = chunk(near, [2, 3, 4], opened=["a.tar"])
    began: list[int] = []
    found = some.read(range(100, 103), began.append)
    assert next(found)[1] == 100
    assert began == [100]
    assert next(found) == (SKIPPED, 101)
    sample, position = next(found)
    source, index, shard, key, *_ = sample
    assert (source, index, shard, key, position) == (0, 4, "a.tar", "004", 102)
    assert sample.parts == raw_samples(near)[4].parts
    assert began == [100, 102]
    assert len([entry for entry in noted if entry[0] == "read"]) == 2


@pytest.mark.parametrize("is_excluded", [False, True])
@pytest.mark.parametrize("most_bytes", [0, 1 << 20])
def test_parts_of_a_chunk_have_its_samples_and_note_their_own_positions(
    near: Path, is_excluded: bool, most_bytes: int
) -> None:
    if is_excluded:
        leave_out(near, "a.tar/003")
    numbers = [*range(30)] * 3  # enough for a coalesced read
    whole, _ = chunk(near, numbers)
    expected: list[Any] = read_all(whole)[0]
    some, _ = chunk(near, numbers)
    first: list[int] = []
    second: list[int] = []
    parts = some.read_parts([(range(5, 25), first.append), (range(70), second.append)], coalesced_bytes=most_bytes)
    assert [*parts[1]] == [(sample, place) for place, sample in enumerate(expected[20:])]
    if most_bytes and not is_excluded:  # a coalesced read notes the first position of all, and the reader each
        assert first == [5]
        first += range(6, 25)
        second += range(70)
    assert [*parts[0]] == [(sample, place) for place, sample in enumerate(expected[:20], 5)]
    assert first == [place for place in range(5, 25) if expected[place - 5] is not SKIPPED]
    assert second == [place for place in range(70) if expected[20 + place] is not SKIPPED]
