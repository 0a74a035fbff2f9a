"""The stage that watches a part of a chain."""

from __future__ import annotations

import logging
import pickle
import time
from typing import Any

import pytest

from loader import ConfigError, MapDataset, WatchdogDataset, WorkerError, get_loader
from loader.testing.stage import Values, check_resumes

TIMEOUT_S = 0.3


def slow(value: Any) -> Any:
    if value == 2:
        time.sleep(4 * TIMEOUT_S)
    return value


def chain(**options: Any) -> Any:
    options = {"timeout_seconds": TIMEOUT_S, "initial_timeout_seconds": TIMEOUT_S} | options
    return WatchdogDataset(MapDataset(Values(range(4)), slow), **options)


def test_an_item_that_takes_too_long_is_reported_once_with_the_stack(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert sorted(get_loader(chain())) == [0, 1, 2, 3]
    (record,) = caplog.records
    text = record.getMessage()
    assert "this process has made no micro-batch for 0.3 s" in text
    assert "in slow" in text


def test_fail_on_timeout_ends_the_wait() -> None:
    with pytest.raises(WorkerError, match=r"no micro-batch for 0\.3 s"):
        list(get_loader(chain(fail_on_timeout=True)))


def test_an_override_and_a_patch_see_the_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(WatchdogDataset, "_watchdog_trigger", lambda self: calls.append(self.name))
    assert len(list(get_loader(chain(), watchdog_timeout_seconds=None))) == 4
    assert calls == ["watchdog"]


def test_nothing_is_reported_without_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(get_loader(chain(timeout_seconds=None, initial_timeout_seconds=None))) == [0, 1, 2, 3]
    assert not caplog.records


def test_a_definition_in_use_can_be_pickled() -> None:
    dataset = chain(timeout_seconds=60, initial_timeout_seconds=None)
    list(get_loader(dataset))
    assert sorted(get_loader(pickle.loads(pickle.dumps(dataset)))) == [0, 1, 2, 3]


def test_the_stage_passes_items_and_skips_through() -> None:
    dataset = WatchdogDataset(Values(range(5), skips=[1]), timeout_seconds=60)
    check_resumes(dataset, count=2)
    assert len(dataset) == 5
    assert dataset.identity() == dataset.inputs[0].identity()


def test_a_timeout_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="timeout_seconds above 0"):
        chain(timeout_seconds=0)
