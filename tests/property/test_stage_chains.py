"""Random chains of stages resume at any step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

from hypothesis import given, settings, strategies as st

from loader.errors import SkipSample
from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset
from loader.pipeline.stages.concat import ConcatDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.group_batch import GroupBatchDataset
from loader.pipeline.stages.iter_map import IterMapDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.repeat import RepeatDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.samples.hook_marks import stateless
from loader.samples.hooks import hook_context
from loader.testing.stage import Values, check_resumes

Item = tuple[Any, ...]  # its last element is an integer, which determines what the functions below do


def number_of(item: Item) -> int:
    number: int = item[-1]
    return number


@stateless(restore_seeds=True)
def with_random(item: Item) -> Item:
    return (item, random.randrange(1000))


def with_context(item: Item) -> Item:
    return (item, hook_context().batch_index, hook_context().sample_index, number_of(item))


def sometimes_skips_or_fails(item: Item) -> Item:
    if number_of(item) % 7 == 0:
        raise SkipSample
    if number_of(item) % 5 == 0:
        raise ValueError("a multiple of five")
    return item


@stateless(restore_seeds=True)
def several(item: Item) -> Iterator[Item]:
    for part in range(number_of(item) % 3):
        yield (item, part, random.randrange(1000))


def is_no_multiple_of_three(item: Item) -> int:
    return number_of(item) % 3


def size_and_parity(item: Item) -> tuple[int, int]:
    return number_of(item) % 2, 2 + number_of(item) % 2


def joined(items: list[Item]) -> Item:
    return (tuple(items), sum(map(number_of, items)))


def halves(items: list[Item]) -> Iterator[Item]:
    for part in (items[::2], items[1::2]):
        if part:
            yield joined(part)


def longest_with_shortest(items: list[Item]) -> list[list[Item]]:
    ordered = sorted(items, key=number_of)
    middle = len(ordered) // 2
    return [[low, high] for low, high in zip(ordered[:middle], reversed(ordered), strict=False)]


def threes_sorted(items: Iterator[Item]) -> Iterator[Item]:
    while some := list(islice(items, 3)):
        yield from sorted(some, key=number_of)


@stateless(restore_seeds=True)
def at_random(items: Iterator[Item]) -> Iterator[Item]:
    for item in items:
        for _ in range(random.randrange(3)):
            yield (item, random.randrange(1000))


def readers() -> st.SearchStrategy[Values]:
    return st.builds(
        lambda count, skips: Values([(number,) for number in range(count)], skips=skips),
        st.integers(0, 30),
        st.sets(st.integers(0, 15), max_size=3),
    )


def longer(chains: st.SearchStrategy[SavableDataset[Any]]) -> st.SearchStrategy[SavableDataset[Any]]:
    sizes = st.integers(1, 7)
    functions = st.sampled_from([with_random, with_context, sometimes_skips_or_fails, several])
    encoders = st.sampled_from([None, with_random, with_context, sometimes_skips_or_fails, several])
    return st.one_of(
        st.builds(MapDataset, chains, functions),
        st.builds(FilterDataset, chains, st.just(is_no_multiple_of_three)),
        st.builds(BatchDataset, chains, sizes, st.just(joined), drop_last=st.booleans()),
        st.builds(GroupBatchDataset, chains, sizes, st.just(size_and_parity), st.just(joined), drop_last=st.booleans()),
        st.builds(
            PackingDataset,
            chains,
            sizes,
            st.just(longest_with_shortest),
            st.sampled_from([joined, halves]),
            sample_encoder=encoders,
        ),
        st.builds(ShuffleBufferDataset, chains, sizes),
        st.builds(
            IterMapDataset,
            chains,
            st.sampled_from([threes_sorted, at_random]),
            restart_after=st.none() | sizes,
        ),
        st.builds(BlendDataset, st.tuples(chains, st.just(1)), st.tuples(chains, st.sampled_from([0.1, 1]))),
        st.builds(ConcatDataset, chains, chains),
        st.builds(RepeatDataset, chains, repeats=st.sampled_from([1, 2])),
    )


@settings(max_examples=30)
@given(st.recursive(readers(), longer, max_leaves=4), st.integers(1, 3))
def test_a_chain_restored_at_any_step_continues_unchanged(chain: SavableDataset[Any], count: int) -> None:
    check_resumes(chain, count=count, most=12, loads=False)
