"""The locations of many samples at once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from loader.errors import FormatError
from loader.format.index import locations
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.locations import SampleLocations, SampleLocator
from loader.format.index.shard_index import index_shard
from loader.format.index.writer import IndexWriter
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import END, member

FAR = 65 * 1024  # more than the largest gap that is read over


@pytest.fixture(autouse=True, params=["one by one", "together"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with both ways of locating samples."""
    monkeypatch.setattr(locations, "_MIN_VECTORISED", 1000 if request.param == "one by one" else 0)


def indexed(folder: Path, shards: dict[str, list[tuple[bytes, bytes]]]) -> DatasetIndex:
    """Write shards, each a list of ``(member, content)``, and index them."""
    storage = LocalStorage(folder)
    with IndexWriter(storage, ".nv-meta/index/u") as writer:
        for name, members in shards.items():
            (folder / name).write_bytes(b"".join(member(*each) for each in members) + END)
            writer.add(storage.stat(name), index_shard(storage, name))
        writer.finish(prepared_by="a test")
    return DatasetIndex(storage, "u")


@pytest.fixture
def index(tmp_path: Path) -> DatasetIndex:
    return indexed(
        tmp_path,
        {
            "a.tar": [(b"0.txt", b"zero"), (b"0.jpg", b"x" * 700), (b"1.txt", b""), (b"\xff\xfe.json", b"{}")],
            "empty.tar": [],
            "b.tar": [(b"0.seg.png", b"y" * 5000), (b"0.txt", b"again")],
            "c.tar": [(b"0.txt", b"c"), (b"1.txt", b"one"), (b"0.json", b"scattered")],
        },
    )


def numbers(*samples: int) -> np.ndarray:
    return np.array(samples, dtype=np.int64)


def parts_of(index: DatasetIndex, found: SampleLocations, row: int) -> list[tuple[str, int, int]]:
    """Return name, offset in the shard and size of the parts of one located sample."""
    rows = range(found.first_part[row], found.first_part[row + 1])
    start = found.start[row]
    return [
        (found.part_name[part], start + found.part_start[part], found.part_stop[part] - found.part_start[part])
        for part in rows
    ]


@pytest.mark.parametrize("samples", [[0, 1, 2, 3, 4, 5], [5, 0, 3], [4], [2, 2, 0, 2], []])
def test_each_sample_of_any_selection_is_found_as_the_index_has_it(index: DatasetIndex, samples: list[int]) -> None:
    found = SampleLocator(index).locate(numbers(*samples))

    assert found.sample == samples
    assert found.key == [index.key(sample) for sample in samples]
    assert [index.shards[shard].name for shard in found.shard] == [index.shard_of(sample).name for sample in samples]
    for row, sample in enumerate(samples):
        expected = [(part.name, part.offset, part.size_bytes) for part in index.parts(sample)]
        assert parts_of(index, found, row) == expected
        assert found.start[row] == min(offset for _, offset, _ in expected)
        assert found.size_bytes[row] == max(offset + size for _, offset, size in expected) - found.start[row]


@pytest.mark.parametrize(
    "keys", [["00", "01", "02", "03"], ["a", "bbb", "02", "03"], ["abc", "de", "f", "gh"], ["é0", "001", "002", "003"]]
)
def test_keys_of_one_length_are_found_where_others_precede_them(tmp_path: Path, keys: list[str]) -> None:
    index = indexed(tmp_path, {"a.tar": [(f"{key}.txt".encode(), key.encode() * 3) for key in keys]})
    for samples in ([2, 3], [3, 2, 3], [0, 1, 2, 3]):
        found = SampleLocator(index, ["txt"]).locate(numbers(*samples))
        assert found.key == [keys[sample] for sample in samples]
        for row, sample in enumerate(samples):
            assert parts_of(index, found, row) == [
                ("txt", index.parts(sample)[0].offset, 3 * len(keys[sample].encode()))
            ]
    assert np.asarray(SampleLocator(index, ["jpg"]).locate(numbers(1, 2)).size_bytes).tolist() == [0, 0]


