"""The nominal numbers of samples of workers, as megatron-energon 7.4.1 gives them."""

from __future__ import annotations

import pytest

from loader.order import worker_share


@pytest.mark.parametrize(
    ("samples", "repetitions", "expected"),
    [
        ((7,), (1,), [2, 1, 2, 1, 1]),
        ((40,), (1,), [6, 6, 6, 6, 5, 6, 5]),
        ((500,), (1,), [72, 72, 71, 72, 71, 71, 71]),
        ((7,), (1,), [1, 0] * 7 + [0, 0]),
        ((1,), (1,), [1, 0, 0, 0]),
        ((100, 40), (1, 1), [47, 47, 46]),
        ((100, 40), (1.5, 3), [90, 91, 88]),
        ((100, 40), (1.5, 3), [37, 39, 39, 37, 39, 39, 39]),
    ],
)
def test_samples_are_shared_by_the_workers_as_observed(
    samples: tuple[int, ...], repetitions: tuple[float, ...], expected: list[int]
) -> None:
    workers = len(expected)
    assert [worker_share(samples, repetitions, worker=one, workers=workers) for one in range(workers)] == expected


def test_all_samples_are_shared() -> None:
    for workers in range(1, 70):
        shares = [worker_share((123, 45), (1, 1), worker=one, workers=workers) for one in range(workers)]
        assert sum(shares) == 168
        assert max(shares) - min(shares) <= 1
