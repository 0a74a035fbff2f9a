"""The memory of the process that runs a map, or merges its shares, does not grow with the number of samples."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_map_memory import check, merge, run_in_processes, run_shares, write_lines

from tests.e2e.test_prepare_kills import in_child

SMALL = 82_000  # whose tasks are as large as any
BYTES_PER_SAMPLE = {"filter": 16}
"""Of the numbers of the samples that a filter keeps; the results of columns are in memory one task at a time."""
OTHER_BYTES_PER_SAMPLE = 4  # of some kilobytes of each task of 4,096 samples


def peak_bytes(action: Callable[[], None]) -> int:
    """Return the most memory that Python and numpy have allocated during an action."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("samples", "forms"),
    [
        (4 * SMALL, ("number",)),
        pytest.param(4 * SMALL, ("text", "vector"), marks=pytest.mark.slow),
        pytest.param(2_000_000, ("number", "filter"), marks=pytest.mark.slow),
    ],
)
def test_the_memory_of_a_map_does_not_grow_with_the_samples(
    tmp_path: Path, samples: int, forms: tuple[str, ...]
) -> None:
    few, many = write_lines(tmp_path / "few", SMALL), write_lines(tmp_path / "many", samples)
    for form in forms:
        peaks = []
        for folder in (few, many):
            assert in_child(lambda: run_shares(folder, form)) == 0  # noqa: B023 - called at once
            peaks.append(peak_bytes(lambda: merge(folder, form)))  # noqa: B023
            check(folder, form)
        assert peaks[1] - peaks[0] < BYTES_PER_SAMPLE.get(form, OTHER_BYTES_PER_SAMPLE) * (samples - SMALL)


@pytest.mark.slow
def test_results_that_workers_send_take_no_more(tmp_path: Path) -> None:
    few, many = write_lines(tmp_path / "few", SMALL), write_lines(tmp_path / "many", 5 * SMALL)
    peaks = [peak_bytes(lambda: run_in_processes(folder, "number", 2)) for folder in (few, many)]  # noqa: B023
    assert peaks[1] - peaks[0] < OTHER_BYTES_PER_SAMPLE * 4 * SMALL
