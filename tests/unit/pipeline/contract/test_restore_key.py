"""Restore keys are set on values that have a ``__restore_key__`` only, and users' datasets extend them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from loader.pipeline.contract.lane import set_restore_key
from loader.pipeline.contract.restore_keys import (
    WrappedRestoreKey,
    add_sample_restore_key,
    wrap_sample_restore_key,
)
from loader.pipeline.contract.stage import SKIPPED
from loader.samples.types import TextSample
from loader.testing.stage import lane


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


class Twice:
    """A user's dataset, as a restore key names it."""


@pytest.mark.parametrize("sample", [Plain(("read", 3)), Frozen(("read", 3)), FrozenAndSlotted(("read", 3))], ids=str)
def test_the_key_of_any_dataclass_can_be_wrapped(sample: Any) -> None:
    assert wrap_sample_restore_key(sample, 1, src=Twice()) is sample
    assert sample.__restore_key__ == WrappedRestoreKey("Twice", (1,), ("read", 3))


def test_a_wrapped_key_can_be_extended_as_a_tuple() -> None:
    sample: Any = wrap_sample_restore_key({"__restore_key__": ("read", 3)}, 1, src=Twice())
    assert add_sample_restore_key(sample, 2, src=Twice()) == {"__restore_key__": ("Twice", 2, "Twice", 1, "read", 3)}
