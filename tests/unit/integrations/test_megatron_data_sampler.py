from __future__ import annotations

import pytest

from loader import ConfigError
from loader.integrations.num_microbatches_calculator import ConsumedSamplesBatchSampler, MegatronDataSampler


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_share_the_samples_behind_those_consumed(ranks: int) -> None:
    samplers = [
        ConsumedSamplesBatchSampler(30, consumed_samples=6, micro_batch_size=2, rank=rank, data_parallel_size=ranks)
        for rank in range(ranks)
    ]
    steps = zip(*samplers, strict=True)
    assert [index for step in steps for batch in step for index in batch] == list(range(6, 30))
    assert {len(sampler) for sampler in samplers} == {30 // 2 // ranks}


def test_an_incomplete_last_round_is_dropped() -> None:
    sampler = ConsumedSamplesBatchSampler(11, micro_batch_size=2, rank=1, data_parallel_size=2)
    assert list(sampler) == [[2, 3], [6, 7]]
    assert list(ConsumedSamplesBatchSampler(11, consumed_samples=20)) == []


def test_a_sampler_continues_on_another_number_of_ranks() -> None:
    first = MegatronDataSampler(global_batch_size=8, micro_batch_size=2, data_parallel_size=2)
    consumed = first.compute_consumed_samples(3)
    assert consumed == 24
    second = MegatronDataSampler(
        global_batch_size=8, micro_batch_size=1, data_parallel_size=4, init_consumed_samples=consumed
    )
    assert next(iter(second.batches(100, rank=3))) == [27]
    assert second.compute_consumed_samples(2) == 40


def test_a_ramp_is_counted() -> None:
    sampler = MegatronDataSampler(global_batch_size=8, micro_batch_size=2, rampup_batch_size=(2, 2, 12))
    assert [sampler.compute_consumed_samples(steps) for steps in range(7)] == [0, 2, 4, 8, 14, 22, 30]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"rank": 2, "data_parallel_size": 2}, "found rank 2 of 2"),
        ({"micro_batch_size": 0}, "micro_batch_size of at least 1"),
        ({"consumed_samples": -1}, "consumed_samples of at least 0"),
    ],
    ids=["rank", "batch", "consumed"],
)
def test_numbers_out_of_range_are_refused(arguments: dict[str, int], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        ConsumedSamplesBatchSampler(10, **arguments)
