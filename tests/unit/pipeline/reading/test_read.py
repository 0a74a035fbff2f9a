"""ReadDataset: bytes of samples in the order of the plan, from any position, with few open files."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from loader.dataset import tar as tar_dataset
from loader.dataset.open_files import OpenFiles
from loader.errors import FormatError, StorageError
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.fresh_shard import open_fresh_shard
from loader.format.index.layout import ShardEntry
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.reading import lane_reader
from loader.pipeline.reading.order_plan import SequentialPlan, ShuffledPlan
from loader.pipeline.reading.read import ReadDataset
from loader.pipeline.reading.sample_chunk import OpenSources
from loader.samples.building.sample_builder import RawSample
from loader.storage.local import LocalStorage
from loader.testing.stage import check_resumes, lane, steps, values
from tests.unit.pipeline.tar_dataset import TEXT_AND_JSON, leave_out, open_source, raw_samples, texts, write_dataset

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 samples in shards of different sizes."""
    sizes = {"a.tar": 13, "b.tar": 1, "c.tar": 0, "d.tar": 20, "e.tar": 6}
    return write_dataset(
        tmp_path_factory.mktemp("read") / "small", {name: texts(0, size) for name, size in sizes.items()}
    )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """9 samples, most of them with needed parts that are far apart."""
    return write_dataset(tmp_path_factory.mktemp("read") / "other", {"far.tar": FAR_APART}, config=TEXT_AND_JSON)


FAR_APART = {f"{n}": {"txt": b"near %d" % n, "bin": bytes(n * 30_000), "json": b"[%d]" % n} for n in range(9)}


def expected_of(small: Path, other: Path) -> list[RawSample]:
    return raw_samples(small) + raw_samples(other, source=1, parts=("txt", "json"))


def reader(*folders: Any, plan: Any = None, **options: Any) -> ReadDataset:
    sources = [open_source(folder, **options) for folder in folders]
    return ReadDataset(sources, plan or SequentialPlan(), worker_config=ALONE)


def shuffled(*, sources: int = 1, repeats: bool = False, buffer: int = 5, deal: int | None = None) -> ShuffledPlan:
    return ShuffledPlan(
        slice_lengths=(3,) * sources,
        shuffle_buffer=buffer,
        epochs_together=(1,) * sources,
        weights=(1.0,) * sources,
        repetitions=None if repeats else (1.0,) * sources,
        deal=deal,
    )


def by_name(samples: list[RawSample]) -> list[RawSample]:
    return sorted(samples, key=lambda sample: (sample[0], sample[1]))


# ------------------------------------------------------------------------------------------------------ bytes and order


def test_a_pass_has_the_bytes_that_tarfile_reads(small: Path, other: Path) -> None:
    expected = expected_of(small, other)
    assert values(reader(small, other)) == expected
    assert values(reader(small, other), 0, 2) + values(reader(small, other), 1, 2) == expected


@pytest.mark.parametrize("count", [1, 3, 64])
def test_a_shuffled_pass_has_each_sample_once(small: Path, other: Path, count: int) -> None:
    dataset = reader(small, other, plan=shuffled(sources=2))
    found = [sample for number in range(count) for sample in values(dataset, number, count)]
    assert found != by_name(found) == expected_of(small, other)


@pytest.mark.parametrize(
    "plan", [SequentialPlan(), SequentialPlan(deal=4), shuffled(sources=2), shuffled(sources=2, repeats=True)]
)
@pytest.mark.sampled(2)
def test_a_restored_lane_continues_and_every_sample_can_be_rebuilt(small: Path, other: Path, plan: Any) -> None:
    check_resumes(reader(small, other, plan=plan), count=2, most=40)


def limit_chunks(monkeypatch: pytest.MonkeyPatch, *, first: int, most: int, growth: int) -> None:
    """Set the sizes of chunks."""
    monkeypatch.setattr(lane_reader, "_FIRST_CHUNK", first)
    monkeypatch.setattr(lane_reader, "_MAX_CHUNK", most)
    monkeypatch.setattr(lane_reader, "_GROWTH", growth)


@pytest.mark.parametrize(("first", "most", "growth"), [(1, 1, 1), (3, 7, 2), (32, 32, 4), (10_000, 10_000, 1)])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_sizes_of_chunks_have_no_effect(
    small: Path, other: Path, monkeypatch: pytest.MonkeyPatch, *, repeats: bool, first: int, most: int, growth: int
) -> None:
    dataset = reader(small, other, plan=shuffled(sources=2, repeats=repeats))
    expected = [steps(dataset, lane(number, 2), most=70) for number in range(2)]
    limit_chunks(monkeypatch, first=first, most=most, growth=growth)
    for together in (1, 3):
        monkeypatch.setattr(lane_reader, "_CHUNKS_ORDERED", together)
        assert [steps(dataset, lane(number, 2), most=70) for number in range(2)] == expected


