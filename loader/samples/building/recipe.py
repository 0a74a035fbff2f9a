"""Read how samples are built: the content of a ``dataset.yaml``, or of arguments, with its code imported."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ConfigError
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.field_map import FieldMap, parse_field_map
from .. import types
from ..types import CrudeSample
from .dataset_code import DatasetCode, checked_sample_class, dataset_class_of, find_class

PartFilter = frozenset[str] | Callable[[str], Any]
"""Names of the parts to read, or a predicate on part names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecipe:
    """Recipe of a dataset's samples: how they are built from their parts.

    Attributes:
        sample_class: The class of the samples; a dict class for crude samples.
        field_map: The part, or the value inside a part, of each field.
        loader: Builds a dict of the fields, or the sample, from a dict of the decoded parts.
        part_filter: The parts to read; None reads all.
        subflavors: Labels of every sample.
    """

    sample_class: type[Any] = CrudeSample
    field_map: FieldMap | None = None
    loader: Callable[..., Any] | None = None
    part_filter: PartFilter | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_config(cls, config: DatasetConfig | None, code: DatasetCode) -> SampleRecipe:
        """Create the recipe of a ``dataset.yaml``; None means crude samples.

        Raises:
            TrustError: It names code to run, and the caller does not trust the dataset.
            ConfigError: A class, file or function that it names does not exist.
        """
        if config is None:
            return cls()
        return cls(
            sample_class=sample_class_of(config, trust_code=code.trust_code),
            field_map=config.field_map,
            loader=code.function(config.sample_loader),
            part_filter=_part_filter(config.field_map, config.part_filter, code),
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
        code: DatasetCode,
    ) -> SampleRecipe:
        """Create the recipe of a dataset class from its arguments: values as in ``dataset.yaml``, or functions.

        Raises:
            TrustError: A file of the dataset is named, and the caller does not trust the dataset.
            ConfigError: A file or function that is named does not exist, or the field map is invalid.
        """
        fields = None if field_map is None else parse_field_map(dict(field_map), file="the field map")
        wanted = part_filter if part_filter is None or isinstance(part_filter, str) else _names_or_test(part_filter)
        return cls(
            sample_class=sample_class,
            field_map=fields,
            loader=code.function(sample_loader),
            part_filter=_part_filter(fields, wanted, code),
            subflavors=subflavors,
        )

    def completed(
        self,
        sample_type: type[Any] | None,
        options: Mapping[str, Any],
        code: DatasetCode,
    ) -> SampleRecipe:
        """Return the recipe with what it leaves open taken from the caller's options.

        Args:
            sample_type: Class of the samples of a dataset without a ``dataset.yaml``; None for other datasets.
            options: ``field_map``, ``sample_loader`` and ``part_filter``, as in :meth:`of_arguments`.
            code: The folder of the files that the options name.

        Raises:
            TrustError: A file of the dataset is named, and the caller does not trust the dataset.
            ConfigError: A file or function that is named does not exist, or the field map is invalid.

        Warns:
            UserWarning: An option has no effect, since ``dataset.yaml`` defines the same.
        """
        describes_fields = sample_type is not None and not issubclass(sample_type, CrudeSample)
        is_set = {
            "field_map": not describes_fields,
            "sample_loader": not describes_fields,
            "part_filter": self.part_filter is not None,
        }
        used = {name: options[name] for name in is_set if name in options and not is_set[name]}
        for name in is_set.keys() & options.keys() - used.keys():
            warnings.warn(f"{name}= has no effect: dataset.yaml describes the samples", UserWarning, stacklevel=2)
        if not used:
            return self
        return SampleRecipe.of_arguments(
            sample_type if describes_fields and sample_type is not None else self.sample_class,
            field_map=used.get("field_map") or (None if self.field_map is None else self.field_map.expressions()),
            sample_loader=used.get("sample_loader") or self.loader,
            part_filter=used.get("part_filter"),
            subflavors=self.subflavors,
            code=code,
        )


def sample_class_of(config: DatasetConfig, *, trust_code: bool) -> type[Any]:
    """Return the sample class of a dataset.

    Classes of this library are found by name. A class of another module is used if that module is already imported;
    importing the module requires trust.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
        ConfigError: The class does not exist, or is not a sample class.
    """
    if config.sample_type is None:
        dataset_class = dataset_class_of(config, trust_code=trust_code)
        sample_class = getattr(dataset_class, "__sample_type__", None)
        if sample_class is None:
            name = f"{config.dataset_module}.{config.dataset_class}"
            raise ConfigError(f"{name} has no __sample_type__; expected a dataset class that has one")
        return checked_sample_class(sample_class)
    if is_own_module(config.module):
        own: type[Any] = getattr(types, config.sample_type)
        return own
    return checked_sample_class(find_class(config.module, config.sample_type, trust_code=trust_code))


def _names_or_test(given: Sequence[str] | Callable[[str], Any]) -> tuple[str, ...] | Callable[[str], Any]:
    return given if callable(given) else tuple(given)


def _part_filter(
    field_map: FieldMap | None,
    given: str | tuple[str, ...] | Callable[[str], Any] | None,
    code: DatasetCode,
) -> PartFilter | None:
    if field_map is not None:
        return field_map.part_names()
    return frozenset(given) if isinstance(given, tuple) else code.function(given)
