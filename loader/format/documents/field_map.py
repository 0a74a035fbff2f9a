r"""Parse field maps, the expressions that name the part and the value inside it for each field of a sample.

::

    map         = { field: expression, … }
    expression  = access { "," access }         alternatives: the first that exists is taken
    access      = part-name { "[" step "]" }     json[answers][0][text]
    step        = integer | text | quoted text   'quoted' or "quoted", with \ before a quote or backslash
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...accounting.kinds import kind_of_name
from ...errors import ConfigError, Fault, SampleError
from .messages import nearest_names

_INTEGER = re.compile(r"-?[0-9]+")
_PART_NAME = re.compile(r"[^\[\],]+")
_STEP = re.compile(
    r"""\[\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<plain>[^\[\]]*?))\s*\]""", re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""[\[\]"'\\]|^\s|\s$|^$|^-?[0-9]+$""")


class _MissingValueError(LookupError):
    """A path inside a part does not exist; the message has the step that failed."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True, slots=True)
class FieldAccess:
    """One part and the path inside its decoded value: ``json[answers][0]``."""

    part: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return self.part + "".join(f"[{_format_step(step)}]" for step in self.path)

    def value(self, decoded: Any) -> Any:
        """Return the value at the path inside the part's decoded value.

        Raises:
            LookupError: The path does not exist.
        """
        for depth, step in enumerate(self.path):
            if isinstance(decoded, Mapping):
                key = step if step in decoded else str(step)
                if key not in decoded:
                    raise self._missing(
                        depth, f"has no {step!r}, only {_first_names(decoded)}{_nearest(step, decoded)}"
                    )
                decoded = decoded[key]
            elif isinstance(decoded, list | tuple):
                if not isinstance(step, int):
                    raise self._missing(depth, f"is a list, which has no key {step!r}")
                if not -len(decoded) <= step < len(decoded):
                    raise self._missing(
                        depth, f"has {len(decoded)} item{'' if len(decoded) == 1 else 's'}, no item {step}"
                    )
                decoded = decoded[step]
            else:
                raise self._missing(depth, f"is {type(decoded).__name__}, expected a mapping or a list")
        return decoded

    def _missing(self, depth: int, message: str) -> _MissingValueError:
        return _MissingValueError(f"{FieldAccess(self.part, self.path[:depth])} {message}", self.part)


@dataclass(frozen=True, slots=True)
class FieldMap:
    """The alternatives for the value of each field of a sample, in the order of the fields."""

    fields: Mapping[str, tuple[FieldAccess, ...]]

    def __str__(self) -> str:
        return ", ".join(f"{field}: {expression}" for field, expression in self.expressions().items())

    def expressions(self) -> dict[str, str]:
        """Return the mapping of ``dataset.yaml``: fields to expressions.

        >>> parse_field_map({"image": "jpg, png"}, file="dataset.yaml").expressions()
        {'image': 'jpg,png'}
        """
        return {field: ",".join(map(str, accesses)) for field, accesses in self.fields.items()}

    def part_names(self) -> frozenset[str]:
        """Return the names of all parts that the expressions name."""
        return frozenset(access.part for accesses in self.fields.values() for access in accesses)

    def missing(self, parts_available: Collection[str]) -> list[str]:
        """Return the fields with no alternative in the available parts."""
        return [
            field
            for field, accesses in self.fields.items()
            if not any(access.part in parts_available for access in accesses)
        ]

    def apply(self, parts: Mapping[str, Any], *, optional: Collection[str] = frozenset()) -> dict[str, Any]:
        """Return each field's value, taken from the decoded parts by the first alternative that exists.

        Args:
            parts: Decoded parts by name. A part is accessed only if needed, so the mapping may decode on access.
            optional: Fields that may be missing. The result then does not have them.

        Raises:
            SampleError: A field is missing; the message has the field, the sample's parts, and the step of the path
                that failed. Its ``part`` is a part of the sample exactly if a path inside that part does not exist.

        >>> field_map = parse_field_map({"caption": "txt,json[caption]"}, file="dataset.yaml")
        >>> field_map.apply({"json": {"caption": "a cat"}})
        {'caption': 'a cat'}
        """
        values: dict[str, Any] = {}
        for field, accesses in self.fields.items():
            missing: _MissingValueError | None = None
            for access in accesses:
                if access.part in parts:
                    decoded = parts[access.part]
                    if access.path:
                        try:
                            decoded = access.value(decoded)
                        except _MissingValueError as error:
                            missing = error
                            continue
                    values[field] = decoded
                    break
            else:
                if field not in optional:
                    raise _field_missing(field, accesses, parts, missing)
        return values


def is_part_name(text: str) -> bool:
    """Return True if an expression can name a part of this name; there are no quotes around part names.

    >>> is_part_name("seg.png"), is_part_name("a[0].png"), is_part_name("a.png ")
    (True, False, False)
    """
    return _PART_NAME.fullmatch(text) is not None and text == text.strip()


def parse_field_expression(text: str) -> tuple[FieldAccess, ...]:
    """Parse one expression, such as ``"jpg,png"`` or ``"json[caption]"``.

    Raises:
        ValueError: The text is not an expression; the message has the character.

    >>> parse_field_expression("json['a b'][0]")
    (FieldAccess(part='json', path=('a b', 0)),)
    """
    accesses: list[FieldAccess] = []
    position = 0
    while True:
        part = _PART_NAME.match(text, position)
        if part is None or not part.group().strip():
            raise ValueError(f"expected a part name (jpg, json[caption]) at character {position + 1} of {text!r}")
        position = part.end()
        path: list[str | int] = []
        while step := _STEP.match(text, position):
            path.append(_parse_step(step, text))
            position = step.end()
        accesses.append(FieldAccess(part.group().strip(), tuple(path)))
        rest = text[position:].lstrip()
        if not rest:
            return tuple(accesses)
        position = len(text) - len(rest)
        if rest[0] != ",":
            raise ValueError(f"expected ',', '[' or the end at character {position + 1} of {text!r}")
        position += 1


def parse_field_map(mapping: Mapping[Any, object], *, file: str, place: str = "field_map") -> FieldMap:
    """Parse a field map, and collect all its faults.

    Args:
        mapping: Expressions by field name.
        file: Name of the file, for messages.
        place: Path of the mapping inside that file, for messages.

    Raises:
        ConfigError: Some names or expressions are not valid; the faults have all of them.

    >>> str(parse_field_map({"image": "jpg,png", "caption": "json[caption][0]"}, file="dataset.yaml"))
    'image: jpg,png, caption: json[caption][0]'
    """
    fields: dict[str, tuple[FieldAccess, ...]] = {}
    faults: list[Fault] = []
    for field, expression in mapping.items():
        here = f"{place}.{field}"
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


def _parse_step(step: re.Match[str], text: str) -> str | int:
    quoted = step["double"] if step["double"] is not None else step["single"]
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    plain = step["plain"]
    if not plain:
        raise ValueError(f"expected a key or a number inside [] at character {step.start() + 1} of {text!r}")
    return int(plain) if _INTEGER.fullmatch(plain) else plain


def _format_step(step: str | int) -> str:
    if isinstance(step, int):
        return str(step)
    if not _NEEDS_QUOTES.search(step):
        return step
    escaped = step.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class MissingPartError(SampleError):
    """No part that the expression of a field names is in the sample.

    Args:
        field: The field.
        accesses: The alternatives of its expression.
        parts: Names of the sample's parts.
        file: Path of the file with the field map, and line of the field, if known.
    """

    def __init__(
        self, field: str, accesses: Sequence[FieldAccess], parts: Collection[str], *, file: str | None = None
    ) -> None:
        self.field, self.accesses = field, tuple(accesses)
        super().__init__(
            f"field {field!r} ({_expression(accesses)}) is missing: this sample has only the parts "
            f"{_first_names(parts)}{_nearest_part(accesses, parts)}",
            part=accesses[0].part,
            hint=f"correct field_map in {file or 'dataset.yaml'}; or, if only few samples lack the part, exclude them "
            "(energon lint --fix does)",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {"part": self.part, "hint": self.hint}
        return _as_sample_error, (self.message, fields)


def _as_sample_error(message: str, fields: dict[str, Any]) -> SampleError:
    return SampleError(message, **fields)


def _field_missing(
    field: str, accesses: tuple[FieldAccess, ...], parts: Mapping[str, Any], missing: _MissingValueError | None
) -> SampleError:
    if missing is None:
        return MissingPartError(field, accesses, parts)
    return SampleError(
        f"field {field!r} ({_expression(accesses)}) is missing: {missing}",
        part=missing.part,
        hint="correct field_map in dataset.yaml, or exclude the sample (energon lint --fix does)",
    )


def _expression(accesses: Sequence[FieldAccess]) -> str:
    return ",".join(map(str, accesses))


def _nearest_part(accesses: Sequence[FieldAccess], parts: Collection[str]) -> str:
    """Suggest the part with a similar name, or the only one of the same kind."""
    for access in accesses:
        kind = kind_of_name(access.part)
        alike = [] if kind == "bytes" else [name for name in parts if kind_of_name(name) == kind]
        nearest = nearest_names(access.part, parts, limit=1) or (alike if len(alike) == 1 else [])
        if nearest:
            return f"; did you mean {nearest[0]!r}?"
    return ""


def _nearest(step: object, names: Mapping[Any, Any]) -> str:
    nearest = nearest_names(str(step), [str(name) for name in names], limit=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _first_names(names: Collection[Any]) -> str:
    first = [str(name) for name in names][:20]
    return ", ".join(first) + (", …" if len(names) > len(first) else "") if first else "nothing"
