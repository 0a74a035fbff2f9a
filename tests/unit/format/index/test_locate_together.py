"""The locations of a few samples of each of several datasets, at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.locations import SampleLocations, SampleLocator, locate_together
from tests.unit.format.index.test_locations import indexed, numbers, parts_of


def dataset(folder: Path, shards: int, samples: int, *, name: bytes = b"txt", key: str = "{:04d}") -> DatasetIndex:
    folder.mkdir()
    return indexed(
        folder,
        {
            f"{shard}.tar": [
                (key.format(100 * shard + sample).encode() + b"." + name, b"x" * (sample * 37 % 600))
                for sample in range(samples)
            ]
            for shard in range(shards)
        },
    )


@pytest.fixture
def indexes(tmp_path: Path) -> list[DatasetIndex]:
    return [dataset(tmp_path / "a", 1, 30), dataset(tmp_path / "b", 4, 9, name=b"json"), dataset(tmp_path / "c", 2, 5)]


def test_the_locations_are_those_of_the_locators_one_by_one(indexes: list[DatasetIndex]) -> None:
    chosen = [numbers(0, 29, 3, 3), numbers(35, 0, 9, 8), numbers(7)]
    locators = [SampleLocator(index) for index in indexes]
    found = locate_together([*zip(locators, chosen, strict=True)])
    assert found is not None
    expected = SampleLocations()
    for locator, samples in zip(locators, chosen, strict=True):
        locator.locate(samples, expected)
    assert (found.sample, found.key, found.part_name) == (expected.sample, expected.key, expected.part_name)
    for name in ("shard", "start", "size_bytes", "first_part", "part_start", "part_stop"):
        assert list(getattr(found, name)) == list(getattr(expected, name)), name
    assert found.is_one_part_each()
    assert parts_of(indexes[1], found, 4) == [
        (part.name, part.offset, part.size_bytes) for part in indexes[1].parts(35)
    ]


def test_samples_that_are_not_one_wanted_part_are_left_to_the_locators(
    indexes: list[DatasetIndex], tmp_path: Path
) -> None:
    (tmp_path / "pairs").mkdir()
    pairs = indexed(tmp_path / "pairs", {"0.tar": [(b"0000.txt", b"a"), (b"0000.jpg", b"b"), (b"0001.txt", b"c")]})
    first = (SampleLocator(indexes[0]), numbers(1, 2))
    assert locate_together([first, (SampleLocator(pairs), numbers(0))]) is None
    assert locate_together([first, (SampleLocator(pairs, ["jpg"]), numbers(1))]) is None
    assert locate_together([first, (SampleLocator(pairs), numbers(1))]) is not None
    assert locate_together([first, (SampleLocator(dataset(tmp_path / "long", 1, 3, key="{:06d}")), numbers(1))]) is None


def test_a_fault_of_an_index_is_left_to_the_locators(indexes: list[DatasetIndex], tmp_path: Path) -> None:
    damaged = dataset(tmp_path / "damaged", 1, 8)
    offsets = np.load(tmp_path / "damaged/.nv-meta/index/u/part_offset.npy")
    offsets[3] = 1 << 20
    np.save(tmp_path / "damaged/.nv-meta/index/u/part_offset.npy", offsets)
    groups = [(SampleLocator(indexes[0]), numbers(1)), (SampleLocator(damaged), numbers(2))]
    assert locate_together(groups) is not None
    assert locate_together([*groups, (SampleLocator(damaged), numbers(3))]) is None
