"""Parse field maps, the expressions that name the part and the value inside it for each field of a sample.

::

    map         = { field: expression, … }
    expression  = value { "," value }     alternatives: the first that exists is taken; see :mod:`.value_name`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...errors import ConfigError, Fault, SampleError
from ...parts.kinds import kind_of_name, part_extension
from .messages import nearest_names
from .value_name import MissingValueError, PartNames, ValueName, first_names, read_value_names

_AFTER_JSON = re.compile(r"jso?n[._]")


@dataclass(frozen=True, slots=True)
class FieldMap:
    """The alternatives for the value of each field of a sample, in the order of the fields."""

    fields: Mapping[str, tuple[ValueName, ...]]

    def __str__(self) -> str:
        return ", ".join(f"{field}: {expression}" for field, expression in self.expressions().items())

    def expressions(self) -> dict[str, str]:
        """Return the mapping of ``dataset.yaml``: fields to expressions.

        >>> parse_field_map({"image": "jpg, png"}, file="dataset.yaml").expressions()
        {'image': 'jpg,png'}
        """
        return {field: ",".join(access.expression for access in accesses) for field, accesses in self.fields.items()}

    def part_names(self) -> frozenset[str]:
        """Return the names of all parts that the expressions name."""
        return frozenset(access.part for accesses in self.fields.values() for access in accesses)

    @property
    def needs_parts(self) -> bool:
        """True if a name may be none of a part: its ending is unknown, or it continues after the ending of JSON."""
        alone = (access.part for accesses in self.fields.values() for access in accesses if not access.path)
        return any(kind_of_name(part) == "bytes" or _AFTER_JSON.search(part) for part in alone)

    def looks_inside(self, extensions: Collection[str]) -> bool:
        """Return True if a field is a value inside of a part with one of these extensions."""
        inside = (access.part for accesses in self.fields.values() for access in accesses if access.path)
        return any(part_extension(part) in extensions for part in inside)

    def missing(self, parts_available: Collection[str]) -> list[str]:
        """Return the fields with no alternative in the available parts."""
        return [
            field
            for field, accesses in self.fields.items()
            if not any(access.part in parts_available for access in accesses)
        ]

    def resolved(self, names: PartNames, *, file: str, known: Collection[str] = ()) -> FieldMap:
        """Return the map with the values that other spellings mean, such as ``json.a`` or ``caption``.

        Args:
            names: Names of the dataset's parts.
            file: Name of the file, for messages.
            known: Expressions of values that samples have, if some were read: they decide between two meanings.

        Raises:
            ConfigError: A name has several meanings, or means a measured value.
        """
        fields, faults = dict[str, tuple[ValueName, ...]](), list[Fault]()
        for field, accesses in self.fields.items():
            try:
                fields[field] = tuple(_resolved(access, names, known) for access in accesses)
            except ValueError as error:
                faults.append(Fault(place=f"field_map.{field}", message=str(error)))
        if faults:
            raise ConfigError(file=file, faults=faults)
        return FieldMap(fields)

    def apply(
        self,
        parts: Mapping[str, Any],
        decode: Callable[[str, Any], Any] | None = None,
        *,
        optional: Collection[str] = frozenset(),
    ) -> dict[str, Any]:
        """Return each field's value, taken from the decoded parts by the first alternative that exists.

        Args:
            parts: Parts by name. A part is accessed only if needed.
            decode: Decodes a part, given its name and value; called once for each part. None: they are decoded.
            optional: Fields that may be missing. The result then does not have them.

        Raises:
            SampleError: A field is missing; the message has the field, the sample's parts, and the step of the path
                that failed. Its ``part`` is a part of the sample exactly if a path inside that part does not exist.

        >>> field_map = parse_field_map({"caption": "txt,json[caption]"}, file="dataset.yaml")
        >>> field_map.apply({"json": {"caption": "a cat"}})
        {'caption': 'a cat'}
        """
        values: dict[str, Any] = {}
        decoded: dict[str, Any] = {}
        for field, accesses in self.fields.items():
            missing: MissingValueError | None = None
            for access in accesses:
                part = access.part
                if part in parts:
                    if part not in decoded:
                        decoded[part] = parts[part] if decode is None else decode(part, parts[part])
                    value = decoded[part]
                    if access.path:
                        try:
                            value = access.value(value)
                        except MissingValueError as error:
                            missing = error
                            continue
                    values[field] = value
                    break
            else:
                if field not in optional:
                    raise _field_missing(field, accesses, parts, missing)
        return values


def parse_field_expression(text: str) -> tuple[ValueName, ...]:
    """Parse one expression, such as ``"jpg,png"`` or ``"json[caption]"``.

    Raises:
        ValueError: The text is not an expression; the message has the character.

    >>> parse_field_expression("json['a b'][0]")
    (ValueName(part='json', path=('a b', 0), trait=''),)
    """
    return tuple(name for name, _ in read_value_names(text, has_traits=False))


def parse_field_map(mapping: Mapping[Any, object], *, file: str) -> FieldMap:
    """Parse a field map, and collect all its faults.

    Args:
        mapping: Expressions by field name.
        file: Name of the file, for messages.

    Raises:
        ConfigError: Some names or expressions are not valid; the faults have all of them.

    >>> str(parse_field_map({"image": "jpg,png", "caption": "json[caption][0]"}, file="dataset.yaml"))
    'image: jpg,png, caption: json[caption][0]'
    """
    fields: dict[str, tuple[ValueName, ...]] = {}
    faults: list[Fault] = []
    for field, expression in mapping.items():
        here = f"field_map.{field}"
        if not isinstance(field, str):
            faults.append(Fault(place=here, message=f"expected the name of a field, found {field!r}"))
        elif not isinstance(expression, str):
            message = f"expected text such as 'jpg' or 'json[caption]', found {expression!r}"
            faults.append(Fault(place=here, message=message))
        else:
            try:
                fields[field] = parse_field_expression(expression)
            except ValueError as error:
                faults.append(Fault(place=here, message=str(error)))
    if faults:
        raise ConfigError(file=file, faults=faults)
    return FieldMap(fields)


def _resolved(access: ValueName, names: PartNames, known: Collection[str]) -> ValueName:
    if access.part in names.parts:
        return access
    meant = names.meant(access.expression)
    inside = [name for name in meant if not name.trait]
    some = [name for name in inside if name.expression in known]
    is_alone = not any(ValueName(access.part).identifier.startswith(ValueName(name.part).identifier) for name in inside)
    if not some and not (is_alone and (known or kind_of_name(access.part) != "bytes")):
        some = inside  # that none of the samples read has it, says too little
    if len(some) > 1 and all(name.dotted == access.dotted for name in some):
        some = [max(some, key=lambda name: len(name.path))]  # each dot is taken as a bracket
    if len(some) > 1:
        raise ValueError(f"{access} may mean {', '.join(map(str, some))}; name one of these")
    if meant and not inside:
        raise ValueError(f"{meant[0]} is measured; a field comes from a part, or a value inside a part")
    return some[0] if some else access


class MissingPartError(SampleError):
    """No part that the expression of a field names is in the sample.

    Args:
        field: The field.
        accesses: The alternatives of its expression.
        parts: Names of the sample's parts.
        file: Path of the file with the field map, and line of the field, if known.
    """

    def __init__(
        self, field: str, accesses: Sequence[ValueName], parts: Collection[str], *, file: str | None = None
    ) -> None:
        self.field, self.accesses = field, tuple(accesses)
        super().__init__(
            f"field {field!r} ({_expression(accesses)}) is missing: this sample has only the parts "
            f"{first_names(parts)}{_nearest_part(accesses, parts)}",
            part=accesses[0].part,
            hint=f"correct field_map in {file or 'dataset.yaml'}; or, if only few samples lack the part, exclude them "
            "(energon lint --fix does)",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SampleError, part=self.part, hint=self.hint), (self.message,)


def _field_missing(
    field: str, accesses: tuple[ValueName, ...], parts: Mapping[str, Any], missing: MissingValueError | None
) -> SampleError:
    if missing is None:
        return MissingPartError(field, accesses, parts)
    return SampleError(
        f"field {field!r} ({_expression(accesses)}) is missing: {missing}",
        part=missing.part,
        hint="correct field_map in dataset.yaml, or exclude the sample (energon lint --fix does)",
    )


def _expression(accesses: Sequence[ValueName]) -> str:
    return ",".join(map(str, accesses))


def _nearest_part(accesses: Sequence[ValueName], parts: Collection[str]) -> str:
    """Suggest the part with a similar name, or the only one of the same kind."""
    for access in accesses:
        kind = kind_of_name(access.part)
        alike = [] if kind == "bytes" else [name for name in parts if kind_of_name(name) == kind]
        nearest = nearest_names(access.part, parts, limit=1) or (alike if len(alike) == 1 else [])
        if nearest:
            return f"; did you mean {nearest[0]!r}?"
    return ""
