"""Open shards, and coalesced reads: the same bytes by fewer reads, and errors at the same sample."""

from __future__ import annotations

import os
import random
import resource
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

from loader.dataset.open_files import OpenFiles
from loader.errors import FormatError
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.sample_chunk import OpenSources, SampleChunk
from loader.pipeline.reading.shard_reads import read_coalesced
from loader.storage.local import LocalStorage
from loader.storage.protocol import ReadableFile
from tests.unit.pipeline.reading.stub_file import StubFile
from tests.unit.pipeline.tar_dataset import raw_samples, texts, write_dataset

BYTES = 200_000
COUNT = 300


class Files:
    """Three files that log their reads."""

    def __init__(self, folder: Path) -> None:
        self.storage = LocalStorage(folder)
        self.opened: dict[int, Noted] = {}
        self.reads: list[tuple[int, int, int]] = []
        self.expected: list[tuple[int, int, int]] = []
        self.contents = [np.random.default_rng(number).bytes(BYTES) for number in range(3)]
        for number, content in enumerate(self.contents):
            (folder / f"{number}").write_bytes(content)

    def open(self, number: int) -> Noted:
        if number not in self.opened:
            self.opened[number] = Noted(self.storage.open(f"{number}"), number, self)
        return self.opened[number]


class Noted(StubFile):
    def __init__(self, file: ReadableFile, number: int, files: Files) -> None:
        self.file, self.number, self.files = file, number, files

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        self.files.reads.append((self.number, offset, size_bytes))
        return self.file.read_at(offset, size_bytes)

    def expect(self, offset: int, size_bytes: int) -> None:
        self.files.expected.append((self.number, offset, size_bytes))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def some_samples(*, most_bytes: int = 300, seed: int = 0, count: int = COUNT) -> Any:
    """Draw ranges in any order, some of them twice, some empty."""
    random = np.random.default_rng(seed)
    size = random.integers(0, most_bytes, count)
    file, start = random.integers(0, 3, count), random.integers(0, BYTES - most_bytes, count)
    again = random.integers(0, count, count // 10)
    return tuple(np.append(column, column[again]) for column in (file, start, size))


def read(files: Files, samples: Any, began: Any = None) -> Any:
    begin = partial((began if began is not None else []).append, "begun")
    return read_coalesced(*samples, open_file=files.open, begin=begin)


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_are_those_of_each_sample_and_the_reads_are_few(files: Files, seed: int) -> None:
    samples = some_samples(seed=seed)
    began: list[str] = []
    found = read(files, samples, began)
    expected = [files.contents[file][start : start + size] for file, start, size in zip(*samples, strict=True)]
    assert found == expected
    assert len(files.reads) <= len(expected) // 2
    assert files.expected == files.reads
    assert began == ["begun"]


def test_only_samples_and_the_gaps_between_neighbours_are_read(files: Files) -> None:
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
        (np.zeros(100, np.int64), np.arange(100) * 1000, np.full(100, 12_000)),
        (np.arange(100) % 3, np.arange(100) * 20_000, np.full(100, 10)),
        (np.zeros(100, np.int64), np.arange(100) * 10, np.append(np.full(99, 10), -1)),
    ],
    ids=["few", "none", "large", "far apart", "of parts far apart"],
)
def test_other_samples_are_not_coalesced(files: Files, samples: tuple[Any, Any, Any]) -> None:
    began: list[str] = []
    assert read(files, samples, began) is None
    assert (files.reads, began) == ([], [])


def test_samples_of_a_missing_or_short_file_are_not_coalesced(files: Files, tmp_path: Path) -> None:
    samples = some_samples()
    os.truncate(tmp_path / "1", 150_000)
    assert read(files, samples) is None
    files.opened.clear()
    (tmp_path / "2").unlink()
    assert read(files, samples) is None


# ----------------------------------------------------------------------------------------------------------- in a chunk


def chunk_of(folder: Any, numbers: Any) -> Any:
    source = DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train"))
    numbers = np.array(numbers, dtype=np.int64)
    sources = np.zeros_like(numbers)
    return SampleChunk((source,), OpenFiles(), sources, OpenSources((source,)).index_numbers(sources, numbers))