def test_runs_of_different_seeds_read_in_different_orders(small: Path) -> None:
    dataset = reader(small, plan=shuffled())
    found = []
    for seed in (1, 2):
        of_lane = lane()
        of_lane.seed = seed
        found.append([index for _, index, *_ in (step.value for step in steps(dataset, of_lane, most=50))])
    assert sorted(found[0]) == sorted(found[1]) == list(range(40))
    assert found[0] != found[1]


def test_the_position_is_noted_before_a_sample_is_read(small: Path) -> None:
    noted: list[int] = []

    class Board:
        def note_positions_at(self, path: str) -> Any:
            return noted.append

        def note_lane(self, lane: int) -> None: ...

        def note_hook(self, lane: int) -> None: ...

    of_lane = lane(1, 2)
    of_lane.last_sample = Board()
    running = reader(small).open(of_lane, {"0 read": 5})
    running.next()
    running.load(2)
    assert noted == [5, 5, 2]  # also when it is yielded, as samples that were read together are


# ----------------------------------------------------------------------------------------------------- excluded samples


@pytest.mark.parametrize("plan", [SequentialPlan(), shuffled(), shuffled(repeats=True), shuffled(deal=3)])
def test_excluded_samples_and_shards_are_skipped_in_place(tmp_path: Path, plan: Any) -> None:
    folder = write_dataset(tmp_path / "x", {f"{n}.tar": texts(0, 8) for n in range(4)})
    whole = [step.value for number in range(3) for step in steps(reader(folder, plan=plan), lane(number, 3), most=20)]
    leave_out(folder, "1.tar", "0.tar/003", "3.tar/007", "gone.tar")
    (folder / "1.tar").unlink()  # an excluded shard need not exist

    dataset = reader(folder, plan=plan, excluded_later=True)
    found = [step.value for number in range(3) for step in steps(dataset, lane(number, 3), most=20)]

    expected = [
        SKIPPED if sample[2] == "1.tar" or f"{sample[2]}/{sample[3]}" in ("0.tar/003", "3.tar/007") else sample
        for sample in whole
    ]
    assert found == expected
    assert SKIPPED in found
    check_resumes(dataset, count=3, most=15)


def test_an_excluded_sample_is_rebuilt_as_skipped(small: Path, tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 3)}, exclude=["a.tar/001"])
    running = reader(folder, excluded_later=True).open(lane(), {})
    assert [running.load(position) is SKIPPED for position in range(3)] == [False, True, False]


