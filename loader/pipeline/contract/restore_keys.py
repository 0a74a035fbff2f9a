"""Restore keys that users' datasets set, as in megatron-energon 7 and 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import ConfigError

T = TypeVar("T")


def get_sample_restore_key(sample: Any) -> tuple[Any, ...] | RestoreKey | None:
    """Return the ``__restore_key__`` of a sample; None if it has none.

    >>> get_sample_restore_key({"__restore_key__": ("read", 3)}), get_sample_restore_key({})
    (('read', 3), None)
    """
    return sample.get("__restore_key__") if isinstance(sample, dict) else getattr(sample, "__restore_key__", None)


def add_sample_restore_key(sample: T, *key: int | str, src: Any, fail_otherwise: bool = False) -> T:
    """Prepend the class's name of ``src`` and ``key`` to the ``__restore_key__`` of a sample.

    Args:
        sample: A sample or dict; changed and returned.
        key: Identifies the sample in the dataset.
        src: The dataset.
        fail_otherwise: Raise an error for a sample without ``__restore_key__``.

    Raises:
        ConfigError: The sample has no ``__restore_key__``, and ``fail_otherwise`` is True.

    >>> class Mixer: ...
    >>> add_sample_restore_key({"__restore_key__": ("read", 3)}, 0, src=Mixer())
    {'__restore_key__': ('Mixer', 0, 'read', 3)}
    """
    return _with_key(sample, key, src, keep=True, fail_otherwise=fail_otherwise)


def set_sample_restore_key(sample: T, *key: int | str, src: Any, fail_otherwise: bool = False) -> T:
    """Set the ``__restore_key__`` of a sample to the class's name of ``src`` and ``key``.

    For the arguments see :func:`add_sample_restore_key`.

    Raises:
        ConfigError: The sample has no ``__restore_key__``, and ``fail_otherwise`` is True.
    """
    return _with_key(sample, key, src, keep=False, fail_otherwise=fail_otherwise)


def _with_key(sample: T, key: tuple[int | str, ...], src: Any, *, keep: bool, fail_otherwise: bool) -> T:
    present = get_sample_restore_key(sample)
    if present is None and not (isinstance(sample, dict) and "__restore_key__" in sample):
        if fail_otherwise:
            raise ConfigError(f"a {type(sample).__name__} has no __restore_key__ to set")
        return sample
    # The key of the stage comes first, then the key that the sample had.
    inner = present.as_tuple() if isinstance(present, RestoreKey) else present or ()
    whole = (type(src).__name__, *key, *(inner if keep else ()))
    if isinstance(sample, dict):
        sample["__restore_key__"] = whole
    else:
        object.__setattr__(sample, "__restore_key__", whole)
    return sample


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
        # A frozen dataclass refuses an assignment.
        object.__setattr__(sample, "__restore_key__", WrappedRestoreKey(name, key, sample.__restore_key__))
    elif fail_otherwise:
        raise RuntimeError(f"expected a sample with a __restore_key__, found a {type(sample).__name__}")
    return sample
