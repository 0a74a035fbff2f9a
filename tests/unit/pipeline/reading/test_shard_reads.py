"""Small samples near each other are read a range at a time: the same bytes by fewer reads, and no error sooner."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest

from loader.errors import FormatError
from loader.format.documents.load_request import LoadRequest
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.read import SourceTable
from loader.pipeline.reading.sample_chunk import SampleChunk
from loader.pipeline.reading.shard_reads import OpenShards, read_coalesced
from loader.storage.local import LocalStorage
from tests.unit.pipeline.tar_dataset import raw_samples, texts, write_dataset

BYTES = 200_000
COUNT = 300


class Files:
    """Some files, and what is read of them."""

    def __init__(self, folder):
        self.storage, self.opened, self.reads, self.expected = LocalStorage(folder), {}, [], []
        self.contents = [np.random.default_rng(number).bytes(BYTES) for number in range(3)]
        for number, content in enumerate(self.contents):
            (folder / f"{number}").write_bytes(content)

    def open(self, number):
        if number not in self.opened:
            self.opened[number] = Noted(self.storage.open(f"{number}"), number, self)
        return self.opened[number]


class Noted:
    def __init__(self, file, number, files):
        self.file, self.number, self.files = file, number, files

    def read_at(self, offset, size_bytes):
        self.files.reads.append((self.number, offset, size_bytes))
        return self.file.read_at(offset, size_bytes)

    def expect(self, offset, size_bytes):
        self.files.expected.append((self.number, offset, size_bytes))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def some_samples(*, most_bytes=300, seed=0, count=COUNT):
    """Give samples in any order, some of them twice, some empty."""
    random = np.random.default_rng(seed)
    size = random.integers(0, most_bytes, count)
    file, start = random.integers(0, 3, count), random.integers(0, BYTES - most_bytes, count)
    again = random.integers(0, count, count // 10)
    return tuple(np.append(column, column[again]) for column in (file, start, size))


def read(files, samples, began=None):
    begin = partial((began if began is not None else []).append, "begun")
    return read_coalesced(*samples, open_file=files.open, begin=begin)


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_are_those_of_each_sample_and_the_reads_are_few(files, seed):
    samples, began = some_samples(seed=seed), []
    found = read(files, samples, began)
    expected = [files.contents[file][start : start + size] for file, start, size in zip(*samples, strict=True)]
    assert found == expected
    assert len(files.reads) <= len(expected) // 2
    assert files.expected == files.reads
    assert began == ["begun"]


def test_no_more_is_read_than_the_samples_and_the_gaps_between_neighbours(files):
    start = np.concatenate([np.arange(40) * 1000, 100_000 + np.arange(40) * 1000])
    size = np.full(80, 150)
    found = read(files, (np.ones(80, np.int64), start, size))
    assert files.reads == [(1, 0, 39_150), (1, 100_000, 39_150)]
    assert found == [files.contents[1][first : first + 150] for first in start]


@pytest.mark.parametrize(
    "samples",
    [
        some_samples(count=20),
        tuple(np.zeros(0, np.int64) for _ in range(3)),
        (np.zeros(100, np.int64), np.arange(100) * 1000, np.full(100, 6000)),
        (np.arange(100) % 3, np.arange(100) * 20_000, np.full(100, 10)),
        (np.zeros(100, np.int64), np.arange(100) * 10, np.append(np.full(99, 10), -1)),
    ],
    ids=["few", "none", "large", "far apart", "of parts far apart"],
)
def test_other_samples_are_left_to_be_read_one_by_one(files, samples):
    began = []
    assert read(files, samples, began) is None
    assert (files.reads, began) == ([], [])


def test_where_a_file_is_missing_or_short_all_are_left_to_be_read_one_by_one(files, tmp_path):
    samples = some_samples()
    os.truncate(tmp_path / "1", 150_000)
    assert read(files, samples) is None
    files.opened.clear()
    (tmp_path / "2").unlink()
    assert read(files, samples) is None


# ------------------------------------------------------------------------------------------------- in a chunk


def chunk_of(folder, numbers):
    source = DatasetSource(request=LoadRequest(path=str(folder), split_part="train"))
    numbers = np.array(numbers, dtype=np.int64)
    sources = np.zeros_like(numbers)
    return SampleChunk((source,), OpenShards(), sources, SourceTable((source,)).index_numbers(sources, numbers))


@pytest.mark.parametrize("parts", [("txt", "json"), ("json",)])
def test_a_chunk_gives_the_same_samples_whether_they_are_read_together_or_not(tmp_path, parts):
    samples = {key: {part: some[part] for part in parts} for key, some in texts(0, 90).items()}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples, "b.tar": samples})
    numbers = np.random.default_rng(1).permutation(180)
    expected, began = raw_samples(folder), []
    found = list(chunk_of(folder, numbers).read(range(7, 187), began.append))
    assert found == [(expected[number], position) for position, number in enumerate(numbers, 7)]
    assert began == [7, *range(7, 187)]  # before all are read, and before each is worked on
    alone = [next(chunk_of(folder, [number]).read([position], bool)) for position, number in enumerate(numbers, 7)]
    assert alone == found


def test_a_shard_that_is_cut_short_is_told_of_at_the_sample_that_it_cuts(tmp_path):
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 100)})
    some = chunk_of(folder, range(100))
    opened = DatasetSource(request=LoadRequest(path=str(folder), split_part="train")).open_shard(0)
    some._shards.add(0, opened)  # it was whole when it was opened
    os.truncate(folder / "a.tar", 70_000)
    found, samples = [], some.read(range(100), bool)
    with pytest.raises(FormatError, match="the shard ends after") as error:
        found.extend(iter(samples))
    whole = [raw for raw, _ in found]
    assert 20 < len(whole) < 60
    assert whole == raw_samples(folder)[: len(whole)]
    assert "a.tar" in str(error.value)
