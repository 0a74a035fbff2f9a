"""``set_restore_key`` changes only values that have a ``__restore_key__``."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from loader.pipeline.contract.lane import set_restore_key
from loader.pipeline.contract.stage import SKIPPED
from loader.samples.types import TextSample
from tests.unit.pipeline.stage_check import lane


@dataclass
class Plain:
    __restore_key__: tuple[Any, ...] = ()


@dataclass(slots=True)
class Slotted:
    __restore_key__: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Frozen:
    __restore_key__: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class FrozenAndSlotted:
    __restore_key__: tuple[Any, ...] = ()


def stamped(value: Any) -> Any:
    of_lane = lane(3, 8)
    of_lane.context.batch_index = 19
    set_restore_key(value, "2 encode_sample", of_lane, (5, 6))
    return value


KEY = ("2 encode_sample", 3, 19, (5, 6))


@pytest.mark.parametrize(
    "value",
    [
        Plain(),
        Slotted(),
        Frozen(),
        FrozenAndSlotted(),
        TextSample(__key__="a.tar/0", text=""),
        SimpleNamespace(__restore_key__=()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_with_a_restore_key_are_changed(value: Any) -> None:
    assert stamped(value).__restore_key__ == KEY


def test_dicts_with_a_restore_key_are_changed_and_others_are_not() -> None:
    assert stamped({"__restore_key__": (), "a": 1}) == {"__restore_key__": KEY, "a": 1}
    assert stamped({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("value", [None, 5, "text", [1], (1, 2), SKIPPED, SimpleNamespace(a=1)], ids=str)
def test_values_without_a_restore_key_are_not_changed(value: Any) -> None:
    stamped(value)
    assert not hasattr(value, "__restore_key__")


def test_a_later_stage_replaces_the_restore_key() -> None:
    sample = stamped(Plain(("1 decode", 3, 19, 5)))
    assert sample.__restore_key__ == KEY
