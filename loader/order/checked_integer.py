"""Integers that come from outside: checked for what they are and for where they lie."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = ["checked_integer"]


def checked_integer(value: Any, name: str, *, least: int = 0, most: int | None = None) -> int:
    """Give a value as an ``int``.

    Args:
        value: An ``int``, or what stands for one: numpy's integers, a tensor of one. A ``bool`` does not.
        name: What to call it in the message.
        least: The least it may be.
        most: The most it may be; None: there is none.

    Raises:
        ValueError: It is no integer, or out of range.

    >>> checked_integer(np.int32(7), "seed")
    7
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise ValueError(f"expected {name} to be an integer, found {type(value).__name__} {value!r}")
    number = operator.index(value)
    if number < least or (most is not None and number > most):
        allowed = f"at least {least}" if most is None else f"in [{least}, {most}]"
        raise ValueError(f"expected {name} to be {allowed}, found {number}")
    return number
