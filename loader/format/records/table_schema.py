"""Read what the schema of an Arrow table says of its columns: media, and features of Hugging Face datasets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

ClassNames: TypeAlias = "tuple[str, ...] | Mapping[str, ClassNames]"
"""Names of classes, by their numbers; of an object, by its fields. The elements of a list have these names, too."""

_FEATURES = b"huggingface"
_MAX_DEPTH = 32  # of features in each other
_EXTENSIONS: Final = {"Audio": "wav", "Image": "jpg", "Video": "mp4"}  # by which contents of unknown kind are decoded


def features_of(schema: Any) -> Mapping[str, Any]:
    """Return what Hugging Face datasets note about columns, by name."""
    try:
        features = json.loads((schema.metadata or {}).get(_FEATURES, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def class_names(feature: Any, depth: int = 0) -> ClassNames:
    """Return the names of classes in a feature of Hugging Face datasets."""
    if depth > _MAX_DEPTH:
        return ()
    # A list has its feature in a list of its own, or under a name that depends on the version.
    if isinstance(feature, list):
        return class_names(feature[0], depth + 1) if len(feature) == 1 else ()
    if not isinstance(feature, dict):
        return ()
    if feature.get("_type") == "ClassLabel":
        names = feature.get("names")
        return tuple(map(str, names)) if isinstance(names, list) else ()
    if isinstance(feature.get("_type"), str):
        return class_names(feature.get("feature"), depth + 1)
    fields = {name: class_names(inner, depth + 1) for name, inner in feature.items()}
    return {name: names for name, names in fields.items() if names}


def is_bytes(type_: Any) -> bool:
    """Return True for bytes of any type of Arrow for them."""
    from pyarrow import types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    is_binary = types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_)
    return is_binary or str(type_) == "binary_view"


def is_media(type_: Any) -> bool:
    """Return True for a struct of bytes and a path, as in Hugging Face datasets."""
    from pyarrow import types

    if not types.is_struct(type_):
        return False
    fields = {type_.field(index).name: type_.field(index).type for index in range(type_.num_fields)}
    return "bytes" in fields and is_bytes(fields["bytes"]) and fields.keys() <= {"bytes", "path", "sampling_rate"}


def is_list(type_: Any) -> bool:
    """Return True for lists of any type of Arrow for them."""
    from pyarrow import types

    is_view = str(type_).startswith(("list_view<", "large_list_view<"))
    return is_view or types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)


def media_columns(schema: Any) -> dict[str, str]:
    """Return the columns of media, and of lists of them, with the extension of contents of unknown kind.

    Media are structs of bytes and a path, and bytes that Hugging Face datasets note as pictures, sounds or videos. The
    extension is empty where nothing says what they are.
    """
    features, media = features_of(schema), {}
    for field in schema:
        type_, feature = field.type, features.get(field.name)
        while is_list(type_):
            type_ = type_.value_type
            feature = feature.get("feature") if isinstance(feature, dict) else feature
            feature = feature[0] if isinstance(feature, list) and feature else feature
        kind = feature.get("_type") if isinstance(feature, dict) else None
        if is_media(type_) or (is_bytes(type_) and kind in _EXTENSIONS):
            media[field.name] = _EXTENSIONS.get(str(kind), "")
    return media


def labelled_columns(schema: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of numbers of classes, and of lists of them, with the names of the classes."""
    names = {name: class_names(feature) for name, feature in features_of(schema).items()}
    return {field.name: known for field in schema if isinstance(known := names.get(field.name), tuple) and known}


def name_of_class(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class, or a list of names; None for no class.

    >>> name_of_class([1, -1], ("cat", "dog"))
    ['dog', None]
    """
    if isinstance(value, list):
        return [name_of_class(each, names) for each in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
