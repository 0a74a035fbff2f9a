"""What a user may decide about a dataset, as plain data: from flags, from questions, or from proposals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import click

from loader.errors import ConfigError
from loader.format.documents.field_map import parse_field_expression
from loader.format.documents.sample_types import SampleTypeSpec, sample_type_of_name
from loader.format.prepare.plan import SplitRequest

__all__ = ["Choices", "DatasetYaml", "parse_field_map_flag", "parse_sample_type_flag", "yes_or_no"]

_YES = frozenset(("y", "yes", "true", "ok"))
_NO = frozenset(("n", "no", "false"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetYaml:
    """What ``dataset.yaml`` is to say.

    Args:
        spec: The sample type.
        field_map: An expression for each field; None has a ``sample_loader.py`` written for the user to fill in.
    """

    spec: SampleTypeSpec
    field_map: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Everything that is decided before a prepare runs; None keeps what the dataset has."""

    split: SplitRequest | None = None
    dataset_yaml: DatasetYaml | None = None


def yes_or_no(text: str) -> bool | None:
    """Understand an answer to a yes/no question; None where it is neither.

    >>> yes_or_no("Yes"), yes_or_no("n"), yes_or_no("CaptioningWebdataset")
    (True, False, None)
    """
    word = text.strip().lower()
    if word in _YES:
        return True
    return False if word in _NO else None


def parse_sample_type_flag(text: str) -> SampleTypeSpec:
    """Read ``--sample-type``; an unknown name is wrong usage."""
    try:
        return sample_type_of_name(text)
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint="--sample-type") from error


def parse_field_map_flag(text: str, spec: SampleTypeSpec) -> dict[str, str]:
    """Read ``--field-map``: a JSON object of a sample type's fields; every fault in it is wrong usage, told at once."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--field-map") from error
    if not isinstance(document, dict):
        raise click.BadParameter('expected an object such as {"image": "jpg"}', param_hint="--field-map")
    known = {known.name for known in spec.fields}
    faults = [f"{spec.name} has no field {name!r}; it has {', '.join(known)}" for name in document if name not in known]
    faults += [f"{name!r} is required by {spec.name} and missing" for name in spec.required if name not in document]
    for name, expression in document.items():
        if not isinstance(expression, str):
            faults.append(f"{name!r}: expected text such as 'jpg' or 'json[caption]', found {expression!r}")
            continue
        try:
            parse_field_expression(expression)
        except ValueError as error:
            faults.append(f"{name!r}: {error}")
    if faults:
        raise click.BadParameter("; ".join(faults), param_hint="--field-map")
    return {spec_field.name: document[spec_field.name] for spec_field in spec.fields if spec_field.name in document}
