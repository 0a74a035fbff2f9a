"""The parts of typed samples by a field map."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from ...errors import ConfigError, SampleError
from ...format.documents.conversation import Turn
from ...format.documents.dataset_config import DatasetConfig, format_dataset_config, parse_dataset_config
from ...format.documents.field_map import FieldMap, parse_field_map
from ...format.documents.messages import did_you_mean
from ...format.documents.sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec
from ...format.documents.value_name import ValueName

_PART_OF_KIND = {
    "image": "jpg",
    "image_list": "jpg",
    "label": "cls",
    "tensor": "npy",
    "images": "npy",
    "video": "mp4",
    "audio": "wav",
}
"""Parts of the fields of some kinds; the first text is ``txt``, all other values are in ``json``."""


class SampleParts:
    """Turns typed samples into parts.

    Args:
        sample_type: Name of their type, such as ``CaptioningSample``.
        field_map: Field → expression; None for one by the kinds of the fields.
    """

    def __init__(self, sample_type: str, field_map: Mapping[str, str] | None = None) -> None:
        spec = SAMPLE_TYPES.get(sample_type)
        if spec is None or spec.crude:
            raise ConfigError(
                f"there is no sample type {sample_type!r} with fields{did_you_mean(sample_type, SAMPLE_TYPES)}",
                hint="write dicts of parts for other samples",
            )
        self.spec = spec
        expressions = dict(field_map) if field_map is not None else _default_map(spec)
        self.field_map: FieldMap = parse_field_map(expressions, file="field_map")
        # The checks of dataset.yaml: unknown and missing fields.
        parse_dataset_config(self.description(), file="field_map")

    def description(self) -> str:
        return format_dataset_config(DatasetConfig(sample_type=self.spec.name, field_map=self.field_map))

    def parts(self, sample: Any, *, key: str) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name, accesses in self.field_map.fields.items():
            value = getattr(sample, name, None)
            if value is None:
                if name in self.spec.required:
                    raise SampleError(f"the field {name!r} is missing", key=key, source=f"sample {key}")
                continue
            access = accesses[0]
            value = _written_value(value, is_tree=bool(access.path))
            # A value is inside of a tree that fields share, or a part of its own.
            if access.path:
                _insert(parts, access, value, key)
            elif access.part in parts:
                raise SampleError(f"two fields need the part {access.part!r}", key=key, source=f"sample {key}")
            else:
                parts[access.part] = value
        return parts


def description(sample_type: str | None, field_map: Mapping[str, str] | None) -> str | None:
    """Return the ``dataset.yaml`` of dicts of parts; None without a sample type."""
    if sample_type is None:
        return None
    if sample_type in (CRUDE.name, CRUDE.short_name):
        return format_dataset_config(DatasetConfig(sample_type=CRUDE.name, crude=True))
    return SampleParts(sample_type, field_map).description()


def type_of_sample(sample: Any) -> str | None:
    """Return the name of the nearest type of a sample object that the library has; None for other objects."""
    if not dataclasses.is_dataclass(sample) or isinstance(sample, type):
        return None
    names = (kind.__name__ for kind in type(sample).__mro__)
    return next((name for name in names if name in SAMPLE_TYPES), None)


def _default_map(spec: SampleTypeSpec) -> dict[str, str]:
    """Return a field map by the kinds of the fields.

    >>> _default_map(SAMPLE_TYPES["CaptioningSample"]), _default_map(SAMPLE_TYPES["VQASample"])["answers"]
    ({'image': 'jpg', 'caption': 'txt'}, 'json[answers]')
    """
    expressions: dict[str, str] = {}
    taken: set[str] = set()
    # The first field of a kind gets the usual part, and the others are in JSON.
    for field in spec.fields:
        part = _PART_OF_KIND.get(field.kind)
        if part is None and field.kind in ("text", "label_name") and "txt" not in taken:
            part = "txt"
        if part == "npy":
            part = f"{field.name}.npy"
        if part is None or part in taken:
            expressions[field.name] = ValueName("json", (field.name,)).expression
        else:
            taken.add(part)
            expressions[field.name] = part
    return expressions


def _insert(parts: dict[str, Any], access: ValueName, value: Any, key: str) -> None:
    tree = parts.setdefault(access.part, {})
    for step in access.path[:-1]:
        tree = tree.setdefault(str(step), {}) if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or any(isinstance(step, int) for step in access.path) or access.path[-1] in tree:
        raise SampleError(
            f"a value cannot be written at {access}", key=key, source=f"sample {key}", hint="name a field of a mapping"
        )
    tree[access.path[-1]] = value


def _written_value(value: Any, *, is_tree: bool) -> Any:
    if isinstance(value, list | tuple) and value and isinstance(value[0], Turn):
        return [{"role": turn.role, "content": turn.text, **turn.extra} for turn in value]
    if not is_tree and isinstance(value, list | tuple) and len(value) == 1:
        return value[0]  # one picture of a list
    return value


_WRONG_IN_KEY = re.compile(r"[\x00-\x1f\x7f]|^/|/$|//|^$")


def checked_key(key: object, part_names: Iterable[str]) -> str:
    """Return the key of a sample."""
    if not isinstance(key, str):
        raise SampleError("the sample has no '__key__'", hint="add a text that is unique in the dataset")
    # Readers skip hidden folders, and take the part from the first dot.
    folders = key.split("/")
    is_hidden = any(name.startswith(".") for name in folders) or (folders[0][:2] == folders[0][-2:] == "__")
    if _WRONG_IN_KEY.search(key) or "." in folders[-1] or is_hidden:
        raise SampleError(
            f"the key {key!r} cannot be the name of a file in a shard",
            key=key,
            hint="use no dot after the last slash, where the part name begins, and no hidden folders",
        )
    names = [*part_names]
    for name in names:
        if not name or name.startswith((".", "_")) or "/" in name or not name.isprintable():
            raise SampleError(f"a part cannot have the name {name!r}", key=key, hint="name it by its extension")
    if not names:
        raise SampleError("the sample has no parts", key=key, source=f"sample {key}")
    return key


def split_by_hash(key: str, ratio: Mapping[str, float] | None) -> str:
    """Return the split part of a key by its hash; ``""`` without a ratio.

    >>> split_by_hash("0001", {"train": 1, "val": 0})
    'train'
    """
    if ratio is None:
        return ""
    # The hash is a position in the shares.
    position = int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"split").digest(), "big") / 2**64
    position *= sum(ratio.values())
    for name, share in ratio.items():
        if position < share:
            return name
        position -= share
    return next(name for name in reversed([*ratio]) if ratio[name])
