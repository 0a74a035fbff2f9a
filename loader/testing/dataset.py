"""The promises of every dataset, as tests.

A module derives a class from :class:`DatasetContract`, with two fixtures: ``dataset`` is the dataset as
:func:`~loader.notebook.opened_dataset.open_dataset` opens it, and ``content`` what its samples are.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from ..notebook.opened_dataset import OpenedDataset
from ..storage import open_parent

_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetContent:
    """The samples of a dataset, in the order of their numbers.

    Attributes:
        keys: The key of each sample, ``<shard>/<key>``.
        parts: The parts of each sample: bytes by name.
        excluded: Numbers of the samples that the split file excludes.
    """

    keys: Sequence[str]
    parts: Sequence[Mapping[str, bytes]]
    excluded: Sequence[int] = ()


def key_of(sample: Any) -> str:
    """Return the key of a sample: of a dict, or of an object."""
    key: str = sample["__key__"] if isinstance(sample, dict) else sample.__key__
    return key


class DatasetContract:
    """The promises that do not depend on the format of a dataset, or on where it is; of four samples or more."""

    def test_each_number_has_its_sample(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        assert len(dataset) == len(content.keys)
        assert [dataset.key(index) for index in range(len(dataset))] == list(content.keys)
        assert [dataset.parts(index) for index in range(len(dataset))] == list(content.parts)
        assert {*dataset.part_names} >= {*chain.from_iterable(content.parts)}
        assert key_of(dataset[0]) == content.keys[0]
        assert key_of(dataset[-1]) == content.keys[-1]
        assert list(map(key_of, dataset[1:3])) == list(content.keys[1:3])

    def test_a_number_out_of_range_is_an_error(self, dataset: OpenedDataset) -> None:
        for index in (len(dataset), -len(dataset) - 1):
            for read in (dataset.__getitem__, dataset.parts, dataset.where_is, dataset.key):
                with pytest.raises(IndexError, match=f"there is no sample {index}: the dataset has {len(dataset)}"):
                    read(index)

    def test_a_batch_has_the_order_of_its_numbers(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        numbers = [len(dataset) - 1, 0, 1, 0]
        assert list(map(key_of, dataset.__getitems__(numbers))) == [content.keys[index] for index in numbers]

    def test_ranges_of_parts_are_cut_at_their_ends(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        for name, data in content.parts[1].items():
            for start, stop in ((0, None), (0, 1), (1, 3), (2, 1 << 40), (len(data), None), (3, 2)):
                assert dataset.read(1, name, start, stop) == data[start:stop], (name, start, stop)

    def test_a_negative_offset_is_an_error(self, dataset: OpenedDataset) -> None:
        for start, stop in ((-1, None), (0, -1)):
            with pytest.raises(ValueError, match="expected offsets of at least 0"):
                dataset.read(0, dataset.part_names[0], start, stop)

    def test_a_missing_part_is_an_error_that_names_the_others(self, dataset: OpenedDataset) -> None:
        with pytest.raises(KeyError, match=f"no part 'nowhere'; the sample has: .*{dataset.part_names[0]}"):
            dataset.read(0, "nowhere")

    def test_a_key_finds_its_sample(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        for index, key in enumerate(content.keys):
            assert index in dataset.find(key)
            if content.keys.count(key) == 1:
                assert dataset.find(key) == [index]
        unique = next(key for key in content.keys if content.keys.count(key) == 1)
        assert key_of(dataset[unique]) == unique

    def test_an_unknown_key_is_an_error(self, dataset: OpenedDataset) -> None:
        assert dataset.find("no such key") == []
        assert "no such key" not in dataset
        assert dataset.key(0) in dataset
        with pytest.raises(KeyError, match="one sample with the key 'no such key', found none"):
            dataset["no such key"]

    def test_the_bytes_of_a_sample_lie_where_it_says(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        for index in (0, len(dataset) - 1):
            first = dataset.where_is(index)
            located = dict(content.parts[index])
            for location in (first, *first.joined):
                storage, name = open_parent(location.shard)
                for part, at in location.parts.items():
                    if at.offset is None:
                        continue
                    data = storage.read(name, at.offset, at.offset + at.size_bytes)
                    assert {data, data.strip()} & {*located.values()}, part  # a line has its line break

    def test_a_copy_by_pickle_reads_the_same_samples(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        _ = dataset[0]  # opens files
        copied = pickle.loads(pickle.dumps(dataset))
        assert copied.parts(1) == content.parts[1]
        assert list(map(key_of, copied.__getitems__([1, 0]))) == [content.keys[1], content.keys[0]]

    def test_threads_read_at_the_same_time(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        numbers = [*range(len(dataset))] * _THREADS
        with ThreadPoolExecutor(_THREADS) as threads:
            assert list(threads.map(lambda index: key_of(dataset[index]), numbers)) == [
                content.keys[index] for index in numbers
            ]
            assert list(threads.map(dataset.parts, numbers)) == [content.parts[index] for index in numbers]

    def test_iteration_omits_excluded_samples_unless_asked(
        self, dataset: OpenedDataset, content: DatasetContent
    ) -> None:
        assert dataset.excluded.tolist() == sorted(content.excluded)
        kept = [key for index, key in enumerate(content.keys) if index not in content.excluded]
        assert list(map(key_of, dataset)) == kept
        assert list(map(key_of, dataset.iterate(include_excluded=True))) == list(content.keys)

    def test_a_selection_numbers_its_samples_from_0(self, dataset: OpenedDataset, content: DatasetContent) -> None:
        numbers = [index for index, key in enumerate(content.keys) if content.keys.count(key) == 1][1::2]
        chosen = dataset.select(keys=[content.keys[index] for index in numbers])
        assert [chosen.key(index) for index in range(len(chosen))] == [content.keys[index] for index in numbers]
        assert [chosen.parts(index) for index in range(len(chosen))] == [content.parts[index] for index in numbers]
        assert chosen.find(content.keys[numbers[-1]]) == [len(chosen) - 1]
        assert chosen.find(content.keys[numbers[0] - 1]) == []
        assert pickle.loads(pickle.dumps(chosen)).key(0) == content.keys[numbers[0]]
