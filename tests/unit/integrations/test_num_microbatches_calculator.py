from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from loader import ConfigError
from loader.integrations import num_microbatches_calculator as ours
from loader.integrations.num_microbatches_calculator import BatchRamp, tell_consumed_samples

Update = tuple[str, int, bool]  # package, consumed samples, consistency check


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    yield
    ours.unset_num_microbatches_calculator()


def test_without_a_ramp_all_steps_are_alike() -> None:
    ramp = BatchRamp(global_batch_size=24, micro_batch_size=2, data_parallel_size=3)
    assert [ramp.num_microbatches(consumed) for consumed in (0, 10**9)] == [4, 4]
    assert ramp.consumed_after(1000, consumed_samples=5) == 24_005


def test_a_ramp_grows_by_equal_steps_over_equal_stretches() -> None:
    ramp = BatchRamp(global_batch_size=16, micro_batch_size=2, rampup_batch_size=(4, 4, 90))
    sizes = [ramp.batch_size(consumed) for consumed in range(100)]
    assert sizes == [4] * 30 + [8] * 30 + [12] * 30 + [16] * 10


def test_samples_are_counted_step_by_step_along_the_ramp() -> None:
    ramp = BatchRamp(global_batch_size=16, micro_batch_size=2, rampup_batch_size=(4, 4, 90))
    consumed = 0
    for steps in range(30):
        assert ramp.consumed_after(steps) == consumed
        assert ramp.consumed_after(30 - steps, consumed_samples=consumed) == ramp.consumed_after(30)
        consumed += ramp.batch_size(consumed)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"global_batch_size": 10, "micro_batch_size": 4}, "multiple of the 4 that 1 rank takes"),
        ({"global_batch_size": 0, "micro_batch_size": 4}, "multiple of the 4"),
        ({"global_batch_size": 8, "micro_batch_size": 0}, "micro_batch_size and data_parallel_size of at least 1"),
        ({"global_batch_size": 8, "micro_batch_size": 2, "rampup_batch_size": (2, 1, 10)}, "found 8 and 2 and 1"),
        ({"global_batch_size": 8, "micro_batch_size": 2, "rampup_batch_size": (2, 4, 10)}, "to grow in equal steps"),
        ({"global_batch_size": 8, "micro_batch_size": 2, "rampup_batch_size": (2, 0, 10)}, "an increment of 0"),
        ({"global_batch_size": 8, "micro_batch_size": 2, "rampup_batch_size": (2, 2)}, "to be three numbers"),
    ],
    ids=["uneven", "nothing", "no micro-batch", "uneven increment", "past the end", "no increment", "two numbers"],
)
def test_steps_that_cannot_be_cut_into_micro_batches_are_refused(arguments: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        BatchRamp(**arguments)


def test_the_functions_of_megatron_return_the_values_set() -> None:
    with pytest.raises(ConfigError, match="is not set"):
        ours.get_num_microbatches()
    ours.update_num_microbatches(50, consistency_check=False)  # not in use any more
    ours.init_num_microbatches_calculator(0, [4, 4, 90], 16, 2, 1)
    assert (ours.get_num_microbatches(), ours.get_current_global_batch_size()) == (2, 4)
    ours.update_num_microbatches(consumed_samples=30, consistency_check=True, verbose=True)
    assert (ours.get_num_microbatches(), ours.get_current_global_batch_size()) == (4, 8)


def fake(monkeypatch: pytest.MonkeyPatch, name: str, updates: list[Update], **attributes: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts)):
        if ".".join(parts[:end]) not in sys.modules:
            package = ModuleType(".".join(parts[:end]))
            package.__path__ = []
            monkeypatch.setitem(sys.modules, package.__name__, package)
    module: Any = ModuleType(name)
    module.update_num_microbatches = lambda consumed_samples, consistency_check: updates.append(
        (parts[0], consumed_samples, consistency_check)
    )
    for attribute, value in attributes.items():
        setattr(module, attribute, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_megatrons_calculator_is_updated_before_apex_and_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[Update] = []
    tell_consumed_samples(8)
    ours.init_num_microbatches_calculator(0, None, 16, 2, 1)
    assert ours._current.consumed_samples == 0
    tell_consumed_samples(9)
    assert ours._current.consumed_samples == 9
    fake(monkeypatch, "apex.transformer.pipeline_parallel.utils", updates)
    tell_consumed_samples(10)
    fake(
        monkeypatch, "megatron.core.num_microbatches_calculator", updates, _GLOBAL_NUM_MICROBATCHES_CALCULATOR=object()
    )
    tell_consumed_samples(11)
    assert updates == [("apex", 10, False), ("megatron", 11, False)]
    assert ours._current.consumed_samples == 9


def test_a_calculator_that_is_installed_and_not_set_up_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[Update] = []
    fake(monkeypatch, "megatron.core.num_microbatches_calculator", updates, _GLOBAL_NUM_MICROBATCHES_CALCULATOR=None)
    tell_consumed_samples(11)
    assert updates == []
