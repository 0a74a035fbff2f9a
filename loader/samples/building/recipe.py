"""How parts become samples: what ``dataset.yaml`` or a dataset class says, with code in place of names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..format.dataset_config import DatasetConfig
from ..format.field_map import FieldMap, parse_field_map
from .sample_class import sample_class_of
from .sample_loader import MetaFunction
from .types import CrudeSample

__all__ = ["PartFilter", "SampleRecipe"]

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
