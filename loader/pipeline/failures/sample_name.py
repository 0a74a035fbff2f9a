"""Names and places of samples for messages: their keys and ``__sources__``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MAX_SHOWN = 3


def keys_of_sample(sample: Any) -> tuple[str, ...]:
    """Return a sample's key, or the keys of a batch or list of samples; empty if it has none.

    >>> keys_of_sample({"__key__": "a.tar/0001", "txt": b"x"})
    ('a.tar/0001',)
    >>> keys_of_sample([{"__key__": "a.tar/0001"}, {"__key__": "a.tar/0002"}])
    ('a.tar/0001', 'a.tar/0002')
    """
    return tuple(str(key) for key in _members(sample, "__key__"))


def default_get_batch_keys(batch: Any) -> list[str] | None:
    """Return the keys of a batch for :class:`~loader.pipeline.stages.log_sample.LogSampleDataset`; None if it has none.

    >>> default_get_batch_keys({"__key__": ["a.tar/0001", "a.tar/0002"]}), default_get_batch_keys({})
    (['a.tar/0001', 'a.tar/0002'], None)
    """
    return list(keys_of_sample(batch)) or None


def places_of_sample(sample: Any, sources: Any = None) -> tuple[str, ...]:
    """Return the places of the bytes of a sample, or of a list of samples; empty if not known.

    Args:
        sample: Has the ``__sources__`` to use if ``sources`` is None.
        sources: :class:`~loader.samples.SourceInfo` objects, or one of them.
    """
    found = _members(sample, "__sources__") if sources is None else _flat(sources)
    return tuple(str(source) for source in found)


def sources_of_sample(sample: Any) -> list[Any] | None:
    """Return the ``__sources__`` of a sample, or of all samples of a list; None if no sample has any."""
    return _members(sample, "__sources__") or None


def joined_names(names: Sequence[str]) -> str:
    """Join names to a text of bounded length.

    >>> joined_names([f"a.tar/{number}" for number in range(16)])
    'a.tar/0, a.tar/1, a.tar/2 and 13 more'
    """
    left = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {left} more" if left > 0 else "")


def _members(sample: Any, field: str) -> list[Any]:
    if isinstance(sample, list | tuple):
        return [member for inner in sample for member in _members(inner, field)]
    # A sample may be any object, also one whose __getattr__ returns a value for every name.
    found = sample.get(field) if isinstance(sample, Mapping) else getattr(sample, "__dict__", {}).get(field)
    return _flat(found)


def _flat(value: Any) -> list[Any]:
    """Flatten nested lists: a batch has a list of keys, a batch of packed samples a list of such lists."""
    if value is None:
        return []
    if type(value) in (list, tuple):  # a named tuple is a single source
        return [member for inner in value for member in _flat(inner)]
    return [value]
