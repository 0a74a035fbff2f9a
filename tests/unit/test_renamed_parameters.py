"""The keywords by which code written for megatron-energon passes arguments."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
import torch

from loader import (
    DefaultDecoderWebdatasetFactory,
    SavableDataLoader,
    SourceInfo,
    batch_stack,
    cooker,
    edataclass,
    log_exception,
    reraise_exception,
    stateless,
)
from loader.renamed_parameters import renamed_parameters

CRUDE = {"__key__": "s.tar/0"}
SOURCE = SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=("0.txt",))


def test_a_wrong_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tensor'"):
        batch_stack(tensor=[torch.ones(2)])  # type: ignore[call-arg]


def test_handlers_of_errors_take_the_keywords() -> None:
    error = ValueError("three")
    log_exception(e=error, sample=CRUDE, sources=None)
    with pytest.raises(ValueError, match="three"):
        reraise_exception(e=error, _sample=CRUDE, _sources=None)  # type: ignore[call-arg]


def test_methods_name_their_first_parameter_as_there() -> None:
    assert list(signature(SavableDataLoader.restore_sample).parameters) == ["self", "restore_key"]
    assert list(signature(DefaultDecoderWebdatasetFactory.load_sample).parameters) == ["self", "raw_data"]


def test_decorators_take_their_function_by_keyword() -> None:
    def cook(sample: Any) -> Any:
        return sample

    class Point:
        x: int

    assert stateless(fn=cook) is cook
    assert cooker(fn=cook) is cook
    assert edataclass(cls=Point) is Point


def test_both_names_at_once_are_an_error() -> None:
    @renamed_parameters(values="batch")
    def count(batch: list[Any]) -> int:
        return len(batch)

    with pytest.raises(TypeError, match="values"):
        count(batch=[1], values=[1, 2])  # type: ignore[call-arg]
