"""Show all parameters of functions that take the arguments of another callable on reference pages."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe

DECORATORS = ("takes_arguments_of", "shows_keywords_of")


class SharedSignatures(griffe.Extension):
    """Extension that takes the parameters of such functions from the imported function."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        if any(str(decorator.value).startswith(DECORATORS) for decorator in func.decorators):
            function = getattr(import_module(func.module.path), func.name)
            parameters = inspect.signature(function).parameters.values()
            func.parameters = griffe.Parameters(*map(shown, parameters))


def shown(parameter: inspect.Parameter) -> griffe.Parameter:
    has_default = parameter.default is not inspect.Parameter.empty
    return griffe.Parameter(
        parameter.name,
        annotation=parameter.annotation,
        kind=griffe.ParameterKind(parameter.kind.description),
        default=repr(parameter.default) if has_default else None,
    )