@pytest.mark.parametrize("parts", [("txt", "json"), ("json",)])
def test_coalesced_and_single_reads_yield_the_same_samples(tmp_path: Path, parts: Any) -> None:
    samples = {key: {part: some[part] for part in parts} for key, some in texts(0, 90).items()}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples, "b.tar": samples})
    numbers = np.random.default_rng(1).permutation(180)
    expected = raw_samples(folder)
    began: list[int] = []
    found = list(chunk_of(folder, numbers).read(range(7, 187), began.append))
    assert found == [(expected[number], position) for position, number in enumerate(numbers, 7)]
    assert began == [7]  # before the coalesced read; the reader of the lane notes each sample
    alone = [next(chunk_of(folder, [number]).read([position], bool)) for position, number in enumerate(numbers, 7)]
    assert alone == found


def test_a_shard_cut_short_raises_at_the_sample_that_it_cuts(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 100)})
    some = chunk_of(folder, range(100))
    dataset = DatasetSource(request=LoadRequest(ref=DatasetRef(str(folder)), split_part="train")).folder
    opened = dataset.open_shard(dataset.index.shards[0])
    some._shards.add(0, opened)  # open it before it is cut
    os.truncate(folder / "a.tar", 70_000)
    found, samples = [], some.read(range(100), bool)
    with pytest.raises(FormatError, match="the shard ends after") as error:
        found.extend(iter(samples))
    whole = [raw for raw, _ in found]
    assert 20 < len(whole) < 60
    assert whole == raw_samples(folder)[: len(whole)]
    assert "a.tar" in str(error.value)


# ---------------------------------------------------------------------------------------------------------- open shards


class File(StubFile):
    is_open = True

    def close(self) -> None:
        assert self.is_open
        self.is_open = False


def add_file(shards: OpenFiles, name: int) -> File:
    file = File()
    assert shards.add(name, file) is file
    return file


def names_of(shards: OpenFiles, files: Mapping[int, Any]) -> list[int]:
    return [name for name in files if shards.find(name) is not None]


def test_an_open_file_is_found_by_its_number() -> None:
    shards = OpenFiles(9)
    one, two = File(), File()
    assert shards.add(1, one) is one
    shards.add(1 << 32, two)
    assert (shards.find(1), shards.find(1 << 32), shards.find(0)) == (one, two, None)


def test_the_file_opened_first_is_dropped_when_there_are_too_many() -> None:
    shards = OpenFiles(3)
    files = {}
    for number in range(7):
        files[number] = ref(add_file(shards, number))
        first = max(0, number - 2)
        assert names_of(shards, files) == list(range(first, number + 1))
    assert [file() is not None for file in files.values()] == [False] * 4 + [True] * 3


def test_a_file_that_is_dropped_while_another_thread_reads_from_it_gives_its_own_bytes(tmp_path: Path) -> None:
    storage, shards = LocalStorage(tmp_path), OpenFiles(2)
    contents = {number: f"{number:02}".encode() * 2000 for number in range(40)}
    for number, content in contents.items():
        (tmp_path / str(number)).write_bytes(content)

    def read(seed: int) -> list[int]:
        chosen = random.Random(seed)
        wrong = []
        for _ in range(2000):
            number = chosen.randrange(len(contents))
            file = shards.find(number) or shards.add(number, storage.open(str(number)))
            if file.read_at(0, 4000) != contents[number]:
                wrong.append(number)
        return wrong

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # without this, threads seldom meet
    try:
        with ThreadPoolExecutor(4) as threads:
            assert [*threads.map(read, range(4))] == [[]] * 4
    finally:
        sys.setswitchinterval(interval_s)


def test_a_closed_file_can_be_opened_again() -> None:
    shards = OpenFiles(1)
    for _ in range(3):
        for name in (0, 1):
            file = add_file(shards, name)
            assert shards.find(name) is file


def test_all_files_can_be_closed() -> None:
    shards = OpenFiles()
    files = [ref(add_file(shards, number)) for number in range(5)]
    shards.close()
    shards.close()
    assert not any(file() for file in files)
    assert shards.find(0) is None


@pytest.mark.parametrize(("may_open", "most"), [(20, 16), (1024, 256), (1 << 20, 4096)])
def test_a_quarter_of_the_limit_on_open_files_is_used(
    may_open: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (may_open, 1 << 20))
    shards = OpenFiles(share=4)
    files = [ref(add_file(shards, number)) for number in range(most + 3)]
    assert sum(file() is not None for file in files) == most
