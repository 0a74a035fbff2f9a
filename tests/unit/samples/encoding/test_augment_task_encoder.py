"""Hooks of a wrapping encoder that are called by the name of the class."""

from __future__ import annotations

import inspect
from typing import Any

from loader import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder


class Inner(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        return f"inner {sample}"


class Outer(AugmentTaskEncoder):
    def encode_sample(self, sample: Any) -> Any:
        return f"outer {AugmentTaskEncoder.encode_sample(self, sample)}"


def test_a_hook_is_called_by_the_name_of_the_class() -> None:
    assert Outer(Inner()).encode_sample("a") == "outer inner a"
    assert Outer(Outer(Inner())).encode_sample("a") == "outer outer inner a"


def test_the_class_has_the_signatures_and_defaults_of_task_encoder() -> None:
    assert inspect.signature(AugmentTaskEncoder.batch) == inspect.signature(TaskEncoder.batch)
    assert AugmentTaskEncoder.cookers == TaskEncoder.cookers
