"""The form of ``__key__``: with the shard, or the bare key."""

from __future__ import annotations

import os
from typing import Literal, get_args

from ...errors import ConfigError
from .messages import short_repr

__all__ = ["KEY_FORMATS", "KeyFormat", "checked_key_format", "resolve_key_format"]

KeyFormat = Literal["shard/key", "key"]
"""``"shard/key"``: ``train/shard_0.tar/0001``, unique in a dataset. ``"key"``: ``0001``, as in megatron-energon 7."""

KEY_FORMATS: tuple[KeyFormat, ...] = get_args(KeyFormat)

VARIABLE = "ENERGON_KEY_FORMAT"


def checked_key_format(value: object, *, source: str) -> KeyFormat:
    """Return the value if it is a key format.

    Args:
        value: The value.
        source: Where it is from, for the message.

    Raises:
        ConfigError: It is none.

    >>> checked_key_format("key", source="key_format")
    'key'
    """
    for known in KEY_FORMATS:
        if value == known:
            return known
    names = " or ".join(f'"{name}"' for name in KEY_FORMATS)
    raise ConfigError(f"expected {source} to be {names}, found {short_repr(value)}")


def resolve_key_format(argument: KeyFormat | None, of_dataset: KeyFormat | None) -> KeyFormat:
    """Return the form of keys: that of the argument, of ``dataset.yaml``, or of ``ENERGON_KEY_FORMAT``, in this order.

    Without any of them keys have the form ``"shard/key"``.

    Raises:
        ConfigError: ``ENERGON_KEY_FORMAT`` is needed, and is no key format.
    """
    found = argument or of_dataset
    if found is not None:
        return found
    text = os.environ.get(VARIABLE, "")
    return checked_key_format(text, source=f"the environment variable {VARIABLE}") if text else "shard/key"
