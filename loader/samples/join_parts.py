"""Join the samples of a dataset with parts that are in other datasets."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import ConfigError
from .types import CrudeSample


def join_parts(sample: Any, *others: Any) -> Any:
    """Return a sample with the parts of other samples, as a joiner of a metadataset.

    ``energon add-parts`` names it in the metadataset that it writes.

    Args:
        sample: A crude sample, which gets all parts; or a typed one, whose fields get the values of parts with their
            names: the part ``caption.txt`` is the field ``caption``.
        others: Crude samples of the same key; None where a dataset has none.

    Raises:
        ConfigError: A typed sample has no field of a part's name, or another sample is not crude.

    >>> join_parts(CrudeSample({"__key__": "a", "jpg": 1}), CrudeSample({"__key__": "b", "txt": "new"}), None)["txt"]
    'new'
    """
    added = {name: value for other in others if other is not None for name, value in _parts(other)}
    if isinstance(sample, dict):
        return CrudeSample({**sample, **added})
    joined = copy(sample)
    known = {one.name for one in fields(sample)} if is_dataclass(sample) else set()
    for name, value in added.items():
        field = name.partition(".")[0]
        if field not in known:
            raise ConfigError(
                f"expected parts with the names of fields of {type(sample).__name__}, found {name!r}",
                hint=f"name it after a field ({', '.join(sorted(n for n in known if n[:2] != '__'))}), or write a"
                " joiner of your own",
            )
        setattr(joined, field, value)
    return joined


def _parts(other: Any) -> list[tuple[str, Any]]:
    if not isinstance(other, dict):
        raise ConfigError(
            f"expected crude samples of added parts, found {type(other).__name__}",
            hint="remove the dataset.yaml of the added parts, or write a joiner of your own",
        )
    return [(name, value) for name, value in other.items() if not (name.startswith("__") and name.endswith("__"))]
