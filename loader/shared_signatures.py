"""Functions that take the arguments of another callable: the list of arguments is written once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def takes_arguments_of(source: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Let a function have the signature of another one, and get all arguments by name, defaults included.

    >>> def scale(value, factor=2, **others): ...
    >>> @takes_arguments_of(scale)
    ... def scaled(**arguments): return arguments
    >>> scaled(3)
    {'value': 3, 'factor': 2, 'others': {}}
    """

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        taken = signature(source)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = taken.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            bound.apply_defaults()
            return function(**bound.arguments)

        vars(call)["__signature__"] = taken.replace(return_annotation=signature(function).return_annotation)
        return call

    return decorate


def shows_keywords_of(options: Callable[..., Any]) -> Callable[[F], F]:
    """Show the keywords that a function passes to another callable in its signature, instead of ``**keywords``.

    Type checkers see the keywords by ``Unpack`` of a ``TypedDict``.

    >>> from inspect import signature
    >>> @shows_keywords_of(lambda *, size=1, name="a": ...)
    ... def show(path, **keywords): ...
    >>> signature(show)
    <Signature (path, *, size=1, name='a')>
    """

    def decorate(function: F) -> F:
        present = signature(function)
        taken = [parameter for parameter in present.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        taken += signature(options).parameters.values()
        vars(function)["__signature__"] = present.replace(parameters=taken)
        return function

    return decorate
