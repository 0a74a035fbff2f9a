"""Packing with hooks that fail, or leave samples over: what is lost, its count and its name, and exact resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loader import PackedSamplesOutput
from loader.errors import ConfigError, SkipSample
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.stages.packing import PackingDataset
from loader.testing.stage import Values, check_resumes, lane, steps, values


def keyed(numbers: Any) -> Values:
    return Values([{"__key__": f"a.tar/{number}", "number": number} for number in numbers])


def numbers_of(samples: list[Any]) -> list[int]:
    return [sample["number"] for sample in samples]


def in_fours(samples: list[Any]) -> list[list[Any]]:
    return [samples[start : start + 4] for start in range(0, len(samples) - 3, 4)]


def in_threes(samples: list[Any]) -> list[list[Any]]:
    return [samples[start : start + 3] for start in range(0, len(samples), 3)]


def no_thirteens(samples: list[Any]) -> list[list[Any]]:
    if any(sample["number"] % 13 == 2 for sample in samples):
        raise ValueError("too long")
    return in_fours(samples)


def yields_until_a_thirteen(samples: list[Any]) -> Iterator[list[Any]]:
    for group in in_fours(samples):
        if any(sample["number"] % 13 == 2 for sample in group):
            raise ValueError("too long")
        yield group


def pushes_back_and_fails(samples: list[Any]) -> PackedSamplesOutput[Any]:
    groups = no_thirteens(samples)
    return PackedSamplesOutput(groups, pushback=samples[4 * len(groups) :])


def everything_back(samples: list[Any]) -> PackedSamplesOutput[Any]:
    return PackedSamplesOutput([], samples)


def fails_for_neighbours(samples: list[Any]) -> list[list[Any]]:
    if {1, 2} <= {sample["number"] for sample in samples}:
        raise ValueError("1 with 2")
    return [samples]


def skips_thirteens(samples: list[Any]) -> list[list[Any]]:
    if any(sample["number"] % 13 == 2 for sample in samples):
        raise SkipSample
    return in_fours(samples)


def fails_for_the_first_sixes(samples: list[Any]) -> list[int]:
    if samples[0]["number"] % 6 == 0:
        raise ValueError("a six")
    return numbers_of(samples)


def yields_and_fails(samples: list[Any]) -> Iterator[Any]:
    yield numbers_of(samples)
    if samples[0]["number"] % 6 == 0:
        raise ValueError("a six")


def run(packed: PackingDataset[Any]) -> tuple[list[Any], dict[str, int]]:
    """Return the packs of a pass, and the numbers of dropped samples by reason."""
    own = lane()
    given = [step.value for step in steps(packed, own, most=99) if step.value is not SKIPPED]
    return given, dict(own.failures.dropped)


def test_of_a_buffer_only_a_sample_is_lost_for_which_the_selection_fails_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    packs, dropped = run(PackingDataset(keyed(range(9)), 9, no_thirteens, numbers_of))
    assert (packs, dropped) == ([[0, 1, 3, 4], [5, 6, 7, 8]], {"no_thirteens failed with ValueError": 1})
    assert "skipped sample 'a.tar/2': no_thirteens raised ValueError: too long" in caplog.text


def test_a_selection_that_fails_for_a_group_yields_the_others(caplog: pytest.LogCaptureFixture) -> None:
    packs, dropped = run(PackingDataset(keyed(range(8)), 8, yields_until_a_thirteen, numbers_of))
    assert (packs, dropped) == ([[4, 5, 6, 7]], {"select_samples_to_pack (yields_until_a_thirteen) skipped": 4})
    assert "raised ValueError: too long for 8 samples, but for none alone" in caplog.text
    assert "skipped a.tar/0, a.tar/1" in caplog.text


def test_samples_for_which_a_selection_fails_only_together_are_all_packed(caplog: pytest.LogCaptureFixture) -> None:
    packs, dropped = run(PackingDataset(keyed(range(5)), 5, fails_for_neighbours, numbers_of))
    assert (packs, dropped) == ([[0, 1], [2, 3, 4]], {})
    assert "for 5 samples, but for none alone" in caplog.text


def test_the_samples_of_a_buffer_for_which_a_selection_always_fails_are_named_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    packs, dropped = run(PackingDataset(keyed([4, 5, 6, 7, 2, 15, 28]), 4, no_thirteens, numbers_of))
    assert (packs, dropped) == ([[4, 5, 6, 7]], {"no_thirteens failed with ValueError": 3})
    assert all(f"skipped sample 'a.tar/{number}'" in caplog.text for number in (2, 15, 28))


@pytest.mark.parametrize("samples", [keyed(range(12)), Values([{"number": number} for number in range(12)])])
@pytest.mark.parametrize("pack", [fails_for_the_first_sixes, yields_and_fails])
def test_a_pack_that_fails_loses_its_group_alone(pack: Callable[..., Any], samples: Values) -> None:
    packs, dropped = run(PackingDataset(samples, 9, in_threes, pack))
    lost = [[0, 1, 2], [6, 7, 8]] if pack is fails_for_the_first_sixes else []
    assert packs == [group for group in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]) if group not in lost]
    assert dropped == {f"{pack.__name__} failed with ValueError": 6}


def test_samples_in_no_group_are_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    packs, dropped = run(PackingDataset(keyed(range(30)), 5, in_fours, numbers_of))
    assert len(packs) == 6
    assert dropped == {"select_samples_to_pack (in_fours) skipped": 6}
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [line.split(": ")[0] for _, line in lines] == [f"skipped a.tar/{number}" for number in range(4, 30, 5)]
    assert lines[0][1].endswith("select_samples_to_pack (in_fours) put it in no group · lane 0 · 1 so far")
    assert [level for level, _ in lines] == ["WARNING", "WARNING", "INFO", "WARNING", "INFO", "INFO"]


def test_pushed_back_samples_that_a_pass_cannot_use_are_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    packs, dropped = run(PackingDataset(keyed([*range(3, 12)]), 5, pushes_back_and_fails, numbers_of))
    assert packs == [[3, 4, 5, 6], [7, 8, 9, 10]]
    reason = "select_samples_to_pack (pushes_back_and_fails) pushed back at the end of a pass"
    assert dropped == {reason: 1}
    assert (
        "skipped a.tar/11: select_samples_to_pack (pushes_back_and_fails) pushed it back, and the pass" in caplog.text
    )


def test_a_full_buffer_that_is_pushed_back_names_its_samples() -> None:
    with pytest.raises(ConfigError, match=r"all 3 samples of a full buffer back: a\.tar/0, a\.tar/1, a\.tar/2"):
        values(PackingDataset(keyed(range(9)), 3, everything_back, numbers_of))


@pytest.mark.parametrize("pack", [fails_for_the_first_sixes, yields_and_fails])
@pytest.mark.parametrize(
    "select", [no_thirteens, yields_until_a_thirteen, pushes_back_and_fails, fails_for_neighbours, skips_thirteens]
)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.sampled(3)
def test_a_lane_that_is_restored_around_a_failure_continues_where_it_stopped(
    count: int, select: Callable[..., Any], pack: Callable[..., Any]
) -> None:
    check_resumes(PackingDataset(keyed(range(35)), 7, select, pack), count=count)
