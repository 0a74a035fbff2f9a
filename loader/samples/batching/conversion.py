"""A sample or batch of one type to another type, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any

from ...errors import ConfigError, SampleError

__all__ = ["as_type", "fields_of"]


def as_type(value: Any, target: Any) -> Any:
    """Make an object of type ``target`` of the fields of ``value`` that have the names of its own.

    Args:
        value: A dataclass or a dict. Where it is of the type already, it is given back.
        target: A dataclass, or ``dict``, which takes all fields.

    Raises:
        SampleError: The value lacks a field that the type must have.
        ConfigError: The type is neither a dataclass nor a dict.

    >>> from loader import CaptioningSample, TextSample, ImageSample
    >>> as_type(CaptioningSample(__key__="s.tar/0", image="…", caption="a cat"), ImageSample)
    ImageSample(__key__='s.tar/0', image='…')
    """
    if type(value) is target:
        return value
    given = fields_of(value)
    if issubclass(target, dict):
        return target(given)
    required, optional = _names(target)
    missing = [name for name in required if name not in given]
    if missing:
        lacking = ", ".join(map(repr, missing))
        raise SampleError(
            f"cannot make a {target.__name__} of a {type(value).__name__}: it has no field {lacking}",
            key=_key(given),
            hint="give the field a default, or define the hook that makes it",
        )
    return target(**{name: given[name] for name in (*required, *optional) if name in given})


def fields_of(value: Any) -> Mapping[str, Any]:
    """Get the fields of a dataclass, the items of a dict, or the attributes of another object, by name."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value):
        return {known.name: getattr(value, known.name) for known in fields(value)}
    return getattr(value, "__dict__", {})


def _key(given: Mapping[str, Any]) -> str | None:
    key = given.get("__key__")
    return key if isinstance(key, str) else None


@lru_cache(maxsize=256)
def _names(target: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the fields that a dataclass must be given, and those that it may be given."""
    if not is_dataclass(target):
        name = getattr(target, "__name__", repr(target))
        raise ConfigError(
            f"expected a dataclass or dict as the type of samples or batches, found {name}",
            hint="decorate it with @edataclass",
        )
    known = [each for each in fields(target) if each.init]
    optional = [each.name for each in known if each.default is not MISSING or each.default_factory is not MISSING]
    return tuple(each.name for each in known if each.name not in optional), tuple(optional)