def test_one_read_of_what_is_located_holds_the_parts(index: DatasetIndex, tmp_path: Path) -> None:
    found = SampleLocator(index).locate(numbers(4, 0))
    contents = []
    for row, shard in enumerate(("c.tar", "a.tar")):
        data = (tmp_path / shard).read_bytes()[found.start[row] :][: found.size_bytes[row]]
        parts = range(found.first_part[row], found.first_part[row + 1])
        contents += [(found.part_name[part], data[found.part_start[part] : found.part_stop[part]]) for part in parts]
    assert contents == [("txt", b"c"), ("json", b"scattered"), ("txt", b"zero"), ("jpg", b"x" * 700)]


def test_only_wanted_parts_are_located_and_nothing_around_them_is_read(index: DatasetIndex) -> None:
    found = SampleLocator(index, ["jpg", "json"]).locate(numbers(0, 1, 2, 4))

    names = [[name for name, _, _ in parts_of(index, found, row)] for row in range(4)]
    assert names == [["jpg"], [], ["json"], ["json"]]
    assert list(found.size_bytes) == [700, 0, 2, 9]
    assert found.start[0] == index.parts(0)[1].offset


def test_samples_without_a_wanted_part_are_there_and_empty(index: DatasetIndex) -> None:
    found = SampleLocator(index, []).locate(numbers(3, 0))

    assert (found.key, list(found.size_bytes), found.first_part) == (["0", "0"], [0, 0], [0, 0, 0])


@pytest.mark.parametrize(("gap", "is_one_read"), [(0, True), (FAR - 3 * 1024, True), (FAR, False)])
def test_parts_too_far_apart_for_one_read_are_marked(tmp_path: Path, gap: int, is_one_read: bool) -> None:
    middle = [(b"1.bin", bytes(gap))] if gap else []
    index = indexed(tmp_path, {"s.tar": [(b"0.txt", b"first"), *middle, (b"0.json", b"end")]})

    assert (SampleLocator(index).locate(numbers(0)).size_bytes[0] >= 0) == is_one_read
    assert SampleLocator(index, ["json"]).locate(numbers(0)).size_bytes == [3]


def test_each_gap_between_parts_may_be_read_over(tmp_path: Path) -> None:
    gaps = [(b"0.txt", b"a"), (b"1.bin", bytes(FAR - 3 * 1024)), (b"0.json", b"b"), (b"2.bin", bytes(FAR - 3 * 1024))]
    index = indexed(tmp_path, {"s.tar": [*gaps, (b"0.jpg", b"c")]})

    assert SampleLocator(index).locate(numbers(0)).size_bytes[0] > FAR
    assert SampleLocator(index, ["txt", "jpg"]).locate(numbers(0)).size_bytes == [-1]


def test_a_large_part_alone_is_one_read(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"s.tar": [(b"0.bin", bytes(5 * FAR)), (b"0.txt", b"x")]})

    assert SampleLocator(index).locate(numbers(0)).size_bytes == [5 * FAR + 512 + 1]


# ------------------------------------------------------------------------------------------------ damaged columns


