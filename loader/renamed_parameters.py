"""Other names of parameters, by which code for megatron-energon passes keywords."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def renamed_parameters(**present_names: str) -> Callable[[F], F]:
    """Accept megatron-energon's names of a function's parameters as keywords.

    Args:
        present_names: The present name of each parameter, by its name there.

    >>> @renamed_parameters(tensors="batch")
    ... def stack(batch): return len(batch)
    >>> stack(tensors=[1, 2]), stack(batch=[1]), stack([])
    (2, 1, 0)
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                for other, present in present_names.items():
                    if other in kwargs and present not in kwargs:
                        kwargs[present] = kwargs.pop(other)
            return function(*args, **kwargs)

        vars(call)["__other_parameters__"] = tuple(present_names)
        return cast("F", call)

    return decorate
