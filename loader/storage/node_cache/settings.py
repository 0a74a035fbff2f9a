"""The folder and the limits of a cache, as users set them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...errors import ConfigError

CACHE_FOLDER_VARIABLE = "ENERGON_CACHE_DIR"
"""Environment variable with the folder of the cache, which is off without it."""

CACHE_BYTES_VARIABLE = "ENERGON_CACHE_BYTES"
"""Environment variable with the limit, such as ``500GB``; half of the disk by default."""

CACHE_NETWORK_VARIABLE = "ENERGON_CACHE_ON_NETWORK"
"""Environment variable that permits a folder on another machine, if it is 1."""

_UNITS = {"": 1, **{unit: 1000**power for power, unit in enumerate(("K", "M", "G", "T"), 1)}}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate(("K", "M", "G", "T"), 1)}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Settings of a cache.

    Attributes:
        folder: Folder in which the cache creates its own.
        limit_bytes: Most bytes of its files; None for half of the disk.
        free_bytes: Bytes of the disk that it leaves free; None for 20 GiB, or a tenth of a smaller disk.
        on_network: Accept a folder on another machine.
    """

    folder: str
    limit_bytes: int | None = None
    free_bytes: int | None = None
    on_network: bool = False


def cache_settings(folder: str | None = None, limit: str | int | None = None) -> CacheSettings | None:
    """Return the settings of the cache; None if it is off.

    Args:
        folder: Its folder. None reads the environment variable; an empty text turns the cache off.
        limit: Most bytes of its files; None reads the environment variable.
    """
    folder = os.environ.get(CACHE_FOLDER_VARIABLE, "") if folder is None else folder
    if not folder:
        return None
    source = "the storage option cache_bytes"
    if limit is None:
        limit, source = os.environ.get(CACHE_BYTES_VARIABLE) or None, CACHE_BYTES_VARIABLE
    return CacheSettings(
        folder=os.path.abspath(os.path.expanduser(folder)),
        limit_bytes=None if limit is None else parse_bytes(str(limit), source),
        on_network=os.environ.get(CACHE_NETWORK_VARIABLE) == "1",
    )


def parse_bytes(text: str, source: str) -> int:
    """Return a number of bytes.

    Args:
        text: A number, with or without a unit.

    >>> parse_bytes("1.5 GB", "a test"), parse_bytes("8MiB", "a test"), parse_bytes("100", "a test")
    (1500000000, 8388608, 100)
    """
    match = _NUMBER.fullmatch(text.strip().upper())
    if match is None or match[2] == "I":
        raise ConfigError(f"expected a number of bytes in {source}, found {text!r}", hint="write 500GB or 2TB")
    return int(float(match[1]) * _UNITS[match[2]])
