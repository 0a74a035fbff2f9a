"""Mark the samples that only fill a batch."""

from __future__ import annotations

from typing import Any, ClassVar

from ...errors import ConfigError

_MARK = "__padding__"


def is_padding(batch: Any) -> bool:
    """Return True if a micro-batch is padding, which ``pad_ranks=True`` yields after the data of a rank.

    Padding has the attribute ``__padding__``, which is true.

    >>> is_padding({"text": ["a cat"]}), is_padding(mark_padding({"text": []}))
    (False, True)
    """
    return bool(getattr(batch, _MARK, False))


class PaddingDict(dict[Any, Any]):
    """A dict that is padding; copies of its type, as a move to a device makes them, are padding, too."""

    __padding__: ClassVar[bool] = True


class PaddingList(list[Any]):
    """A list that is padding."""

    __padding__: ClassVar[bool] = True


class PaddingTuple(tuple[Any, ...]):
    """A tuple that is padding."""

    __slots__ = ()
    __padding__: ClassVar[bool] = True


_MARKED: dict[type, type] = {dict: PaddingDict, list: PaddingList, tuple: PaddingTuple}


def mark_padding(batch: Any) -> Any:
    """Mark a micro-batch as padding.

    Args:
        batch: The micro-batch. An object with attributes is changed; the result for a dict, list or tuple is a copy of
            a subclass.
    """
    if is_padding(batch):
        return batch
    kind = type(batch)
    if kind in _MARKED:
        return _MARKED[kind](batch)
    # Other objects take an attribute, or become an object of a subclass that has it.
    try:
        object.__setattr__(batch, _MARK, True)
    except (AttributeError, TypeError):
        return _of_marked_class(batch)
    return batch


def _of_marked_class(batch: Any) -> Any:
    """Return an object without a ``__dict__`` as one of a subclass that has the mark."""
    kind = type(batch)
    try:
        marked: Any = type(kind.__name__, (kind,), {"__slots__": (), _MARK: True, "__module__": kind.__module__})
        if hasattr(batch, "_make"):
            return marked._make(batch)
        object.__setattr__(batch, "__class__", marked)
    except (AttributeError, TypeError):
        raise ConfigError(
            f"padding of the type {kind.__name__} cannot be marked, since its values have no attributes",
            hint="let the hook padding_batch of the task encoder return a dict, list, tuple or dataclass",
        ) from None
    return batch
