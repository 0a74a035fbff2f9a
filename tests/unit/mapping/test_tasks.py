"""Tasks of a map hold every chosen sample once, whatever the sizes of shards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from loader.format.index.layout import ShardEntry
from loader.mapping.tasks import tasks_of
from loader.storage import FileInfo

MEGA = 1 << 20


def dataset_of(sizes: list[tuple[int, int]]) -> Any:
    """Return a dataset of shards with these numbers of samples and bytes."""
    shards, first = [], 0
    for number, (samples, size_bytes) in enumerate(sizes):
        file = FileInfo(name=f"{number}.tar", size_bytes=size_bytes, mtime_ns=0)
        shards.append(ShardEntry.of_file(file, samples=samples, first_sample=first))
        first += samples
    return SimpleNamespace(index=SimpleNamespace(shards=shards))


@given(
    repeated=st.lists(
        st.tuples(st.integers(1, 900), st.tuples(st.integers(0, 90), st.integers(0, 600 * MEGA))), max_size=6
    ),
    kept=st.none() | st.integers(1, 5000),
)
def test_each_chosen_sample_is_in_one_task_of_bounded_size(
    repeated: list[tuple[int, tuple[int, int]]], kept: int | None
) -> None:
    sizes = [size for count, size in repeated for _ in range(count)]
    total = sum(samples for samples, _ in sizes)
    chosen = None if kept is None else np.arange(0, total, kept)
    tasks = list(tasks_of(dataset_of(sizes), chosen, most=50))
    numbers = [number for task in tasks for number in task.numbers().tolist()]
    assert numbers == list(range(total) if chosen is None else chosen)
    assert all(task.start <= task.numbers()[0] <= task.numbers()[-1] < task.stop for task in tasks)
    assert all(task.size <= 50 for task in tasks)
    of_sample = np.repeat([size / max(1, samples) for samples, size in sizes], [samples for samples, _ in sizes])
    assert all(task.size == 1 or of_sample[task.numbers()].sum() <= 257 * MEGA for task in tasks)


def test_few_tasks_end_with_their_shard_and_many_small_ones_are_joined() -> None:
    assert [task.size for task in tasks_of(dataset_of([(1, 10)] * 1024), None)] == [1] * 1024
    many = list(tasks_of(dataset_of([(1, 10)] * 30_000), None))
    assert (len(many), many[1].name) == (1000, "samples 0–0 of 30.tar to samples 0–0 of 59.tar")
    chosen = np.arange(0, 3_000_000, 1000)
    assert [task.size for task in tasks_of(dataset_of([(1000, 10)] * 3000), chosen)] == [3] * 1000
