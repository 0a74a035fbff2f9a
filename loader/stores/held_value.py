"""A value that stays in memory."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["HeldValue"]

T = TypeVar("T")


class HeldValue(Generic[T]):
    """A function that gives its value, whatever it is asked for; unlike a lambda it pickles.

    >>> HeldValue(3)("any name")
    3
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __call__(self, name: str) -> T:  # noqa: ARG002 - there is only one
        return self.value
