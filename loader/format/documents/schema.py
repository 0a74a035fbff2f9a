"""Convert parsed documents to declared types, and report every value that does not fit.

The description in the ``Meta`` of a type says what to write there: messages quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import UNSET, UnsetType, ValidationError, convert
from msgspec.structs import fields

from ...errors import Fault
from .messages import did_you_mean, short_key, short_repr


def converted(document: Any, schema: Any, faults: list[Fault], path: str = "") -> Any:
    """Return a parsed document as its type, without the values that do not fit; None if nothing of it fits.

    Args:
        document: Dicts with keys of any type, lists, texts, numbers, booleans and dates.
        schema: A type: lists, dicts and structs of unions of these, and of annotated texts and numbers.
        faults: List to which the faults are added: values of another type, unknown keys, and missing keys.
        path: Its path in a larger document.

    >>> from msgspec import Meta
    >>> faults: list[Fault] = []
    >>> converted({"a": 3, "b": "x"}, dict[str, Annotated[str, Meta(description="a name")]], faults)
    {'b': 'x'}
    >>> print(*faults)
    a: expected a name, found 3; put it in quotes
    """
    try:
        return convert(document, schema)
    except (ValidationError, UnicodeEncodeError):  # the latter of keys that are not UTF-8
        rest = _fitting(document, schema, path, faults)
        return None if rest is UNSET else convert(rest, schema)


def _fitting(value: Any, schema: Any, path: str, faults: list[Fault]) -> Any:
    """Return a value without what does not fit in it; None, or else UNSET, if it does not fit itself."""
    # Take the type of a union that holds values as this one does, or else the first one.
    forms = [*_forms(schema)]
    kind, expected = next((form for form in forms if _holds(form[0], value)), forms[0])
    before = f"{path}." if path else ""
    fitting: Any = value
    # Report a value that holds no others.
    if not _holds(kind, value):
        try:
            convert(value, schema)
        except ValidationError:
            shown = "nothing" if value is None else short_repr(value)
            faults.append(Fault(place=path, message=f"expected {expected}, found {shown}{_advice(value, kind)}"))
            fitting = UNSET
    # A list fits if each item does, so that the places of the items stay as they are.
    elif isinstance(value, list):
        fitting = [_fitting(item, get_args(kind)[0], f"{path}[{index}]", faults) for index, item in enumerate(value)]
        fitting = UNSET if UNSET in fitting else fitting
    # Leave out the keys and values of a dict that do not fit.
    elif get_origin(kind) is dict:
        fitting = {}
        for key, item in value.items():
            inner = before + short_key(key)
            kept = [_fitting(each, form, inner, faults) for each, form in zip((key, item), get_args(kind), strict=True)]
            if UNSET not in kept:
                fitting[key] = kept[1]
    else:
        fitting = _fitting_struct(value, kind, before, faults)
    return None if fitting is UNSET and NoneType in get_args(schema) else fitting


def _fitting_struct(value: Mapping[Any, Any], kind: Any, before: str, faults: list[Fault]) -> Any:
    known = {field.encode_name: field for field in fields(kind)}
    unknown = [short_key(key) for key in value if key not in known]
    faults += [Fault(place=before + key, message=f"there is no such key{did_you_mean(key, known)}") for key in unknown]
    rest: dict[str, Any] = {}
    for name, field in known.items():
        if name in value:
            rest[name] = _fitting(value[name], field.type, before + name, faults)
        elif field.required:
            faults.append(Fault(place=before + name, message=f"expected {next(_forms(field.type))[1]}, found nothing"))
    is_whole = all(rest.get(name, UNSET) is not UNSET for name, field in known.items() if field.required)
    return {name: item for name, item in rest.items() if item is not UNSET} if is_whole else UNSET


def _forms(schema: Any) -> Iterator[tuple[Any, str]]:
    """Yield the types of a union, without the one of a missing value, and what to write for each."""
    for form in get_args(schema) if get_origin(schema) in (Union, UnionType) else [schema]:
        if get_origin(form) is Annotated:
            yield form.__origin__, form.__metadata__[0].description
        elif form not in (NoneType, UnsetType):
            yield form, _EXPECTED.get(get_origin(form) or form, "a mapping")


def _advice(value: Any, kind: Any) -> str:
    """Return how to write a value of YAML so that it has a type."""
    if kind is str and isinstance(value, int | float | date):
        return "; put it in quotes"
    if kind is float and isinstance(value, str) and _EXPONENT.fullmatch(value):
        return "; in YAML a number with an exponent is written as 1.0e-3"
    return ""


_EXPONENT = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")

_EXPECTED = {list: "a list", str: "a text"}


def _holds(kind: Any, value: Any) -> bool:
    """Return True if values of a type hold other values as this one does."""
    if isinstance(value, list):
        return get_origin(kind) is list
    return isinstance(value, dict) and (get_origin(kind) is dict or hasattr(kind, "__struct_fields__"))
