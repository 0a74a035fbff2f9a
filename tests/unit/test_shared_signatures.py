"""Arguments that are written once: every function that takes them shows all of them."""

from __future__ import annotations

import dataclasses
from inspect import Parameter, signature
from typing import Any, get_type_hints

import pytest

from loader import get_loader, get_savable_loader, get_val_dataset, get_val_datasets
from loader.shared_signatures import takes_arguments_of
from loader.testing.stage import Values
from loader.training.workers.stream_options import LoaderKeywords, StreamOptions


def test_type_checkers_know_every_option_of_a_loader() -> None:
    assert get_type_hints(LoaderKeywords) == get_type_hints(StreamOptions)


@pytest.mark.parametrize("function", [get_loader, get_savable_loader])
def test_a_loader_shows_its_options_with_their_defaults(function: Any) -> None:
    shown = signature(function).parameters
    options = {field.name: field.default for field in dataclasses.fields(StreamOptions)}
    assert {name: shown[name].default for name in options} == options
    assert not any(one.kind is Parameter.VAR_KEYWORD for one in shown.values())
    assert next(iter(shown)) == "dataset"


def test_an_unknown_option_of_a_loader_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"get_loader\(\) got an unexpected keyword argument 'prefetch'"):
        get_loader(Values([1]), prefetch=3)  # type: ignore[call-arg] # the error is expected


def test_validation_datasets_take_the_arguments_of_one() -> None:
    ours, others = signature(get_val_datasets), signature(get_val_dataset)
    assert ours.parameters == others.parameters
    assert ours.return_annotation != others.return_annotation


def test_a_missing_argument_names_the_function() -> None:
    def original(path: str, *, size: int = 1, **others: Any) -> int:
        return size

    @takes_arguments_of(original)
    def copy(**arguments: Any) -> dict[str, Any]:
        """Return the arguments."""
        return arguments

    assert copy("a", other=2) == {"path": "a", "size": 1, "others": {"other": 2}}
    assert (copy.__name__, copy.__doc__) == ("copy", "Return the arguments.")
    with pytest.raises(TypeError, match=r"copy\(\) missing a required argument: 'path'"):
        copy()  # type: ignore[call-arg] # the error is expected
