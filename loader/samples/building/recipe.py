"""How parts become samples: what ``dataset.yaml`` or a dataset class says, with code in place of names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.field_map import FieldMap, parse_field_map
from .. import types
from ..types import CrudeSample
from .dataset_code import MetaFunction, find_code

__all__ = [
    "PartFilter",
    "SampleRecipe",
    "checked_sample_class",
    "dataset_class_of",
    "optional_fields",
    "sample_class_of",
]

PartFilter = frozenset[str] | Callable[[str], Any]
"""Names of the parts that are needed, or what tells whether a part of a name is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecipe:
    """How the parts of a dataset's samples become samples.

    Attributes:
        sample_class: The class of the samples; that of crude ones is a dict.
        field_map: Where the fields' values are.
        loader: Makes a dict of the fields, or the sample, of a dict of the decoded parts.
        part_filter: Which parts are needed; None: all.
        subflavors: Labels that every sample bears.
    """

    sample_class: type[Any] = CrudeSample
    field_map: FieldMap | None = None
    loader: Callable[..., Any] | None = None
    part_filter: PartFilter | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_config(cls, config: DatasetConfig | None, *, meta_folder: Path, trust_code: bool) -> SampleRecipe:
        """Take what ``dataset.yaml`` says; None makes crude samples.

        Raises:
            TrustError: It asks to run code, and the caller does not allow it.
            ConfigError: A class, file or function that it names is not there.
        """
        if config is None:
            return cls()
        return cls(
            sample_class=sample_class_of(config, trust_code=trust_code),
            field_map=config.field_map,
            loader=_function(config.sample_loader, meta_folder, trust_code),
            part_filter=_part_filter(config.field_map, config.part_filter, meta_folder, trust_code),
            subflavors=config.subflavors,
        )

    @classmethod
    def of_arguments(
        cls,
        sample_class: type[Any],
        *,
        field_map: Mapping[str, str] | None,
        sample_loader: str | Callable[..., Any] | None,
        part_filter: str | Sequence[str] | Callable[[str], Any] | None,
        subflavors: Mapping[str, Any],
        meta_folder: Path,
        trust_code: bool,
    ) -> SampleRecipe:
        """Take what a dataset class was given: the same as in ``dataset.yaml``, or the functions themselves.

        Raises:
            TrustError: A file of the dataset is named, and the caller does not allow it to run.
            ConfigError: A file or function that is named is not there, or the field map says something wrong.
        """
        fields = None if field_map is None else parse_field_map(dict(field_map), file="the field map")
        wanted = part_filter if part_filter is None or isinstance(part_filter, str) else _names_or_test(part_filter)
        return cls(
            sample_class=sample_class,
            field_map=fields,
            loader=_function(sample_loader, meta_folder, trust_code),
            part_filter=_part_filter(fields, wanted, meta_folder, trust_code),
            subflavors=subflavors,
        )


def _names_or_test(given: Sequence[str] | Callable[[str], Any]) -> tuple[str, ...] | Callable[[str], Any]:
    return given if callable(given) else tuple(given)


def _function(given: str | Callable[..., Any] | None, meta_folder: Path, trust_code: bool) -> Callable[..., Any] | None:
    return MetaFunction(meta_folder, given, trust_code=trust_code) if isinstance(given, str) else given


def _part_filter(
    field_map: FieldMap | None,
    given: str | tuple[str, ...] | Callable[[str], Any] | None,
    meta_folder: Path,
    trust_code: bool,
) -> PartFilter | None:
    if field_map is not None:
        return field_map.part_names()
    return frozenset(given) if isinstance(given, tuple) else _function(given, meta_folder, trust_code)


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
