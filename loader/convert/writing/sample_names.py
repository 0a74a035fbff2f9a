"""Check keys and part names of samples to write, and choose split parts by keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from ...errors import SampleError

_WRONG_IN_KEY = re.compile(r"[\x00-\x1f\x7f]|^/|/$|//|^$")


def checked_key(key: object, part_names: Iterable[str]) -> str:
    """Return the key of a sample.

    Args:
        key: The key, as the program gives it.
        part_names: Names of its parts.

    Raises:
        SampleError: The key or a name cannot be written in a shard, or there are no parts.
    """
    if not isinstance(key, str):
        raise SampleError("the sample has no '__key__'", hint="add a text that is unique in the dataset")
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

    Args:
        key: Key of a sample.
        ratio: Part → its share.

    >>> split_by_hash("0001", {"train": 1, "val": 0})
    'train'
    """
    if ratio is None:
        return ""
    place = int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"split").digest(), "big") / 2**64
    place *= sum(ratio.values())
    for name, share in ratio.items():
        if place < share:
            return name
        place -= share
    return next(name for name in reversed([*ratio]) if ratio[name])