def damage(index: DatasetIndex, column: str, row: int, value: int) -> DatasetIndex:
    path = os.path.join(index.path, f"{column}.npy")
    values = np.load(path)
    values[row] = value
    np.save(path, values)
    return DatasetIndex(LocalStorage(index.path.removesuffix("/.nv-meta/index/u")), "u")


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [
        ("part_name", 0, 5),
        ("part_name", 3, 2**32 - 1),
        ("part_offset", 0, 0),
        ("part_offset", 1, 2**32 - 1),
        ("part_size", 1, 10_000),
        ("part_size", 1, 2**63 - 1),
        ("part_size", 1, 2**63),
        ("part_size", 0, 2**64 - 512),
        ("part_ends", 0, 6),
        ("part_ends", 0, 2**63),
        ("part_ends", 0, 2**64 - 1),
        ("part_ends", 1, 100),
        ("part_ends", 1, 2**40),
        ("key_ends", 0, 100),
        ("key_ends", 1, 2**63),
        ("key_ends", 2, 0),
    ],
)
def test_columns_that_name_no_part_or_no_place_in_the_shard_are_refused(
    index: DatasetIndex, column: str, row: int, value: int
) -> None:
    damaged = SampleLocator(damage(index, column, row, value))

    with pytest.raises(FormatError, match="contradict each other") as caught:
        damaged.locate(np.arange(len(index)))
    assert caught.value.shard == index.path


def test_ends_whose_difference_overflows_to_one_part_are_refused(index: DatasetIndex) -> None:
    damaged = damage(damage(index, "part_ends", 0, 2**63 - 1), "part_ends", 1, 2**63)

    with pytest.raises(FormatError, match="the parts of a sample have no rows"):
        SampleLocator(damaged).locate(numbers(1, 1))


KEYS = {
    "of one length": [b"0001", b"0002", b"0010"],
    "of one character": [b"a", b"b", b"c"],
    "of several lengths": [b"1", b"22", b"333"],
    "of two bytes a character": ["é1".encode(), "è2".encode(), "ê3".encode()],
    "of as many bytes but not characters": ["é1".encode(), b"abc", b"xyz"],
    "that are no text": [b"\xff\xfe", b"\xfe\xff", b"ab"],
    "of 63 bytes": [b"a" * 62 + end for end in (b"1", b"2", b"3")],
    "of 64 bytes": [b"a" * 63 + end for end in (b"1", b"2", b"3")],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("parts", [["txt"], ["txt", "json"], ["json", "txt", "jpg"]], ids=" ".join)
def test_keys_are_those_of_the_index(tmp_path: Path, keys: list[bytes], parts: list[str]) -> None:
    """With parts of one name, or of two in turn, so that each sample has one."""
    members = [(key + b"." + parts[row % len(parts)].encode(), b"x" * (row + 1)) for row, key in enumerate(keys)]
    index = indexed(tmp_path, {"s.tar": members})
    order = [2, 0, 1, 1]
    found = SampleLocator(index).locate(numbers(*order))
    assert found.key == [index.key(sample) for sample in order]
    assert found.part_name == [parts[sample % len(parts)] for sample in order]
    assert list(found.first_part) == [0, 1, 2, 3, 4]
    assert list(found.size_bytes) == list(found.part_stop) == [sample + 1 for sample in order]
    assert list(found.part_start) == [0] * 4
    for row, sample in enumerate(order):
        assert parts_of(index, found, row) == [(p.name, p.offset, p.size_bytes) for p in index.parts(sample)]


def test_what_is_found_of_several_indexes_is_joined(tmp_path: Path) -> None:
    """Of an index with one part a sample, and of one with samples of two parts."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one = indexed(folders[0], {"s.tar": [(b"0.txt", b"a"), (b"1.txt", b"bb")]})
    two = indexed(folders[1], {"s.tar": [(b"0.txt", b"c"), (b"0.json", b"{}"), (b"1.json", b"[]")]})
    found = SampleLocations()
    for index, wanted in ((one, (1, 0)), (two, (0, 1)), (one, (0, 1))):
        SampleLocator(index).locate(numbers(*wanted), found)
    assert found.sample == [1, 0, 0, 1, 0, 1]
    assert found.key == ["1", "0", "0", "1", "0", "1"]
    assert found.first_part == [0, 1, 2, 4, 5, 6, 7]
    assert found.part_name == ["txt", "txt", "txt", "json", "json", "txt", "txt"]
    assert found.size_bytes == [2, 1, 512 + 512 + 2, 2, 1, 2]
    assert [type(value) for value in found.start] == [int] * 6
