"""Packing: groups selected from a buffer, saved by the ids of their samples."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loader.errors import ConfigError, SkipSample
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.samples.hook_marks import stateless
from loader.samples.hooks import hook_context
from loader.testing.stage import Values, check_resumes, lane, steps, values


def pairs_from_both_ends(samples: list[Any]) -> list[Any]:
    """Pair the first with the last value, and so on; the middle one of an odd number is in no group."""
    return [[samples[place], samples[-1 - place]] for place in range(len(samples) // 2)]


def all_by_parity(samples: list[int]) -> Any:
    samples.sort(reverse=True)  # the argument is a copy
    return (group for group in ([one for one in samples if one % 2], [one for one in samples if not one % 2]))


def neighbours(samples: list[Any]) -> list[Any]:
    return [samples[start : start + 2] for start in range(0, len(samples), 2)]


def first_with_each(samples: list[int]) -> list[list[int]]:
    return [[samples[0], one] for one in samples[1:]]


def new_objects(samples: list[str]) -> list[list[str]]:
    return [[sample.upper() for sample in samples]]


def all_unless_a_two(samples: list[int]) -> list[list[int]]:
    if 2 in samples:
        raise ValueError("a two")
    return [samples]


def total(samples: list[int]) -> int:
    return sum(samples)


def each_and_total(samples: list[int]) -> Iterator[Any]:
    yield from samples
    yield sum(samples)


def ten_times(sample: int) -> int:
    return 10 * sample


def no_threes(sample: int) -> int:
    if sample % 3 == 0:
        raise SkipSample
    return sample


def no_fives_by_failure(sample: int) -> int:
    if sample % 5 == 0:
        raise ValueError("a five")
    return sample


def sample_and_negative(sample: int) -> Iterator[Any]:
    yield sample
    if sample % 4 == 0:
        raise SkipSample
    yield -sample


@stateless(restore_seeds=True)
def with_random(sample: tuple[int, float]) -> tuple[tuple[int, float], float]:
    return sample, random.random()


@stateless(restore_seeds=True)
def two_with_random(sample: Any) -> Iterator[Any]:
    yield sample, random.random()
    yield sample, random.random()


def with_context(sample: Any) -> Any:
    return sample, hook_context().batch_index, hook_context().sample_index


def test_each_group_becomes_one_sample_and_samples_in_no_group_are_dropped() -> None:
    packed: PackingDataset[Any] = PackingDataset(Values(range(10)), 5, pairs_from_both_ends, total)

    assert values(packed) == [0 + 4, 1 + 3, 5 + 9, 6 + 8]


def test_the_last_shorter_buffer_of_a_pass_is_packed_as_well() -> None:
    assert values(PackingDataset(Values(range(8)), 6, pairs_from_both_ends, total)) == [5, 5, 5, 13]


def test_a_group_may_be_in_any_order_and_the_list_may_be_changed() -> None:
    assert values(PackingDataset(Values(range(6)), 4, all_by_parity, list)) == [[3, 1], [2, 0], [5], [4]]


@pytest.mark.parametrize("packer", [total, each_and_total])
@pytest.mark.parametrize("encoder", [None, ten_times, no_threes, no_fives_by_failure, sample_and_negative])
@pytest.mark.parametrize("select", [pairs_from_both_ends, all_by_parity])
@pytest.mark.sampled(3)
def test_a_restored_lane_continues_where_it_stopped(
    select: Callable[..., Any], encoder: Callable[..., Any] | None, packer: Callable[..., Any]
) -> None:
    source = Values(range(40), skips=(3, 4, 11))

    check_resumes(PackingDataset(source, 7, select, packer, sample_encoder=encoder), count=3)


def test_a_restored_lane_draws_the_same_random_numbers_in_marked_hooks() -> None:
    encoded = MapDataset(MapDataset(Values(range(20)), two_with_random), with_random)
    packed: PackingDataset[Any] = PackingDataset(encoded, 6, neighbours, list, sample_encoder=two_with_random)

    check_resumes(packed, count=2)
    check_resumes(BatchDataset(packed, 2, list), count=2)


def test_rebuilt_samples_see_their_first_batch_and_sample_index() -> None:
    encoded = MapDataset(Values(range(20), repeats=True), with_context)

    check_resumes(PackingDataset(encoded, 6, neighbours, list), count=2, most=20, loads=False)


def test_restore_keys_are_those_of_the_uninterrupted_run() -> None:
    samples = Values([{"__key__": str(number), "__restore_key__": ()} for number in range(12)])
    packed: PackingDataset[Any] = PackingDataset(MapDataset(samples, dict), 4, neighbours, list, sample_encoder=dict)

    check_resumes(packed, loads=False)


def test_an_encoded_sample_is_rebuilt_from_its_restore_key() -> None:
    samples = Values([{"__restore_key__": (), "number": number} for number in range(4)])
    packed: PackingDataset[Any] = PackingDataset(samples, 4, neighbours, list, sample_encoder=doubled_and_tripled)
    running = packed.inputs[0].open(lane(), {})
    group, _ = running.next()

    assert [sample["number"] for sample in group] == [0, 0, 2, 3]
    for sample in group:
        stage, _, _, item_id = sample["__restore_key__"]
        assert stage == packed.inputs[0].key
        assert running.load(item_id) == sample


def doubled_and_tripled(sample: dict[str, Any]) -> Any:
    return (sample | {"number": times * sample["number"]} for times in (2, 3))


def test_a_state_has_no_samples_and_no_entry_while_the_buffer_is_empty() -> None:
    packed: PackingDataset[Any] = PackingDataset(
        Values([f"sample {number}" for number in range(8)]), 4, neighbours, "".join
    )
    states = [json.loads(step.state) for step in steps(packed, lane(), most=4)]

    assert states[0] == {"0 values": 0}
    assert states[1] == {"0 values": 4, "1 select_samples_to_pack": {"batch": 0, "groups": [[2, 3]]}}
    assert states[2] == {"0 values": 4}


def test_equal_values_are_distinguished() -> None:
    check_resumes(PackingDataset(Values(["a"] * 9), 4, pairs_from_both_ends, list))
    item_ids = [step.item_id for step in steps(PackingDataset(Values(["a"] * 4), 4, neighbours, list), lane(), most=9)]

    assert item_ids == [(0, 1), (2, 3)]


def test_a_sample_may_be_in_several_groups() -> None:
    packed: PackingDataset[Any] = PackingDataset(Values(range(3)), 3, first_with_each, list)

    assert [(step.value, step.item_id) for step in steps(packed, lane(), most=9)] == [
        ([0, 1], (0, 1)),
        ([0, 2], (0, 2)),
    ]


def test_a_selection_of_other_objects_is_an_error_with_a_hint() -> None:
    packed: PackingDataset[Any] = PackingDataset(Values(["ab", "cd"]), 2, new_objects, list)

    with pytest.raises(ConfigError, match=r"expected select_samples_to_pack to select .* a str"):
        steps(packed, lane(), most=1)


def test_a_group_whose_samples_are_all_skipped_is_not_packed() -> None:
    given = steps(
        PackingDataset(Values([3, 6, 1, 4]), 2, all_unless_a_two, total, sample_encoder=no_threes), lane(), most=9
    )

    assert [step.value for step in given] == [SKIPPED, 5]


def test_a_buffer_of_size_0_is_refused() -> None:
    with pytest.raises(ConfigError, match="buffer_size of at least 1"):
        PackingDataset(Values([]), 0, pairs_from_both_ends, total)