# ---------------------------------------------------------------------------------------------------------------- parts


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads from shards, ``(offset, size)``, in order."""
    found = []

    def opened(storage: LocalStorage, index: DatasetIndex, shard: ShardEntry) -> Noting:
        file = open_fresh_shard(storage, index, shard)
        file_read = file.read_at

        def read_at(offset: int, size_bytes: int) -> bytes:
            found.append((offset, size_bytes))
            data: bytes = file_read(offset, size_bytes)
            return data

        return Noting(file, read_at)

    monkeypatch.setattr(tar_dataset, "open_fresh_shard", opened)
    return found


class Noting:
    """An open file that logs its reads."""

    def __init__(self, file: Any, read_at: Callable[..., Any]) -> None:
        self._file = file
        self.read_at = read_at
        self.expect = file.expect
        self.close = file.close


def test_a_sample_of_any_size_is_one_read(tmp_path: Path, reads: Any) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": FAR_APART})
    assert values(reader(folder)) == raw_samples(folder)
    assert len(reads) == 9


def test_only_the_bytes_of_needed_parts_are_read(other: Path, reads: Any) -> None:
    assert values(reader(other)) == raw_samples(other, parts=("txt", "json"))
    assert len(reads) == 3 + 2 * 6  # the gaps of the first three are small enough to read over
    assert sum(size for _, size in reads) < 3 * 65_000 + 6 * 100


# ----------------------------------------------------------------------------------------------------------- the shards


def test_more_shards_than_can_be_open_are_read(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {f"{n}.tar": texts(0, 4) for n in range(9)})
    dataset = reader(folder, plan=shuffled(repeats=True, buffer=100))
    dataset.opened = OpenSources(dataset.sources, OpenFiles(3))
    running = dataset.open(lane(), {})
    expected = {sample[1]: sample for sample in raw_samples(folder)}
    most = 0
    for _ in range(80):
        sample, _ = running.next()
        assert sample == expected[sample[1]]
        most = max(most, open_shards_of(folder))
    assert most == 3


def open_shards_of(folder: Path) -> int:
    names = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum(name.startswith(f"{folder}/") and name.endswith(".tar") for name in names)


def test_a_missing_shard_is_named_when_it_is_read(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2), "b.tar": texts(0, 2)})
    (folder / "b.tar").rename(folder / "gone.tar")
    running = reader(folder).open(lane(), {})
    running.next()
    running.next()
    for _ in range(2):  # the lane does not move past a sample that failed
        with pytest.raises(StorageError, match="No such file") as caught:
            running.next()
        assert caught.value.path == str(folder / "b.tar")
        assert running.state() == {"0 read": 2}
    (folder / "gone.tar").rename(folder / "b.tar")
    assert running.next()[0] == raw_samples(folder)[2]


def test_reading_continues_at_the_sample_that_failed(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    shutil.copytree(small, folder)
    gone = folder / "d.tar"
    gone.rename(tmp_path / "d.tar")
    running = reader(folder).open(lane(), {})
    found = [running.next() for _ in range(14)]
    for _ in range(3):
        with pytest.raises(StorageError):
            running.next()
    (tmp_path / "d.tar").rename(gone)
    found += [running.next() for _ in range(26)]
    assert [raw for raw, _ in found] == raw_samples(folder)
    assert [position for _, position in found] == list(range(40))
    for _ in range(2):
        with pytest.raises(StopIteration):
            running.next()


def test_a_shard_of_another_size_is_named_when_it_is_read(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 2), "b.tar": texts(0, 2)})
    with (folder / "b.tar").open("ab") as shard:
        shard.write(bytes(512))
    running = reader(folder).open(lane(), {})
    running.next()
    running.next()
    with pytest.raises(FormatError, match="it had 10240 bytes, now 10752") as caught:
        running.next()
    assert caught.value.shard == str(folder / "b.tar")


@pytest.mark.parametrize("far", [False, True], ids=["one read", "several"])
def test_a_shard_cut_while_open_yields_no_partial_sample(tmp_path: Path, far: bool) -> None:
    middle = {"bin": bytes(90_000)} if far else {}
    samples = {f"{n}": {"txt": b"text %d" % n, **middle, "json": b"[1]"} for n in range(3)}
    folder = write_dataset(tmp_path / "x", {"a.tar": samples}, config=TEXT_AND_JSON)
    running = reader(folder).open(lane(), {})
    running.next()
    data = (folder / "a.tar").read_bytes()
    os.truncate(folder / "a.tar", data.rindex(b"[1]") + 2)
    running.next()
    with pytest.raises(FormatError, match=r"bytes in the index, the shard ends after \d+ of them") as caught:
        running.next()
    assert caught.value.shard == str(folder / "a.tar")
    assert caught.value.offset == data.rindex(b"[1]" if far else b"text 2")


@pytest.mark.parametrize("is_small", [True, False])
def test_chunks_of_small_samples_end_with_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    limit_chunks(monkeypatch, first=8, most=32, growth=2)
    if not is_small:
        monkeypatch.setattr(lane_reader, "COALESCED_BYTES", 48)
    dataset = reader(write_dataset(tmp_path / "x", {"a.tar": texts(0, 300)}), plan=shuffled(repeats=True))
    running = cast("Any", dataset.open(lane(), {}))
    ends: list[int] = []
    for _ in range(400):
        running.next()
        ends += [] if ends and ends[-1] == running.located else [running.located]
    window = 16 * 3  # slices of 3 samples; the pass over 300 samples ends with a short one
    expected = [8, 24, 48, 96, 144, 192, 240, 288, 300, 348, 396, 444]
    assert window == expected[3] - expected[2]
    if not is_small:
        expected = [8, 24, 48, 80, 96, 128, 144, 176, 192, 224, 240, 272, 300, 332, 348, 380, 396, 428]
    assert ends == expected


def test_a_pickled_reader_drops_its_open_files(small: Path) -> None:
    dataset = reader(small)
    running = dataset.open(lane(), {})
    running.next()
    again = pickle.loads(pickle.dumps(dataset))
    assert "opened" not in vars(again)
    assert values(again) == raw_samples(small)
    assert len(pickle.dumps(dataset)) < 3000


# ------------------------------------------------------------------------------------------------------ its description


def test_a_printed_reader_lists_its_sources(small: Path, other: Path) -> None:
    dataset = reader(small, other, plan=shuffled(sources=2))
    assert str(dataset).splitlines()[1:] == [f"├─ {small}, train: 40 samples", f"└─ {other}, train: 9 samples"]
    assert (dataset.items, len(dataset), dataset.repeats, dataset.starts_over) == (49, 49, False, False)
    assert [source["samples"] for source in dataset.identity()[2:]] == [40, 9]
    endless = reader(small, plan=shuffled(repeats=True))
    assert (endless.items, endless.repeats) == (None, True)
    assert reader(small).starts_over
