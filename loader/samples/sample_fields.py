"""Names of the fields of samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any

from ..errors import ConfigError, SampleError


def as_type(value: Any, target: Any) -> Any:
    """Convert a sample or batch to another type, by the fields that both types have.

    Args:
        value: A dataclass or a dict. A value that already is of the type is returned as it is.
        target: A dataclass, or ``dict``, which takes all fields.

    Raises:
        SampleError: The value lacks a required field of the type.
        ConfigError: The type is neither a dataclass nor a dict.

    >>> from loader import CaptioningSample, TextSample, ImageSample
    >>> as_type(CaptioningSample(__key__="s.tar/0", image="…", caption="a cat"), ImageSample)
    ImageSample(__key__='s.tar/0', image='…')
    """
    # Fields are passed by name; fields that the target lacks are dropped.
    if type(value) is target:
        return value
    given = fields_of(value)
    if issubclass(target, dict):
        return target(given)
    required, optional = _names(target)
    missing = [name for name in required if name not in given]
    if missing:
        lacking, key = ", ".join(map(repr, missing)), given.get("__key__")
        raise SampleError(
            f"cannot convert a {type(value).__name__} to a {target.__name__}: it has no field {lacking}",
            key=key if isinstance(key, str) else None,
            hint="give the field a default, or define the hook that adds it",
        )
    return target(**{name: given[name] for name in (*required, *optional) if name in given})


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass, the items of a dict, or the attributes of another object, by name."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value):
        return {known.name: getattr(value, known.name) for known in fields(value)}
    return getattr(value, "__dict__", {})


@lru_cache(maxsize=256)
def _names(target: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not is_dataclass(target):
        name = getattr(target, "__name__", repr(target))
        raise ConfigError(
            f"expected a dataclass or dict as the type of samples or batches, found {name}",
            hint="decorate it with @edataclass",
        )
    known = [each for each in fields(target) if each.init]
    optional = [each.name for each in known if each.default is not MISSING or each.default_factory is not MISSING]
    return tuple(each.name for each in known if each.name not in optional), tuple(optional)
