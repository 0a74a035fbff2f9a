"""``.info.json``: the shards of a dataset in order, with their numbers of samples (``docs/format.md``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import msgspec

from ..errors import ConfigError
from ..storage import Storage
from .nv_meta import FORMAT_VERSION, INFO_JSON, INFO_YAML
from .shard_name import check_shard_names
from .yaml_document import parse_yaml

__all__ = ["encode_shard_info", "read_shard_info"]


class _ShardInfo(msgspec.Struct):
    shard_counts: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    energon_version: str | None = None


def encode_shard_info(shard_counts: Mapping[str, int]) -> bytes:
    """Write ``.info.json``: other readers die on keys they do not know, so nothing else goes in."""
    info = {"energon_version": FORMAT_VERSION, "shard_counts": dict(shard_counts)}
    return json.dumps(info, indent=2).encode("ascii")


def read_shard_info(storage: Storage) -> dict[str, int] | None:
    """Read the shards and their numbers of samples; None where the dataset is not prepared.

    Raises:
        ConfigError: The file does not say that.
    """
    for name in (INFO_JSON, INFO_YAML):
        if storage.exists(name):
            return _parse(storage.read(name), file=storage.path(name))
    return None


def _parse(data: bytes, *, file: str) -> dict[str, int]:
    try:
        # JSON is YAML, but its own parser is a hundred times faster, and there may be 50,000 shards.
        values = json.loads(data) if file.endswith(".json") else parse_yaml(data.decode("utf-8"), file=file)
        counts = msgspec.convert(values, _ShardInfo).shard_counts
        check_shard_names(counts)
        return counts
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"expected the shards with their numbers of samples: {error}",
            file=file,
            do="run energon prepare again with --force-overwrite",
        ) from error
