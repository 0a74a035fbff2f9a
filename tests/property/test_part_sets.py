"""The table of part sets equals a count of sets in Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given, settings, strategies as st

from loader.parts.part_sets import PartSetCounter, PartSets, missing_in_rows

NAMES = ("jpg", "txt", "json", "a.png", "webp")
SHARDS = st.lists(
    st.lists(st.lists(st.integers(0, len(NAMES) - 1), min_size=1, max_size=4), max_size=6), min_size=1, max_size=8
)


def count(shards: list[list[list[int]]], *, rows_at_once: int, max_sets: int = 100) -> PartSets:
    """Count in blocks of so many parts; examples are the numbers of samples."""
    counter = PartSetCounter(max_sets=max_sets, rows_at_once=rows_at_once)
    for shard in shards:
        ends = np.cumsum([len(sample) for sample in shard]).astype(np.uint64)
        counter.add(ends, np.array([part for sample in shard for part in sample], np.uint32))
    return counter.finish(NAMES, str)


@given(shards=SHARDS, rows_at_once=st.integers(1, 40))
@settings(deadline=None)
def test_the_table_counts_the_samples_and_shards_of_each_set(shards: list[list[list[int]]], rows_at_once: int) -> None:
    table = count(shards, rows_at_once=rows_at_once)
    samples = [(number, frozenset(sample)) for number, shard in enumerate(shards) for sample in shard]
    expected = Counter(parts for _, parts in samples)
    assert {frozenset(map(NAMES.index, each.parts)): each.samples for each in table.sets} == expected
    assert (table.samples, table.others) == (len(samples), 0)
    for each in table.sets:
        parts = frozenset(map(NAMES.index, each.parts))
        assert each.shards == len({shard for shard, of_sample in samples if of_sample == parts})
        assert each.first_sample == [of_sample for _, of_sample in samples].index(parts)
        assert (each.example, list(each.parts)) == (str(each.first_sample), sorted(each.parts))


@given(shards=SHARDS, wanted=st.sets(st.integers(0, len(NAMES) - 1), min_size=1))
@settings(deadline=None)
def test_missing_parts_are_counted_with_the_first_example(shards: list[list[list[int]]], wanted: set[int]) -> None:
    samples = [set(sample) for shard in shards for sample in shard]
    lacks = [number for number, sample in enumerate(samples) if not sample & wanted]
    found = count(shards, rows_at_once=7).coverage({"field": [NAMES[number] for number in wanted]})
    assert {name: (each.samples, each.example) for name, each in found.items()} == (
        {"field": (len(lacks), str(lacks[0]))} if lacks else {}
    )
    ends = np.cumsum([len(sample) for shard in shards for sample in shard]).astype(np.uint64)
    ids = np.array([part for shard in shards for sample in shard for part in sample], np.uint32)
    assert missing_in_rows(ends, ids, sorted(wanted)) == (len(lacks), lacks[0] if lacks else -1)


@given(shards=SHARDS, rows_at_once=st.integers(1, 40))
@example(shards=[[[0, 1]], [[0, 1], [0]]], rows_at_once=1)  # a block has a known set and a new one
@settings(deadline=None)
def test_a_full_table_counts_its_sets_on_and_all_other_samples(
    shards: list[list[list[int]]], rows_at_once: int
) -> None:
    table = count(shards, rows_at_once=rows_at_once, max_sets=2)
    samples = [frozenset(sample) for shard in shards for sample in shard]
    for each in table.sets:
        parts = frozenset(map(NAMES.index, each.parts))
        assert each.samples == samples.count(parts)
    assert len(table.sets) == min(2, len(set(samples)))
    assert table.others == len(samples) - sum(each.samples for each in table.sets)
