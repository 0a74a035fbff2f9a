"""The keywords by which code written for megatron-energon, and for earlier versions, passes arguments."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch

from loader import (
    CaptioningSample,
    DefaultDecoderWebdatasetFactory,
    ImageSample,
    SampleDecoder,
    SavableDataLoader,
    SourceInfo,
    basic_sample_keys,
    batch_list,
    batch_pad_stack,
    batch_stack,
    concat_pad,
    cooker,
    edataclass,
    generic_batch,
    generic_concat,
    homogeneous_concat_mix,
    log_exception,
    reraise_exception,
    stateless,
)
from loader.renamed_parameters import renamed_parameters

CRUDE = {"__key__": "s.tar/0"}
SOURCE = SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=("0.txt",))


@pytest.mark.parametrize(
    ("function", "value", "names"),
    [
        (batch_stack, [torch.ones(2)], ("batch", "tensors")),
        (batch_pad_stack, [torch.ones(2)], ("batch", "tensors")),
        (batch_list, ["a"], ("batch", "values")),
        (generic_batch, ["a"], ("batch", "samples")),
        (concat_pad, [torch.ones(1, 2)], ("batch", "tensors")),
        (generic_concat, [["a"]], ("batch", "batches")),
        (homogeneous_concat_mix, [["a"]], ("samples", "batches")),
        (basic_sample_keys, CRUDE, ("crude_sample", "sample")),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_both_keywords_are_accepted(function: Callable[..., Any], value: Any, names: tuple[str, ...]) -> None:
    expected = function(value)
    for name in names:
        assert str(function(**{name: value})) == str(expected)
    assert next(iter(signature(function).parameters)) == names[0]


def test_a_wrong_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tensor'"):
        batch_stack(tensor=[torch.ones(2)])  # type: ignore[call-arg]


def test_additional_sources_have_both_keywords() -> None:
    for name in ("additional_source_info", "additional_sources"):
        assert basic_sample_keys(CRUDE, **{name: (SOURCE,)})["__sources__"] == (SOURCE,)


def test_samples_are_extended_by_both_keywords() -> None:
    image = ImageSample(__key__="s.tar/0", image=torch.zeros(1))
    for name in ("src", "base_sample"):
        keyword: Any = {name: image}
        assert CaptioningSample.extend(**keyword, caption="black").caption == "black"


def test_a_file_is_decoded_by_both_keywords() -> None:
    for name in ("raw", "data"):
        keyword: Any = {name: b"a cat"}
        assert SampleDecoder().decode(fname="0.txt", **keyword) == "a cat"


def test_handlers_of_errors_take_the_keywords() -> None:
    error = ValueError("three")
    for name in ("e", "exc"):
        log_exception(**{name: error}, sample=CRUDE, sources=None)
        with pytest.raises(ValueError, match="three"):
            reraise_exception(**{name: error, "_sample": CRUDE, "_sources": None})  # type: ignore[arg-type]


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
