"""Keys of samples and names of parts: names that tar members can have, each once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...format.tar.names import split_member_name

_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_MAX_BYTES = 1000  # of a key; file systems allow 255 for each folder, tars any length


def key_of_path(path: str) -> str:
    """Return the key of a sample from a path without its extension.

    A dot in the last component would begin the name of the part, components that start with a dot are hidden, and
    ``..`` leads out of a folder. Readers skip the members of a first folder ``__x__``.

    >>> key_of_path("a/b.c/photo.v2")
    'a/b.c/photo_v2'
    >>> key_of_path("../x/.hidden")
    '_/x/_hidden'
    >>> key_of_path("__x__/a")
    '_x__/a'
    """
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    text = _UNSAFE.sub("_", text)
    names = [name for name in text.split("/") if name not in ("", ".")]
    folders = ["_" + name[1:].lstrip(".") if name.startswith(".") else name for name in names]
    if not folders:
        return "_"
    folders[-1] = folders[-1].replace(".", "_")
    if split_member_name("/".join(folders) + ".x") is None:
        folders[0] = folders[0][1:]
    key = "/".join(folders)
    if len(key.encode()) > _MAX_BYTES:
        digest = blake2b(key.encode(), digest_size=8).hexdigest()
        key = key.encode()[: _MAX_BYTES - 20].decode("utf-8", "ignore").rstrip("/") + f"-{digest}"
    return key


def unique_part(name: str, taken: Collection[str]) -> str:
    """Return a part name that a sample does not have: this one, or with a number before it.

    >>> unique_part("jpg", ["txt"]), unique_part("jpg", ["jpg"]), unique_part("jpg", ["jpg", "2.jpg"])
    ('jpg', '2.jpg', '3.jpg')
    """
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{number}.{name}"
    return unique


def hash_key(key: str) -> int:
    """Return 63 bits of a hash of a key, the same in each process."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") >> 1


def rename_repeated(hashes: npt.NDArray[np.int64], key_of: Callable[[int], str]) -> dict[int, str]:
    """Return new keys for the rows whose key an earlier row has: the key, a hyphen and a number from 2.

    Args:
        hashes: Hash of the key of each row, shape (n,).
        key_of: Returns the key of a row.
    """
    order = np.argsort(hashes, kind="stable")
    repeats = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(repeats):
        return {}
    suspects = np.unique(np.concatenate((order[repeats], order[repeats + 1])))
    taken = np.sort(hashes)
    seen: set[str] = set()
    counts: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for row in suspects.tolist():
        key = key_of(row)
        if key not in seen:
            seen.add(key)
            continue
        number = counts.get(key, 1)
        while True:
            number += 1
            candidate = f"{key}-{number}"
            if candidate not in seen and not _contains(taken, hash_key(candidate)):
                break
        counts[key] = number
        seen.add(candidate)
        renamed[row] = candidate
    return renamed


def _contains(hashes: npt.NDArray[np.int64], value: int) -> bool:
    place = int(np.searchsorted(hashes, value))
    return place < len(hashes) and int(hashes[place]) == value
