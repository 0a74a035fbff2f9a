"""Read the split file and ``.info.json`` of a dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from ...errors import ConfigError
from ...storage import Storage, list_once, read_document
from ..data_kind import SHARD_SUFFIXES
from ..nv_meta import FOLDER, FORMAT_VERSION, INFO_JSON, INFO_YAML, SPLIT_JSON, SPLIT_YAML
from .split_config import SplitConfig, parse_split_config
from .yaml_document import parse_yaml

_MARK_BITS = 128


def current_split_file(storage: Storage, name: str = SPLIT_YAML) -> str | None:
    """Return the name in ``.nv-meta`` of the split file in use, or None if it does not exist.

    Args:
        name: Name of the split file. For ``split.yaml``, the default, ``split.json`` is the fallback.
    """
    for candidate in (name, SPLIT_JSON) if name == SPLIT_YAML else (name,):
        if storage.exists(f"{FOLDER}/{candidate}"):
            return candidate
    return None


def read_split_config(storage: Storage, name: str = SPLIT_YAML) -> SplitConfig | None:
    """Read the split file in use. Return None if it does not exist."""
    current = current_split_file(storage, name)
    if current is None:
        return None
    file = f"{FOLDER}/{current}"
    return parse_split_config(read_document(storage, file).decode("utf-8", "replace"), file=storage.path(file))


class _ShardInfo(msgspec.Struct):
    shard_counts: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    energon_version: str | None = None


def encode_shard_info(shard_counts: Mapping[str, int]) -> bytes:
    """Write ``.info.json``, without other keys, because other readers fail on keys they do not know."""
    info = {"energon_version": FORMAT_VERSION, "shard_counts": dict(shard_counts)}
    return json.dumps(info, indent=2).encode("ascii")


def commit_mark(uuid_number: int) -> bytes:
    """Return white space that ends an ``.info.json`` and makes each commit's one unique, for any shards.

    A store's version (ETag) may be a hash of the contents: without the mark, a commit could not tell the file of
    another prepare of the same shards from its own, or from the one that it replaces.
    """
    return b"\n" + bytes(b" \t"[uuid_number >> bit & 1] for bit in reversed(range(_MARK_BITS)))


def marked_index(info: bytes) -> int | None:
    """Return the number of the uuid whose mark ends an ``.info.json``; None if it has none."""
    mark = info[-_MARK_BITS:]
    if len(info) <= _MARK_BITS or info[-_MARK_BITS - 1] != ord("\n") or mark.strip(b" \t"):
        return None
    return int(mark.translate(bytes.maketrans(b" \t", b"01")), 2)


def is_prepared(storage: Storage) -> bool:
    """Return True if a folder has the file that ends a prepare, ``.info.json``."""
    list_once(storage, FOLDER)
    return storage.exists(INFO_JSON) or storage.exists(INFO_YAML)


def read_shard_info(storage: Storage) -> dict[str, int] | None:
    """Read the number of samples of each shard. Return None if the dataset is not prepared."""
    name = next(filter(storage.exists, (INFO_JSON, INFO_YAML)), None)
    if name is None:
        return None
    data, file = read_document(storage, name), storage.path(name)
    try:
        # JSON is also YAML, but the JSON parser is a hundred times faster, and there may be 50,000 shards.
        values = json.loads(data) if name == INFO_JSON else parse_yaml(data.decode("utf-8"), file=file)
        counts = msgspec.convert(values, _ShardInfo).shard_counts
        check_shard_names(counts)
        return counts
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"expected the number of samples of each shard: {error}",
            file=file,
            hint="run energon prepare again with --force-overwrite",
        ) from error


def check_shard_names(names: Iterable[str]) -> None:
    """Check that each name is the relative path of a shard inside the dataset.

    Raises:
        ValueError: A name leads elsewhere. Files are read, and written next to them, by these names.

    >>> check_shard_names(["../s.tar"])
    Traceback (most recent call last):
    ValueError: expected the name of a .tar, .jsonl or .parquet file in the dataset, found '../s.tar'
    """
    for name in names:
        if not name.endswith(SHARD_SUFFIXES) or "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            short = repr(name if len(name) <= 120 else name[:119] + "…")
            raise ValueError(f"expected the name of a .tar, .jsonl or .parquet file in the dataset, found {short}")
