"""Read-ahead: the store is told of what comes next, in few ranges, and of nothing else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from loader.format.documents.load_request import LoadRequest
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.reading import sample_chunk
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.read import SourceTable
from loader.pipeline.reading.sample_chunk import SampleChunk
from loader.pipeline.reading.shard_reads import OpenShards
from tests.unit.pipeline.tar_dataset import TEXT_AND_JSON, leave_out, raw_samples, texts, write_dataset

LARGE = 200_000  # bytes, more than lies between samples that are asked for together


class Watched:
    """An open shard that notes what it is told to expect and what is read of it."""

    def __init__(self, name, file, noted):
        self.name = name
        self.file = file
        self.noted = noted

    def read_at(self, offset, size_bytes):
        self.noted.append(("read", self.name, offset, offset + size_bytes))
        return self.file.read_at(offset, size_bytes)

    def expect(self, offset, size_bytes):
        self.noted.append(("expect", self.name, offset, offset + size_bytes))


def chunk(folder: Path, samples, *, opened=()):
    """Give a chunk of some samples, with some shards open, and what will be noted of these."""
    source = DatasetSource(request=LoadRequest(path=str(folder), split_part="train"))
    shards, noted = OpenShards(), []
    for name in opened:
        file = source.folder.storage.open(name)
        shards.add(source.shard_names.index(name), Watched(name, file, noted))
    numbers = np.array(samples, dtype=np.int64)
    table, sources = SourceTable((source,)), np.zeros_like(numbers)
    indexes = table.index_numbers(sources, numbers)
    return SampleChunk((source,), shards, sources, indexes, table.excluded(sources, indexes)), noted


def read_all(some, position=0):
    began = []
    found = list(some.read(range(position, position + len(some)), began.append))
    return [sample for sample, _ in found], [place for _, place in found], began


def asked_for(noted):
    return [entry[1:] for entry in noted if entry[0] == "expect"]


@pytest.fixture
def near(tmp_path) -> Path:
    return write_dataset(tmp_path / "near", {"a.tar": texts(0, 30), "b.tar": texts(0, 30)})


def test_neighbours_are_asked_for_as_one_range_whatever_their_order(near):
    some, noted = chunk(near, [7, 3, 29, 4, 33, 8], opened=["a.tar", "b.tar"])
    samples, _, _ = read_all(some)

    expected = raw_samples(near)
    assert samples == [expected[number] for number in (7, 3, 29, 4, 33, 8)]
    reads = [entry[1:] for entry in noted if entry[0] == "read"]
    in_a = [read for read in reads if read[0] == "a.tar"]
    assert len(reads) == 6
    assert asked_for(noted) == [
        ("a.tar", min(start for _, start, _ in in_a), max(stop for *_, stop in in_a)),
        *(read for read in reads if read[0] == "b.tar"),
    ]
    assert [entry[0] for entry in noted[:2]] == ["expect", "expect"]  # before anything is read


def test_samples_far_from_each_other_are_asked_for_apart(tmp_path):
    samples = {f"{n}": {"txt": b"text %d" % n, "bin": bytes(LARGE if n % 2 else 10), "json": b"[]"} for n in range(6)}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples}, config=TEXT_AND_JSON)
    some, noted = chunk(folder, [0, 2, 4], opened=["a.tar"])
    read_all(some)
    assert asked_for(noted) == [entry[1:] for entry in noted if entry[0] == "read"]


def test_of_a_sample_whose_parts_lie_apart_nothing_is_asked_for(tmp_path):
    samples = {f"{n}": {"txt": b"text", "bin": bytes(LARGE), "json": b"[]"} for n in range(3)}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples}, config=TEXT_AND_JSON)
    some, noted = chunk(folder, [0, 1, 2], opened=["a.tar"])
    read_all(some)
    assert all(start == stop for _, start, stop in asked_for(noted))


def test_shards_are_opened_and_checked_only_when_their_turn_comes(near):
    some, noted = chunk(near, [0, 31, 1], opened=["b.tar"])
    samples = some.read(range(3), lambda position: None)
    next(samples)
    assert asked_for(noted) == [("b.tar", *asked_for(noted)[0][1:])]
    source = DatasetSource(request=LoadRequest(path=str(near), split_part="train"))
    shards = OpenShards()
    later = SampleChunk((source,), shards, np.zeros(2, np.int64), np.array([0, 31])).read(
        range(2), lambda position: None
    )
    next(later)
    assert (shards.find(0) is not None, shards.find(1) is not None) == (True, False)


@pytest.mark.parametrize(("ahead_bytes", "times"), [(1, [30]), (5_000, range(4, 9)), (1 << 30, [1])])
def test_more_is_asked_for_when_what_was_asked_for_is_read(near, monkeypatch, ahead_bytes, times):
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


def test_each_sample_comes_with_its_position_and_is_said_to_begin_before_it_is_read(near):
    leave_out(near, "a.tar/003")
    some, noted = chunk(near, [2, 3, 4], opened=["a.tar"])
    began = []
    found = some.read(range(100, 103), began.append)
    assert next(found)[1] == 100
    assert began == [100]
    assert next(found) == (SKIPPED, 101)
    (source, index, shard, key, parts), position = next(found)
    assert (source, index, shard, key, position) == (0, 4, "a.tar", "004", 102)
    assert parts == raw_samples(near)[4][4]
    assert began == [100, 102]
    assert len([entry for entry in noted if entry[0] == "read"]) == 2
