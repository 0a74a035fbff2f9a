"""The classes that ``dataset.yaml`` names: that of its samples, or of the dataset."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from ..errors import ConfigError
from ..format.dataset_config import DatasetConfig, is_own_module
from . import types
from .named_code import find_code

__all__ = ["checked_sample_class", "dataset_class_of", "optional_fields", "sample_class_of"]


def sample_class_of(config: DatasetConfig, *, trust_code: bool) -> type[Any]:
    """Find the sample class of a dataset.

    A class of this library is found by its name. One of another module is taken where that module is imported already;
    to import it, the caller must trust the dataset.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
        ConfigError: There is no such class, or it is no sample class.
    """
    if config.sample_type is None:
        dataset_class = dataset_class_of(config, trust_code=trust_code)
        named = getattr(dataset_class, "__sample_type__", None)
        if named is None:
            name = f"{config.dataset_module}.{config.dataset_class}"
            raise ConfigError(f"{name} has no __sample_type__; expected a dataset class that has one")
        return checked_sample_class(named)
    if is_own_module(config.module):
        own: type[Any] = getattr(types, config.sample_type)
        return own
    return checked_sample_class(_find(config.module, config.sample_type, trust_code))


def dataset_class_of(config: DatasetConfig, *, trust_code: bool) -> Any:
    """Find what a ``dataset.yaml`` names as the class of the dataset, in a module of the user's own.

    Raises:
        TrustError: Its module is not imported, and the caller does not trust the dataset.
        ConfigError: There is no such class.
    """
    return _find(config.dataset_module, config.dataset_class or "", trust_code)


def optional_fields(cls: type[Any]) -> frozenset[str]:
    """Give the names of the fields that a class's constructor can do without."""
    return frozenset(
        known.name for known in fields(cls) if known.default is not MISSING or known.default_factory is not MISSING
    )


def checked_sample_class(cls: Any) -> type[Any]:
    """Refuse what is no sample class: that a class is imported does not mean that a dataset may call it.

    Raises:
        ConfigError: It is no dataclass, and no class of crude samples.
    """
    if isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, types.CrudeSample)):
        return cls
    raise ConfigError(f"{cls!r} is no sample class; expected a dataclass, such as a subclass of Sample")


def _find(module: str, name: str, trust_code: bool) -> Any:
    return find_code(module, name, kind="class", asker="dataset.yaml", trust_code=trust_code)
