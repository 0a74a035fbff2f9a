"""Restore keys of stages of user code, under the names of megatron-energon 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["RestoreKey", "WrappedRestoreKey", "wrap_sample_restore_key"]

T = TypeVar("T")


@dataclass(frozen=True)
class RestoreKey:
    """Base of restore keys, which identify a sample so that it can be rebuilt."""

    def as_tuple(self) -> tuple[Any, ...]:
        """Return the key as nested tuples of text and integers."""
        return ()


@dataclass(frozen=True)
class WrappedRestoreKey(RestoreKey):
    """The key of a sample that a stage made of another one.

    Attributes:
        stage: Name of the stage.
        key: What identifies the sample among those that the stage made of the other one.
        inner: Key of the other sample.
    """

    stage: str
    key: tuple[int | str, ...]
    inner: Any

    def as_tuple(self) -> tuple[Any, ...]:
        """Return ``(stage, *key, *inner)``.

        >>> WrappedRestoreKey("Twice", (1,), WrappedRestoreKey("Words", (7,), ("read", 3))).as_tuple()
        ('Twice', 1, 'Words', 7, 'read', 3)
        """
        inner = self.inner.as_tuple() if isinstance(self.inner, RestoreKey) else tuple(self.inner or ())
        return (self.stage, *self.key, *inner)


def wrap_sample_restore_key(sample: T, *key: int | str, src: Any, fail_otherwise: bool = False) -> T:
    """Wrap the ``__restore_key__`` of a sample or dict; samples without one are unchanged.

    Args:
        sample: The sample.
        key: What identifies it among those that the stage made of the sample with the present key.
        src: The stage, whose class is named in the key.
        fail_otherwise: Raise an error for samples without a restore key.

    Raises:
        RuntimeError: The sample has no restore key, with ``fail_otherwise``.
    """
    name = type(src).__name__
    if isinstance(sample, dict) and "__restore_key__" in sample:
        sample["__restore_key__"] = WrappedRestoreKey(name, key, sample["__restore_key__"])
    elif hasattr(sample, "__restore_key__"):
        sample.__restore_key__ = WrappedRestoreKey(name, key, sample.__restore_key__)
    elif fail_otherwise:
        raise RuntimeError(f"expected a sample with a __restore_key__, found a {type(sample).__name__}")
    return sample
